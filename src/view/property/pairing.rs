//! A tool call has its answer in the view, and an answer has its call: providers reject one without the other.

use std::collections::{HashMap, HashSet};

use super::{Name, Property, Seen};
use crate::view::history::History;
use crate::view::indices::Indices;
use crate::view::part::Part;

/// The actions and answers of one call in a view.
#[derive(Default)]
struct Call {
    actions: Vec<Name>,
    answers: Vec<Name>,
    actions_left: usize,
    answers_left: usize,
}

impl Call {
    /// Returns the actions or answers without a counterpart.
    fn unpaired(&self) -> &[Name] {
        match (self.actions_left, self.answers_left) {
            (0, _) => &self.answers,
            (_, 0) => &self.actions,
            _ => &[],
        }
    }
}

/// The calls of a view.
pub(super) struct Pairing {
    calls: Vec<Call>,
    /// The call of each entry that has one.
    of_entry: Vec<Option<usize>>,
}

impl Pairing {
    pub(super) fn of(seen: &Seen<'_>, history: &History) -> Self {
        let mut numbers: HashMap<&str, usize> = HashMap::new();
        let mut calls: Vec<Call> = Vec::new();
        let mut of_entry = Vec::with_capacity(seen.parts.len());
        for (name, part) in &seen.parts {
            let (Part::Action { call: id, .. } | Part::Answer { call: id }) = part else {
                of_entry.push(None);
                continue;
            };
            let number = *numbers.entry(id).or_insert(calls.len());
            if number == calls.len() {
                calls.push(Call::default());
            }
            let call = &mut calls[number];
            if matches!(part, Part::Action { .. }) {
                call.actions.push(*name);
                call.actions_left += 1;
            } else {
                call.answers.push(*name);
                call.answers_left += 1;
            }
            of_entry.push(Some(number));
        }
        for awaited in &history.awaited {
            if let Some(number) = numbers.get(&**awaited) {
                calls[*number].answers_left += 1;
            }
        }
        Self { calls, of_entry }
    }
}

impl Property for Pairing {
    fn broken(&self, _: &Seen<'_>) -> Vec<Name> {
        self.calls.iter().flat_map(Call::unpaired).copied().collect()
    }

    fn lost(&mut self, name: Name, seen: &Seen<'_>, doomed: &mut Vec<Name>) {
        for (entry, part) in seen.parts_of(name) {
            let Some(call) = self.of_entry[entry].map(|call| &mut self.calls[call]) else { continue };
            let left = if matches!(part, Part::Action { .. }) {
                &mut call.actions_left
            } else {
                &mut call.answers_left
            };
            *left -= 1;
            if *left == 0 {
                doomed.extend(call.unpaired());
            }
        }
    }
}

/// Forbids a cut while an answer is missing.
pub(super) fn forbid(parts: &[Part<'_>], indices: &mut Indices) {
    let mut pending = HashSet::new();
    for (place, part) in parts.iter().enumerate() {
        match part {
            Part::Action { call, .. } => {
                pending.insert(call);
            }
            Part::Answer { call } => {
                pending.remove(call);
            }
            Part::Said => {}
        }
        if !pending.is_empty() {
            indices.forbid(place + 1);
        }
    }
}
