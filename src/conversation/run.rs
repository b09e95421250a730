//! A run: step after step until the agent has finished, waits, goes in circles, is stopped or has used up what it may.
//!
//! The order within one turn of the loop is that of `runtime.md` section 3.1; what differs while the model is asked is
//! section 3.2. A run is a task of its own: who waits for it may stop waiting, and it goes on.

use std::sync::{Arc, PoisonError};

use tokio_util::sync::CancellationToken;

use super::base::Change;
use super::claim::Claim;
use super::live::{Live, common, note};
use super::{Conversation, ConversationError, Local, Result, Running};
use crate::agent::condenser::CondenseError;
use crate::event::{AgentErrorEvent, ConversationErrorEvent, ErrorClassification, InterruptEvent, Source};
use crate::llm::LlmError;
use crate::state::ExecutionStatus;
use crate::stuck::{Detector, Verdict};

/// What is said of a key that does not open the door; the provider's own words may hold it.
const WRONG_KEY: &str = "Your LLM API key appears to be invalid or has expired.";

/// What the model is told of a call that was under way when it was interrupted.
pub(super) const INTERRUPTED: &str = "Tool call interrupted before completion. The conversation was paused.";

/// What a run may use up. What is `None` is as the conversation was opened with.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RunOptions {
    /// The most steps of this run; more than 0.
    pub max_iterations: Option<u64>,
    /// The most that all model calls of the conversation may have cost, in the price table's currency.
    pub max_budget: Option<f64>,
}

/// One run.
pub(super) struct Run {
    pub cancel: CancellationToken,
    pub max_iterations: u64,
    pub max_budget: Option<f64>,
    pub steps: u64,
    detector: Option<Detector>,
}

/// Whether a run goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Turn,
    End,
}

impl Conversation {
    /// Runs until the agent has finished or cannot go on by itself; answers how it goes then.
    ///
    /// Actions that wait for consent are carried out: calling this is the consent. A run goes on where nobody waits
    /// for it any more; [`Conversation::interrupt`] ends it.
    ///
    /// # Errors
    /// [`ConversationError::Run`] where it failed, which an event tells too; [`ConversationError::Running`] where it
    /// runs already, here or in another process; what getting ready can meet.
    pub async fn run(&self) -> Result<ExecutionStatus> {
        self.run_with(RunOptions::default()).await
    }

    /// The same within other limits.
    ///
    /// # Errors
    /// As [`Conversation::run`]; [`ConversationError::Limit`] for no steps at all.
    pub async fn run_with(&self, options: RunOptions) -> Result<ExecutionStatus> {
        if options.max_iterations == Some(0) {
            return Err(ConversationError::Limit { setting: "max_iterations" });
        }
        self.0.refuse_closed()?;
        let slot = self.0.begin_run().await?;
        let (local, running) = (Arc::clone(&self.0), slot.running.clone());
        let done = tokio::spawn(async move {
            let _slot = slot;
            local.run(running.cancel, options).await
        });
        match done.await {
            Ok(outcome) => outcome.map(|()| self.status()),
            Err(_) => {
                let error = ConversationError::Abandoned { what: "the run" };
                Err(self.0.failed(error).await)
            }
        }
    }

    /// Whether a run is under way in this process.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.0.running().is_some()
    }

    /// Whether another process runs the conversation; what is said to it or paused here reaches that run.
    #[must_use]
    pub fn runs_elsewhere(&self) -> bool {
        self.0.runs_elsewhere()
    }
}

/// The right to run; given back when it is dropped, also by a panic.
struct Slot {
    local: Arc<Local>,
    running: Running,
    /// The same among processes.
    claim: Option<Claim>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        drop(self.claim.take());
        *self.local.running.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.local.objections.close();
        self.running.ended.cancel();
    }
}

impl Local {
    /// The run that is under way.
    pub(super) fn running(&self) -> Option<Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn begin_run(self: &Arc<Self>) -> Result<Slot> {
        let taken = || ConversationError::Running { conversation: self.id.clone() };
        let mut slot = {
            let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            if running.is_some() {
                return Err(taken());
            }
            let new = Running { cancel: CancellationToken::new(), ended: CancellationToken::new() };
            *running = Some(new.clone());
            Slot { local: Arc::clone(self), running: new, claim: None }
        };
        slot.claim = Claim::take(self.host.store(), &self.id).await?;
        if slot.claim.is_none() { Err(taken()) } else { Ok(slot) }
    }

