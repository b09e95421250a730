//! Finds what commands give to others through pipes.
//!
//! Which commands belong to a group (`{ a; b; } | c`) or a loop is not known. All commands before its pipe count.

use super::command::{Output, Run};
use crate::shell::{self, Command, Pipeline};

/// What shells read and run.
#[derive(Default)]
pub(super) struct Fed {
    /// The printed texts that may come to a shell. Filters between them and the shell may change them.
    pub sources: Vec<String>,
    /// Whether a shell runs a text that is not known.
    pub is_unclear: bool,
}

/// What goes through a pipe.
#[derive(Default)]
struct Flow {
    texts: Vec<String>,
    /// Whether nothing else goes through it.
    is_known: bool,
}

impl Flow {
    /// Lets the flow pass a command.
    fn pass(&mut self, command: &Command, runs: &[Run<'_>]) {
        let mut is_known = runs.len() == 1;
        for run in runs {
            match run.output() {
                Output::Text(text) => {
                    // The command may decode these.
                    is_known &= !text.contains(['\\', '%']) && !shell::is_incomplete(&text);
                    self.texts.push(text);
                }
                Output::Input => {
                    is_known &= command.inputs.is_known() || (command.inputs.is_kept() && self.is_known);
                }
                Output::Unknown => is_known = false,
            }
        }
        is_known &= !command.inputs.texts.iter().any(|text| shell::is_incomplete(text));
        self.texts.extend(command.inputs.texts.iter().cloned());
        self.is_known = is_known;
    }
}

/// Returns what the shells of these pipelines read and run.
pub(super) fn fed(pipelines: &[Pipeline]) -> Fed {
    let mut fed = Fed::default();
    let mut before = Flow { texts: Vec::new(), is_known: true };
    for pipeline in pipelines {
        let mut flow = Flow::default();
        for (place, command) in pipeline.iter().enumerate() {
            if place == 0 && command.is_group {
                flow = std::mem::take(&mut before);
                before.is_known = true;
                continue;
            }
            let runs = Run::of(command);
            let runs_input = runs.iter().any(|run| run.runs_input);
            // A shell may be within the group that follows.
            let is_group = place > 0 && command.words.is_empty();
            if runs_input || is_group {
                fed.sources.append(&mut flow.texts);
            }
            // Without a pipe, it reads what comes from a terminal or from around a group.
            let is_known = place > 0 && flow.is_known && command.inputs.is_kept();
            fed.is_unclear |= runs_input && !is_known;
            flow.pass(command, &runs);
        }
        before.is_known &= flow.is_known;
        before.texts.append(&mut flow.texts);
    }
    fed
}

/// Returns whether a group gives to the next command what its last command downloads, or to a shell what one of its
/// commands downloads.
pub(super) fn group_gives_fetched(pipelines: &[Pipeline]) -> bool {
    let (mut has_fetched, mut fetches) = (false, false);
    for pipeline in pipelines {
        let gives =
            |next: &Command| fetches || (has_fetched && Run::of(next).iter().any(|run| run.runs_input));
        if after_group(pipeline).is_some_and(gives) {
            return true;
        }
        for command in pipeline {
            fetches = Run::of(command).iter().any(Run::is_fetch);
            has_fetched |= fetches;
        }
    }
    false
}

/// Returns the command that reads the output of a group or of a loop.
fn after_group(pipeline: &[Command]) -> Option<&Command> {
    match pipeline {
        [group, next, ..] if group.is_group => Some(next),
        _ => None,
    }
}
