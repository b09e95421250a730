//! Write-ahead logs that are not the file's: of another age of it, or of another file. The engine lays any log over any file.
//!
//! The first commit of a log writes the log's name into the table `write_log`, beside the name of the log before. The file's own
//! page of that table, without the log, has one of them if log and file belong together. Nothing is said of a log whose first
//! commit has no name: another program has begun it, or an older version.

use std::collections::HashSet;
use std::io::{self, Read, Seek, SeekFrom};
#[cfg(feature = "cli")]
use std::path::Path;

use rusqlite::{Connection, OptionalExtension as _};

#[cfg(feature = "cli")]
use super::database;
use super::frames::{FRAME, HEADER, Header, is_read, word};
use super::place::Place;
use crate::error::{AroundError, Error, Result};
use crate::partial::beside;
use crate::store::engine::generation;
use crate::store::engine::parts::Part;

const ROOT: &str = "SELECT rootpage FROM sqlite_schema WHERE type = 'table' AND name = 'write_log'";

/// How often log and file are looked at, because another process may change them meanwhile.
const LOOKS: u32 = 5;

/// The name of a log, and of the one before it. Zeros: no log came before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Name {
    own: [u8; 8],
    before: [u8; 8],
}

/// The table `write_log` of a file with its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Table {
    /// The file has an older schema.
    Missing,
    /// Its page.
    At(u32),
    /// The schema cannot be read. That of two that do not belong together may be so.
    Unknown,
}

/// Whether a log goes on from a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fit {
    Fits,
    Differs,
    /// The file is too short to have a name, although a log came before this one.
    TooShort,
    Unknown,
}

/// Refuses a log that does not go on from its file, and a file that lacks pages that its log does not have either.
///
/// # Errors
/// [`AroundError::OtherLog`], [`Error::Corrupt`], and any error of reading.
pub(in crate::store) fn refuse(db: &Connection, place: &Place) -> Result<()> {
    let Place::File(_) = place else { return Ok(()) };
    // The engine knows its log once it has read.
    let (path, table) = (place.path(), table(db));
    let (Some(mut log), Some(mut file)) = (Part::log(db), Part::database(db)) else { return Ok(()) };
    let reading = || Error::io("reading the write-ahead log of", &path);
    // The frames that the engine reads: what a power cut has left behind them is not of the file.
    let used = || generation::frames(db).map_or(0, |(all, _)| all);
    for _ in 0..LOOKS {
        let Some(header) = header_of(&mut log).map_err(reading())? else { return Ok(()) };
        let wrong: Error = if let Some((there, pages)) =
            cut(&header, &mut file, &mut log, used).map_err(reading())?
        {
            let what = format!(
                "{path:?} was cut: it has {there} of its {pages} pages, and its write-ahead log does not have the others; \
                 nothing was changed"
            );
            Error::Corrupt { what }
        } else {
            match compare(&header, table, &mut file, &mut log, used).map_err(reading())? {
                Fit::Fits | Fit::Unknown => return Ok(()),
                Fit::Differs | Fit::TooShort => {
                    AroundError::OtherLog { log: beside(&path, "-wal"), path: path.clone() }.into()
                }
            }
        };
        let now = header_of(&mut log).map_err(reading())?;
        if now.is_some_and(|now| now.salts == header.salts) {
            return Err(wrong);
        }
    }
    // Other processes begin the log anew again and again, so that it is theirs.
    Ok(())
}

/// Reads the beginning of a log. As long as it is the same, the file takes up this log and no other.
fn header_of(log: &mut (impl Read + Seek)) -> io::Result<Option<Header>> {
    log.seek(SeekFrom::Start(0))?;
    Header::read(log)
}

/// Returns whether a log goes on from a file, as far as that is known: the page with the file's name may be damaged. `both` is
/// the file with the log laid over it.
///
/// # Errors
/// Any error of reading.
#[cfg(feature = "cli")]
pub(crate) fn fits(both: &Path, file: &mut (impl Read + Seek), log: &mut (impl Read + Seek)) -> Result<bool> {
    let uri = Place::file(both).uri(database::UNCHANGING);
    let opened = Connection::open_with_flags(uri, database::READER_FLAGS);
    let table = opened.map_or(Table::Unknown, |db| table(&db));
    let reading = || Error::io("reading the log beside", both);
    let Some(header) = header_of(log).map_err(reading())? else { return Ok(true) };
    let fit = compare(&header, table, file, log, || u64::MAX).map_err(reading())?;
    Ok(fit != Fit::Differs)
}

