//! `annals prune`: deletes old conversations by rules.

use clap::Args;
use serde_json::{Value, json};

use super::print::{Output, bytes, count, one_line, plural, row, table, time};
use super::select::Which;
use super::{DONE, Place, REFUSED, select};
use crate::error::Result;
use crate::store::{PrunePlan, PruneRules, Pruned};

/// The maximum number of conversations to print.
const ROWS_SHOWN: usize = 50;

/// Delete old conversations by rules: shows which ones, and deletes them with --yes
///
/// Considers the conversations that match --status and --tag. Deletes those that --older-than, --keep-last or
/// --max-bytes rules out, or all of them if none of these three is given. A conversation is deleted together with
/// those of its sub-agents; the newest of them determines their age. Running conversations stay unless
/// --status running is given. A conversation that goes on after the check and before the deletion stays too. The
/// administrative log keeps a receipt of each deletion.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals prune --older-than 90d                        what would go
  annals prune --older-than 90d --status finished --keep-tag legal --yes --vacuum
  annals prune --keep-last 500 --tag env=ci --yes
  annals prune --max-bytes 2GB --yes --reason 'quarterly'")]
pub(super) struct Arguments {
    #[command(flatten)]
    pub which: Which,
    /// Keep conversations with this tag, or with this value of it
    #[arg(long, value_name = "TAG[=VALUE]")]
    pub keep_tag: Vec<String>,
    /// Delete all but this many; the newest stay
    #[arg(long, value_name = "N")]
    pub keep_last: Option<u64>,
    /// Delete those beyond this many bytes (500MB, 2GB, 1GiB), counted from the newest
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub max_bytes: Option<u64>,
    /// Delete them; without this option they are only shown
    #[arg(long)]
    pub yes: bool,
    /// The reason; kept in the administrative log
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Rewrite the file afterwards, so that its free space returns to the disk
    #[arg(long, requires = "yes")]
    pub vacuum: bool,
}

impl Arguments {
    fn rules(&self) -> PruneRules {
        PruneRules {
            statuses: self.which.status.clone(),
            tags: self.which.tags(),
            workspace: self.which.about.folder(),
            source: self.which.about.source.clone(),
            model: self.which.about.model.clone(),
            started_by: self.which.about.user.clone(),
            kept_tags: select::tags(&self.keep_tag),
            older_than: self.which.older_than,
            keep_last: self.keep_last,
            bytes_max: self.max_bytes,
        }
    }
}

pub(super) fn run(place: &Place<'_>, command: &Arguments, output: &Output) -> Result<u8> {
    let rules = command.rules();
    if rules.is_empty() {
        output.remark("say which: --older-than, --keep-last, --max-bytes, --status, --tag, --workspace, --source, --model or --user");
        return Ok(REFUSED);
    }
    // A preview must also work without write access.
    let store = if command.yes { place.write()? } else { place.read()? };
    let plan = if command.yes {
        let bar = output.progress("conversations");
        let plan = store.retention().prune(&rules, command.reason.as_deref(), &mut |_| bar.inc(1))?;
        bar.finish_and_clear();
        plan
    } else {
        store.retention().plan_pruning(&rules)?
    };
    let vacuumed = if command.vacuum { Some(store.maintenance().vacuum()?) } else { None };
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
            output.remark("their space is reused; `annals vacuum` returns it to the disk");
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
        output.table(rows)?;
        output.line("")?;
    }
    if let Some(more @ 1..) = plan.pruned.len().checked_sub(ROWS_SHOWN) {
        output.line(output.dim(&format!("and {more} more (--json has all of them)")))?;
    }
    if plan.pruned.is_empty() {
        let all = plural(plan.kept, "conversation");
        output.line(format!("nothing to prune: all {all} ({}) stay", bytes(plan.kept_bytes)))?;
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
            "{running} would match too; --status running selects those, for example after a crash"
        ));
    }
    if plan.changed > 0 {
        output.remark(format!("{} changed in the meantime and stay", plural(plan.changed, "conversation")));
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

/// Reads a number of bytes, with or without a unit.
fn size(text: &str) -> std::result::Result<u64, String> {
    const UNITS: [(&str, u64); 8] = [
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("kB", 1_000),
        ("KB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("B", 1),
    ];
    let found = UNITS.iter().find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, *bytes)));
    let (number, bytes) = found.unwrap_or((text, 1));
    let number: Option<u64> = number.trim().parse().ok();
    number
        .and_then(|number| number.checked_mul(bytes))
        .ok_or_else(|| format!("{text:?} is no size; write 500MB, 2GB or 1GiB"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        assert_eq!((size("1000"), size("2 GB"), size("1KiB")), (Ok(1000), Ok(2_000_000_000), Ok(1024)));
        for wrong in ["", "GB", "1.5GB", "-1", "2 gigabytes"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
