//! Files that somebody else may have put there: an agent, a workspace, a plugin, whoever uploads.
//!
//! A name may lead to a pipe that nobody writes to, a device that never ends, a file that grows faster than it is read or
//! that is gone in between. So nothing here waits for the other side of a file: it is opened without blocking, only
//! regular files are taken, looked at once more when they are open, and read no further than the caller names.

use std::fs::{self, File, Metadata};
use std::io::{self, Read as _};
use std::path::Path;

/// The longest list of what a walk leaves out, in bytes.
const RULES_BYTES_MAX: u64 = 1 << 20;

/// Opens a regular file for reading. Links are followed.
///
/// # Errors
/// What the system says; [`io::ErrorKind::IsADirectory`] for a folder and [`io::ErrorKind::InvalidInput`] for what is
/// neither a folder nor a regular file.
pub fn open(path: &Path) -> io::Result<(File, Metadata)> {
    // To open a device may do something already.
    check(&fs::metadata(path)?)?;
    let mut options = File::options();
    options.read(true);
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        let flags = OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, flags.bits().cast_signed());
    }
    let file = options.open(path)?;
    // It may be another one by now.
    let metadata = file.metadata()?;
    check(&metadata)?;
    Ok((file, metadata))
}

/// Reads a regular file whole, into `bytes`, which is emptied first.
///
/// # Errors
/// As [`open`]; [`io::ErrorKind::FileTooLarge`] for more than `bytes_max`, of which nothing is given then.
pub fn read_into(path: &Path, bytes_max: u64, bytes: &mut Vec<u8>) -> io::Result<()> {
    bytes.clear();
    let (file, metadata) = open(path)?;
    if metadata.len() > bytes_max {
        return Err(too_large(bytes_max));
    }
    // What it says of its length is not believed: it may grow, and some have none.
    file.take(bytes_max.saturating_add(1)).read_to_end(bytes)?;
    if bytes.len() as u64 > bytes_max {
        *bytes = Vec::new();
        return Err(too_large(bytes_max));
    }
    Ok(())
}

/// Reads a regular file whole.
///
/// # Errors
/// As [`read_into`].
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    read_into(path, bytes_max, &mut bytes)?;
    Ok(bytes)
}

/// Reads a regular file whole, as text.
///
/// # Errors
/// As [`read_into`]; [`io::ErrorKind::InvalidData`] for what is no UTF-8.
pub fn read_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    String::from_utf8(read(path, bytes_max)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8"))
}

/// Whether there is nothing at the path, or a regular file of at most `bytes_max`: something that code of others, which
/// opens it as it comes, may be let at.
#[must_use]
pub fn is_harmless(path: &Path, bytes_max: u64) -> bool {
    match fs::metadata(path) {
        Ok(metadata) => metadata.is_dir() || (metadata.is_file() && metadata.len() <= bytes_max),
        // What cannot be looked at cannot be opened either.
        Err(_) => true,
    }
}

/// Whether the rules of what is left out may be read in a folder: by a walk that opens `.gitignore`, `.ignore` and
/// what git has of that kind as they come.
#[must_use]
pub fn may_be_walked(folder: &Path) -> bool {
    let git = folder.join(".git");
    let rules = [folder.join(".gitignore"), folder.join(".ignore"), git.join("info/exclude")];
    rules.iter().all(|path| is_harmless(path, RULES_BYTES_MAX)) && leads_nowhere_bad(folder, &git)
}

/// Whether `.git` is no file, or one that leads to a repository whose files are harmless too.
fn leads_nowhere_bad(folder: &Path, git: &Path) -> bool {
    if !fs::metadata(git).is_ok_and(|metadata| metadata.is_file()) {
        return true;
    }
    let Ok(text) = read_text(git, RULES_BYTES_MAX) else { return false };
    let first = |text: &str| text.lines().next().unwrap_or_default().trim().to_owned();
    let Some(target) = first(&text).strip_prefix("gitdir:").map(|target| folder.join(target.trim())) else {
        return true;
    };
    let common = target.join("commondir");
    if !is_harmless(&common, RULES_BYTES_MAX) {
        return false;
    }
    let shared =
        read_text(&common, RULES_BYTES_MAX).map_or_else(|_| target.clone(), |text| target.join(first(&text)));
    [target, shared].iter().all(|place| is_harmless(&place.join("info/exclude"), RULES_BYTES_MAX))
}

fn check(metadata: &Metadata) -> io::Result<()> {
    if metadata.is_dir() {
        Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a directory"))
    } else if metadata.is_file() {
        Ok(())
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"))
    }
}

fn too_large(bytes_max: u64) -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, format!("it is longer than {bytes_max} bytes"))
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn what_never_ends_or_never_begins_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        mknodat(CWD, at("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        std::os::unix::fs::symlink("/dev/zero", at("zero")).unwrap();
        std::os::unix::fs::symlink(at("pipe"), at("to pipe")).unwrap();
        std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        fs::write(at("long"), [7; 11]).unwrap();
        fs::write(at("fits"), [7; 10]).unwrap();
        let kind = |name: &str| read(&at(name), 10).unwrap_err().kind();
        for name in ["pipe", "zero", "to pipe", "socket"] {
            assert_eq!(kind(name), io::ErrorKind::InvalidInput, "{name}");
            assert!(!is_harmless(&at(name), 10), "{name}");
        }
        assert_eq!(kind(""), io::ErrorKind::IsADirectory);
        assert_eq!(kind("none"), io::ErrorKind::NotFound);
        assert_eq!(kind("long"), io::ErrorKind::FileTooLarge);
        assert_eq!(read(&at("fits"), 10).unwrap(), [7; 10]);
        assert!(
            is_harmless(&at("fits"), 10) && is_harmless(&at("none"), 10) && !is_harmless(&at("long"), 10)
        );
    }

    #[test]
    fn a_file_that_says_it_is_empty_and_is_not_is_read_to_the_bound() {
        // Of the system's own there are some without a length.
        let found = Path::new("/proc/self/status");
        if found.exists() {
            assert_eq!(fs::metadata(found).unwrap().len(), 0);
            assert_eq!(read(found, 10).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
            assert!(read_text(found, 1 << 20).unwrap().contains("Pid:"));
        }
    }

    #[test]
    fn a_file_that_grows_while_it_is_read_is_read_to_the_bound() {
        const MAX: u64 = 1 << 16;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("grows");
        fs::write(&path, b"x").unwrap();
        let ends = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                use std::io::Write as _;
                let mut file = File::options().append(true).open(&path).unwrap();
                while !ends.load(Ordering::Relaxed) {
                    file.write_all(&[7; 4096]).unwrap();
                    if file.metadata().unwrap().len() > 64 * MAX {
                        file.set_len(1).unwrap();
                    }
                }
            });
            for _ in 0..200 {
                match read(&path, MAX) {
                    Ok(bytes) => assert!(bytes.len() as u64 <= MAX),
                    Err(error) => assert_eq!(error.kind(), io::ErrorKind::FileTooLarge),
                }
            }
            ends.store(true, Ordering::Relaxed);
        });
    }
}
