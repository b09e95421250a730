//! `annals verify`: checks whether the file is as it was written.

use std::path::PathBuf;

use clap::Args;

use super::print::{Output, bytes, count, harmless, plural, time};
use super::{DONE, FAILED, Place, proof};
use crate::audit::json;
use crate::audit::proof::{compare, redacted_since};
use crate::error::{Error, Result};
use crate::store::{Finding, Verification, VerifyProgress, VerifyStep};

/// Check that nothing was changed: the hash chain, the catalogue, attachments, and derived tables
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals verify                the whole file
  annals verify 5610a7         one conversation: its events, catalogue row and attachments
  annals verify --against head.txt --key auditor.pub
                               and check that everything that this head records is still there")]
pub(super) struct Arguments {
    /// Only this conversation, by id or the start of one
    pub id: Option<String>,
    /// Leave out the comparison of derived tables with the log, which takes the most time
    #[arg(long)]
    pub quick: bool,
    /// Also check that the store still has everything that this head (see `annals head`) records
    #[arg(long, value_name = "HEADFILE", conflicts_with = "id")]
    pub against: Option<PathBuf>,
    /// Accept the head only if it is signed with this key (the public half: 64 hex digits or a file)
    #[arg(long, value_name = "KEY", requires = "against")]
    pub key: Option<String>,
}

pub(super) fn run(place: &Place<'_>, command: &Arguments, output: &Output) -> Result<u8> {
    let store = match place.read() {
        // This is reported as a finding, because the hint of the error is to run `annals verify`.
        Err(error @ Error::Corrupt { .. }) => return unreadable(&error, output),
        other => other?,
    };
    let id = command.id.as_deref().map(|prefix| store.resolve(prefix)).transpose()?;
    let total = match &id {
        Some(id) => store.conversation(id)?.event_count,
        None => store.head()?.0,
    };
    let bar = output.progress("events");
    bar.set_length(total);
    let mut checking = |progress: VerifyProgress| {
        bar.set_position(progress.events);
        bar.set_message(bytes(progress.payload_bytes));
    };
    let mut seen = match &id {
        None if !command.quick => store.verify_whole(&mut |step| match step {
            VerifyStep::Checking(progress) => checking(progress),
            VerifyStep::Structure => bar.set_message("pages and indexes"),
            VerifyStep::Comparing(progress) => {
                bar.set_length(progress.head.0);
                bar.set_position(progress.position.0);
                bar.set_message("replayed");
            }
        })?,
        only => store.verify(only.as_ref(), &mut checking)?,
    };
    bar.finish_and_clear();
    let head =
        command.against.as_deref().map(|path| proof::read_head(path, command.key.as_deref())).transpose()?;
    if let Some(signed) = &head {
        seen.findings.extend(compare(&store, &signed.head)?);
        seen.notes.extend(redacted_since(&store, &signed.head)?);
    }
    let is_sound = seen.findings.is_empty();
    if output.json {
        let mut value = json::verification(&seen);
        value["against"] = head.as_ref().map(proof::value).into();
        output.value(&value)?;
        return Ok(if is_sound { DONE } else { FAILED });
    }
    for finding in &seen.findings {
        output.line(line(finding))?;
    }
    for note in &seen.notes {
        output.line(format!("note: {}", line(note)))?;
    }
    if seen.damaged > 0 {
        output.line(
            "`annals export --all --to FOLDER` saves everything that can still be read; a backup may have the rest \
             (`annals restore`)",
        )?;
    }
    if let Some(signed) = &head {
        output.line(proof::describe(signed, command.key.is_some()))?;
    }
    let checked = format!(
        "{}, {} ({}), {}",
        plural(seen.conversations, "conversation"),
        plural(seen.events, "event"),
        bytes(seen.payload_bytes),
        plural(seen.attachments, "distinct attachment"),
    );
    let redacted = match seen.redacted {
        0 => String::new(),
        number => format!(", {} of them redacted, as the administrative log says", count(number)),
    };
    let verdict = if is_sound {
        format!("{checked}: all as they were written{redacted}")
    } else {
        format!("{checked}: {}", plural(seen.findings.len() as u64, "finding"))
    };
    output.line(verdict)?;
    if let Some(since) = seen.changes_since {
        output.line(format!(
            "changes of what stands beside the events are covered since {} UTC, when the file was upgraded",
            time(since)
        ))?;
    }
    Ok(if is_sound { DONE } else { FAILED })
}

/// Reports a file that is so damaged that it cannot be opened.
fn unreadable(error: &Error, output: &Output) -> Result<u8> {
    let what = format!("it cannot be opened: {error}");
    let finding = Finding { conversation: None, sequence: None, what };
    if output.json {
        let seen = Verification { damaged: 1, findings: vec![finding], ..Verification::default() };
        output.value(&json::verification(&seen))?;
    } else {
        output.line(line(&finding))?;
        output.line("a backup may have its content (`annals restore`)")?;
    }
    Ok(FAILED)
}

/// Describes the place of a finding and the finding.
pub(super) fn line(finding: &Finding) -> String {
    let place = match (&finding.conversation, finding.sequence) {
        (Some(conversation), Some(sequence)) => format!("{conversation} event {}", sequence.0),
        (Some(conversation), None) => conversation.to_string(),
        (None, _) => "the file".to_owned(),
    };
    format!("{place}: {}", harmless(&finding.what))
}
