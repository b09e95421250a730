//! One turn of a program: it receives one message, and works until it has answered it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::{MutexGuard, mpsc};

use super::step::finish;
use super::turn::Run;
use crate::agent::acp::{AcpError, ToolCall, Turn, TurnUpdate};
use crate::conversation::error::{ConversationError, Result};
use crate::conversation::local::{Acp, Local, Program};
use crate::conversation::memory::{Change, Live, common};
use crate::conversation::setup::acp::{USAGE_ID, is_prompt};
use crate::event::tool::{FinishAction, FinishObservation};
use crate::event::{
    ACPToolCallEvent, Action, ActionEvent, Content, ConversationErrorEvent, Event, Extra, Json, Message,
    MessageEvent, MessageToolCall, Observation, ObservationEvent, Role, Source,
};
use crate::ids::{EventId, Timestamp};
use crate::llm::{Delta, LlmError};
use crate::state::{ExecutionStatus, ModelCall, TokenUsage};

/// The delays before the retries of a turn.
const RETRIES: [Duration; 3] = [Duration::from_secs(5), Duration::from_secs(15), Duration::from_secs(30)];

/// How long a cancelled turn may take to end.
const DRAIN: Duration = Duration::from_secs(2);

/// The answer that is recorded if the program answers without a text.
const NO_RESPONSE: &str = "(No response from ACP server)";

/// The member of the agent's state with the id of the last answered message.
const CURSOR: &str = "acp_last_prompt_user_message_id";

/// How a turn ended.
enum Ended {
    Answered(Value),
    Failed(AcpError),
    Idle,
    Cancelled,
}

