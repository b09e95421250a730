//! A tool call has at most one answer: the first one, which the model has most likely seen already.
//!
//! After a crash, an error can take the place of a result that arrives later. This property forbids no cut.

use std::collections::HashSet;

use super::{Name, Property, Seen};
use crate::view::part::Part;

/// The property that each call has at most one answer.
pub(super) struct Unique;

impl Property for Unique {
    fn broken(&self, seen: &Seen<'_>) -> Vec<Name> {
        let mut answered = HashSet::new();
        let mut duplicates = Vec::new();
        for (name, part) in &seen.parts {
            if let Part::Answer { call } = part
                && !answered.insert(*call)
            {
                duplicates.push(*name);
            }
        }
        duplicates
    }

    fn lost(&mut self, _: Name, _: &Seen<'_>, _: &mut Vec<Name>) {}
}
