//! `annals doctor`: finds what is wrong with a file, explains it, and repairs it.

use clap::Args;
use serde_json::{Value, json};

use super::print::{Output, count, harmless, plural};
use super::{DONE, FAILED, Place};
use crate::doctor::{Comparison, Doctor, DoctorOptions, Examination, Finding, Trouble};
use crate::error::{Error, Result};
use crate::ids::ConversationId;
use crate::store::{Repair, Store};

/// The maximum number of findings of one kind to print.
const FINDINGS_SHOWN: usize = 20;

/// How often what a repair has left is examined and repaired again.
const ROUNDS_MAX: usize = 3;

/// Find what is wrong, explain it, and repair what can be repaired without deleting anything
///
/// Looks for lost events, circles and lost parents in the tree, a HEAD that is wrong or behind, calls without
/// an answer, interrupted runs and imports, events that cannot be read, and derived tables that differ from the
/// log. `annals verify` checks whether bytes were changed.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals doctor                                  the whole file
  annals doctor 5610a7 --repair                  repair one conversation; each repair leaves a receipt
  annals doctor --only head-behind --repair      even if HEAD may have been moved back on purpose
  sqlite3 annals.db 'SELECT * FROM repairs'      the receipts

Exit codes: 0 nothing is wrong, or all of it was repaired; 2 something is wrong.")]
pub(super) struct Arguments {
    /// Only this conversation, by id or the start of one
    pub id: Option<String>,
    /// Repair what can be repaired: append an answer or a placeholder event, move HEAD, rebuild, continue an import
    #[arg(long)]
    pub repair: bool,
    /// Look only for these findings, and repair them even if they may be intended (names as in the output)
    #[arg(long, value_name = "FINDING", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Compare derived tables with the log in every conversation instead of a sample of 100,000 events
    #[arg(long)]
    pub full: bool,
    /// Do not repair conversations that were active within this many minutes
    #[arg(long, value_name = "MINUTES", default_value_t = 10)]
    pub quiet_for: u64,
}

/// The store to examine.
struct Opened {
    store: Store,
    /// Why it cannot be opened for writing, if damage is the reason.
    unwritable: Option<Error>,
}

pub(super) fn run(place: &Place<'_>, command: &Arguments, output: &Output) -> Result<u8> {
    let opened = match open(place, command) {
        Err(error @ Error::Corrupt { .. }) => {
            let finding = unopened("it cannot be opened", &error);
            let seen = Examination { findings: vec![finding], ..Examination::default() };
            report(place, command, &seen.findings, &[], &seen, output)?;
            return Ok(FAILED);
        }
        opened => opened?,
    };
    let store = &opened.store;
    let id = command.id.as_deref().map(|prefix| store.resolve_in_damage(prefix)).transpose()?;
    let only = command.only.iter().map(|name| name.parse()).collect::<Result<Vec<Trouble>>>()?;
    let defaults = DoctorOptions::default();
    let options = DoctorOptions {
        only,
        comparison: if command.full { Comparison::Everything } else { defaults.comparison },
        quiet_for_us: i64::try_from(command.quiet_for.saturating_mul(60_000_000)).unwrap_or(i64::MAX),
    };
    let doctor = Doctor::new(store, options);
    let bar = output.progress("events");
    bar.set_length(total(store, id.as_ref())?);
    let examine = || -> Result<Examination> {
        let mut seen = doctor.examine(id.as_ref(), &mut |events| bar.set_position(events))?;
        if let Some(error) = &opened.unwritable {
            seen.findings.iter_mut().for_each(|finding| finding.remedy = None);
            seen.findings
                .insert(0, unopened("it cannot be opened for writing, so nothing can be repaired", error));
        }
        Ok(seen)
    };
    let mut seen = examine()?;
    let found = seen.findings.clone();
    let mut repairs: Vec<(Finding, Result<Repair>)> = Vec::new();
    // A repair of a row shows what else is wrong, so what is left is looked at again.
    for _ in 0..if command.repair { ROUNDS_MAX } else { 0 } {
        let is_new = |finding: &&Finding| {
            finding.remedy.is_some() && !repairs.iter().any(|(repaired, _)| repaired == *finding)
        };
        let left: Vec<Finding> = seen.findings.iter().filter(is_new).cloned().collect();
        if left.is_empty() {
            break;
        }
        for finding in left {
            let mended = doctor.repair_telling(&finding, &mut |progress| {
                bar.set_length(progress.last_position.0);
                bar.set_position(progress.position.0);
            });
            repairs.push((finding, mended));
        }
        seen = examine()?;
    }
    bar.finish_and_clear();
    report(place, command, &found, &repairs, &seen, output)?;
    Ok(if seen.is_healthy() { DONE } else { FAILED })
}

