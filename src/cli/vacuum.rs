//! `annals vacuum`, and the same work after a command that removes content for good.

use clap::Args;
use serde_json::json;

use super::print::{Output, bytes};
use super::{DONE, FAILED, Place};
use crate::error::Result;
use crate::store::Store;

/// Rewrite the file without free space and without traces of deleted data
#[derive(Debug, Args)]
pub(super) struct Arguments;

pub(super) fn run(place: &Place<'_>, _command: &Arguments, output: &Output) -> Result<u8> {
    let store = place.write()?;
    let report = store.maintenance().vacuum()?;
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

const LOG_KEPT: &str = "another process still reads the write-ahead log, which holds older bytes; \
                        end that process and run `annals vacuum`";

/// How thoroughly bytes are overwritten.
#[derive(Debug, Args)]
pub(super) struct Wipe {
    /// Do not rewrite the file afterwards; old copies in its free space then stay until `annals vacuum`
    #[arg(long)]
    pub no_vacuum: bool,
}

/// How thoroughly removed bytes were overwritten.
pub(super) struct Wiped {
    /// Whether the file was rewritten.
    pub vacuumed: bool,
    /// Whether the write-ahead log is empty.
    pub log_emptied: bool,
}

/// Rewrites the file, unless the user opted out.
pub(super) fn after(store: &Store, wipe: &Wipe, log_emptied: bool) -> Result<Wiped> {
    if wipe.no_vacuum {
        return Ok(Wiped { vacuumed: false, log_emptied });
    }
    let report = store.maintenance().vacuum()?;
    Ok(Wiped { vacuumed: true, log_emptied: report.log_emptied })
}

/// Does what an earlier act has left to do: it was killed before it rewrote the file.
pub(super) fn left(store: &Store, wipe: &Wipe, output: &Output) -> Result<Wiped> {
    if !store.maintenance().is_vacuum_due()? {
        return Ok(Wiped { vacuumed: true, log_emptied: true });
    }
    let wiped = after(store, wipe, true)?;
    if wiped.vacuumed {
        output.remark("the file was rewritten, which an earlier act had left to do");
    }
    Ok(wiped)
}

impl Wiped {
    /// Tells the user what is left to do. Returns the exit code.
    pub(super) fn remark(&self, output: &Output) -> u8 {
        if !self.log_emptied {
            output.remark(LOG_KEPT);
            return FAILED;
        }
        if !self.vacuumed {
            output.remark("free space in the file may hold older copies; `annals vacuum` removes them");
        }
        DONE
    }
}
