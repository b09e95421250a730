//! Matches tool calls and answers on a branch.
//!
//! A result answers the action that it names. An error answers all earlier open calls with its call id. An answer has
//! to follow its call (`docs/reference/events.md#open-actions`). The reference decides in the same way which calls a
//! run still has to execute.

use std::collections::{BTreeMap, HashMap};

use super::skeleton::{Part, Skeleton};

/// The irregularities in the calls of a branch. All numbers are places.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Calls {
    /// Actions without an answer.
    pub dangling: Vec<usize>,
    /// Further answers to a call, each with the place of the first answer.
    pub second: Vec<(usize, usize)>,
    /// Actions whose call id was used before, each with the place of its first use.
    pub repeated: Vec<(usize, usize)>,
    /// Answers without a call on the branch.
    pub stray: Vec<usize>,
}

impl Calls {
    /// Reads the events at the places `branch`, in the order of the branch.
    pub(super) fn of(skeleton: &Skeleton, branch: &[usize]) -> Self {
        let mut calls = Self::default();
        let mut first_calls: HashMap<&str, usize> = HashMap::new();
        let mut first_answers: HashMap<&str, usize> = HashMap::new();
        let mut actions: HashMap<&str, usize> = HashMap::new();
        // The actions that await an answer, by their order on the branch; and these orders by call id.
        let mut waiting: BTreeMap<usize, usize> = BTreeMap::new();
        let mut by_call: HashMap<&str, Vec<usize>> = HashMap::new();
        for (order, place) in branch.iter().copied().enumerate() {
            match &skeleton.parts[place] {
                Part::Call { call, awaits, .. } => {
                    let first = *first_calls.entry(call).or_insert(place);
                    if first != place {
                        calls.repeated.push((place, first));
                    }
                    actions.insert(skeleton.tree.id(place).unwrap_or_default(), order);
                    if *awaits {
                        waiting.insert(order, place);
                        by_call.entry(call).or_default().push(order);
                    }
                }
                Part::Answer { call, action } => {
                    let first = *first_answers.entry(call).or_insert(place);
                    if first != place {
                        calls.second.push((place, first));
                    }
                    let answered = action.as_deref().and_then(|action| actions.get(action));
                    if answered.is_none() && !first_calls.contains_key(&**call) {
                        calls.stray.push(place);
                    }
                    match (action, answered) {
                        (Some(_), Some(order)) => drop(waiting.remove(order)),
                        (Some(_), None) => {}
                        (None, _) => {
                            for order in by_call.remove(&**call).unwrap_or_default() {
                                waiting.remove(&order);
                            }
                        }
                    }
                }
                Part::Other => {}
            }
        }
        // A call id that has any answer counts as answered, because providers match answers only by this id.
        calls.dangling = waiting.into_values().collect();
        calls.dangling.retain(|place| match &skeleton.parts[*place] {
            Part::Call { call, .. } => !first_answers.contains_key(&**call),
            Part::Answer { .. } | Part::Other => false,
        });
        calls
    }
}
