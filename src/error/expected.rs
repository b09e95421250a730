//! The state of a conversation that a writer expects.

/// The length of a conversation that a writer expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// Any number of events. A conversation that does not exist yet is created.
    Any,
    /// No events. A conversation that does not exist yet is created.
    Empty,
    /// At least one event.
    Exists,
    /// Exactly this many events. 0 is the same as [`Expected::Empty`].
    Exact(u64),
}

impl std::fmt::Display for Expected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Any => f.write_str("any number of events"),
            Self::Empty => f.write_str("no events"),
            Self::Exists => f.write_str("at least one event"),
            Self::Exact(count) => write!(f, "{count} events"),
        }
    }
}
