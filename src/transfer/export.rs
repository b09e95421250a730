//! Writes conversations out: as the original folder, or as JSON lines.
//!
//! Everything is first written beside its final place, in a folder of its own (`partial.rs`). It is renamed when it is
//! complete, so that there is never half an export.

mod each;

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use super::layout::{self, Numbering};
use super::upgrade::UpgradeReport;
use crate::error::{Error, Result};
use crate::ids::{ConversationId, Sequence};
use crate::partial::{Leftovers, Partial};
use crate::store::{Container, Origin, Store};
use crate::untrusted;

pub use each::{ExportOutcome, ExportProgress, Selection};

/// The number of file names that are read from the store at once.
const PAGE: u64 = 1000;

/// The format of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// The conversation's folder: as it was imported, or as the reference would write it.
    #[default]
    OpenHands,
    /// The conversation's folder, upgraded so that SDK 1.58 opens it. The store is not changed.
    Upgraded,
    /// One file with one event a line.
    Jsonl,
}

/// The result of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportStatus {
    /// It was written.
    Written,
    /// It existed already with the same bytes.
    Unchanged,
}

/// One exported conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExportReport {
    /// The conversation.
    pub id: ConversationId,
    /// Its folder, or file.
    pub path: PathBuf,
    /// The result.
    pub status: ExportStatus,
    /// The number of its events.
    pub events: u64,
    /// The number of files that were written or compared.
    pub files: u64,
    /// The total size of these files, in bytes.
    pub bytes: u64,
    /// The changes of the upgrade. Empty if nothing had to be upgraded.
    pub upgrade: UpgradeReport,
}

/// Exports conversations of a store.
#[derive(Debug)]
pub struct Exporter<'a> {
    pub(super) store: &'a Store,
    format: Format,
    /// Whether the conversations of sub-agents are left out, because each is exported on its own.
    is_apart: bool,
}

impl<'a> Exporter<'a> {
    /// Makes an exporter of `store`.
    #[must_use]
    pub fn new(store: &'a Store, format: Format) -> Self {
        Self { store, format, is_apart: false }
    }

    /// Writes a conversation into the folder `to`, which is created if it does not exist.
    ///
    /// The conversations of its sub-agents are written within it. If they were imported from folders of their own, they
    /// are written beside it. `progress` receives the count after every event.
    ///
    /// # Errors
    /// [`Error::WouldOverwrite`] if a different file or folder is in the way, [`Error::UnknownConversation`],
    /// [`Error::Io`]. An error leaves no incomplete file or folder of a conversation. What an export that was killed has
    /// left of the same name is removed.
    pub fn export(
        &self,
        conversation: &ConversationId,
        to: &Path,
        progress: &mut dyn FnMut(u64),
    ) -> Result<ExportReport> {
        self.export_beside(&Leftovers::of(to), conversation, to, progress)
    }

    /// Does the same. `leftovers` are those in `to`.
    fn export_beside(
        &self,
        leftovers: &Leftovers,
        conversation: &ConversationId,
        to: &Path,
        progress: &mut dyn FnMut(u64),
    ) -> Result<ExportReport> {
        fs::create_dir_all(to).map_err(Error::io("creating", to))?;
        let origin = self.origin(conversation)?;
        let is_copy = self.store.trunk(conversation)?.foreign.is_some();
        let name = match (&origin, self.format) {
            (_, Format::Jsonl) => format!("{}.jsonl", conversation.folder_name()),
            // Each conversation of a database gets a folder of its own, because all their files have the same name.
            (
                Some(Origin { container: Some(Container { glue: None, .. }), is_file: false, .. }),
                Format::OpenHands,
            ) if is_copy => conversation.folder_name(),
            // Within the folders of two parents, two folders may have the same name.
            (Some(origin), Format::OpenHands) if self.is_apart && lies_within(Some(origin)) => {
                conversation.folder_name()
            }
            (Some(origin), Format::OpenHands) => last_name(&origin.folder).to_owned(),
            (None, Format::OpenHands) | (_, Format::Upgraded) => conversation.folder_name(),
        };
        let target = to.join(&name);
        leftovers.clear(&name);
        let partial = Partial::begin(to, &name)?;
        let mut target_files = Target { root: partial.content(), files: 0, bytes: 0 };
        let mut upgrade = UpgradeReport::default();
        let written = match self.format {
            Format::Upgraded => {
                self.write_upgraded(conversation, &mut target_files, "", &mut upgrade, progress)
            }
            Format::OpenHands | Format::Jsonl => {
                self.write(conversation, origin.as_ref(), &mut target_files, progress)
            }
        };
        let events = written?;
        let status = put(&partial, &target)?;
        drop(partial);
        let (files, bytes) = (target_files.files, target_files.bytes);
        let report =
            ExportReport { id: conversation.clone(), path: target, status, events, files, bytes, upgrade };
        if self.format == Format::OpenHands {
            if is_copy {
                self.write_beside(leftovers, conversation, to)?;
            }
            for child in self.children(conversation)? {
                if !lies_within(self.store.origin(&child)?.as_ref()) {
                    self.export_beside(leftovers, &child, to, progress)?;
                }
            }
        }
        Ok(report)
    }

