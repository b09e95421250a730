//! What can be made again from the truth: the objects of the schema, and the projections with their tables.
//!
//! The schema is what the migrations make and what projections declare. It tells which objects are derived, and mends
//! them; projections are rebuilt from the log. For the rooms that open a file, follow its log or check it. It names
//! `table` and `engine`.

pub(super) mod migration;
pub(super) mod projection;
pub(super) mod schema;
