//! Where a replica stands: how far it has come, how far its log is, and what keeps the two apart.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{Error, SharedError};

/// How far a replica has come on its way to the end of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ReplicaProgress {
    /// The end of the log: the entry that the file will have.
    pub entry: u64,
    /// The rows that are in the file.
    pub rows: u64,
    /// All rows that it lacked. 0 if there were few.
    pub rows_total: u64,
}

/// How a replica was made anew because it differed from its log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rebuilt {
    /// What differed.
    pub why: String,
    /// A copy of the file as it was.
    pub copy: PathBuf,
}

/// Where a replica stands, as its process knows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplicaStatus {
    /// The id of the log.
    pub log_id: String,
    /// The last entry that the file has.
    pub entry: u64,
    /// The last entry of the log that this process knows of. It may be behind the log by some milliseconds.
    pub log_entry: u64,
    /// Why the last attempt to follow the log failed. `None` if it succeeded.
    pub trouble: Option<String>,
    /// Whether the file differs from the log, or is ahead of it. It should not be read until it was made anew.
    pub is_stopped: bool,
    /// How the file was made anew, since it was opened.
    pub rebuilt: Option<Rebuilt>,
}

/// The maximum number of ranges of positions that are known to have come from elsewhere. The oldest are forgotten.
const RANGES_MAX: usize = 10_000;

/// That of one store, which its threads share.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    now: Mutex<Now>,
    changed: Condvar,
    /// The events that this process has put into the file and not written, as ranges of positions in their order.
    came: Mutex<VecDeque<RangeInclusive<i64>>>,
}

#[derive(Debug, Default)]
struct Now {
    status: ReplicaStatus,
    /// Whether the trouble is a difference, and no attempt to make the file anew was made since.
    can_rebuild: bool,
    /// When an attempt that failed is made again, and how long it waited for that.
    again: Option<(Instant, Duration)>,
}

/// How long an attempt to make a file anew waits after one that failed, at first and at most. Each reads the whole log.
const AGAIN: Duration = Duration::from_secs(60);
const AGAIN_MAX: Duration = Duration::from_secs(3600);

/// Returns whether an error says that a file and its log differ.
fn is_difference(error: &Error) -> bool {
    matches!(error, Error::Shared(SharedError::Differs { .. }) | Error::Corrupt { .. })
}

impl Standing {
    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the file has this entry, which is the log's last.
    pub(in crate::store) fn has(&self, entry: u64) {
        let mut now = self.now();
        let rebuilt = now.status.rebuilt.take();
        now.status = ReplicaStatus { entry, log_entry: entry, rebuilt, ..ReplicaStatus::default() };
        (now.can_rebuild, now.again) = (false, None);
        self.changed.notify_all();
    }

    /// Returns the last entry that the file has, as this process knows it.
    pub(crate) fn entry(&self) -> u64 {
        self.now().status.entry
    }

    /// Returns whether the log has more than the file, as this process knows it.
    pub(crate) fn is_behind(&self) -> bool {
        let now = self.now();
        now.status.log_entry > now.status.entry
    }

    /// Notes that the events at these positions came from elsewhere.
    pub(in crate::store) fn came(&self, mut positions: Vec<i64>) {
        positions.sort_unstable();
        let mut came = self.came.lock().unwrap_or_else(PoisonError::into_inner);
        for position in positions {
            match came.back_mut() {
                Some(last) if last.end() + 1 == position => *last = *last.start()..=position,
                // A redaction comes again, with the position that it had.
                Some(last) if *last.end() >= position => {}
                _ => came.push_back(position..=position),
            }
        }
        while came.len() > RANGES_MAX {
            came.pop_front();
        }
    }

    /// Returns whether the event at a position came from elsewhere, as far as this process knows.
    #[cfg_attr(not(feature = "server"), allow(dead_code))]
    pub(in crate::store) fn is_from_elsewhere(&self, position: i64) -> bool {
        let came = self.came.lock().unwrap_or_else(PoisonError::into_inner);
        let after = came.partition_point(|range| *range.start() <= position);
        after > 0 && came[after - 1].contains(&position)
    }

    /// Notes that the log has this entry.
    pub(crate) fn knows_of(&self, entry: u64) {
        let mut now = self.now();
        now.status.log_entry = now.status.log_entry.max(entry);
    }

    /// Notes why the file could not follow the log. That others write is no reason.
    pub(crate) fn failed(&self, error: &Error) {
        if matches!(error, Error::Busy { .. }) {
            return;
        }
        let differs = is_difference(error);
        let is_ahead = matches!(error, Error::Shared(SharedError::Ahead { .. }));
        let mut now = self.now();
        if now.status.is_stopped && !differs && !is_ahead {
            return;
        }
        let is_new = now.status.trouble.as_ref() != Some(&error.to_string());
        now.status.trouble = Some(error.to_string());
        now.status.is_stopped = differs || is_ahead;
        now.can_rebuild |= differs && is_new;
        self.changed.notify_all();
    }

