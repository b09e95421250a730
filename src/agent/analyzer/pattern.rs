//! The pattern analyzer: searches the call's arguments for dangerous commands, and all of the action's texts for prompt
//! injection. `annals run --confirm risky` uses it, and so do conversations whose settings name it.
//!
//! Source: the default patterns of the reference's `PatternSecurityAnalyzer`, and its results for many commands. Unlike
//! there, the patterns are searched for in the commands without their quotes too, and a command that may hide another
//! one is unknown and not low.

use std::sync::LazyLock;

use regex::{Regex, RegexBuilder};

use super::command::Run;
use super::segments::{Kind, executable, plain, said};
use super::{Work, evaluated, pipe};
use crate::event::{ActionEvent, Risk};
use crate::json::Raw;
use crate::shell::{Command, Pipeline, Word};

/// The maximum nesting depth of shell sources that is examined.
pub(super) const DEPTH_MAX: usize = 4;

/// A regular expression, its description and its id in the reference.
type Pattern = (&'static str, &'static str, &'static str);

const HIGH: &[Pattern] = &[
    (
        r"\brm\s+(?:-[frR]{2,}|-[rR]\s+-f|-f\s+-[rR]|--recursive\s+--force|--force\s+--recursive)\b",
        "Recursive force-delete (rm -rf variants)",
        "exec.destruct.rm_rf",
    ),
    (r"\bsudo\s+rm\b", "Privileged file deletion", "exec.destruct.sudo_rm"),
    (r"\bmkfs\.\w+", "Filesystem format command", "exec.destruct.mkfs"),
    (r"\bdd\b.{0,100}of=/dev/", "Raw disk write", "exec.destruct.dd_raw_disk"),
    (r"\beval\s*\(", "Dynamic code evaluation", "exec.code.eval_call"),
    (r"\bexec\s*\(", "Dynamic code execution", "exec.code.exec_call"),
    (r"\bos\.system\s*\(", "OS-level command execution", "exec.code.os_system"),
    (
        r"\bsubprocess\.(?:call|run|Popen|check_output|check_call)\s*\(",
        "Subprocess invocation",
        "exec.code.subprocess",
    ),
    (r"\bcurl\b[^|]{0,200}\|\s*(?:ba)?sh\b", "Download and run (curl | sh)", "exec.net.curl_pipe_exec"),
    (r"\bwget\b[^|]{0,200}\|\s*(?:ba)?sh\b", "Download and run (wget | sh)", "exec.net.wget_pipe_exec"),
];

const MEDIUM: &[Pattern] = &[
    (r"\bcurl\b.{0,100}https?://", "HTTP request via curl", "exec.net.curl"),
    (r"\bwget\b.{0,100}https?://", "Download via wget", "exec.net.wget"),
];

const INJECTION_HIGH: &[Pattern] = &[(
    r"\b(?:ignore|disregard|forget|override|bypass)\s+(?:all\s+)?(?:previous|prior|above)\s+(?:instructions?|prompts?|rules?|directives?)\b",
    "Instruction override attempt",
    "inject.override",
)];

const INJECTION_MEDIUM: &[Pattern] = &[
    (r"\byou\s+are\s+now\s+(?:in\s+)?(?:\w+\s+)?mode\b", "Mode switching attempt", "inject.mode_switch"),
    (r"\bpretend\s+(?:you\s+are|to\s+be)\s+(?:a\s+)?different\b", "Identity manipulation", "inject.identity"),
];

/// The four lists, with their names in the reference's settings.
const LISTS: [(&str, &[Pattern]); 4] = [
    ("high_patterns", HIGH),
    ("medium_patterns", MEDIUM),
    ("injection_high_patterns", INJECTION_HIGH),
    ("injection_medium_patterns", INJECTION_MEDIUM),
];

static COMPILED: LazyLock<[Vec<Regex>; 4]> = LazyLock::new(|| {
    LISTS.map(|(_, patterns)| {
        let compile = |(pattern, _, _): &Pattern| {
            let built = RegexBuilder::new(pattern).case_insensitive(true).build();
            built.expect("the patterns are constants, and a test compiles them")
        };
        patterns.iter().map(compile).collect()
    })
});

/// Rates the risk of an action.
pub(super) fn risk(action: &ActionEvent, work: &mut Work) -> Risk {
    let segments = executable(action);
    let texts: Vec<&str> = segments.pieces.iter().map(|segment| segment.text.as_str()).collect();
    let commands = texts.join(" ");
    let everything = said(action).into_iter().fold(commands.clone(), |all, text| all + " " + &text);
    let everything = plain(&everything);
    let mut lines = vec![plain(&commands)];
    let mut worst = if segments.is_cut { Deletion::Hidden } else { Deletion::None };
    for segment in &segments.pieces {
        let found = deletion(&segment.text, DEPTH_MAX, &mut lines, work);
        if found > Deletion::Unread || segment.kind == Kind::Command {
            worst = worst.max(found);
        }
    }
    let [high, medium, injection_high, injection_medium] = &*COMPILED;
    let matches = |patterns: &[Regex], text: &str| patterns.iter().any(|pattern| pattern.is_match(text));
    let in_lines = |patterns: &[Regex]| lines.iter().any(|line| matches(patterns, line));
    if worst == Deletion::Found || in_lines(high) || matches(injection_high, &everything) {
        return Risk::High;
    }
    if in_lines(medium) || matches(injection_medium, &everything) {
        return Risk::Medium;
    }
    match worst {
        Deletion::None => Risk::Low,
        Deletion::Hidden | Deletion::Unread | Deletion::Possible | Deletion::Found => Risk::Unknown,
    }
}

/// Whether a shell source deletes recursively and without confirmation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Deletion {
    None,
    /// A command may be hidden in the source. This matters only if a shell runs it.
    Hidden,
    /// A part of the source was not read, because it lies too deep or takes too much work. This matters only if a shell
    /// runs it.
    Unread,
    /// A command whose name only a running shell would know gets the options of such a deletion.
    Possible,
    Found,
}

