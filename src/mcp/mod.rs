//! Past conversations for agents: a server of the Model Context Protocol over the store.
//!
//! The room answers calls of tools in bounded pages (`tool/`, `page.rs`, `cursor.rs`). It uses the reading interface of
//! the store, the reports and the guarded SQL, and has no reading code of its own. What a conversation says is data:
//! it is quoted, harmless, and without what looks like a secret (`mask.rs`). No tool writes, unless the operator allows
//! titles. `stdio.rs` speaks through standard input and output; the server's room `annals` does so over HTTP. The room does
//! not know who calls.

mod arguments;
mod cursor;
mod mask;
mod page;
mod recall;
mod server;
mod stdio;
mod tool;
mod trouble;
mod workspace;

pub(crate) use recall::{Choices, Recall, TOKENS, TOKENS_MAX, TOKENS_MIN};
pub(crate) use stdio::serve_stdio;
