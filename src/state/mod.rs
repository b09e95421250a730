//! What follows from events, and the one document that changes: folds and values, without a file.

pub mod base;
pub mod status;
pub mod upcast;

pub use base::BaseDocument;
pub use status::ExecutionStatus;
