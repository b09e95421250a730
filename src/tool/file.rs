//! Writes files atomically: a reader sees the old content or the new content, never a part.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::untrusted;

/// Replaces the file at `path`, or creates it, with these bytes. Its folder must exist.
///
/// An existing file keeps its permissions. A symbolic link is followed, so that it stays a link.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    untrusted::refuse_held(path)?;
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.map_or_else(|| PathBuf::from("."), Path::to_owned);
    let old = fs::metadata(&target).ok().map(|old| old.permissions());
    let name = target.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let temporary = folder.join(format!(".{name}.{}.tmp", uuid::Uuid::new_v4().simple()));
    let written = write(&temporary, bytes, old).and_then(|()| fs::rename(&temporary, &target));
    if written.is_err() {
        // Removes the temporary file. An error here adds nothing to the error that is returned.
        drop(fs::remove_file(&temporary));
    }
    written
}

fn write(path: &Path, bytes: &[u8], permissions: Option<Permissions>) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(bytes)?;
    match permissions {
        Some(permissions) => file.set_permissions(permissions),
        None => Ok(()),
    }
}
