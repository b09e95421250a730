//! The library as its users meet it: through public names, on a temporary folder, one module a capability.

mod append;
mod append_only;
mod backup;
mod base_state;
mod branch;
mod cli;
mod cli_privacy;
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
#[cfg(feature = "agent")]
mod llm_chat;
#[cfg(feature = "agent")]
mod llm_client;
#[cfg(feature = "agent")]
mod llm_failures;
#[cfg(feature = "agent")]
mod llm_forms;
#[cfg(feature = "agent")]
mod llm_profiles;
#[cfg(feature = "agent")]
mod llm_requests;
#[cfg(feature = "agent")]
mod llm_settings;
mod log;
mod messages;
mod old;
mod open;
mod projections;
mod proof;
mod query;
mod recording;
mod redact;
mod replay;
mod report;
mod search;
mod secrets;
mod sql;
mod state;
mod stuck;
mod support;
mod transfer;
mod verify;
mod view;
