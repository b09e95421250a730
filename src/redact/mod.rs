//! Values that nobody should read: finding them in what is stored, and writing a text again without them.
//!
//! [`Finder`] knows what a secret looks like ([`pattern`]), which values are secret, or what someone asks
//! for. [`rewrite()`] takes what it finds out of a JSON text and leaves everything else as it was, byte for
//! byte, so that an event keeps its shape. It does not know where texts are kept. Invariant: nothing in
//! this room prints a value; what people are shown is a kind, a place and a masked hint.

pub mod finder;
mod own;
pub mod pattern;
pub mod rewrite;
mod shape;
mod strings;

pub use finder::{Finder, FinderError, Found};
pub use own::open_secrets;
pub use rewrite::{Form, REDACTED, Rewritten, Spot, Wanted, rewrite};
