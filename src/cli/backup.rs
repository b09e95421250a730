//! `annals backup`: a copy of the whole file while it is in use.

use serde_json::json;

use super::arguments::Backup;
use super::print::{Output, bytes, plural};
use super::{DONE, Place};
use crate::error::{Error, Result};

pub(super) fn run(place: &Place<'_>, command: &Backup, output: &Output) -> Result<u8> {
    let store = place.read()?;
    let report = store.backup(&command.file)?;
    let size = std::fs::metadata(&command.file).map_err(Error::io("reading", &command.file))?.len();
    if output.json {
        output.value(&json!({
            "file": command.file.to_string_lossy(),
            "bytes": size,
            "position": report.head.0,
            "conversations": report.conversations,
            "events": report.events,
        }))?;
        return Ok(DONE);
    }
    output.line(format!(
        "{}: {} with {} ({}), checked",
        command.file.display(),
        plural(report.conversations, "conversation"),
        plural(report.events, "event"),
        bytes(size),
    ))?;
    Ok(DONE)
}
