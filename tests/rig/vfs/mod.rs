//! A file system beneath the store that records all operations and fails on request.
//!
//! [`shim`] sits between SQLite and SQLite's own VFS, for every connection of this process. It records only the files
//! of a folder that has a [`scene::Scene`]. Operations on all other files pass through unchanged, so tests do not
//! disturb one another. From the recording, [`disk`] makes the images that a power cut could leave.

pub mod disk;
pub mod scene;
mod shim;
