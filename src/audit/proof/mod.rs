//! Proof: texts that can be kept elsewhere and held against the file later, and bundles that a stranger checks.
//!
//! A [`Head`] says where every chain ended at a moment; since each hash commits to everything before it, a
//! store that still has that hash at that place still has everything it had then. Signing ([`Key`]) says
//! who made it. What all this proves, and what it cannot, is in `docs/tamper-evidence.md`.

mod against;
mod bundle;
mod head;
mod key;
mod withhold;

pub use against::{compare, redacted_since};
pub use bundle::{Bundle, BundleOptions, write_bundle};
pub use head::{Head, Scope, SignedHead};
pub use key::{Key, PublicKey};
pub use withhold::Withheld;
