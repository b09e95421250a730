//! Condensing: the settings of an agent's condensers, and asking a model for the summary of forgotten events.
//!
//! [`view::condense`](crate::view::condense) decides when and what to forget. This module asks the model and makes the
//! event. Source: `docs/reference/view.md#condensers`. Unlike the reference, an empty answer of the model is a failure:
//! no events are forgotten for it.

mod settings;
mod words;

use std::ops::Range;
use std::sync::Arc;

pub use settings::{Kind, read};

use super::aside::{Aside, put, text};
use crate::event::{Common, Condensation, Event};
use crate::llm::{LlmError, Model, Reply};
use crate::view::{Condenser, Plan, Tokens, View};

const SYSTEM: &str = include_str!("prompt.txt");

/// A condenser whose model summarises the forgotten events.
#[derive(Clone)]
#[non_exhaustive]
pub struct Summariser {
    /// When to forget, and how much.
    pub settings: Condenser,
    /// The model that writes the summaries.
    pub model: Arc<dyn Model>,
}

/// Why a necessary condensation failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CondenseError {
    /// There are no events that may be forgotten.
    #[error("Unable to compute forgotten events")]
    Impossible,
    /// The model gave no summary, not even for the shortest texts. Holds the error of the first attempt.
    #[error("Summarization LLM call failed: {0}")]
    NoSummary(LlmError),
    /// The caller cancelled it.
    #[error("the condensation was cancelled")]
    Cancelled,
}

impl CondenseError {
    /// Returns the reference's name of the error, which is the code of the error event.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Impossible | Self::NoSummary(_) => "NoCondensationAvailableException",
            Self::Cancelled => "CancelledError",
        }
    }
}

/// The result of condensing.
#[derive(Debug)]
#[non_exhaustive]
pub struct Condensed {
    /// The event to append. `None` if the view is sent as it is.
    pub event: Result<Option<Condensation>, CondenseError>,
    /// The replies of the models, including unusable ones, because their tokens count too.
    pub replies: Vec<Reply>,
}

/// Returns each condenser's plan for `view`. `tokens` are the agent's. No model is asked.
#[must_use]
pub fn plans(summarisers: &[Summariser], view: &View, tokens: Option<Tokens<'_>>) -> Vec<Plan> {
    summarisers.iter().map(|summariser| summariser.settings.plan(view, tokens)).collect()
}

/// Carries the plans out, one after the other, until one of them has condensed `view`.
///
/// `common` is the common part of the new event: its id, its time, and the environment as its source. If a summary
/// fails and the condensation can wait, the view is kept. If it cannot wait, the view is reset: everything is
/// summarised, from texts that are shorter at each attempt.
pub async fn condense(
    summarisers: &[Summariser],
    plans: Vec<Plan>,
    view: &View,
    common: &Common,
    aside: &Aside<'_>,
) -> Condensed {
    let mut replies = Vec::new();
    for (summariser, plan) in summarisers.iter().zip(plans) {
        let condensing = Condensing { summariser, view, common, aside };
        match condensing.carry_out(plan, &mut replies).await {
            Ok(None) => {}
            event => return Condensed { event, replies },
        }
    }
    Condensed { event: Ok(None), replies }
}

struct Condensing<'a> {
    summariser: &'a Summariser,
    view: &'a View,
    common: &'a Common,
    aside: &'a Aside<'a>,
}

impl Condensing<'_> {
    async fn carry_out(
        &self,
        plan: Plan,
        replies: &mut Vec<Reply>,
    ) -> Result<Option<Condensation>, CondenseError> {
        let (range, requirement) = match plan {
            Plan::Keep => return Ok(None),
            Plan::Impossible => return Err(CondenseError::Impossible),
            Plan::Reset { range } => {
                return self.reset(range, CondenseError::Impossible, replies).await.map(Some);
            }
            Plan::Forget { range, requirement } => (range, requirement),
        };
        let error = match self.sum_up(range, None, replies).await {
            Ok(event) => return Ok(Some(event)),
            Err(LlmError::Cancelled) => return Err(CondenseError::Cancelled),
            Err(error) => CondenseError::NoSummary(error),
        };
        match self.summariser.settings.without_summary(self.view, requirement) {
            Plan::Reset { range } => self.reset(range, error, replies).await.map(Some),
            Plan::Impossible => Err(error),
            // The condensation can wait.
            Plan::Keep | Plan::Forget { .. } => Ok(None),
        }
    }

    /// Summarises the range, from texts that are shorter at each attempt. Returns `error` if no attempt succeeds.
    async fn reset(
        &self,
        range: Range<usize>,
        error: CondenseError,
        replies: &mut Vec<Reply>,
    ) -> Result<Condensation, CondenseError> {
        let longest = self.view.events().map(|event| words::text(event).chars().count()).max().unwrap_or(0);
        for characters_max in self.summariser.settings.reset_cuts(longest) {
            match self.sum_up(range.clone(), characters_max, replies).await {
                Ok(event) => return Ok(event),
                Err(LlmError::Cancelled) => return Err(CondenseError::Cancelled),
                Err(_) => {}
            }
        }
        Err(error)
    }

    /// Asks the model for a summary and returns the event that forgets these entries.
    async fn sum_up(
        &self,
        range: Range<usize>,
        characters_max: Option<usize>,
        replies: &mut Vec<Reply>,
    ) -> Result<Condensation, LlmError> {
        let forgotten: Vec<&Event> = self.view.events().skip(range.start).take(range.len()).collect();
        let texts = forgotten.iter().map(|event| {
            let text = words::text(event);
            characters_max.map_or_else(|| text.clone(), |max| words::cut(&text, max))
        });
        let events: String = texts.map(|text| format!("<EVENT>\n{text}\n</EVENT>\n\n")).collect();
        let user = format!("{events}\nNow summarize the events using the rules above.");
        let reply = put(&*self.summariser.model, SYSTEM, user, self.aside).await?;
        let summary = text(&reply).trim().to_owned();
        let id = reply.id.clone();
        replies.push(reply);
        if summary.is_empty() {
            return Err(LlmError::NoResponse("the model answered without a summary".to_owned()));
        }
        let ids = forgotten.iter().map(|event| event.common().id.as_str().into()).collect();
        let mut event = Condensation::new(self.common.clone(), ids, id);
        event.summary = Some(summary.into());
        event.summary_offset = Some(range.start as u64);
        Ok(event)
    }
}

#[cfg(test)]
mod tests;
