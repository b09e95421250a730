//! What hooks are told at each point, and the events that tell of them.
//!
//! Their events hang where the reference has them: those around tools and plain prompts beside the branch, those of
//! sessions and stops on it. Source: `runtime.md` sections 7.2 and 7.3.

use std::sync::Arc;

use super::equip::Equipment;
use super::live::{Live, common};
use crate::event::json::Object;
use crate::event::{
    ActionEvent, Content, Event, HookExecutionEvent, HookType, Json, Map, MessageEvent, ObservationEvent,
    Source, Text,
};
use crate::hook::{Input, Ran, blocking_reason, joined_context};

/// What the hooks of one point answered, together.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub events: Vec<HookExecutionEvent>,
    pub blocked: Option<Text>,
    pub context: Option<Text>,
}

/// What the hooks of a point are about.
#[derive(Default)]
struct About {
    tool_name: Option<Text>,
    action_id: Option<Text>,
    message_id: Option<Text>,
}

impl Equipment {
    async fn ask(&self, point: HookType, input: Input, about: About) -> Answer {
        let Some(hooks) = &self.hooks else { return Answer::default() };
        let ran = hooks.run(&point, &input).await;
        let told = told(&point, &input);
        let events = ran.iter().map(|ran: &Ran| HookExecutionEvent {
            tool_name: about.tool_name.clone(),
            action_id: about.action_id.clone(),
            message_id: about.message_id.clone(),
            hook_input: told.clone(),
            ..ran.event(common(Source::Hook), point.clone())
        });
        Answer {
            events: events.collect(),
            blocked: blocking_reason(&ran).map(Text::from),
            context: joined_context(&ran).map(Text::from),
        }
    }

    /// Before an action is written down.
    pub async fn pre_tool_use(&self, action: &ActionEvent) -> Answer {
        if self.hooks.is_none() {
            return Answer::default();
        }
        let input = Input {
            tool_name: Some(action.tool_name.to_string()),
            tool_input: member(&Event::Action(Arc::new(action.clone())), "action"),
            ..Input::default()
        };
        self.ask(HookType::PreToolUse, input, About::of(action)).await
    }

    /// Before a tool's answer is written down.
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
        self.ask(HookType::PostToolUse, input, About::of(action)).await
    }

    /// Before a person's message is written down.
    pub async fn user_prompt_submit(&self, message: &MessageEvent) -> Answer {
        let text: String = message.llm_message.content.iter().filter_map(Content::as_text).collect();
        let input = Input { message: Some(text), ..Input::default() };
        let about = About { message_id: Some(message.common.id.as_str().into()), ..About::default() };
        self.ask(HookType::UserPromptSubmit, input, about).await
    }

    /// When a session begins or ends.
    pub async fn session(&self, point: HookType) -> Answer {
        self.ask(point, Input::default(), About::default()).await
    }

    /// Whether there are hooks for its end.
    pub fn may_object(&self) -> bool {
        self.hooks.as_ref().is_some_and(|hooks| hooks.config().of(&HookType::Stop, None).next().is_some())
    }

    /// When the agent has finished.
    pub async fn stop(&self, reason: &str) -> Answer {
        let input = Input { reason: Some(reason.to_owned()), ..Input::default() };
        self.ask(HookType::Stop, input, About::default()).await
    }
}

impl About {
    fn of(action: &ActionEvent) -> Self {
        Self {
            tool_name: Some(action.tool_name.clone()),
            action_id: Some(action.common.id.as_str().into()),
            message_id: None,
        }
    }
}

impl Live {
    /// Takes in what hooks did beside the branch.
    pub fn push_hooks_aside(&mut self, events: Vec<HookExecutionEvent>) {
        events.into_iter().for_each(|event| self.push_aside(event));
    }

    /// Takes in what hooks did on the branch.
    pub fn push_hooks(&mut self, events: Vec<HookExecutionEvent>) {
        for event in events {
            self.push(event);
        }
    }
}

/// A member of an event as JSON.
fn member(event: &Event, name: &str) -> Option<serde_json::Value> {
    let dumped = event.dump();
    let raw = Object::of(&dumped).get(name)?;
    serde_json::from_str(raw.text()).ok()
}

/// What the hooks of a point were given, as their events keep it.
fn told(point: &HookType, input: &Input) -> Option<Map<Json>> {
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
