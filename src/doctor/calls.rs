//! Calls and answers along a branch.
//!
//! A result answers the action it names, an error the newest earlier calls of its name, and only what comes
//! later answers (`events.md` section 6): as the reference decides what a run has still to do.

use std::collections::{BTreeMap, HashMap};

use super::skeleton::{Part, Skeleton};

/// What is odd about the calls of a branch; all places.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Calls {
    /// Actions that nothing answers.
    pub dangling: Vec<usize>,
    /// Answers after the first one to a call, each with the first.
    pub second: Vec<(usize, usize)>,
    /// Actions that bear the name of an earlier call, each with the first.
    pub repeated: Vec<(usize, usize)>,
    /// Answers to calls that are not on the branch.
    pub stray: Vec<usize>,
}

impl Calls {
    /// Reads the events at `branch`, in the order of the branch.
    pub(super) fn of(skeleton: &Skeleton, branch: &[usize]) -> Self {
        let mut calls = Self::default();
        let mut first_calls: HashMap<&str, usize> = HashMap::new();
        let mut first_answers: HashMap<&str, usize> = HashMap::new();
        let mut actions: HashMap<&str, usize> = HashMap::new();
        // Actions that wait, by their order on the branch, and those of them that bear a name.
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
        // One whose name was answered, though for another action, is answered to every provider.
        calls.dangling = waiting.into_values().collect();
        calls.dangling.retain(|place| match &skeleton.parts[*place] {
            Part::Call { call, .. } => !first_answers.contains_key(&**call),
            Part::Answer { .. } | Part::Other => false,
        });
        calls
    }
}
