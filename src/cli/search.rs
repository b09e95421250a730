//! `annals search`: finds words in all transcripts.

use clap::Args;

use super::print::{Output, harmless, plural};
use super::{DONE, Place};
use crate::audit::json;
use crate::error::Result;
use crate::ids::Position;
use crate::store::{Hit, SearchFilter};

/// Search all transcripts
///
/// All words must occur, in any case and order. "a phrase" must occur as written, begin* matches the start of a
/// word, and -word must not occur. The first search of a file builds its index.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals search 'borrow checker'
  annals search '\"permission denied\" -sudo' --tool terminal
  annals search 'Store::append' --in 5610a7")]
pub(super) struct Arguments {
    /// What to search for
    #[arg(required = true)]
    pub text: Vec<String>,
    /// Only in this conversation
    #[arg(long = "in", value_name = "ID")]
    pub conversation: Option<String>,
    /// Only events of these kinds
    #[arg(long, value_name = "KIND")]
    pub kind: Vec<String>,
    /// Only events of this tool
    #[arg(long, value_name = "TOOL")]
    pub tool: Option<String>,
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub limit: usize,
    /// Only events before this position, the last one of the previous page
    #[arg(long, value_name = "POSITION")]
    pub before: Option<u64>,
}

pub(super) fn run(place: &Place<'_>, command: &Arguments, output: &Output) -> Result<u8> {
    let store = place.read()?;
    let conversation = command.conversation.as_deref().map(|prefix| store.resolve(prefix)).transpose()?;
    let filter = SearchFilter {
        conversation,
        kinds: command.kind.clone(),
        tool: command.tool.clone(),
        before: command.before.map(Position),
    };
    let text = command.text.join(" ");
    let bar = output.progress("events");
    let hits = store.search(&text, &filter, command.limit, &mut |progress| {
        bar.set_length(progress.last_position.0);
        bar.set_position(progress.position.0);
        bar.set_message("building the search index");
    })?;
    bar.finish_and_clear();
    if output.json {
        output.value(&json::hits(&hits, command.limit))?;
        return Ok(DONE);
    }
    for hit in &hits {
        let head = format!("{} {} {}", hit.conversation, hit.sequence.0, harmless(&hit.kind));
        output.line(output.dim(&head))?;
        output.line(format!("    {}", marked(hit, output)))?;
    }
    output.remark(match hits.last() {
        Some(last) if hits.len() == command.limit => {
            format!("\n{}; the next ones: --before {}", plural(hits.len() as u64, "hit"), last.position.0)
        }
        _ => format!("\n{}", plural(hits.len() as u64, "hit")),
    });
    Ok(DONE)
}

/// Returns the snippet with the found words highlighted.
fn marked(hit: &Hit, output: &Output) -> String {
    let mut text = String::new();
    let mut at = 0;
    for mark in &hit.marks {
        let (Some(before), Some(word)) = (hit.snippet.get(at..mark.start), hit.snippet.get(mark.clone()))
        else {
            continue;
        };
        text.push_str(&harmless(before));
        text.push_str(&output.styled(&harmless(word), "1;33"));
        at = mark.end;
    }
    text.push_str(&harmless(hit.snippet.get(at..).unwrap_or_default()));
    text
}