fn table(db: &Connection) -> Table {
    match db.query_row(ROOT, [], |row| row.get(0)).optional() {
        Ok(None) => Table::Missing,
        Ok(Some(root)) => Table::At(root),
        // The reason for any other error is found later.
        Err(_) => Table::Unknown,
    }
}

/// Returns how many pages a file has, and how many it should have, if pages are missing that the log does not have. A checkpoint
/// that was broken off leaves a file too short for its header, and has the rest in the log.
///
/// Source: <https://sqlite.org/fileformat2.html#in_header_database_size>.
///
/// What grows meanwhile is looked at last: the file's header, the log, the file.
fn cut(
    header: &Header,
    file: &mut Part<'_>,
    log: &mut Part<'_>,
    used: impl Fn() -> u64,
) -> io::Result<Option<(u64, u32)>> {
    const SIZE_AT: usize = 28;
    /// The engine locks bytes behind the first GiB, and never uses their page.
    const LOCKED_AT: u64 = 1 << 30;
    let there = |file: &Part<'_>| file.size().map(|bytes| bytes / header.page as u64);
    file.seek(SeekFrom::Start(0))?;
    let mut beginning = [0; 100];
    if !is_read(file, &mut beginning)? {
        return Ok(None);
    }
    let mut pages = word(&beginning, SIZE_AT);
    if there(file)? >= u64::from(pages) {
        return Ok(None);
    }
    let mut logged = HashSet::from([u32::try_from(LOCKED_AT / header.page as u64 + 1).unwrap_or(0)]);
    each_frame(header, log, used(), &mut |frame, is_commit, _| {
        logged.insert(word(frame, 0));
        if is_commit {
            pages = word(frame, 4);
        }
        Ok(true)
    })?;
    let there = there(file)?;
    let is_lost = |page: u32| u64::from(page) > there && !logged.contains(&page);
    Ok((1..=pages).any(is_lost).then_some((there, pages)))
}

/// Compares the first frames of a log, as many as `used` returns, with a file.
fn compare(
    header: &Header,
    table: Table,
    file: &mut (impl Read + Seek),
    log: &mut (impl Read + Seek),
    used: impl Fn() -> u64,
) -> io::Result<Fit> {
    if table == Table::Missing {
        return Ok(Fit::Unknown);
    }
    let mut page = vec![0; header.page];
    // The log is read before the file: as long as the log is the same one, the file has only its names and the one before.
    let Some(&(root, first)) = names(table, header, log, used(), true)?.first() else {
        return Ok(Fit::Unknown);
    };
    file.seek(SeekFrom::Start(u64::from(root.saturating_sub(1)) * header.page as u64))?;
    let reaches = is_read(file, &mut page)?;
    let found = match if reaches { name(&page) } else { None } {
        Some(of_file) => vec![of_file],
        // The log has made the table.
        None if first.before == [0; 8] => return Ok(Fit::Unknown),
        // A power cut during a checkpoint leaves pages of zeros. Their content is in the log.
        None if reaches && page.first() == Some(&0) && table != Table::Unknown => return Ok(Fit::Unknown),
        // The log has moved the table, or the file is a copy whose tables have other pages.
        None => anywhere(file, &mut page)?,
    };
    if found.is_empty() {
        return Ok(if reaches { Fit::Unknown } else { Fit::TooShort });
    }
    let is_of = |found: &Name, name: &Name| found.own == name.own || found.own == first.before;
    if found.iter().any(|found| is_of(found, &first)) {
        return Ok(Fit::Fits);
    }
    // Seldom there are more names, if readers kept the log from beginning anew. The file may have taken up what was written
    // since the first look.
    let all = names(table, header, log, used(), false)?;
    let fits = found.iter().any(|found| all.iter().any(|(_, name)| is_of(found, name)));
    Ok(if fits { Fit::Fits } else { Fit::Differs })
}

/// Returns the names in a log and their pages, in their order: only the first one, if the first commit has one, or all of them.
fn names<L: Read + Seek>(
    table: Table,
    header: &Header,
    log: &mut L,
    used: u64,
    is_first_enough: bool,
) -> io::Result<Vec<(u32, Name)>> {
    let mut names = Vec::new();
    let mut page = vec![0; header.page];
    each_frame(header, log, used, &mut |frame, is_commit, log: &mut L| {
        let number = word(frame, 0);
        if (table == Table::Unknown || table == Table::At(number)) && is_read(log, &mut page)? {
            names.extend(name(&page).map(|name| (number, name)));
        }
        Ok(!is_first_enough || (names.is_empty() && !is_commit))
    })?;
    Ok(names)
}

