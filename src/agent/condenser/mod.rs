//! Forgetting with a summary: what the settings of an agent's condensers say, and how a model is asked for the summary.
//!
//! When to forget and what is [`view::condense`](crate::view::condense)'s; this asks the model and makes the event.
//! Source: `runtime.md` section 9. Other than there, a model that answers nothing has not summed up: the events
//! are not forgotten for it.

mod settings;
mod words;

use std::ops::Range;
use std::sync::Arc;

pub use settings::{Kind, SettingsError, read};

use super::aside::{Aside, put, text};
use crate::event::{Common, Condensation, Event};
use crate::llm::{LlmError, Model, Reply};
use crate::view::{Condenser, Plan, Tokens, View};

const SYSTEM: &str = include_str!("prompt.txt");

/// A condenser that has a model sum up what is forgotten.
#[derive(Clone)]
pub struct Summariser {
    /// When to forget, and how much.
    pub settings: Condenser,
    /// Who sums up.
    pub model: Arc<dyn Model>,
}

/// Why nothing was condensed that had to be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CondenseError {
    /// Nothing may be forgotten.
    #[error("Unable to compute forgotten events")]
    Impossible,
    /// The model gave no summary, however little it was shown.
    #[error("Summarization LLM call failed: {0}")]
    NoSummary(LlmError),
    /// The caller ended it.
    #[error("the condensation was cancelled")]
    Cancelled,
}

impl CondenseError {
    /// The reference's name of it: the code of the error event.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Impossible | Self::NoSummary(_) => "NoCondensationAvailableException",
            Self::Cancelled => "CancelledError",
        }
    }
}

/// What came of condensing.
#[derive(Debug)]
pub struct Condensed {
    /// The event to append, if there is one: without it the view is sent as it is.
    pub event: Result<Option<Condensation>, CondenseError>,
    /// The replies of the models, also those that were of no use; their tokens count.
    pub replies: Vec<Reply>,
}

/// What each condenser would do with `view`; `tokens` are the agent's. Nobody is asked.
#[must_use]
pub fn plans(summarisers: &[Summariser], view: &View, tokens: Option<Tokens<'_>>) -> Vec<Plan> {
    summarisers.iter().map(|summariser| summariser.settings.plan(view, tokens)).collect()
}

/// Carries the plans out, one after the other, until one of them has condensed `view`.
///
/// `common` is the new event's: its id, its time, the environment as its source. Where a summary cannot be had, a view
/// that can wait is kept, and one that cannot is reset: all of it is summed up, from texts that are cut shorter
/// at each try.
pub async fn condense(
    summarisers: &[Summariser],
    plans: Vec<Plan>,
    view: &View,
    common: &Common,
    aside: &Aside<'_>,
) -> Condensed {
    let mut replies = Vec::new();
    for (summariser, plan) in summarisers.iter().zip(plans) {
        let asking = Asking { summariser, view, common, aside };
        match asking.carry_out(plan, &mut replies).await {
            Ok(None) => {}
            event => return Condensed { event, replies },
        }
    }
    Condensed { event: Ok(None), replies }
}

struct Asking<'a> {
    summariser: &'a Summariser,
    view: &'a View,
    common: &'a Common,
    aside: &'a Aside<'a>,
}

impl Asking<'_> {
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
            // It can wait.
            Plan::Keep | Plan::Forget { .. } => Ok(None),
        }
    }

    /// Sums up everything, from texts that are cut shorter at each try; `error` where no try succeeds.
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

    /// The event that forgets these entries, with their summary.
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
