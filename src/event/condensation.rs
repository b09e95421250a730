//! Condensations: the forgotten events, and the summary in their place.

use super::common::Common;
use super::decode::DecodeError;
use super::message::{Content, Message, Role};
use super::model::{Extra, Field, Reading, Text, event, take};
use crate::ids::EventId;
use crate::json::Raw;

event! {
    /// Events were forgotten. A summary may replace them.
    Condensation = "Condensation", from (Environment) {
        /// The events that the model no longer sees: a set, in the order of the payload.
        forgotten_event_ids: Vec<Text> => read_set = Vec::new(),
        /// A summary of the forgotten events.
        summary: Option<Text> = None,
        /// The place of the summary in the view after forgetting. Without it, the view has no summary.
        summary_offset: Option<u64> = None,
        /// The id of the model's reply with the summary.
        llm_response_id: Text,
    }
    new by hand
}

event! {
    /// A request for a condensation.
    CondensationRequest = "CondensationRequest", from (Environment) {}
}

event! {
    /// The summary of a condensation, as the model sees it. The view makes this event; it is rarely stored.
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
    /// Makes a condensation that forgets `forgotten_event_ids` without a summary.
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

    /// Returns the id of the summary in a view.
    #[must_use]
    pub fn summary_id(&self) -> String {
        format!("{}-summary", self.common.id)
    }

    /// Returns the place of the summary in a view, and its event. `None` if there is no summary or no place for it.
    ///
    /// The event has the time of the condensation. In the reference it has the time of the call, which differs with
    /// each read.
    #[must_use]
    pub fn summary_event(&self) -> Option<(u64, CondensationSummaryEvent)> {
        let (summary, offset) = (self.summary.clone()?, self.summary_offset?);
        // An id of the maximum length leaves no room for the suffix. The summary then has the id without it.
        let id = EventId::new(self.summary_id()).unwrap_or_else(|_| self.common.id.clone());
        let common = Common::new(id, self.common.timestamp.clone(), self.common.source.clone());
        Some((offset, CondensationSummaryEvent::new(common, summary)))
    }
}

impl CondensationSummaryEvent {
    /// Returns the message for the model: the summary as a user message.
    #[must_use]
    pub fn to_llm_message(&self) -> Message {
        Message::new(Role::User, vec![Content::text(self.summary.clone())])
    }
}
