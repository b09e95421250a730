//! Write-ahead logs that are not the file's: of another age of it, or of another file. The engine lays any log over any file.
//!
//! The first commit of a log writes the log's name into the table `write_log`, beside the name of the log before. The file's own
//! page of that table, without the log, has one of them if log and file belong together. Nothing is said of a log without names:
//! another program has begun it, or an older version.

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
use crate::store::engine::parts::Part;
use crate::store::engine::{WhileDoing as _, generation};

const ROOT: &str = "SELECT rootpage FROM sqlite_schema WHERE type = 'table' AND name = 'write_log'";

/// How often log and file are compared, if another process may change them meanwhile.
const LOOKS: u32 = 5;

/// The name of a log, and of the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Name {
    own: [u8; 8],
    before: [u8; 8],
}

/// Whether a log goes on from a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fit {
    Fits,
    Differs,
    /// The file is too short to have a name, and the log is not the one that has given it the first.
    Nameless,
    Unknown,
}

/// Refuses a log that does not go on from its file.
///
/// # Errors
/// [`AroundError::OtherLog`], and any error of reading.
pub(in crate::store) fn refuse(db: &Connection, place: &Place) -> Result<()> {
    let Place::File(_) = place else { return Ok(()) };
    let path = place.path();
    let root = match root(db) {
        Ok(None) => return Ok(()),
        Ok(root) => root,
        // The schema of two that do not belong together may be unreadable. Any other reason for that is found later.
        Err(_) => None,
    };
    let (Some(mut log), Some(mut file)) = (Part::log(db), Part::database(db)) else { return Ok(()) };
    let reading = || Error::io("reading the write-ahead log of", &path);
    // The frames that the engine reads: what a power cut has left behind them is not of the file.
    let used = || generation::frames(db).map_or(0, |(all, _)| all);
    if let Some((there, pages)) = cut(&mut file, &mut log, used()).map_err(reading())? {
        return Err(Error::Corrupt {
            what: format!(
                "{path:?} was cut: it has {there} of its {pages} pages, and its write-ahead log does not have the others; \
                 nothing was changed"
            ),
        });
    }
    for _ in 0..LOOKS {
        let fit = compare(root, &mut file, &mut log, used()).map_err(reading())?;
        if !matches!(fit, Fit::Differs | Fit::Nameless) {
            return Ok(());
        }
    }
    Err(AroundError::OtherLog { log: beside(&path, "-wal"), path }.into())
}

/// Returns whether a log goes on from a file, as far as that is known: the page with the file's name may be damaged. `both` is the file with the log laid over it.
///
/// # Errors
/// Any error of reading.
#[cfg(feature = "cli")]
pub(crate) fn fits(both: &Path, file: &mut (impl Read + Seek), log: &mut (impl Read + Seek)) -> Result<bool> {
    let uri = Place::file(both).uri(database::UNCHANGING);
    let both_open = Connection::open_with_flags(uri, database::READER_FLAGS).doing("opening the database");
    let root = match both_open.and_then(|db| root(&db)) {
        Ok(None) => return Ok(true),
        Ok(root) => root,
        Err(_) => None,
    };
    compare(root, file, log, u64::MAX)
        .map(|fit| fit != Fit::Differs)
        .map_err(Error::io("reading the log beside", both))
}

