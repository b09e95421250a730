//! `annals search`: finds words in all transcripts.

use std::collections::HashMap;

use clap::Args;
use serde_json::{Value, json};

use super::print::{Output, harmless, one_line, plural, width};
use super::select::{About, moment, short_id, tell_values};
use super::{DONE, Place};
use crate::audit::json as shape;
use crate::error::Result;
use crate::ids::{ConversationId, Position, Timestamp};
use crate::store::{Conversation, ConversationFacts, ConversationFilter, Hit, SearchFilter, Store};

/// Search all transcripts
///
/// All words must occur, in any case and order. "a phrase" must occur as written, begin* matches the start of a
/// word, and -word must not occur. The first search of a file builds its index. The newest hits come first, under a
/// heading for each conversation.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals search 'borrow checker'
  annals search '\"permission denied\" -sudo' --tool terminal
  annals search panic --workspace . --since 7d
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
    /// Only events from this time on (2026-01-31, 7d, yesterday)
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub since: Option<Timestamp>,
    /// Only events before this time
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub until: Option<Timestamp>,
    #[command(flatten)]
    pub about: About,
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub limit: usize,
    /// Only events before this position, the last one of the previous page
    #[arg(long, value_name = "POSITION")]
    pub before: Option<u64>,
    /// Print one line for each hit, without headings
    #[arg(long)]
    pub flat: bool,
}

pub(super) fn run(place: &Place<'_>, command: &Arguments, output: &Output) -> Result<u8> {
    let store = place.read()?;
    let conversation = command.conversation.as_deref().map(|prefix| store.resolve(prefix)).transpose()?;
    let about = command.about.narrow(ConversationFilter::default());
    let filter = SearchFilter {
        conversation,
        kinds: command.kind.clone(),
        tool: command.tool.clone(),
        before: command.before.map(Position),
        since: command.since,
        until: command.until,
        workspace: about.workspace.clone(),
        source: about.source.clone(),
        model: about.model.clone(),
        started_by: about.started_by.clone(),
    };
    let text = command.text.join(" ");
    let bar = output.progress("events");
    let hits = store.search(&text, &filter, command.limit, &mut |progress| {
        bar.set_length(progress.last_position.0);
        bar.set_position(progress.position.0);
        bar.set_message("building the search index");
    })?;
    bar.finish_and_clear();
    let found = Found::read(&store, &hits)?;
    if output.json {
        output.value(&found.value(&hits, command.limit))?;
        return Ok(DONE);
    }
    if command.flat {
        found.print_flat(&hits, output)?
    } else {
        found.print(&store, &hits, output)?
    }
    output.remark(match hits.last() {
        Some(last) if hits.len() == command.limit => {
            format!("\n{}; the next ones: --before {}", plural(hits.len() as u64, "hit"), last.position.0)
        }
        _ => format!("\n{}", plural(hits.len() as u64, "hit")),
    });
    if hits.is_empty() {
        tell_values(&store, &about, output)?;
    }
    Ok(DONE)
}

/// The conversations of the hits.
struct Found {
    /// In the order of their first hits.
    order: Vec<ConversationId>,
    about: HashMap<ConversationId, (Conversation, ConversationFacts)>,
}

impl Found {
    fn read(store: &Store, hits: &[Hit]) -> Result<Self> {
        let mut found = Self { order: Vec::new(), about: HashMap::new() };
        for Hit { conversation: id, .. } in hits {
            if !found.about.contains_key(id) {
                found.order.push(id.clone());
                found.about.insert(id.clone(), (store.conversation(id)?, store.facts(id)?));
            }
        }
        Ok(found)
    }

    /// Returns the hits for programs, each with what is known of its conversation.
    fn value(&self, hits: &[Hit], limit: usize) -> Value {
        let mut page = shape::hits(hits, limit);
        for (place, hit) in hits.iter().enumerate() {
            if let Some((conversation, facts)) = self.about.get(&hit.conversation) {
                page["hits"][place]["title"] = json!(conversation.title);
                shape::add_facts(&mut page["hits"][place], facts);
            }
        }
        page
    }

    /// Prints a heading for each conversation, and its hits below it.
    fn print(&self, store: &Store, hits: &[Hit], output: &Output) -> Result<()> {
        for (place, id) in self.order.iter().enumerate() {
            if place > 0 {
                output.line("")?;
            }
            let name = if output.is_terminal { short_id(store, id)? } else { id.to_string() };
            let mut heading = output.bold(&harmless(&name));
            if let Some((conversation, facts)) = self.about.get(id) {
                let title = one_line(conversation.title.as_deref().unwrap_or("(no title)"), 60);
                let workspace =
                    facts.workspace.as_deref().map(|folder| format!("  {}", one_line(folder, 60)));
                let day = conversation.updated_at.to_rfc3339().get(..10).unwrap_or_default().to_owned();
                heading += &format!("  {}", output.bold(&title));
                heading += &output.dim(&format!("{}  {day}", workspace.unwrap_or_default()));
            }
            output.line(heading)?;
            for hit in hits.iter().filter(|hit| hit.conversation == *id) {
                let head = format!("{:>6}  {}  {}", hit.sequence.0, harmless(&hit.kind), written(hit));
                output.line(output.dim(head.trim_end()))?;
                output.line(format!("        {}", marked(hit, output)))?;
            }
        }
        Ok(())
    }

    /// Prints one line for each hit. On a terminal it is cut to fit.
    fn print_flat(&self, hits: &[Hit], output: &Output) -> Result<()> {
        for hit in hits {
            let id = hit.conversation.to_string();
            let head = format!("{id} {} {} {}", hit.sequence.0, harmless(&hit.kind), written(hit));
            let head = head.trim_end();
            if output.is_terminal {
                let room = usize::from(width()).saturating_sub(head.chars().count() + 1).max(20);
                output.line(format!("{} {}", output.dim(head), one_line(&hit.snippet, room)))?;
            } else {
                output.line(format!("{head} {}", marked(hit, output)))?;
            }
        }
        Ok(())
    }
}

/// Returns an event's time as it is written, to the second. "" if it has none.
fn written(hit: &Hit) -> String {
    let time = hit.timestamp.as_deref().unwrap_or_default();
    one_line(time.get(..19).unwrap_or(time), 19).replace('T', " ")
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
