//! The routes for what a conversation works on: files, commands, repositories and archives
//! (`docs/reference/workspace.md`).
//!
//! `scope` decides which part of the machine a request may access. `worktree` and `private` make folders for
//! conversations and for temporary files. The room names `live` and what is above it.

mod archive;
pub(super) mod bash;
pub(super) mod browser;
pub(super) mod file;
pub(super) mod git;
pub(crate) mod private;
pub(super) mod scope;
pub(super) mod worktree;
mod zip;