/// Returns how many pages a file has, and how many it should have, if pages are missing that the log does not have. A checkpoint
/// that was broken off leaves a file too short for its header, and has the rest in the log.
///
/// Source: <https://sqlite.org/fileformat2.html#in_header_database_size>.
fn cut(file: &mut Part<'_>, log: &mut Part<'_>, used: u64) -> io::Result<Option<(u64, u32)>> {
    const SIZE_AT: usize = 28;
    /// The engine locks bytes behind the first GiB, and never uses their page.
    const LOCKED_AT: u64 = 1 << 30;
    log.seek(SeekFrom::Start(0))?;
    file.seek(SeekFrom::Start(0))?;
    let mut beginning = [0; 100];
    let Some(header) = Header::read(log)? else { return Ok(None) };
    if !is_read(file, &mut beginning)? {
        return Ok(None);
    }
    let (there, mut pages) = (file.size() / header.page as u64, word(&beginning, SIZE_AT));
    if there >= u64::from(pages) {
        return Ok(None);
    }
    let mut logged = HashSet::from([u32::try_from(LOCKED_AT / header.page as u64 + 1).unwrap_or(0)]);
    let mut frame = [0; FRAME];
    for number in 0..used {
        let at = HEADER as u64 + number * header.frame_bytes();
        log.seek(SeekFrom::Start(at))?;
        if !is_read(log, &mut frame)? || header.is_commit(&frame).is_none() {
            break;
        }
        logged.insert(word(&frame, 0));
        if header.is_commit(&frame) == Some(true) {
            pages = word(&frame, 4);
        }
    }
    let is_lost = |page: u32| u64::from(page) > there && !logged.contains(&page);
    Ok((1..=pages).any(is_lost).then_some((there, pages)))
}

/// The page of the table. `None` in a file of an older schema.
fn root(db: &Connection) -> Result<Option<u32>> {
    db.query_row(ROOT, [], |row| row.get(0)).optional().doing("opening the database")
}

/// Compares the first `used` frames of a log with a file whose table has the page `root`. Without it, any page of a table with such a row counts.
fn compare(
    root: Option<u32>,
    file: &mut (impl Read + Seek),
    log: &mut (impl Read + Seek),
    used: u64,
) -> io::Result<Fit> {
    log.seek(SeekFrom::Start(0))?;
    let Some(header) = Header::read(log)? else { return Ok(Fit::Unknown) };
    let mut page = vec![0; header.page];
    // A name of the log is read before that of the file: as long as the log is the same one, the file has only its names and
    // the one before.
    let is_readable = root.is_some();
    let (names, root) = names(root, &header, log, used, &mut page)?;
    let Some(first) = names.first() else { return Ok(Fit::Unknown) };
    let fits = |found: &Name| found.own == first.before || names.iter().any(|name| name.own == found.own);
    let mut reaches = false;
    if let Some(root) = root {
        file.seek(SeekFrom::Start(u64::from(root.saturating_sub(1)) * header.page as u64))?;
        reaches = is_read(file, &mut page)?;
    }
    let found = match reaches.then(|| name(&page)).flatten() {
        Some(of_file) => vec![of_file],
        // A power cut during a checkpoint may leave a page that is none. What it should have is in the log.
        None if is_readable && reaches && page.first() == Some(&0) => return Ok(Fit::Unknown),
        // The log has made the table, or has moved it; or the file is a copy whose tables have other pages.
        None => anywhere(file, &mut page)?,
    };
    if found.is_empty() {
        let is_short = root.is_some() && !reaches && first.before != [0; 8];
        return Ok(if is_short { Fit::Nameless } else { Fit::Unknown });
    }
    if found.iter().any(fits) {
        return Ok(Fit::Fits);
    }
    log.seek(SeekFrom::Start(0))?;
    let is_same = Header::read(log)?.is_some_and(|now| now.salts == header.salts);
    Ok(if is_same { Fit::Differs } else { Fit::Unknown })
}

/// All names in a log, in their order, and the page that they stand in. Most logs have one, in their first frames.
fn names(
    root: Option<u32>,
    header: &Header,
    log: &mut (impl Read + Seek),
    used: u64,
    page: &mut [u8],
) -> io::Result<(Vec<Name>, Option<u32>)> {
    let (mut names, mut page_of) = (Vec::new(), root);
    let mut frame = [0; FRAME];
    for number in 0..used {
        log.seek(SeekFrom::Start(HEADER as u64 + number * header.frame_bytes()))?;
        if !is_read(log, &mut frame)? || header.is_commit(&frame).is_none() {
            break;
        }
        if root.is_none_or(|root| word(&frame, 0) == root) && is_read(log, page)? {
            names.extend(name(page));
            page_of = page_of.or_else(|| name(page).map(|_| word(&frame, 0)));
        }
    }
    Ok((names, page_of))
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
