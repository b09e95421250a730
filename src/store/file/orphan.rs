//! Logs that lie beside a name whose file is not theirs: after a crash, when only the file was moved or removed.
//!
//! SQLite deletes such a log when it makes a new file, and replays it over a file that gets the name. Both lose what it has,
//! or what the file has.

use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use crate::error::{AroundError, Error, Result};
use crate::untrusted;

/// The size of the header of a write-ahead log, and of a frame in it without its page, in bytes.
///
/// Source: <https://sqlite.org/fileformat2.html#the_write_ahead_log>.
const HEADER: usize = 32;
const FRAME: usize = 24;

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
    let beside = |ending: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(ending);
        PathBuf::from(name)
    };
    // Another process may be making the file: its log comes behind its first bytes, and its journal behind its name.
    let is_filled = || std::fs::metadata(path).is_ok_and(|file| file.len() > 0);
    let orphan = |log, ending, commits| Err(AroundError::OrphanLog { log, ending, commits }.into());
    if is_filled() {
        return Ok(());
    }
    let log = beside("-wal");
    if std::fs::metadata(&log).is_ok_and(|log| log.is_file() && log.len() > HEADER as u64) {
        let commits = untrusted::open_named(&log).and_then(|file| commits(BufReader::new(file)));
        if is_filled() {
            return Ok(());
        }
        let commits = commits.map_err(Error::io("reading", &log))?;
        return orphan(log, "-wal", commits);
    }
    let journal = beside("-journal");
    let begins = untrusted::beginning(&journal, JOURNAL_MAGIC.len());
    if begins.is_ok_and(|begins| begins == JOURNAL_MAGIC) && !path.exists() {
        return orphan(journal, "-journal", 0);
    }
    Ok(())
}

/// Counts the commits of a write-ahead log up to the first frame that is not whole, as SQLite reads it.
fn commits(mut log: impl Read) -> io::Result<u64> {
    let mut header = [0; HEADER];
    let mut commits = 0;
    if !is_read(&mut log, &mut header)? {
        return Ok(0);
    }
    let word = |bytes: &[u8], at: usize| {
        u32::from_be_bytes(bytes.get(at..at + 4).and_then(|four| four.try_into().ok()).unwrap_or_default())
    };
    let is_big = match word(&header, 0) {
        0x377f_0682 => false,
        0x377f_0683 => true,
        _ => return Ok(0),
    };
    let page = match word(&header, 8) {
        size @ 512..=65_536 if size.is_power_of_two() => size as usize,
        _ => return Ok(0),
    };
    let mut sum = checksum(is_big, (0, 0), &header[..24]);
    if sum != (word(&header, 24), word(&header, 28)) {
        return Ok(0);
    }
    let mut frame = vec![0; FRAME + page];
    while is_read(&mut log, &mut frame)? {
        sum = checksum(is_big, sum, &frame[..8]);
        sum = checksum(is_big, sum, &frame[FRAME..]);
        if frame[8..16] != header[16..24] || sum != (word(&frame, 16), word(&frame, 20)) {
            break;
        }
        commits += u64::from(word(&frame, 4) != 0);
    }
    Ok(commits)
}

/// Fills `buffer`. Returns whether there was enough to read.
fn is_read(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match from.read_exact(buffer) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        read => read.map(|()| true),
    }
}

/// Goes on with the checksum of a write-ahead log over `bytes`, whose number is a multiple of 8.
fn checksum(is_big: bool, (mut first, mut second): (u32, u32), bytes: &[u8]) -> (u32, u32) {
    let word = |four: &[u8]| {
        let four = four.try_into().unwrap_or_default();
        if is_big { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) }
    };
    for eight in bytes.chunks_exact(8) {
        first = first.wrapping_add(word(&eight[..4])).wrapping_add(second);
        second = second.wrapping_add(word(&eight[4..])).wrapping_add(first);
    }
    (first, second)
}
