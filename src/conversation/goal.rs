//! Running until a goal is reached: after each run a model judges, and the agent is told what is left.
//!
//! How it goes is told by state updates of the key `goal`, where those are on. Source: `runtime.md` section 10.

use std::sync::Arc;

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::base::Change;
use super::live::{Live, StateUpdates, common};
use super::say::Speaker;
use super::step::spent;
use super::{Conversation, ConversationError, Local, Result, load};
use crate::agent::aside::Aside;
use crate::agent::judge::{self, Verdict};
use crate::event::json::Raw;
use crate::event::{ConversationStateUpdateEvent, Event, Json, Source};
use crate::llm::Model;
use crate::state::ExecutionStatus;

/// The key of the updates that tell how it goes.
const KEY: &str = "goal";

/// What is left where the judge does not say.
const UNSAID: &str = "Some requirements are not yet verified.";

/// A goal and how long to go after it.
#[derive(Clone)]
pub struct Goal {
    /// What is to be reached.
    pub objective: String,
    /// Who judges; the agent's own model where nobody is named.
    pub judge: Option<Arc<dyn Model>>,
    /// The most verdicts; at least 1.
    pub rounds_max: u64,
}

/// How going after a goal ended.
#[derive(Debug, Clone, PartialEq)]
pub struct GoalOutcome {
    /// How.
    pub status: GoalStatus,
    /// How many verdicts there were.
    pub rounds: u64,
    /// The last of them.
    pub verdict: Option<Verdict>,
}

/// How going after a goal ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GoalStatus {
    /// The judge found it reached.
    Complete,
    /// There were as many verdicts as there may be.
    Capped,
    /// A run was paused, failed or waits for consent, or a person said something.
    Interrupted,
}

impl Goal {
    /// This objective, judged by the agent's own model, ten times at most.
    #[must_use]
    pub fn new(objective: impl Into<String>) -> Self {
        Self { objective: objective.into(), judge: None, rounds_max: 10 }
    }

    /// How it goes, as it is told.
    fn told(&self, status: &str, rounds: u64, verdict: Option<&Verdict>) -> Json {
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
    /// Its name in a state update.
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
    /// Goes after a goal: says it, runs, has it judged and says what is left, until it is reached or the rounds are used
    /// up. What a person says meanwhile ends it at once; a run that is under way goes on, and takes it up.
    ///
    /// # Errors
    /// [`ConversationError::Limit`] for no rounds or an empty objective; [`ConversationError::Model`] where the judge
    /// does not answer; what a run can meet.
    pub async fn run_goal(&self, goal: &Goal) -> Result<GoalOutcome> {
        self.pursue(goal, 0, goal.objective.clone()).await
    }

    /// Goes on with the goal that was last interrupted, where state updates tell of one.
    ///
    /// # Errors
    /// [`ConversationError::NoGoal`], and as [`Conversation::run_goal`].
    pub async fn resume_goal(&self, judge: Option<Arc<dyn Model>>) -> Result<GoalOutcome> {
        let told = self.0.lock().await?.goal.clone().ok_or(ConversationError::NoGoal)?;
        let told = told.raw();
        let text = |name: &str| told.get(name).and_then(Raw::as_text).map(std::borrow::Cow::into_owned);
        let count =
            |name: &str| told.get(name).and_then(Raw::as_i64).and_then(|count| u64::try_from(count).ok());
        if text("status").as_deref() != Some(GoalStatus::Interrupted.as_str()) {
            return Err(ConversationError::NoGoal);
        }
        let objective = text("objective").ok_or(ConversationError::NoGoal)?;
        let goal = Goal { judge, rounds_max: count("max_iterations").unwrap_or(10), ..Goal::new(objective) };
        self.pursue(&goal, count("iteration").unwrap_or(0), judge::resume().to_owned()).await
    }

    /// Whether there is a goal that [`Conversation::resume_goal`] would go on with.
    ///
    /// # Errors
    /// What the store can meet.
    pub async fn has_interrupted_goal(&self) -> Result<bool> {
        let live = self.0.lock().await?;
        let status = live.goal.as_ref().and_then(|goal| goal.raw().get("status")?.as_text());
        Ok(status.as_deref() == Some(GoalStatus::Interrupted.as_str()))
    }

    /// Tells that nobody goes after the goal any more, where one was gone after. For whoever let go of
    /// [`Conversation::run_goal`]; a run that is under way goes on.
    ///
    /// # Errors
    /// What the store can meet.
    pub async fn stop_goal(&self) -> Result<()> {
        let mut live = self.0.lock().await?;
        live.interrupt_goal();
        self.0.commit(&mut live).await
    }

    async fn pursue(&self, goal: &Goal, mut rounds: u64, mut say: String) -> Result<GoalOutcome> {
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
            let said = match local.say_anew(say.into(), Speaker::Goal).await {
                Err(ConversationError::NoGoal) => break GoalStatus::Interrupted,
                said => said?,
            };
            match self.run().await {
                // An agent that goes in circles is judged by what it reached.
                Ok(ExecutionStatus::Finished | ExecutionStatus::Stuck | ExecutionStatus::Idle) => {}
                Ok(_) | Err(ConversationError::Run { .. }) => break GoalStatus::Interrupted,
                Err(error) => return Err(error),
            }
            if self.snapshot().last_user_message.as_ref() != Some(&said) {
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
            if !local.tell(goal, "running", rounds, verdict.as_ref()).await? {
                break GoalStatus::Interrupted;
            }
            say = judge::follow_up(rounds, if missing.is_empty() { UNSAID } else { &missing });
        };
        // A person's message has recorded its end already.
        let is_told = local.tell(goal, status.as_str(), rounds, verdict.as_ref()).await?;
        let status = if is_told { status } else { GoalStatus::Interrupted };
        Ok(GoalOutcome { status, rounds, verdict })
    }
}

impl Local {
    /// What the judge finds of the whole branch.
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

