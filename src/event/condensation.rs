//! What was forgotten, and the summary in its place.

use super::common::Common;
use super::decode::DecodeError;
use super::json::Raw;
use super::message::{Content, Message, Role};
use super::model::{Extra, Field, Reading, Text, event, take};
use crate::ids::EventId;

event! {
    /// Events were forgotten; a summary may stand in their place.
    Condensation = "Condensation", from (Environment) {
        /// The events that the model no longer sees: a set, in the order of the payload.
        forgotten_event_ids: Vec<Text> => read_set = Vec::new(),
        /// What they said, in short.
        summary: Option<Text> = None,
        /// Where in the view, after forgetting, the summary goes; without it there is none.
        summary_offset: Option<u64> = None,
        /// The model's reply that it came from.
        llm_response_id: Text,
    }
}

event! {
    /// Someone asks for a condensation.
    CondensationRequest = "CondensationRequest", from (Environment) {}
}

event! {
    /// The summary of a condensation, as the model sees it. Made up by the view; seldom stored.
    CondensationSummaryEvent = "CondensationSummaryEvent", from (Environment) {
        /// The summary.
        summary: Text,
    }
}

fn read_set(raw: Raw<'_>, reading: Reading) -> Result<Vec<Text>, DecodeError> {
    let mut seen = std::collections::HashSet::new();
    let mut ids = Vec::<Text>::read(raw, reading)?;
    ids.retain(|id| seen.insert(id.clone()));
    Ok(ids)
}

impl Condensation {
    /// Forgets `forgotten_event_ids` without a summary.
    #[must_use]
    pub fn new(common: Common, forgotten_event_ids: Vec<Text>, llm_response_id: impl Into<Text>) -> Self {
        Self {
            common,
            forgotten_event_ids,
            summary: None,
            summary_offset: None,
            llm_response_id: llm_response_id.into(),
            extra: Extra::default(),
        }
    }

    /// The id of its summary in a view.
    #[must_use]
    pub fn summary_id(&self) -> String {
        format!("{}-summary", self.common.id)
    }

    /// Where its summary goes in a view and the event that stands for it; `None` where there is no summary or
    /// no place for it.
    ///
    /// It bears the condensation's time: the reference gives it the time of asking, which no two
    /// readings would agree on.
    #[must_use]
    pub fn summary_event(&self) -> Option<(u64, CondensationSummaryEvent)> {
        let (summary, offset) = (self.summary.clone()?, self.summary_offset?);
        // An id of the longest kind has no room for the suffix; the summary then bears the id as it is.
        let id = EventId::new(self.summary_id()).unwrap_or_else(|_| self.common.id.clone());
        let common = Common::new(id, self.common.timestamp.clone(), self.common.source.clone());
        Some((offset, CondensationSummaryEvent::new(common, summary)))
    }
}

impl CondensationRequest {
    /// A request.
    #[must_use]
    pub fn new(common: Common) -> Self {
        Self { common, extra: Extra::default() }
    }
}

impl CondensationSummaryEvent {
    /// A summary.
    #[must_use]
    pub fn new(common: Common, summary: impl Into<Text>) -> Self {
        Self { common, summary: summary.into(), extra: Extra::default() }
    }

    /// What the model reads: the summary, as if a person had said it.
    #[must_use]
    pub fn to_llm_message(&self) -> Message {
        Message::new(Role::User, vec![Content::text(self.summary.clone())])
    }
}
