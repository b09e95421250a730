//! Admission of requests that take long: limits how many of them run at once.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use axum::http::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::failure::Failure;
use crate::ids::Position;

/// The maximum number of concurrent queries, reports and searches. Each has its own connection and may use a whole CPU.
const QUESTIONS_MAX: usize = 4;

/// The maximum number of requests that wait for a question to end.
const WAITING_MAX: usize = 16;

/// How long a request waits.
const PATIENCE: Duration = Duration::from_secs(1);

/// The maximum number of concurrent verifications. Each reads the whole file.
const VERIFICATIONS_MAX: usize = 1;

/// The maximum number of clients that follow the whole file.
const FEEDS_MAX: usize = 64;

/// The permits for requests that take long.
pub(in crate::server) struct Gates {
    questions: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    verifications: Arc<Semaphore>,
    feeds: Arc<Semaphore>,
    /// How far each open feed has come.
    followed: Mutex<Vec<Weak<AtomicU64>>>,
}

/// The permit of a client that follows the file. It records how far the client has come.
pub(in crate::server) struct Following {
    _permit: OwnedSemaphorePermit,
    position: Arc<AtomicU64>,
}

impl Following {
    /// Records that the client was sent everything up to this position.
    pub(in crate::server) fn came_to(&self, position: Position) {
        self.position.store(position.0, Ordering::Relaxed);
    }
}

impl Default for Gates {
    fn default() -> Self {
        let gate = |most| Arc::new(Semaphore::new(most));
        Self {
            questions: gate(QUESTIONS_MAX),
            waiting: gate(WAITING_MAX),
            verifications: gate(VERIFICATIONS_MAX),
            feeds: gate(FEEDS_MAX),
            followed: Mutex::default(),
        }
    }
}

impl Gates {
    /// Returns a permit to ask a question. Waits for it for at most a second. Otherwise 503, with a time to retry.
    pub(in crate::server) async fn question(&self) -> Result<OwnedSemaphorePermit, Failure> {
        if let Ok(permit) = Arc::clone(&self.questions).try_acquire_owned() {
            return Ok(permit);
        }
        let busy =
            || Failure::Later("Too many questions are asked at once. Retry the request later.".to_owned());
        // Held while this request waits.
        let _waiting = self.waiting.try_acquire().map_err(|_| busy())?;
        match tokio::time::timeout(PATIENCE, Arc::clone(&self.questions).acquire_owned()).await {
            Ok(permit) => permit.map_err(|_| Failure::internal("the server is closing")),
            Err(_) => Err(busy()),
        }
    }

    /// Returns a permit to verify. 429 if a verification is running.
    pub(in crate::server) fn verification(&self) -> Result<OwnedSemaphorePermit, Failure> {
        let text = "A verification is under way. Retry the request later.";
        now(&self.verifications, text)
    }

    /// Returns a permit to follow the file from a position. 429 if too many clients do.
    pub(in crate::server) fn feed(&self, from: Position) -> Result<Following, Failure> {
        let permit = now(&self.feeds, "Too many clients follow the feed. Retry the request later.")?;
        let position = Arc::new(AtomicU64::new(from.0));
        let mut followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        followed.retain(|one| one.strong_count() > 0);
        followed.push(Arc::downgrade(&position));
        Ok(Following { _permit: permit, position })
    }

    /// Returns how many events the slowest of the open feeds has still to send if the log ends at `last`. 0 without feeds.
    pub fn feeds_behind(&self, last: Position) -> u64 {
        let followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        let open = followed.iter().filter_map(Weak::upgrade);
        open.map(|one| last.0.saturating_sub(one.load(Ordering::Relaxed))).max().unwrap_or(0)
    }

    /// Returns the number of clients that follow the whole file.
    pub fn feeds_open(&self) -> usize {
        FEEDS_MAX - self.feeds.available_permits()
    }
}

fn now(gate: &Arc<Semaphore>, text: &str) -> Result<OwnedSemaphorePermit, Failure> {
    let full = |_| Failure::Refused(StatusCode::TOO_MANY_REQUESTS, text.to_owned());
    Arc::clone(gate).try_acquire_owned().map_err(full)
}
