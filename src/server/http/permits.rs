//! Admission of requests that take long: limits how many of them run at once.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::failure::Failure;

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
}

impl Default for Gates {
    fn default() -> Self {
        let gate = |most| Arc::new(Semaphore::new(most));
        Self {
            questions: gate(QUESTIONS_MAX),
            waiting: gate(WAITING_MAX),
            verifications: gate(VERIFICATIONS_MAX),
            feeds: gate(FEEDS_MAX),
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

    /// Returns a permit to follow the file. 429 if too many clients do.
    pub(in crate::server) fn feed(&self) -> Result<OwnedSemaphorePermit, Failure> {
        now(&self.feeds, "Too many clients follow the feed. Retry the request later.")
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
