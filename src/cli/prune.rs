//! `annals prune`: conversations that have had their time.

use serde_json::{Value, json};

use super::arguments::Prune;
use super::print::{Output, bytes, count, one_line, plural, row, table, time};
use super::{DONE, Place, REFUSED};
use crate::error::Result;
use crate::store::{PrunePlan, Pruned};

/// How many conversations a person is shown.
const ROWS_SHOWN: usize = 50;

pub(super) fn run(place: &Place<'_>, command: &Prune, output: &Output) -> Result<u8> {
    let rules = command.rules();
    if rules.is_empty() {
        output.remark("say which: --older-than, --keep-last, --max-bytes, --status or --tag");
        return Ok(REFUSED);
    }
    // A look asks for nothing that only a writer may have.
    let store = if command.yes { place.write()? } else { place.read()? };
    let plan = if command.yes {
        let bar = output.progress("conversations");
        let plan = store.prune(&rules, command.reason.as_deref(), &mut |_| bar.inc(1))?;
        bar.finish_and_clear();
        plan
    } else {
        store.plan_pruning(&rules)?
    };
    let vacuumed = if command.vacuum { Some(store.vacuum()?) } else { None };
    if output.json {
        output.value(&json!({
            "applied": command.yes,
            "pruned": plan.pruned.iter().map(value).collect::<Value>(),
            "events": plan.events(),
            "bytes": plan.bytes(),
            "kept": plan.kept,
            "kept_bytes": plan.kept_bytes,
            "running": plan.running,
            "changed": plan.changed,
            "bytes_given_back": vacuumed.map(|report| report.bytes_before.saturating_sub(report.bytes_after)),
        }))?;
        return Ok(DONE);
    }
    print(&plan, command.yes, output)?;
    match vacuumed {
        Some(report) => output.line(format!(
            "the file had {} and has {}",
            bytes(report.bytes_before),
            bytes(report.bytes_after)
        ))?,
        None if command.yes && !plan.pruned.is_empty() => {
            output.remark("their room is used again; `annals vacuum` gives it back to the disk");
        }
        None => {}
    }
    Ok(DONE)
}

fn print(plan: &PrunePlan, applied: bool, output: &Output) -> Result<()> {
    let mut rows = table(&["id", "status", "updated (UTC)", "events", "bytes", "because", "title"], &[3, 4]);
    for one in plan.pruned.iter().take(ROWS_SHOWN) {
        let because = match &one.with {
            Some(with) => format!("with {}", one_line(with.as_str(), 12)),
            None => one.because.join(", ").replace('_', " "),
        };
        rows.add_row(row([
            one.id.to_string(),
            one_line(&one.status, 24),
            time(one.updated_at),
            count(one.events),
            bytes(one.bytes),
            because,
            one_line(one.title.as_deref().unwrap_or_default(), 60),
        ]));
    }
    if !plan.pruned.is_empty() {
        output.line(format!("{}\n", rows.trim_fmt()))?;
    }
    if let Some(more @ 1..) = plan.pruned.len().checked_sub(ROWS_SHOWN) {
        output.line(output.dim(&format!("and {more} more (--json has all of them)")))?;
    }
    if plan.pruned.is_empty() {
        let all = plural(plan.kept, "conversation");
        output.line(format!("nothing has had its time: all {all} ({}) stay", bytes(plan.kept_bytes)))?;
    } else {
        output.line(format!(
            "{} with {} ({}) {}; {} ({}) stay",
            plural(plan.pruned.len() as u64, "conversation"),
            plural(plan.events(), "event"),
            bytes(plan.bytes()),
            if applied { "deleted" } else { "would be deleted" },
            count(plan.kept),
            bytes(plan.kept_bytes),
        ))?;
    }
    if plan.running > 0 {
        let running = plural(plan.running, "running conversation");
        output.remark(format!(
            "{running} would go too: --status running asks for those nothing works on any more"
        ));
    }
    if plan.changed > 0 {
        output.remark(format!("{} went on meanwhile and stay", plural(plan.changed, "conversation")));
    }
    if !applied && !plan.pruned.is_empty() {
        output.remark("nothing was deleted; --yes does it");
    }
    Ok(())
}

fn value(one: &Pruned) -> Value {
    json!({
        "id": one.id.as_str(),
        "with": one.with.as_ref().map(ToString::to_string),
        "title": one.title,
        "status": one.status,
        "updated_at": one.updated_at.to_rfc3339(),
        "events": one.events,
        "bytes": one.bytes,
        "because": one.because,
    })
}
