//! Either all actions of one reply of the model are in a view, or none: the reply cannot be sent without all of them.

use std::collections::{HashMap, HashSet};

use super::{Name, Property, Seen};
use crate::view::history::History;
use crate::view::indices::Indices;
use crate::view::part::Part;

/// The batches of which a view holds at least one action.
pub(super) struct Batches {
    /// The actions of each batch that are in the view, and whether these are all actions of the batch.
    batches: Vec<(Vec<Name>, bool)>,
    /// The batches in which a name has an action. In an unusual log there can be several.
    of_name: HashMap<Name, Vec<usize>>,
}

impl Batches {
    pub(super) fn of(seen: &Seen<'_>, history: &History) -> Self {
        let mut by_response: HashMap<&str, usize> = HashMap::new();
        let mut responses = Vec::new();
        let mut batches: Vec<(Vec<Name>, bool)> = Vec::new();
        let mut of_name: HashMap<Name, Vec<usize>> = HashMap::new();
        for (name, part) in &seen.parts {
            let Part::Action { response, .. } = part else { continue };
            let batch = *by_response.entry(response).or_insert(batches.len());
            if batch == batches.len() {
                batches.push((Vec::new(), true));
                responses.push(response);
            }
            let known = of_name.entry(*name).or_default();
            if !known.contains(&batch) {
                known.push(batch);
                batches[batch].0.push(*name);
            }
        }
        for (response, (members, whole)) in responses.into_iter().zip(&mut batches) {
            let all = history.batches.get(*response).map_or(&[][..], Vec::as_slice);
            // An id can occur twice in the history, but `members` has each id once.
            *whole = members.len() == all.len() || members.len() == all.iter().collect::<HashSet<_>>().len();
        }
        Self { batches, of_name }
    }
}

impl Property for Batches {
    fn broken(&self, _: &Seen<'_>) -> Vec<Name> {
        self.batches.iter().filter(|(_, whole)| !whole).flat_map(|(members, _)| members).copied().collect()
    }

    fn lost(&mut self, name: Name, _: &Seen<'_>, doomed: &mut Vec<Name>) {
        for batch in self.of_name.remove(&name).unwrap_or_default() {
            doomed.append(&mut self.batches[batch].0);
        }
    }
}

/// Forbids a cut between two adjacent actions of one reply.
pub(super) fn forbid(parts: &[Part<'_>], indices: &mut Indices) {
    for (place, pair) in parts.windows(2).enumerate() {
        if let [Part::Action { response: left, .. }, Part::Action { response: right, .. }] = pair
            && left == right
        {
            indices.forbid(place + 1);
        }
    }
}
