//! `search_conversations`: full text, the hits of a conversation together.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use super::{Call, Tool, conversation_schema, workspace_schema};
use crate::error::{Error, Result};
use crate::ids::{ConversationId, Position};
use crate::mcp::mask::Mask;
use crate::mcp::page::{in_line, name};
use crate::mcp::trouble::Trouble;
use crate::mcp::workspace;
use crate::store::{Conversation, Hit, SearchFilter};
use crate::visualizer::one_line;

pub(super) const TOOL: Tool = Tool {
    name: "search_conversations",
    title: "Search past conversations",
    description: "Searches the text of all past conversations of agents (messages, tool calls, their output) and \
                  lists the conversations that match, newest first, each with its best lines. Use it before you begin \
                  a task: has this error, this command or this decision come up before, in this workspace \
                  (workspace \".\") or in any other? All words of the query must occur in one event, in any order; \
                  few and rare words find most. \"a phrase\" must occur as written, begin* matches beginnings, -word \
                  must not occur. Then read around a hit with read_conversation.",
    properties,
    required: &["query"],
    is_paged: true,
    writes: false,
    answer,
};

/// The most conversations of an answer, and the default.
const CONVERSATIONS_MAX: u64 = 50;
const CONVERSATIONS: u64 = 10;

/// The number of hits that one step of a search reads.
const STEP: usize = 200;

/// The most hits that one call looks at. A cursor goes on behind them.
const HITS_MAX: usize = 5_000;

/// The most lines that are shown of a conversation.
const LINES_MAX: usize = 3;

/// The width of such a line, in columns.
const LINE_WIDTH: usize = 240;

/// What is shown instead of a line with a secret in its event.
const HIDDEN: &str =
    "(not shown, because this event has what looks like a secret; read_conversation shows it without)";

fn properties() -> Value {
    json!({
        "query": {"type": "string", "description": "The words to search for."},
        "workspace": workspace_schema(),
        "conversation": conversation_schema(),
        "kinds": {
            "type": "array", "items": {"type": "string"},
            "description": "Only events of these kinds, such as MessageEvent, ActionEvent, ObservationEvent, \
                            AgentErrorEvent.",
        },
        "tool": {"type": "string", "description": "Only events of this tool, such as terminal."},
        "since": {"type": "string", "description": "Only events at or after this time (2026-01-31)."},
        "until": {"type": "string", "description": "Only events before this time."},
        "limit": {
            "type": "integer", "minimum": 1, "maximum": CONVERSATIONS_MAX,
            "description": "The most conversations; 10 by default.",
        },
    })
}

/// The hits of a conversation.
struct Group {
    conversation: Conversation,
    folder: Option<String>,
    hits: Vec<Hit>,
    count: usize,
}

fn answer(call: &Call<'_>) -> std::result::Result<String, Trouble> {
    let query = call.arguments.required("query")?;
    let limit = call.arguments.number("limit", 1, CONVERSATIONS_MAX)?.unwrap_or(CONVERSATIONS) as usize;
    let filter = SearchFilter {
        conversation: match call.arguments.text("conversation")? {
            Some(_) => Some(call.conversation()?),
            None => None,
        },
        kinds: call.arguments.texts("kinds")?,
        tool: call.arguments.text("tool")?.map(str::to_owned),
        since: call.arguments.time("since")?,
        until: call.arguments.time("until")?,
        workspace: workspace::wanted(call.recall, call.arguments.text("workspace")?)?,
        ..SearchFilter::default()
    };
    // Later pages look at the same part of the log as the first one.
    let [end, from] = match call.place()? {
        Some(places) => places,
        None => [call.store.last_position()?.0 + 1; 2],
    };
    let search = Search { call, query, filter, end, from };
    let (groups, rest) = search.groups(limit)?;
    let mut page = call.page(&format!("Search for {}:", in_line(query, 200)))?;
    let count = groups.len();
    for (index, group) in groups.iter().enumerate() {
        if !page.push(&shown(call, group)?) {
            let first = group.hits.first().map_or(from, |hit| hit.position.0 + 1);
            return Ok(call.end(page, Some(&[end, first]), &format!("{index} conversations.")));
        }
    }
    let found = match (count, call.arguments.text("cursor")?) {
        (0, None) if rest.is_none() => {
            "Nothing matches. All words must occur in one event: use fewer or rarer words, begin*, or leave out \
             conditions such as workspace."
                .to_owned()
        }
        (1, _) => "1 conversation.".to_owned(),
        _ => format!("{count} conversations."),
    };
    Ok(match rest {
        Some(rest) => call.end(page, Some(&[end, rest]), &found),
        None if count == 0 => call.end(page, None, &found),
        None => call.end(page, None, &format!("{found} That is all.")),
    })
}

