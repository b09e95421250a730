//! `list_conversations`: the newest first, by folder, program, time and title.

use serde_json::{Value, json};

use super::{Call, Tool, workspace_schema};
use crate::error::Result;
use crate::event::foreign::ForeignFormat;
use crate::ids::Timestamp;
use crate::mcp::cursor::short;
use crate::mcp::mask::Mask;
use crate::mcp::page::{in_line, name};
use crate::mcp::trouble::Trouble;
use crate::mcp::workspace;
use crate::store::{Conversation, ConversationFilter, Order};
use crate::visualizer::one_line;

pub(super) const TOOL: Tool = Tool {
    name: "list_conversations",
    title: "List past conversations",
    description: "Lists past conversations of agents, the most recently updated first, with title, workspace, status and \
                  number of events. Use it for \"what was done here lately?\" (workspace \".\"); to find something by \
                  its words, use search_conversations.",
    properties,
    required: &[],
    is_paged: true,
    writes: false,
    answer,
};

/// The most conversations of an answer, and the default.
const LIMIT_MAX: u64 = 200;
const LIMIT: u64 = 20;

/// The number of conversations that are read at once.
const STEP: usize = 200;

fn sources() -> Vec<&'static str> {
    let formats = ForeignFormat::ALL.iter().map(|format| format.as_str());
    ["annals", "openhands", "openhands-v0"].into_iter().chain(formats).collect()
}

fn properties() -> Value {
    json!({
        "workspace": workspace_schema(),
        "source": {
            "type": "string", "enum": sources(),
            "description": "Only conversations that this program wrote; annals for those that ran here.",
        },
        "title": {"type": "string", "description": "Only conversations with this text in the title or first message."},
        "status": {
            "type": "string",
            "description": "Only conversations of this status: finished, error, stuck, paused, idle, running.",
        },
        "since": {"type": "string", "description": "Only conversations updated at or after this time (2026-01-31)."},
        "until": {"type": "string", "description": "Only conversations updated before this time."},
        "limit": {
            "type": "integer", "minimum": 1, "maximum": LIMIT_MAX,
            "description": "The most conversations; 20 by default.",
        },
    })
}

fn answer(call: &Call<'_>) -> std::result::Result<String, Trouble> {
    let limit = call.arguments.number("limit", 1, LIMIT_MAX)?.unwrap_or(LIMIT) as usize;
    let source = call.arguments.words("source", &sources())?.into_iter().next();
    let until = call.arguments.time("until")?;
    let place = call.place::<2>()?;
    // A conversation that is updated meanwhile moves to the beginning. The others keep their places.
    let from = place.map(|[at, _]| Timestamp(at.cast_signed().saturating_add(1)));
    let filter = ConversationFilter {
        statuses: call.arguments.text("status")?.map(str::to_owned).into_iter().collect(),
        title: call.arguments.text("title")?.map(str::to_owned),
        updated_from: call.arguments.time("since")?,
        updated_before: [until, from].into_iter().flatten().min(),
        workspace: workspace::wanted(call.recall, call.arguments.text("workspace")?)?,
        source,
        ..ConversationFilter::default()
    };
    let mut walk = Walk { call, filter, place };
    let mut page = call.page("Conversations, the most recently updated first:")?;
    let (mut shown, mut after, mut last) = (0, None, None);
    loop {
        let step = walk.step(after.as_ref())?;
        for conversation in step.conversations {
            if shown == limit {
                return Ok(end(call, page, shown, last.as_ref()));
            }
            let before = last.replace(place_of(&conversation));
            let facts = call.store.facts(&conversation.id)?;
            let mask = call.mask(&conversation.id)?;
            let item = head(&conversation, facts.workspace.as_deref(), &mask)
                + &rest(&conversation, facts.source.as_deref(), &mask);
            if !page.push(&item) {
                return Ok(end(call, page, shown, before.or(place).as_ref()));
            }
            shown += 1;
        }
        match step.next {
            Some(next) => after = Some(next),
            None => return Ok(end(call, page, shown, None)),
        }
    }
}

/// Ends the answer. `place` is that of the conversation after which the next page begins; `None` at the end of the list.
fn end(call: &Call<'_>, page: crate::mcp::page::Page, shown: usize, place: Option<&[u64; 2]>) -> String {
    let count = if shown == 1 { "1 conversation.".to_owned() } else { format!("{shown} conversations.") };
    match place {
        Some(place) => call.end(page, Some(place), &count),
        None => call.end(page, None, &format!("{count} That is all.")),
    }
}

fn place_of(conversation: &Conversation) -> [u64; 2] {
    [conversation.updated_at.0.cast_unsigned(), short(conversation.id.as_str())]
}

/// The conversations that match, in steps.
struct Walk<'a> {
    call: &'a Call<'a>,
    filter: ConversationFilter,
    /// The conversation after which this page begins. Those of the same time may stand before or after it.
    place: Option<[u64; 2]>,
}

impl Walk<'_> {
    fn step(&mut self, after: Option<&crate::ids::ConversationId>) -> Result<crate::store::ConversationPage> {
        let mut step = self.call.store.conversations(&self.filter, Order::UpdatedDescending, after, STEP)?;
        if let Some(place) = self.place.take() {
            let at = Timestamp(place[0].cast_signed());
            let same = step.conversations.iter().take_while(|one| one.updated_at == at);
            if let Some(known) = same.map(place_of).position(|one| one == place) {
                step.conversations.drain(..=known);
            }
        }
        Ok(step)
    }
}

/// Returns the first lines about a conversation: its id, its figures, its title and its folder.
pub(super) fn head(conversation: &Conversation, folder: Option<&str>, mask: &Mask) -> String {
    let mut head = format!(
        "conversation {} ({}, {} events, updated {})\n",
        name(conversation.id.as_str(), 200),
        name(&conversation.status, 30),
        conversation.event_count,
        minutes(conversation.updated_at),
    );
    if let Some(title) = &conversation.title {
        head.push_str(&format!("> title: {}\n", in_line(&mask.text(title), 160)));
    }
    if let Some(folder) = folder {
        head.push_str(&format!("> workspace: {}\n", in_line(&mask.text(folder), 240)));
    }
    head
}

/// Returns the further lines of the list.
fn rest(conversation: &Conversation, source: Option<&str>, mask: &Mask) -> String {
    let source = source.unwrap_or("unknown");
    let mut rest = format!("source {}, begun {}\n", name(source, 30), minutes(conversation.created_at));
    if let Some(parent) = &conversation.parent {
        rest.push_str(&format!("sub-agent of {}\n", name(parent, 200)));
    }
    if let Some(fork) = &conversation.forked_from {
        rest.push_str(&format!("fork of {}\n", name(fork, 200)));
    }
    if conversation.tags != "{}" {
        rest.push_str(&format!("> tags: {}\n", one_line(&mask.text(&conversation.tags), 240)));
    }
    rest
}

/// Returns a time in UTC, to the minute.
pub(super) fn minutes(time: Timestamp) -> String {
    let whole = time.to_rfc3339();
    whole.get(..16).map_or(whole.clone(), |minutes| format!("{minutes}Z"))
}
