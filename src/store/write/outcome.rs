//! How a group of appends ends: with a commit, and with an answer for each caller.

use super::known::Known;
use super::order::Ordered;
use super::queue::Answer;
use crate::error::{Error, OwnProjectionError, Result, SharedError};

/// Returns the request's answer. Fails if the engine rolled back the whole transaction and not only the request.
pub(super) fn still_open(write: &Ordered<'_>, answer: Answer) -> Result<Answer> {
    if !write.is_autocommit() {
        return Ok(answer);
    }
    answer.and_then(|_| Err(Error::Corrupt { what: "the transaction ended by itself".into() }))
}

/// How a group has ended: the answers, and what is known after the commit. `None` if nothing was written and the answers
/// may be wrong.
pub(super) type Finished = Option<(Vec<Answer>, Known)>;

/// Commits unless every request failed. Then the transaction is dropped, which saves a sync.
pub(super) fn finish(write: Ordered<'_>, answers: Vec<Answer>, known: Known) -> Result<Finished> {
    if answers.iter().all(Result::is_err) {
        return Ok((!write.is_assumed()).then(|| (answers, Known::default())));
    }
    Ok(write.commit_if_current()?.then_some((answers, known)))
}

/// Copies an error for another caller of the group.
pub(super) fn copied(error: &Error) -> Error {
    match error {
        Error::Busy { waited_ms, holder } => Error::Busy { waited_ms: *waited_ms, holder: holder.clone() },
        Error::DiskFull { doing, source } => Error::DiskFull { doing, source: source.to_string().into() },
        Error::Storage { doing, source } => Error::Storage { doing, source: source.to_string().into() },
        Error::ReadOnly { path } => Error::ReadOnly { path: path.clone() },
        Error::Corrupt { what } => Error::Corrupt { what: what.clone() },
        Error::LostTable { table } => Error::LostTable { table: table.clone() },
        Error::OwnProjection(OwnProjectionError::Stuck { name, position, source }) => {
            let source = source.to_string().into();
            OwnProjectionError::Stuck { name: name.clone(), position: *position, source }.into()
        }
        Error::Shared(SharedError::Replica { path, log }) => {
            SharedError::Replica { path: path.clone(), log: log.clone() }.into()
        }
        Error::Shared(SharedError::Unreachable { doing, source }) => {
            SharedError::Unreachable { doing, source: source.to_string().into() }.into()
        }
        Error::Shared(SharedError::Unknown) => SharedError::Unknown.into(),
        Error::Shared(SharedError::OnlyThere { source }) => {
            SharedError::OnlyThere { source: source.to_string().into() }.into()
        }
        Error::Shared(SharedError::Ahead { file, log }) => {
            SharedError::Ahead { file: *file, log: log.clone() }.into()
        }
        Error::Shared(SharedError::Fenced { conversation }) => {
            SharedError::Fenced { conversation: conversation.clone() }.into()
        }
        Error::Shared(SharedError::Differs { what }) => SharedError::Differs { what: what.clone() }.into(),
        Error::Closed => Error::Closed,
        Error::Around(around) => around.clone().into(),
        Error::Moved { path, what } => Error::Moved { path: path.clone(), what },
        other => Error::Storage { doing: "committing together", source: other.to_string().into() },
    }
}
