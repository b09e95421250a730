//! Reports how long the write-ahead log is, which readers keep it from restarting at its beginning, and who writes to it.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use super::damaged_log;
use super::place::Place;
use super::presence::Presence;
use crate::error::Error;
use crate::ids::Timestamp;
use crate::store::Maintenance;
use crate::untrusted;

/// The read locks that keep the log from restarting: bytes of the shared memory. A reader holds the first lock if the
/// whole log was already moved into the file when it began. Until it ends, no more frames may be moved there.
///
/// Source: SQLite's `wal.c`, `WALINDEX_LOCK_OFFSET` (120) and `WAL_READ_LOCK(I)` (3 + I), I from 0 to 4.
const READ_LOCKS: RangeInclusive<u64> = 123..=127;

/// The lock of the connection that writes. Source: the same, `WAL_WRITE_LOCK` (0).
const WRITE_LOCK: RangeInclusive<u64> = 120..=120;

/// The most processes that are searched for a lock without a process, and the most descriptors of each.
#[cfg(target_os = "linux")]
const PROCESSES_MAX: usize = 10_000;
#[cfg(target_os = "linux")]
const DESCRIPTORS_MAX: usize = 4096;

/// The system gives its list of locks in parts of up to a page, so a shorter list is of one moment. If other programs lock and unlock between two parts, some
/// entries may be left out.
#[cfg(target_os = "linux")]
const PART_BYTES: usize = 4096;

/// How often a list of several parts is read. A reader that is in any of them counts.
#[cfg(target_os = "linux")]
const READS: usize = 10;

/// The state of the write-ahead log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct WriteLog {
    /// The size of the log in bytes.
    pub bytes: u64,
    /// The size at which a writer waits for readers, in bytes. One transaction can exceed it.
    pub bytes_max: u64,
    /// Since when a reader has kept the log from restarting. Only a store that writes to the log notices it.
    pub pinned_since: Option<Timestamp>,
    /// The processes that read from the log now. Only filled if the log is pinned, and only on Linux.
    pub readers: Vec<LogReader>,
}

impl WriteLog {
    /// Returns whether a reader makes the log longer than it should be.
    #[must_use]
    pub fn is_pinned(&self) -> bool {
        self.pinned_since.is_some() || self.bytes > self.bytes_max.saturating_add(self.bytes_max / 4)
    }

    /// Returns a warning for the operator. `None` unless a reader pins the log.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        if !self.is_pinned() {
            return None;
        }
        let since = self.pinned_since.map(|since| format!(" since {since}")).unwrap_or_default();
        let who: Vec<String> = self.readers.iter().map(LogReader::describe).collect();
        let who = if who.is_empty() {
            "a reader has not ended".to_owned()
        } else {
            format!("{} still {} from it", who.join(" and "), if who.len() == 1 { "reads" } else { "read" })
        };
        Some(format!(
            "the write-ahead log has {} MiB (limit {} MiB) and cannot restart{since}: {who}; it grows until the \
             reader ends",
            self.bytes >> 20,
            self.bytes_max >> 20,
        ))
    }
}

/// A copy of a file whose write-ahead log was damaged, as it was before the next write.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DamagedLog {
    /// The copy of the file. Its log lies beside it.
    pub path: PathBuf,
    /// The number of commits behind the damage, which the file does not have. With `Durability::Full` they were acknowledged.
    /// `None` if the copy may not be read.
    pub commits: Option<u64>,
}

impl DamagedLog {
    /// Says what was found and what to do.
    #[must_use]
    pub fn describe(&self) -> String {
        format!(
            "its write-ahead log had {}commits behind a frame that is not whole, and they are not in it: it was damaged, or a power \
             cut came before commits without syncs were written; a copy of both was kept as {:?}; `annals recover {} --into NEW` \
             puts what is whole into a new file; remove the copy when you have it",
            self.commits.map(|commits| format!("{commits} ")).unwrap_or_default(),
            self.path,
            self.path.display()
        )
    }
}

