//! Agents that are separate programs and speak the Agent Client Protocol: starting them, sending them requests, and
//! reading their updates. They serve conversations whose agent is an `ACPAgent` (`POST /api/conversations`), as the
//! reference's clients make them.
//!
//! The protocol is lines of JSON-RPC 2.0 over pipes. The program may ask Annals for little: its permission requests are
//! granted, and it uses its own files and terminals. Invariant: the length of a line, of a turn and of the kept outputs
//! is bounded, whatever the program writes.
//!
//! Source: `docs/reference/acp.md`, and agentclientprotocol.com, version 1.

mod failure;
mod output;
mod peer;
mod settings;
mod turn;

pub use failure::AcpError;
pub use peer::{Peer, Start};
pub use settings::{AcpSettings, KIND};
pub use turn::{ToolCall, Turn, TurnUpdate};
