//! How many may ask for something that takes long at once.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::server::failure::Failure;

/// How many queries, reports and searches may run at once: each has a connection of its own and may use a processor.
const QUESTIONS_MAX: usize = 4;

/// How many may wait until a question is answered.
const WAITING_MAX: usize = 16;

/// How long one waits.
const PATIENCE: Duration = Duration::from_secs(1);

/// How many verifications: one reads everything there is.
const VERIFICATIONS_MAX: usize = 1;

/// How many may follow the whole file.
const FEEDS_MAX: usize = 64;

/// How many may ask for something that takes long at once.
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
    /// The right to ask a question, where there is one soon; 503 otherwise, which says when to ask again.
    pub(super) async fn question(&self) -> Result<OwnedSemaphorePermit, Failure> {
        if let Ok(permit) = Arc::clone(&self.questions).try_acquire_owned() {
            return Ok(permit);
        }
        let busy =
            || Failure::Later("Too many questions are asked at once. Retry the request later.".to_owned());
        let _waiting = self.waiting.try_acquire().map_err(|_| busy())?;
        match tokio::time::timeout(PATIENCE, Arc::clone(&self.questions).acquire_owned()).await {
            Ok(permit) => permit.map_err(|_| Failure::internal("the server is closing")),
            Err(_) => Err(busy()),
        }
    }

    /// The right to verify; 429 while somebody does.
    pub(super) fn verification(&self) -> Result<OwnedSemaphorePermit, Failure> {
        let text = "A verification is under way. Retry the request later.";
        now(&self.verifications, text)
    }

    /// The right to follow the file; 429 where too many do.
    pub(super) fn feed(&self) -> Result<OwnedSemaphorePermit, Failure> {
        now(&self.feeds, "Too many follow the feed. Retry the request later.")
    }

    /// How many follow the whole file.
    pub fn feeds_open(&self) -> usize {
        FEEDS_MAX - self.feeds.available_permits()
    }
}

fn now(gate: &Arc<Semaphore>, text: &str) -> Result<OwnedSemaphorePermit, Failure> {
    let full = |_| Failure::Refused(StatusCode::TOO_MANY_REQUESTS, text.to_owned());
    Arc::clone(gate).try_acquire_owned().map_err(full)
}
