//! Spans of the store's work, for programs that use the crate `tracing` (the feature `tracing`).
//!
//! A span has the id of a conversation, counts, and the class of an error. It never has a payload, a text to search for
//! or the text of an error. At its end there is an event with the duration. All have the level DEBUG and the target
//! `annals::store`. `docs/embedding.md` lists them. Without the feature nothing of this is compiled.

#[cfg(feature = "tracing")]
pub(in crate::store) use emitted::Span;
#[cfg(not(feature = "tracing"))]
pub(in crate::store) use silent::Span;

#[cfg(feature = "tracing")]
mod emitted {
    use std::time::Instant;

    use tracing::debug_span;
    use tracing::field::{Empty, debug};
    use tracing::span::EnteredSpan;

    use crate::error::Result;

    const TARGET: &str = "annals::store";

    /// A span that this thread is in until it is dropped. `None` if no program wants it.
    pub(in crate::store) struct Span(Option<(EnteredSpan, Instant)>);

    impl Span {
        fn enter(span: tracing::Span) -> Self {
            Self((!span.is_disabled()).then(|| (span.entered(), Instant::now())))
        }

        /// A call that appends, from the check of its size to the answer.
        pub(in crate::store) fn append(conversation: &str, events: usize) -> Self {
            Self::enter(debug_span!(
                target: TARGET, "append", conversation, events, position = Empty, error = Empty
            ))
        }

        /// A transaction that has the appends of several callers.
        pub(in crate::store) fn commit() -> Self {
            Self::enter(debug_span!(
                target: TARGET, "commit", requests = Empty, appends = Empty, error = Empty
            ))
        }

        /// A page of a conversation's events.
        pub(in crate::store) fn read_page(conversation: &str, limit: usize) -> Self {
            Self::enter(debug_span!(
                target: TARGET, "read_page", conversation, limit, events = Empty, error = Empty
            ))
        }

        /// A page for a follower.
        pub(in crate::store) fn read_feed() -> Self {
            Self::enter(debug_span!(target: TARGET, "read_feed", events = Empty, error = Empty))
        }

        /// A full-text search.
        pub(in crate::store) fn search() -> Self {
            Self::enter(debug_span!(target: TARGET, "search", hits = Empty, error = Empty))
        }

        /// The projections read what was appended.
        pub(in crate::store) fn catch_up() -> Self {
            Self::enter(debug_span!(target: TARGET, "catch_up", steps = Empty, error = Empty))
        }

        /// Projections are made again: as many as were named, 0 for all.
        pub(in crate::store) fn rebuild(named: usize) -> Self {
            Self::enter(debug_span!(target: TARGET, "rebuild", named, error = Empty))
        }

        /// The write-ahead log is moved into the file.
        pub(in crate::store) fn checkpoint() -> Self {
            Self::enter(debug_span!(target: TARGET, "checkpoint", frames = Empty, moved = Empty))
        }

        /// Records a number in a field that the span has.
        pub(in crate::store) fn count(&self, field: &'static str, count: u64) {
            if let Some((span, _)) = &self.0 {
                span.record(field, count);
            }
        }

        /// Ends the span with the result of the work, which it returns. `counted` records what a success has done.
        pub(in crate::store) fn ended<T>(
            self,
            done: Result<T>,
            counted: impl FnOnce(&Self, &T),
        ) -> Result<T> {
            if let Some((span, _)) = &self.0 {
                match &done {
                    Ok(value) => counted(&self, value),
                    Err(error) => {
                        span.record("error", debug(error.class()));
                    }
                }
            }
            done
        }
    }

    impl Drop for Span {
        fn drop(&mut self) {
            if let Some((_span, began)) = &self.0 {
                let duration_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
                tracing::debug!(target: TARGET, duration_us, "done");
            }
        }
    }
}

#[cfg(not(feature = "tracing"))]
mod silent {
    use crate::error::Result;

    /// Nothing.
    pub(in crate::store) struct Span;

    impl Span {
        pub(in crate::store) fn append(_conversation: &str, _events: usize) -> Self {
            Self
        }

        pub(in crate::store) fn commit() -> Self {
            Self
        }

        pub(in crate::store) fn read_page(_conversation: &str, _limit: usize) -> Self {
            Self
        }

        pub(in crate::store) fn read_feed() -> Self {
            Self
        }

        pub(in crate::store) fn search() -> Self {
            Self
        }

        pub(in crate::store) fn catch_up() -> Self {
            Self
        }

        pub(in crate::store) fn rebuild(_named: usize) -> Self {
            Self
        }

        pub(in crate::store) fn checkpoint() -> Self {
            Self
        }

        pub(in crate::store) fn count(&self, _field: &'static str, _count: u64) {}

        pub(in crate::store) fn ended<T>(
            self,
            done: Result<T>,
            _counted: impl FnOnce(&Self, &T),
        ) -> Result<T> {
            done
        }
    }
}
