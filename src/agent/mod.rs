//! Who decides: what a model is asked beside the conversation itself.
//!
//! Summaries of what is forgotten ([`condenser`]), titles ([`title`]), questions about what was done ([`ask`]) and
//! whether a goal is reached ([`judge`]). Nothing here knows where events are kept or when it is time to
//! ask. Its invariant: whatever is asked here leaves no event but the one that it answers with.

pub mod aside;
pub mod ask;
pub mod condenser;
pub mod judge;
pub mod title;
