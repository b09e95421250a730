//! `annals rebuild`: rebuilds derived tables from the log.

use std::time::Instant;

use clap::Args;
use serde_json::json;

use super::print::{Output, count, harmless, plural};
use super::stopped::Stopped;
use super::{DONE, Place};
use crate::error::Result;

/// Rebuild derived tables from the log
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// transcript, tool_calls, usage, tasks, correlations, facts or search; all of them if none is named
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
}

pub(super) fn run(place: &Place<'_>, command: &Arguments, output: &Output) -> Result<u8> {
    let store = place.write()?;
    let names: Vec<&str> = command.names.iter().map(String::as_str).collect();
    let started = Instant::now();
    let receipts = store.maintenance().repairs(None)?.len();
    let bar = output.progress("events");
    let words = Stopped::says(&bar, "the next command that reads makes the rest again");
    store.maintenance().rebuild(&names, &mut |progress| {
        bar.set_length(progress.last_position.0);
        bar.set_position(progress.position.0);
    })?;
    bar.finish_and_clear();
    drop(words);
    let rebuilt: Vec<_> = store
        .maintenance()
        .projections()?
        .into_iter()
        .filter(|status| names.is_empty() || names.contains(&status.name))
        .collect();
    // Their code is in another program.
    let left_alone = store.maintenance().own_projections()?;
    let remade = store.maintenance().repairs(None)?.split_off(receipts);
    let with_catalogue = names.is_empty() || names.contains(&"catalogue");
    if output.json {
        let projections: Vec<_> = rebuilt
            .iter()
            .map(|status| {
                let last = status.last_position.0;
                json!({"name": status.name, "position": status.position.0, "head": last})
            })
            .collect();
        let rows = remade
            .iter()
            .map(|receipt| json!({"conversation": receipt.conversation, "found": receipt.found}));
        let left_alone: Vec<_> = left_alone.iter().map(|status| &status.name).collect();
        let mut done = json!({ "projections": projections, "catalogue": rows.collect::<Vec<_>>() });
        if !left_alone.is_empty() {
            done["left_alone"] = json!(left_alone);
        }
        output.value(&done)?;
        return Ok(DONE);
    }
    for status in &rebuilt {
        output.line(format!("{:<14} at position {}", status.name, count(status.position.0)))?;
    }
    if with_catalogue {
        output.line(format!("{:<14} {} rebuilt", "catalogue", plural(remade.len() as u64, "row")))?;
    }
    for receipt in &remade {
        let conversation = receipt.conversation.as_deref().unwrap_or_default();
        output.line(format!("  {}: {}", harmless(conversation), harmless(&receipt.found)))?;
    }
    for status in &left_alone {
        output.line(format!(
            "{:<14} left alone: only the program that has this projection can make it again",
            harmless(&status.name)
        ))?;
    }
    output.line(format!(
        "{} rebuilt in {:.1} s",
        plural(rebuilt.len() as u64 + u64::from(with_catalogue), "table"),
        started.elapsed().as_secs_f64()
    ))?;
    Ok(DONE)
}