struct Search<'a> {
    call: &'a Call<'a>,
    query: &'a str,
    filter: SearchFilter,
    /// Only hits before this position.
    end: u64,
    /// This page begins with hits before this position.
    from: u64,
}

impl Search<'_> {
    /// Returns the hits before a position, the newest first.
    fn hits(&self, before: u64, conversation: Option<&ConversationId>, limit: usize) -> Result<Vec<Hit>> {
        let mut filter = SearchFilter { before: Some(Position(before)), ..self.filter.clone() };
        if let Some(conversation) = conversation {
            filter.conversation = Some(conversation.clone());
        }
        let search = || self.call.store.search(self.query, &filter, limit, &mut |_| ());
        match search() {
            Err(Error::NoIndex { path }) => match self.call.recall.index() {
                Ok(()) => search(),
                Err(_) => Err(Error::NoIndex { path }),
            },
            found => found,
        }
    }

    /// Returns at most `limit` conversations, and the position before which the next page begins.
    fn groups(&self, limit: usize) -> Result<(Vec<Group>, Option<u64>)> {
        let (mut groups, mut places): (Vec<Group>, HashMap<ConversationId, usize>) = Default::default();
        let mut passed: HashSet<ConversationId> = HashSet::new();
        let (mut before, mut seen) = (self.from, 0);
        loop {
            let hits = self.hits(before, None, STEP)?;
            let is_last = hits.len() < STEP;
            for hit in hits {
                let here = hit.position.0 + 1;
                before = hit.position.0;
                seen += 1;
                if passed.contains(&hit.conversation) {
                    continue;
                }
                if let Some(place) = places.get(&hit.conversation) {
                    groups[*place].add(hit);
                    continue;
                }
                let Some(group) = self.begin(&hit)? else {
                    passed.insert(hit.conversation);
                    continue;
                };
                if groups.len() == limit {
                    return Ok((groups, Some(here)));
                }
                places.insert(hit.conversation.clone(), groups.len());
                groups.push(group);
                let last = groups.len() - 1;
                groups[last].add(hit);
            }
            if is_last {
                return Ok((groups, None));
            }
            if seen >= HITS_MAX {
                return Ok((groups, Some(before)));
            }
        }
    }

    /// Begins the group of a hit. `None` if the conversation was deleted, or is on an earlier page.
    fn begin(&self, hit: &Hit) -> Result<Option<Group>> {
        let Some(conversation) = self.call.store.find(&hit.conversation)? else { return Ok(None) };
        if self.is_on_an_earlier_page(&hit.conversation)? {
            return Ok(None);
        }
        let folder = self.call.store.facts(&hit.conversation)?.workspace;
        Ok(Some(Group { conversation, folder, hits: Vec::new(), count: 0 }))
    }

    /// Returns whether the newest hit of a conversation stands before this page.
    fn is_on_an_earlier_page(&self, conversation: &ConversationId) -> Result<bool> {
        let newest = self.hits(self.end, Some(conversation), 1)?;
        Ok(newest.first().is_some_and(|hit| hit.position.0 >= self.from))
    }
}

impl Group {
    fn add(&mut self, hit: Hit) {
        self.count += 1;
        if self.hits.len() < LINES_MAX {
            self.hits.push(hit);
        }
    }
}

/// Returns a conversation with its lines.
fn shown(call: &Call<'_>, group: &Group) -> Result<String> {
    let mask = call.mask(&group.conversation.id)?;
    let mut item = super::list::head(&group.conversation, group.folder.as_deref(), &mask);
    for hit in &group.hits {
        let line = line(call, hit, &mask)?;
        item.push_str(&format!("> #{} {}: {line}\n", hit.sequence.0, name(&hit.kind, 60)));
    }
    if group.count > group.hits.len() {
        let more = match group.count - group.hits.len() {
            1 => "1 more event matches".to_owned(),
            more => format!("{more} more events match"),
        };
        item.push_str(&format!("({more})\n"));
    }
    Ok(item)
}

/// Returns the text around a hit. A part of a secret could not be recognised in it, so the whole event is looked at.
fn line(call: &Call<'_>, hit: &Hit, mask: &Mask) -> Result<String> {
    let lines = call.store.transcript(&hit.conversation, hit.sequence, 1)?;
    let whole = lines.first().filter(|line| line.sequence == hit.sequence).map_or("", |line| &line.text);
    let has_secrets = matches!(mask.text(whole), std::borrow::Cow::Owned(_));
    Ok(if has_secrets { HIDDEN.to_owned() } else { one_line(&hit.snippet, LINE_WIDTH) })
}
