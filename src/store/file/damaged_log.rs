//! Write-ahead logs with damage in the middle. The engine reads a log up to the first frame that is not whole, and the next
//! commit overwrites what is behind it, although that was acknowledged.
//!
//! Behind such a frame there may be one commit after a power cut: the one whose sync was cut off. Two or more are damage: each
//! was synced before the next one began. Then the file and its log are copied before anything is written, and
//! `annals recover` reads the copy.

use std::fs::File;
use std::io::{self, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;

use super::frames::{self, HEADER, Header, is_read};
use super::place::{Place, free_bytes};
use crate::error::{Error, Result};
use crate::store::engine::generation;
use crate::store::engine::parts::Part;
use crate::store::engine::transaction::Write;
use crate::{partial, untrusted};

/// What stands between the name of a file and the salts of its log in the name of a copy.
const MARK: &str = ".damaged-";

/// Behind as many frames of earlier logs, no frame of the present one is looked for.
const STRANGE_MAX: u64 = 64;

/// Copies the file and its log if the log has commits that the engine does not read.
///
/// # Errors
/// [`Error::NoRoom`] if there is no room for the copy, [`Error::Io`] and [`Error::Busy`]. Then the file should not be written.
pub(in crate::store) fn keep(db: &Connection, place: &Place, patience: Duration) -> Result<()> {
    let Place::File(at) = place else { return Ok(()) };
    let path = &place.path();
    let reading = || Error::io("reading the write-ahead log of", path);
    let Some(used) = used_before_damage(db).map_err(reading())? else { return Ok(()) };
    // From here on nothing is written, and what is behind the damage stays.
    let write = Write::begin(db, patience)?;
    let (Some(mut log), Some(mut file)) = (Part::log(db), Part::database(db)) else { return Ok(()) };
    let Some(header) = Header::read(&mut log).map_err(reading())? else { return Ok(()) };
    log.seek(SeekFrom::Start(0)).map_err(reading())?;
    let survey = frames::survey(io::BufReader::new(&mut log)).map_err(reading())?;
    if survey.frames != used || survey.lost < 2 {
        // The log has begun anew, or another process has written what was not there yet.
        return Ok(());
    }
    let salts: String = header.salts.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut copy = at.as_os_str().to_owned();
    copy.push(format!("{MARK}{salts}"));
    let (copy, copied_log) = (PathBuf::from(&copy), partial::beside(Path::new(&copy), "-wal"));
    let log_bytes = log.size().map_err(reading())?;
    let is_kept = std::fs::metadata(&copied_log).is_ok_and(|kept| kept.len() == log_bytes);
    if !is_kept {
        let needed = file.size().map_err(reading())?.saturating_add(log_bytes);
        if let Some(free) = free_bytes(at).filter(|free| *free < needed) {
            return Err(Error::NoRoom { path: copy, needed, free });
        }
        log.seek(SeekFrom::Start(0)).map_err(reading())?;
        // The log comes last: with it, the copy is complete.
        write_out(&mut file, &copy).map_err(Error::io("writing", &copy))?;
        write_out(&mut log, &copied_log).map_err(Error::io("writing", &copied_log))?;
        if let Some(folder) = copy.parent() {
            untrusted::sync_folder(folder).map_err(Error::io("writing", folder))?;
        }
    }
    drop(write);
    Ok(())
}

/// Returns the copies that were kept of a file, as far as its folder may be listed, each with the number of commits that only
/// it has. `None` if its log may not be read.
pub(in crate::store) fn kept(path: &Path) -> Vec<(PathBuf, Option<u64>)> {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return Vec::new() };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let of_this = |entry: std::fs::DirEntry| {
        let found = entry.file_name();
        let salts = found.to_str()?.strip_prefix(name)?.strip_prefix(MARK)?;
        let are_digits = salts.len() == 16 && salts.bytes().all(|byte| byte.is_ascii_hexdigit());
        let log = partial::beside(&entry.path(), "-wal");
        // Without its log, the copy is not complete.
        if !are_digits || !log.exists() {
            return None;
        }
        let survey = untrusted::open(&log).and_then(|(log, _)| frames::survey(io::BufReader::new(log)));
        Some((entry.path(), survey.ok().map(|survey| survey.lost)))
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let mut kept: Vec<_> = entries.filter_map(|entry| of_this(entry.ok()?)).collect();
    kept.sort();
    kept
}

fn write_out(part: &mut Part<'_>, to: &Path) -> io::Result<()> {
    match std::fs::remove_file(to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file: File = untrusted::create_private(to)?;
    io::copy(part, &mut file)?;
    file.sync_all()
}

/// Returns how many frames of the log the engine uses, if there seem to be two commits or more behind them.
fn used_before_damage(db: &Connection) -> io::Result<Option<u64>> {
    let used = generation::frames(db).map_or(0, |(all, _)| all);
    let Some(mut log) = Part::log(db) else { return Ok(None) };
    let Some(header) = Header::read(&mut log)? else { return Ok(None) };
    let (mut commits, mut strange) = (0, 0);
    let mut at = HEADER as u64 + used * header.frame_bytes();
    while at + header.frame_bytes() <= log.size()? && strange < STRANGE_MAX && commits < 2 {
        let mut begin = [0; 16];
        log.seek(SeekFrom::Start(at))?;
        if !is_read(&mut log, &mut begin)? {
            break;
        }
        match header.is_commit(&begin) {
            Some(is_commit) => (commits, strange) = (commits + u64::from(is_commit), 0),
            None => strange += 1,
        }
        at += header.frame_bytes();
    }
    Ok((commits > 1).then_some(used))
}
