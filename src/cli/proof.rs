//! `annals keys`, `annals head`, `annals bundle`: make proofs to keep elsewhere or to hand over. `annals keys server` is
//! in `server_keys.rs`.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::print::{Output, bytes, plural, time};
use super::scan_secrets::Values;
use super::{DONE, Place, server_keys};
use crate::audit::proof::{self, BundleOptions, Key, PublicKey, Scope, SignedHead, Withheld, write_bundle};
use crate::error::{Error, Result, SetupError};
use crate::ids::{ConversationId, Timestamp};
use crate::redact::Finder;
use crate::store::Store;
use crate::untrusted;

/// Show a key for signing heads, or make one; with `server`: the named keys of a server
///
/// A key for heads is an Ed25519 key in a file of your own (PKCS#8, PEM; mode 0600). Give its public half to anyone who
/// checks heads. The keys of a server are something else: `annals keys server --help` explains them.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "Examples:
  annals keys auditor.pem --new          makes auditor.pem and auditor.pem.pub
  annals keys auditor.pem                shows its public half
  annals keys server list                shows the named keys of the server")]
pub(super) struct Keys {
    #[command(subcommand)]
    pub command: Option<KeysCommand>,
    /// The key's file; without --new it may also be the file of a public key
    #[arg(value_name = "FILE", required = true)]
    pub file: Option<PathBuf>,
    /// Make a new key; the file must not exist
    #[arg(long)]
    pub new: bool,
    /// Write the public half of the key to FILE.pub, which must not exist
    #[arg(long, conflicts_with = "new")]
    pub public: bool,
}

/// What `annals keys` does besides keys for heads.
#[derive(Debug, Subcommand)]
pub(super) enum KeysCommand {
    Server(server_keys::Arguments),
}

/// Print where every hash chain ends now; keep this text in another place
///
/// With this text, `annals verify --against` can check whether anything that it records was changed or removed
/// since. docs/tamper-evidence.md explains what that proves.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals head > head.txt
  annals head --sign auditor.pem > head.txt
  annals head 5610a7 --sign auditor.pem | mail -s head someone@example.com")]
pub(super) struct Head {
    /// Only this conversation, by id or the start of one
    pub id: Option<String>,
    /// Sign it with this key
    #[arg(long, value_name = "KEYFILE")]
    pub sign: Option<PathBuf>,
}

/// Write a conversation as a folder that an outsider can check with standard tools
#[derive(Debug, Args)]
#[command(after_help = "Example:
  annals bundle 5610a7 --to proof/ --sign auditor.pem      proof/README.md says how to check it
  annals bundle 5610a7 --to proof/ --redact-secrets        without what `scan-secrets` finds
  annals bundle 5610a7 --to proof/ --redact-pattern '(?i)jane doe' --redact-event 23ebb9d8")]
pub(super) struct Bundle {
    /// The conversation, by id or the start of one
    pub id: String,
    /// The folder; it must be empty or must not exist
    #[arg(long, value_name = "DIR")]
    pub to: PathBuf,
    /// Sign its head with this key
    #[arg(long, value_name = "KEYFILE")]
    pub sign: Option<PathBuf>,
    /// Withhold what `scan-secrets` finds; the store keeps it, and the digest stays in the chain
    #[arg(long)]
    pub redact_secrets: bool,
    /// Withhold what this regular expression matches; may be given several times
    #[arg(long, value_name = "REGEX")]
    pub redact_pattern: Vec<String>,
    /// Withhold all text of this event, by id or the start of one; may be given several times
    #[arg(long, value_name = "EVENT")]
    pub redact_event: Vec<String>,
    #[command(flatten)]
    pub values: Values,
}

pub(super) fn keys(place: &Place<'_>, command: &Keys, output: &Output) -> Result<u8> {
    if let Some(KeysCommand::Server(command)) = &command.command {
        return server_keys::run(place, command, output);
    }
    // Only `server` makes the file optional.
    let Some(file) = &command.file else { return Ok(DONE) };
    if command.new {
        let public_file = public_file(file);
        Key::make_pair(file, &public_file).map_err(|error| match error {
            Error::WouldOverwrite { path } if path != public_file && Key::read(&path).is_ok() => {
                Error::Setup(SetupError::NoPublicHalf { file: path, public: public_file.clone() })
            }
            other => other,
        })?;
        output.remark(format!(
            "{} signs: keep it private; {} checks signatures: you may give it to anyone",
            file.display(),
            public_file.display()
        ));
    }
    if command.public {
        Key::read(file)?.public().save(&public_file(file))?;
    }
    let public = PublicKey::read(&file.to_string_lossy())?;
    if output.json {
        output.value(&json!({"public_key": public.to_string(), "pem": public.to_pem()}))?;
    } else {
        output.line(public.to_string())?;
    }
    Ok(DONE)
}

/// Returns the path for the public half of a new key.
fn public_file(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".pub");
    name.into()
}

pub(super) fn head(place: &Place<'_>, command: &Head, output: &Output) -> Result<u8> {
    let key = command.sign.as_deref().map(Key::read).transpose()?;
    let store = place.read()?;
    let id = command.id.as_deref().map(|prefix| store.resolve(prefix)).transpose()?;
    let scope = if id.is_some() { Scope::Conversation } else { Scope::Whole };
    let head = proof::Head { scope, at: Timestamp::now(), heads: store.audit().chain_heads(id.as_ref())? };
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
            output.remark("not signed: its keeper must be trusted (--sign KEYFILE signs it)");
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

/// Returns what the bundle must not show.
fn withheld(command: &Bundle, store: &Store, id: &ConversationId) -> Result<Withheld> {
    let values = command.values.read()?;
    let mut finders = Vec::new();
    if command.redact_secrets {
        finders.push(store.retention().finder_with_own(id, &Finder::secrets(), &values)?);
    } else if !values.is_empty() {
        finders.push(Finder::default().with_values(&values)?);
    }
    for pattern in &command.redact_pattern {
        finders.push(Finder::expression(pattern)?);
    }
    let events = command.redact_event.iter().map(|prefix| store.resolve_event(id, prefix));
    Ok(Withheld { events: events.collect::<Result<_>>()?, finders })
}

/// Reads a head from a file. If `key` is given, the head must be signed with that key.
pub(super) fn read_head(path: &Path, key: Option<&str>) -> Result<SignedHead> {
    let wanted = key.map(PublicKey::read).transpose()?;
    let text =
        untrusted::open_named(path).and_then(std::io::read_to_string).map_err(Error::io("reading", path))?;
    let signed = SignedHead::parse(&text)?;
    match wanted {
        Some(wanted) if signed.signer.as_ref() != Some(&wanted) => {
            Err(Error::WrongSignature { key: wanted.to_string() })
        }
        _ => Ok(signed),
    }
}

/// Returns a head as JSON.
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

/// Describes in one line the head that the store was compared with.
pub(super) fn describe(signed: &SignedHead, is_held_to_key: bool) -> String {
    let head = &signed.head;
    let who = match (&signed.signer, is_held_to_key) {
        (Some(key), true) => format!("signed by {key}"),
        (Some(key), false) => format!("signed by {key}; --key compares it with a key you know"),
        (None, _) => "not signed: trust it only as much as its keeper".to_owned(),
    };
    format!(
        "against the head of {} UTC: {} ({who})",
        time(head.at),
        plural(head.heads.conversations.len() as u64, "conversation")
    )
}
