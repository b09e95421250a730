//! `annals import`: imports conversations, and prints the result of each.

mod claim;
mod places;
mod report;
mod stamps;
mod watch;

use std::path::{Path, PathBuf};
use std::time::Instant;

use super::print::{Output, count, plural};
use super::stopped::Stopped;
use super::{DONE, Place, REFUSED};
use crate::error::{Error, Result};
use crate::ids::ConversationId;
use crate::store::{Options, Store};
use crate::transfer::{Discovery, ImportOptions, ImportReport, Importer, SourceFormat, discover, seen};
use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use report::Skipped;
use serde_json::json;

/// Find conversations under the given paths, and import them with every byte
///
/// Reads OpenHands conversations of any age (current layout, event_service/, V0 sessions), JSON lines and
/// JSON arrays of events; logs of Claude Code, Codex, LangGraph and the OpenAI Agents SDK become read-only copies
/// (docs/formats.md). Damaged conversations are imported as far as they can be read, and data that cannot be an
/// event is kept beside the events. Another import adds only new events.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals import ~/.openhands/conversations
  annals import trajectory.json session/
  annals import ~/.claude/projects ~/.codex/sessions checkpoints.sqlite
  annals import --discover                     what is in the usual places, and then a question
  annals import backup/ --dry-run              what would be imported, and what is skipped
  annals import --watch ~/.claude/projects     and then follow the sessions that grow
  annals --json import backup/ | jq '.conversations[] | select(.status != \"imported\")'")]
pub(super) struct Arguments {
    /// Conversation folders, folders of them, or files of events
    #[arg(required_unless_present = "discover", conflicts_with = "discover", value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Look in the usual places of OpenHands, Claude Code and Codex instead; imports after a yes, or with --yes
    #[arg(long)]
    pub discover: bool,
    /// Import what --discover has found without asking
    #[arg(long, requires = "discover")]
    pub yes: bool,
    /// Give the conversation this id instead of its own (for a single one)
    #[arg(long = "as", value_name = "ID")]
    pub id: Option<String>,
    /// Accept changes of files beside the events, even if no event was added
    #[arg(long)]
    pub accept_changed_files: bool,
    /// Import conversations again that were erased here
    #[arg(long)]
    pub accept_erased: bool,
    /// The format of the sources, instead of detecting it
    #[arg(long, value_enum)]
    pub format: Option<SourceFormat>,
    /// Write nothing, and show what would be imported
    #[arg(long)]
    pub dry_run: bool,
    /// After the import, keep following the paths: new files and appended lines are imported until Ctrl-C
    #[arg(long, conflicts_with_all = ["dry_run", "id"])]
    pub watch: bool,
}

impl ValueEnum for SourceFormat {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.as_str()).help(self.description()))
    }
}

pub(super) fn run(place: &Place<'_>, command: &Arguments, output: &Output) -> Result<u8> {
    if !command.discover {
        return import(place, command, &command.paths, output);
    }
    let places = places::look(command.format)?;
    let is_named = !places.is_empty() && (command.yes || command.dry_run);
    if output.json {
        let is_taken = is_named && !command.dry_run;
        output.value(&json!({"places": places::values(&places), "taken": is_taken}))?;
    } else {
        places::print(&places, output)?;
    }
    if places.is_empty() {
        return Ok(REFUSED);
    }
    if !is_named && (output.json || !places::is_wanted(&places, place.path)?) {
        output.remark(
            "nothing was imported; `annals import --discover --yes` imports all of it, and a PATH one place",
        );
        return Ok(DONE);
    }
    let paths: Vec<PathBuf> = places.into_iter().map(|place| place.path).collect();
    import(place, command, &paths, output)
}

