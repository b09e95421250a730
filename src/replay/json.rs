//! A conversation at a moment, as JSON: the formats that `annals --json` prints and the server sends.

use serde_json::{Value, json};

use super::Moment;
use crate::error::Result;
use crate::event::Message;
use crate::message::{self, ChatFlags, WireError};
use crate::tree::{Branch, Tree};
use crate::view::{Entry, View};

/// The format of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// The SDK's own format, as it dumps them.
    Plain,
    /// The format of a chat request.
    Chat(ChatFlags),
    /// The format of a responses request: instructions and input items.
    Responses {
        /// Whether pictures are included.
        vision: bool,
    },
}

/// Returns the entries of a view: for each, its sequence and the event as the SDK would write it. `branch` has the
/// sequences of the branch that the view was made from.
#[must_use]
pub fn view(view: &View, branch: &[usize]) -> Value {
    view.entries().map(|one| entry(one, branch)).collect()
}

fn entry(entry: &Entry, branch: &[usize]) -> Value {
    let payload = entry.event.dump();
    json!({
        "id": entry.id(),
        "kind": entry.event.kind(),
        "sequence": branch.get(entry.place),
        "is_summary": entry.event.kind() == "CondensationSummaryEvent",
        "event": serde_json::from_str::<Value>(&payload).unwrap_or(Value::String(payload)),
    })
}

/// Returns HEAD and the branches: `{"head":id|null,"live":[[first,last],...]|null,"branches":[...]}`. `live` has the
/// sequences of the live branch and of the events that belong to no branch. It is null if the live branch cannot be
/// determined.
///
/// # Errors
/// The errors of reading.
pub fn branches(moment: &Moment<'_>) -> Result<Value> {
    let tree = moment.tree()?;
    let branches: Value = tree.branches().iter().map(|branch| branch_value(moment, tree, branch)).collect();
    Ok(json!({"head": moment.active_leaf(), "live": live(moment, tree), "branches": branches}))
}

/// Returns the live branch as ranges of sequences.
fn live(moment: &Moment<'_>, tree: &Tree) -> Option<Vec<[usize; 2]>> {
    let branch = moment.branch().ok()?;
    let mut is_live: Vec<bool> = (0..tree.len()).map(|place| !tree.moves_head(place)).collect();
    for place in branch {
        is_live[place] = true;
    }
    Some(ranges((0..tree.len()).filter(|place| is_live[*place])))
}

/// Converts ascending numbers to ranges, both ends included.
fn ranges(places: impl Iterator<Item = usize>) -> Vec<[usize; 2]> {
    let mut ranges: Vec<[usize; 2]> = Vec::new();
    for place in places {
        match ranges.last_mut() {
            Some([_, last]) if *last + 1 == place => *last = place,
            Some(_) | None => ranges.push([place, place]),
        }
    }
    ranges
}

fn branch_value(moment: &Moment<'_>, tree: &Tree, branch: &Branch) -> Value {
    // In the log, a parent may come after its child.
    let mut own = tree.tail(branch.tip, branch.own).unwrap_or_default();
    own.sort_unstable();
    json!({
        "tip": tree.id(branch.tip).unwrap_or_default(),
        "tip_sequence": branch.tip,
        "events": branch.length,
        "fork_sequence": branch.fork,
        "fork": branch.fork.and_then(|fork| tree.id(fork)),
        "own_events": branch.own,
        "own_ranges": ranges(own.into_iter()),
        "live": is_live(moment, tree, branch),
    })
}

/// Returns whether HEAD is one of the branch's own events.
#[must_use]
pub fn is_live(moment: &Moment<'_>, tree: &Tree, branch: &Branch) -> bool {
    let head = moment.active_leaf().and_then(|leaf| tree.place(leaf));
    head.is_some_and(|head| tree.tail(branch.tip, branch.own).is_ok_and(|own| own.contains(&head)))
}

/// Converts messages to the given format.
///
/// # Errors
/// [`WireError`] if the interface does not allow such messages. The reference fails there too.
pub fn messages(messages: &[Message], wire: Wire) -> std::result::Result<Value, WireError> {
    Ok(match wire {
        Wire::Plain => messages.iter().map(plain).collect(),
        Wire::Chat(flags) => message::chat(messages, flags)?.into(),
        Wire::Responses { vision } => {
            let request = message::responses_input(messages, vision);
            json!({"instructions": request.instructions, "input": request.input})
        }
    })
}

/// Converts a message as the reference dumps it.
fn plain(message: &Message) -> Value {
    let text = message.to_json();
    serde_json::from_str(&text).unwrap_or(Value::String(text))
}
