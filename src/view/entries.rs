//! The entries of a view in their order. They are found and forgotten by id, and inserted at an offset.
//!
//! This is a linked list over slots, with an index by id. The cost of forgetting depends only on the forgotten
//! entries, so a long log with many condensations is folded in one pass.

use std::collections::HashMap;

use super::part::Part;
use crate::event::Event;

/// One thing the model sees.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Entry {
    /// The event. For the summary of a condensation, an event that the view made.
    pub event: Event,
    /// The number of the event, from 0 in the order of application. For a summary, the number of its condensation.
    pub place: usize,
}

impl Entry {
    /// Returns the id of its event. For a summary, the id of the condensation with `-summary` appended.
    #[must_use]
    pub fn id(&self) -> &str {
        self.event.id().as_str()
    }

    pub(super) fn part(&self) -> Part<'_> {
        Part::of(&self.event)
    }
}

/// The link to no slot.
const NONE: u32 = u32::MAX;

#[derive(Debug, Clone)]
struct Slot {
    /// `None` if the slot is free.
    entry: Option<Entry>,
    before: u32,
    after: u32,
    /// The next slot whose entry has the same id. Only a damaged or unusual log has such entries.
    namesake: u32,
}

/// The entries of a view.
#[derive(Debug, Clone)]
pub(super) struct Entries {
    slots: Vec<Slot>,
    free: Vec<u32>,
    by_id: HashMap<Box<str>, u32>,
    first: u32,
    last: u32,
    len: usize,
}

impl Default for Entries {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), by_id: HashMap::new(), first: NONE, last: NONE, len: 0 }
    }
}

impl Entries {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        let mut next = self.first;
        std::iter::from_fn(move || {
            let slot = self.slots.get(next as usize)?;
            next = slot.after;
            slot.entry.as_ref()
        })
    }

    /// Adds an entry at the end.
    pub(super) fn push(&mut self, entry: Entry) {
        self.link(entry, self.last, NONE);
    }

    /// Inserts an entry after the first `offset` entries, or at the end if there are fewer.
    pub(super) fn insert(&mut self, offset: u64, entry: Entry) {
        if offset >= self.len as u64 {
            return self.push(entry);
        }
        let offset = offset as usize;
        let mut after = self.first;
        if offset <= self.len / 2 {
            (0..offset).for_each(|_| after = self.slots[after as usize].after);
        } else {
            after = self.last;
            (offset + 1..self.len).for_each(|_| after = self.slots[after as usize].before);
        }
        self.link(entry, self.slots[after as usize].before, after);
    }

    /// Forgets every entry of this id.
    pub(super) fn forget(&mut self, id: &str) {
        let mut next = self.by_id.remove(id).unwrap_or(NONE);
        while next != NONE {
            let slot = &mut self.slots[next as usize];
            slot.entry = None;
            let (before, after) = (slot.before, slot.after);
            self.free.push(next);
            next = slot.namesake;
            *self.after_of(before) = after;
            *self.before_of(after) = before;
            self.len -= 1;
        }
    }

    fn link(&mut self, entry: Entry, before: u32, after: u32) {
        let id = entry.id().into();
        let at = self.free.pop().unwrap_or(self.slots.len() as u32);
        let namesake = self.by_id.insert(id, at).unwrap_or(NONE);
        let slot = Slot { entry: Some(entry), before, after, namesake };
        match self.slots.get_mut(at as usize) {
            Some(free) => *free = slot,
            None => self.slots.push(slot),
        }
        *self.after_of(before) = at;
        *self.before_of(after) = at;
        self.len += 1;
    }

    /// Returns the forward link of a slot. For `NONE`, the link to the first slot.
    fn after_of(&mut self, slot: u32) -> &mut u32 {
        if slot == NONE { &mut self.first } else { &mut self.slots[slot as usize].after }
    }

    /// Returns the backward link of a slot. For `NONE`, the link to the last slot.
    fn before_of(&mut self, slot: u32) -> &mut u32 {
        if slot == NONE { &mut self.last } else { &mut self.slots[slot as usize].before }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::event::{Common, Message, MessageEvent, Role, Source};
    use crate::ids::EventId;

    fn entry(id: &str) -> Entry {
        let common = Common::new(EventId::new(id).unwrap(), "", Source::User);
        let message = Message::new(Role::User, Vec::new());
        Entry { event: MessageEvent::new(common, message).into(), place: 0 }
    }

    fn ids(entries: &Entries) -> Vec<String> {
        entries.iter().map(|entry| entry.id().to_owned()).collect()
    }

    proptest! {
        #[test]
        fn they_behave_as_a_plain_list(steps in prop::collection::vec((0..3, 0..6u8, 0..9u64), 0..60)) {
            let (mut entries, mut plain) = (Entries::default(), Vec::<String>::new());
            for (what, name, offset) in steps {
                let name = name.to_string();
                match what {
                    0 => {
                        entries.push(entry(&name));
                        plain.push(name);
                    }
                    1 => {
                        entries.insert(offset, entry(&name));
                        plain.insert(plain.len().min(offset as usize), name);
                    }
                    _ => {
                        entries.forget(&name);
                        plain.retain(|other| *other != name);
                    }
                }
                prop_assert_eq!(&ids(&entries), &plain);
                prop_assert_eq!(entries.len(), plain.len());
            }
        }
    }
}
