//! Dangerous combinations within one command: what is fetched goes on to another command, a disk is written raw, whole
//! folders of the system are deleted.
//!
//! Source: the reference's `PolicyRailSecurityAnalyzer`, asked about many commands.

use super::command::Run;
use super::pattern::DEPTH_MAX;
use super::segments::executable;
use super::shell::{self, Command, Pipeline, Word};
use crate::event::{ActionEvent, Risk};

/// Folders that a system needs.
const CRITICAL: [&str; 5] = ["/etc", "/usr", "/var", "/home", "/boot"];

/// How risky an action is: high, low, or not known where only a running shell could tell.
pub(super) fn risk(action: &ActionEvent) -> Risk {
    let found = executable(action).iter().map(|segment| look(segment, DEPTH_MAX)).max();
    match found {
        Some(Found::Danger) => Risk::High,
        Some(Found::Unclear) => Risk::Unknown,
        Some(Found::Nothing) | None => Risk::Low,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Found {
    Nothing,
    Unclear,
    Danger,
}

fn look(source: &str, depth: usize) -> Found {
    let Some(depth) = depth.checked_sub(1) else { return Found::Unclear };
    let pipelines = shell::pipelines(source);
    pipelines.iter().map(|pipeline| of_pipeline(pipeline, depth)).max().unwrap_or(Found::Nothing)
}

fn of_pipeline(pipeline: &Pipeline, depth: usize) -> Found {
    let mut worst = Found::Nothing;
    for (place, command) in pipeline.iter().enumerate() {
        let goes_on = place + 1 < pipeline.len();
        let runs = Run::of(command);
        worst = worst.max(of_command(command, &runs, depth));
        if goes_on && (runs.iter().any(is_fetch) || prints_fetched(command, &runs)) {
            return Found::Danger;
        }
        let printed = runs.iter().find_map(|run| run.output(command.input.as_deref()));
        let read_by_shell =
            pipeline.get(place + 1).is_some_and(|next| Run::of(next).iter().any(Run::is_shell));
        if let Some(printed) = printed.filter(|_| read_by_shell) {
            worst = worst.max(look(&printed, depth));
        }
    }
    worst
}

fn of_command(command: &Command, runs: &[Run], depth: usize) -> Found {
    let nested = command.nested.iter().map(|source| look(source, depth));
    let sources = runs.iter().filter_map(|run| run.source.as_ref()).map(|source| look(source, depth));
    let own = runs.iter().map(|run| raw_disk(run).max(catastrophic(run)));
    nested.chain(sources).chain(own).max().unwrap_or(Found::Nothing)
}

fn is_fetch(run: &Run) -> bool {
    matches!(run.name.as_deref(), Some("curl" | "wget"))
}

/// Whether a command prints what a substitution within it fetches.
fn prints_fetched(command: &Command, runs: &[Run]) -> bool {
    let prints = runs.iter().any(|run| matches!(run.name.as_deref(), Some("echo" | "printf")));
    let fetches = |source: &String| {
        shell::pipelines(source).iter().flatten().flat_map(Run::of).any(|run| is_fetch(&run))
    };
    prints && command.nested.iter().any(fetches)
}

fn raw_disk(run: &Run) -> Found {
    let name = run.name.as_deref().unwrap_or_default();
    if name == "mkfs" || name.starts_with("mkfs.") {
        return Found::Danger;
    }
    if name != "dd" {
        return Found::Nothing;
    }
    let to_device = |word: &Word| {
        word.text.to_lowercase().strip_prefix("of=").is_some_and(|path| normal(path).starts_with("/dev/"))
    };
    let found = run.arguments.iter().map(|word| match (to_device(word), word.is_unknown) {
        (true, _) => Found::Danger,
        (false, true) => Found::Unclear,
        (false, false) => Found::Nothing,
    });
    found.max().unwrap_or(Found::Nothing)
}

fn catastrophic(run: &Run) -> Found {
    let is_rm = run.name.as_deref() == Some("rm");
    if !(is_rm || run.name.is_none()) {
        return Found::Nothing;
    }
    let targets = || run.arguments.iter().filter(|word| !word.text.starts_with('-'));
    let critical = targets().any(is_critical);
    let unknown = run.arguments.iter().any(|word| word.is_unknown);
    let flags = run.is_recursive_and_forced();
    match (is_rm, critical, flags) {
        (true, true, true) => Found::Danger,
        (true, true, false) if unknown => Found::Unclear,
        (false, true, _) if flags || unknown => Found::Unclear,
        (_, false, true) if unknown => Found::Unclear,
        _ => Found::Nothing,
    }
}

fn is_critical(word: &Word) -> bool {
    let path = word.text.to_lowercase();
    if word.is_home {
        let within = path.strip_prefix("~/").map(|rest| normal(&format!("/{rest}")));
        return path == "~" || within.is_some_and(|within| within == "/") || path.starts_with("~/..");
    }
    if !path.starts_with('/') || word.is_unknown {
        return false;
    }
    let path = normal(&path);
    let within = |root: &&str| {
        path.strip_prefix(*root)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || rest.starts_with('*'))
    };
    matches!(path.as_str(), "/" | "/*") || CRITICAL.iter().any(within)
}

/// An absolute path without `.`, `..` and doubled slashes.
fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            other => parts.push(other),
        }
    }
    format!("/{}", parts.join("/"))
}
