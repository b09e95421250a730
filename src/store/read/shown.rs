//! Fills in what the views cannot read from archived payloads, for readers that use Annals.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::projected::{ToolCall, ToolOutcome, TranscriptLine};
use crate::error::Result;
use crate::event::transcript::Line;
use crate::event::{RejectionSource, kind};
use crate::json::Object;
use crate::store::engine::WhileDoing as _;
use crate::store::table::archive::{Payloads, STUB};

/// The length is compared first, because it is known without reading the payload.
const PLACE: &str = "SELECT position, kind FROM event WHERE conversation = ?1 AND id = ?2 \
     AND octet_length(payload) = octet_length(?3) AND payload = ?3";
/// As in the view `tool_calls` (migration V5).
const CALL: &str = "SELECT coalesce(json_extract(?1, '$.action.command'), json_extract(?1, '$.args.command')), \
     coalesce(json_extract(?1, '$.action'), json_extract(?1, '$.args'), json_extract(?1, '$.tool_call.arguments'))";
const ANSWER: &str = "SELECT json_extract(?1, '$.rejection_source'), json_extract(?1, '$.rejection_reason'), \
     json_extract(?1, '$.error')";

const DOING: &str = "reading an archived payload";

/// Reads archived payloads of one conversation by the events' ids.
pub(super) struct Shown<'a> {
    db: &'a Connection,
    conversation: i64,
    payloads: Payloads<'a>,
}

impl<'a> Shown<'a> {
    pub(in crate::store) fn new(db: &'a Connection, conversation: i64) -> Self {
        Self { db, conversation, payloads: Payloads::new(db) }
    }

    /// Returns the kind and the archived payload of an event. `None` if the event is not archived.
    fn payload(&mut self, id: &str) -> Result<Option<(String, String)>> {
        let place: Option<(i64, String)> = self
            .db
            .prepare_cached(PLACE)
            .and_then(|mut s| {
                s.query_row(params![self.conversation, id, STUB], |row| Ok((row.get(0)?, row.get(1)?)))
                    .optional()
            })
            .doing(DOING)?;
        let Some((position, kind)) = place else { return Ok(None) };
        Ok(Some((kind, self.payloads.archived(position)?)))
    }
}

/// Returns a line with its text.
pub(super) fn whole_line(shown: &mut Shown<'_>, mut line: TranscriptLine) -> Result<TranscriptLine> {
    if let Some((kind, payload)) = shown.payload(&line.event_id)? {
        line.text = Line::read(&kind, &Object::of(&payload)).to_text();
    }
    Ok(line)
}

/// Returns a call with the values from its own payload and from its answer's payload.
pub(super) fn whole_call(shown: &mut Shown<'_>, mut call: ToolCall) -> Result<ToolCall> {
    if let Some((_, payload)) = shown.payload(&call.action_id)? {
        (call.command, call.arguments) = shown
            .db
            .prepare_cached(CALL)
            .and_then(|mut s| s.query_row([payload], |row| Ok((row.get(0)?, row.get(1)?))))
            .doing(DOING)?;
    }
    let answer = call.result_id.clone().map(|id| shown.payload(&id)).transpose()?.flatten();
    let Some((answer_kind, payload)) = answer else { return Ok(call) };
    let (source, reason, error): (Option<String>, Option<String>, Option<String>) = shown
        .db
        .prepare_cached(ANSWER)
        .and_then(|mut s| s.query_row([payload], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))))
        .doing(DOING)?;
    if call.outcome == ToolOutcome::Rejected {
        call.rejected_by = Some(source.as_deref().map_or(RejectionSource::User, RejectionSource::from));
        call.rejection_reason = reason;
    }
    if kind::canonical(&answer_kind) == kind::AGENT_ERROR {
        call.error = error;
    }
    Ok(call)
}
