//! Packs a folder's files into a gzip-compressed tar archive, with a list of the packed files.
//!
//! No link is followed, not even one that replaces a folder during packing: each step of a path is opened relative to
//! its open parent folder. Only regular files and folders are packed. If a file changes while it is packed, it keeps
//! the length that it had when it was opened. If it has become shorter, it is filled with zeros.

use std::ffi::{CStr, OsStr};
use std::fs::{File, Metadata};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use flate2::Compression;
use flate2::write::GzEncoder;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use serde_json::json;
use tar::{Builder, EntryType, Header, HeaderMode};

use super::rules::Rules;
use crate::untrusted;

/// The name of the list of the packed files, in the archive's folder.
const MANIFEST: &str = "archive_manifest.json";

/// The maximum depth of nested folders. Each level takes a file descriptor.
const DEPTH_MAX: usize = 200;

/// The maximum number of unreadable files and folders that are listed.
const UNREAD_MAX: usize = 1000;

/// When packing has to end.
#[derive(Clone)]
pub(super) struct Until {
    pub deadline: Instant,
    /// Set if the caller is gone.
    pub gone: Arc<AtomicBool>,
}

impl Until {
    fn check(&self) -> io::Result<()> {
        if self.gone.load(Ordering::Relaxed) || Instant::now() >= self.deadline {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "it took too long"));
        }
        Ok(())
    }
}

/// Packs `folder` into `out`, under the name `name`. `patterns` are the patterns of files to leave out.
///
/// # Errors
/// The errors of writing, and of reading the folder itself; [`io::ErrorKind::TimedOut`] if the time is over or the
/// caller is gone; [`io::ErrorKind::InvalidInput`] if folders are nested more than 200 deep.
pub(super) fn write(
    folder: &Path,
    name: &OsStr,
    patterns: &[String],
    until: &Until,
    out: impl Write,
) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(folder, flags, Mode::empty())?;
    let mut packing = Packing {
        archive: Builder::new(GzEncoder::new(out, Compression::default())),
        rules: Rules::new(patterns),
        name: PathBuf::from(name),
        until,
        files: 0,
        bytes: 0,
        unread: Vec::new(),
        has_manifest: false,
    };
    packing.folder(root, Path::new(""), 0)?;
    packing.manifest(patterns)?;
    packing.archive.into_inner()?.finish()?.flush()
}

struct Packing<'a, W: Write> {
    archive: Builder<GzEncoder<W>>,
    rules: Rules,
    name: PathBuf,
    until: &'a Until,
    files: u64,
    bytes: u64,
    /// The paths that could not be read.
    unread: Vec<String>,
    /// Whether the folder has a file with the name of the list.
    has_manifest: bool,
}

impl<W: Write> Packing<'_, W> {
    /// Packs an open folder, which is at `place` below the root, and its content in the order of the names.
    fn folder(&mut self, folder: OwnedFd, place: &Path, depth: usize) -> io::Result<()> {
        if depth > DEPTH_MAX {
            let words = format!("the folders are nested more than {DEPTH_MAX} deep");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, words));
        }
        self.until.check()?;
        let folder = File::from(folder);
        let mut header = Header::new_gnu();
        describe(&mut header, &folder.metadata()?);
        header.set_size(0);
        self.archive.append_data(&mut header, self.name.join(place).join(""), io::empty())?;
        let mut names = match names(&folder) {
            Ok(names) => names,
            Err(_) if depth > 0 => {
                self.cannot_read(place);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        names.sort_unstable();
        for name in names {
            let below = place.join(OsStr::from_bytes(name.to_bytes()));
            // The entry may have been removed or replaced since the names were read.
            let Ok(found) = rustix::fs::statat(&folder, &name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let kind = FileType::from_raw_mode(found.st_mode);
            let is_folder = kind == FileType::Directory;
            if !(is_folder || kind == FileType::RegularFile) || self.rules.leave_out(&below, is_folder) {
                continue;
            }
            // The manifest names what is left out.
            if !is_folder && untrusted::is_held_at(&found) {
                self.cannot_read(&below);
                continue;
            }
            let more = if is_folder { OFlags::DIRECTORY } else { OFlags::NONBLOCK | OFlags::NOCTTY };
            let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | more;
            match rustix::fs::openat(&folder, &name, flags, Mode::empty()) {
                Ok(child) if is_folder => self.folder(child, &below, depth + 1)?,
                Ok(child) => self.file(&File::from(child), &below)?,
                Err(rustix::io::Errno::NOENT | rustix::io::Errno::LOOP | rustix::io::Errno::NOTDIR) => {}
                Err(_) => self.cannot_read(&below),
            }
        }
        Ok(())
    }

    fn file(&mut self, file: &File, place: &Path) -> io::Result<()> {
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Ok(());
        }
        let mut header = Header::new_gnu();
        describe(&mut header, &metadata);
        let exact = Exact { file, left: metadata.len(), until: self.until, has_failed: false };
        let mut exact = io::BufReader::with_capacity(64 << 10, exact);
        self.archive.append_data(&mut header, self.name.join(place), &mut exact)?;
        if exact.get_ref().has_failed {
            self.cannot_read(place);
        }
        self.has_manifest |= place == Path::new(MANIFEST);
        self.files += 1;
        self.bytes += metadata.len();
        Ok(())
    }

    fn cannot_read(&mut self, place: &Path) {
        if self.unread.len() < UNREAD_MAX {
            self.unread.push(place.to_string_lossy().into_owned());
        }
    }

    /// Writes the list, unless the folder has a file with the same name. The folder's file takes precedence.
    fn manifest(&mut self, patterns: &[String]) -> io::Result<()> {
        if self.has_manifest {
            return Ok(());
        }
        let mut list = json!({
            "format": "tar.gz", "source": self.name.to_string_lossy(), "file_count": self.files,
            "total_bytes": self.bytes, "excludes": patterns,
        });
        if !self.unread.is_empty() {
            list["unreadable"] = json!(self.unread);
        }
        let text = serde_json::to_string_pretty(&list)?;
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        self.archive.append_data(&mut header, self.name.join(MANIFEST), text.as_bytes())
    }
}

/// Sets owner, permissions and modification time. The mode has only the permissions, because the header has a separate
/// field for the file type.
fn describe(header: &mut Header, metadata: &Metadata) {
    header.set_metadata_in_mode(metadata, HeaderMode::Complete);
    header.set_mode(metadata.mode() & 0o7777);
}

/// Returns the names in a folder.
fn names(folder: &File) -> io::Result<Vec<std::ffi::CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name: &CStr = entry.file_name();
        if !matches!(name.to_bytes(), b"." | b"..") {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

/// Reads exactly as many bytes as a file had when it was opened.
struct Exact<'a> {
    file: &'a File,
    left: u64,
    until: &'a Until,
    /// Whether the file could not be read to its end.
    has_failed: bool,
}

impl Read for Exact<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.until.check()?;
        let room = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        if room == 0 {
            return Ok(0);
        }
        let buffer = &mut buffer[..room];
        let read = match self.file.read(buffer) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(error),
            Err(_) => {
                self.has_failed = true;
                0
            }
        };
        if read == 0 {
            buffer.fill(0);
        }
        let given = if read == 0 { room } else { read };
        self.left -= given as u64;
        Ok(given)
    }
}
