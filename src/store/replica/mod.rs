//! The side of SQLite of a log that several stores share: what a transaction changed, and how the changes of others get
//! into this file.
//!
//! The log has the newest state of every row of the truth, with the entry that wrote it last. So a file that was away
//! asks for what changed since its own entry, and what was removed or redacted meanwhile is nowhere any more. Derived
//! tables are never sent: each file makes its own. This room does not know where the log is.

mod apply;
mod capture;
mod check;
mod compare;
mod row;
mod shape;
mod standing;

pub(in crate::store) use apply::Applying;
pub(in crate::store) use capture::{begin, captured};
pub(crate) use check::Head;
pub(in crate::store) use compare::Comparing;
pub use compare::ReplicaCheck;
pub(crate) use row::{Effects, Row};
pub(crate) use standing::Standing;
pub use standing::{Rebuilt, ReplicaProgress, ReplicaStatus};
