//! Reading events as they are appended.

use std::sync::Mutex;
use std::time::Duration;

use annals::Position;
use annals::store::FeedPlace;
use pyo3::prelude::*;

use crate::errors::raised;
use crate::values::Event;

/// A place in the log, or in one conversation, and what follows it.
#[pyclass(frozen, module = "annals._annals")]
pub(crate) struct Follower(Mutex<annals::Follower>);

impl Follower {
    pub(crate) fn new(follower: annals::Follower) -> Self {
        Self(Mutex::new(follower))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, annals::Follower> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[pymethods]
impl Follower {
    /// Returns the next events, at most `limit`. Waits up to `seconds` for the first.
    fn next_page(&self, py: Python<'_>, limit: usize, seconds: f64) -> PyResult<Vec<Event>> {
        let time_max = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
        let page = py.detach(|| self.lock().next_page(limit, time_max)).map_err(raised)?;
        Ok(page.into_iter().map(|one| Event::new(&one.conversation, one.event)).collect())
    }

    /// The position after which the next events are, or the sequence in the followed conversation.
    #[getter]
    fn place(&self, py: Python<'_>) -> Option<u64> {
        match py.detach(|| self.lock().place()) {
            FeedPlace::Log(Position(position)) => Some(position),
            FeedPlace::Conversation(sequence) => sequence.map(|sequence| sequence.0),
            _ => None,
        }
    }
}
