//! A tool loop that began with thinking is in a view as a whole or not at all, because its provider checks the
//! thinking against all events that followed it.

use std::collections::HashMap;

use super::{Name, Property, Seen};
use crate::view::history::History;
use crate::view::indices::Indices;
use crate::view::part::Part;

/// The tool loops of which a view holds at least one event.
pub(super) struct ToolLoops {
    /// The events of each loop that are in the view, and whether these are all events of the loop.
    loops: Vec<(Vec<Name>, bool)>,
    /// The loops that a name is in. In an unusual log there can be several.
    of_name: HashMap<Name, Vec<usize>>,
}

impl ToolLoops {
    pub(super) fn of(seen: &Seen<'_>, history: &History) -> Self {
        let mut loops: Vec<(Vec<Name>, bool)> = Vec::new();
        let mut of_name: HashMap<Name, Vec<usize>> = HashMap::new();
        for events in &history.loops {
            let members: Vec<Name> = events.iter().filter_map(|id| seen.name(id)).collect();
            if members.is_empty() {
                continue;
            }
            for name in &members {
                of_name.entry(*name).or_default().push(loops.len());
            }
            let whole = members.len() == events.len();
            loops.push((members, whole));
        }
        Self { loops, of_name }
    }
}

impl Property for ToolLoops {
    fn broken(&self, _: &Seen<'_>) -> Vec<Name> {
        self.loops.iter().filter(|(_, whole)| !whole).flat_map(|(members, _)| members).copied().collect()
    }

    fn lost(&mut self, name: Name, _: &Seen<'_>, doomed: &mut Vec<Name>) {
        for number in self.of_name.remove(&name).unwrap_or_default() {
            doomed.append(&mut self.loops[number].0);
        }
    }
}

/// Forbids cuts within a loop.
pub(super) fn forbid(parts: &[Part<'_>], indices: &mut Indices) {
    let mut in_loop = false;
    for (place, part) in parts.iter().enumerate() {
        match part {
            Part::Action { thinks: true, .. } => in_loop = true,
            Part::Action { .. } | Part::Answer { .. } if in_loop => indices.forbid(place),
            Part::Action { .. } | Part::Answer { .. } => {}
            Part::Said => in_loop = false,
        }
    }
}
