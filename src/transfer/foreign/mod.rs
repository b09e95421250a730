//! Imports logs of other programs as read-only copies. They read as conversations and can be exported as they were.
//!
//! A file is a list of records: lines, or rows of a database. Each record is kept whole, in its event or in the first
//! of its events, with the SHA-256 of its bytes. If its content has a counterpart among the kinds of events that every
//! conversation has, it becomes such events. Otherwise it becomes an event of a kind of its own. Nothing is invented:
//! if such an event lacks a member, the record has no value for it. If a session has grown, its new records are added.
//! If it differs from what is stored, nothing changes.

mod blocks;
mod claude_code;
mod codex;
mod content;
mod database;
mod exit;
mod failure;
mod importer;
mod kept;
mod langgraph;
mod lines;
mod log;
mod message_tree;
mod msgpack;
mod openai_agents;
mod original;
pub(super) mod packed;
pub(super) mod recognise;
mod records;
mod responses;
mod row;
mod session_file;
mod translation;

pub(super) use database::conversations;
pub(super) use importer::{description, has_folder, is_database};
pub(super) use log::Log;
pub(super) use original::{write as write_original, write_database};

use log::Read;
