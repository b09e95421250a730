//! Redaction: finds secret values in stored texts and writes the texts again without them.
//!
//! A [`Finder`] looks for texts that look like a secret ([`PATTERNS`]), for given secret values, or for a given
//! expression. [`rewrite()`] removes what the finder finds from a JSON text. It leaves everything else as it was, byte
//! for byte, so that an event keeps its shape. This module does not know where texts are stored. Invariant: nothing in
//! this module prints a value. Reports show a kind, a place and a masked hint.

pub(crate) mod finder;
mod own;
pub(crate) mod pattern;
pub(crate) mod rewrite;
mod shape;

pub use finder::{Finder, FinderError, Found, KNOWN, MATCHED};
pub use own::open_secrets;
pub use pattern::{NAMED, PATTERNS, Pattern, Proof};
pub use rewrite::{Form, REDACTED, RedactScope, Rewritten, Spot, rewrite};
