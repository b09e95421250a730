//! Import and export: conversations come in from folders of files and go out to them, byte for byte.
//!
//! An import detects conversations by their content ([`discover()`]). It stores every file that can be read as an
//! event, keeps every other file as an attachment, and reports all problems. Other programs' logs become read-only
//! copies (`foreign/`). An export writes the folder or the log as it was.
//! Invariant: an export returns everything that was imported; nothing is dropped without a report.

mod ahead;
mod bounds;
mod bring_back;
#[cfg(feature = "parquet")]
mod columns;
mod container;
mod copy;
mod dataset;
pub(crate) mod discover;
mod evaluation;
mod event_file;
mod evidence;
mod export;
mod folder;
mod foreign;
mod import;
pub(crate) mod layout;
mod logs;
mod meta;
mod openhands;
mod pages;
mod problems;
mod report;
pub(crate) mod seen;
mod source;
mod training;
mod upgrade;

#[cfg(feature = "cli")]
pub(crate) use bring_back::Scratch;
pub use bring_back::bring_back;
pub use copy::{Copier, CopyOptions, CopyProgress, CopyReport, CopyStatus};
pub use dataset::{Dataset, DatasetReport, export_dataset};
pub use discover::{Discovery, Found, Ignored, Shape, SourceFormat, discover};
pub use evaluation::Instance;
pub use export::{ExportOutcome, ExportProgress, ExportReport, ExportStatus, Exporter, Format, Selection};
pub use import::Importer;
pub use layout::is_recognised as is_event_file_name;
pub use report::{ImportOptions, ImportProgress, ImportReport, ImportStatus, OnProgress};
pub use training::{TrainingCount, TrainingOptions, TrainingRow, training_rows};
pub use upgrade::UpgradeReport;
