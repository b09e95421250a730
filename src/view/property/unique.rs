//! A tool call has at most one answer: the first, which the model has most likely seen already.
//!
//! A crash can put an error in a result's place and the result arrive after all. It forbids no cut.

use std::collections::HashSet;

use super::{Name, Property, Seen};
use crate::view::part::Part;

/// At most one answer a call.
pub(super) struct Unique;

impl Property for Unique {
    fn broken(&self, seen: &Seen<'_>) -> Vec<Name> {
        let mut answered = HashSet::new();
        let mut again = Vec::new();
        for (name, part) in &seen.parts {
            if let Part::Answer { call } = part
                && !answered.insert(*call)
            {
                again.push(*name);
            }
        }
        again
    }

    fn lost(&mut self, _: Name, _: &Seen<'_>, _: &mut Vec<Name>) {}
}