impl Local {
    /// Sends the next message to the program and waits for the answer. If there is no message, the agent has finished.
    pub(super) async fn step_program<'l>(
        self: &'l Arc<Self>,
        mut live: MutexGuard<'l, Live>,
        run: &Run,
        acp: &Arc<Acp>,
    ) -> Result<MutexGuard<'l, Live>> {
        let Some((id, prompt)) = next_prompt(&live) else {
            live.set(Change::Status(ExecutionStatus::Finished));
            return Ok(live);
        };
        if live.base.is_message_blocked(&id) {
            live.set(Change::UnblockMessage(id.as_str().into()));
            live.remember(vec![(CURSOR, id.into())]);
            live.set(Change::Status(ExecutionStatus::Finished));
            return Ok(live);
        }
        let is_first = live.base.agent_state.to_value()["acp_suffix_installed"] != true;
        let mut blocks = prompt;
        let suffix = acp.suffix.as_deref().filter(|_| is_first);
        blocks.extend(suffix.map(|text| json!({"type": "text", "text": text})));
        live.remember(vec![("acp_inflight_prompt_user_message_id", id.as_str().into())]);
        self.commit(&mut live).await?;
        let mut running = acp.running.lock().await;
        if running.as_ref().is_none_or(|running| running.peer.has_ended()) {
            let again = self.run_program(&mut live, &acp.settings).await?;
            *running = Some(again);
            self.commit(&mut live).await?;
        }
        drop(live);
        let Some(program) = running.as_mut() else { return self.lock().await };
        let begun = Instant::now();
        let item = EventId::mint();
        let mut turn = Turn::default();
        let mut ended = self.prompt_program(program, acp, &blocks, run, &item, &mut turn).await?;
        for wait in RETRIES {
            match &ended {
                Ended::Failed(error) if error.is_passing() && !program.peer.has_ended() => {}
                _ => break,
            }
            self.commit_calls(turn.close("failed")).await?;
            tokio::select! {
                () = run.cancel.cancelled() => { ended = Ended::Cancelled; break; }
                () = tokio::time::sleep(wait) => {}
            }
            turn = Turn::default();
            ended = self.prompt_program(program, acp, &blocks, run, &item, &mut turn).await?;
        }
        program.peer.stop_listening();
        let is_answered = matches!(ended, Ended::Answered(_));
        let cost = turn.cost.map(|cost| (cost - program.cost).max(0.0));
        program.cost = turn.cost.unwrap_or(program.cost);
        if !is_answered && !matches!(ended, Ended::Failed(_)) {
            // The program may still be working on this turn, so the next turn starts a new program.
            program.peer.close().await;
            *running = None;
        }
        drop(running);
        self.resolve_secrets().await;
        let mut live = self.lock().await?;
        for call in turn.close(if is_answered { "completed" } else { "failed" }) {
            live.push(event(call, self));
        }
        live.remember(vec![("acp_inflight_prompt_user_message_id", Value::Null)]);
        match ended {
            Ended::Answered(answer) => {
                let mut set = vec![(CURSOR, id.into())];
                if suffix.is_some() {
                    set.push(("acp_suffix_installed", true.into()));
                }
                live.remember(set);
                let call = spent(&live, &answer, &turn, cost, begun.elapsed());
                live.set(Change::Spent(Box::new(call)));
                self.push_answer(&mut live, &turn, item);
                if next_prompt(&live).is_none() {
                    finish(&mut live);
                }
                Ok(live)
            }
            Ended::Cancelled => {
                self.commit(&mut live).await?;
                Err(LlmError::Cancelled.into())
            }
            Ended::Idle => {
                let text = format!(
                    "ACP prompt timed out after {:.0}s with no activity from the agent. The agent may have stalled, or it \
                     may have completed its work but the response was not received.",
                    acp.settings.prompt_timeout.as_secs_f64()
                );
                live.push(agent_message(text));
                live.remember(vec![(CURSOR, id.into())]);
                live.set(Change::Status(ExecutionStatus::Error));
                Ok(live)
            }
            Ended::Failed(error) => {
                let (code, detail) = (error.turn_code(), self.masked(&error.detail()));
                live.push(agent_message(format!("ACP error: {detail}")));
                live.push(ConversationErrorEvent::new(common(Source::Agent), code, detail.clone()));
                live.remember(vec![(CURSOR, id.into())]);
                live.set(Change::Status(ExecutionStatus::Error));
                self.commit(&mut live).await?;
                Err(ConversationError::Run { conversation: self.id.clone(), code: code.to_owned(), detail })
            }
        }
    }

    /// Sends the message once and applies the updates until the answer. Commits tool calls as they begin and end.
    async fn prompt_program(
        &self,
        program: &Program,
        acp: &Acp,
        blocks: &[Value],
        run: &Run,
        item: &EventId,
        turn: &mut Turn,
    ) -> Result<Ended> {
        let mut updates = program.peer.updates();
        let params = json!({"sessionId": program.session, "prompt": blocks});
        let answer = program.peer.request("session/prompt", params);
        tokio::pin!(answer);
        loop {
            tokio::select! {
                biased;
                () = run.cancel.cancelled() => break,
                Some(update) = updates.recv() => self.apply_update(turn, &update, item).await?,
                answer = &mut answer => {
                    self.apply_pending_updates(turn, &mut updates, item).await?;
                    return Ok(match answer {
                        Ok(answer) => Ended::Answered(answer),
                        Err(error) => Ended::Failed(error),
                    });
                }
                () = tokio::time::sleep(acp.settings.prompt_timeout) => {
                    program.peer.notify("session/cancel", json!({"sessionId": program.session})).await;
                    return Ok(Ended::Idle);
                }
            }
        }
        program.peer.notify("session/cancel", json!({"sessionId": program.session})).await;
        let drained = async {
            loop {
                tokio::select! {
                    biased;
                    Some(_) = updates.recv() => {}
                    answer = &mut answer => return answer,
                }
            }
        };
        let _ignored = tokio::time::timeout(DRAIN, drained).await;
        Ok(Ended::Cancelled)
    }

    async fn apply_pending_updates(
        &self,
        turn: &mut Turn,
        updates: &mut mpsc::Receiver<Value>,
        item: &EventId,
    ) -> Result<()> {
        while let Ok(update) = updates.try_recv() {
            self.apply_update(turn, &update, item).await?;
        }
        Ok(())
    }

    async fn apply_update(&self, turn: &mut Turn, update: &Value, item: &EventId) -> Result<()> {
        match turn.apply(update) {
            TurnUpdate::Text(text) => self.send_delta(item, Delta::Text(self.masked(&text).as_str().into())),
            TurnUpdate::Thought(text) => {
                self.send_delta(item, Delta::Reasoning(self.masked(&text).as_str().into()))
            }
            TurnUpdate::Call(call) => self.commit_calls(vec![*call]).await?,
            TurnUpdate::Nothing => {}
        }
        Ok(())
    }

    fn send_delta(&self, item: &EventId, delta: Delta) {
        if let Some(callback) = &self.parts.on_delta {
            callback(item, &delta);
        }
    }

    async fn commit_calls(&self, calls: Vec<ToolCall>) -> Result<()> {
        if calls.is_empty() {
            return Ok(());
        }
        self.resolve_secrets().await;
        let mut live = self.lock().await?;
        for call in calls {
            live.push(event(call, self));
        }
        self.commit(&mut live).await
    }

    /// Takes in the program's answer as a `finish` action and its observation, as in the reference.
    fn push_answer(&self, live: &mut Live, turn: &Turn, item: EventId) {
        let text = match self.masked(&turn.text) {
            text if text.is_empty() => NO_RESPONSE.to_owned(),
            text => text,
        };
        let thoughts = self.masked(&turn.thoughts);
        let arguments = json!({"message": text}).to_string();
        let call = MessageToolCall::new(EventId::mint().as_str(), "finish", arguments);
        let action = Action::Finish(FinishAction { message: text.as_str().into(), extra: Extra::NONE });
        let mut event = ActionEvent::new(common(Source::Agent), call, EventId::mint().as_str(), Some(action));
        event.common.id = item;
        event.reasoning_content = (!thoughts.is_empty()).then(|| thoughts.as_str().into());
        if let Event::Action(action) = live.push(event) {
            let observation =
                FinishObservation { content: vec![Content::text(text)], is_error: false, extra: Extra::NONE };
            let observation = Observation::Finish(observation);
            live.push(ObservationEvent::new(common(Source::Environment), &action, observation));
        }
    }
}

