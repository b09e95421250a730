//! `annals verify`: checks whether the file is as it was written.

use std::path::PathBuf;

use clap::Args;

use super::print::{Output, bytes, count, harmless, plural, time};
use super::stopped::Stopped;
use super::{DONE, FAILED, Place, proof};
use crate::audit::json;
use crate::audit::proof::{SignedHead, compare, redacted_since};
use crate::error::{Error, Result};
use crate::ids::ConversationId;
use crate::store::{Finding, NEVER_FILLED, Store, Verification, VerifyProgress, VerifyStep};

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
    // The head comes first: it is read quickly, and the verification may take long.
    let head =
        command.against.as_deref().map(|path| proof::read_head(path, command.key.as_deref())).transpose()?;
    let (store, finding) = match place.read() {
        // This is reported as a finding, because the hint of the error is to run `annals verify`.
        Err(error @ Error::Corrupt { .. }) => match place.read_only() {
            Ok(store) => (store, Some(of_the_file(format!("it cannot be opened for writing: {error}")))),
            Err(_) => return failed(of_the_file(format!("it cannot be opened: {error}")), output),
        },
        other => (other?, None),
    };
    match check(&store, command, head.as_ref(), finding, output) {
        // The hint of this error would be the same.
        Err(error) => failed(Finding::of_damage(None, "what has to be checked", error)?, output),
        done => done,
    }
}

/// Verifies, and prints the findings. `finding` was found before.
fn check(
    store: &Store,
    command: &Arguments,
    head: Option<&SignedHead>,
    finding: Option<Finding>,
    output: &Output,
) -> Result<u8> {
    let id = command.id.as_deref().map(|prefix| store.resolve_in_damage(prefix)).transpose()?;
    let mut seen = verify(store, id.as_ref(), command.quick, output)?;
    if let Some(finding) = finding {
        seen.damaged += 1;
        seen.findings.insert(0, finding);
    }
    // The findings of the verification are printed before the comparison with the head begins.
    print(&seen.findings, output)?;
    if let Some(signed) = head {
        let contradictions = compare(store, &signed.head)?;
        print(&contradictions, output)?;
        seen.findings.extend(contradictions);
        seen.notes.extend(redacted_since(store, &signed.head)?);
    }
    if output.json {
        let mut value = json::verification(&seen);
        value["against"] = head.map(proof::value).into();
        output.value(&value)?;
    } else {
        summarize(&seen, head, command.key.is_some(), output)?;
    }
    Ok(if seen.findings.is_empty() { DONE } else { FAILED })
}

/// Runs the verification and shows its progress.
fn verify(
    store: &Store,
    id: Option<&ConversationId>,
    is_quick: bool,
    output: &Output,
) -> Result<Verification> {
    // What cannot be read here is a finding of the verification; the progress then has no length.
    let total = match id {
        Some(id) => store.conversation(id).map(|row| row.event_count),
        None => store.last_position().map(|head| head.0),
    };
    let bar = output.progress("events");
    let words = Stopped::says(&bar, "the rest was not checked, and nothing was changed");
    bar.set_length(total.unwrap_or(0));
    let mut checking = |progress: VerifyProgress| {
        bar.set_position(progress.events);
        bar.set_message(bytes(progress.payload_bytes));
    };
    let seen = match id {
        None if !is_quick => store.audit().verify_whole(&mut |step| match step {
            VerifyStep::Checking(progress) => checking(progress),
            VerifyStep::Structure => bar.set_message("pages and indexes"),
            VerifyStep::Comparing(progress) => {
                bar.set_length(progress.last_position.0);
                bar.set_position(progress.position.0);
                bar.set_message("replayed");
            }
        }),
        only => store.audit().verify(only, &mut checking),
    };
    bar.finish_and_clear();
    drop(words);
    seen
}

/// Prints findings, one line each, and one for events that follow one another and have the same one. As JSON, they are
/// part of the answer, each by itself.
fn print(mut findings: &[Finding], output: &Output) -> Result<()> {
    while !output.json && !findings.is_empty() {
        let (same, rest) = findings.split_at(same(findings));
        output.line(lines(same))?;
        findings = rest;
    }
    Ok(())
}

/// Returns how many of the first findings say the same of events that follow one another. At least one.
fn same(findings: &[Finding]) -> usize {
    let follows = |pair: &[Finding]| {
        pair[0].conversation == pair[1].conversation
            && pair[0].what == pair[1].what
            && pair[0].sequence.zip(pair[1].sequence).is_some_and(|(one, next)| next.0 == one.0 + 1)
    };
    1 + findings.windows(2).take_while(|pair| follows(pair)).count()
}

/// Prints the notes and the figures, after the findings.
fn summarize(
    seen: &Verification,
    head: Option<&SignedHead>,
    is_held_to_key: bool,
    output: &Output,
) -> Result<()> {
    for note in &seen.notes {
        output.line(format!("note: {}", line(note)))?;
    }
    if seen.damaged > 0 {
        output.line(
            "`annals export --all --to FOLDER` saves everything that can still be read; a backup may have the rest \
             (`annals restore`)",
        )?;
    }
    if let Some(signed) = head {
        output.line(proof::describe(signed, is_held_to_key))?;
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
    let verdict = if seen.notes.iter().any(|note| note.what == NEVER_FILLED) {
        format!("{checked}: nothing was ever written here")
    } else if seen.findings.is_empty() {
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
    Ok(())
}

fn of_the_file(what: String) -> Finding {
    Finding { conversation: None, sequence: None, what }
}

/// Reports a file that is so damaged that it cannot be verified.
fn failed(finding: Finding, output: &Output) -> Result<u8> {
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
    lines(std::slice::from_ref(finding))
}

/// Describes the place of findings that say the same, and what they say.
fn lines(same: &[Finding]) -> String {
    let (first, last) = (&same[0], &same[same.len() - 1]);
    let place = match (&first.conversation, first.sequence, last.sequence) {
        (Some(conversation), Some(first), Some(last)) if first != last => {
            format!("{conversation} events {} to {}, each", first.0, last.0)
        }
        (Some(conversation), Some(sequence), _) => format!("{conversation} event {}", sequence.0),
        (Some(conversation), None, _) => conversation.to_string(),
        (None, ..) => "the file".to_owned(),
    };
    format!("{place}: {}", harmless(&first.what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{ConversationId, Sequence};

    #[test]
    fn the_same_finding_of_events_that_follow_one_another_is_one_line() {
        let finding = |id: &str, sequence: Option<u64>, what: &str| Finding {
            conversation: Some(ConversationId::new(id).unwrap()),
            sequence: sequence.map(Sequence),
            what: what.to_owned(),
        };
        let mut findings: Vec<Finding> = [3, 4, 5, 7].map(|at| finding("a", Some(at), "lost")).into();
        findings.extend([finding("a", Some(8), "changed"), finding("b", Some(9), "changed")]);
        findings.extend([finding("b", None, "gone"), finding("b", None, "gone")]);
        let mut printed = Vec::new();
        let mut rest = findings.as_slice();
        while !rest.is_empty() {
            let (first, others) = rest.split_at(same(rest));
            printed.push(lines(first));
            rest = others;
        }
        assert_eq!(
            printed,
            [
                "a events 3 to 5, each: lost",
                "a event 7: lost",
                "a event 8: changed",
                "b event 9: changed",
                "b: gone",
                "b: gone"
            ]
        );
    }
}
