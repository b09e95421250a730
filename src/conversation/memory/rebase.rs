//! Moves a draft behind the events that another process wrote in the meantime.
//!
//! Another process sends a message or pauses a run only through the store. The run in this process continues behind
//! these events, as if they had been written first.

use std::collections::HashSet;

use super::live::{Draft, Live};
use crate::event::Event;
use crate::ids::{EventId, ROOT};
use crate::state::ExecutionStatus;
use crate::state::base::quoted;

/// Adds `draft` to `live` again, after `live` was read anew. `leaf` is the HEAD that the draft led to. Returns `false`
/// and adds nothing if the draft no longer fits: it moves HEAD by itself, or it answers an action that is already
/// answered.
pub(in crate::conversation) fn rebase(live: &mut Live, mut draft: Draft, leaf: Option<EventId>) -> bool {
    let own: HashSet<EventId> = draft.events.iter().map(|event| event.id().clone()).collect();
    let is_open = |action_id: &str| {
        own.iter().any(|own| own.as_str() == action_id)
            || live.branch.pending().iter().any(|action| action.common.id.as_str() == action_id)
    };
    let fits = |event: &Event| {
        let answered = if let Event::Observation(answer) = event {
            Some(&answer.action_id)
        } else if let Event::UserReject(answer) = event {
            Some(&answer.action_id)
        } else {
            None
        };
        answered.is_none_or(|action_id| is_open(action_id))
    };
    if draft.leaf.is_some() || !draft.events.iter().all(fits) {
        return false;
    }
    let path = path(&draft.events, leaf);
    for event in std::mem::take(&mut draft.events) {
        let is_first = event
            .common()
            .parent_id
            .as_ref()
            .is_none_or(|parent| !own.iter().any(|own| own.as_str() == &**parent));
        let event = if is_first {
            let parent = live.leaf.as_ref().map_or(ROOT, EventId::as_str).to_owned();
            event.with_parent(&parent)
        } else {
            event
        };
        if path.contains(event.id()) { drop(live.push(event)) } else { live.push_aside(event) }
    }
    // The pause of another process stays: it is not overwritten by `running`.
    let running = quoted(ExecutionStatus::Running.as_str());
    let is_paused = live.base.status == ExecutionStatus::Paused;
    draft.fields.retain(|change| {
        !(is_paused && change.field == "execution_status" && change.value.as_deref() == Some(&*running))
    });
    live.draft.fields = draft.fields;
    live.draft.by = draft.by;
    true
}

/// Returns the ids of `leaf` and its ancestors among `events`.
fn path(events: &[Event], leaf: Option<EventId>) -> HashSet<EventId> {
    let mut path = HashSet::new();
    let mut at = leaf.map(|leaf| leaf.as_str().to_owned());
    while let Some(event) = at.and_then(|at| events.iter().find(|event| event.id().as_str() == at)) {
        path.insert(event.id().clone());
        at = event.common().parent_id.as_ref().map(|parent| parent.to_string());
    }
    path
}
