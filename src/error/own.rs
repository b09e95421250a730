//! Errors of projections of a host's own.

use super::Source;
use crate::ids::Position;

/// Why a projection of a host's own did not do its work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OwnProjectionError {
    /// It cannot be used. Correct its name or its statements.
    #[error("the projection {name:?} of this program cannot be used: {what}")]
    Unusable {
        /// Its name.
        name: String,
        /// What is wrong with it.
        what: String,
    },
    /// A statement of it was refused. It changed nothing.
    #[error("a statement of the projection {name} was refused: {what}")]
    Statement {
        /// The projection.
        name: String,
        /// Why.
        what: String,
        /// What the engine says about it.
        source: Option<Source>,
    },
    /// It did not accept an event of the append. Nothing of the append was written.
    #[error(
        "{conversation}: the projection {name} does not accept the event {event}; nothing of the append was written"
    )]
    Refused {
        /// The projection.
        name: String,
        /// The conversation.
        conversation: String,
        /// The event.
        event: String,
        /// Why.
        source: Source,
    },
    /// It does not accept an event that another program has stored. No append goes on until it does, because it would
    /// miss the event.
    #[error(
        "the projection {name} does not accept the stored event at position {}; let the next version of it accept the \
         event, or open the file without it", position.0
    )]
    Stuck {
        /// The projection.
        name: String,
        /// The event.
        position: Position,
        /// Why.
        source: Source,
    },
}
