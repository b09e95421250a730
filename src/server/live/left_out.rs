//! What requests found and could not use: files, plugins, marketplaces.
//!
//! The reference's answers have no place for it, so it is told to the operator of the server. Each problem is told once.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The maximum number of problems that are told. Further ones are not.
const TOLD_MAX: usize = 1000;

/// The problems that requests found.
#[derive(Debug, Default)]
pub(in crate::server) struct LeftOut {
    problems: Mutex<Problems>,
    /// Notified of new problems.
    news: Notify,
}

#[derive(Debug, Default)]
struct Problems {
    known: HashSet<String>,
    /// The known problems that nobody has taken yet.
    untold: Vec<String>,
}

impl LeftOut {
    /// Adds problems, except for those that are known.
    pub fn add<T: ToString>(&self, problems: impl IntoIterator<Item = T>) {
        let mut inner = self.lock();
        for problem in problems {
            if inner.known.len() >= TOLD_MAX {
                break;
            }
            let problem = problem.to_string();
            if inner.known.insert(problem.clone()) {
                inner.untold.push(problem);
            }
        }
        let is_new = !inner.untold.is_empty();
        drop(inner);
        if is_new {
            self.news.notify_one();
        }
    }

    /// Waits for problems that were not returned before, and returns them. For one caller at a time.
    pub async fn next(&self) -> Vec<String> {
        loop {
            let untold = std::mem::take(&mut self.lock().untold);
            if !untold.is_empty() {
                return untold;
            }
            self.news.notified().await;
        }
    }

    /// Returns the number of problems.
    pub fn count(&self) -> usize {
        self.lock().known.len()
    }

    fn lock(&self) -> MutexGuard<'_, Problems> {
        self.problems.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_problem_is_told_once_and_not_without_end() {
        let left_out = LeftOut::default();
        left_out.add(["a", "b", "a"]);
        assert_eq!(left_out.next().await, ["a", "b"]);
        left_out.add(["b", "c"]);
        assert_eq!(left_out.next().await, ["c"]);
        let (told, ()) = tokio::join!(left_out.next(), async { left_out.add(["d"]) });
        assert_eq!(told, ["d"]);
        left_out.add(0..2 * TOLD_MAX);
        assert_eq!((left_out.next().await.len(), left_out.count()), (TOLD_MAX - 4, TOLD_MAX));
        left_out.add(["e"]);
        assert_eq!(left_out.count(), TOLD_MAX);
    }
}
