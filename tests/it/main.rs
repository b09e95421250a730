//! What the parts do together, through public names only. One file a capability.

mod golden;
mod log;
mod state;
mod stuck;
mod view;
