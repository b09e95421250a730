//! Writes a zip archive of a folder in one pass. The files are not compressed, because they are small.
//!
//! Source: APPNOTE 6.3.10. The extensions for large archives are not used. An archive of more than 4 GiB, or with more
//! than 65,535 files, is rejected.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

const LOCAL: u32 = 0x0403_4b50;
const CENTRAL: u32 = 0x0201_4b50;
const END: u32 = 0x0605_4b50;

/// The version that is needed to read the archive (2.0), and the flag for UTF-8 names.
const VERSION: u16 = 20;
const UTF_8: u16 = 1 << 11;

/// 1 January 1980. The archive contains no real times, so that the same folder gives the same bytes.
const DATE: u16 = 0x0021;

struct Entry {
    name: String,
    crc: u32,
    bytes: u32,
    offset: u32,
}

/// Writes the files of `folder` to `out`, below `prefix`, in the order of their paths. Links are left out.
///
/// # Errors
/// The errors of reading and writing; [`io::ErrorKind::FileTooLarge`] if the archive would be too large.
pub(super) fn write(folder: &Path, prefix: &str, out: &mut impl Write) -> io::Result<()> {
    let (mut entries, mut offset) = (Vec::new(), 0_u32);
    for path in files(folder)? {
        let mut content = Vec::new();
        fs::File::open(&path)?.read_to_end(&mut content)?;
        let inner = path.strip_prefix(folder).unwrap_or(&path);
        let steps: Vec<_> = inner.iter().map(|step| step.to_string_lossy()).collect();
        let entry = Entry {
            name: format!("{prefix}/{}", steps.join("/")),
            crc: crc(&content),
            bytes: small(content.len())?,
            offset,
        };
        let mut header = Vec::new();
        number(&mut header, &LOCAL.to_le_bytes());
        describe(&mut header, &entry)?;
        number(&mut header, &0_u16.to_le_bytes());
        header.extend_from_slice(entry.name.as_bytes());
        out.write_all(&header)?;
        out.write_all(&content)?;
        let end = offset.checked_add(small(header.len())?).and_then(|end| end.checked_add(entry.bytes));
        offset = end.ok_or(io::ErrorKind::FileTooLarge)?;
        entries.push(entry);
    }
    let mut directory = Vec::new();
    for entry in &entries {
        number(&mut directory, &CENTRAL.to_le_bytes());
        number(&mut directory, &VERSION.to_le_bytes());
        describe(&mut directory, entry)?;
        // No extra field, no comment, the first disk, no attributes.
        number(&mut directory, &[0; 12]);
        number(&mut directory, &entry.offset.to_le_bytes());
        directory.extend_from_slice(entry.name.as_bytes());
    }
    let count = u16::try_from(entries.len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
    out.write_all(&directory)?;
    let mut end = Vec::new();
    number(&mut end, &END.to_le_bytes());
    number(&mut end, &[0; 4]);
    number(&mut end, &count.to_le_bytes());
    number(&mut end, &count.to_le_bytes());
    number(&mut end, &small(directory.len())?.to_le_bytes());
    number(&mut end, &offset.to_le_bytes());
    number(&mut end, &[0; 2]);
    out.write_all(&end)
}

/// Writes the part that both headers of a file have: its method, time, checksum, sizes, and the length of its name.
fn describe(out: &mut Vec<u8>, entry: &Entry) -> io::Result<()> {
    let name = u16::try_from(entry.name.len()).map_err(|_| io::ErrorKind::InvalidFilename)?;
    for field in [VERSION, UTF_8, 0, 0, DATE] {
        number(out, &field.to_le_bytes());
    }
    for field in [entry.crc, entry.bytes, entry.bytes] {
        number(out, &field.to_le_bytes());
    }
    number(out, &name.to_le_bytes());
    Ok(())
}

fn number(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(bytes);
}

fn small(length: usize) -> io::Result<u32> {
    u32::try_from(length).map_err(|_| io::ErrorKind::FileTooLarge.into())
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

/// Returns the CRC-32 checksum, computed one byte at a time with a table.
fn crc(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = table();
    let step = |sum: u32, byte: &u8| TABLE[((sum ^ u32::from(*byte)) & 0xff) as usize] ^ (sum >> 8);
    !bytes.iter().fold(!0, step)
}

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut sum, mut bit) = (byte as u32, 0);
        while bit < 8 {
            sum = if sum & 1 == 1 { 0xedb8_8320 ^ (sum >> 1) } else { sum >> 1 };
            bit += 1;
        }
        table[byte] = sum;
        byte += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_standard_one() {
        assert_eq!(crc(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc(b""), 0);
    }

    #[test]
    fn the_archive_has_the_layout_of_a_zip() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("events")).unwrap();
        fs::write(folder.path().join("b.json"), "{}").unwrap();
        fs::write(folder.path().join("events/a.json"), "[1]").unwrap();
        let mut zip = Vec::new();
        write(folder.path(), "x", &mut zip).unwrap();
        let at = |place: usize| u32::from_le_bytes(zip[place..place + 4].try_into().unwrap());
        assert_eq!(at(0), LOCAL);
        assert_eq!(&zip[30..38], b"x/b.json");
        assert_eq!(&zip[38..40], b"{}");
        let end = zip.len() - 22;
        assert_eq!((at(end), zip[end + 8], zip[end + 10]), (END, 2, 2));
        let directory = at(end + 16) as usize;
        assert_eq!(at(directory), CENTRAL);
        assert_eq!(&zip[directory + 46..directory + 54], b"x/b.json");
        assert_eq!(at(directory + 42), 0, "where the first file begins");
    }
}
