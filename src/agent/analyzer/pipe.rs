//! Finds what commands give to others through pipes.
//!
//! Which commands belong to a group (`{ a; b; } | c`) or a loop is not known. All commands before its pipe count.

use super::command::Run;
use super::shell::{Command, Pipeline};

/// Returns the texts that are printed and that a shell runs.
pub(super) fn printed_sources(pipelines: &[Pipeline]) -> Vec<String> {
    let mut sources = Vec::new();
    let mut printed = Vec::new();
    for pipeline in pipelines {
        if after_group(pipeline).is_some_and(runs_input) {
            sources.append(&mut printed);
        }
        for (place, command) in pipeline.iter().enumerate() {
            let runs = Run::of(command);
            let Some(output) = runs.iter().find_map(|run| run.output(command.input.as_deref())) else {
                continue;
            };
            // A shell may be within the group that follows.
            let is_run = |next: &Command| next.words.is_empty() || runs_input(next);
            if pipeline.get(place + 1).is_some_and(is_run) {
                sources.push(output);
            } else {
                printed.push(output);
            }
        }
    }
    sources
}

/// Returns whether `echo` and `printf` may print other characters than those of the text.
pub(super) fn is_encoded(text: &str) -> bool {
    text.contains(['\\', '%'])
}

/// Returns whether a group gives to the next command what its last command downloads, or to a shell what one of its
/// commands downloads.
pub(super) fn group_gives_fetched(pipelines: &[Pipeline]) -> bool {
    let (mut has_fetched, mut fetches) = (false, false);
    for pipeline in pipelines {
        let gives = |next: &Command| fetches || (has_fetched && runs_input(next));
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

/// Returns whether the command is a shell that runs its input.
fn runs_input(command: &Command) -> bool {
    Run::of(command).iter().any(Run::is_shell)
}
