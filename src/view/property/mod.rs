//! The properties that must hold in every view, one per file, and how they are enforced.
//!
//! A property knows two things. It knows where a view may not be cut, and condensers respect this. It also knows
//! what must be removed from a view that breaks it. This is needed after a reload, because a log may be old or damaged,
//! or may have been stopped in the middle. A removal may break another property, and so on. The reference starts
//! over after each removal; here each property is notified once of each removal. The result is the same, because
//! an entry that must be removed from a view must also be removed from any smaller view. The only exception is
//! [`unique`], which is checked first and requires no removal after that.

mod batch;
mod pairing;
mod tool_loop;
mod unique;

use std::collections::HashMap;

use super::entries::{Entries, Entry};
use super::history::History;
use super::indices::Indices;
use super::part::Part;

/// The number of an id in a view. Events are removed by id.
type Name = usize;

/// A view as the properties see it.
struct Seen<'v> {
    /// The name and the part of each entry, in order.
    parts: Vec<(Name, Part<'v>)>,
    names: HashMap<&'v str, Name>,
    /// The entries of each name, by index in `parts`.
    entries: Vec<Vec<usize>>,
    /// Whether a name is still in the view.
    present: Vec<bool>,
}

impl<'v> Seen<'v> {
    fn of(entries: &'v Entries) -> Self {
        let mut seen = Self {
            parts: Vec::with_capacity(entries.len()),
            names: HashMap::with_capacity(entries.len()),
            entries: Vec::with_capacity(entries.len()),
            present: Vec::new(),
        };
        for entry in entries.iter() {
            let name = *seen.names.entry(entry.id()).or_insert(seen.entries.len());
            if name == seen.entries.len() {
                seen.entries.push(Vec::with_capacity(1));
            }
            seen.entries[name].push(seen.parts.len());
            seen.parts.push((name, entry.part()));
        }
        seen.present = vec![true; seen.entries.len()];
        seen
    }

    /// Returns the name of an event, if it was in the view at the beginning.
    fn name(&self, id: &str) -> Option<Name> {
        self.names.get(id).copied()
    }

    /// Returns the parts of the entries with this name, each with its index in `parts`.
    fn parts_of(&self, name: Name) -> impl Iterator<Item = (usize, Part<'v>)> {
        self.entries[name].iter().map(|entry| (*entry, self.parts[*entry].1))
    }
}

/// A property that must hold in a view.
trait Property {
    /// Returns what must be removed from the view as it is.
    fn broken(&self, seen: &Seen<'_>) -> Vec<Name>;

    /// Is notified that a name was removed, and adds to `doomed` what must be removed with it.
    fn lost(&mut self, name: Name, seen: &Seen<'_>, doomed: &mut Vec<Name>);
}

/// Removes from a view what breaks a property, until no property is broken. The cost is linear in the view and the
/// history, however many removals follow from one.
pub(super) fn enforce(entries: &mut Entries, history: &History) {
    let mut seen = Seen::of(entries);
    let mut properties: [Box<dyn Property>; 4] = [
        Box::new(unique::Unique),
        Box::new(batch::Batches::of(&seen, history)),
        Box::new(pairing::Pairing::of(&seen, history)),
        Box::new(tool_loop::ToolLoops::of(&seen, history)),
    ];
    let mut doomed = Vec::new();
    for index in 0..properties.len() {
        doomed.extend(properties[index].broken(&seen));
        while let Some(name) = doomed.pop() {
            if std::mem::replace(&mut seen.present[name], false) {
                for property in &mut properties {
                    property.lost(name, &seen, &mut doomed);
                }
            }
        }
    }
    let removed = seen.names.iter().filter(|(_, name)| !seen.present[**name]);
    let removed: Vec<String> = removed.map(|(id, _)| (*id).to_owned()).collect();
    for id in removed {
        entries.forget(&id);
    }
}

/// Returns the places where a view may be cut without breaking a property.
pub(super) fn indices(entries: &Entries) -> Indices {
    let parts: Vec<Part<'_>> = entries.iter().map(Entry::part).collect();
    let mut indices = Indices::complete(parts.len());
    batch::forbid(&parts, &mut indices);
    pairing::forbid(&parts, &mut indices);
    tool_loop::forbid(&parts, &mut indices);
    indices
}
