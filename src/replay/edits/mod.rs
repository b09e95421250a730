//! What a conversation changed in files, as far as its log has it: the successful edits of file tools, in the order of
//! the log, and the net change of each file.
//!
//! The edits of all branches count, because a file on the disk does not go back with HEAD. What shell commands changed is
//! not in a log; their number is.

mod call;
mod file;
mod patch;

use std::collections::HashMap;

use call::Call;
pub use file::FileEdits;

use super::{Moment, read};
use crate::error::Result;
use crate::event::Event;
use crate::event::tool::{ChangeType, Commit, EditorCommand, Observation};
use crate::ids::Sequence;
use crate::json::Raw;

/// The text of a file before or after an edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Side {
    /// There was no file.
    Missing,
    /// The whole text.
    Text(String),
    /// The log does not have it.
    Unknown,
}

/// A text that was replaced somewhere in a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Part {
    /// The text before. "" if a text was inserted.
    pub before: String,
    /// The text after.
    pub after: String,
    /// Whether each occurrence was replaced, and not only the first.
    pub is_everywhere: bool,
    /// The line after which the text was inserted, 0 for the beginning. `None` if it was not inserted at a line.
    pub after_line: Option<u64>,
}

/// What an edit changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The whole file.
    Whole {
        /// Its text before.
        before: Side,
        /// Its text after.
        after: Side,
    },
    /// Texts in the file, in order. Where they were is unknown.
    Parts(Vec<Part>),
}

/// A successful edit of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Edit {
    /// The sequence of the tool's answer.
    pub sequence: Sequence,
    /// The tool.
    pub tool: String,
    /// The file, as the tool or the call named it.
    pub path: String,
    /// The new path, if the file was moved.
    pub moved_to: Option<String>,
    /// The change.
    pub change: Change,
}

/// The net changes of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Edits {
    /// The files, in the order of their first edit.
    pub files: Vec<FileEdits>,
    /// The number of shell commands that were run. They may have changed files too.
    pub commands: u64,
}

impl Moment<'_> {
    /// Calls `visit` with every successful edit of a file up to the moment, in the order of the log. Returns the number of
    /// shell commands that were run.
    ///
    /// # Errors
    /// The errors of reading, and those of `visit`.
    pub fn each_edit(&self, mut visit: impl FnMut(Edit) -> Result<()>) -> Result<u64> {
        let mut open: HashMap<String, Call> = HashMap::new();
        let mut commands = 0;
        if self.length == 0 {
            return Ok(0);
        }
        self.store.scan(self.id(), Sequence(0), |stored| {
            match read(&stored)? {
                Event::Action(action) => {
                    let call = Call::new(&action);
                    open.insert(action.tool_call_id.to_string(), call);
                }
                Event::Observation(answer) => {
                    let call = open.remove(&*answer.tool_call_id);
                    let changes = changes(call.as_ref(), &answer.observation, stored.payload);
                    commands += u64::from(changes.is_empty() && call.is_some_and(|call| call.is_command()));
                    for (path, moved_to, change) in changes {
                        let tool = answer.tool_name.to_string();
                        visit(Edit { sequence: stored.sequence, tool, path, moved_to, change })?;
                    }
                }
                Event::UserReject(answer) => drop(open.remove(&*answer.tool_call_id)),
                Event::AgentError(answer) => drop(open.remove(&*answer.tool_call_id)),
                _ => {}
            }
            Ok(stored.sequence.0 + 1 < self.length)
        })?;
        Ok(commands)
    }

    /// Returns the net change of each file up to the moment.
    ///
    /// Holds the first and the last known text of each file.
    ///
    /// # Errors
    /// The errors of reading.
    pub fn edits(&self) -> Result<Edits> {
        let mut edits = Edits::default();
        // The file that has each path now.
        let mut by_path: HashMap<String, usize> = HashMap::new();
        let files = &mut edits.files;
        let commands = self.each_edit(|edit| {
            let at = *by_path.entry(edit.path.clone()).or_insert_with(|| {
                files.push(FileEdits::new(&edit.path));
                files.len() - 1
            });
            if let Some(to) = &edit.moved_to {
                by_path.remove(&edit.path);
                by_path.insert(to.clone(), at);
            }
            files[at].add(edit);
            Ok(())
        })?;
        edits.commands = commands;
        Ok(edits)
    }
}

