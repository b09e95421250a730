//! A run: step after step, until the agent has finished, waits, is stuck or is stopped, or until a limit is reached.
//!
//! The order within one turn of the loop is that of `docs/reference/runtime.md#loop`; for a model call see
//! `docs/reference/runtime.md#while-the-model-is-asked`. A run is a separate task, so it continues if the caller stops
//! waiting for it.

use std::sync::{Arc, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::agent::condenser::CondenseError;
use crate::conversation::claim::Claim;
use crate::conversation::error::{ConversationError, Result};
use crate::conversation::local::{Conversation, Local, Running};
use crate::conversation::memory::{Change, Live, common, note};
use crate::event::{AgentErrorEvent, ConversationErrorEvent, ErrorClassification, InterruptEvent, Source};
use crate::llm::LlmError;
use crate::state::ExecutionStatus;
use crate::stuck::{Detector, Verdict};

/// The error text for an invalid API key. It replaces the provider's text, which may contain the key.
const WRONG_KEY: &str = "Your LLM API key appears to be invalid or has expired.";

/// The answer to a tool call that was interrupted.
pub(super) const INTERRUPTED: &str = "Tool call interrupted before completion. The conversation was paused.";

/// The limits of a run. For `None`, the limit applies that the conversation was opened with.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub struct RunOptions {
    /// The maximum number of steps of this run. More than 0.
    pub max_iterations: Option<u64>,
    /// The maximum cost of all model calls of the conversation, in the price table's currency.
    pub max_budget: Option<f64>,
}

setters!(RunOptions { max_iterations?: u64, max_budget?: f64 });

/// The limits and the state of one run.
pub(in crate::conversation) struct Run {
    pub cancel: CancellationToken,
    pub max_iterations: u64,
    pub max_budget: Option<f64>,
    pub steps: u64,
    detector: Option<Detector>,
    /// The user who consents to the waiting actions, if it is not the store's own. Taken with the first consent.
    by: Option<String>,
}

/// Whether a run continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Turn,
    End,
}

impl Conversation {
    /// Runs until the agent has finished or cannot continue by itself. Returns the status then.
    ///
    /// Actions that wait for consent are executed: this call is the consent. The run continues if the caller stops
    /// waiting. [`Conversation::interrupt`] ends it.
    ///
    /// # Errors
    /// [`ConversationError::Run`] if the run failed, which an event records too. [`ConversationError::Running`] if a
    /// run is already in progress, in this process or another. Also the errors of preparing the conversation.
    pub async fn run(&self) -> Result<ExecutionStatus> {
        self.run_with(RunOptions::default()).await
    }

    /// Like [`Conversation::run`], with other limits.
    ///
    /// # Errors
    /// As [`Conversation::run`], and [`ConversationError::Limit`] if `max_iterations` is 0.
    pub async fn run_with(&self, options: RunOptions) -> Result<ExecutionStatus> {
        self.run_by(options, None).await
    }

    /// Does the same. The record of the consent names `by`, the holder of a key of a server. `None`: the user of the
    /// store.
    pub(crate) async fn run_by(&self, options: RunOptions, by: Option<String>) -> Result<ExecutionStatus> {
        if options.max_iterations == Some(0) {
            return Err(ConversationError::Limit { setting: "max_iterations" });
        }
        self.0.refuse_closed()?;
        let slot = self.0.begin_run().await?;
        let (local, running) = (Arc::clone(&self.0), slot.running.clone());
        let done = tokio::spawn(async move {
            let _slot = slot;
            local.run(running.cancel, options, by).await
        });
        match done.await {
            Ok(outcome) => outcome.map(|()| self.status()),
            Err(_) => {
                let error = ConversationError::Abandoned { what: "the run" };
                Err(self.0.failed(error).await)
            }
        }
    }

    /// Returns whether a run is in progress in this process.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.0.running().is_some()
    }

    /// Returns whether another process runs the conversation. A message or a pause from here reaches that run.
    #[must_use]
    pub fn runs_elsewhere(&self) -> bool {
        self.0.runs_elsewhere()
    }
}

/// The right to run the conversation. It is released on drop, also after a panic.
struct Slot {
    local: Arc<Local>,
    running: Running,
    /// The right to run it among processes.
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

    async fn run(
        self: &Arc<Self>,
        cancel: CancellationToken,
        options: RunOptions,
        by: Option<String>,
    ) -> Result<()> {
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
                by,
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
            // The failure is already recorded.
            Err(error @ ConversationError::Run { .. }) => Err(error),
            Err(error) => Err(self.failed(error).await),
            Ok(()) => Ok(()),
        }
    }

    /// Sets the status `running` if the conversation was at rest. If it was paused after the agent's answer, it is
    /// finished.
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

    /// Executes one turn of the loop.
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
        // If a message arrived before the Stop hooks were asked, they are not asked now.
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
        let by = run.by.take();
        if live.base.status == ExecutionStatus::WaitingForConfirmation {
            live.set(Change::Status(ExecutionStatus::Running));
            live.draft.by = by;
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

    /// Sets the status after a step. Returns whether the run continues.
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
        // If the agent has just finished, the run ends without asking the Stop hooks, as in the reference.
        if is_last && live.base.status != ExecutionStatus::Finished {
            let detail = format!("Agent reached maximum iterations limit ({}).", run.max_iterations);
            push_error(live, "MaxIterationsReached", detail);
            return Next::End;
        }
        if is_last { Next::End } else { Next::Turn }
    }

    /// Records that the run was interrupted. Every pending action gets an answer.
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

    /// Records why the run failed, if the store still works. Returns the error for the caller.
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

/// Adds the failure of the run: first the status, then the event.
fn push_error(live: &mut Live, code: &str, detail: String) {
    live.set(Change::Status(ExecutionStatus::Error));
    live.push(ConversationErrorEvent::new(common(Source::Environment), code, detail));
}
