//! Tests of the library through its public names, on temporary folders. Each module tests one capability.

#[cfg(feature = "agent")]
mod acp;
#[cfg(feature = "aio")]
mod aio;
mod answers;
mod append;
mod append_only;
mod archive;
mod around;
mod backup;
mod base_state;
mod branch;
mod callbacks;
mod catalogue;
mod cli;
mod cli_import;
mod cli_open;
mod cli_privacy;
mod cli_remote;
mod cli_retention;
mod cli_run;
mod cli_serve;
mod cli_terminal;
mod clocks;
mod columns;
mod concurrent;
#[cfg(feature = "agent")]
mod conversation_aside;
#[cfg(feature = "agent")]
mod conversation_confirm;
#[cfg(feature = "agent")]
mod conversation_control;
#[cfg(feature = "agent")]
mod conversation_crash;
#[cfg(feature = "agent")]
mod conversation_elsewhere;
#[cfg(all(feature = "agent", feature = "server"))]
mod conversation_plugins;
#[cfg(feature = "agent")]
mod conversation_run;
#[cfg(feature = "agent")]
mod conversation_scenarios;
#[cfg(feature = "agent")]
mod conversation_seeds;
mod conversation_state;
mod copied_calls;
mod costs;
mod crash;
#[cfg(unix)]
mod crash_privacy;
mod damaged_rows;
mod delete;
mod derived;
mod derived_crash;
mod doctor;
mod drawing;
mod edits;
mod ends;
mod evaluation;
mod events;
#[cfg(all(feature = "agent", unix))]
mod examples;
mod export;
mod export_upgrade;
mod feed;
mod foreign;
mod foreign_today;
#[cfg(feature = "proof")]
mod forgery;
mod full;
#[cfg(feature = "proof")]
mod fuzz;
#[cfg(feature = "server")]
mod fuzz_server;
mod guide;
mod hostile;
mod hostile_bytes;
mod hostile_children;
mod hostile_files;
mod imported_alive;
mod lacking;
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
mod locked;
mod log;
#[cfg(all(feature = "agent", feature = "server"))]
mod mcp;
#[cfg(all(feature = "server", feature = "cli"))]
mod mcp_server;
mod merge;
mod messages;
mod moved;
mod moving_folders;
#[cfg(all(feature = "cli", feature = "server"))]
mod numbers;
mod old;
mod open;
#[cfg(feature = "server")]
mod operating;
mod own_events;
mod own_events_correlation;
mod own_events_text;
mod own_events_upcast;
mod own_projections;
mod own_projections_crash;
#[cfg(feature = "agent")]
mod plugins;
mod privacy_page;
mod projections;
mod proof;
mod prune;

mod query;
mod query_limits;
mod reading;
mod recognition;
mod recording;
mod recover;
mod redact;
#[cfg(feature = "server")]
mod remote;
#[cfg(feature = "server")]
mod remote_loss;
mod replay;
mod report;
mod restore;
mod retry;
mod search;
mod secrets;
mod seen;
#[cfg(feature = "cli")]
mod self_check;
#[cfg(feature = "server")]
mod server;
#[cfg(feature = "server")]
mod server_annals;
#[cfg(feature = "server")]
mod server_feed;
mod server_keys;
mod server_listen;
#[cfg(feature = "server")]
mod server_load;
#[cfg(feature = "server")]
mod server_log;
#[cfg(feature = "server")]
mod server_metrics;
#[cfg(feature = "page")]
mod server_page;
#[cfg(feature = "server")]
mod server_questions;
mod server_read_only;
mod server_twice;
#[cfg(feature = "agent")]
mod skills;
mod snapshots;
mod sql;
mod state;
mod stuck;
mod subscription;
mod support;
#[cfg(feature = "agent")]
mod tasks;
#[cfg(feature = "agent")]
mod terminal_hostile;
#[cfg(feature = "agent")]
mod tool_golden;
mod training;
mod transfer;
mod twice;
mod unread;
mod upgrade;
mod verify;
mod verify_command;
mod view;
mod ways_to_corrupt;
mod write_log;
