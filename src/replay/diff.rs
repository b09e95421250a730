//! The difference between two moments: of one conversation, of two branches, or of two conversations.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::Moment;
use crate::chain::Digest;
use crate::error::Result;
use crate::ids::Sequence;

/// An event in a difference.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mark {
    /// The sequence in its conversation.
    pub sequence: u64,
    /// Its id.
    pub id: String,
    /// Its kind.
    pub kind: String,
    digest: Digest,
}

/// A field of the state that differs.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct FieldDifference {
    /// The name, as in the output of `annals state --json`.
    pub field: String,
    /// The value on the left.
    pub left: Value,
    /// The value on the right.
    pub right: Value,
}

/// The difference between two moments.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Difference {
    /// The number of events that both live branches begin with. They are equal byte for byte.
    pub common: u64,
    /// The first event that differs, on the left and on the right. `None` if that branch has ended.
    pub diverges_at: (Option<Mark>, Option<Mark>),
    /// The events of the left branch that the right one does not have.
    pub lost: Vec<Mark>,
    /// The events of the right branch that the left one does not have.
    pub added: Vec<Mark>,
    /// The fields of the state that differ, by name.
    pub fields: Vec<FieldDifference>,
    /// Tokens sent and tokens received: the right values minus the left ones.
    pub tokens: (i64, i64),
    /// The known cost: the right value minus the left one. `None` if either is unknown.
    pub cost: Option<f64>,
    /// The estimated cost, likewise. A side without an estimate counts as 0 if the other one has one.
    pub estimated_cost: Option<f64>,
}

impl Difference {
    /// Compares two moments by their live branches and states.
    ///
    /// # Errors
    /// As [`Moment::state`].
    pub fn between(left: &Moment<'_>, right: &Moment<'_>) -> Result<Self> {
        let (lefts, rights) = (marks(left)?, marks(right)?);
        let same = |(a, b): &(&Mark, &Mark)| a.id == b.id && a.digest == b.digest;
        let common = lefts.iter().zip(&rights).take_while(same).count();
        let missing = |these: &[Mark], others: &[Mark]| {
            let known: HashSet<(&str, Digest)> = others.iter().map(|mark| (&*mark.id, mark.digest)).collect();
            let is_missing = |mark: &&Mark| !known.contains(&(&*mark.id, mark.digest));
            these.iter().filter(is_missing).cloned().collect::<Vec<_>>()
        };
        let (states_left, states_right) = (left.brief_state_value()?, right.brief_state_value()?);
        let figure = |state: &Value, name: &str| {
            state["stats"]["combined"]["accumulated_token_usage"][name].as_i64().unwrap_or(0)
        };
        let costs = |name: &str| (states_left[name].as_f64(), states_right[name].as_f64());
        let cost = match costs("cost") {
            (Some(left), Some(right)) => Some(right - left),
            // Nothing was spent on this side yet.
            (None, Some(right)) if has_no_tokens(&states_left) => Some(right),
            (Some(left), None) if has_no_tokens(&states_right) => Some(-left),
            _ => None,
        };
        let estimated_cost = match costs("estimated_cost") {
            (None, None) => None,
            (left, right) => Some(right.unwrap_or(0.0) - left.unwrap_or(0.0)),
        };
        let more = |name| figure(&states_right, name) - figure(&states_left, name);
        Ok(Self {
            common: common as u64,
            diverges_at: (lefts.get(common).cloned(), rights.get(common).cloned()),
            lost: missing(&lefts, &rights),
            added: missing(&rights, &lefts),
            tokens: (more("prompt_tokens"), more("completion_tokens")),
            cost,
            estimated_cost,
            fields: fields(&states_left, &states_right),
        })
    }

    /// Returns the difference as JSON. `docs/cli.md` describes the format.
    #[must_use]
    pub fn value(&self) -> Value {
        let mark = |mark: &Mark| json!({"sequence": mark.sequence, "id": mark.id, "kind": mark.kind});
        let marks = |marks: &[Mark]| marks.iter().map(mark).collect::<Vec<_>>();
        json!({
            "common_events": self.common,
            "diverges_at": {
                "left": self.diverges_at.0.as_ref().map(mark),
                "right": self.diverges_at.1.as_ref().map(mark),
            },
            "lost": marks(&self.lost),
            "added": marks(&self.added),
            "fields": self.fields.iter()
                .map(|field| json!({"field": field.field, "left": field.left, "right": field.right}))
                .collect::<Vec<_>>(),
            "prompt_tokens": self.tokens.0,
            "completion_tokens": self.tokens.1,
            "cost": self.cost,
            "estimated_cost": self.estimated_cost,
        })
    }
}

/// Returns whether the state's model calls have no tokens. Beside a known cost, an unknown one is 0 then.
fn has_no_tokens(state: &Value) -> bool {
    let tokens = &state["stats"]["combined"]["accumulated_token_usage"];
    ["prompt_tokens", "completion_tokens"].iter().all(|name| tokens[name].as_i64().unwrap_or(0) == 0)
}

/// Fields that identify the moment, and those that have a difference of their own. They are not compared.
const PLACES: [&str; 7] = [
    "conversation_id",
    "as_of_sequence",
    "is_end",
    "branch_event_count",
    "cost",
    "estimated_cost",
    "tokens_without_cost",
];

fn fields(left: &Value, right: &Value) -> Vec<FieldDifference> {
    let names = left.as_object().into_iter().flat_map(|fields| fields.keys());
    names
        .filter(|name| !PLACES.contains(&name.as_str()) && left[*name] != right[*name])
        .map(|name| FieldDifference {
            field: name.clone(),
            left: left[name].clone(),
            right: right[name].clone(),
        })
        .collect()
}

/// Returns the events of a moment's live branch, root first.
fn marks(moment: &Moment<'_>) -> Result<Vec<Mark>> {
    let path = moment.branch()?;
    let mut by_place = path.clone();
    by_place.sort_unstable();
    let mut left = by_place.iter().copied().peekable();
    let mut marks = Vec::with_capacity(path.len());
    if let Some(first) = by_place.first() {
        moment.store.scan(moment.id(), Sequence(*first as u64), |event| {
            if left.next_if(|place| *place as u64 == event.sequence.0).is_some() {
                marks.push(Mark {
                    sequence: event.sequence.0,
                    id: event.id.to_owned(),
                    kind: event.kind.to_owned(),
                    digest: Digest::of(event.payload.as_bytes()),
                });
            }
            Ok(left.peek().is_some())
        })?;
    }
    if !path.is_sorted() {
        let place_on_path: std::collections::HashMap<usize, usize> =
            path.iter().enumerate().map(|(at, place)| (*place, at)).collect();
        marks.sort_by_key(|mark| place_on_path.get(&(mark.sequence as usize)).copied());
    }
    Ok(marks)
}