type Changed = (String, Option<String>, Change);

/// Returns what a tool changed: from its answer if that has the files' texts, otherwise from its call.
fn changes(call: Option<&Call>, answer: &Observation, payload: &str) -> Vec<Changed> {
    if failed(answer) {
        return Vec::new();
    }
    let whole = |path: Option<&str>, was_there: bool, old: Option<&str>, new: Option<&str>| {
        let (path, new) = (path?, new?);
        let before = match old {
            _ if !was_there => Side::Missing,
            Some(old) => Side::Text(old.to_owned()),
            None => Side::Unknown,
        };
        Some(vec![(path.to_owned(), None, Change::Whole { before, after: Side::Text(new.to_owned()) })])
    };
    let known = match answer {
        Observation::FileEditor(it) if it.command == EditorCommand::View => return Vec::new(),
        Observation::PlanningFileEditor(it) if it.command == EditorCommand::View => return Vec::new(),
        Observation::FileEditor(it) => {
            whole(it.path.as_deref(), it.prev_exist, it.old_content.as_deref(), it.new_content.as_deref())
        }
        Observation::PlanningFileEditor(it) => {
            whole(it.path.as_deref(), it.prev_exist, it.old_content.as_deref(), it.new_content.as_deref())
        }
        Observation::WriteFile(it) => whole(
            it.file_path.as_deref(),
            !it.is_new_file,
            it.old_content.as_deref(),
            it.new_content.as_deref(),
        ),
        Observation::Edit(it) => whole(
            it.file_path.as_deref(),
            !it.is_new_file,
            it.old_content.as_deref(),
            it.new_content.as_deref(),
        ),
        Observation::ApplyPatch(it) => it.commit.as_ref().map(of_commit),
        _ => None,
    };
    known.or_else(|| Some(call?.changes(original(payload)))).unwrap_or_default()
}

/// Returns whether a tool failed. Tools of 2024 and early 2025 say so only in their text.
fn failed(answer: &Observation) -> bool {
    answer.content().1 || (matches!(answer, Observation::Unknown(_)) && answer.text().starts_with("ERROR:"))
}

fn of_commit(commit: &Commit) -> Vec<Changed> {
    let text = |text: Option<&str>| text.map_or(Side::Unknown, |text| Side::Text(text.to_owned()));
    let changes = commit.changes.0.iter().map(|(path, it)| {
        let (old, new) = (text(it.old_content.as_deref()), text(it.new_content.as_deref()));
        let change = match it.change_type {
            ChangeType::Add => Change::Whole { before: Side::Missing, after: new },
            ChangeType::Delete => Change::Whole { before: old, after: Side::Missing },
            ChangeType::Update | ChangeType::Other(_) => Change::Whole { before: old, after: new },
        };
        (path.to_string(), it.move_path.as_deref().map(str::to_owned), change)
    });
    changes.collect()
}

/// Returns the file's text before the edit, which Claude Code keeps beside a tool's result. `None` if there is none.
fn original(payload: &str) -> Option<Side> {
    let record = Raw::checked(payload).get("provenance")?.get("record")?;
    let result = record.get("toolUseResult").filter(|result| result.is_object())?;
    match result.get("originalFile") {
        Some(file) if file.is_null() => Some(Side::Missing),
        Some(file) => Some(Side::Text(file.as_str()?.into_owned())),
        None if result.get("type").is_some_and(|kind| kind.as_str().as_deref() == Some("create")) => {
            Some(Side::Missing)
        }
        None => None,
    }
}
