//! Reads the structure of a conversation in one pass: parents, calls and answers, and payloads that cannot be read.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::event::{Event, Given, inert, kind, upcast};
use crate::ids::{ConversationId, EventId, Timestamp};
use crate::store::{EventRow, Store};
use crate::tree::Tree;

/// The role of an event for tool calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    /// The event calls a tool.
    Call {
        /// The call's id.
        call: Box<str>,
        /// The tool.
        tool: Box<str>,
        /// Whether the call was valid and so awaits an answer.
        awaits: bool,
    },
    /// The event answers a call.
    Answer {
        /// The call's id.
        call: Box<str>,
        /// The action that it names. `None` for an error.
        action: Option<Box<str>>,
    },
    /// Neither a call nor an answer.
    Other,
}

/// The events of one kind that have the same problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Odd {
    /// The sequence and the id of the first one.
    pub first: (u64, String),
    /// The number of these events.
    pub count: u64,
    /// Why the first one cannot be read. Empty if its kind is only unknown.
    pub why: String,
}

/// The structure of a conversation. Places count the existing events, from 0.
#[derive(Debug, Default)]
pub(super) struct Skeleton {
    pub tree: Tree,
    pub parts: Vec<Part>,
    /// The sequence of each place. Empty if the sequences have no gaps.
    sequences: Vec<u64>,
    /// The gaps: the first missing sequence, and the first one after the gap.
    pub gaps: Vec<(u64, u64)>,
    /// The payloads that cannot be read, by kind.
    pub unreadable: BTreeMap<String, Odd>,
    /// The events of unknown kinds, by kind.
    pub unfamiliar: BTreeMap<String, Odd>,
    /// The time when the last event was recorded.
    pub recorded_at: Option<Timestamp>,
}

impl Skeleton {
    /// Reads the first `length` events. Calls `seen` after each one.
    pub(super) fn read(
        store: &Store,
        id: &ConversationId,
        length: u64,
        seen: &mut dyn FnMut(),
    ) -> Result<Self> {
        let mut skeleton = Self::default();
        let mut next = 0;
        store.bones(id, length, &mut |bone| {
            if bone.sequence != next {
                skeleton.gaps.push((next, bone.sequence));
            }
            next = bone.sequence + 1;
            skeleton.push(&bone);
            seen();
            Ok(())
        })?;
        if next < length {
            skeleton.gaps.push((next, length));
        }
        Ok(skeleton)
    }

    fn push(&mut self, bone: &EventRow<'_>) {
        let place = self.tree.len() as u64;
        if !self.sequences.is_empty() || bone.sequence != place {
            if self.sequences.is_empty() {
                self.sequences = (0..place).collect();
            }
            self.sequences.push(bone.sequence);
        }
        self.tree.push(bone.id, bone.parent_id, bone.kind);
        self.recorded_at = Some(bone.recorded_at);
        let part = if bone.is_redacted { part_of_columns(bone) } else { self.part(bone) };
        self.parts.push(part);
    }

    /// Returns the sequence of the event at `place`.
    pub(super) fn sequence(&self, place: usize) -> u64 {
        self.sequences.get(place).copied().unwrap_or(place as u64)
    }

    fn part(&mut self, bone: &EventRow<'_>) -> Part {
        let given_id = EventId::new(bone.id).ok();
        let given = Given { id: given_id.as_ref(), timestamp: None };
        let payload = match bone.payload {
            Ok(payload) => payload,
            Err(why) => {
                note(&mut self.unreadable, bone, why.to_owned());
                return part_of_columns(bone);
            }
        };
        match upcast::read(payload, &given).map(|raised| raised.event) {
            Ok(event) => {
                if let Event::Unknown(unknown) = &event {
                    match &unknown.fault {
                        Some(fault) => note(&mut self.unreadable, bone, fault.to_string()),
                        None if is_archived(bone.kind) => {}
                        None => note(&mut self.unfamiliar, bone, String::new()),
                    }
                    return part_of_columns(bone);
                }
                part_of(&event)
            }
            Err(error) => {
                note(&mut self.unreadable, bone, error.to_string());
                part_of_columns(bone)
            }
        }
    }
}

/// Returns whether a kind is that of another program's archived event, such as OpenHands V0's `action:run` or another
/// agent's `claude-code:user`. Such kinds are not meant to be kinds of the SDK.
fn is_archived(kind: &str) -> bool {
    kind.contains(':')
}

fn note(odd: &mut BTreeMap<String, Odd>, bone: &EventRow<'_>, why: String) {
    let first = || Odd { first: (bone.sequence, bone.id.to_owned()), count: 0, why };
    odd.entry(bone.kind.to_owned()).or_insert_with(first).count += 1;
}

/// Returns the role of an event whose payload was redacted or cannot be read. An action is still a call, but an
/// unreadable action cannot be executed and awaits no answer. Any other event with a call id counts as an answer.
fn part_of_columns(bone: &EventRow<'_>) -> Part {
    let Some(call) = bone.tool_call_id else { return Part::Other };
    match kind::canonical(bone.kind) {
        kind::ACTION => Part::Call { call: call.into(), tool: "a tool".into(), awaits: bone.is_redacted },
        _ => Part::Answer { call: call.into(), action: None },
    }
}

fn part_of(event: &Event) -> Part {
    match event {
        Event::Action(action) => Part::Call {
            call: (&*action.tool_call_id).into(),
            tool: (&*action.tool_name).into(),
            awaits: action.action.is_some(),
        },
        Event::Observation(answer) => {
            Part::Answer { call: (&*answer.tool_call_id).into(), action: Some((&*answer.action_id).into()) }
        }
        Event::UserReject(answer) => {
            Part::Answer { call: (&*answer.tool_call_id).into(), action: Some((&*answer.action_id).into()) }
        }
        Event::AgentError(answer) => Part::Answer { call: (&*answer.tool_call_id).into(), action: None },
        Event::Message(_)
        | Event::SystemPrompt(_)
        | Event::Condensation(_)
        | Event::CondensationRequest(_)
        | Event::CondensationSummary(_)
        | Event::StateUpdate(_)
        | Event::ConversationError(_)
        | Event::Pause(_)
        | Event::Interrupt(_)
        | inert!()
        | Event::Unknown(_) => Part::Other,
    }
}
