//! One step of a run: executes the pending actions, or else asks the model and stores its reply as events.
//!
//! Order: `docs/reference/runtime.md#step`. The conversation is not locked while the model is asked. Changes that
//! others make meanwhile are applied before the reply is stored.

use std::sync::Arc;

use tokio::sync::MutexGuard;

use super::turn::Run;
use crate::agent::call::{self, AskedRisk};
use crate::agent::step::{self, NUDGE, Question, ReplyKind, StepError};
use crate::conversation::error::{ConversationError, Result};
use crate::conversation::local::{Equipment, Local};
use crate::conversation::memory::{Change, Live, OnPause, common, note};
use crate::event::{
    ActionEvent, AgentErrorEvent, Condensation, CondensationRequest, Content, ErrorClassification, Event,
    Map, Message, MessageEvent, Risk, SecurityAnalysisEvent, Source,
};
use crate::ids::{EventId, Timestamp};
use crate::llm::{LlmError, Model, Reply};
use crate::state::{ExecutionStatus, ModelCall};
use crate::view::View;

/// The result of a step without pending actions.
enum Thought {
    /// The view was too long and was condensed.
    Condensed(Box<Condensation>),
    /// The model was asked.
    Model(Box<step::Thought>),
}

impl Local {
    /// Takes one step. The conversation is unlocked while the model is asked.
    pub(super) async fn step<'l>(
        self: &'l Arc<Self>,
        mut live: MutexGuard<'l, Live>,
        run: &Run,
        equipment: &Arc<Equipment>,
    ) -> Result<MutexGuard<'l, Live>> {
        if let Some(acp) = &equipment.acp {
            return self.step_program(live, run, acp).await;
        }
        let waiting = live.branch.pending().to_vec();
        if !waiting.is_empty() {
            self.execute(&mut live, run, equipment, &waiting).await?;
            return Ok(live);
        }
        let last = live.base.last_user_message.clone();
        if let Some(blocked) = last.filter(|id| live.base.is_message_blocked(id.as_str())) {
            live.set(Change::UnblockMessage(blocked.as_str().into()));
            live.set(Change::Status(ExecutionStatus::Finished));
            return Ok(live);
        }
        let (view, moves) = (Arc::clone(&live.branch.view), live.moves);
        drop(live);
        let item = EventId::mint();
        let (condensed, calls) = self.condense_view(&view, run, equipment).await;
        let thought = match condensed {
            Ok(None) => self.ask_model(&view, run, equipment, &item).await,
            Ok(Some(condensation)) => Ok(Thought::Condensed(Box::new(condensation))),
            Err(error) => Err(error.into()),
        };
        drop(view);
        self.resolve_secrets().await;
        let mut live = self.lock().await?;
        for call in calls {
            live.set(Change::Spent(Box::new(call)));
        }
        let thought = match thought {
            Ok(thought) => thought,
            Err(error) => {
                self.commit(&mut live).await?;
                return Err(error);
            }
        };
        if let Thought::Model(thought) = &thought
            && let step::Thought::Replied(reply) = &**thought
        {
            live.set(Change::Spent(Box::new(spent(&*equipment.model, reply))));
        }
        if live.moves != moves {
            // HEAD was moved meanwhile, so the reply belongs to a branch that is no longer active.
            return Ok(live);
        }
        match thought {
            Thought::Condensed(condensation) => drop(live.push(*condensation)),
            Thought::Model(thought) => self.take(&mut live, run, equipment, *thought, item).await?,
        }
        Ok(live)
    }

    /// Asks the model for its next reply.
    async fn ask_model(
        &self,
        view: &View,
        run: &Run,
        equipment: &Equipment,
        item: &EventId,
    ) -> Result<Thought> {
        let callback = self.parts.on_delta.clone();
        let on_delta = callback.map(|callback| {
            let item = item.clone();
            move |delta| callback(&item, &delta)
        });
        let question = Question {
            view,
            model: &equipment.model,
            tools: &equipment.schemas,
            conversation: self.id.as_str().into(),
            can_condense: !equipment.condensers.is_empty(),
            cancel: &run.cancel,
            on_delta: on_delta.as_ref().map(|callback| callback as &(dyn Fn(_) + Send + Sync)),
        };
        let thought = tokio::select! {
            biased;
            () = run.cancel.cancelled() => Err(StepError::Model(LlmError::Cancelled)),
            thought = step::ask(question) => thought,
        };
        thought.map(|thought| Thought::Model(Box::new(thought))).map_err(|error| match error {
            StepError::Model(error) => ConversationError::Model(error),
            StepError::Messages(source) => {
                crate::Error::Messages { conversation: self.id.clone(), source }.into()
            }
        })
    }

    async fn take(
        self: &Arc<Self>,
        live: &mut Live,
        run: &Run,
        equipment: &Arc<Equipment>,
        thought: step::Thought,
        item: EventId,
    ) -> Result<()> {
        match thought {
            step::Thought::Replied(reply) => self.take_reply(live, run, equipment, reply, item).await,
            step::Thought::Blind(message) => {
                live.push(MessageEvent::new(common(Source::Agent), message));
                finish(live);
                Ok(())
            }
            step::Thought::Feedback(text) => {
                equipment.push_user_message(live, note(Source::User, text)).await;
                Ok(())
            }
            step::Thought::TooMuch { is_malformed } => {
                if is_malformed {
                    self.rebuild(live).await?;
                }
                live.push(CondensationRequest::new(common(Source::Environment)));
                Ok(())
            }
        }
    }

    async fn take_reply(
        self: &Arc<Self>,
        live: &mut Live,
        run: &Run,
        equipment: &Arc<Equipment>,
        reply: Reply,
        item: EventId,
    ) -> Result<()> {
        match ReplyKind::of(&reply.message) {
            ReplyKind::Calls => {
                let actions = self.take_calls(live, equipment, reply, item).await;
                if self.must_ask(live, &actions) {
                    live.set(Change::Status(ExecutionStatus::WaitingForConfirmation));
                    return Ok(());
                }
                self.commit(live).await?;
                // A pause during the model call holds back the actions, unless `OnPause::FinishStep` is set.
                let holds =
                    live.base.status == ExecutionStatus::Paused && self.parts.on_pause == OnPause::Hold;
                if actions.is_empty() || holds {
                    return Ok(());
                }
                self.execute(live, run, equipment, &actions).await
            }
            ReplyKind::Said => {
                self.push_message(live, reply, item);
                finish(live);
                Ok(())
            }
            ReplyKind::OnlyThought | ReplyKind::Empty => {
                self.push_message(live, reply, item);
                live.push(note(Source::Environment, NUDGE));
                Ok(())
            }
        }
    }

    /// Adds the model's message, with every secret masked. The parts that the provider signed are not changed.
    fn push_message(&self, live: &mut Live, reply: Reply, item: EventId) {
        let mask = self.secrets.mask_known();
        let mut message = reply.message;
        for part in &mut message.content {
            if let Content::Text(text) = part {
                text.text = mask.apply(&text.text).as_ref().into();
            }
        }
        message.reasoning_content = message.reasoning_content.map(|text| mask.apply(&text).as_ref().into());
        let mut event = MessageEvent::new(common(Source::Agent), message);
        event.common.id = item;
        event.llm_response_id = Some(reply.id);
        live.push(event);
    }

    /// Adds an action for each call of a reply. An invalid call becomes an action without arguments, and an error.
    /// Returns the valid actions.
    async fn take_calls(
        &self,
        live: &mut Live,
        equipment: &Equipment,
        reply: Reply,
        item: EventId,
    ) -> Vec<Arc<ActionEvent>> {
        let asked = if live.base.analyzer.is_some() { AskedRisk::Heeded } else { AskedRisk::Ignored };
        let mut first = Some((reply.message.clone(), item));
        let mut actions = Vec::new();
        for tool_call in reply.message.tool_calls.iter().flatten() {
            let read = call::read(tool_call, &equipment.tools, asked);
            let (action, call, rest) = match read {
                Ok(valid) => (Some(valid.action), valid.call, Ok((valid.risk, valid.summary))),
                Err(invalid) => (None, invalid.call, Err((invalid.tool_name, invalid.error))),
            };
            let mut event = ActionEvent::new(common(Source::Agent), call, reply.id.clone(), action);
            if let Some((message, item)) = first.take() {
                with_thought(&mut event, message);
                event.common.id = item;
            }
            match rest {
                Ok((risk, summary)) => {
                    event.security_risk = risk;
                    event.summary = Some(summary);
                    let answer = equipment.pre_tool_use(&event).await;
                    live.push_hooks_aside(answer.events);
                    if let Some(reason) = answer.blocked {
                        live.set(Change::BlockAction(event.common.id.as_str().into(), reason));
                    }
                    if let Event::Action(action) = live.push(event) {
                        actions.push(action);
                    }
                }
                Err((tool_name, error)) => {
                    let error = AgentErrorEvent {
                        tool_name,
                        classification: ErrorClassification::AGENT_ACTION,
                        ..AgentErrorEvent::new(common(Source::Agent), &event.tool_call, error)
                    };
                    live.push(event);
                    live.push(error);
                }
            }
        }
        actions
    }

    /// Returns whether these actions have to wait for confirmation. If there is an analyzer, adds an event with its
    /// ratings.
    fn must_ask(&self, live: &mut Live, actions: &[Arc<ActionEvent>]) -> bool {
        use crate::event::Action::{Finish, Think};
        let is_harmless = matches!(actions, [only] if matches!(only.action, Some(Finish(_) | Think(_))));
        if actions.is_empty() || is_harmless {
            return false;
        }
        let policy = live.base.policy.clone();
        let Some(analyzer) = live.base.analyzer.clone() else { return policy.asks(&Risk::Unknown) };
        let (mut risks, mut details) = (Map::default(), Map::default());
        let mut asks = false;
        for action in actions {
            let analysis = analyzer.analyze(action);
            let id = action.common.id.as_str();
            asks |= policy.asks(&analysis.risk);
            risks.0.push((id.into(), analysis.risk));
            if let Some(detail) = analysis.details {
                details.0.push((id.into(), detail));
            }
        }
        live.push(SecurityAnalysisEvent {
            details,
            ..SecurityAnalysisEvent::new(common(Source::Environment), analyzer.kind(), policy.kind(), risks)
        });
        asks
    }

    /// Resolves every secret that has no known value, so that the mask includes its value.
    pub(in crate::conversation) async fn resolve_secrets(&self) {
        self.secrets.resolve().await;
    }
}

/// Sets the status `finished`. If the conversation was paused meanwhile, it finishes when it is resumed.
pub(in crate::conversation) fn finish(live: &mut Live) {
    if live.base.status != ExecutionStatus::Paused {
        live.set(Change::Status(ExecutionStatus::Finished));
    }
}

/// Moves the reply's text and reasoning into its first action.
fn with_thought(event: &mut ActionEvent, message: Message) {
    let texts = message.content.into_iter().filter_map(|part| match part {
        Content::Text(text) => Some(text),
        Content::Image(_) | Content::Unknown(_) => None,
    });
    event.thought = texts.collect();
    event.reasoning_content = message.reasoning_content;
    event.thinking_blocks = message.thinking_blocks;
    event.responses_reasoning_item = message.responses_reasoning_item.map(Box::new);
}

/// Returns the record of a reply's tokens and cost.
pub(in crate::conversation) fn spent(model: &dyn Model, reply: &Reply) -> ModelCall {
    ModelCall {
        usage_id: model.usage_id().to_owned(),
        model: model.name().to_owned(),
        tokens: reply.usage.clone(),
        cost: reply.cost,
        latency: reply.latency.as_secs_f64(),
        timestamp: Timestamp::now().0 as f64 / 1e6,
    }
}
