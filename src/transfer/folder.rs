//! Lists a conversation's folder: its event files in order, and all other files.

use std::collections::HashSet;
use std::fs;
use std::io::{ErrorKind, Read as _};
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

/// Returns whether there is a folder at `path`, and no link to one.
pub(super) fn is_own_folder(path: &Path) -> bool {
    // The end of a path that ends in `/` would be followed if it is a link. The parts of a path have no such end.
    let path: PathBuf = path.components().collect();
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
}

/// Returns the folder at the path `within` below `folder`. `None` if it is not there, or if it or a folder on the way
/// to it is a link.
pub(super) fn own_folder_below(folder: &Path, within: &str) -> Option<PathBuf> {
    let mut path = folder.to_owned();
    for part in Path::new(within) {
        path.push(part);
        if !is_own_folder(&path) {
            return None;
        }
    }
    Some(path)
}

/// Returns the problem with a link, which is never followed.
pub(super) fn linked(path: String) -> Problem {
    Problem { path, problem: LINK.into(), action: "left out".into() }
}

const LINK: &str = "it is a link or a device, not a file";

/// What is done about a file whose name is that of an event and whose content is not.
pub(super) const KEPT_ASIDE: &str = "kept as an attachment";

/// Returns `None` if what was to be read is not there any more. A file may vanish after it was listed: its folder is then
/// imported as it is a moment later.
pub(super) fn if_there<T>(read: Result<T>) -> Result<Option<T>> {
    match read {
        Ok(content) => Ok(Some(content)),
        Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Lists `folder`, whose events are in `events_directory`. The folders in `apart` belong to other conversations.
pub(super) fn list(
    folder: &Path,
    events_directory: Option<&str>,
    apart: &HashSet<PathBuf>,
) -> Result<Listing> {
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
    apart: &HashSet<PathBuf>,
    listing: &mut Listing,
) -> Result<()> {
    let mut empty = true;
    let listed = fs::read_dir(folder).map_err(Error::io("listing", folder));
    // A folder within may have vanished, the conversation's own folder may not.
    let entries = if prefix.is_empty() { Some(listed?) } else { if_there(listed)? };
    let Some(entries) = entries else { return Ok(()) };
    for entry in entries {
        let entry = entry.map_err(Error::io("listing", folder))?;
        empty = false;
        let Some(kind) = if_there(entry.file_type().map_err(Error::io("listing", folder)))? else { continue };
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
            left_out(listing, prefix, &name, LINK);
        } else if events_directory == Some(prefix) && layout::read_event_name(&name).is_some() {
            listing.events.push(name);
        } else {
            if events_directory == Some(prefix) && is_misplaced(prefix, &name) {
                listing.problems.push(Problem {
                    path: format!("{prefix}{name}"),
                    problem: "its name is not an event's".into(),
                    action: KEPT_ASIDE.into(),
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
    let (bytes, digest) =
        if path.ends_with('/') { (0, Digest::of(b"")) } else { digest_up_to(&from, u64::MAX)? };
    Ok(ArrivingFile { path: path.to_owned(), from, offset: None, bytes, digest, reason })
}

/// Returns the digest of the first `bytes` bytes of a file, or of all of it if it is shorter.
pub(super) fn digest_of_beginning(path: &Path, bytes: u64) -> Result<Digest> {
    Ok(digest_up_to(path, bytes)?.1)
}

/// Reads at most `bytes_max` bytes of a file. Returns their number and their digest.
fn digest_up_to(path: &Path, bytes_max: u64) -> Result<(u64, Digest)> {
    let (file, _) = untrusted::open(path).map_err(Error::io("reading", path))?;
    let mut file = file.take(bytes_max);
    let mut hasher = Sha256::new();
    let mut bytes = 0;
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = file.read(&mut buffer).map_err(Error::io("reading", path))?;
        if read == 0 {
            return Ok((bytes, Digest(hasher.finalize().into())));
        }
        hasher.update(&buffer[..read]);
        bytes += read as u64;
    }
}

/// Returns a file with its size and digest, like [`measure`]. `None` if it is not there any more, and if it is too large to
/// be kept, which is added to `problems`.
pub(super) fn measure_or_leave_out(
    folder: &Path,
    path: &str,
    reason: Option<String>,
    problems: &mut Vec<Problem>,
) -> Result<Option<ArrivingFile>> {
    let file = folder.join(path);
    let Some(found) = if_there(file.metadata().map_err(Error::io("reading", &file)))? else {
        return Ok(None);
    };
    let bytes = found.len();
    if bytes <= ATTACHMENT_BYTES_MAX {
        return if_there(measure(folder, path, reason));
    }
    problems.push(Problem {
        path: path.to_owned(),
        problem: format!("it has {bytes} bytes, an attachment may have {ATTACHMENT_BYTES_MAX}"),
        action: "left out".into(),
    });
    Ok(None)
}
