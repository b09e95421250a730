//! `annals vacuum`, and what follows a command that takes something out for good.

use serde_json::json;

use super::arguments::Wipe;
use super::print::{Output, bytes};
use super::{DONE, FAILED, Place};
use crate::error::Result;
use crate::store::Store;

pub(super) fn run(place: &Place<'_>, output: &Output) -> Result<u8> {
    let store = place.write()?;
    let report = store.vacuum()?;
    if output.json {
        output.value(&json!({
            "bytes_before": report.bytes_before,
            "bytes_after": report.bytes_after,
            "log_emptied": report.log_emptied,
        }))?;
    } else {
        output.line(format!(
            "{}: {} before, {} now",
            place.path.display(),
            bytes(report.bytes_before),
            bytes(report.bytes_after)
        ))?;
    }
    if !report.log_emptied {
        output.remark(LOG_KEPT);
    }
    Ok(if report.log_emptied { DONE } else { FAILED })
}

const LOG_KEPT: &str = "a reader still needs the write-ahead log, which holds older bytes; \
                        end it and run `annals vacuum`";

/// How thoroughly bytes were overwritten.
pub(super) struct Wiped {
    /// Whether the file was written anew.
    pub vacuumed: bool,
    /// Whether the write-ahead log is empty.
    pub log_emptied: bool,
}

/// Writes the file anew where that was not forgone.
pub(super) fn after(store: &Store, wipe: &Wipe, log_emptied: bool) -> Result<Wiped> {
    if wipe.no_vacuum {
        return Ok(Wiped { vacuumed: false, log_emptied });
    }
    let report = store.vacuum()?;
    Ok(Wiped { vacuumed: true, log_emptied: report.log_emptied })
}

impl Wiped {
    /// Says what is still to be done, and the exit code.
    pub(super) fn remark(&self, output: &Output) -> u8 {
        if !self.log_emptied {
            output.remark(LOG_KEPT);
            return FAILED;
        }
        if !self.vacuumed {
            output.remark("copies from before in free room of the file go with `annals vacuum`");
        }
        DONE
    }
}
