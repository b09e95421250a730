//! The rail analyzer: searches one command for dangerous combinations. It finds downloads that are piped into another
//! command, raw writes to a disk, and deletions of system folders. Conversations whose settings name it use it.
//!
//! Source: the reference's `PolicyRailSecurityAnalyzer`, and its results for many commands. Unlike there, a command
//! that may hide another one is unknown and not low.

use super::command::Run;
use super::pattern::DEPTH_MAX;
use super::segments::{Kind, executable};
use super::{Work, evaluated, pipe};
use crate::event::{ActionEvent, Risk};
use crate::shell::{Command, Pipeline, Word};

/// Folders that the operating system needs.
const CRITICAL: [&str; 5] = ["/etc", "/usr", "/var", "/home", "/boot"];

/// Rates the risk of an action: high, low, or unknown if it depends on values that only a running shell knows, or if a
/// command may be hidden.
pub(super) fn risk(action: &ActionEvent, work: &mut Work) -> Risk {
    let segments = executable(action);
    let mut worst = if segments.is_cut { Found::Hidden } else { Found::Nothing };
    for segment in &segments.pieces {
        let found = in_source(&segment.text, DEPTH_MAX, work);
        if found > Found::Unread || segment.kind == Kind::Command {
            worst = worst.max(found);
        }
    }
    match worst {
        Found::Danger => Risk::High,
        Found::Unclear | Found::Unread | Found::Hidden => Risk::Unknown,
        Found::Nothing => Risk::Low,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Found {
    Nothing,
    /// A command may be hidden in the source. This matters only if a shell runs it.
    Hidden,
    /// A part of the source was not read, because it lies too deep or takes too much work. This matters only if a shell
    /// runs it.
    Unread,
    Unclear,
    Danger,
}

fn in_source(source: &str, depth: usize, work: &mut Work) -> Found {
    let Some(depth) = depth.checked_sub(1) else { return Found::Unread };
    let Some(script) = work.read(source) else { return Found::Unread };
    if pipe::group_gives_fetched(&script.pipelines) {
        return Found::Danger;
    }
    let fed = pipe::fed(&script.pipelines);
    let mut worst = if script.is_unclear || fed.is_unclear { Found::Hidden } else { Found::Nothing };
    for pipeline in &script.pipelines {
        worst = worst.max(in_pipeline(pipeline, depth, work));
    }
    for source in &fed.sources {
        worst = worst.max(in_source(source, depth, work));
    }
    worst
}

fn in_pipeline(pipeline: &Pipeline, depth: usize, work: &mut Work) -> Found {
    let mut worst = Found::Nothing;
    for (place, command) in pipeline.iter().enumerate() {
        let is_piped = place + 1 < pipeline.len();
        let runs = Run::of(command);
        worst = worst.max(in_command(command, &runs, depth, work));
        if is_piped && (runs.iter().any(Run::is_fetch) || prints_fetched(command, &runs, work)) {
            return Found::Danger;
        }
    }
    worst
}

fn in_command(command: &Command, runs: &[Run<'_>], depth: usize, work: &mut Work) -> Found {
    let mut worst = Found::Nothing;
    for nested in &command.nested {
        worst = worst.max(in_source(nested, depth, work));
    }
    let expressions = evaluated::expressions(command, work);
    worst = if expressions.is_none() { worst.max(Found::Unread) } else { worst };
    for expression in expressions.iter().flatten() {
        let found = in_source(expression, depth, work);
        // To most shells it is no command, so it need not be a valid one.
        worst = worst.max(if found == Found::Hidden { Found::Nothing } else { found });
    }
    for run in runs {
        for source in &run.sources {
            worst = worst.max(in_source(source, depth, work));
        }
        let hidden = if run.is_unclear { Found::Hidden } else { Found::Nothing };
        worst = worst.max(hidden).max(raw_disk_write(run)).max(critical_deletion(run));
    }
    worst
}

/// Returns whether a command prints what a substitution within it downloads.
fn prints_fetched(command: &Command, runs: &[Run<'_>], work: &mut Work) -> bool {
    let prints = runs.iter().any(|run| matches!(run.name.as_deref(), Some("echo" | "printf")));
    let fetches = |source: &String| {
        let script = work.read(source);
        let pipelines = script.iter().flat_map(|script| &script.pipelines);
        pipelines.flatten().flat_map(Run::of).any(|run| run.is_fetch())
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

/// Returns the path without `.`, `..` and repeated slashes. A relative path counts from the root.
pub(super) fn normalize(path: &str) -> String {
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
