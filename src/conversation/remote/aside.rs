//! Questions beside a conversation at a server, summaries on demand, and goals.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::request::parsed;
use super::{RemoteConversation, unsupported};
use crate::agent::aside::Aside;
use crate::agent::judge::Verdict;
use crate::agent::title;
use crate::conversation::{ConversationError, Goal, GoalOutcome, GoalStatus, Result, goal};
use crate::event::Json;
use crate::event::json::Raw;
use crate::llm::Model;
use crate::remote::{RemoteError, SLOW};

impl RemoteConversation {
    /// Asks the agent's model a question about what was done so far; nothing comes of it in the conversation.
    ///
    /// # Errors
    /// [`ConversationError::Remote`], also where the model does not answer.
    pub async fn ask_agent(&self, question: &str) -> Result<String> {
        let client = &self.0.client;
        let body = json!({ "question": question }).to_string();
        let answer = client.post(&self.path("/ask_agent"), Some(body), SLOW).await?;
        let answer = parsed(&answer).and_then(|answer| answer.get("response")?.as_str());
        Ok(answer.map(Cow::into_owned).ok_or_else(|| client.strange("an answer without a text"))?)
    }

    /// Has what the model sees summed up now, whatever its length.
    ///
    /// # Errors
    /// [`ConversationError::NoCondenser`], and [`ConversationError::Remote`].
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

    /// A title of at most `length` code points, made here by `model` of the first thing a person said; that message cut
    /// to length where there is no model: no server makes one. Nothing is stored: see
    /// [`RemoteConversation::set_title`].
    ///
    /// # Errors
    /// [`ConversationError::NoUserMessage`], and [`ConversationError::Remote`].
    pub async fn generate_title(&self, model: Option<Arc<dyn Model>>, length: usize) -> Result<String> {
        let branch = self.branch().await?;
        let message = branch.opening().ok_or(ConversationError::NoUserMessage)?;
        let cancel = CancellationToken::new();
        let aside = Aside { session: Some(self.0.id.as_str().into()), ..Aside::new(&cancel) };
        Ok(title::title(model.as_deref(), message, length, None, &aside).await.text)
    }

    /// Goes after a goal at the server, and waits for how it ends. The agent's own model judges.
    ///
    /// # Errors
    /// [`ConversationError::Limit`] for no rounds or an empty objective, [`ConversationError::Running`] where a run is
    /// under way, and [`ConversationError::Remote`], also where a judge is given.
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

    /// Goes on with the goal that was last interrupted.
    ///
    /// # Errors
    /// [`ConversationError::NoGoal`], and as [`RemoteConversation::run_goal`].
    pub async fn resume_goal(&self, judge: Option<Arc<dyn Model>>) -> Result<GoalOutcome> {
        if judge.is_some() {
            return unsupported("another judge of a goal");
        }
        self.pursue("/goal/resume", None).await
    }

    /// Gives the goal up, where one is gone after. A run that is under way goes on.
    ///
    /// # Errors
    /// [`ConversationError::Remote`].
    pub async fn stop_goal(&self) -> Result<()> {
        self.command("/goal/stop", None).await
    }

    /// Whether there is a goal that [`RemoteConversation::resume_goal`] would go on with.
    ///
    /// # Errors
    /// [`ConversationError::Remote`], and what reading the log can meet.
    pub async fn has_interrupted_goal(&self) -> Result<bool> {
        let told = self.stored().await?.events.iter().rev().find_map(goal::told);
        Ok(told.is_some_and(|told| status(&told) == Some(GoalStatus::Interrupted)))
    }

    async fn pursue(&self, route: &str, body: Option<String>) -> Result<GoalOutcome> {
        let first = self.heard().await?.cursor.next;
        let asked = self.0.client.post(&self.path(route), body, SLOW).await;
        asked.map_err(|error| match error {
            RemoteError::Refused { status: 409, .. } => {
                ConversationError::Running { conversation: self.0.id.clone() }
            }
            RemoteError::Refused { ref detail, .. } if detail == "no_resumable_goal" => {
                ConversationError::NoGoal
            }
            other => other.into(),
        })?;
        let told = self.goal_ended(first).await?;
        let raw = told.raw();
        let strange = || self.0.client.strange("a goal that ended in no known way");
        Ok(GoalOutcome {
            status: status(&told).ok_or_else(strange)?,
            rounds: raw
                .get("iteration")
                .and_then(Raw::as_i64)
                .and_then(|n| u64::try_from(n).ok())
                .unwrap_or(0),
            verdict: raw.get("verdict").filter(|verdict| !verdict.is_null()).map(verdict),
        })
    }
}

fn status(told: &Json) -> Option<GoalStatus> {
    let status = told.raw().get("status")?.as_str()?;
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
