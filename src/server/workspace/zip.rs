//! Writes a zip archive of a folder in one pass, for `GET /file/download-trajectory/{id}`.
//!
//! A file's content passes through a small buffer, whatever its size. The sizes of a file follow its content, so the
//! files are compressed: some programs can find the end of a compressed file only. The extensions for large archives
//! are used where they are needed.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::DeflateEncoder;
use rawzip::time::UtcDateTime;
use rawzip::{CompressionMethod, ErrorKind, ZipArchiveWriter};

use crate::untrusted;

/// The time of every file. The archive contains no real times, so that the same folder gives the same bytes.
const TIME: Option<UtcDateTime> = UtcDateTime::from_components(1980, 1, 1, 0, 0, 0, 0);

/// Writes the files of `folder` to `out`, below `prefix`, in the order of their paths. Links are left out.
///
/// # Errors
/// The errors of reading and writing; [`io::ErrorKind::InvalidInput`] if a name has more than 65,535 bytes.
pub(super) fn write(folder: &Path, prefix: &str, out: &mut impl Write) -> io::Result<()> {
    let mut archive = ZipArchiveWriter::new(out);
    for path in files(folder)? {
        let inner = path.strip_prefix(folder).unwrap_or(&path);
        let steps: Vec<_> = inner.iter().map(|step| step.to_string_lossy()).collect();
        add(&mut archive, &format!("{prefix}/{}", steps.join("/")), untrusted::open_named(&path)?)?;
    }
    archive.finish().map(drop).map_err(failed)
}

/// Adds one file.
fn add(archive: &mut ZipArchiveWriter<impl Write>, name: &str, mut content: impl Read) -> io::Result<()> {
    let mut file = archive.new_file(name).compression_method(CompressionMethod::DEFLATE);
    if let Some(time) = TIME {
        file = file.last_modified(time);
    }
    let (mut entry, plan) = file.start().map_err(failed)?;
    let mut out = plan.wrap(DeflateEncoder::new(&mut entry, Compression::fast()));
    io::copy(&mut content, &mut out)?;
    let (deflated, sizes) = out.finish().map_err(failed)?;
    deflated.finish()?;
    entry.finish(sizes).map(drop).map_err(failed)
}

/// Returns the system's error that an error of the archive is about, or says what is wrong.
fn failed(error: rawzip::Error) -> io::Error {
    match error.into_kind() {
        ErrorKind::IO(error) => error,
        other => io::Error::new(io::ErrorKind::InvalidInput, rawzip::Error::from(other)),
    }
}

/// Returns the files of a folder and of its subfolders, sorted by path.
fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the names and contents of an archive's files, in the order of its directory. Checks sizes and checksums.
    fn unpacked(zip: &[u8]) -> Vec<(String, Vec<u8>)> {
        let archive = rawzip::ZipArchive::from_slice(zip).unwrap();
        let mut files = Vec::new();
        for entry in archive.entries() {
            let entry = entry.unwrap();
            let name = String::from_utf8(entry.file_path().as_bytes().to_vec()).unwrap();
            let packed = archive.get_entry(entry.wayfinder()).unwrap();
            let mut content = Vec::new();
            let reader = flate2::read::DeflateDecoder::new(packed.data());
            packed.verifying_reader(reader).read_to_end(&mut content).unwrap();
            files.push((name, content));
        }
        files
    }

    #[test]
    fn the_archive_has_the_files_of_a_folder_below_a_name() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("events")).unwrap();
        fs::write(folder.path().join("b.json"), "{}").unwrap();
        fs::write(folder.path().join("events/ä.json"), "[1]").unwrap();
        fs::write(folder.path().join("events/empty"), "").unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("link")).unwrap();
        let (mut zip, mut again) = (Vec::new(), Vec::new());
        write(folder.path(), "x", &mut zip).unwrap();
        write(folder.path(), "x", &mut again).unwrap();
        assert_eq!(zip, again);
        let file = |name: &str, content: &str| (name.to_owned(), content.as_bytes().to_vec());
        let files = [file("x/b.json", "{}"), file("x/events/empty", ""), file("x/events/ä.json", "[1]")];
        assert_eq!(unpacked(&zip), files);
    }

    /// Reads a file, and remembers the largest buffer that it had to fill.
    struct Watched {
        file: fs::File,
        largest: usize,
    }

    impl Read for &mut Watched {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.largest = self.largest.max(buffer.len());
            self.file.read(buffer)
        }
    }

    /// Counts bytes, and remembers the longest piece.
    #[derive(Default)]
    struct Counter {
        largest: usize,
        total: usize,
    }

    impl Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.largest = self.largest.max(bytes.len());
            self.total += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_large_file_passes_through_small_buffers() {
        const LENGTH: u64 = 16 << 20;
        let file = tempfile::tempfile().unwrap();
        file.set_len(LENGTH).unwrap();
        let mut content = Watched { file, largest: 0 };
        let mut out = Counter::default();
        let mut archive = ZipArchiveWriter::new(&mut out);
        add(&mut archive, "sparse", &mut content).unwrap();
        archive.finish().unwrap();
        assert!(
            content.largest <= 64 << 10 && out.largest <= 64 << 10,
            "{} {}",
            content.largest,
            out.largest
        );
        assert!((1000..1 << 20).contains(&out.total), "{}", out.total);
    }
}
