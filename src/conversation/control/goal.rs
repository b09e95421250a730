//! Runs until a goal is reached: after each run, a model judges the result, and the agent receives what is missing.
//!
//! State updates with the key `goal` report the progress, if state updates are on. Source:
//! `docs/reference/operations.md#goals`.

use std::sync::Arc;

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::say::Speaker;
use crate::agent::aside::Aside;
use crate::agent::judge::{self, Verdict};
use crate::conversation::error::{ConversationError, Result};
use crate::conversation::local::{Conversation, Local};
use crate::conversation::memory::{Change, GOAL, Live, StateUpdates, common, load};
use crate::conversation::run::spent;
use crate::event::{ConversationStateUpdateEvent, Json, Source};
use crate::json::Raw;
use crate::llm::Model;
use crate::state::ExecutionStatus;

/// The text for the agent if the judge does not say what is missing.
const MISSING_DEFAULT: &str = "Some requirements are not yet verified.";

/// A goal, its judge and its limit.
#[derive(Clone)]
#[non_exhaustive]
pub struct Goal {
    /// What the agent must reach.
    pub objective: String,
    /// The model that judges. `None`: the agent's own model.
    pub judge: Option<Arc<dyn Model>>,
    /// The maximum number of verdicts; at least 1.
    pub rounds_max: u64,
}

setters!(Goal { objective, judge, rounds_max: u64 });

/// The result of pursuing a goal.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct GoalOutcome {
    /// How the pursuit ended.
    pub status: GoalStatus,
    /// The number of verdicts.
    pub rounds: u64,
    /// The last verdict.
    pub verdict: Option<Verdict>,
}

/// How the pursuit of a goal ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GoalStatus {
    /// The judge found that the goal is reached.
    Complete,
    /// The maximum number of verdicts was reached.
    Capped,
    /// A run was paused, failed or waits for consent, or the user sent a message or stopped the goal.
    Interrupted,
}

impl Goal {
    /// Returns a goal that the agent's own model judges, at most ten times.
    #[must_use]
    pub fn new(objective: impl Into<String>) -> Self {
        Self { objective: objective.into(), judge: None, rounds_max: 10 }
    }

    /// Sets [`judge`](field@Self::judge).
    #[must_use]
    pub fn judge(mut self, judge: Arc<dyn Model>) -> Self {
        self.judge = Some(judge);
        self
    }

    /// Returns the value of a state update about this goal.
    fn to_update(&self, status: &str, rounds: u64, verdict: Option<&Verdict>) -> Json {
        let verdict = verdict.map(
            |found| json!({ "score": found.score, "complete": found.complete, "missing": found.missing }),
        );
        Json::from(&json!({
            "active": status == "running",
            "status": status,
            "iteration": rounds,
            "max_iterations": self.rounds_max,
            "objective": self.objective,
            "verdict": verdict,
        }))
    }
}

impl GoalStatus {
    /// Returns the name in state updates.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Capped => "capped",
            Self::Interrupted => "interrupted",
        }
    }
}

impl Conversation {
    /// Pursues a goal: sends the objective, runs the agent, lets the judge decide, and sends what is missing. Repeats
    /// this until the goal is reached or the rounds are used up. A user message ends the pursuit at once; a run in
    /// progress continues with that message.
    ///
    /// # Errors
    /// [`ConversationError::Limit`] if there are no rounds or the objective is empty, [`ConversationError::Model`] if
    /// the judge does not answer, and the errors of [`Conversation::run`].
    pub async fn run_goal(&self, goal: &Goal) -> Result<GoalOutcome> {
        self.pursue(goal, 0, goal.objective.clone()).await
    }

    /// Resumes the goal that was last interrupted. In a new process, the goal is known only from state updates.
    ///
    /// # Errors
    /// [`ConversationError::NoGoal`] if there is no interrupted goal, and the errors of [`Conversation::run_goal`].
    pub async fn resume_goal(&self, judge: Option<Arc<dyn Model>>) -> Result<GoalOutcome> {
        let update = self.0.lock().await?.goal.clone().ok_or(ConversationError::NoGoal)?;
        let update = update.raw();
        let text = |name: &str| update.get(name).and_then(Raw::as_text).map(std::borrow::Cow::into_owned);
        let count =
            |name: &str| update.get(name).and_then(Raw::as_i64).and_then(|count| u64::try_from(count).ok());
        if text("status").as_deref() != Some(GoalStatus::Interrupted.as_str()) {
            return Err(ConversationError::NoGoal);
        }
        let objective = text("objective").ok_or(ConversationError::NoGoal)?;
        let goal = Goal { judge, rounds_max: count("max_iterations").unwrap_or(10), ..Goal::new(objective) };
        self.pursue(&goal, count("iteration").unwrap_or(0), judge::resume().to_owned()).await
    }

