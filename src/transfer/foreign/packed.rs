//! Log files that are compressed with Zstandard, as Codex packs older ones: `rollout-….jsonl.zst`. They are read as what
//! is in them.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read};
use std::path::Path;

use crate::untrusted;

/// The first bytes of a frame (RFC 8878).
const MAGIC: &[u8] = b"\x28\xb5\x2f\xfd";

/// The ending of the names of compressed files.
pub(in crate::transfer) const ENDING: &str = ".zst";

/// The limit of the unpacked content, in bytes. A small file can hold any number.
const UNPACKED_BYTES_MAX: u64 = 64 << 30;

/// A log file that is read from its beginning.
pub(super) enum Opened {
    Plain(BufReader<File>),
    Packed(Unpacked<zstd::stream::read::Decoder<'static, BufReader<File>>>),
}

/// What is unpacked, up to a limit.
pub(super) struct Unpacked<R> {
    from: R,
    left: u64,
}

/// Opens a log file. Whether it is compressed is decided by its content.
///
/// # Errors
/// As [`untrusted::open`].
pub(super) fn open(path: &Path) -> std::io::Result<Opened> {
    let (file, _) = untrusted::open(path)?;
    let mut reader = BufReader::with_capacity(1 << 16, file);
    if !reader.fill_buf()?.starts_with(MAGIC) {
        return Ok(Opened::Plain(reader));
    }
    let from = zstd::stream::read::Decoder::with_buffer(reader)?;
    Ok(Opened::Packed(Unpacked { from, left: UNPACKED_BYTES_MAX }))
}

/// Returns the first bytes of a file, unpacked if it is compressed. What cannot be unpacked is left out.
///
/// # Errors
/// As [`untrusted::open`].
pub(super) fn beginning(path: &Path, bytes_max: usize) -> std::io::Result<Vec<u8>> {
    let bytes = untrusted::beginning(path, bytes_max)?;
    if !bytes.starts_with(MAGIC) {
        return Ok(bytes);
    }
    let mut unpacked = Vec::new();
    // The beginning may be whole although the file is not.
    let _ = open(path)?.take(bytes_max as u64).read_to_end(&mut unpacked);
    Ok(unpacked)
}

impl Opened {
    /// Whether places in the content are not places in the file.
    pub(super) fn is_packed(&self) -> bool {
        matches!(self, Self::Packed(_))
    }
}

impl Read for Opened {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Self::Plain(reader) => reader.read(buffer),
            Self::Packed(reader) => reader.read(buffer),
        }
    }
}

impl<R: Read> Read for Unpacked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.from.read(buffer)?;
        self.left = self.left.checked_sub(read as u64).ok_or_else(|| {
            std::io::Error::other(format!("it unpacks to more than {UNPACKED_BYTES_MAX} bytes"))
        })?;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_unpacked_than_the_limit() {
        let mut unpacked = Unpacked { from: std::io::repeat(0), left: 100 };
        let error = unpacked.read_to_end(&mut Vec::new()).unwrap_err();
        assert!(error.to_string().starts_with("it unpacks to more than"), "{error}");
        let mut small = Unpacked { from: &b"abc"[..], left: 3 };
        let mut text = String::new();
        assert_eq!((small.read_to_string(&mut text).unwrap(), text.as_str()), (3, "abc"));
    }
}
