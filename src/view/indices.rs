//! Where a view may be cut: the places between entries that belong to no unit.

/// The places at which events can be put into a view, or between which they can be forgotten, without
/// breaking what must hold in it. Place `n` is before entry `n`; the last one is behind the last entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Indices {
    allowed: Vec<bool>,
}

impl Indices {
    /// Every place of a view of `len` entries.
    pub(super) fn complete(len: usize) -> Self {
        Self { allowed: vec![true; len + 1] }
    }

    /// Takes a place away.
    pub(super) fn forbid(&mut self, place: usize) {
        self.allowed[place] = false;
    }

    /// Whether the view may be cut at `place`.
    #[must_use]
    pub fn contains(&self, place: usize) -> bool {
        self.allowed.get(place) == Some(&true)
    }

    /// The places, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        self.allowed.iter().enumerate().filter(|(_, allowed)| **allowed).map(|(place, _)| place)
    }

    /// The first place at or behind `threshold`; `None` where there is none, as beyond the view's end.
    #[must_use]
    pub fn at_or_after(&self, threshold: usize) -> Option<usize> {
        self.allowed.iter().skip(threshold).position(|allowed| *allowed).map(|place| threshold + place)
    }
}