    /// Tells that a goal is gone after from now on.
    async fn begin_goal(&self, goal: &Goal, rounds: u64) -> Result<()> {
        let mut live = self.lock().await?;
        live.tell_goal(goal.told("running", rounds, None));
        self.commit(&mut live).await
    }

    /// Tells how it goes, where state updates are on. Not of a goal that was given up: false.
    async fn tell(&self, goal: &Goal, status: &str, rounds: u64, verdict: Option<&Verdict>) -> Result<bool> {
        let mut live = self.lock().await?;
        if live.has_given_up() {
            return Ok(false);
        }
        live.tell_goal(goal.told(status, rounds, verdict));
        self.commit(&mut live).await?;
        Ok(true)
    }
}

impl Live {
    fn tell_goal(&mut self, value: Json) {
        if self.updates == StateUpdates::On {
            self.push_aside(ConversationStateUpdateEvent::new(
                common(Source::Environment),
                KEY,
                value.clone(),
            ));
        }
        self.goal = Some(value);
    }

    /// Whether the goal that was last told of is gone after; nothing where there is none.
    fn is_pursuing(&self) -> Option<bool> {
        Some(self.goal.as_ref()?.raw().get("active").is_some_and(|active| active.text() == "true"))
    }

    /// Whether the goal that was last told of is no longer gone after.
    pub fn has_given_up(&self) -> bool {
        self.is_pursuing() == Some(false)
    }

    /// A goal that nobody goes after any more is told to be interrupted.
    pub fn interrupt_goal(&mut self) {
        if self.is_pursuing() != Some(true) {
            return;
        }
        let Some(goal) = self.goal.clone() else { return };
        if let serde_json::Value::Object(mut told) = goal.to_value() {
            told.insert("active".to_owned(), false.into());
            told.insert("status".to_owned(), GoalStatus::Interrupted.as_str().into());
            self.tell_goal(Json::from(&serde_json::Value::Object(told)));
        }
    }
}

/// What an event tells of a goal.
pub(super) fn told(event: &Event) -> Option<Json> {
    let Event::StateUpdate(update) = event else { return None };
    (&*update.key == KEY).then(|| update.value.clone())
}