    /// Returns the conversations of sub-agents that are exported with a conversation.
    pub(super) fn children(&self, conversation: &ConversationId) -> Result<Vec<ConversationId>> {
        if self.is_apart { Ok(Vec::new()) } else { self.store.children(conversation) }
    }

    /// Returns the original layout of a conversation's files, as far as it can still be used.
    ///
    /// A container that cannot be written again from its events is kept as it was. Events that were added later then
    /// need files of their own. A single file has no room for a base state.
    fn origin(&self, conversation: &ConversationId) -> Result<Option<Origin>> {
        let Some(mut origin) = self.store.origin(conversation)? else { return Ok(None) };
        let trunk = self.store.trunk(conversation)?;
        if trunk.foreign.is_some() {
            return Ok(Some(origin));
        }
        let fixed = origin.container.as_ref().is_some_and(|container| container.glue.is_none());
        let has_new_events = fixed && trunk.event_count > origin.events;
        if has_new_events {
            origin.container = None;
            origin.events_directory = layout::EVENTS.to_owned();
        }
        if origin.is_file && (has_new_events || self.store.base_state(conversation)?.is_some()) {
            origin.is_file = false;
            let parent = origin.folder.len() - last_name(&origin.folder).len();
            origin.folder.replace_range(parent.., &conversation.folder_name());
        }
        Ok(Some(origin))
    }

    fn write(
        &self,
        conversation: &ConversationId,
        origin: Option<&Origin>,
        target: &mut Target,
        progress: &mut dyn FnMut(u64),
    ) -> Result<u64> {
        if self.format == Format::Jsonl {
            return self.write_lines(conversation, target, progress);
        }
        if self.store.trunk(conversation)?.foreign.is_some() {
            return self.write_log(conversation, origin, target, progress);
        }
        if let Some(origin) = origin.filter(|origin| origin.is_file) {
            let Some(container) = &origin.container else { return Ok(0) };
            return self.write_container(conversation, container, u64::MAX, target, "", progress);
        }
        fs::create_dir_all(&target.root).map_err(Error::io("creating", &target.root))?;
        let events = self.write_folder(conversation, origin, target, "", progress)?;
        Ok(events)
    }

    /// Writes a conversation's folder at `prefix` within the target, and the folders of its sub-agents below it.
    fn write_folder(
        &self,
        conversation: &ConversationId,
        origin: Option<&Origin>,
        target: &mut Target,
        prefix: &str,
        progress: &mut dyn FnMut(u64),
    ) -> Result<u64> {
        // The base state is that of the last event that is written, also if another process appends meanwhile.
        let (until, base_state) = self.store.standing(conversation)?;
        let container = origin.and_then(|origin| origin.container.as_ref());
        // The attachments come first, so that newer data of the conversation overwrites them.
        for attachment in self.store.attachments(conversation)? {
            let path = format!("{prefix}{}", attachment.path);
            if path.ends_with('/') {
                target.folder(&path)?;
            } else if container.is_none_or(|container| container.file != attachment.path) {
                let mut file = target.create(&path)?;
                let bytes = self.store.read_attachment(conversation, &attachment.path, &mut file)?;
                file.flush().map_err(Error::io("writing", &path))?;
                target.bytes += bytes;
            }
        }
        let events = match container {
            Some(container) => {
                let path = format!("{prefix}{}", container.file);
                self.write_container(conversation, container, until, target, &path, progress)?
            }
            None => {
                let directory = origin.map_or(layout::EVENTS, |origin| &origin.events_directory);
                if origin.is_none() {
                    target.folder(&format!("{prefix}{directory}"))?; // the reference makes it even without events
                }
                self.write_events(conversation, until, target, &format!("{prefix}{directory}"), progress)?
            }
        };
        if let Some(state) = base_state {
            let path =
                origin.and_then(|origin| origin.base_state_path.as_deref()).unwrap_or(layout::BASE_STATE);
            target.write(&format!("{prefix}{path}"), state.document.as_str().as_bytes())?;
        }
        let root =
            origin.map_or("", |origin| origin.events_directory.strip_suffix(layout::EVENTS).unwrap_or(""));
        for child in self.children(conversation)? {
            let origin = self.origin(&child)?;
            match &origin {
                Some(_) if !lies_within(origin.as_ref()) => {}
                Some(Origin { is_file: true, container: Some(container), folder, .. }) => {
                    let path = format!("{prefix}{folder}");
                    self.write_container(&child, container, u64::MAX, target, &path, progress)?;
                }
                Some(inner) => {
                    let prefix = format!("{prefix}{}/", inner.folder);
                    self.write_folder(&child, origin.as_ref(), target, &prefix, progress)?;
                }
                None => {
                    let prefix = format!("{prefix}{root}{}{}/", layout::SUBAGENTS, child.folder_name());
                    self.write_folder(&child, None, target, &prefix, progress)?;
                }
            }
        }
        Ok(events)
    }

