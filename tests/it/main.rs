//! The library as its users meet it: through public names, on a temporary folder, one module a capability.

mod append;
mod append_only;
mod backup;
mod base_state;
mod cli;
mod concurrent;
mod conversation_state;
mod delete;
mod doctor;
mod feed;
mod golden;
mod log;
mod merge;
mod messages;
mod open;
mod projections;
mod query;
mod search;
mod state;
mod stuck;
mod support;
mod transfer;
mod upgrade;
mod verify;
mod view;
