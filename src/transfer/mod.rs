//! The doors: conversations come in from folders of files and go out to them, byte for byte.
//!
//! An import finds conversations by looking ([`discover()`]), takes in every event that can be one, keeps
//! every other file as an attachment, and says what it found wrong. Other programs' logs come in as read-only
//! copies (`foreign/`). An export writes the folder, or the log, as it was.
//! Invariant: what came in goes out again; nothing is dropped in silence.

mod bring_back;
#[cfg(feature = "parquet")]
mod columns;
mod compare;
mod container;
mod copy;
mod dataset;
pub mod discover;
mod export;
mod folder;
mod foreign;
mod import;
mod intake;
pub mod layout;
mod logs;
mod meta;
mod past;
mod report;
mod source;
mod training;
mod upgrade;

pub use bring_back::bring_back;
pub use copy::{Copier, CopyOptions, CopyProgress, CopyReport, CopyStatus};
pub use dataset::{Dataset, DatasetReport, export_dataset};
pub use discover::{Discovery, Found, SourceFormat, discover};
pub use export::{ExportReport, ExportStatus, Exporter, Format};
pub use import::Importer;
pub use report::{ImportOptions, ImportProgress, ImportReport, ImportStatus, OnProgress};
pub use training::{TrainingCount, TrainingOptions, TrainingRow, training_rows};
pub use upgrade::UpgradeReport;
