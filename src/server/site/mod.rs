//! What the server says about itself: the web page, the description of its interface, probes and metrics.
//!
//! `standins` answers routes of the reference's browser application for features that this server does not have. Only
//! the root of the server names this room.

pub(super) mod metrics;
pub(super) mod openapi;
pub(super) mod page;
pub(super) mod probes;
pub(super) mod standins;
