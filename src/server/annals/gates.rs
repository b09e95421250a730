//! How many may ask for something that takes long at once.

use std::sync::Arc;

use axum::http::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::server::failure::Failure;

/// How many queries, reports and searches may run at once: each has a connection of its own and may use a processor.
const QUESTIONS_MAX: usize = 4;

/// How many verifications: one reads everything there is.
const VERIFICATIONS_MAX: usize = 1;

/// How many may follow the whole file.
const FEEDS_MAX: usize = 64;

/// How many may ask for something that takes long at once.
pub(in crate::server) struct Gates {
    questions: Arc<Semaphore>,
    verifications: Arc<Semaphore>,
    feeds: Arc<Semaphore>,
}

impl Default for Gates {
    fn default() -> Self {
        let gate = |most| Arc::new(Semaphore::new(most));
        Self {
            questions: gate(QUESTIONS_MAX),
            verifications: gate(VERIFICATIONS_MAX),
            feeds: gate(FEEDS_MAX),
        }
    }
}

impl Gates {
    /// Waits until a question may be asked.
    pub(super) async fn question(&self) -> Result<OwnedSemaphorePermit, Failure> {
        let closed = |_| Failure::internal("the server is closing");
        Arc::clone(&self.questions).acquire_owned().await.map_err(closed)
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
