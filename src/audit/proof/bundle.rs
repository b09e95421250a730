//! A bundle: a folder with one conversation and everything that is needed to check it with standard tools.

use std::fmt::Write as _;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use super::head::{Head, Scope};
use super::key::Key;
use super::withhold::{Shown, Withheld};
use crate::chain::{self, Digest};
use crate::error::{Error, Result};
use crate::ids::{ConversationId, Timestamp};
use crate::partial::{self, Leftovers, Partial};
use crate::store::{ChainLink, Store};
use crate::untrusted;

const README: &str = include_str!("bundle.md");
const CHECK: &str = include_str!("bundle.py");

/// The file that says how a bundle is checked. It comes last.
const README_FILE: &str = "README.md";

/// The name that an unfinished bundle has within the folder that is given.
const WITHIN: &str = "bundle";

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
/// It is made in a hidden folder and gets its name when it is complete. In a folder that exists, the files get their places one
/// after the other at the end, `README.md` as the last one. The chain is checked while it is written. A bundle can always be checked, even if payloads are withheld, because it
/// contains the digest of every payload.
///
/// # Errors
/// [`Error::WouldOverwrite`], [`Error::UnknownConversation`], [`Error::UnknownEvent`], [`Error::SecretInId`]
/// if an id contains text to be withheld; [`Error::Io`], and [`Error::Corrupt`] if the chain is broken. An error leaves
/// no incomplete bundle.
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
    let (partial, place) = begin(to)?;
    let made = partial.content();
    let payloads = made.join("payloads");
    std::fs::create_dir_all(&payloads).map_err(Error::io("creating", &payloads))?;
    let mut writer = Writer {
        conversation,
        folder: &made,
        withheld,
        chain: create(&made.join("chain.tsv"))?,
        sums: create(&made.join("payloads.sha256"))?,
        previous: Digest::START,
        bundle: Bundle { events: 0, redacted: 0, withheld: 0, bytes: 0, head },
    };
    store.audit().links(conversation, |link| {
        // Events that were appended after the head was read are not part of the bundle.
        if link.sequence.0 < end.events { writer.link(link) } else { Ok(()) }
    })?;
    let Writer { mut chain, mut sums, previous, bundle, .. } = writer;
    for (file, name) in [(&mut chain, "chain.tsv"), (&mut sums, "payloads.sha256")] {
        file.flush().map_err(Error::io("writing", made.join(name)))?;
    }
    if previous != end.hash || bundle.events != end.events {
        return Err(broken(conversation, end.events));
    }
    let text = match key {
        Some(key) => bundle.head.to_signed_text(key),
        None => bundle.head.to_text(),
    };
    write(&made.join("head.txt"), text.as_bytes())?;
    if let Some(key) = key {
        write(&made.join("public-key.pem"), key.public().to_pem().as_bytes())?;
    }
    write(&made.join("check.py"), CHECK.as_bytes())?;
    write(&made.join(README_FILE), readme(conversation, &bundle, key).as_bytes())?;
    place.take(&made)?;
    Ok(bundle)
}

/// Where a bundle goes when it is complete.
enum Place {
    /// The path at which there is nothing.
    Free(PathBuf),
    /// The folder that is there. It may be one that cannot be replaced, such as the current folder.
    Within(PathBuf),
}

/// Begins a bundle at `to`. What dead processes left of the same bundle is removed.
fn begin(to: &Path) -> Result<(Partial, Place)> {
    match std::fs::read_dir(to) {
        Ok(_) => {
            Leftovers::of(to).clear(WITHIN);
            let mut entries = std::fs::read_dir(to).map_err(Error::io("reading", to))?;
            if entries.next().is_some() {
                return Err(Error::WouldOverwrite { path: to.to_owned() });
            }
            Ok((Partial::begin(to, WITHIN)?, Place::Within(to.to_owned())))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let path: PathBuf = to.components().collect(); // without a slash at the end
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent).map_err(Error::io("creating", parent))?;
            }
            Ok((Partial::beside(&path)?, Place::Free(path)))
        }
        Err(error) => Err(Error::io("reading", to)(error)),
    }
}

impl Place {
    /// Gives the complete bundle its name, or its files theirs.
    fn take(&self, made: &Path) -> Result<()> {
        let folder = match self {
            Self::Free(path) => return partial::give_name(made, path, "naming"),
            Self::Within(folder) => folder,
        };
        let entries = std::fs::read_dir(made).map_err(Error::io("reading", made))?;
        let names: std::io::Result<Vec<_>> = entries.map(|entry| Ok(entry?.file_name())).collect();
        let mut names = names.map_err(Error::io("reading", made))?;
        names.sort_by_key(|name| name == README_FILE);
        for name in names {
            partial::give_name(&made.join(&name), &folder.join(&name), "naming")?;
        }
        Ok(())
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
