//! The log of a server: lines on standard error, as text or JSON (`docs/operating.md`).
//!
//! A thread writes the lines, so that the server never waits for a slow reader of standard error. Lines that do not fit
//! in its queue are dropped, and their number is printed.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::Deserialize;
use tracing::Level;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::layer::SubscriberExt as _;

use crate::error::{Error, Result};
use crate::ids::Timestamp;

/// The target of the lines, and that of the lines about requests.
const TARGET: &str = "annals";
const REQUESTS: &str = "annals::requests";

/// The maximum number of lines that wait to be written.
const LINES_MAX: usize = 4096;

/// How long the end of the program waits for the lines that are left.
const END_TIMEOUT: Duration = Duration::from_millis(300);

/// The settings of the log.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(super) struct LogArguments {
    /// How the log on standard error is written: lines of text, or one JSON object a line [default: text]
    #[arg(long, value_enum, env = "ANNALS_LOG_FORMAT")]
    pub log_format: Option<Format>,
    /// What the log has: errors, also warnings, also what the server does, or also details [default: info]
    #[arg(long, value_enum, env = "ANNALS_LOG_LEVEL")]
    pub log_level: Option<Detail>,
    /// Write a line for each request: method, path, status, seconds, and the name of the key
    #[arg(long)]
    pub log_requests: bool,
}

/// The form of the lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Format {
    #[default]
    Text,
    Json,
}

/// The least important lines that are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Detail {
    Off,
    Error,
    Warn,
    #[default]
    Info,
    Debug,
}

impl Detail {
    fn filter(self) -> LevelFilter {
        match self {
            Self::Off => LevelFilter::OFF,
            Self::Error => LevelFilter::ERROR,
            Self::Warn => LevelFilter::WARN,
            Self::Info => LevelFilter::INFO,
            Self::Debug => LevelFilter::DEBUG,
        }
    }
}

/// A running log. The lines that are left are written when it is dropped.
pub(super) struct Journal {
    lines: Lines,
    thread: Option<JoinHandle<()>>,
}

impl Journal {
    /// Starts to write the events of this program to standard error, for the rest of the process.
    ///
    /// # Errors
    /// [`Error::Io`] if no thread can be started.
    pub(super) fn start(settings: LogArguments) -> Result<Self> {
        let (sender, receiver) = sync_channel(LINES_MAX);
        let lines = Lines { sender, dropped: Arc::default() };
        let dropped = Arc::clone(&lines.dropped);
        let thread = std::thread::Builder::new().name("log".into()).spawn(move || write(&receiver, &dropped));
        let thread = thread.map_err(Error::io("starting the log of", "the server"))?;
        let level = settings.log_level.unwrap_or_default().filter();
        let requests = if settings.log_requests { LevelFilter::INFO } else { LevelFilter::OFF };
        // The events of other crates may hold what no log should have.
        let wanted = Targets::new().with_target(TARGET, level).with_target(REQUESTS, requests);
        let layer = tracing_subscriber::fmt::layer()
            .with_ansi(false)
            .with_timer(Clock)
            .with_target(false)
            .with_writer({
                let lines = lines.clone();
                move || Line { lines: lines.clone(), text: Vec::new() }
            });
        let registry = tracing_subscriber::registry().with(wanted);
        // A program has one subscriber. It is set already only if a test runs several servers in one process.
        let _set_already = match settings.log_format.unwrap_or_default() {
            Format::Text => tracing::subscriber::set_global_default(registry.with(layer)),
            Format::Json => {
                let layer = layer.json().flatten_event(true).with_current_span(false).with_span_list(false);
                tracing::subscriber::set_global_default(registry.with(layer))
            }
        };
        Ok(Self { lines, thread: Some(thread) })
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // An empty line ends the thread. It is not waited for if standard error blocks.
        let is_full = self.lines.sender.try_send(Vec::new()).is_err();
        let Some(thread) = self.thread.take().filter(|_| !is_full) else { return };
        let end = std::time::Instant::now() + END_TIMEOUT;
        while !thread.is_finished() && std::time::Instant::now() < end {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Reports a warning of the program itself.
pub(super) fn warn(file: &std::path::Path, text: &str) {
    tracing::event!(target: TARGET, Level::WARN, file = &*file.to_string_lossy(), detail = text, "write-ahead log");
}

/// Reports something about the database that the server has just made.
pub(super) fn new_database(text: &str) {
    tracing::event!(target: TARGET, Level::WARN, detail = text, "new database");
}

/// Reports that the certificates were read again.
#[cfg(unix)]
pub(super) fn certificates(text: &str) {
    tracing::event!(target: TARGET, Level::INFO, detail = text, "certificates");
}

/// Reports why the certificates could not be read again. The server goes on with those that it has.
#[cfg(unix)]
pub(super) fn certificates_stay(text: &str) {
    tracing::event!(target: TARGET, Level::ERROR, detail = text, "certificates not read");
}

/// Reports something about folders of conversations: what is in them, or what was imported.
pub(super) fn folders(text: &str) {
    tracing::event!(target: TARGET, Level::INFO, detail = text, "conversation folders");
}

/// Reports what the collector of telemetry did not get.
pub(super) fn undelivered(text: &str) {
    tracing::event!(target: TARGET, Level::WARN, detail = text, "telemetry");
}

/// The queue of the thread that writes.
#[derive(Clone)]
struct Lines {
    sender: SyncSender<Vec<u8>>,
    dropped: Arc<AtomicU64>,
}

/// One line. It is queued when it is complete.
struct Line {
    lines: Lines,
    text: Vec<u8>,
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let text = std::mem::take(&mut self.text);
        if !text.is_empty() && self.lines.sender.try_send(text).is_err() {
            self.lines.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Writes lines to standard error until an empty one comes. What cannot be written is lost.
fn write(lines: &Receiver<Vec<u8>>, dropped: &AtomicU64) {
    loop {
        let Some(line) = lines.recv().ok().filter(|line| !line.is_empty()) else { return };
        let mut stderr = io::stderr().lock();
        let _lost = stderr.write_all(&line);
        // Lines are dropped while others wait, so one of those comes here afterwards.
        match dropped.swap(0, Ordering::Relaxed) {
            0 => {}
            lost => {
                let _lost = writeln!(
                    stderr,
                    "annals: {lost} lines of the log were dropped: standard error is read too slowly"
                );
            }
        }
    }
}

/// Writes times in UTC, to the millisecond.
struct Clock;

impl FormatTime for Clock {
    fn format_time(&self, writer: &mut Writer<'_>) -> std::fmt::Result {
        let now = Timestamp::now().to_rfc3339();
        write!(writer, "{}Z", now.get(..23).unwrap_or(&now))
    }
}