/// Returns the id of the next unanswered message, and its content in the protocol's form.
fn next_prompt(live: &Live) -> Option<(String, Vec<Value>)> {
    let state = live.base.agent_state.to_value();
    let cursor = state[CURSOR].as_str();
    let events: Vec<&Event> = live.branch.view.events().filter(|event| is_prompt(event)).collect();
    let after = cursor.and_then(|id| events.iter().position(|event| event.id().as_str() == id));
    let due = events.get(after.map_or(0, |place| place + 1)..)?;
    // If the cursor is not on this branch, only the last message is due.
    let due = if cursor.is_some() && after.is_none() { due.last() } else { due.first() };
    let Some(Event::Message(message)) = due else { return None };
    let mut blocks = Vec::new();
    let text = |text: &str| json!({"type": "text", "text": text});
    for part in &message.llm_message.content {
        match part {
            Content::Text(part) if !part.text.trim().is_empty() => blocks.push(text(&part.text)),
            Content::Image(image) => blocks.extend(image.image_urls.iter().map(|url| picture(url))),
            Content::Text(_) | Content::Unknown(_) => {}
        }
    }
    blocks.extend(message.extended_content.iter().map(|part| text(&part.text)));
    Some((message.common.id.as_str().to_owned(), blocks))
}

fn picture(url: &str) -> Value {
    let data = url.strip_prefix("data:").and_then(|rest| rest.split_once(','));
    match data {
        Some((head, data)) => {
            let kind = head.split(';').next().unwrap_or_default();
            json!({"type": "image", "data": data, "mimeType": kind})
        }
        None => json!({"type": "image", "data": "", "mimeType": "image/png", "uri": url}),
    }
}

/// Returns a call as an event with all secrets masked.
fn event(call: ToolCall, local: &Local) -> Event {
    let masked = |value: Value| {
        let text = local.masked(&value.to_string());
        // Masking within strings keeps the JSON valid. If it is invalid nevertheless, an empty object replaces it.
        Json::parse(&text).unwrap_or_else(|_| Json::empty_object())
    };
    Event::from(ACPToolCallEvent {
        common: common(Source::Agent),
        tool_call_id: call.id.as_str().into(),
        title: local.masked(&call.title).as_str().into(),
        is_error: call.status.as_deref() == Some("failed"),
        status: call.status.as_deref().map(Into::into),
        tool_kind: call.kind.as_deref().map(Into::into),
        raw_input: call.raw_input.map(masked),
        raw_output: call.raw_output.map(masked),
        content: call.content.map(|content| content.into_iter().map(masked).collect()),
        extra: Extra::NONE,
    })
}

fn agent_message(text: String) -> MessageEvent {
    MessageEvent::new(common(Source::Agent), Message::new(Role::Assistant, vec![Content::text(text)]))
}

fn spent(live: &Live, answer: &Value, turn: &Turn, cost: Option<f64>, latency: Duration) -> ModelCall {
    let state = live.base.agent_state.to_value();
    let model = state["acp_current_model_id"].as_str().unwrap_or(USAGE_ID).to_owned();
    let count = |name: &str| answer["usage"][name].as_u64().unwrap_or_default();
    ModelCall {
        usage_id: USAGE_ID.to_owned(),
        tokens: TokenUsage {
            model: model.as_str().into(),
            prompt_tokens: count("inputTokens"),
            completion_tokens: count("outputTokens"),
            cache_read_tokens: count("cachedReadTokens"),
            cache_write_tokens: count("cachedWriteTokens"),
            reasoning_tokens: count("thoughtTokens"),
            context_window: turn.context_window,
            ..TokenUsage::default()
        },
        model,
        cost,
        latency: latency.as_secs_f64(),
        timestamp: Timestamp::now().0 as f64 / 1e6,
    }
}