type Visit<'a, L> = &'a mut dyn FnMut(&[u8; FRAME], bool, &mut L) -> io::Result<bool>;

/// Calls `visit` with the beginning of each of the first `used` frames of a log, whether a commit ends with it, and the log, whose
/// next bytes are the frame's page. Ends when `visit` returns false.
fn each_frame<L: Read + Seek>(
    header: &Header,
    log: &mut L,
    used: u64,
    visit: Visit<'_, L>,
) -> io::Result<()> {
    let mut frame = [0; FRAME];
    for number in 0..used {
        log.seek(SeekFrom::Start(HEADER as u64 + number * header.frame_bytes()))?;
        if !is_read(log, &mut frame)? {
            break;
        }
        let Some(is_commit) = header.is_commit(&frame) else { break };
        if !visit(&frame, is_commit, log)? {
            break;
        }
    }
    Ok(())
}

/// All names in a file, wherever they are. One of an unused page may be among them.
fn anywhere(file: &mut (impl Read + Seek), page: &mut [u8]) -> io::Result<Vec<Name>> {
    let mut names = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    let mut file = io::BufReader::with_capacity(1 << 20, file);
    while is_read(&mut file, page)? {
        names.extend(name(page));
    }
    Ok(names)
}

/// Reads the only row of the table from its page. `None` if the page has another content.
///
/// Source: <https://sqlite.org/fileformat2.html#b_tree_pages>.
fn name(page: &[u8]) -> Option<Name> {
    /// A leaf of a table, without free blocks, with one cell.
    const LEAF: [u8; 5] = [0x0d, 0, 0, 0, 1];
    /// The row's length and number, the length of its header, and the types of its columns: none and 16 bytes.
    const ROW: [u8; 5] = [19, 1, 3, 0, 12 + 2 * 16];
    page.starts_with(&LEAF).then_some(())?;
    let at = usize::from(u16::from_be_bytes([*page.get(8)?, *page.get(9)?]));
    let row = page.get(at..at + ROW.len() + 16)?.strip_prefix(&ROW)?;
    Some(Name { own: row[..8].try_into().ok()?, before: row[8..].try_into().ok()? })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::store::engine::WhileDoing as _;

    const TABLE: &str =
        "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;
        CREATE TABLE write_log (one INTEGER PRIMARY KEY, generation BLOB NOT NULL);
        INSERT INTO write_log VALUES (1, CAST(randomblob(8) || zeroblob(8) AS BLOB));
        CREATE TABLE piece (content BLOB NOT NULL);";

    /// Every few commits a log ends, and the file has grown or shrunk.
    #[test]
    fn a_file_that_another_connection_is_writing_is_not_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("annals.db");
        // The first store of a process decides how the engine locks files. Another test must not do it in between.
        drop(crate::Store::open(folder.path().join("first.db")).unwrap());
        let writer = Connection::open(&path).unwrap();
        writer.execute_batch(TABLE).unwrap();
        let (ends, path) = (&AtomicBool::new(false), &path);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for number in 0_u32.. {
                    if ends.load(Ordering::Relaxed) {
                        break;
                    }
                    let begins = generation::frames(&writer).is_some_and(|(all, moved)| all == moved);
                    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
                    if begins {
                        generation::renew(&writer).unwrap();
                    }
                    writer
                        .execute_batch(match number % 23 {
                            22 => "DELETE FROM piece; COMMIT; PRAGMA incremental_vacuum",
                            _ => "INSERT INTO piece VALUES (randomblob(30000)); COMMIT",
                        })
                        .unwrap();
                    if number % 3 == 0 {
                        writer.execute_batch("PRAGMA wal_checkpoint(PASSIVE)").unwrap();
                    }
                }
            });
            let look = || -> Result<()> {
                let db = Connection::open(path).doing("opening")?;
                refuse(&db, &Place::file(path))
            };
            let seen: Vec<Error> = (0..2000).filter_map(|_| look().err()).collect();
            ends.store(true, Ordering::Relaxed);
            assert!(seen.is_empty(), "{} of 2000: {}", seen.len(), seen[0]);
        });
    }
}
