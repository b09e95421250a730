//! A bundle: a folder with one conversation and everything that is needed to check it with standard tools.

use std::fmt::Write as _;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use super::head::{Head, Scope};
use super::key::Key;
use super::withhold::{Shown, Withheld};
use crate::chain::{self, Digest};
use crate::error::{Error, Result};
use crate::ids::{ConversationId, Timestamp};
use crate::store::{ChainLink, Store};
use crate::untrusted;

const README: &str = include_str!("bundle.md");
const CHECK: &str = include_str!("bundle.py");

/// The options for writing a bundle.
#[derive(Debug)]
#[non_exhaustive]
pub struct BundleOptions<'a> {
    /// The key that signs the bundle's head, if any.
    pub key: Option<&'a Key>,
    /// The creation time that the bundle states.
    pub at: Timestamp,
    /// The text that the bundle does not show.
    pub withheld: Withheld,
}

impl BundleOptions<'_> {
    /// Makes the options of a bundle that states this creation time. It is not signed and shows every text.
    #[must_use]
    pub fn new(at: Timestamp) -> Self {
        Self { key: None, at, withheld: Withheld::default() }
    }
}

setters!(BundleOptions<'a> { key?: &'a Key, at, withheld: Withheld });

/// The contents of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bundle {
    /// The number of events.
    pub events: u64,
    /// The number of events whose payload was redacted in the store, so that only its digest is left.
    pub redacted: u64,
    /// The number of other events whose payload is withheld from this bundle.
    pub withheld: u64,
    /// The number of payload bytes.
    pub bytes: u64,
    /// The head of the bundle's chain.
    pub head: Head,
}

/// Writes a conversation as a bundle into the folder `to`, which must be empty or not exist.
///
/// The chain is checked while it is written. A bundle can always be checked, even if payloads are withheld, because it
/// contains the digest of every payload.
///
/// # Errors
/// [`Error::WouldOverwrite`], [`Error::UnknownConversation`], [`Error::UnknownEvent`], [`Error::SecretInId`]
/// if an id contains text to be withheld; [`Error::Io`], and [`Error::Corrupt`] if the chain is broken. After the
/// last two the folder is incomplete.
pub fn write_bundle(
    store: &Store,
    conversation: &ConversationId,
    to: &Path,
    options: &BundleOptions<'_>,
) -> Result<Bundle> {
    let BundleOptions { key, at, withheld } = options;
    let (key, at) = (*key, *at);
    // A bundle contains only events, so its head covers only events.
    let heads = store.audit().chain_heads(Some(conversation))?.of_events();
    let [end] = heads.conversations.as_slice() else {
        return Err(Error::UnknownConversation { conversation: conversation.to_string() });
    };
    let end = end.clone();
    withheld.check(store, conversation)?;
    let head = Head { scope: Scope::Conversation, at, heads };
    make_folder(to)?;
    let payloads = to.join("payloads");
    std::fs::create_dir(&payloads).map_err(Error::io("creating", &payloads))?;
    let mut writer = Writer {
        conversation,
        folder: to,
        withheld,
        chain: create(&to.join("chain.tsv"))?,
        sums: create(&to.join("payloads.sha256"))?,
        previous: Digest::START,
        bundle: Bundle { events: 0, redacted: 0, withheld: 0, bytes: 0, head },
    };
    store.audit().links(conversation, |link| {
        // Events that were appended after the head was read are not part of the bundle.
        if link.sequence.0 < end.events { writer.link(link) } else { Ok(()) }
    })?;
    let Writer { mut chain, mut sums, previous, bundle, .. } = writer;
    for (file, name) in [(&mut chain, "chain.tsv"), (&mut sums, "payloads.sha256")] {
        file.flush().map_err(Error::io("writing", to.join(name)))?;
    }
    if previous != end.hash || bundle.events != end.events {
        return Err(broken(conversation, end.events));
    }
    let text = match key {
        Some(key) => bundle.head.to_signed_text(key),
        None => bundle.head.to_text(),
    };
    write(&to.join("head.txt"), text.as_bytes())?;
    if let Some(key) = key {
        write(&to.join("public-key.pem"), key.public().to_pem().as_bytes())?;
    }
    write(&to.join("check.py"), CHECK.as_bytes())?;
    write(&to.join("README.md"), readme(conversation, &bundle, key).as_bytes())?;
    Ok(bundle)
}

