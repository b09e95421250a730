//! The library as its users meet it: through public names, on a temporary folder, one module a capability.

mod append;
mod append_only;
mod cli;
mod concurrent;
mod open;
mod support;
