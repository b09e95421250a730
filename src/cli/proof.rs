//! `annals keys`, `annals head`, `annals bundle`: proof to keep elsewhere or to give away.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::arguments::{Bundle, Head as HeadArguments, Keys};
use super::print::{Output, bytes, plural, time};
use super::{DONE, Place};
use crate::audit::proof::{BundleOptions, Head, Key, PublicKey, Scope, SignedHead, Withheld, write_bundle};
use crate::error::{Error, Result};
use crate::ids::{ConversationId, Timestamp};
use crate::redact::Finder;
use crate::store::Store;

pub(super) fn keys(command: &Keys, output: &Output) -> Result<u8> {
    if command.new {
        let public_file = public_file(&command.file);
        if public_file.exists() {
            return Err(Error::WouldOverwrite { path: public_file });
        }
        let key = Key::make(&command.file)?;
        std::fs::write(&public_file, key.public().to_pem()).map_err(Error::io("writing", &public_file))?;
        output.remark(format!(
            "{} signs: keep it to yourself; {} checks: give it to whoever asks",
            command.file.display(),
            public_file.display()
        ));
    }
    let public = PublicKey::read(&command.file.to_string_lossy())?;
    if output.json {
        output.value(&json!({"public_key": public.to_string(), "pem": public.to_pem()}))?;
    } else {
        output.line(public.to_string())?;
    }
    Ok(DONE)
}

/// Where the public half of a new key goes.
fn public_file(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".pub");
    name.into()
}

pub(super) fn head(place: &Place<'_>, command: &HeadArguments, output: &Output) -> Result<u8> {
    let key = command.sign.as_deref().map(Key::read).transpose()?;
    let store = place.read()?;
    let id = command.id.as_deref().map(|prefix| store.resolve(prefix)).transpose()?;
    let scope = if id.is_some() { Scope::Conversation } else { Scope::Whole };
    let head = Head { scope, at: Timestamp::now(), heads: store.heads(id.as_ref())? };
    let text = match &key {
        Some(key) => head.to_signed_text(key),
        None => head.to_text(),
    };
    if output.json {
        let signed = SignedHead { head, signer: key.map(|key| key.public()) };
        let mut value = value(&signed);
        value["text"] = json!(text);
        output.value(&value)?;
    } else {
        output.text(&text)?;
        if key.is_none() {
            output.remark("not signed: whoever keeps it must be trusted (--sign KEYFILE)");
        }
    }
    Ok(DONE)
}

pub(super) fn bundle(place: &Place<'_>, command: &Bundle, output: &Output) -> Result<u8> {
    let key = command.sign.as_deref().map(Key::read).transpose()?;
    let store = place.read()?;
    let id = store.resolve(&command.id)?;
    let withheld = withheld(command, &store, &id)?;
    let options = BundleOptions { key: key.as_ref(), at: Timestamp::now(), withheld };
    let bundle = write_bundle(&store, &id, &command.to, &options)?;
    if output.json {
        output.value(&json!({
            "id": id.as_str(),
            "path": command.to,
            "events": bundle.events,
            "redacted": bundle.redacted,
            "withheld": bundle.withheld,
            "payload_bytes": bundle.bytes,
            "key": key.map(|key| key.public().to_string()),
        }))?;
    } else {
        output.line(format!(
            "{}: {} ({}); README.md in it says how to check them",
            command.to.display(),
            plural(bundle.events, "event"),
            bytes(bundle.bytes)
        ))?;
        if bundle.withheld > 0 {
            output.line(format!(
                "{} withheld: their digests are in the chain, what may be read of them in {}",
                plural(bundle.withheld, "event"),
                command.to.join("redacted").display()
            ))?;
        }
    }
    Ok(DONE)
}

/// What the bundle is not to show.
fn withheld(command: &Bundle, store: &Store, id: &ConversationId) -> Result<Withheld> {
    let values = command.values.read()?;
    let mut finders = Vec::new();
    if command.redact_secrets {
        finders.push(store.finder_with_own(id, &Finder::secrets(), &values)?);
    } else if !values.is_empty() {
        finders.push(Finder::default().with_values(&values)?);
    }
    for pattern in &command.redact_pattern {
        finders.push(Finder::expression(pattern)?);
    }
    let events = command.redact_event.iter().map(|prefix| store.resolve_event(id, prefix));
    Ok(Withheld { events: events.collect::<Result<_>>()?, finders })
}

/// Reads a head from a file and holds it to a key, where one is named.
pub(super) fn read_head(path: &Path, key: Option<&str>) -> Result<SignedHead> {
    let wanted = key.map(PublicKey::read).transpose()?;
    let text = std::fs::read_to_string(path).map_err(Error::io("reading", path))?;
    let signed = SignedHead::parse(&text)?;
    match wanted {
        Some(wanted) if signed.signer.as_ref() != Some(&wanted) => {
            Err(Error::WrongSignature { key: wanted.to_string() })
        }
        _ => Ok(signed),
    }
}

/// What a head is, for programs.
pub(super) fn value(signed: &SignedHead) -> Value {
    json!({
        "at": signed.head.at.to_rfc3339(),
        "scope": match signed.head.scope {
            Scope::Whole => "whole",
            Scope::Conversation => "conversation",
        },
        "store": signed.head.heads.store_id,
        "position": signed.head.heads.position.0,
        "conversations": signed.head.heads.conversations.len(),
        "key": signed.signer.as_ref().map(ToString::to_string),
    })
}

/// What a head was held against, in a line.
pub(super) fn describe(signed: &SignedHead, is_held_to_key: bool) -> String {
    let head = &signed.head;
    let who = match (&signed.signer, is_held_to_key) {
        (Some(key), true) => format!("signed by {key}"),
        (Some(key), false) => format!("signed by {key}; --key holds it to one you know"),
        (None, _) => "not signed: it is worth what its keeper is".to_owned(),
    };
    format!(
        "against the head of {} UTC: {} ({who})",
        time(head.at),
        plural(head.heads.conversations.len() as u64, "conversation")
    )
}
