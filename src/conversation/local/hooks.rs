//! The input of the hooks at each point, and the events that report them.
//!
//! The events are placed as in the reference. Events around tools, and of prompts without added context, are beside the
//! branch. Events of sessions and stops are on it. Source: `docs/reference/hooks.md#points` and
//! `docs/reference/hooks.md#hook-events`.

use std::sync::Arc;

use super::equipment::Equipment;
use crate::conversation::memory::{Change, Live, common};
use crate::event::{
    ActionEvent, Content, Event, HookExecutionEvent, HookType, Json, Map, MessageEvent, ObservationEvent,
    Source, Text, TextContent,
};
use crate::hook::{Input, Ran, blocking_reason, joined_context};
use crate::json::Object;

/// The combined answer of the hooks of one point.
#[derive(Debug, Default)]
pub(in crate::conversation) struct Answer {
    pub events: Vec<HookExecutionEvent>,
    pub blocked: Option<Text>,
    pub context: Option<Text>,
}

/// The tool call or the message that the hooks of one point are about.
#[derive(Default)]
struct Subject {
    tool_name: Option<Text>,
    action_id: Option<Text>,
    message_id: Option<Text>,
}

impl Equipment {
    async fn run_hooks(&self, point: HookType, input: Input, subject: Subject) -> Answer {
        let Some(hooks) = &self.hooks else { return Answer::default() };
        let ran = hooks.run(&point, &input).await;
        let hook_input = event_input(&point, &input);
        let events = ran.iter().map(|ran: &Ran| HookExecutionEvent {
            tool_name: subject.tool_name.clone(),
            action_id: subject.action_id.clone(),
            message_id: subject.message_id.clone(),
            hook_input: hook_input.clone(),
            ..ran.event(common(Source::Hook), point.clone())
        });
        Answer {
            events: events.collect(),
            blocked: blocking_reason(&ran).map(Text::from),
            context: joined_context(&ran).map(Text::from),
        }
    }

    /// Runs the hooks before an action is stored.
    pub async fn pre_tool_use(&self, action: &ActionEvent) -> Answer {
        if self.hooks.is_none() {
            return Answer::default();
        }
        let input = Input {
            tool_name: Some(action.tool_name.to_string()),
            tool_input: member(&Event::Action(Arc::new(action.clone())), "action"),
            ..Input::default()
        };
        self.run_hooks(HookType::PreToolUse, input, Subject::of(action)).await
    }

    /// Runs the hooks before a tool's answer is stored.
    pub async fn post_tool_use(&self, action: &ActionEvent, observation: &ObservationEvent) -> Answer {
        if self.hooks.is_none() {
            return Answer::default();
        }
        let input = Input {
            tool_name: Some(action.tool_name.to_string()),
            tool_input: member(&Event::Action(Arc::new(action.clone())), "action"),
            tool_response: member(&Event::Observation(Arc::new(observation.clone())), "observation"),
            ..Input::default()
        };
        self.run_hooks(HookType::PostToolUse, input, Subject::of(action)).await
    }

    /// Runs the hooks before a user message is stored.
    pub async fn user_prompt_submit(&self, message: &MessageEvent) -> Answer {
        let text: String = message.llm_message.content.iter().filter_map(Content::as_text).collect();
        let input = Input { message: Some(text), ..Input::default() };
        let subject = Subject { message_id: Some(message.common.id.as_str().into()), ..Subject::default() };
        self.run_hooks(HookType::UserPromptSubmit, input, subject).await
    }

    /// Asks the hooks, and then adds a message of source `user`. If the hooks add context, their events are part of the
    /// branch, as in the reference. The model is not asked about a message that they block.
    pub async fn push_user_message(&self, live: &mut Live, mut message: MessageEvent) {
        let answer = self.user_prompt_submit(&message).await;
        let id = message.common.id.clone();
        match answer.context {
            Some(context) => {
                message.extended_content.push(TextContent::new(context));
                live.push_hooks(answer.events);
            }
            None => live.push_hooks_aside(answer.events),
        }
        if let Some(reason) = answer.blocked {
            live.set(Change::BlockMessage(id.as_str().into(), reason));
        }
        live.push(Event::from(message));
        live.set(Change::LastUserMessage(id));
    }

    /// Runs the hooks when a session begins or ends.
    pub async fn session(&self, point: HookType) -> Answer {
        self.run_hooks(point, Input::default(), Subject::default()).await
    }

    /// Returns whether there are Stop hooks.
    pub fn may_object(&self) -> bool {
        self.hooks.as_ref().is_some_and(|hooks| hooks.config().of(&HookType::Stop, None).next().is_some())
    }

    /// Runs the Stop hooks when the agent has finished.
    pub async fn stop(&self, reason: &str) -> Answer {
        let input = Input { reason: Some(reason.to_owned()), ..Input::default() };
        self.run_hooks(HookType::Stop, input, Subject::default()).await
    }
}

impl Subject {
    fn of(action: &ActionEvent) -> Self {
        Self {
            tool_name: Some(action.tool_name.clone()),
            action_id: Some(action.common.id.as_str().into()),
            message_id: None,
        }
    }
}

impl Live {
    /// Takes in events of hooks beside the branch.
    pub fn push_hooks_aside(&mut self, events: Vec<HookExecutionEvent>) {
        events.into_iter().for_each(|event| self.push_aside(event));
    }

    /// Takes in events of hooks on the branch.
    pub fn push_hooks(&mut self, events: Vec<HookExecutionEvent>) {
        for event in events {
            self.push(event);
        }
    }
}

/// Returns a member of an event as JSON.
fn member(event: &Event, name: &str) -> Option<serde_json::Value> {
    let dumped = event.dump();
    let raw = Object::of(&dumped).get(name)?;
    serde_json::from_str(raw.text()).ok()
}

/// Returns the input of the hooks of a point, as their events store it.
fn event_input(point: &HookType, input: &Input) -> Option<Map<Json>> {
    let value = |value: &serde_json::Value| Json::from(value);
    let text = |text: &String| Json::from(&serde_json::Value::from(text.as_str()));
    let name = || input.tool_name.as_ref().map(text);
    let members: Vec<(Text, Option<Json>)> = match point {
        HookType::PreToolUse => {
            vec![("tool_name".into(), name()), ("tool_input".into(), input.tool_input.as_ref().map(value))]
        }
        HookType::PostToolUse => vec![
            ("tool_name".into(), name()),
            ("tool_input".into(), input.tool_input.as_ref().map(value)),
            ("tool_response".into(), input.tool_response.as_ref().map(value)),
        ],
        HookType::UserPromptSubmit => vec![("message".into(), input.message.as_ref().map(text))],
        HookType::Stop => vec![("reason".into(), input.reason.as_ref().map(text))],
        HookType::SessionStart | HookType::SessionEnd | HookType::Other(_) => Vec::new(),
    };
    let members: Vec<(Text, Json)> =
        members.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    (!members.is_empty()).then_some(Map(members))
}
