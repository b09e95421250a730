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
    /// Tokens sent, tokens received and cost: the right values minus the left ones.
    pub spent: (i64, i64, f64),
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
        let (states_left, states_right) = (left.state_value()?, right.state_value()?);
        let figure = |state: &Value, name: &str| {
            state["stats"]["combined"]["accumulated_token_usage"][name].as_i64().unwrap_or(0)
        };
        let cost = |state: &Value| state["stats"]["combined"]["accumulated_cost"].as_f64().unwrap_or(0.0);
        let more = |name| figure(&states_right, name) - figure(&states_left, name);
        Ok(Self {
            common: common as u64,
            diverges_at: (lefts.get(common).cloned(), rights.get(common).cloned()),
            lost: missing(&lefts, &rights),
            added: missing(&rights, &lefts),
            spent: (
                more("prompt_tokens"),
                more("completion_tokens"),
                cost(&states_right) - cost(&states_left),
            ),
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
            "prompt_tokens": self.spent.0,
            "completion_tokens": self.spent.1,
            "cost": self.spent.2,
        })
    }
}

/// Fields that identify the moment. They are not part of the state and are not compared.
const PLACES: [&str; 4] = ["conversation_id", "as_of_sequence", "is_end", "active_branch_ids"];

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
