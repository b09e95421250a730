//! `annals seen`: who saw a content.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::print::{Output, bytes, harmless, one_line, plural};
use super::select::{About, short_id, tell_values};
use super::{DONE, Place};
use crate::audit::json as shape;
use crate::audit::{Likeness, SeenBy, SeenReport, Sighting, Wanted, seen, seen_in};
use crate::chain::Digest;
use crate::error::{Error, Result};
use crate::store::{ConversationFilter, Store};
use crate::untrusted;

/// The largest file that can be looked for, in bytes.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Show who saw a content: the events that have it, and the models that were sent them
///
/// Looks for a text, for a file, or for the SHA-256 of a file or text. A file is found in whatever an event says: alone,
/// as a part, with line numbers before its lines, or as a picture. Reads the whole log, and no index. Of each event it
/// says how many replies of which models came after it, until it was condensed away, and whether it is still in what
/// the model sees. The SHA-256 also finds attachments.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals seen secret.env                          a file, whole
  annals seen --text 'BEGIN RSA PRIVATE KEY'
  annals seen --sha256 \"$(sha256sum < plan.pdf | cut -d' ' -f1)\"
  git show HEAD:app.py | annals seen -            a text from a pipe
  annals seen --text 10.0.0.7 --workspace . --model gpt")]
pub(super) struct Arguments {
    #[command(flatten)]
    pub what: What,
    /// Only in this conversation
    #[arg(long = "in", value_name = "ID")]
    pub conversation: Option<String>,
    #[command(flatten)]
    pub about: About,
}

/// The content to look for.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(super) struct What {
    /// The content of this file (- for standard input)
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// This text
    #[arg(long, value_name = "TEXT", value_parser = text)]
    pub text: Option<Wanted>,
    /// A text or file with this SHA-256, in hex digits
    #[arg(long, value_name = "HEX", value_parser = digest)]
    pub sha256: Option<Digest>,
}

fn text(text: &str) -> std::result::Result<Wanted, &'static str> {
    Wanted::text(text).ok_or("white space alone is found everywhere")
}

fn digest(text: &str) -> std::result::Result<Digest, &'static str> {
    Digest::from_hex(text.trim()).ok_or("a SHA-256 has 64 hex digits")
}

impl What {
    fn wanted(&self) -> Result<Wanted> {
        if let Some(digest) = self.sha256 {
            return Ok(Wanted::digest(digest));
        }
        if let Some(wanted) = &self.text {
            return Ok(wanted.clone());
        }
        let empty = || {
            io::Error::new(io::ErrorKind::InvalidData, "it has only white space, which is found everywhere")
        };
        let path = self.file.as_deref().unwrap_or(Path::new("-"));
        let content =
            if path == Path::new("-") { standard_input() } else { untrusted::read(path, FILE_BYTES_MAX) };
        content
            .and_then(|content| Wanted::content(&content).ok_or_else(empty))
            .map_err(Error::io("reading", path))
    }
}

fn standard_input() -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    io::stdin().lock().take(FILE_BYTES_MAX + 1).read_to_end(&mut content)?;
    if content.len() as u64 > FILE_BYTES_MAX {
        let what = format!("standard input has more than {}", bytes(FILE_BYTES_MAX));
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
    }
    Ok(content)
}

pub(super) fn run(place: &Place<'_>, command: &Arguments, output: &Output) -> Result<u8> {
    let wanted = command.what.wanted()?;
    let store = place.read()?;
    let filter = command.about.narrow(ConversationFilter::default());
    let bar = output.progress("events");
    let report = match &command.conversation {
        Some(prefix) => {
            let id = store.resolve(prefix)?;
            bar.set_length(store.conversation(&id)?.event_count);
            seen_in(&store, &wanted, &id, &mut |events| bar.set_position(events))?
        }
        None => {
            bar.set_length(store.last_position()?.0);
            seen(&store, &wanted, &filter, &mut |events| bar.set_position(events))?
        }
    };
    bar.finish_and_clear();
    if output.json {
        output.value(&value(&store, &report)?)?;
        return Ok(DONE);
    }
    for (place, by) in report.conversations.iter().enumerate() {
        if place > 0 {
            output.line("")?;
        }
        print(&store, by, output)?;
    }
    if !report.conversations.is_empty() {
        output.line("")?;
    }
    output.line(summary(&report))?;
    if report.searched == 0 {
        tell_values(&store, &filter, output)?;
    }
    Ok(DONE)
}

