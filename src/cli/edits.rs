//! `annals edits`: what a conversation changed in files, as a diff.

use clap::Args;
use serde_json::{Value, json};

use super::print::{Output, harmless, one_line, plural, width};
use super::select::At;
use super::{DONE, Place};
use crate::error::Result;
use crate::ids::ConversationId;
use crate::replay::{Edits, FileEdits, Moment};

/// Show what a conversation changed in files, as a diff
///
/// Takes the successful edits of file tools, of all branches, in the order of the log. The diff of a file leads from
/// its text before the first edit to its text after the last one; `git apply` and `patch` take it. What shell commands
/// changed is not in a log, so their number is said.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals edits 5610a7                       the net change of each file
  annals edits 5610a7 --stat                the files, with the numbers of lines
  annals edits 5610a7 --each --file .py     each edit by itself, of Python files
  annals edits 5610a7 --at 20               up to event 20
  annals edits 5610a7 | git apply --reverse undo the changes in the folder of the work")]
pub(super) struct Arguments {
    #[command(flatten)]
    pub moment: At,
    /// Only files with this text in their path
    #[arg(long, value_name = "TEXT")]
    pub file: Option<String>,
    /// Only the names of the files, with the numbers of lines
    #[arg(long)]
    pub stat: bool,
    /// Each edit by itself, in the order of the log
    #[arg(long, conflicts_with = "stat")]
    pub each: bool,
}

impl Arguments {
    fn wants(&self, path: &str) -> bool {
        self.file.as_deref().is_none_or(|text| path.contains(text))
    }
}

pub(super) fn run(place: &Place<'_>, command: &Arguments, output: &Output) -> Result<u8> {
    let store = place.read()?;
    let id = store.resolve(&command.moment.id)?;
    let moment = Moment::new(&store, &id, command.moment.point(&store, &id)?)?;
    let root = store.facts(&id)?.workspace.unwrap_or_default();
    if command.each {
        let commands = moment.each_edit(|edit| {
            if !command.wants(&edit.path) {
                return Ok(());
            }
            let (sequence, tool) = (edit.sequence, edit.tool.clone());
            let file = FileEdits::of(edit);
            if output.json {
                let mut value = value(&file, &root);
                value["sequence"] = json!(sequence.0);
                value["tool"] = json!(tool);
                return output.value(&value);
            }
            output.line(output.dim(&format!("# event {sequence}, {}", one_line(&tool, 40))))?;
            print(&file.diff(&root), output)
        })?;
        remark(commands, &id, output);
        return Ok(DONE);
    }
    let mut edits = moment.edits()?;
    edits.files.retain(|file| command.wants(&file.path));
    if output.json {
        output.value(&json!({
            "conversation": id.as_str(),
            "files": edits.files.iter().map(|file| value(file, &root)).collect::<Vec<_>>(),
            "commands": edits.commands,
        }))?;
        return Ok(DONE);
    }
    if command.stat {
        stat(&edits, output)?;
    } else {
        for file in &edits.files {
            print(&file.diff(&root), output)?;
        }
    }
    if edits.files.is_empty() {
        let what =
            command.file.as_deref().map_or_else(String::new, |text| format!(" with {text:?} in its path"));
        output.remark(format!("No file{what} was changed by a file tool."));
    }
    remark(edits.commands, &id, output);
    Ok(DONE)
}

/// Says how many commands may have changed files too.
fn remark(commands: u64, id: &ConversationId, output: &Output) {
    if commands > 0 {
        output.remark(format!(
            "{} ran too. What they changed is not in the log: annals report commands --conversation {}",
            plural(commands, "shell command"),
            harmless(id.as_str())
        ));
    }
}

fn value(file: &FileEdits, root: &str) -> Value {
    let (added, removed) = file.lines();
    json!({
        "path": file.path,
        "moved_to": file.moved_to,
        "change": file.word(),
        "sequences": file.sequences.iter().map(|sequence| sequence.0).collect::<Vec<_>>(),
        "lines_added": added,
        "lines_removed": removed,
        "changed_between": file.changed_between.iter().map(|(from, to)| [from.0, to.0]).collect::<Vec<_>>(),
        "edits_without_place": file.parts.len(),
        "diff": file.diff(root),
    })
}

/// Prints a diff, with the colours of one.
fn print(diff: &str, output: &Output) -> Result<()> {
    if !output.is_coloured {
        return output.text(diff);
    }
    for line in diff.lines() {
        let style = match line.as_bytes().first() {
            Some(b'+') if !line.starts_with("+++ ") => "32",
            Some(b'-') if !line.starts_with("--- ") => "31",
            Some(b'@') => "36",
            Some(b'#') => "2",
            Some(b' ' | b'\\') | None => "0",
            Some(_) => "1",
        };
        output.line(output.styled(&output.safe(line), style))?;
    }
    Ok(())
}

fn stat(edits: &Edits, output: &Output) -> Result<()> {
    let room = usize::from(width()).saturating_sub(40).max(20);
    let (mut all_added, mut all_removed) = (0, 0);
    for file in &edits.files {
        let (added, removed) = file.lines();
        all_added += added;
        all_removed += removed;
        let path =
            file.moved_to.as_ref().map_or_else(|| file.path.clone(), |to| format!("{} → {to}", file.path));
        output.line(format!(
            "{:<9} {} {}  {}  {}",
            file.word(),
            output.styled(&format!("{:>7}", format!("+{added}")), "32"),
            output.styled(&format!("{:>7}", format!("-{removed}")), "31"),
            one_line(&path, room),
            output.dim(&plural(file.sequences.len() as u64, "edit")),
        ))?;
    }
    if edits.files.len() > 1 {
        output.line(format!(
            "{}: {all_added} lines added, {all_removed} removed",
            plural(edits.files.len() as u64, "file")
        ))?;
    }
    Ok(())
}
