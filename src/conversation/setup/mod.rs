//! The equipment of a conversation is made here: plugins, skills, tools, servers, hooks, and an agent that is a program.
//!
//! It is made once, with the first message or run, and kept in the conversation. The room gives a run all that it needs
//! and does not know how the run goes. One call leads out of it by a method: the tool that gives tasks opens and runs a
//! conversation (`task`), because it is a tool like any other.

pub(super) mod acp;
mod equip;
mod plug;
mod plugins;
mod ready;
mod servers;
mod skills;

pub use equip::has_tool;
pub(super) use plugins::RECORD;
