//! A file system beneath the store that remembers what was done to it, and fails where it is asked to.
//!
//! [`shim`] stands between SQLite and its own VFS, for every connection of this process. Files in a folder that has a
//! [`scene::Scene`] are watched there; all others pass through untouched, so that tests do not disturb one another.
//! [`disk`] makes of what was recorded the images that a power cut could leave.

pub mod disk;
pub mod scene;
mod shim;
