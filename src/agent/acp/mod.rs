//! Agents that are programs of their own and speak the Agent Client Protocol: how they are started and spoken to, and
//! what their words become.
//!
//! Lines of JSON-RPC 2.0 over pipes. What the program may ask of us is little: its permissions are granted, files and
//! terminals it has its own. Invariant: whatever it writes, a line, a turn and what is kept of it are bounded.
//!
//! Source: `runtime.md` section 13, and agentclientprotocol.com, version 1.

mod failure;
mod peer;
mod settings;
mod turn;

pub use failure::AcpError;
pub use peer::{Handshake, Peer, Session, Start};
pub use settings::{AcpSettings, KIND};
pub use turn::{Heard, ToolCall, Turn};
