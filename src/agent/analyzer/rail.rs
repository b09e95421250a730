//! The rail analyzer: searches one command for dangerous combinations. It finds downloads that are piped into another
//! command, raw writes to a disk, and deletions of system folders.
//!
//! Source: the reference's `PolicyRailSecurityAnalyzer`, and its results for many commands. Unlike there, a command
//! that may hide another one is unknown and not low.

use super::command::Run;
use super::pattern::DEPTH_MAX;
use super::pipe;
use super::segments::{Kind, executable};
use super::shell::{self, Command, Pipeline, Word};
use crate::event::{ActionEvent, Risk};

/// Folders that the operating system needs.
const CRITICAL: [&str; 5] = ["/etc", "/usr", "/var", "/home", "/boot"];

/// Rates the risk of an action: high, low, or unknown if it depends on values that only a running shell knows, or if a
/// command may be hidden.
pub(super) fn risk(action: &ActionEvent) -> Risk {
    let segments = executable(action);
    let found = segments.pieces.iter().map(|segment| match in_source(&segment.text, DEPTH_MAX) {
        Found::Hidden if segment.kind == Kind::Text => Found::Nothing,
        found => found,
    });
    let cut = if segments.is_cut { Found::Hidden } else { Found::Nothing };
    match found.fold(cut, Found::max) {
        Found::Danger => Risk::High,
        Found::Unclear | Found::Hidden => Risk::Unknown,
        Found::Nothing => Risk::Low,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Found {
    Nothing,
    /// A command may be hidden in the source. This matters only if a shell runs it.
    Hidden,
    Unclear,
    Danger,
}

fn in_source(source: &str, depth: usize) -> Found {
    let Some(depth) = depth.checked_sub(1) else { return Found::Unclear };
    let script = shell::read(source);
    if pipe::group_gives_fetched(&script.pipelines) {
        return Found::Danger;
    }
    let printed = pipe::printed_sources(&script.pipelines);
    let is_hidden = script.is_unclear || printed.iter().any(|source| pipe::is_encoded(source));
    let own = if is_hidden { Found::Hidden } else { Found::Nothing };
    let found = script.pipelines.iter().map(|pipeline| in_pipeline(pipeline, depth));
    found.chain(printed.iter().map(|source| in_source(source, depth))).fold(own, Found::max)
}

fn in_pipeline(pipeline: &Pipeline, depth: usize) -> Found {
    let mut worst = Found::Nothing;
    for (place, command) in pipeline.iter().enumerate() {
        let is_piped = place + 1 < pipeline.len();
        let runs = Run::of(command);
        worst = worst.max(in_command(command, &runs, depth));
        if is_piped && (runs.iter().any(Run::is_fetch) || prints_fetched(command, &runs)) {
            return Found::Danger;
        }
    }
    worst
}

fn in_command(command: &Command, runs: &[Run<'_>], depth: usize) -> Found {
    let nested = command.nested.iter().map(|source| in_source(source, depth));
    let sources = runs.iter().filter_map(|run| run.source.as_ref()).map(|source| in_source(source, depth));
    let own = runs.iter().map(|run| {
        let hidden = if run.is_unclear { Found::Hidden } else { Found::Nothing };
        hidden.max(raw_disk_write(run)).max(critical_deletion(run))
    });
    nested.chain(sources).chain(own).max().unwrap_or(Found::Nothing)
}

/// Returns whether a command prints what a substitution within it downloads.
fn prints_fetched(command: &Command, runs: &[Run<'_>]) -> bool {
    let prints = runs.iter().any(|run| matches!(run.name.as_deref(), Some("echo" | "printf")));
    let fetches = |source: &String| {
        shell::read(source).pipelines.iter().flatten().flat_map(Run::of).any(|run| run.is_fetch())
    };
    prints && command.nested.iter().any(fetches)
}

fn raw_disk_write(run: &Run<'_>) -> Found {
    let name = run.name.as_deref().unwrap_or_default();
    if name == "mkfs" || name.starts_with("mkfs.") {
        return Found::Danger;
    }
    if name != "dd" {
        return Found::Nothing;
    }
    let to_device = |word: &Word| {
        word.text.to_lowercase().strip_prefix("of=").is_some_and(|path| normalize(path).starts_with("/dev/"))
    };
    let found = run.arguments.iter().map(|word| match (to_device(word), word.is_unknown) {
        (true, _) => Found::Danger,
        (false, true) => Found::Unclear,
        (false, false) => Found::Nothing,
    });
    found.max().unwrap_or(Found::Nothing)
}

fn critical_deletion(run: &Run<'_>) -> Found {
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
        let within = path.strip_prefix("~/").map(|rest| normalize(&format!("/{rest}")));
        return path == "~" || within.is_some_and(|within| within == "/") || path.starts_with("~/..");
    }
    if !path.starts_with('/') || word.is_unknown {
        return false;
    }
    let path = normalize(&path);
    let within = |root: &&str| {
        path.strip_prefix(*root)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || rest.starts_with('*'))
    };
    matches!(path.as_str(), "/" | "/*") || CRITICAL.iter().any(within) || may_be_critical(&path)
}

/// Returns whether an absolute path begins with a pattern that may stand for one of the critical folders.
fn may_be_critical(path: &str) -> bool {
    path.split_once(['*', '?', '[']).is_some_and(|(literal, _)| {
        literal.rfind('/') == Some(0) && CRITICAL.iter().any(|root| root.starts_with(literal))
    })
}

/// Returns the absolute path without `.`, `..` and repeated slashes.
fn normalize(path: &str) -> String {
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
