//! Calls and answers along a branch.
//!
//! A result answers the action it names, an error the newest earlier calls of its name, and only what comes
//! later answers (`events.md` section 6): as the reference decides what a run has still to do.

use std::collections::HashMap;

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
        let mut waiting: Vec<(usize, &str)> = Vec::new();
        for place in branch.iter().copied() {
            match &skeleton.parts[place] {
                Part::Call { call, awaits, .. } => {
                    let first = *first_calls.entry(call).or_insert(place);
                    if first != place {
                        calls.repeated.push((place, first));
                    }
                    actions.insert(skeleton.tree.id(place).unwrap_or_default(), place);
                    if *awaits {
                        waiting.push((place, call));
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
                    match action {
                        Some(_) => waiting.retain(|(waits, _)| Some(waits) != answered),
                        None => waiting.retain(|(_, name)| *name != &**call),
                    }
                }
                Part::Other => {}
            }
        }
        // One whose name was answered, though for another action, is answered to every provider.
        let is_answered = |call: &str| first_answers.contains_key(call);
        calls.dangling =
            waiting.iter().filter(|(_, call)| !is_answered(call)).map(|(place, _)| *place).collect();
        calls
    }
}
