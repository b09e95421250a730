//! Logs that lie beside a name whose file is not theirs: after a crash, when only the file was moved or removed.
//!
//! SQLite deletes such a log when it makes a new file, and replays it over a file that gets the name. Both lose what it has,
//! or what the file has.

use std::io::BufReader;
use std::path::Path;

use super::frames::{self, HEADER};
use crate::error::{AroundError, Error, Result};
use crate::partial::beside;
use crate::untrusted;

/// The first bytes of a rollback journal that has something to roll back.
///
/// Source: <https://sqlite.org/fileformat2.html#the_rollback_journal>.
const JOURNAL_MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];

/// Refuses a name for a new file if a log lies beside it: a write-ahead log with frames, or a rollback journal with pages. A
/// file with content is not refused, nor an empty one that another process is filling.
///
/// # Errors
/// [`AroundError::OrphanLog`].
pub(in crate::store) fn refuse_orphan_log(path: &Path) -> Result<()> {
    // Another process may be making the file: its log comes behind its first bytes, and its journal behind its name.
    let is_filled = || std::fs::metadata(path).is_ok_and(|file| file.len() > 0);
    let orphan = |log, ending, commits| Err(AroundError::OrphanLog { log, ending, commits }.into());
    if is_filled() {
        return Ok(());
    }
    let log = beside(path, "-wal");
    if std::fs::metadata(&log).is_ok_and(|log| log.is_file() && log.len() > HEADER as u64) {
        let commits = untrusted::open_named(&log).and_then(|file| frames::survey(BufReader::new(file)));
        if is_filled() {
            return Ok(());
        }
        let commits = commits.map_err(Error::io("reading", &log))?;
        return orphan(log, "-wal", commits.commits);
    }
    let journal = beside(path, "-journal");
    let begins = untrusted::beginning(&journal, JOURNAL_MAGIC.len());
    if begins.is_ok_and(|begins| begins == JOURNAL_MAGIC) && !path.exists() {
        return orphan(journal, "-journal", 0);
    }
    Ok(())
}