/// Opens the file for writing if that is needed or possible. A file that damage keeps from being opened for writing is
/// opened for reading.
fn open(place: &Place<'_>, command: &Arguments) -> Result<Opened> {
    let opened = if command.repair { place.write() } else { place.read() };
    match opened {
        Err(error @ Error::Corrupt { .. }) => {
            Ok(Opened { store: place.read_only()?, unwritable: Some(error) })
        }
        opened => Ok(Opened { store: opened?, unwritable: None }),
    }
}

/// Returns the finding about a file that cannot be opened because of damage.
fn unopened(what: &str, error: &Error) -> Finding {
    Finding::new(Trouble::Structure, None, format!("{what}: {error}"), None)
}

/// Returns the number of events to examine, for the progress. 0 if damage keeps it from being read.
fn total(store: &Store, id: Option<&ConversationId>) -> Result<u64> {
    let total = match id {
        Some(id) => store.conversation(id).map(|row| row.event_count),
        None => store.last_position().map(|head| head.0),
    };
    match total {
        Err(error) if Store::is_damage(&error) => Ok(0),
        Err(Error::UnknownConversation { .. }) => Ok(0), // its row is gone
        total => total,
    }
}

/// Prints the result as text or as JSON.
fn report(
    place: &Place<'_>,
    command: &Arguments,
    found: &[Finding],
    repairs: &[(Finding, Result<Repair>)],
    seen: &Examination,
    output: &Output,
) -> Result<()> {
    if output.json {
        let value = json!({
            "healthy": seen.is_healthy(),
            "conversations": seen.conversations,
            "events": seen.events,
            "compared": seen.compared,
            "findings": found.iter().map(finding_value).collect::<Vec<_>>(),
            "repairs": repairs.iter().map(repair_value).collect::<Vec<_>>(),
            "left": if command.repair {
                seen.findings.iter().map(finding_value).collect::<Vec<_>>().into()
            } else {
                Value::Null
            },
        });
        return output.value(&value);
    }
    print(place, command, found, repairs, seen, output)
}

fn finding_value(finding: &Finding) -> Value {
    json!({
        "finding": finding.trouble.as_str(),
        "note": finding.is_note,
        "conversation": finding.conversation.as_ref().map(ToString::to_string),
        "sequence": finding.sequence.map(|sequence| sequence.0),
        "event": finding.event,
        "what": finding.what,
        "meaning": finding.trouble.meaning(),
        "advice": finding.trouble.advice(),
        "repair": finding.remedy.as_ref().map(|remedy| remedy.describe()),
    })
}

fn repair_value((finding, repair): &(Finding, Result<Repair>)) -> Value {
    match repair {
        Ok(receipt) => receipt_value(receipt),
        Err(error) => json!({
            "finding": finding.trouble.as_str(),
            "conversation": finding.conversation.as_ref().map(ToString::to_string),
            "error": error.to_string(),
        }),
    }
}

/// A receipt as JSON.
fn receipt_value(receipt: &Repair) -> Value {
    json!({
        "finding": receipt.finding,
        "conversation": receipt.conversation,
        "found": receipt.found,
        "done": receipt.done,
        "event_ids": receipt.event_ids,
        "head_before": receipt.head_before,
        "head_after": receipt.head_after,
        "program": receipt.program,
        "repaired_at": receipt.repaired_at.to_rfc3339(),
    })
}