fn make_folder(to: &Path) -> Result<()> {
    match std::fs::read_dir(to) {
        Ok(mut entries) => match entries.next() {
            Some(_) => Err(Error::WouldOverwrite { path: to.to_owned() }),
            None => Ok(()),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            std::fs::create_dir_all(to).map_err(Error::io("creating", to))
        }
        Err(error) => Err(Error::io("reading", to)(error)),
    }
}

fn create(path: &Path) -> Result<BufWriter<std::fs::File>> {
    std::fs::File::create_new(path).map(BufWriter::new).map_err(Error::io("creating", path))
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    untrusted::write(path, bytes).map_err(Error::io("writing", path))
}

fn broken(conversation: &ConversationId, sequence: u64) -> Error {
    Error::Corrupt { what: format!("the chain of {conversation} does not hold at event {sequence}") }
}

/// A bundle that is being written.
struct Writer<'a> {
    conversation: &'a ConversationId,
    folder: &'a Path,
    withheld: &'a Withheld,
    chain: BufWriter<std::fs::File>,
    sums: BufWriter<std::fs::File>,
    previous: Digest,
    bundle: Bundle,
}

impl Writer<'_> {
    fn link(&mut self, link: ChainLink<'_>) -> Result<()> {
        let digest = link.redacted.unwrap_or_else(|| Digest::of(link.payload.as_bytes()));
        let sequence = link.sequence.0;
        let hash = chain::link(self.conversation.as_str(), sequence, link.id, digest, self.previous);
        if hash != link.hash || sequence != self.bundle.events {
            return Err(broken(self.conversation, sequence));
        }
        writeln!(self.chain, "{sequence}\t{digest}\t{hash}\t{}", link.id)
            .map_err(Error::io("writing", self.folder.join("chain.tsv")))?;
        let is_redacted = link.redacted.is_some();
        match self.withheld.show(&link) {
            Shown::Whole if is_redacted => self.write_remaining_text(sequence, link.payload)?,
            Shown::Whole => {
                let name = format!("payloads/{sequence:06}.json");
                write(&self.folder.join(&name), link.payload.as_bytes())?;
                writeln!(self.sums, "{digest}  {name}")
                    .map_err(Error::io("writing", self.folder.join("payloads.sha256")))?;
                self.bundle.bytes += link.payload.len() as u64;
            }
            Shown::Instead(text) => {
                self.bundle.withheld += u64::from(!is_redacted);
                if let Some(text) = text {
                    self.write_remaining_text(sequence, &text)?;
                }
            }
        }
        self.bundle.redacted += u64::from(is_redacted);
        self.previous = hash;
        self.bundle.events += 1;
        Ok(())
    }
}

impl Writer<'_> {
    /// Writes the readable rest of an event whose payload is not in the bundle.
    fn write_remaining_text(&self, sequence: u64, text: &str) -> Result<()> {
        let folder = self.folder.join("redacted");
        std::fs::create_dir_all(&folder).map_err(Error::io("creating", &folder))?;
        write(&folder.join(format!("{sequence:06}.json")), text.as_bytes())
    }
}

fn readme(conversation: &ConversationId, bundle: &Bundle, key: Option<&Key>) -> String {
    let mut signed = String::from("It is not signed, so it does not prove who made it.");
    if let Some(key) = key {
        signed.clear();
        // Writing to a String cannot fail.
        let _ = write!(
            signed,
            "It is signed with the Ed25519 key\n\n    {}\n\nAsk the owner over another channel whether this is the \
             right key. The file `public-key.pem` alone proves nothing.",
            key.public()
        );
    }
    let (signature, comments): (&str, &str) = match key {
        Some(_) => ("", ""),
        None => ("<!--\n", "-->\n"),
    };
    README
        .replace("{signed}", &signed)
        .replace("{signature}", signature)
        .replace("{/signature}\n", comments)
        .replace("{events}", &bundle.events.to_string())
        .replace("{missing}", &(bundle.redacted + bundle.withheld).to_string())
        .replace("{at}", &bundle.head.at.to_rfc3339())
        .replace("{store}", &bundle.head.heads.store_id)
        .replace("{quoted}", &conversation.as_str().replace('\'', "'\\''"))
        .replace("{id}", conversation.as_str())
}
