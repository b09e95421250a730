//! The routes of conversations: creating, changing and deleting them, commands to them, and their events
//! (`docs/reference/server.md`).
//!
//! `gateway` is the same over OpenAI's interface. The room may name `settings` and `workspace`, because a new
//! conversation needs an agent and a folder.

mod aside;
mod child;
pub(super) mod command;
pub(super) mod conversations;
mod create;
pub(super) mod events;
mod fork;
pub(super) mod gateway;
mod goal;
