//! What requests found and could not use: files, plugins, marketplaces.
//!
//! The reference's answers have no place for it, so it is reported to the operator of the server. Each problem is
//! counted and reported once, unless thousands of others came in between.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::notice;
use crate::message;
use crate::secret::without_credentials;

/// The maximum number of problems that wait to be reported. The oldest are dropped, and their number is reported.
const WAITING_MAX: usize = 1000;

/// The maximum number of problems that are recognised when they are found again. The oldest are forgotten.
const KNOWN_MAX: usize = 10_000;

/// The maximum length of a problem, in characters. The middle is cut.
const CHARACTERS_MAX: usize = 1000;

/// The problems that requests found.
#[derive(Debug, Default)]
pub(in crate::server) struct LeftOut {
    problems: Mutex<Problems>,
    /// Notified of new problems.
    news: Notify,
}

#[derive(Debug, Default)]
struct Problems {
    /// The number of problems since the start, except for those that were known.
    count: u64,
    known: Known,
    /// The newest problems that were not returned yet, the oldest first.
    waiting: VecDeque<String>,
    /// The number of older ones that were dropped.
    n_dropped: u64,
}

/// The digests of the newest problems.
#[derive(Debug, Default)]
struct Known {
    hasher: RandomState,
    digests: HashSet<u64>,
    /// The same digests, the oldest first.
    order: VecDeque<u64>,
}

impl Known {
    /// Adds a problem. Returns whether it is new.
    fn add(&mut self, problem: &str) -> bool {
        let digest = self.hasher.hash_one(problem);
        if !self.digests.insert(digest) {
            return false;
        }
        self.order.push_back(digest);
        if self.order.len() > KNOWN_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.digests.remove(&oldest);
        }
        true
    }
}

impl LeftOut {
    /// Adds problems, except for those that are known. Their texts are kept without credentials.
    pub fn add<T: ToString>(&self, problems: impl IntoIterator<Item = T>) {
        let mut inner = self.lock();
        for problem in problems {
            let problem = without_credentials(&problem.to_string());
            let problem = message::clip(&problem, CHARACTERS_MAX, " ... ").into_owned();
            if !inner.known.add(&problem) {
                continue;
            }
            inner.count += 1;
            notice::left_out(&problem);
            inner.waiting.push_back(problem);
            if inner.waiting.len() > WAITING_MAX {
                inner.waiting.pop_front();
                inner.n_dropped += 1;
            }
        }
        let is_new = !inner.waiting.is_empty();
        drop(inner);
        if is_new {
            self.news.notify_one();
        }
    }

    /// Waits for problems that were not returned before, and returns them, the oldest first. If older ones were
    /// dropped, the first text says how many. For one caller at a time.
    pub async fn next(&self) -> Vec<String> {
        loop {
            let (waiting, n_dropped) = {
                let mut inner = self.lock();
                (std::mem::take(&mut inner.waiting), std::mem::take(&mut inner.n_dropped))
            };
            if !waiting.is_empty() {
                let dropped = format!("{n_dropped} more: only the newest {WAITING_MAX} are named");
                return Some(dropped).filter(|_| n_dropped > 0).into_iter().chain(waiting).collect();
            }
            self.news.notified().await;
        }
    }

    /// Returns the number of problems since the start.
    pub fn count(&self) -> u64 {
        self.lock().count
    }

    fn lock(&self) -> MutexGuard<'_, Problems> {
        self.problems.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_problem_is_returned_once_and_the_newest_always_are() {
        let left_out = LeftOut::default();
        left_out.add(["a", "b", "a"]);
        assert_eq!(left_out.next().await, ["a", "b"]);
        left_out.add(["b", "c"]);
        assert_eq!(left_out.next().await, ["c"]);
        let (reported, ()) = tokio::join!(left_out.next(), async { left_out.add(["d"]) });
        assert_eq!(reported, ["d"]);
        assert_eq!(left_out.count(), 4);
        // More than can wait: the newest are returned, and the number of the others.
        for round in 0..3 {
            let first = round * 10 * WAITING_MAX;
            left_out.add(first..first + WAITING_MAX + 7);
            let reported = left_out.next().await;
            assert_eq!(reported.len(), WAITING_MAX + 1);
            assert_eq!(reported[0], "7 more: only the newest 1000 are named");
            assert_eq!(
                (&reported[1], &reported[WAITING_MAX]),
                (&(first + 7).to_string(), &(first + WAITING_MAX + 6).to_string())
            );
            assert_eq!(left_out.count(), (4 + round + (round + 1) * (WAITING_MAX + 7)) as u64);
            left_out.add(["the newest".repeat(round + 1)]);
            assert_eq!(left_out.next().await, ["the newest".repeat(round + 1)]);
        }
    }

    #[tokio::test]
    async fn as_many_are_recognised_as_are_known_and_the_memory_is_bounded() {
        let left_out = LeftOut::default();
        left_out.add(0..KNOWN_MAX);
        left_out.add(0..KNOWN_MAX);
        assert_eq!(left_out.count(), KNOWN_MAX as u64);
        // One more, and the first is forgotten.
        left_out.add([KNOWN_MAX, 1, 0]);
        assert_eq!(left_out.count(), KNOWN_MAX as u64 + 2);
        {
            let inner = left_out.lock();
            assert_eq!((inner.known.order.len(), inner.known.digests.len()), (KNOWN_MAX, KNOWN_MAX));
            assert_eq!(inner.waiting.len(), WAITING_MAX);
        }
        let reported = left_out.next().await;
        assert_eq!(
            reported[0],
            format!("{} more: only the newest 1000 are named", KNOWN_MAX + 2 - WAITING_MAX)
        );
        left_out.add(["x".repeat(1 << 20)]);
        assert_eq!(left_out.next().await[0].chars().count(), CHARACTERS_MAX);
    }

    #[tokio::test]
    async fn no_problem_holds_a_credential() {
        let left_out = LeftOut::default();
        left_out.add([
            "https://user:s3cret@h/r: it cannot be fetched",
            "https://h/r?private_token=s3cret: it cannot be fetched",
            "user:s3cret@h/r: there is no such folder",
        ]);
        assert!(!format!("{left_out:?}").contains("s3cret"));
        let reported = left_out.next().await;
        assert!(reported.len() == 3 && reported.iter().all(|text| !text.contains("s3cret")), "{reported:?}");
    }
}