/// Searches a source and what is nested in it. Adds each of its pipelines to `lines`, as a person would write it.
fn deletion(source: &str, depth: usize, lines: &mut Vec<String>, work: &mut Work) -> Deletion {
    let Some(depth) = depth.checked_sub(1) else { return Deletion::Unread };
    let Some(script) = work.read(source) else { return Deletion::Unread };
    let fed = pipe::fed(&script.pipelines);
    let mut worst = if script.is_unclear || fed.is_unclear { Deletion::Hidden } else { Deletion::None };
    lines.extend(script.pipelines.iter().map(line));
    for source in &fed.sources {
        worst = worst.max(deletion(source, depth, lines, work));
    }
    for command in script.pipelines.iter().flatten() {
        for nested in &command.nested {
            worst = worst.max(deletion(nested, depth, lines, work));
        }
        let expressions = evaluated::expressions(command, work);
        worst = if expressions.is_none() { worst.max(Deletion::Unread) } else { worst };
        for expression in expressions.iter().flatten() {
            let found = deletion(expression, depth, lines, work);
            // To most shells it is no command, so it need not be a valid one.
            worst = worst.max(if found == Deletion::Hidden { Deletion::None } else { found });
        }
        for run in Run::of(command) {
            for source in &run.sources {
                worst = worst.max(deletion(source, depth, lines, work));
            }
            if run.is_unclear {
                worst = worst.max(Deletion::Hidden);
            }
            if run.is_recursive_and_forced() {
                worst = worst.max(match run.name.as_deref() {
                    Some("rm") => Deletion::Found,
                    Some(_) => Deletion::None,
                    None => Deletion::Possible,
                });
            }
        }
    }
    worst
}

/// Returns a pipeline without quotes and redirections.
fn line(pipeline: &Pipeline) -> String {
    let words = |command: &Command| command.words.iter().map(Word::source).collect::<Vec<_>>().join(" ");
    plain(&pipeline.iter().map(words).collect::<Vec<_>>().join(" | "))
}

/// Returns whether the settings contain no patterns, or exactly the built-in ones.
pub(super) fn is_default(raw: Raw<'_>) -> bool {
    LISTS.iter().all(|(name, patterns)| {
        let Some(list) = raw.get(name) else { return true };
        let mut list = list.elements();
        let same = patterns.iter().all(|(pattern, _, _)| {
            list.next().and_then(|entry| entry.elements().next()).and_then(Raw::as_str).as_deref()
                == Some(*pattern)
        });
        same && list.next().is_none()
    })
}

/// Returns the settings as the reference writes them.
pub(super) fn to_json() -> String {
    let text = |text: &str| serde_json::Value::from(text).to_string();
    let lists = LISTS.iter().map(|(name, patterns)| {
        let entries = patterns.iter().map(|(pattern, description, id)| {
            format!("[{},{},{}]", text(pattern), text(description), text(id))
        });
        format!("{}:[{}]", text(name), entries.collect::<Vec<_>>().join(","))
    });
    format!("{{{},\"kind\":\"PatternSecurityAnalyzer\"}}", lists.collect::<Vec<_>>().join(","))
}