    /// Writes the first `until` events, each into a file of its own.
    fn write_events(
        &self,
        conversation: &ConversationId,
        until: u64,
        target: &mut Target,
        directory: &str,
        progress: &mut dyn FnMut(u64),
    ) -> Result<u64> {
        let mut numbering = Numbering::default();
        let mut events = 0;
        loop {
            let page = events;
            let end = until.min(page + PAGE);
            // Read before the scan: a scan holds a connection, and there may be only one.
            let mut names = self.store.event_files(conversation, page, page + PAGE - 1)?;
            self.store.scan(conversation, Sequence(page), |event| {
                if events == end {
                    return Ok(false);
                }
                let name = names.remove(&event.sequence.0).unwrap_or_else(|| numbering.choose(event.id));
                target.write(&format!("{directory}{name}"), event.payload.as_bytes())?;
                numbering.pass(&name);
                events += 1;
                progress(events);
                Ok(true)
            })?;
            if events < page + PAGE || events == until {
                return Ok(events);
            }
        }
    }

    /// Writes the one file that holds all events: the first `until` of them. `path` is "" if the export is only that
    /// file.
    fn write_container(
        &self,
        conversation: &ConversationId,
        container: &Container,
        until: u64,
        target: &mut Target,
        path: &str,
        progress: &mut dyn FnMut(u64),
    ) -> Result<u64> {
        let mut file = target.create(path)?;
        let mut events = 0;
        let mut write = |text: &str| file.write_all(text.as_bytes()).map_err(Error::io("writing", path));
        let mut bytes = 0;
        let Some(glue) = &container.glue else {
            let bytes = self.store.read_attachment(conversation, &container.file, &mut file)?;
            file.flush().map_err(Error::io("writing", path))?;
            target.bytes += bytes;
            return Ok(self.store.trunk(conversation)?.event_count);
        };
        write(&glue.prefix)?;
        self.store.scan(conversation, Sequence(0), |event| {
            if events == until {
                return Ok(false);
            }
            if events > 0 {
                write(&glue.separator)?;
            }
            write(event.payload)?;
            bytes += event.payload.len() as u64;
            events += 1;
            progress(events);
            Ok(true)
        })?;
        write(&glue.suffix)?;
        file.flush().map_err(Error::io("writing", path))?;
        target.bytes += bytes;
        Ok(events)
    }

    fn write_lines(
        &self,
        conversation: &ConversationId,
        target: &mut Target,
        progress: &mut dyn FnMut(u64),
    ) -> Result<u64> {
        let mut file = target.create("")?;
        let (mut events, mut bytes) = (0, 0);
        self.store.scan(conversation, Sequence(0), |event| {
            // A JSON string contains no raw line break, so all line breaks are between tokens.
            let line = event.payload.trim().replace(['\n', '\r'], " ") + "\n";
            file.write_all(line.as_bytes()).map_err(Error::io("writing", "JSON lines"))?;
            bytes += line.len() as u64;
            events += 1;
            progress(events);
            Ok(true)
        })?;
        file.flush().map_err(Error::io("writing", "JSON lines"))?;
        target.bytes += bytes;
        Ok(events)
    }
}

/// Returns the last part of a path.
fn last_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns whether the conversation of a sub-agent is within the folder of its parent.
fn lies_within(origin: Option<&Origin>) -> bool {
    origin.is_none_or(|origin| origin.folder.contains('/'))
}

/// The temporary place where files are written until they are complete.
pub(super) struct Target {
    pub(super) root: PathBuf,
    pub(super) files: u64,
    pub(super) bytes: u64,
}

