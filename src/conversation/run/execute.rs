//! Carries out the actions of one reply.
//!
//! Several actions run at once if the agent's settings allow it, otherwise one after the other. Answers are stored in
//! the order of the actions, each as soon as all earlier ones are stored. Actions after `finish` in a reply are not
//! carried out, and their answers say so. The reference leaves them open and carries them out in the next run. Source:
//! `docs/reference/calls.md#executing-a-batch`.

use std::path::Component;
use std::sync::{Arc, PoisonError};

use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::secrets::Shared;
use super::step::finish;
use super::turn::{INTERRUPTED, Run};
use crate::conversation::error::Result;
use crate::conversation::local::{Equipment, Local, Terms};
use crate::conversation::memory::{Change, Live, common};
use crate::event::{
    ActionEvent, AgentErrorEvent, ErrorClassification, Event, Observation, ObservationEvent, RejectionSource,
    Source, UserRejectObservation,
};
use crate::json::Object;
use crate::tool::{self, Context, Tool, ToolError};

/// The tool that ends a turn.
const FINISH: &str = "finish";

/// The answer to a call after the call that ended the turn.
const AFTER_FINISH: &str = "Tool call not executed: the agent finished in the same response.";

/// The answer to a call that had not begun before an interruption.
const NOT_BEGUN: &str = "Tool call cancelled by interrupt.";

/// How a call ended.
enum Ended {
    Answered(Box<Observation>),
    Failed(ToolError),
    NotBegun,
    Interrupted,
    Panicked,
}

/// A call that must be answered: blocked by a hook, in progress, or of an unknown tool.
enum Due {
    Refused(crate::event::Text),
    Begun(JoinHandle<Ended>),
    Unknown,
}

impl Local {
    /// Carries out `actions` and stores their answers.
    pub(in crate::conversation) async fn execute(
        self: &Arc<Self>,
        live: &mut Live,
        run: &Run,
        equipment: &Arc<Equipment>,
        actions: &[Arc<ActionEvent>],
    ) -> Result<()> {
        let last = actions.iter().position(|action| &*action.tool_name == FINISH);
        let (due, skipped) = actions.split_at(last.map_or(actions.len(), |last| last + 1));
        let at_once = if due.len() > 1 { equipment.tools_at_once } else { 1 };
        let gate = Arc::new(Semaphore::new(at_once));
        self.offer_terms(live, run);
        let context = self.context(run);
        let begin = |live: &Live, action: &Arc<ActionEvent>| {
            if let Some(reason) = live.base.blocked_action(action.common.id.as_str()) {
                return Due::Refused(reason.clone());
            }
            match equipment.toolbox.get(&action.tool_name) {
                Some(tool) => Due::Begun(tokio::spawn(call(
                    Arc::clone(tool),
                    Arc::clone(action),
                    context.clone(),
                    Arc::clone(&gate),
                ))),
                None => Due::Unknown,
            }
        };
        let mut begun: Vec<Due> = Vec::new();
        if at_once > 1 {
            begun.extend(due.iter().map(|action| begin(live, action)));
        }
        let mut begun = begun.into_iter();
        for (place, action) in due.iter().enumerate() {
            let is_last = last == Some(place);
            if is_last {
                skipped.iter().for_each(|action| {
                    push_failure(live, action, AFTER_FINISH, ErrorClassification::AGENT_ACTION)
                });
            }
            let this = match begun.next() {
                Some(this) => this,
                None => begin(live, action),
            };
            let has_answered = self.answer(live, equipment, action, this).await?;
            if is_last && has_answered {
                finish(live);
            }
            self.commit(live).await?;
        }
        Ok(())
    }

