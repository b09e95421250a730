//! Translates sessions of the OpenAI Agents SDK. Each row is an item of the Responses interface, in the order of the
//! ids.
//!
//! The advanced sessions have branches. A table gives the place of each message on its branch. Source:
//! `agents.memory.SQLiteSession` and `AdvancedSQLiteSession` of openai-agents 0.24.

use std::collections::{BTreeMap, HashMap};

use super::importer::{self, ForeignImporter, Others, Records, Rows};
use super::responses::{self, Item};
use super::translation::{About, Arriving, Memory, Translation, Translator, place_id};
use crate::event::foreign::ForeignFormat;
use crate::ids::EventId;
use crate::json::Raw;

pub(super) static IMPORTER: ForeignImporter = ForeignImporter {
    format: ForeignFormat::OpenAiAgents,
    description: "Sessions of the OpenAI Agents SDK in SQLite",
    records: Records::Rows(Rows {
        columns: &["session_id", "message_data"],
        key: "session_id",
        is_main: |table| importer::has(table, "message_data"),
        // The rows that assign messages to branches come before the messages.
        others: Others::First,
    }),
    translator: || Box::new(OpenAiAgents::default()),
};

#[derive(Default)]
struct OpenAiAgents {
    memory: Memory,
    last: Option<EventId>,
    /// The last event of each message.
    messages: HashMap<i64, EventId>,
    /// For each branch: the message at each place.
    branches: BTreeMap<String, BTreeMap<i64, i64>>,
}

impl Translator for OpenAiAgents {
    fn translate(&mut self, arriving: &Arriving<'_>, record: Raw<'_>) -> Translation {
        let row = record.to_object();
        let timestamp = row.text("created_at").map(|time| time.into_owned());
        let table = arriving.table.unwrap_or_default();
        let Some(data) = row.text("message_data") else {
            let number = |column: &str| row.get(column).and_then(Raw::as_i64);
            if let (Some(branch), Some(message), Some(place)) =
                (row.text("branch_id"), number("message_id"), number("sequence_number"))
            {
                self.branches.entry(branch.into_owned()).or_default().insert(place, message);
            }
            return Translation { timestamp, ..Translation::unread(table) };
        };
        let mut translation = match Raw::parse(&data) {
            Ok(item) if item.get("__enc__").is_some() => Translation::unread("encrypted"),
            Ok(item) if item.is_object() => {
                let message = row.get("id").and_then(Raw::as_i64).unwrap_or(arriving.place);
                let parent = self.parent(message);
                let wanted = place_id(arriving);
                let item = Item {
                    arriving,
                    members: item.to_object(),
                    wanted_id: wanted.as_str(),
                    timestamp: timestamp.as_deref(),
                    parent: parent.as_ref(),
                    machinery: &[],
                };
                let translation = responses::translate(&mut self.memory, &item);
                let last = translation.events.last().map(|event| event.id().clone());
                if let Some(last) = last.clone().or(parent) {
                    self.messages.insert(message, last);
                }
                self.last = last.or(self.last.take());
                translation
            }
            Ok(_) => Translation::broken("item", "the item is no JSON object"),
            Err(fault) => Translation::broken("item", format!("the item is not JSON: {fault}")),
        };
        translation.timestamp = timestamp;
        translation
    }

    fn about(&self, name: &str) -> About {
        About { id: Some(name.to_owned()), head: self.last.clone(), ..About::default() }
    }

    fn memory(&mut self) -> &mut Memory {
        &mut self.memory
    }
}

impl OpenAiAgents {
    /// Returns the event that a message follows: that of the message before it on its branch, or else the last event.
    fn parent(&self, message: i64) -> Option<EventId> {
        for places in self.branches.values() {
            if let Some((place, _)) = places.iter().find(|(_, known)| **known == message) {
                let before = places.range(..*place).rev().find_map(|(_, before)| self.messages.get(before));
                return before.cloned();
            }
        }
        self.last.clone()
    }
}