    async fn run(self: &Arc<Self>, cancel: CancellationToken, options: RunOptions) -> Result<()> {
        self.ready().await?;
        let mut run = {
            let mut live = self.lock().await?;
            self.begin(&mut live).await?;
            Run {
                cancel,
                max_iterations: options.max_iterations.unwrap_or(live.base.max_iterations),
                max_budget: options.max_budget.or(self.parts.max_budget),
                steps: 0,
                detector: self.parts.thresholds.map(Detector::new),
            }
        };
        let outcome = loop {
            if run.cancel.is_cancelled() {
                break Err(ConversationError::Model(LlmError::Cancelled));
            }
            match self.turn(&mut run).await {
                Ok(Next::Turn) => {}
                Ok(Next::End) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        match outcome {
            Err(
                ConversationError::Model(LlmError::Cancelled)
                | ConversationError::Condense(CondenseError::Cancelled),
            ) => self.interrupted().await,
            // It has told why already.
            Err(error @ ConversationError::Run { .. }) => Err(error),
            Err(error) => Err(self.failed(error).await),
            Ok(()) => Ok(()),
        }
    }

    /// What was at rest runs. A turn that was over when somebody paused it is over still.
    async fn begin(&self, live: &mut Live) -> Result<()> {
        let status = match live.base.status {
            ExecutionStatus::Paused if live.branch.is_answered() => ExecutionStatus::Finished,
            ExecutionStatus::Idle
            | ExecutionStatus::Paused
            | ExecutionStatus::Error
            | ExecutionStatus::Stuck => ExecutionStatus::Running,
            other @ (ExecutionStatus::Running
            | ExecutionStatus::WaitingForConfirmation
            | ExecutionStatus::Finished
            | ExecutionStatus::Deleting) => other,
        };
        live.set(Change::Status(status));
        self.commit(live).await
    }

    /// One turn of the loop.
    async fn turn(self: &Arc<Self>, run: &mut Run) -> Result<Next> {
        let mut live = self.lock().await?;
        let equipment = self.ready_within(&mut live).await?;
        match live.base.status {
            ExecutionStatus::Paused | ExecutionStatus::Stuck => return Ok(Next::End),
            ExecutionStatus::Finished => {
                let answer = equipment.stop("agent_finished").await;
                live.push_hooks(answer.events);
                let next = match answer.blocked {
                    None => Next::End,
                    Some(reason) => {
                        let feedback = answer.context.unwrap_or(reason);
                        live.push(note(Source::Environment, format!("[Stop hook feedback] {feedback}")));
                        live.set(Change::Status(ExecutionStatus::Running));
                        Next::Turn
                    }
                };
                self.commit(&mut live).await?;
                self.objections.close();
                return Ok(next);
            }
            ExecutionStatus::Idle
            | ExecutionStatus::Running
            | ExecutionStatus::WaitingForConfirmation
            | ExecutionStatus::Error
            | ExecutionStatus::Deleting => {}
        }
        // A message arrived before the hooks were asked.
        self.objections.close();
        match run.detector.as_mut().map(|detector| detector.judge(live.branch.recent())) {
            None | Some(Verdict::GoOn) => {}
            Some(Verdict::Nudge(text)) => {
                live.push(note(Source::Environment, text));
            }
            Some(Verdict::Stuck(_)) => {
                live.set(Change::Status(ExecutionStatus::Stuck));
                self.commit(&mut live).await?;
                return Ok(Next::Turn);
            }
        }
        if live.base.status == ExecutionStatus::WaitingForConfirmation {
            live.set(Change::Status(ExecutionStatus::Running));
        }
        self.commit(&mut live).await?;
        let before = live.base.last_user_message.clone();
        let mut live = self.step(live, run, &equipment).await?;
        run.steps += 1;
        let arrived = live.base.last_user_message != before;
        let next = self.after_step(&mut live, run, arrived);
        self.commit(&mut live).await?;
        Ok(next)
    }

    /// What follows from a step: whether the run goes on.
    fn after_step(&self, live: &mut Live, run: &Run, arrived: bool) -> Next {
        if live.base.status == ExecutionStatus::Error {
            return Next::End;
        }
        let is_last = run.steps >= run.max_iterations;
        let has_finished = live.base.status == ExecutionStatus::Finished;
        let waits = live.base.status == ExecutionStatus::WaitingForConfirmation;
        if arrived && (has_finished || waits) {
            if waits {
                self.reject(live, "Superseded by a new user message");
            }
            let status = if is_last { ExecutionStatus::Idle } else { ExecutionStatus::Running };
            live.set(Change::Status(status));
            if is_last {
                return Next::End;
            }
        } else if waits {
            return Next::End;
        }
        let spent = live.base.stats.combined().accumulated_cost;
        if let Some(budget) = run.max_budget.filter(|budget| spent >= *budget && !has_finished) {
            let detail =
                format!("Agent reached maximum budget limit (${budget:.4}); accumulated cost ${spent:.4}.");
            push_error(live, "MaxBudgetReached", detail);
            return Next::End;
        }
        // The reference ends here too where the agent has just finished, without asking the hooks that may object.
        if is_last && live.base.status != ExecutionStatus::Finished {
            let detail = format!("Agent reached maximum iterations limit ({}).", run.max_iterations);
            push_error(live, "MaxIterationsReached", detail);
            return Next::End;
        }
        if is_last { Next::End } else { Next::Turn }
    }

    /// Writes down that the run was interrupted; every action without an answer gets one.
    async fn interrupted(&self) -> Result<()> {
        let mut live = self.lock().await?;
        let left: Vec<_> = live.branch.pending().to_vec();
        for action in left {
            let error = AgentErrorEvent {
                tool_name: action.tool_name.clone(),
                classification: ErrorClassification::AGENT_ACTION,
                ..AgentErrorEvent::new(common(Source::Agent), &action.tool_call, INTERRUPTED)
            };
            live.push(error);
        }
        live.set(Change::Status(ExecutionStatus::Paused));
        live.push(InterruptEvent::new(common(Source::User)));
        self.commit(&mut live).await
    }

    /// Writes down why the run failed, as far as anything can be written; the error for whoever waits.
    async fn failed(&self, error: ConversationError) -> ConversationError {
        let code = error.code();
        let detail = match &error {
            ConversationError::Model(LlmError::Authentication(_)) => WRONG_KEY.to_owned(),
            other => self.secrets.mask_known().apply(&other.to_string()).into_owned(),
        };
        let Ok(mut live) = self.lock().await else { return error };
        push_error(&mut live, &code, detail.clone());
        if self.commit(&mut live).await.is_err() {
            return error;
        }
        ConversationError::Run { conversation: self.id.clone(), code, detail }
    }
}

/// The run has failed: the status, then the event.
fn push_error(live: &mut Live, code: &str, detail: String) {
    live.set(Change::Status(ExecutionStatus::Error));
    live.push(ConversationErrorEvent::new(common(Source::Environment), code, detail));
}
