//! What enforcement must know about all events of a branch, also those that the model does not see: which actions
//! were one reply of the model, and which events were one tool loop.

use std::collections::{HashMap, HashSet};

use super::part::{Effect, Part};
use crate::event::Event;

/// The batches and tool loops of a branch.
///
/// A tool loop begins with an action that carries thinking blocks, and continues with actions and answers. It ends
/// before any other event, even one that the model never sees.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// The actions of each reply of the model, in order.
    pub(super) batches: HashMap<Box<str>, Vec<Box<str>>>,
    /// The events of each tool loop, in order.
    pub(super) loops: Vec<Vec<Box<str>>>,
    in_loop: bool,
    /// The calls whose answers are still expected.
    pub(super) awaited: HashSet<Box<str>>,
}

impl History {
    /// Returns an empty history.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes that the answer to this call comes later: its action is pending, not lost.
    pub fn await_answer(&mut self, call: &str) {
        self.awaited.insert(call.into());
    }

    /// Applies the next event of the branch.
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
                self.extend_loop(id);
            }
            Effect::See(Part::Answer { .. }) => self.extend_loop(id),
            Effect::See(Part::Said) | Effect::Condense(_) | Effect::Request | Effect::Nothing => {
                self.in_loop = false;
            }
        }
    }

    /// Adds an event to the current tool loop, if there is one.
    fn extend_loop(&mut self, id: &str) {
        if self.in_loop
            && let Some(current) = self.loops.last_mut()
        {
            current.push(id.into());
        }
    }
}