/// A process that reads from the write-ahead log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogReader {
    /// The id of the process.
    pub process: u32,
    /// The name of its program, if the system reports it.
    pub name: Option<String>,
    /// Whether it is this process.
    pub is_this: bool,
}

impl LogReader {
    fn describe(&self) -> String {
        match (&self.name, self.is_this) {
            (_, true) => format!("this process ({})", self.process),
            (Some(name), false) => format!("process {} ({name})", self.process),
            (None, false) => format!("process {}", self.process),
        }
    }
}

impl Maintenance<'_> {
    /// Returns how many bytes are free on the disk of the file. `None` for a store in memory, and if the system does not
    /// report it.
    #[must_use]
    pub fn free_bytes(&self) -> Option<u64> {
        self.store.0.presence.log().and_then(super::place::free_bytes)
    }

    /// Returns the copies that were kept of the file because its write-ahead log was damaged. They stay until they are removed by
    /// hand. Empty for a store in memory, and if the folder may not be listed.
    #[must_use]
    pub fn damaged_logs(&self) -> Vec<DamagedLog> {
        let Place::File(path) = &self.store.0.place else { return Vec::new() };
        let kept = damaged_log::kept(path).into_iter();
        kept.map(|(path, commits)| DamagedLog { path, commits }).collect()
    }

    /// Returns why appends fail now, if the last one of this store did, and a transaction cannot begin. Writes nothing. Waits
    /// for another process's lock for a moment only.
    #[cfg(feature = "server")]
    pub(crate) fn trouble(&self) -> Option<Error> {
        self.store.0.writer.as_ref().and_then(|writer| writer.trouble())
    }

    /// Returns the state of the write-ahead log. All fields are empty for a store in memory.
    #[must_use]
    pub fn write_log(&self) -> WriteLog {
        let presence = &self.store.0.presence;
        let Some(path) = presence.log() else { return WriteLog::default() };
        let mut log = WriteLog {
            bytes: std::fs::metadata(path).map_or(0, |log| log.len()),
            bytes_max: self.store.0.options.write_log_bytes_max,
            pinned_since: self.store.0.writer.as_ref().and_then(|writer| writer.pinned_since()),
            readers: Vec::new(),
        };
        if log.is_pinned()
            && let Some(shared) = presence.shared_memory()
        {
            log.readers = processes(shared, &READ_LOCKS);
        }
        log
    }
}

impl Presence {
    /// Adds to an error that another process has the lock which process that is, if the system says it.
    pub(in crate::store) fn naming_holder(&self, error: Error) -> Error {
        let (Error::Busy { waited_ms, holder: None }, Some(shared)) = (&error, self.shared_memory()) else {
            return error;
        };
        let holders = processes(shared, &WRITE_LOCK);
        let holder = holders.iter().find(|holder| !holder.is_this).map(LogReader::describe);
        Error::Busy { waited_ms: *waited_ms, holder }
    }
}

/// Returns the processes that hold one of these locks in the shared memory with this inode number.
///
/// It reads the system's list of locks. To open and close the shared memory would release this process's own locks.
#[cfg(target_os = "linux")]
fn processes(shared: u64, wanted: &RangeInclusive<u64>) -> Vec<LogReader> {
    let mut found = std::collections::BTreeSet::new();
    let mut is_searched = false;
    for _ in 0..READS {
        let Ok(locks) = untrusted::read_system("/proc/locks") else { break };
        for holder in holders(&locks, shared, wanted) {
            match holder {
                Some(process) => drop(found.insert(process)),
                // A lock of an open file description belongs to no process, but to all that have it open.
                None if !is_searched => {
                    is_searched = true;
                    found.extend(with_descriptors(shared, wanted));
                }
                None => {}
            }
        }
        if locks.len() < PART_BYTES {
            break;
        }
    }
    let name = |process| {
        let name = untrusted::read_system(format!("/proc/{process}/comm")).ok()?;
        Some(name.trim().replace(char::is_control, "?"))
    };
    let reader = |process| LogReader { process, name: name(process), is_this: process == std::process::id() };
    found.into_iter().map(reader).collect()
}

