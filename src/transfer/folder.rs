//! Lists a conversation's folder: its event files in order, and all other files.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::layout;
use crate::chain::Digest;
use crate::error::{Error, Result};
use crate::store::{ATTACHMENT_BYTES_MAX, ArrivingFile, Problem};
use crate::untrusted;

/// Returns the absolute path as text, for storing.
pub(super) fn in_full(path: &Path) -> String {
    let full = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    full.to_string_lossy().into_owned()
}

/// The content of a conversation's folder.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// The names of event files within the events directory, in the order of their index.
    pub events: Vec<String>,
    /// The paths of all other files within the folder.
    pub others: Vec<String>,
    /// The paths of empty folders. Each ends in `/`.
    pub empty_folders: Vec<String>,
    /// The files with a problem: left out, or with a wrong name.
    pub problems: Vec<Problem>,
}

/// Lists `folder`, whose events are in `events_directory`. The folders in `apart` belong to other conversations.
pub(super) fn list(folder: &Path, events_directory: Option<&str>, apart: &[PathBuf]) -> Result<Listing> {
    let mut listing = Listing::default();
    walk(folder, "", events_directory, apart, &mut listing)?;
    listing.others.sort();
    // Files with the same index are sorted by name, because the reference's listing has no order of its own.
    let index = |name: &String| layout::read_event_name(name).map_or(u64::MAX, |read| read.index);
    listing.events.sort_by(|a, b| index(a).cmp(&index(b)).then_with(|| a.cmp(b)));
    Ok(listing)
}

fn walk(
    folder: &Path,
    prefix: &str,
    events_directory: Option<&str>,
    apart: &[PathBuf],
    listing: &mut Listing,
) -> Result<()> {
    let mut empty = true;
    for entry in fs::read_dir(folder).map_err(Error::io("listing", folder))? {
        let entry = entry.map_err(Error::io("listing", folder))?;
        let kind = entry.file_type().map_err(Error::io("listing", folder))?;
        empty = false;
        let Some(name) = entry.file_name().to_str().map(str::to_owned) else {
            left_out(listing, prefix, &entry.file_name().to_string_lossy(), "its name is not Unicode");
            continue;
        };
        let path = entry.path();
        if apart.contains(&path) {
            continue;
        }
        if kind.is_dir() {
            walk(&path, &format!("{prefix}{name}/"), events_directory, apart, listing)?;
        } else if !kind.is_file() {
            left_out(listing, prefix, &name, "it is a link or a device, not a file");
        } else if events_directory == Some(prefix) && layout::read_event_name(&name).is_some() {
            listing.events.push(name);
        } else {
            if events_directory == Some(prefix) && is_misplaced(prefix, &name) {
                listing.problems.push(Problem {
                    path: format!("{prefix}{name}"),
                    problem: "its name is not an event's".into(),
                    action: "kept as an attachment".into(),
                });
            }
            listing.others.push(format!("{prefix}{name}"));
        }
    }
    if empty && !prefix.is_empty() {
        listing.empty_folders.push(prefix.to_owned());
    }
    Ok(())
}

/// Returns whether a file in the events directory does not belong there. If the folder has no events directory of its
/// own, every file may be there.
fn is_misplaced(prefix: &str, name: &str) -> bool {
    !prefix.is_empty() && !layout::is_bookkeeping(name)
}

fn left_out(listing: &mut Listing, prefix: &str, name: &str, why: &str) {
    listing.problems.push(Problem {
        path: format!("{prefix}{name}"),
        problem: why.to_owned(),
        action: "left out".into(),
    });
}

/// Returns a file with its size and digest. It is read piece by piece.
pub(super) fn measure(folder: &Path, path: &str, reason: Option<String>) -> Result<ArrivingFile> {
    let from = folder.join(path);
    let mut hasher = Sha256::new();
    let mut bytes = 0;
    if !path.ends_with('/') {
        let (mut file, _) = untrusted::open(&from).map_err(Error::io("reading", &from))?;
        let mut buffer = vec![0; 64 << 10];
        loop {
            let read = file.read(&mut buffer).map_err(Error::io("reading", &from))?;
            if read == 0 {
                break;
            }
            hasher.update(&buffer[..read]);
            bytes += read as u64;
        }
    }
    let digest = Digest(hasher.finalize().into());
    Ok(ArrivingFile { path: path.to_owned(), from, offset: None, bytes, digest, reason })
}

/// Returns a file with its size and digest, like [`measure`]. If it is too large to be kept, returns `None` and adds
/// that to `problems`.
pub(super) fn measure_or_leave_out(
    folder: &Path,
    path: &str,
    reason: Option<String>,
    problems: &mut Vec<Problem>,
) -> Result<Option<ArrivingFile>> {
    let file = folder.join(path);
    let bytes = file.metadata().map_err(Error::io("reading", &file))?.len();
    if bytes <= ATTACHMENT_BYTES_MAX {
        return measure(folder, path, reason).map(Some);
    }
    problems.push(Problem {
        path: path.to_owned(),
        problem: format!("it has {bytes} bytes, an attachment may have {ATTACHMENT_BYTES_MAX}"),
        action: "left out".into(),
    });
    Ok(None)
}
