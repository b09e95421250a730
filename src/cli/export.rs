//! `annals export`: conversations out, byte for byte.

use std::time::Instant;

use serde_json::{Value, json};

use super::arguments::{Export, Wanted};
use super::print::{Output, bytes, count, one_line, plural, row, table, tell};
use super::{DONE, FAILED, Place, REFUSED};
use crate::error::{Error, Result};
use crate::ids::ConversationId;
use crate::store::{ConversationFilter, Order, PAGE_MAX, Store};
use crate::transfer::{Dataset, ExportReport, ExportStatus, Exporter, Format, UpgradeReport, export_dataset};

/// Up to how many conversations a person is shown each; of more, only how many there are.
const LISTED_MOST: usize = 50;

pub(super) fn run(place: &Place<'_>, command: &Export, output: &Output) -> Result<u8> {
    let format = match command.wanted() {
        Ok(Wanted::Each(format)) => format,
        Ok(Wanted::Together(dataset)) => return together(place, command, dataset, output),
        Err(feature) => return Err(Error::NotBuilt { feature }),
    };
    let store = place.read()?;
    let ids = if command.all { all(&store, format)? } else { named(&store, &command.ids)? };
    let exporter = Exporter::new(&store, format);
    let started = Instant::now();
    let bar = output.progress("conversations");
    bar.set_length(ids.len() as u64);
    let mut reports = Vec::new();
    let mut refused = Vec::new();
    for (index, id) in ids.iter().enumerate() {
        bar.set_position(index as u64);
        match exporter.export(id, &command.to, &mut |events| {
            if events % 1000 == 0 {
                bar.set_message(format!("{} events", count(events)));
            }
        }) {
            Ok(report) => reports.push(report),
            // One conversation in the way does not keep the others from being written.
            Err(error @ (Error::WouldOverwrite { .. } | Error::Corrupt { .. })) => refused.push((id, error)),
            Err(error) => return Err(error),
        }
    }
    bar.finish_and_clear();
    if output.json {
        let mut conversations: Vec<Value> = reports.iter().map(value).collect();
        conversations.extend(
            refused.iter().map(
                |(id, error)| json!({"id": id.as_str(), "status": "refused", "error": error.to_string()}),
            ),
        );
        output.value(&json!({ "conversations": conversations }))?;
    } else {
        print(&reports, started.elapsed().as_secs_f64(), output)?;
        if format == Format::Upgraded {
            print_upgrade(&reports, output)?;
        }
        for (id, error) in &refused {
            tell(format_args!("annals: {id}: {error}"));
        }
    }
    Ok(match refused.first() {
        Some((_, Error::Corrupt { .. })) => FAILED,
        Some(_) => REFUSED,
        None => DONE,
    })
}

/// Writes all conversations into one file.
fn together(place: &Place<'_>, command: &Export, dataset: Dataset, output: &Output) -> Result<u8> {
    let store = place.read()?;
    // Of a training set a sub-agent's conversation is a row like any other.
    let ids = if command.all { all(&store, Format::Jsonl)? } else { named(&store, &command.ids)? };
    let started = Instant::now();
    let bar = output.progress("conversations");
    bar.set_length(ids.len() as u64);
    let report = export_dataset(&store, &ids, &command.to, dataset, &mut |done| bar.set_position(done))?;
    bar.finish_and_clear();
    if output.json {
        output.value(&json!({
            "path": report.path.to_string_lossy(),
            "status": word(report.status),
            "conversations": report.conversations,
            "rows": report.rows,
            "left_out": report.left_out,
            "bytes": report.bytes,
        }))?;
        return Ok(DONE);
    }
    output.line(format!(
        "{}: {}, {} of {} ({}) in {:.1} s",
        report.path.to_string_lossy(),
        word(report.status),
        plural(report.rows, "row"),
        plural(report.conversations, "conversation"),
        bytes(report.bytes),
        started.elapsed().as_secs_f64(),
    ))?;
    if report.left_out > 0 {
        let branches = if report.left_out == 1 { "branch" } else { "branches" };
        output.line(format!("{} {branches} without a word of a model left out", count(report.left_out)))?;
    }
    Ok(DONE)
}

fn named(store: &Store, prefixes: &[String]) -> Result<Vec<ConversationId>> {
    prefixes.iter().map(|prefix| store.resolve(prefix)).collect()
}

/// Every conversation; those of sub-agents are written within the folder they belong to.
fn all(store: &Store, format: Format) -> Result<Vec<ConversationId>> {
    let mut ids = Vec::new();
    let mut after = None;
    loop {
        let page =
            store.conversations(&ConversationFilter::default(), Order::Created, after.as_ref(), PAGE_MAX)?;
        for conversation in page.conversations {
            let within = match (&conversation.parent, format) {
                (Some(parent), Format::OpenHands | Format::Upgraded) => {
                    store.contains(&ConversationId::new(parent)?)?
                }
                _ => false,
            };
            if !within {
                ids.push(conversation.id);
            }
        }
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(ids),
        }
    }
}

fn value(report: &ExportReport) -> Value {
    json!({
        "id": report.id.as_str(),
        "path": report.path.to_string_lossy(),
        "status": word(report.status),
        "events": report.events,
        "files": report.files,
        "bytes": report.bytes,
        "upgrade": {
            "current": report.upgrade.current,
            "steps": report.upgrade.steps,
            "losses": report.upgrade.losses,
        },
    })
}

/// What was raised, and what could not be.
fn print_upgrade(reports: &[ExportReport], output: &Output) -> Result<()> {
    let mut all = UpgradeReport::default();
    reports.iter().for_each(|report| all.add(&report.upgrade));
    output.line(format!("\n{} of today's format", plural(all.current, "event")))?;
    for (step, number) in &all.steps {
        output.line(format!("{:>8}  raised: {step}", count(*number)))?;
    }
    for (loss, number) in &all.losses {
        output.line(format!("{:>8}  {}", count(*number), one_line(loss, 120)))?;
    }
    Ok(())
}

fn word(status: ExportStatus) -> &'static str {
    match status {
        ExportStatus::Written => "written",
        ExportStatus::Unchanged => "unchanged",
    }
}

fn print(reports: &[ExportReport], seconds: f64, output: &Output) -> Result<()> {
    let mut rows = table(&["id", "status", "events", "files", "bytes", "to"], &[2, 3, 4]);
    for report in reports {
        rows.add_row(row([
            report.id.to_string(),
            word(report.status).into(),
            count(report.events),
            count(report.files),
            bytes(report.bytes),
            report.path.to_string_lossy().into_owned(),
        ]));
    }
    if reports.len() > LISTED_MOST {
        let written = reports.iter().filter(|report| report.status == ExportStatus::Written).count() as u64;
        let unchanged = reports.len() as u64 - written;
        output.line(format!(
            "{} written, {} unchanged (--json lists them)",
            count(written),
            count(unchanged)
        ))?;
    } else if !reports.is_empty() {
        output.line(rows.trim_fmt())?;
    }
    let events: u64 = reports.iter().map(|report| report.events).sum();
    output.line(format!(
        "\n{} with {} in {seconds:.1} s",
        plural(reports.len() as u64, "conversation"),
        plural(events, "event")
    ))
}