    /// Returns whether there is a goal that [`Conversation::resume_goal`] would resume.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn has_interrupted_goal(&self) -> Result<bool> {
        let live = self.0.lock().await?;
        let status = live.goal.as_ref().and_then(|goal| goal.raw().get("status")?.as_text());
        Ok(status.as_deref() == Some(GoalStatus::Interrupted.as_str()))
    }

    /// Records that the goal is no longer pursued, if one is pursued. For a caller that has dropped the future of
    /// [`Conversation::run_goal`]. A run in progress continues.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn stop_goal(&self) -> Result<()> {
        let mut live = self.0.lock().await?;
        live.interrupt_goal();
        self.0.commit(&mut live).await
    }

    async fn pursue(&self, goal: &Goal, mut rounds: u64, mut text: String) -> Result<GoalOutcome> {
        if goal.objective.trim().is_empty() {
            return Err(ConversationError::Limit { setting: "the length of the objective" });
        }
        if goal.rounds_max == 0 {
            return Err(ConversationError::Limit { setting: "rounds_max" });
        }
        let local = &self.0;
        let mut verdict = None;
        local.begin_goal(goal, rounds).await?;
        let status = loop {
            let message = match local.say_anew(text.into(), Speaker::Goal).await {
                Err(ConversationError::NoGoal) => break GoalStatus::Interrupted,
                message => message?,
            };
            match self.run().await {
                // The work of a stuck agent is judged too.
                Ok(ExecutionStatus::Finished | ExecutionStatus::Stuck | ExecutionStatus::Idle) => {}
                Ok(_) | Err(ConversationError::Run { .. }) => break GoalStatus::Interrupted,
                Err(error) => return Err(error),
            }
            if self.snapshot().last_user_message.as_ref() != Some(&message) {
                break GoalStatus::Interrupted;
            }
            let found = local.judge(goal).await?;
            rounds += 1;
            let (complete, missing) = (found.complete, found.missing.clone());
            verdict = Some(found);
            if complete {
                break GoalStatus::Complete;
            }
            if rounds >= goal.rounds_max {
                break GoalStatus::Capped;
            }
            if !local.update_goal(goal, "running", rounds, verdict.as_ref()).await? {
                break GoalStatus::Interrupted;
            }
            text = judge::follow_up(rounds, if missing.is_empty() { MISSING_DEFAULT } else { &missing });
        };
        // If a user message has ended the pursuit, the end is already recorded.
        let is_recorded = local.update_goal(goal, status.as_str(), rounds, verdict.as_ref()).await?;
        let status = if is_recorded { status } else { GoalStatus::Interrupted };
        Ok(GoalOutcome { status, rounds, verdict })
    }
}

impl Local {
    /// Returns the judge's verdict on the whole branch.
    async fn judge(self: &Arc<Self>, goal: &Goal) -> Result<Verdict> {
        let unknown = || crate::Error::UnknownConversation { conversation: self.id.to_string() };
        let stored = load::stored(&self.host, &self.id).await?.ok_or_else(unknown)?;
        let transcript = judge::transcript(&stored.branch(&self.id)?);
        let transcript =
            transcript.map_err(|source| crate::Error::Messages { conversation: self.id.clone(), source })?;
        let model = match &goal.judge {
            Some(judge) => Arc::clone(judge),
            None => Arc::clone(&self.ready().await?.model),
        };
        let cancel = CancellationToken::new();
        let aside = Aside { session: Some(self.id.as_str().into()), ..Aside::new(&cancel) };
        let (verdict, reply) = judge::judge(&*model, &goal.objective, &transcript, &aside).await?;
        let mut live = self.lock().await?;
        live.set(Change::Spent(Box::new(spent(&*model, &reply))));
        self.commit(&mut live).await?;
        Ok(verdict)
    }

    /// Records that the goal is pursued from now on.
    async fn begin_goal(&self, goal: &Goal, rounds: u64) -> Result<()> {
        let mut live = self.lock().await?;
        live.record_goal(goal.to_update("running", rounds, None));
        self.commit(&mut live).await
    }

    /// Records the progress. Returns false, and records nothing, if the goal was given up.
    async fn update_goal(
        &self,
        goal: &Goal,
        status: &str,
        rounds: u64,
        verdict: Option<&Verdict>,
    ) -> Result<bool> {
        let mut live = self.lock().await?;
        if live.has_given_up() {
            return Ok(false);
        }
        live.record_goal(goal.to_update(status, rounds, verdict));
        self.commit(&mut live).await?;
        Ok(true)
    }
}

impl Live {
    fn record_goal(&mut self, value: Json) {
        if self.updates == StateUpdates::On {
            self.push_aside(ConversationStateUpdateEvent::new(
                common(Source::Environment),
                GOAL,
                value.clone(),
            ));
        }
        self.goal = Some(value);
    }

    /// Returns whether the last recorded goal is being pursued. `None` if there is no goal.
    fn is_pursuing(&self) -> Option<bool> {
        Some(self.goal.as_ref()?.raw().get("active").is_some_and(|active| active.text() == "true"))
    }

    /// Returns whether the last recorded goal is no longer pursued.
    pub fn has_given_up(&self) -> bool {
        self.is_pursuing() == Some(false)
    }

    /// Records that the goal is interrupted, if it is being pursued.
    pub fn interrupt_goal(&mut self) {
        if self.is_pursuing() != Some(true) {
            return;
        }
        let Some(goal) = self.goal.clone() else { return };
        if let serde_json::Value::Object(mut update) = goal.to_value() {
            update.insert("active".to_owned(), false.into());
            update.insert("status".to_owned(), GoalStatus::Interrupted.as_str().into());
            self.record_goal(Json::from(&serde_json::Value::Object(update)));
        }
    }
}