    /// Waits for a call to end and takes in its answer. Returns whether the call was carried out.
    async fn answer(
        &self,
        live: &mut Live,
        equipment: &Equipment,
        action: &Arc<ActionEvent>,
        due: Due,
    ) -> Result<bool> {
        let name = &action.tool_name;
        let ended = match due {
            Due::Refused(reason) => {
                live.set(Change::UnblockAction(action.common.id.as_str().into()));
                live.push(UserRejectObservation::new(
                    common(Source::Environment),
                    action,
                    reason,
                    RejectionSource::Hook,
                ));
                return Ok(false);
            }
            Due::Unknown => {
                let available = equipment.toolbox.names().map(|name| format!("'{name}'"));
                let available = available.collect::<Vec<_>>().join(", ");
                let error = format!("Tool '{name}' not found. Available: [{available}]");
                push_failure(live, action, &error, ErrorClassification::AGENT_ACTION);
                return Ok(false);
            }
            Due::Begun(call) => call.await.unwrap_or(Ended::Panicked),
        };
        let failed = |text: &str| format!("Error executing tool '{name}': {text}");
        match ended {
            Ended::Answered(observation) => {
                let mut event = ObservationEvent::new(common(Source::Environment), action, *observation);
                self.add_rules(live, equipment, action, &mut event);
                let answer = equipment.post_tool_use(action, &event).await;
                live.push_hooks_aside(answer.events);
                if let Observation::InvokeSkill(answer) = &event.observation
                    && !answer.is_error
                {
                    live.set(Change::InvokedSkill(answer.skill_name.clone()));
                }
                self.spent_by_tasks().into_iter().for_each(|change| live.set(change));
                live.push(event);
                return Ok(true);
            }
            Ended::Failed(ToolError::Arguments(text) | ToolError::Failed(text)) => {
                push_failure(live, action, &failed(&text), ErrorClassification::AGENT_ACTION);
            }
            Ended::Failed(ToolError::Internal(text) | ToolError::ResourceTimeout(text)) => {
                push_failure(live, action, &failed(&text), ErrorClassification::INTERNAL);
            }
            Ended::Failed(ToolError::Cancelled) | Ended::Interrupted => {
                push_failure(live, action, INTERRUPTED, ErrorClassification::AGENT_ACTION);
            }
            Ended::NotBegun => push_failure(live, action, NOT_BEGUN, ErrorClassification::AGENT_ACTION),
            Ended::Panicked => {
                push_failure(live, action, &failed("the tool panicked"), ErrorClassification::INTERNAL);
            }
        }
        Ok(false)
    }

    /// Adds the rules for the file that an action has touched to the answer.
    fn add_rules(
        &self,
        live: &mut Live,
        equipment: &Equipment,
        action: &Arc<ActionEvent>,
        event: &mut ObservationEvent,
    ) {
        let Some(guide) = &equipment.guide else { return };
        let dumped = Event::Action(Arc::clone(action)).dump();
        let Some(path) = Object::of(&dumped).get("action").and_then(|action| action.get("path")?.as_str())
        else {
            return;
        };
        let path = self.working_dir.join(&*path);
        let Ok(relative) = path.strip_prefix(&self.working_dir) else { return };
        if relative.components().any(|part| !matches!(part, Component::Normal(_))) {
            return;
        }
        if let Some(called) = guide.for_path(relative, &live.base.path_rules) {
            event.extended_content.push(called.content);
            live.set(Change::PathRules([live.base.path_rules.clone(), called.names].concat()));
        }
    }

    /// Stores the terms for the tasks that the next tool calls start.
    fn offer_terms(&self, live: &Live, run: &Run) {
        let terms = Terms {
            agent: live.base.agent.clone(),
            policy: live.base.policy.clone(),
            max_iterations: run.max_iterations,
            max_budget: run.max_budget,
            cipher: live.sealing.cipher.clone(),
        };
        *self.tasks.terms.lock().unwrap_or_else(PoisonError::into_inner) = Some(terms);
    }

    /// Takes the costs of tasks that are not yet in the parent's base state.
    fn spent_by_tasks(&self) -> Vec<Change> {
        let mut spent = self.tasks.spent.lock().unwrap_or_else(PoisonError::into_inner);
        spent.drain(..).map(|(usage, metrics)| Change::Delegated(usage, Box::new(metrics))).collect()
    }

    /// Returns the context of the calls of a run.
    fn context(&self, run: &Run) -> Context {
        self.context_with(run.cancel.clone())
    }

    pub(in crate::conversation) fn context_with(
        &self,
        cancel: tokio_util::sync::CancellationToken,
    ) -> Context {
        Context {
            working_dir: self.working_dir.clone(),
            keep_dir: self.keep_dir.clone(),
            secrets: Arc::new(Shared { own: self.secrets.clone(), lender: self.parts.lender.clone() }),
            cancel,
        }
    }
}

/// Waits for a permit, and then runs one call.
async fn call(
    tool: Arc<dyn Tool>,
    action: Arc<ActionEvent>,
    context: Context,
    gate: Arc<Semaphore>,
) -> Ended {
    let permit = tokio::select! {
        biased;
        () = context.cancel.cancelled() => None,
        permit = gate.acquire_owned() => permit.ok(),
    };
    let (Some(_permit), Some(action)) = (permit, &action.action) else { return Ended::NotBegun };
    match tool::run(&*tool, action, &context).await {
        Ok(observation) => Ended::Answered(Box::new(observation)),
        Err(ToolError::Cancelled) => Ended::Interrupted,
        Err(error) => Ended::Failed(error),
    }
}

fn push_failure(live: &mut Live, action: &ActionEvent, error: &str, classification: ErrorClassification) {
    live.push(AgentErrorEvent {
        tool_name: action.tool_name.clone(),
        classification,
        ..AgentErrorEvent::new(common(Source::Agent), &action.tool_call, error)
    });
}
