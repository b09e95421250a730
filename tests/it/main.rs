//! The library as its users meet it: through public names, on a temporary folder, one module a capability.

mod append;
mod append_only;
mod backup;
mod base_state;
mod branch;
mod cli;
mod concurrent;
mod conversation_state;
mod crash;
mod delete;
mod drawing;
mod events;
mod feed;
mod full;
#[cfg(feature = "proof")]
mod fuzz;
mod golden;
mod guide;
mod log;
mod messages;
mod old;
mod open;
mod projections;
mod proof;
mod query;
mod recording;
mod replay;
mod report;
mod search;
mod sql;
mod state;
mod stuck;
mod support;
mod transfer;
mod verify;
mod view;
