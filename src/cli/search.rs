//! `annals search`: words in any transcript.

use super::arguments::Search;
use super::print::{Output, harmless, plural};
use super::{DONE, Place};
use crate::audit::json;
use crate::error::Result;
use crate::ids::Position;
use crate::store::{Hit, SearchFilter};

pub(super) fn run(place: &Place<'_>, command: &Search, output: &Output) -> Result<u8> {
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
        bar.set_length(progress.head.0);
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

/// The snippet with the words that were found standing out.
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