/// Prints a heading for a conversation, and its events with the content.
fn print(store: &Store, by: &SeenBy, output: &Output) -> Result<()> {
    let (row, facts) = (store.conversation(&by.conversation)?, store.facts(&by.conversation)?);
    let name =
        if output.is_terminal { short_id(store, &by.conversation)? } else { by.conversation.to_string() };
    let mut about = vec![output.bold(&harmless(&name))];
    about.push(output.bold(&one_line(row.title.as_deref().unwrap_or("(no title)"), 60)));
    for more in
        [facts.workspace, facts.started_by.map(|user| format!("started by {user}"))].into_iter().flatten()
    {
        about.push(output.dim(&one_line(&more, 60)));
    }
    output.line(about.join("  "))?;
    for sighting in &by.sightings {
        let time = sighting.timestamp.as_deref().unwrap_or_default();
        let time = one_line(time.get(..19).unwrap_or(time), 19).replace('T', " ");
        let tool =
            sighting.tool.as_deref().map_or_else(String::new, |tool| format!(", {}", one_line(tool, 40)));
        let head = format!("{:>6}  {time}  {}{tool}", sighting.sequence.0, one_line(&sighting.kind, 40));
        output.line(output.dim(&head))?;
        let place = one_line(&sighting.place, 60);
        output.line(format!("        {} {place}: {}", how(sighting.likeness), sent(sighting)))?;
    }
    for path in &by.attachments {
        output
            .line(format!("        attached as {}: beside the log, sent to no model", one_line(path, 100)))?;
    }
    Ok(())
}

fn how(likeness: Likeness) -> &'static str {
    match likeness {
        Likeness::Same => "is",
        Likeness::Part => "is in",
        Likeness::Numbered => "is in, with line numbers,",
    }
}

/// Says who was sent an event.
fn sent(sighting: &Sighting) -> String {
    if !sighting.is_sent {
        return "for programs, sent to no model".to_owned();
    }
    let view = if sighting.is_in_view { "in the model's view now" } else { "not in the model's view now" };
    let replies = match sighting.replies {
        0 => "no reply after it".to_owned(),
        count => {
            let replies = if count == 1 { "1 reply".to_owned() } else { format!("{count} replies") };
            let models = match sighting.models.as_slice() {
                [] => String::new(),
                models => format!(" of {}", one_line(&models.join(", "), 100)),
            };
            format!("{replies}{models} after it")
        }
    };
    format!("{replies}; {view}")
}

fn summary(report: &SeenReport) -> String {
    let searched =
        format!("{}, {} searched", plural(report.searched, "conversation"), plural(report.events, "event"));
    let events = report.sightings() as u64 + report.left_off;
    let files: usize = report.conversations.iter().map(|by| by.attachments.len()).sum();
    let mut found = Vec::new();
    if events > 0 {
        found.push(plural(events, "event"));
    }
    if files > 0 {
        found.push(plural(files as u64, "attachment"));
    }
    if found.is_empty() {
        return format!("{searched}: nothing has it");
    }
    let left_off = match report.left_off {
        0 => String::new(),
        more => format!("; {} not shown, narrow the search", plural(more, "event")),
    };
    let conversations = plural(report.conversations.len() as u64, "conversation");
    format!("{searched}: it is in {} of {conversations}{left_off}", found.join(" and "))
}

fn value(store: &Store, report: &SeenReport) -> Result<Value> {
    let mut conversations = Vec::new();
    for by in &report.conversations {
        let mut one = json!({
            "conversation": by.conversation.as_str(),
            "title": store.conversation(&by.conversation)?.title,
            "attachments": by.attachments,
            "events": by.sightings.iter().map(|sighting| json!({
                "sequence": sighting.sequence.0,
                "id": sighting.id,
                "kind": sighting.kind,
                "timestamp": sighting.timestamp,
                "tool": sighting.tool,
                "place": sighting.place,
                "is_sent": sighting.is_sent,
                "likeness": sighting.likeness.as_str(),
                "replies_after": sighting.replies,
                "models": sighting.models,
                "is_in_view": sighting.is_in_view,
            })).collect::<Vec<_>>(),
        });
        shape::add_facts(&mut one, &store.facts(&by.conversation)?);
        conversations.push(one);
    }
    Ok(json!({
        "conversations": conversations,
        "left_off": report.left_off,
        "conversations_searched": report.searched,
        "events_searched": report.events,
    }))
}
