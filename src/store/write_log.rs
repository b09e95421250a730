//! How long the write-ahead log is, and who keeps it from beginning anew.

use super::Store;
use crate::ids::Timestamp;

/// The first and the last of the locks that keep the log: bytes of the shared memory. The first is held by readers that
/// found all of the log in the file: until they end nothing more may be moved there.
///
/// Source: SQLite's `wal.c`, `WALINDEX_LOCK_OFFSET` (120) and `WAL_READ_LOCK(I)` (3 + I), I from 0 to 4.
const READ_LOCKS: std::ops::RangeInclusive<u64> = 123..=127;

/// The state of the write-ahead log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WriteLog {
    /// Its size in bytes.
    pub bytes: u64,
    /// How long it may grow before a writer waits for readers; it can be longer by one transaction.
    pub bytes_max: u64,
    /// Since when a reader has kept it from beginning anew, as far as this store has noticed: whoever writes does.
    pub pinned_since: Option<Timestamp>,
    /// Who read from it just now, where it is longer than it should be and the system tells (Linux).
    pub readers: Vec<LogReader>,
}

impl WriteLog {
    /// Whether a reader makes it longer than it should be.
    #[must_use]
    pub fn is_pinned(&self) -> bool {
        self.pinned_since.is_some() || self.bytes > self.bytes_max.saturating_add(self.bytes_max / 4)
    }

    /// What is to be said to people about it; `None` while all is well.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        if !self.is_pinned() {
            return None;
        }
        let since = self.pinned_since.map(|since| format!(" since {since}")).unwrap_or_default();
        let who: Vec<String> = self.readers.iter().map(LogReader::told).collect();
        let who = if who.is_empty() {
            "a reader that does not end keeps it".to_owned()
        } else {
            format!(
                "{} {} from it without ending",
                who.join(" and "),
                if who.len() == 1 { "reads" } else { "read" }
            )
        };
        Some(format!(
            "the write-ahead log has {} MiB, {} are the bound{since}: {who}; it grows until that reader ends",
            self.bytes >> 20,
            self.bytes_max >> 20,
        ))
    }
}

/// A process that reads from the write-ahead log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogReader {
    /// Its number.
    pub process: u32,
    /// The name of its program, where it can be asked.
    pub name: Option<String>,
    /// Whether it is this very process.
    pub is_this: bool,
}

impl LogReader {
    fn told(&self) -> String {
        match (&self.name, self.is_this) {
            (_, true) => format!("this process ({})", self.process),
            (Some(name), false) => format!("process {} ({name})", self.process),
            (None, false) => format!("process {}", self.process),
        }
    }
}

impl Store {
    /// How long the write-ahead log is, and who keeps it from beginning anew. Nothing of a store in memory.
    #[must_use]
    pub fn write_log(&self) -> WriteLog {
        let presence = &self.0.presence;
        let Some(path) = presence.log() else { return WriteLog::default() };
        let mut log = WriteLog {
            bytes: std::fs::metadata(path).map_or(0, |log| log.len()),
            bytes_max: self.0.options.write_log_bytes_max,
            pinned_since: self.0.writer.as_ref().and_then(|writer| writer.pinned_since()),
            readers: Vec::new(),
        };
        if log.is_pinned()
            && let Some(shared) = presence.shared_memory()
        {
            log.readers = readers(shared);
        }
        log
    }
}

/// Who holds a read lock in the shared memory of that number. Opening it to ask would, when it is closed again, give
/// up this process's own locks; the system's list of locks has no such effect.
#[cfg(target_os = "linux")]
fn readers(shared: u64) -> Vec<LogReader> {
    let Ok(locks) = std::fs::read_to_string("/proc/locks") else { return Vec::new() };
    let name = |process| {
        let name = std::fs::read_to_string(format!("/proc/{process}/comm")).ok()?;
        Some(name.trim().replace(char::is_control, "?"))
    };
    let reader = |process| LogReader { process, name: name(process), is_this: process == std::process::id() };
    holders(&locks, shared).into_iter().map(reader).collect()
}

#[cfg(not(target_os = "linux"))]
fn readers(_shared: u64) -> Vec<LogReader> {
    Vec::new()
}

/// The processes with a lock on the bytes of [`READ_LOCKS`], by the text of `/proc/locks`.
///
/// Source: proc(5): number, kind, mode, access, process, device and number of the file, first and last byte.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
fn holders(locks: &str, shared: u64) -> Vec<u32> {
    let holder = |line: &str| -> Option<u32> {
        // One that waits for a lock has an arrow behind its number, and holds none.
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, "POSIX" | "OFDLCK", _, _, process, file, first, last] = words[..] else { return None };
        let number: u64 = file.rsplit(':').next()?.parse().ok()?;
        let first: u64 = first.parse().ok()?;
        let last = last.parse().unwrap_or(u64::MAX);
        let overlaps = first <= *READ_LOCKS.end() && last >= *READ_LOCKS.start();
        (number == shared && overlaps).then(|| process.parse().ok()).flatten()
    };
    let mut holders: Vec<u32> = locks.lines().filter_map(holder).collect();
    holders.sort_unstable();
    holders.dedup();
    holders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_holds_a_read_lock_is_read_from_the_systems_list() {
        let locks = "1: POSIX  ADVISORY  READ  4242 fd:01:77 124 124\n\
                     2: POSIX  ADVISORY  READ  4242 fd:01:77 128 128\n\
                     3: POSIX  ADVISORY  READ  17 fd:01:77 122 122\n\
                     4: POSIX  ADVISORY  READ  18 fd:01:78 125 125\n\
                     5: POSIX  ADVISORY  WRITE 19 fd:01:77 120 120\n\
                     5: -> POSIX  ADVISORY  READ 20 fd:01:77 125 125\n\
                     6: FLOCK  ADVISORY  WRITE 21 fd:01:77 0 EOF\n\
                     7: POSIX  ADVISORY  READ  4243 fd:01:77 127 127\n\
                     8: POSIX  ADVISORY  READ  4244 fd:01:77 123 123\n";
        assert_eq!(holders(locks, 77), [4242, 4243, 4244]);
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
