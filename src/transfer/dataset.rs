//! Writes many conversations into one file: training rows or events, as JSON lines or Parquet.

use std::fs;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

#[cfg(feature = "parquet")]
use super::columns;
use super::export::{ExportStatus, put};
use super::training::{TrainingOptions, TrainingRow, training_rows};
use crate::error::{Error, Result};
use crate::ids::ConversationId;
use crate::partial::Partial;
use crate::store::Store;
use crate::untrusted;

/// The content and the format of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dataset {
    /// `chat.jsonl`: one training row a line ([`TrainingRow::to_json`]).
    Chat(TrainingOptions),
    /// `chat.parquet`: one row for each training row. JSON values become JSON text.
    #[cfg(feature = "parquet")]
    ChatParquet(TrainingOptions),
    /// `events.parquet`: one row for each event, as in the view `events`.
    #[cfg(feature = "parquet")]
    EventsParquet,
}

impl Dataset {
    fn file_name(self) -> &'static str {
        match self {
            Self::Chat(_) => "chat.jsonl",
            #[cfg(feature = "parquet")]
            Self::ChatParquet(_) => "chat.parquet",
            #[cfg(feature = "parquet")]
            Self::EventsParquet => "events.parquet",
        }
    }
}

/// The report of a written file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DatasetReport {
    /// The file.
    pub path: PathBuf,
    /// Whether it was written, or existed already with the same bytes.
    pub status: ExportStatus,
    /// The number of conversations that were read.
    pub conversations: u64,
    /// The number of rows that were written.
    pub rows: u64,
    /// The number of branches without a row: no model says anything on them, or their path is broken.
    pub left_out: u64,
    /// The file's size in bytes.
    pub bytes: u64,
    /// The conversations that could not be read, or not to the end, because of damage, with the reasons.
    pub unread: Vec<(ConversationId, String)>,
}

/// Writes conversations as one file into the folder `to`, which is created if it does not exist. `progress` receives
/// the number of finished conversations after each one. A damaged conversation does not stop the others.
///
/// # Errors
/// [`Error::WouldOverwrite`] if a different file is in the way, [`Error::UnknownConversation`], [`Error::Io`]. After
/// an error there is no new file.
pub fn export_dataset(
    store: &Store,
    conversations: &[ConversationId],
    to: &Path,
    dataset: Dataset,
    progress: &mut dyn FnMut(u64),
) -> Result<DatasetReport> {
    fs::create_dir_all(to).map_err(Error::io("creating", to))?;
    let name = dataset.file_name();
    let partial = Partial::beside(&to.join(name))?;
    let made = partial.content();
    let mut report = write(store, conversations, &made, dataset, progress)?;
    report.bytes = fs::metadata(&made).map_err(Error::io("writing", &made))?.len();
    report.path = to.join(name);
    report.status = put(&partial, &report.path)?;
    Ok(report)
}

fn write(
    store: &Store,
    conversations: &[ConversationId],
    path: &Path,
    dataset: Dataset,
    progress: &mut dyn FnMut(u64),
) -> Result<DatasetReport> {
    let mut report = DatasetReport {
        path: PathBuf::new(),
        status: ExportStatus::Written,
        conversations: 0,
        rows: 0,
        left_out: 0,
        bytes: 0,
        unread: Vec::new(),
    };
    let mut each = |visit: &mut dyn FnMut(&ConversationId, &mut DatasetReport) -> Result<()>| {
        for (done, id) in (1..).zip(conversations) {
            match visit(id, &mut report) {
                Err(error) if Store::is_damage(&error) => report.unread.push((id.clone(), error.to_string())),
                visited => {
                    visited?;
                    report.conversations += 1;
                }
            }
            progress(done);
        }
        Ok::<_, Error>(())
    };
    let chat = |options: TrainingOptions,
                id: &ConversationId,
                report: &mut DatasetReport,
                put: &mut dyn FnMut(TrainingRow) -> Result<()>| {
        let count = training_rows(store, id, options, put)?;
        report.rows += count.rows;
        report.left_out += count.left_out;
        Ok::<_, Error>(())
    };
    match dataset {
        Dataset::Chat(options) => {
            let mut file = BufWriter::new(untrusted::create(path).map_err(Error::io("creating", path))?);
            each(&mut |id, report| {
                chat(options, id, report, &mut |row| {
                    writeln!(file, "{}", row.to_json()).map_err(Error::io("writing", path))
                })
            })?;
            file.flush().map_err(Error::io("writing", path))?;
        }
        #[cfg(feature = "parquet")]
        Dataset::ChatParquet(options) => {
            let mut table = columns::Table::create(path, columns::CHAT)?;
            each(&mut |id, report| chat(options, id, report, &mut |row| table.put(columns::chat_row(&row))))?;
            table.finish()?;
        }
        #[cfg(feature = "parquet")]
        Dataset::EventsParquet => {
            let mut table = columns::Table::create(path, columns::EVENTS)?;
            each(&mut |id, report| {
                report.rows += columns::put_events(store, id, &mut table)?;
                Ok(())
            })?;
            table.finish()?;
        }
    }
    Ok(report)
}
