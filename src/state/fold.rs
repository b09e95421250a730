//! The state that follows from events: one fold, behind replay, the live object and whoever asks as of then.
//!
//! Source: `runtime.md` section 16.1. Told all events of a log in their order, it answers for the
//! conversation; told those of a branch, root first, for the branch. What hangs beside every branch, such as
//! status and stats, only the whole log can tell.

use std::collections::{BTreeMap, HashSet};

use super::metrics::Stats;
use super::pending::Pending;
use super::status::{Effect, ExecutionStatus};
use super::title;
use crate::event::json::Raw;
use crate::event::tool::TaskItem;
use crate::event::{
    Action, ActionEvent, Content, ConversationStateUpdateEvent, Event, MessageEvent, Observation, Source,
    Text,
};
use crate::ids::EventId;

/// Whether actions wait for a person's consent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confirmation {
    /// Never.
    Never,
    /// Some or all do.
    Asked,
}

/// What follows from the events that were applied.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct State {
    event_count: u64,
    kind_counts: BTreeMap<String, u64>,
    status: ExecutionStatus,
    /// Whether an event told the status; from then on nothing is guessed beyond the automaton.
    told: bool,
    confirmation: Option<Confirmation>,
    responses: HashSet<Text>,
    steps_without_response: u64,
    stats: Option<Stats>,
    tasks: Vec<TaskItem>,
    pending: Pending,
    last_user_message: Option<EventId>,
    final_response: String,
    skills: Vec<Text>,
    known_skills: HashSet<Text>,
    title: Option<String>,
}

impl State {
    /// The state of nothing: idle.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The state of nothing, where it is known from elsewhere whether actions wait for consent. An event that
    /// tells the policy overrules it.
    #[must_use]
    pub fn knowing(confirmation: Confirmation) -> Self {
        Self { confirmation: Some(confirmation), ..Self::default() }
    }