/// Imports the conversations at `paths`.
fn import(place: &Place<'_>, command: &Arguments, paths: &[PathBuf], output: &Output) -> Result<u8> {
    if command.watch {
        return watch::run(place, command, paths, output);
    }
    let id = command.id.as_deref().map(ConversationId::new).transpose()?;
    let mut skipped = Skipped::default();
    // Searched before the database is created, so that a mistyped path leaves no empty file behind.
    let kept = |path: &Path| kept_from(place, path);
    let Search { found, gone } = search(paths, command.format, &mut skipped, &kept)?;
    for Gone { path, kept } in &gone {
        output.remark(format!(
            "{} has no conversations any more; what was imported from it is kept ({})",
            path.display(),
            plural(*kept, "conversation")
        ));
    }
    // Before the database is opened, which waits for other programs: a signal is caught from then on.
    let bar = output.progress("conversations");
    let words = Stopped::says(
        &bar,
        if command.dry_run {
            "nothing was written"
        } else {
            "what was imported is whole; the same command imports the rest"
        },
    );
    let store = if command.dry_run { without_writing(place)? } else { place.create()? };
    let options = ImportOptions {
        id,
        accept_changed_files: command.accept_changed_files,
        accept_erased: command.accept_erased,
        format: command.format,
        dry_run: command.dry_run,
    };
    let code = |reports: &[ImportReport], skipped: &Skipped| match reports {
        [] if !gone.is_empty() && !skipped.is_any() => DONE,
        _ => report::code(reports, skipped),
    };
    let mut importer = Importer::new(&store, options);
    let started = Instant::now();
    let mut reports = Vec::new();
    for discovery in &found {
        reports.extend(importer.import_found(discovery, &|_| true, &mut |progress| {
            bar.set_length(progress.conversations as u64);
            bar.set_position(progress.conversation as u64);
            let per_second = progress.events as f64 / started.elapsed().as_secs_f64().max(0.001);
            bar.set_message(format!("{} events, {}/s", count(progress.events), count(per_second as u64)));
        })?);
    }
    bar.finish_and_clear();
    drop(words);
    if command.dry_run {
        if output.json || !reports.is_empty() || gone.is_empty() {
            report::show_plan(place, &reports, &skipped, &gone, output)?;
        }
        return Ok(code(&reports, &skipped));
    }
    store.catch_up()?;
    if output.json {
        output.value(&report::result(&reports, &skipped, &gone, false))?;
    } else if !reports.is_empty() || gone.is_empty() {
        report::print(place, &reports, &skipped, started.elapsed().as_secs_f64(), output)?;
    }
    Ok(code(&reports, &skipped))
}

/// Opens the store for an import that writes nothing. If there is no file, the store is an empty one in memory.
fn without_writing(place: &Place<'_>) -> Result<Store> {
    match place.path.exists() {
        true => place.read_only(),
        false => Store::in_memory(&Options { follow_projections: false, ..Options::default() }),
    }
}

/// What was found at the paths.
struct Search {
    found: Vec<Discovery>,
    gone: Vec<Gone>,
}

/// A path that has no conversations any more: programs clear up after some weeks.
struct Gone {
    path: PathBuf,
    /// The number of conversations that were imported from it.
    kept: u64,
}

/// Returns how many conversations in the file were imported from a path.
fn kept_from(place: &Place<'_>, path: &Path) -> Result<u64> {
    let full = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    if place.path.exists() { place.read_only()?.imported_below(&full.to_string_lossy()) } else { Ok(0) }
}

/// Searches the paths for conversations. Adds what is skipped to `skipped`. `kept` returns how many conversations were
/// imported from a path.
///
/// A file that the caller names and that is in no known format does not stop the others.
///
/// # Errors
/// [`Error::Io`] if a path does not exist, and [`Error::Input`] if there is no conversation at any path, and never was.
fn search(
    paths: &[PathBuf],
    format: Option<SourceFormat>,
    skipped: &mut Skipped,
    kept: &dyn Fn(&Path) -> Result<u64>,
) -> Result<Search> {
    let (mut found, mut gone, mut refused) = (Vec::new(), Vec::new(), Vec::new());
    for path in paths {
        let searched = discover(path, format);
        let is_empty = match &searched {
            Ok(discovery) => discovery.found.is_empty() && path.is_dir(),
            Err(Error::Io { source, .. }) => source.kind() == std::io::ErrorKind::NotFound,
            Err(_) => false,
        };
        if is_empty {
            let kept = kept(path)?;
            if kept > 0 {
                gone.push(Gone { path: path.clone(), kept });
                continue;
            }
        }
        match searched {
            Ok(discovery) => {
                skipped.add(&discovery);
                if discovery.found.is_empty() {
                    refused.push(without_conversations(path, &discovery, format));
                } else {
                    found.push(discovery);
                }
            }
            Err(error @ Error::Input(_)) => {
                skipped.refuse(&error);
                refused.push(error);
            }
            Err(error) => return Err(error),
        }
    }
    match refused.into_iter().next() {
        Some(first) if found.is_empty() => Err(first),
        _ => Ok(Search { found, gone }),
    }
}

/// Returns the error for a path at which there is no conversation.
fn without_conversations(path: &Path, discovery: &Discovery, format: Option<SourceFormat>) -> Error {
    let what = if path.is_dir() { "folder" } else { "database" };
    let of_format = format.map_or_else(String::new, |format| format!(" of the format {}", format.as_str()));
    let seen = match (discovery.ignored_count, discovery.ignored.first()) {
        (0, _) | (_, None) if path.is_dir() => "an empty folder".to_owned(),
        (0, _) | (_, None) => format!("a {what} without a conversation{of_format}"),
        (count, Some(first)) => {
            let name = first.path.file_name().unwrap_or_default().to_string_lossy();
            let files = plural(count, "file");
            format!("a {what} of {files} without a conversation{of_format} ({name} is {})", first.reason)
        }
    };
    seen::refusal(path, seen)
}
