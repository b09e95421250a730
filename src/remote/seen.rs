//! The known state of a conversation at a server, from its events and snapshots.

use std::time::Instant;

use super::RemoteError;
use super::log::Cursor;
use crate::event::{Event, Json, inert, kind};
use crate::ids::EventId;
use crate::json::Raw;
use crate::state::ExecutionStatus;

/// The fields of a state that are tracked.
const STATUS: &str = "execution_status";
const LAST_USER_MESSAGE: &str = "last_user_message_id";
const LEAF: &str = "leaf_event_id";
const GOAL: &str = "goal";

/// The known state of a conversation at a server.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    /// The place in its log up to which events were delivered.
    pub cursor: Cursor,
    /// The status.
    pub status: ExecutionStatus,
    /// The event that HEAD points to.
    pub head: Option<EventId>,
    /// The user's last message.
    pub last_user_message: Option<EventId>,
    /// The sequence of the last event that gave the status.
    pub status_from: Option<u64>,
    /// The last error of a run: the sequence, the code, the detail.
    pub error: Option<(u64, String, String)>,
    /// The last update of a goal, with its sequence.
    pub goal: Option<(u64, Json)>,
    /// The number of whole states received over sockets.
    pub snapshots: u64,
    /// Since when the server cannot be reached, and why. `None` if it can be reached.
    pub lost: Option<(Instant, RemoteError)>,
    /// The error that ended the following. `None` while it goes on.
    pub ended: Option<RemoteError>,
}

impl Seen {
    pub fn new(cursor: Cursor, status: ExecutionStatus) -> Self {
        Self {
            cursor,
            status,
            head: None,
            last_user_message: None,
            status_from: None,
            error: None,
            goal: None,
            snapshots: 0,
            lost: None,
            ended: None,
        }
    }

    /// Applies an event of the log.
    pub fn apply(&mut self, sequence: u64, event: &Event) {
        if kind::moves_head(event.kind()) {
            self.head = Some(event.id().clone());
        }
        match event {
            Event::StateUpdate(update) => {
                let value = update.value.raw();
                match &*update.key {
                    STATUS => {
                        self.set_status(value);
                        self.status_from = Some(sequence);
                    }
                    LAST_USER_MESSAGE => self.last_user_message = id(value),
                    GOAL => self.goal = Some((sequence, update.value.clone())),
                    _ => {}
                }
            }
            Event::ConversationError(error) => {
                self.error = Some((sequence, error.code.to_string(), error.detail.to_string()));
            }
            Event::Message(_)
            | Event::Action(_)
            | Event::Observation(_)
            | Event::UserReject(_)
            | Event::AgentError(_)
            | Event::SystemPrompt(_)
            | Event::Condensation(_)
            | Event::CondensationRequest(_)
            | Event::CondensationSummary(_)
            | Event::Pause(_)
            | Event::Interrupt(_)
            | inert!()
            | Event::Unknown(_) => {}
        }
    }

    /// Applies a whole state, from a snapshot or from the conversation's routes.
    pub fn refresh(&mut self, state: Raw<'_>) {
        let state = state.to_object();
        if let Some(status) = state.get(STATUS) {
            self.set_status(status);
        }
        self.head = state.get(LEAF).and_then(id);
        self.last_user_message = state.get(LAST_USER_MESSAGE).and_then(id);
    }

    fn set_status(&mut self, value: Raw<'_>) {
        if let Some(status) = value.as_str().and_then(|status| status.parse().ok()) {
            self.status = status;
        }
    }
}

/// Returns the whole state in an event that is not in the log. `None` if the event holds none.
pub(super) fn whole_state<'a>(event: &'a str) -> Option<Raw<'a>> {
    let event = Raw::parse(event).ok()?;
    (event.get("key")?.as_str()? == "full_state").then(|| event.get("value"))?
}

fn id(value: Raw<'_>) -> Option<EventId> {
    EventId::new(value.as_str()?.into_owned()).ok()
}