    /// The state of `events`, in their order.
    #[must_use]
    pub fn of<'e>(events: impl IntoIterator<Item = &'e Event>) -> Self {
        let mut state = Self::new();
        events.into_iter().for_each(|event| state.apply(event));
        state
    }

    /// Takes the next event.
    pub fn apply(&mut self, event: &Event) {
        self.event_count += 1;
        match self.kind_counts.get_mut(event.kind()) {
            Some(count) => *count += 1,
            None => drop(self.kind_counts.insert(event.kind().to_owned(), 1)),
        }
        self.pending.apply(event);
        if let Some((format, usage)) = event.foreign_usage() {
            self.stats.get_or_insert_default().spend(format.as_str(), &usage);
        }
        match event {
            Event::Message(message) => self.message(message),
            Event::Action(action) => self.action(action),
            Event::Observation(answer) => {
                if let Observation::TaskTracker(tracker) = &answer.observation {
                    self.tasks.clone_from(&tracker.task_list);
                }
            }
            Event::StateUpdate(update) => self.update(update),
            Event::UserReject(_)
            | Event::AgentError(_)
            | Event::SystemPrompt(_)
            | Event::Condensation(_)
            | Event::CondensationRequest(_)
            | Event::CondensationSummary(_)
            | Event::ConversationError(_)
            | Event::Pause(_)
            | Event::Interrupt(_)
            | Event::SecurityAnalysis(_)
            | Event::Hook(_)
            | Event::Token(_)
            | Event::CompletionLog(_)
            | Event::StreamingDelta(_)
            | Event::AcpToolCall(_)
            | Event::ServerError(_)
            | Event::Unknown(_) => {}
        }
        let effect = Effect::of_event(event);
        // A person who refuses one of several actions has yet to say what becomes of the others.
        if effect != Effect::Refused || self.pending.is_empty() {
            self.status = effect.apply(self.status);
        }
    }

    fn message(&mut self, message: &MessageEvent) {
        if message.common.source == Source::User {
            self.last_user_message = Some(message.common.id.clone());
            if self.title.is_none() {
                self.title = title::candidate(message);
            }
        }
        if message.common.source == Source::Agent {
            self.step(message.llm_response_id.as_ref());
            self.final_response = message.llm_message.content.iter().map(as_shown).collect();
        }
        for skill in &message.activated_skills {
            if self.known_skills.insert(skill.clone()) {
                self.skills.push(skill.clone());
            }
        }
    }

    fn action(&mut self, action: &ActionEvent) {
        self.step(Some(&action.llm_response_id));
        if action.common.source == Source::Agent && &*action.tool_name == "finish" {
            self.final_response = match &action.action {
                Some(Action::Finish(finish)) => finish.message.to_string(),
                Some(_) | None => String::new(),
            };
        }
    }

    /// A step of the agent: several events of one reply of the model are one.
    fn step(&mut self, response: Option<&Text>) {
        match response.filter(|response| !response.is_empty()) {
            Some(response) if self.responses.contains(response) => {}
            Some(response) => drop(self.responses.insert(response.clone())),
            None => self.steps_without_response += 1,
        }
    }

    /// A fact that a server wrote down.
    fn update(&mut self, update: &ConversationStateUpdateEvent) {
        let value = update.value.raw();
        let told = |field| if &*update.key == field { Some(value) } else { None };
        let within = |field| if &*update.key == "full_state" { value.get(field) } else { None };
        let of = |field| told(field).or_else(|| within(field));
        if let Some(stats) = of("stats").filter(|stats| stats.is_object()) {
            self.stats = Some(Stats::read(stats));
        }
        if let Some(kind) =
            of("confirmation_policy").and_then(|policy| policy.get("kind")).and_then(Raw::as_str)
        {
            let never = kind == "NeverConfirm";
            self.confirmation = Some(if never { Confirmation::Never } else { Confirmation::Asked });
        }
        self.told |= super::status::told(&update.key, value).is_some();
    }

    /// How many events were applied.
    #[must_use]
    pub fn event_count(&self) -> u64 {
        self.event_count
    }

    /// How many of each kind, by name.
    #[must_use]
    pub fn kind_counts(&self) -> &BTreeMap<String, u64> {
        &self.kind_counts
    }

    /// How the conversation goes: as events tell it, else as it follows from them. Actions that wait where
    /// consent is asked for wait for that.
    #[must_use]
    pub fn execution_status(&self) -> ExecutionStatus {
        let waits = self.confirmation == Some(Confirmation::Asked) && !self.pending.is_empty();
        match self.status {
            ExecutionStatus::Running if waits && !self.told => ExecutionStatus::WaitingForConfirmation,
            status => status,
        }
    }

    /// The same where the agent goes in circles at the end of its branch: an agent at work is stuck then,
    /// unless events tell otherwise.
    #[must_use]
    pub fn execution_status_in_circles(&self) -> ExecutionStatus {
        match self.execution_status() {
            ExecutionStatus::Running if !self.told => ExecutionStatus::Stuck,
            status => status,
        }
    }

    /// How many steps the agent took: replies of the model that became actions or messages. The reference
    /// keeps no such number; its own, within a run, also counts steps without a reply.
    #[must_use]
    pub fn iteration(&self) -> u64 {
        self.responses.len() as u64 + self.steps_without_response
    }

    /// What model calls cost, where events tell it; a base state knows more.
    #[must_use]
    pub fn stats(&self) -> Option<&Stats> {
        self.stats.as_ref()
    }

    /// The agent's newest task list.
    #[must_use]
    pub fn task_list(&self) -> &[TaskItem] {
        &self.tasks
    }

    /// The actions that nothing has answered.
    #[must_use]
    pub fn unmatched_actions(&self) -> &Pending {
        &self.pending
    }

    /// A person's last message.
    #[must_use]
    pub fn last_user_message_id(&self) -> Option<&EventId> {
        self.last_user_message.as_ref()
    }

    /// What the agent last said without asking for a tool, or when it finished; "" where it has not.
    #[must_use]
    pub fn final_response(&self) -> &str {
        &self.final_response
    }

    /// The skills that messages called upon, each once, in the order of its first call.
    #[must_use]
    pub fn activated_skills(&self) -> &[Text] {
        &self.skills
    }

    /// The text of the first message that a title can be made of; see [`title::fallback`].
    #[must_use]
    pub fn title_candidate(&self) -> Option<&str> {
        self.title.as_deref()
    }
}

/// A part of a message as text; for pictures how many there are.
fn as_shown(part: &Content) -> String {
    match part {
        Content::Text(text) => text.text.to_string(),
        Content::Image(image) => format!("[Image: {} URLs]", image.image_urls.len()),
        Content::Unknown(_) => String::new(),
    }
}
