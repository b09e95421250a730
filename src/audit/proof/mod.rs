//! Proof: heads, which are kept elsewhere and later compared with the file, and bundles for outside auditors.
//!
//! A [`Head`] records where every chain ended at one time. Each hash commits to everything before it. So a store
//! that still has that hash at that sequence still has everything it had then. A signature ([`Key`]) shows who
//! made the head. `docs/tamper-evidence.md` describes what this proves and what it does not prove.

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
