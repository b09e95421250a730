//! The doors: conversations come in from folders of files and go out to them, byte for byte.
//!
//! An import finds conversations by looking ([`discover()`]), takes in every event that can be one, keeps
//! every other file as an attachment, and says what it found wrong. An export writes the folder as it was.
//! Invariant: what came in goes out again; nothing is dropped in silence.

mod compare;
mod container;
pub mod discover;
mod export;
mod folder;
mod import;
pub mod layout;
mod meta;
mod past;
mod source;
mod upgrade;

pub use discover::{Discovery, Found, discover};
pub use export::{ExportReport, ExportStatus, Exporter, Format};
pub use import::{ImportOptions, ImportProgress, ImportReport, ImportStatus, Importer};
pub use upgrade::UpgradeReport;
