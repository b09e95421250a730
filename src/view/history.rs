//! What enforcement has to know of everything that happened on a branch, seen by the model or not: which
//! actions were one reply of the model, and which events were one tool loop.

use std::collections::{HashMap, HashSet};

use super::part::{Effect, Part};
use crate::event::Event;

/// The batches and tool loops of a branch.
///
/// A tool loop begins with an action that carries thinking blocks, goes on with actions and answers, and
/// ends before anything else, be it an event that the model never sees.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// The actions of each reply of the model, in order.
    pub(super) batches: HashMap<Box<str>, Vec<Box<str>>>,
    /// The events of each tool loop, in order.
    pub(super) loops: Vec<Vec<Box<str>>>,
    in_loop: bool,
    /// The calls whose answers are still to come.
    pub(super) awaited: HashSet<Box<str>>,
}

impl History {
    /// The history of nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets the call of this name have its answer later: its action waits for somebody, and is not one that was lost.
    pub fn await_answer(&mut self, call: &str) {
        self.awaited.insert(call.into());
    }

    /// Takes the next event of the branch.
    pub fn apply(&mut self, event: &Event) {
        let id = event.id().as_str();
        match Effect::of(event) {
            Effect::See(Part::Action { response, thinks, .. }) => {
                match self.batches.get_mut(response) {
                    Some(batch) => batch.push(id.into()),
                    None => drop(self.batches.insert(response.into(), vec![id.into()])),
                }
                if thinks {
                    self.loops.push(Vec::new());
                    self.in_loop = true;
                }
                self.go_on(id);
            }
            Effect::See(Part::Answer { .. }) => self.go_on(id),
            Effect::See(Part::Said) | Effect::Condense(_) | Effect::Request | Effect::Nothing => {
                self.in_loop = false;
            }
        }
    }

    /// Adds an event to the tool loop that is under way, if one is.
    fn go_on(&mut self, id: &str) {
        if self.in_loop
            && let Some(current) = self.loops.last_mut()
        {
            current.push(id.into());
        }
    }
}