fn print(
    place: &Place<'_>,
    command: &Arguments,
    found: &[Finding],
    repairs: &[(Finding, Result<Repair>)],
    seen: &Examination,
    output: &Output,
) -> Result<()> {
    let mut trouble = None;
    let mut shown = 0;
    for finding in found {
        if trouble != Some(finding.trouble) {
            trouble = Some(finding.trouble);
            shown = 0;
            heading(finding.trouble, output)?;
        }
        shown += 1;
        if shown > FINDINGS_SHOWN {
            if shown == FINDINGS_SHOWN + 1 {
                let all = found.iter().filter(|other| other.trouble == finding.trouble).count();
                let more = count((all - FINDINGS_SHOWN) as u64);
                output.line(output.dim(&format!("  and {more} more (--json has all of them)")))?;
            }
            continue;
        }
        output.line(format!("  {}{}", place_of(finding), harmless(&finding.what)))?;
        if let Some(remedy) = finding.remedy.as_ref().filter(|_| !command.repair) {
            output.line(output.dim(&format!("    --repair {}", remedy.describe())))?;
        }
    }
    if !repairs.is_empty() {
        output.line(format!("\n{}", output.bold("repaired")))?;
    }
    for (finding, repair) in repairs {
        match repair {
            Ok(receipt) => {
                let moved = match (&receipt.head_before, &receipt.head_after) {
                    (Some(before), Some(after)) => format!(" (HEAD: {} -> {})", named(before), named(after)),
                    _ => String::new(),
                };
                output.line(format!("  {}{}{moved}", place_of(finding), harmless(&receipt.done)))?;
            }
            Err(error) => output.line(format!("  {}not repaired: {error}", place_of(finding)))?,
        }
    }
    let checked = format!(
        "{}, {}, derived tables of {} compared",
        plural(seen.conversations, "conversation"),
        plural(seen.events, "event"),
        count(seen.compared),
    );
    let (serious, notes): (Vec<_>, Vec<_>) = seen.findings.iter().partition(|finding| !finding.is_note);
    let verdict = match (serious.len() as u64, notes.len() as u64) {
        (0, 0) => "nothing is wrong".to_owned(),
        (0, notes) => format!("nothing is wrong, {} worth knowing", plural(notes, "thing")),
        (serious, 0) => plural(serious, "finding"),
        (serious, notes) => format!("{}, {}", plural(serious, "finding"), plural(notes, "note")),
    };
    let left = if repairs.is_empty() { "" } else { " left" };
    output.line(format!("{}{checked}: {verdict}{left}", if found.is_empty() { "" } else { "\n" }))?;
    let mendable = found.iter().filter(|finding| finding.remedy.is_some()).count() as u64;
    if mendable > 0 && !command.repair {
        output.remark(format!(
            "\n`annals{} doctor{} --repair` mends {} of them; it takes nothing away",
            place.option(),
            command.id.as_ref().map_or_else(String::new, |id| format!(" {id}")),
            count(mendable)
        ));
    }
    Ok(())
}

fn heading(trouble: Trouble, output: &Output) -> Result<()> {
    let kind = if trouble.is_note() { " (note)" } else { "" };
    output.line(format!("\n{}{kind}", output.bold(trouble.as_str())))?;
    output.line(format!("  {}", output.dim(&format!("means: {}", trouble.meaning()))))?;
    output.line(format!("  {}", output.dim(&format!("do: {}", trouble.advice()))))
}

fn place_of(finding: &Finding) -> String {
    let Some(conversation) = &finding.conversation else { return String::new() };
    match (finding.sequence, &finding.event) {
        (Some(sequence), Some(event)) => format!("{conversation} event {sequence} ({event}): "),
        (Some(sequence), None) => format!("{conversation} event {sequence}: "),
        (None, _) => format!("{conversation}: "),
    }
}

fn named(head: &str) -> &str {
    if head.is_empty() { "not set" } else { head }
}
