//! The side of SQLite of a log that several stores share: what a transaction changed, and how the changes of others get
//! into this file.
//!
//! The log has the newest state of every row of the truth, with the entry that wrote it last. So a file that was away
//! asks for what changed since its own entry, and what was removed or redacted meanwhile is nowhere any more. Derived
//! tables are never sent: each file makes its own. This room does not know where the log is.

mod apply;
mod capture;
mod check;
mod row;
mod shape;

pub(in crate::store) use apply::Applying;
pub(in crate::store) use capture::{begin, captured};
pub(crate) use check::Head;
pub(crate) use row::{Effects, Row};
