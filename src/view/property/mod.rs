//! What must hold in any view, one property a file, and how a view is made to hold it.
//!
//! A property knows two things: where it forbids to cut a view, which is how condensers keep it; and what
//! has to go from a view that breaks it, which is needed after a reload, because a log may be old, damaged
//! or have been stopped in the middle. What goes may break something else, and so on. The reference starts
//! over after each removal; here each removal is told to every property once. The result is the same: but
//! for [`unique`], which is asked first and has nothing left to say after that, what has to go from a view
//! has to go from any smaller one too.

mod batch;
mod pairing;
mod tool_loop;
mod unique;

use std::collections::HashMap;

use super::entries::{Entries, Entry};
use super::history::History;
use super::indices::Indices;
use super::part::Part;

/// One id of a view, by number: events are removed by id.
type Name = usize;

/// The view that properties look at.
struct Seen<'v> {
    /// Each entry's name and what it is, in order.
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

    /// The name of an event, if it was in the view at the beginning.
    fn name(&self, id: &str) -> Option<Name> {
        self.names.get(id).copied()
    }

    /// What the entries of a name are.
    fn parts_of(&self, name: Name) -> impl Iterator<Item = (usize, Part<'v>)> {
        self.entries[name].iter().map(|entry| (*entry, self.parts[*entry].1))
    }
}

/// Something that must hold in a view.
trait Property {
    /// What has to go from the view as it is.
    fn broken(&self, seen: &Seen<'_>) -> Vec<Name>;

    /// Hears that a name has gone, and adds what has to go with it.
    fn lost(&mut self, name: Name, seen: &Seen<'_>, doomed: &mut Vec<Name>);
}

/// Removes from a view what breaks a property, until nothing does. Costs what the view and the history
/// hold, however far one removal reaches.
pub(super) fn enforce(entries: &mut Entries, history: &History) {
    let mut seen = Seen::of(entries);
    let mut properties: [Box<dyn Property>; 4] = [
        Box::new(unique::Unique),
        Box::new(batch::Batches::of(&seen, history)),
        Box::new(pairing::Pairing::of(&seen, history)),
        Box::new(tool_loop::ToolLoops::of(&seen, history)),
    ];
    let mut doomed = Vec::new();
    for asked in 0..properties.len() {
        doomed.extend(properties[asked].broken(&seen));
        while let Some(name) = doomed.pop() {
            if std::mem::replace(&mut seen.present[name], false) {
                for property in &mut properties {
                    property.lost(name, &seen, &mut doomed);
                }
            }
        }
    }
    let gone = seen.names.iter().filter(|(_, name)| !seen.present[**name]);
    let gone: Vec<String> = gone.map(|(id, _)| (*id).to_owned()).collect();
    for id in gone {
        entries.forget(&id);
    }
}

/// Where a view may be cut without breaking a property.
pub(super) fn indices(entries: &Entries) -> Indices {
    let parts: Vec<Part<'_>> = entries.iter().map(Entry::part).collect();
    let mut indices = Indices::complete(parts.len());
    batch::forbid(&parts, &mut indices);
    pairing::forbid(&parts, &mut indices);
    tool_loop::forbid(&parts, &mut indices);
    indices
}
