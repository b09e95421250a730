//! The library as its users meet it: through public names, on a temporary folder, one module a capability.

mod append;
mod append_only;
mod base_state;
mod cli;
mod concurrent;
mod doctor;
mod feed;
mod golden;
mod log;
mod open;
mod projections;
mod search;
mod state;
mod stuck;
mod support;
mod transfer;
mod view;
