//! What the parts do together, through public names only. One file a capability.

mod log;
mod view;