/// Returns the processes with a descriptor that has such a lock, as far as this user may look at them.
#[cfg(target_os = "linux")]
fn with_descriptors(shared: u64, wanted: &RangeInclusive<u64>) -> Vec<u32> {
    let has_it = |process: &u32| {
        let Ok(descriptors) = std::fs::read_dir(format!("/proc/{process}/fdinfo")) else { return false };
        descriptors.flatten().take(DESCRIPTORS_MAX).any(|descriptor| {
            let text = untrusted::read_system(descriptor.path()).unwrap_or_default();
            let locks: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("lock:")).collect();
            !holders(&locks.join("\n"), shared, wanted).is_empty()
        })
    };
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let all = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    all.take(PROCESSES_MAX).filter(has_it).collect()
}

#[cfg(not(target_os = "linux"))]
fn processes(_shared: u64, _wanted: &RangeInclusive<u64>) -> Vec<LogReader> {
    Vec::new()
}

/// Returns the processes with a lock on one of these bytes, from the text of `/proc/locks`. `None` stands for a lock of
/// an open file description, which has no process.
///
/// Source: proc(5): number, kind, mode, access, process, device and number of the file, first and last byte.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
fn holders(locks: &str, shared: u64, wanted: &RangeInclusive<u64>) -> Vec<Option<u32>> {
    let holder = |line: &str| -> Option<Option<u32>> {
        // A process that waits for a lock has an arrow after the number. It does not hold the lock and does not match.
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, "POSIX" | "OFDLCK", _, _, process, file, first, last] = words[..] else { return None };
        let number: u64 = file.rsplit(':').next()?.parse().ok()?;
        let first: u64 = first.parse().ok()?;
        let last = last.parse().unwrap_or(u64::MAX);
        let overlaps = first <= *wanted.end() && last >= *wanted.start();
        (number == shared && overlaps).then(|| process.parse().ok())
    };
    let mut holders: Vec<Option<u32>> = locks.lines().filter_map(holder).collect();
    holders.sort_unstable();
    holders.dedup();
    holders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holders_of_read_locks_are_read_from_the_systems_list() {
        let locks = "1: POSIX  ADVISORY  READ  4242 fd:01:77 124 124\n\
                     2: POSIX  ADVISORY  READ  4242 fd:01:77 128 128\n\
                     3: POSIX  ADVISORY  READ  17 fd:01:77 122 122\n\
                     4: POSIX  ADVISORY  READ  18 fd:01:78 125 125\n\
                     5: POSIX  ADVISORY  WRITE 19 fd:01:77 120 120\n\
                     5: -> POSIX  ADVISORY  READ 20 fd:01:77 125 125\n\
                     6: FLOCK  ADVISORY  WRITE 21 fd:01:77 0 EOF\n\
                     7: POSIX  ADVISORY  READ  4243 fd:01:77 127 127\n\
                     8: POSIX  ADVISORY  READ  4244 fd:01:77 123 123\n\
                     9: OFDLCK ADVISORY  READ  -1 fd:01:77 124 124\n";
        assert_eq!(holders(locks, 77, &READ_LOCKS), [None, Some(4242), Some(4243), Some(4244)]);
        assert_eq!(holders(locks, 77, &WRITE_LOCK), [Some(19)]);
    }

    #[test]
    fn a_warning_names_the_reader_and_the_sizes() {
        let reader = LogReader { process: 7, name: Some("sqlite3".into()), is_this: false };
        let log = WriteLog {
            bytes: 512 << 20,
            bytes_max: 256 << 20,
            pinned_since: Some(Timestamp(0)),
            readers: vec![reader],
        };
        let warning = log.warning().expect("it is pinned");
        assert!(
            warning.contains("512 MiB") && warning.contains("256") && warning.contains("process 7 (sqlite3)")
        );
        assert_eq!(WriteLog { bytes: 300 << 20, pinned_since: None, ..log }.warning(), None);
    }
}
