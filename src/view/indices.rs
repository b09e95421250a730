//! Where a view may be cut: the places between entries that are not inside a unit.

/// The places at which events can be inserted into a view, or between which they can be forgotten, without
/// breaking a property of the view. Place `n` is before entry `n`; the last place is after the last entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Indices {
    allowed: Vec<bool>,
}

impl Indices {
    /// Returns all places of a view of `len` entries.
    pub(super) fn complete(len: usize) -> Self {
        Self { allowed: vec![true; len + 1] }
    }

    /// Removes a place.
    pub(super) fn forbid(&mut self, place: usize) {
        self.allowed[place] = false;
    }

    /// Returns whether the view may be cut at `place`.
    #[must_use]
    pub fn contains(&self, place: usize) -> bool {
        self.allowed.get(place) == Some(&true)
    }

    /// The places, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        self.allowed.iter().enumerate().filter(|(_, allowed)| **allowed).map(|(place, _)| place)
    }

    /// Returns the first place at or after `threshold`. `None` if there is none, for example beyond the view's end.
    #[must_use]
    pub fn at_or_after(&self, threshold: usize) -> Option<usize> {
        self.allowed.iter().skip(threshold).position(|allowed| *allowed).map(|place| threshold + place)
    }
}
