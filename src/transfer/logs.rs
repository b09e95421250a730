//! Writes other programs' logs: the session file or the database, and the files from the folders beside it.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use super::export::{Exporter, Target, put};
use super::foreign;
use crate::error::{Error, Result};
use crate::ids::ConversationId;
use crate::partial::{Leftovers, Partial};
use crate::store::{Container, Origin};

impl Exporter<'_> {
    /// Writes another program's log as it was. Returns the number of events.
    pub(super) fn write_log(
        &self,
        conversation: &ConversationId,
        origin: Option<&Origin>,
        target: &mut Target,
        progress: &mut dyn FnMut(u64),
    ) -> Result<u64> {
        let container = origin.and_then(|origin| origin.container.as_ref());
        let Some(Container { file, glue }) = container else { return Ok(0) };
        let Some(glue) = glue else {
            let place = target.reserve(file)?;
            let events = foreign::write_database(self.store, conversation, &place, progress)?;
            target.bytes += fs::metadata(&place).map_err(Error::io("writing", &place))?.len();
            return Ok(events);
        };
        let mut to = Counted { to: target.create("")?, bytes: 0 };
        let events = foreign::write_original(self.store, conversation, file, glue, &mut to, progress)?;
        to.flush().map_err(Error::io("writing", file))?;
        target.bytes += to.bytes;
        Ok(events)
    }

    /// Writes the files that were in folders beside a session file.
    pub(super) fn write_beside(
        &self,
        leftovers: &Leftovers,
        conversation: &ConversationId,
        to: &Path,
    ) -> Result<()> {
        let attachments = self.store.attachments(conversation)?;
        let beside = attachments.iter().filter_map(|file| Some((file, file.path.split_once('/')?)));
        let mut folders: Vec<&str> = beside.clone().map(|(_, (folder, _))| folder).collect();
        folders.dedup(); // the attachments are sorted by path
        // A stored path may be malicious.
        folders.retain(|folder| !matches!(*folder, "" | "." | "..") && !folder.contains('\\'));
        for folder in folders {
            leftovers.clear(folder);
            let partial = Partial::begin(to, folder)?;
            let mut target = Target { root: partial.content(), files: 0, bytes: 0 };
            for (file, _) in beside.clone().filter(|(_, (name, _))| *name == folder) {
                let within = &file.path[folder.len() + 1..];
                if within.ends_with('/') {
                    target.folder(within)?;
                    continue;
                }
                let mut to = target.create(within)?;
                self.store.read_attachment(conversation, &file.path, &mut to)?;
                to.flush().map_err(Error::io("writing", within))?;
            }
            put(&partial, &to.join(folder))?;
        }
        Ok(())
    }
}

/// A writer that counts the bytes written to it.
struct Counted<W> {
    to: W,
    bytes: u64,
}

impl<W: std::io::Write> std::io::Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.to.flush()
    }
}
