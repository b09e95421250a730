//! Side questions, summaries on demand and goals of a conversation at a server.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::request::parsed;
use super::{RemoteConversation, unsupported};
use crate::agent::aside::Aside;
use crate::agent::judge::Verdict;
use crate::agent::title;
use crate::conversation::control::{Goal, GoalOutcome, GoalStatus};
use crate::conversation::error::{ConversationError, Result};
use crate::conversation::memory::{GOAL, updated};
use crate::event::Json;
use crate::json::Raw;
use crate::llm::Model;
use crate::remote::{RemoteError, SLOW};

impl RemoteConversation {
    /// Asks the agent's model a question about the conversation so far. The conversation gets no event from it.
    ///
    /// # Errors
    /// [`ConversationError::Remote`], also if the model does not answer.
    pub async fn ask_agent(&self, question: &str) -> Result<String> {
        let client = &self.0.client;
        let body = json!({ "question": question }).to_string();
        let answer = client.post(&self.path("/ask_agent"), Some(body), SLOW).await?;
        let answer = parsed(&answer).and_then(|answer| answer.get("response")?.as_str());
        Ok(answer.map(Cow::into_owned).ok_or_else(|| client.invalid_answer("an answer without a text"))?)
    }

    /// Condenses the model's view now, whatever its length.
    ///
    /// # Errors
    /// [`ConversationError::NoCondenser`] if the agent has no suitable condenser, and [`ConversationError::Remote`].
    pub async fn condense(&self) -> Result<()> {
        match self.command("/condense", None).await {
            Err(ConversationError::Remote(RemoteError::Refused { status: 409, detail, .. })) => {
                let what = detail.strip_prefix("Cannot condense conversation: ").unwrap_or(&detail);
                let what = what.split(". To enable").next().unwrap_or(what);
                Err(ConversationError::NoCondenser { what: what.to_owned() })
            }
            outcome => outcome,
        }
    }

    /// Returns a title of at most `length` code points for the first user message. It is made in this process, because
    /// no server makes one. Without a `model`, it is that message, cut to length. The title is not stored: use
    /// [`RemoteConversation::set_title`] for that.
    ///
    /// # Errors
    /// [`ConversationError::NoUserMessage`] if there is no user message, and [`ConversationError::Remote`].
    pub async fn generate_title(&self, model: Option<Arc<dyn Model>>, length: usize) -> Result<String> {
        let branch = self.branch().await?;
        let message = branch.opening().ok_or(ConversationError::NoUserMessage)?;
        let cancel = CancellationToken::new();
        let aside = Aside { session: Some(self.0.id.as_str().into()), ..Aside::new(&cancel) };
        Ok(title::title(model.as_deref(), message, length, None, &aside).await.text)
    }

    /// Pursues a goal at the server and waits for its end. The agent's own model is the judge.
    ///
    /// # Errors
    /// [`ConversationError::Limit`] if there are no rounds or the objective is empty, [`ConversationError::Running`] if
    /// a run is in progress, and [`ConversationError::Remote`], also if a judge is given.
    pub async fn run_goal(&self, goal: &Goal) -> Result<GoalOutcome> {
        if goal.judge.is_some() {
            return unsupported("another judge of a goal");
        }
        if goal.objective.trim().is_empty() {
            return Err(ConversationError::Limit { setting: "the length of the objective" });
        }
        if goal.rounds_max == 0 {
            return Err(ConversationError::Limit { setting: "rounds_max" });
        }
        let body = json!({ "objective": goal.objective, "max_iterations": goal.rounds_max }).to_string();
        self.pursue("/goal", Some(body)).await
    }

    /// Resumes the goal that was last interrupted.
    ///
    /// # Errors
    /// [`ConversationError::NoGoal`] if no goal was interrupted, and those of [`RemoteConversation::run_goal`].
    pub async fn resume_goal(&self, judge: Option<Arc<dyn Model>>) -> Result<GoalOutcome> {
        if judge.is_some() {
            return unsupported("another judge of a goal");
        }
        self.pursue("/goal/resume", None).await
    }

    /// Gives up the goal, if one is being pursued. A run in progress continues.
    ///
    /// # Errors
    /// [`ConversationError::Remote`].
    pub async fn stop_goal(&self) -> Result<()> {
        self.command("/goal/stop", None).await
    }

    /// Returns whether there is a goal that [`RemoteConversation::resume_goal`] can resume.
    ///
    /// # Errors
    /// [`ConversationError::Remote`], and the errors of reading the log.
    pub async fn has_interrupted_goal(&self) -> Result<bool> {
        let update = self.stored().await?.events.iter().rev().find_map(|event| updated(event, GOAL));
        Ok(update.is_some_and(|update| status(&update) == Some(GoalStatus::Interrupted)))
    }

    async fn pursue(&self, route: &str, body: Option<String>) -> Result<GoalOutcome> {
        let first = self.latest().await?.cursor.next;
        let started = self.0.client.post(&self.path(route), body, SLOW).await;
        started.map_err(|error| match error {
            RemoteError::Refused { status: 409, .. } => {
                ConversationError::Running { conversation: self.0.id.clone() }
            }
            RemoteError::Refused { ref detail, .. } if detail == "no_resumable_goal" => {
                ConversationError::NoGoal
            }
            other => other.into(),
        })?;
        let update = self.goal_ended(first).await?;
        let raw = update.raw();
        let invalid_status = || self.0.client.invalid_answer("a goal with an unknown status");
        Ok(GoalOutcome {
            status: status(&update).ok_or_else(invalid_status)?,
            rounds: raw
                .get("iteration")
                .and_then(Raw::as_i64)
                .and_then(|n| u64::try_from(n).ok())
                .unwrap_or(0),
            verdict: raw.get("verdict").filter(|verdict| !verdict.is_null()).map(verdict),
        })
    }
}

fn status(update: &Json) -> Option<GoalStatus> {
    let status = update.raw().get("status")?.as_str()?;
    [GoalStatus::Complete, GoalStatus::Capped, GoalStatus::Interrupted]
        .into_iter()
        .find(|known| known.as_str() == status)
}

fn verdict(raw: Raw<'_>) -> Verdict {
    Verdict {
        score: raw.get("score").and_then(Raw::as_f64).unwrap_or(0.0),
        complete: raw.get("complete").is_some_and(|complete| complete.text() == "true"),
        missing: raw.get("missing").and_then(Raw::as_str).map(Cow::into_owned).unwrap_or_default(),
    }
}
