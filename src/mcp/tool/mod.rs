//! The tools: one file each, with the description for the model, the arguments, and the answer.

mod event;
mod list;
mod query;
pub(super) mod read;
mod report;
mod rows;
mod search;
mod title;
mod views;

use serde_json::{Map, Value, json};

use super::arguments::Arguments;
use super::cursor::Cursors;
use super::mask::Mask;
use super::page::{Page, QUOTED};
use super::recall::{Recall, TOKENS_MIN};
use super::trouble::Trouble;
use crate::error::Result as StoreResult;
use crate::ids::{ConversationId, EventId, Sequence};
use crate::store::Store;

/// Every tool, in the order in which a client lists them.
const TOOLS: &[Tool] = &[
    search::TOOL,
    list::TOOL,
    read::TOOL,
    event::TOOL,
    report::LIST,
    report::RUN,
    views::TOOL,
    query::TOOL,
    title::TOOL,
];

/// A tool.
pub(super) struct Tool {
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// What a model has to know about it.
    pub description: &'static str,
    /// The JSON schemas of its arguments.
    pub properties: fn() -> Value,
    /// The arguments that have to be given.
    pub required: &'static [&'static str],
    /// Whether its answer may have several pages.
    pub is_paged: bool,
    /// Whether it writes.
    pub writes: bool,
    pub answer: fn(&Call<'_>) -> Result<String, Trouble>,
}

/// Returns the tools that a client may call.
pub(super) fn all(recall: &Recall) -> impl Iterator<Item = &'static Tool> + use<> {
    let has_titles = recall.has_titles();
    TOOLS.iter().filter(move |tool| has_titles || !tool.writes)
}

impl Tool {
    /// Returns the JSON schema of the arguments.
    pub(super) fn schema(&self, recall: &Recall) -> Map<String, Value> {
        let mut properties = (self.properties)();
        properties["max_tokens"] = json!({
            "type": "integer", "minimum": TOKENS_MIN, "maximum": recall.0.tokens_max,
            "description": "The most tokens of the answer, by an estimate.",
        });
        if self.is_paged {
            properties["cursor"] = json!({
                "type": "string",
                "description": "Goes on where an answer was cut: the cursor at its end, with the same arguments.",
            });
        }
        let schema = json!({
            "type": "object", "properties": properties, "required": self.required, "additionalProperties": false,
        });
        match schema {
            Value::Object(schema) => schema,
            _ => Map::new(),
        }
    }

    /// Answers a call.
    pub(super) fn call(&self, recall: &Recall, given: Map<String, Value>) -> Result<String, Trouble> {
        let schema = self.schema(recall);
        let known: Vec<&str> =
            schema["properties"].as_object().into_iter().flat_map(Map::keys).map(String::as_str).collect();
        let cursors = Cursors::of(self.name, &given);
        let arguments = Arguments::new(self.name, given, &known)?;
        let most = recall.0.tokens_max;
        let tokens = arguments.number("max_tokens", TOKENS_MIN, most)?.unwrap_or(most);
        let store = recall.store()?;
        (self.answer)(&Call { recall, tool: self.name, arguments, cursors, tokens, store })
    }
}

/// A call of a tool.
pub(super) struct Call<'a> {
    pub recall: &'a Recall,
    pub tool: &'static str,
    pub arguments: Arguments,
    pub cursors: Cursors,
    /// The most tokens of the answer.
    pub tokens: u64,
    pub store: Store,
}

impl Call<'_> {
    /// Returns the places of the cursor. `None` for the first page.
    fn place<const N: usize>(&self) -> Result<Option<[u64; N]>, Trouble> {
        self.arguments.text("cursor")?.map(|cursor| self.cursors.read(cursor)).transpose()
    }

    /// Begins an answer with quoted text.
    fn page(&self, head: &str) -> StoreResult<Page> {
        let mut page = Page::new(self.tokens, head);
        page.remark(QUOTED);
        if let Some(behind) = self.store.behind()? {
            let lacking = behind.last_position.0.saturating_sub(behind.position.0);
            page.remark(&format!(
                "The file may not be written here, and its derived tables lack the newest {lacking} events."
            ));
        }
        Ok(page)
    }

    /// Ends an answer.
    fn end(&self, page: Page, places: Option<&[u64]>, remark: &str) -> String {
        let cursor = places.map(|places| self.cursors.write(places));
        page.end(self.tool, cursor.as_deref(), remark)
    }

    /// Returns the conversation that the argument `conversation` names.
    fn conversation(&self) -> Result<ConversationId, Trouble> {
        let id = self.arguments.required("conversation")?.trim();
        // Answers write `conversation ID`, and a model may copy both words.
        Ok(self.store.resolve(id.strip_prefix("conversation ").unwrap_or(id))?)
    }

    /// Returns the place of the event that a text names: its id, its sequence (also as `#12`), or the beginning of its
    /// id.
    fn event(&self, conversation: &ConversationId, text: &str) -> Result<Sequence, Trouble> {
        let text = text.trim();
        if let Ok(id) = EventId::new(text)
            && let Ok(sequence) = self.store.sequence(conversation, &id)
        {
            return Ok(sequence);
        }
        if let Ok(number) = text.strip_prefix('#').unwrap_or(text).parse() {
            let id = self.store.event_id(conversation, Sequence(number))?;
            return Ok(self.store.sequence(conversation, &id)?);
        }
        let id = self.store.resolve_event(conversation, text)?;
        Ok(self.store.sequence(conversation, &id)?)
    }

    /// Returns what hides the secrets of a conversation.
    fn mask(&self, conversation: &ConversationId) -> StoreResult<Mask> {
        Mask::of(self.recall, &self.store, conversation)
    }
}

/// The schema of the argument `conversation`.
fn conversation_schema() -> Value {
    json!({"type": "string", "description": "The conversation's id, or the beginning of it."})
}

/// The schema of the argument `workspace`.
fn workspace_schema() -> Value {
    json!({
        "type": "string",
        "description": "Only conversations that worked in this folder or within it. \".\" is the folder that this \
                        server was started in, usually your own workspace.",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::estimate_tokens;
    use crate::store::Options;

    #[test]
    fn the_tools_fit_a_models_context() {
        let recall = Recall::shared(Store::in_memory(&Options::default()).unwrap());
        let mut tokens = 0;
        for tool in TOOLS {
            let schema = tool.schema(&recall);
            for name in tool.required {
                assert!(schema["properties"].get(name).is_some(), "{}: {name}", tool.name);
            }
            for (name, property) in schema["properties"].as_object().unwrap() {
                let description = property["description"].as_str().unwrap_or_default();
                assert!(description.ends_with('.'), "{}: {name} has no description", tool.name);
                assert!(property["type"].is_string(), "{}: {name} has no type", tool.name);
            }
            tokens += estimate_tokens(tool.description) + estimate_tokens(&Value::Object(schema).to_string());
        }
        assert!(tokens < 6_000, "every client pays {tokens} tokens in every conversation");
        assert!(all(&recall).all(|tool| !tool.writes));
    }
}