    /// Returns what differs, if the file was not made anew since. It says so once, and again when an attempt that failed is
    /// due again at `time`.
    pub(in crate::store) fn take_difference(&self, time: Instant) -> Option<String> {
        let mut now = self.now();
        let is_due = now.again.as_mut().is_some_and(|(at, wait)| {
            let is_due = *at <= time;
            if is_due {
                // Until the attempt has ended.
                *at = time + AGAIN_MAX;
                *wait = (*wait * 2).min(AGAIN_MAX);
            }
            is_due
        });
        let can_rebuild = std::mem::take(&mut now.can_rebuild) || is_due;
        if can_rebuild { now.status.trouble.clone() } else { None }
    }

    /// Notes that the file could not be made anew. If the log itself is not wrong, that is tried again some time after `time`.
    pub(in crate::store) fn could_not_rebuild(&self, error: &Error, time: Instant) {
        let mut now = self.now();
        let wait = now.again.map_or(AGAIN, |(_, wait)| wait);
        now.again = (!is_difference(error)).then_some((time + wait, wait));
    }

    /// Notes that the file was made anew.
    pub(in crate::store) fn was_rebuilt(&self, rebuilt: Rebuilt) {
        self.now().status.rebuilt = Some(rebuilt);
    }

    /// Returns where the replica of the log `log_id` stands.
    pub(in crate::store) fn status(&self, log_id: &str) -> ReplicaStatus {
        ReplicaStatus { log_id: log_id.to_owned(), ..self.now().status.clone() }
    }

    /// Waits until the file has `entry`, or until `deadline`, or until it is stopped. Returns the entry that it has then.
    pub(in crate::store) fn wait(&self, entry: u64, deadline: Instant) -> u64 {
        let mut now = self.now();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if now.status.entry >= entry || now.status.is_stopped || left.is_zero() {
                return now.status.entry;
            }
            now = self.changed.wait_timeout(now, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_stays_until_the_file_has_the_log_again() {
        let standing = Standing::default();
        standing.has(3);
        standing.knows_of(5);
        let lost = || SharedError::Unreachable { doing: "asking", source: "no answer".into() }.into();
        standing.failed(&lost());
        let status = standing.status("log");
        assert_eq!((status.entry, status.log_entry, status.is_stopped), (3, 5, false));
        assert!(status.trouble.is_some_and(|text| text.contains("no answer")));
        standing.has(3);
        standing.failed(&Error::Busy { waited_ms: 5, holder: None });
        assert_eq!(standing.status("log").trouble, None);
        assert_eq!(standing.take_difference(Instant::now()), None);
        standing.failed(&SharedError::Differs { what: "a hash".into() }.into());
        // What is not known any more does not hide what is.
        standing.failed(&lost());
        assert!(standing.status("log").is_stopped);
        assert!(standing.take_difference(Instant::now()).is_some_and(|text| text.contains("a hash")));
        standing.failed(&SharedError::Differs { what: "a hash".into() }.into());
        assert_eq!(standing.take_difference(Instant::now()), None, "it is tried once");
        standing.has(6);
        let status = standing.status("log");
        assert_eq!((status.entry, status.log_entry, status.trouble), (6, 6, None));
    }

    #[test]
    fn a_file_that_could_not_be_made_anew_is_tried_again_less_and_less_often() {
        let standing = Standing::default();
        let full = Error::DiskFull { doing: "writing", source: "no room".into() };
        let wrong: Error = SharedError::Differs { what: "a hash".into() }.into();
        let mut time = Instant::now();
        standing.failed(&wrong);
        for minutes in [1, 2, 4, 8, 16, 32, 60, 60] {
            assert!(standing.take_difference(time).is_some(), "before {minutes}");
            assert_eq!(standing.take_difference(time), None, "one attempt at a time");
            standing.failed(&full);
            standing.could_not_rebuild(&full, time);
            let wait = Duration::from_secs(60 * minutes);
            assert_eq!(standing.take_difference(time + wait - Duration::from_secs(1)), None);
            time += wait;
        }
        // If the log is wrong, no attempt helps.
        standing.could_not_rebuild(&wrong, time);
        assert_eq!(standing.take_difference(time + AGAIN_MAX), None);
        standing.has(3);
        assert_eq!(standing.take_difference(time + AGAIN_MAX), None);
    }

    #[test]
    fn events_from_elsewhere_are_known_by_their_positions() {
        let standing = Standing::default();
        standing.came(vec![3, 2]);
        standing.came(vec![4, 7]);
        standing.came(vec![2, 9]);
        let known: Vec<i64> = (0..12).filter(|position| standing.is_from_elsewhere(*position)).collect();
        assert_eq!(known, [2, 3, 4, 7, 9]);
        for number in 0..2 * RANGES_MAX as i64 {
            standing.came(vec![100 + 2 * number]);
        }
        assert!(!standing.is_from_elsewhere(9), "the oldest are forgotten");
        assert!(standing.is_from_elsewhere(98 + 4 * RANGES_MAX as i64));
    }

    #[test]
    fn waiting_ends_with_the_entry_or_the_deadline() {
        let standing = Standing::default();
        standing.has(1);
        assert_eq!(standing.wait(1, Instant::now()), 1);
        assert_eq!(standing.wait(2, Instant::now()), 1);
        std::thread::scope(|scope| {
            let waiting =
                scope.spawn(|| standing.wait(2, Instant::now() + std::time::Duration::from_secs(60)));
            standing.has(2);
            assert_eq!(waiting.join().unwrap(), 2);
        });
    }
}