impl Target {
    /// Returns the place of `path`. "" is the root itself. A path that leads out of the root is rejected, because
    /// stored paths may be malicious.
    fn place(&self, path: &str) -> Result<PathBuf> {
        if path.is_empty() {
            return Ok(self.root.clone());
        }
        // Only on Windows, a backslash separates. Elsewhere a file name may contain it.
        let separates = cfg!(windows) && path.contains('\\');
        let inside = path.split('/').all(|part| part != "..") && !path.starts_with('/') && !separates;
        if inside {
            return Ok(self.root.join(path));
        }
        let source =
            std::io::Error::new(std::io::ErrorKind::InvalidInput, "the path leads out of the folder");
        Err(Error::Io { doing: "writing", path: path.into(), source })
    }

    pub(super) fn folder(&self, path: &str) -> Result<()> {
        let place = self.place(path)?;
        fs::create_dir_all(&place).map_err(Error::io("creating", place))
    }

    pub(super) fn create(&mut self, path: &str) -> Result<BufWriter<File>> {
        let place = self.place(path)?;
        if let Some(folder) = place.parent() {
            fs::create_dir_all(folder).map_err(Error::io("creating", folder))?;
        }
        self.files += 1;
        Ok(BufWriter::new(untrusted::create(&place).map_err(Error::io("creating", place))?))
    }

    /// Returns a place for a file that the caller writes.
    pub(super) fn reserve(&mut self, path: &str) -> Result<PathBuf> {
        let place = self.place(path)?;
        if let Some(folder) = place.parent() {
            fs::create_dir_all(folder).map_err(Error::io("creating", folder))?;
        }
        self.files += 1;
        Ok(place)
    }

    pub(super) fn write(&mut self, path: &str, content: &[u8]) -> Result<()> {
        let place = self.place(path)?;
        self.files += 1;
        self.bytes += content.len() as u64;
        match untrusted::write(&place, content) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let mut file = self.create(path)?;
                self.files -= 1;
                file.write_all(content).and_then(|()| file.flush()).map_err(Error::io("writing", place))
            }
            other => other.map_err(Error::io("writing", place)),
        }
    }
}

/// Gives the written files their final name. They stay where they are if the target already has the same bytes.
pub(super) fn put(partial: &Partial, target: &Path) -> Result<ExportStatus> {
    let made = partial.content();
    let empty_folder =
        target.is_dir() && fs::read_dir(target).is_ok_and(|mut entries| entries.next().is_none());
    if !target.exists() || empty_folder {
        if empty_folder {
            fs::remove_dir(target).map_err(Error::io("replacing", target))?;
        }
        fs::rename(made, target).map_err(Error::io("naming", target))?;
        return Ok(ExportStatus::Written);
    }
    if let Some(path) = first_difference(&made, target)? {
        return Err(Error::WouldOverwrite { path });
    }
    Ok(ExportStatus::Unchanged)
}

/// Returns the first path in `target` that differs from `wanted`. `None` if there is no difference.
fn first_difference(wanted: &Path, target: &Path) -> Result<Option<PathBuf>> {
    if wanted.is_file() && target.is_file() {
        let read = |path: &Path| {
            let mut bytes = Vec::new();
            let read = untrusted::open_named(path)
                .and_then(|mut file| std::io::Read::read_to_end(&mut file, &mut bytes));
            read.map(|_| bytes).map_err(Error::io("comparing", path))
        };
        return Ok((read(wanted)? != read(target)?).then(|| target.to_owned()));
    }
    if !wanted.is_dir() || !target.is_dir() {
        return Ok(Some(target.to_owned()));
    }
    let names = |folder: &Path| -> Result<Vec<std::ffi::OsString>> {
        let entries = fs::read_dir(folder).map_err(Error::io("listing", folder))?;
        let mut names: Vec<_> =
            entries.filter_map(|entry| entry.ok().map(|entry| entry.file_name())).collect();
        names.sort();
        Ok(names)
    };
    let (wanted_names, target_names) = (names(wanted)?, names(target)?);
    if wanted_names != target_names {
        let extra = target_names.iter().find(|name| !wanted_names.contains(name));
        let missing = wanted_names.iter().find(|name| !target_names.contains(name));
        return Ok(extra.or(missing).map(|name| target.join(name)));
    }
    for name in wanted_names {
        if let Some(path) = first_difference(&wanted.join(&name), &target.join(&name))? {
            return Ok(Some(path));
        }
    }
    Ok(None)
}
