//! How an entry is committed, and how a store finds out whether it was when the answer was lost.

use std::time::{Duration, Instant};

use super::enter::{Draft, Entered, WRITING, enter, enter_and_commit};
use super::lease;
use super::line::{Line, Session, Silent, failed, unreachable};
use super::order::WRITE;
use super::turn::Log;
use crate::error::{Result, SharedError};
use crate::store::Seen;

const FIND: &str = "SELECT 1 FROM entry WHERE number = $1 AND chain = $2";
/// No entry that was sent before can be written then.
const NEXT_ROUND: &str = "UPDATE log_end SET round = round + 1 WHERE one; COMMIT";

/// The pause between two questions about an entry.
const ASK_AGAIN: Duration = Duration::from_millis(100);

const ASKING: &str = "asking whether a commit took place";

impl Log {
    /// Commits an entry in the open transaction, which has the order.
    ///
    /// # Errors
    /// [`SharedError::Unknown`] if the server cannot say whether it was committed. After any other error it was not.
    pub(super) fn commit(&self, line: &Line, draft: Draft) -> Result<()> {
        let next = draft.next;
        let entered = line.ask(draft.bytes(), move |session| {
            lease::check(session, &draft.holder, &draft.held)?;
            let entered = enter_and_commit(session, &draft);
            if matches!(entered, Ok(Entered::Unknown(_))) {
                session.hang_up();
            }
            entered
        });
        match entered {
            // A server that was silent may have come to the commit.
            Err(Silent) => Err(SharedError::Unknown.into()),
            Ok(entered) => match entered? {
                Entered::Yes => Ok(()),
                Entered::No => Err(unreachable(WRITING, "the log has no end")),
                Entered::Unknown(_was_only_the_answer) if self.was_committed(line, next, false)? => Ok(()),
                Entered::Unknown(error) => Err(error),
            },
        }
    }

    /// Writes and commits an entry with one statement, if the log still ends where the entry begins. Returns whether it did.
    /// Nothing was written otherwise.
    ///
    /// # Errors
    /// As [`Log::commit`].
    pub(super) fn commit_at_once(&self, line: &Line, draft: Draft) -> Result<bool> {
        if draft.removes() {
            return Ok(false);
        }
        let next = draft.next;
        let entered = line.ask(draft.bytes(), move |session| {
            let entered = enter(session, &draft);
            if matches!(entered, Ok(Entered::Unknown(_))) {
                session.hang_up();
            }
            entered
        });
        match entered {
            Err(Silent) => Err(SharedError::Unknown.into()),
            Ok(entered) => match entered? {
                Entered::Yes => Ok(true),
                Entered::No => Ok(false),
                Entered::Unknown(_was_only_the_answer) if self.was_committed(line, next, true)? => Ok(true),
                Entered::Unknown(error) => Err(error),
            },
        }
    }

    /// Finds out whether the log got the end `next`, when the answer was lost.
    ///
    /// A transaction that has the order keeps it until it has ended in one way or the other. A statement that was sent without
    /// it may still be on its way, and `comes_late` ends its round.
    ///
    /// # Errors
    /// [`SharedError::Unknown`] if the server cannot be asked for too long.
    fn was_committed(&self, line: &Line, next: Seen, comes_late: bool) -> Result<bool> {
        let deadline = Instant::now() + self.patience();
        loop {
            let found = line.call(move |session| {
                let found = find(session, next, comes_late);
                session.rollback();
                found
            });
            match found {
                Ok(found) => return Ok(found),
                Err(_) if Instant::now() >= deadline => return Err(SharedError::Unknown.into()),
                Err(_) => std::thread::sleep(ASK_AGAIN),
            }
        }
    }
}

fn find(session: &mut Session, next: Seen, comes_late: bool) -> Result<bool> {
    session.client()?.simple_query(WRITE).map_err(failed(ASKING))?;
    let client = session.same_client()?;
    let (entry, chain) = (next.entry.cast_signed(), next.chain.0.as_slice());
    let is_there = client.query_opt(FIND, &[&entry, &chain]).map_err(failed(ASKING))?.is_some();
    if !is_there && comes_late {
        client.batch_execute(NEXT_ROUND).map_err(failed(ASKING))?;
    }
    Ok(is_there)
}
