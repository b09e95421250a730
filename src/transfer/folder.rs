//! What is in a conversation's folder: its event files in order, and everything else.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::layout;
use crate::chain::Digest;
use crate::error::{Error, Result};
use crate::store::{ArrivingFile, Problem};
use crate::untrusted;

/// A path as it is written down, to be found again.
pub(super) fn in_full(path: &Path) -> String {
    let full = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    full.to_string_lossy().into_owned()
}

/// A conversation's folder, listed.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// Names of event files within the events directory, in the order of their index.
    pub events: Vec<String>,
    /// Every other file within the folder, by path.
    pub others: Vec<String>,
    /// Folders without anything in them; each path ends in `/`.
    pub empty_folders: Vec<String>,
    /// What could not be taken in.
    pub problems: Vec<Problem>,
}

/// Lists `folder`, whose events are in `events_directory`; folders in `apart` are other conversations'.
pub(super) fn list(folder: &Path, events_directory: Option<&str>, apart: &[PathBuf]) -> Result<Listing> {
    let mut listing = Listing::default();
    walk(folder, "", events_directory, apart, &mut listing)?;
    listing.others.sort();
    // By index; files of one index by name, as the reference's listing has no order of its own.
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
            if events_directory == Some(prefix) && is_foreign(prefix, &name) {
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

/// Whether a file among the events does not belong there; in a folder that has no events directory of its
/// own, everything may.
fn is_foreign(prefix: &str, name: &str) -> bool {
    !prefix.is_empty() && !layout::is_bookkeeping(name)
}

fn left_out(listing: &mut Listing, prefix: &str, name: &str, why: &str) {
    listing.problems.push(Problem {
        path: format!("{prefix}{name}"),
        problem: why.to_owned(),
        action: "left out".into(),
    });
}

/// A file's size and digest, without holding it in memory.
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
