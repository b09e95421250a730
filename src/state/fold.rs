//! The state that follows from events. Replay, the live object and queries about an earlier time use the same fold.
//!
//! Source: `docs/reference/seeds.md#derived-state`. After all events of a log in their order, it is the state of the
//! conversation. After the events of a branch, root first, it is the state of the branch. Events that belong to no
//! branch, such as updates of status and stats, are only in the whole log.

use std::collections::{BTreeMap, HashSet, VecDeque};

use super::metrics::Stats;
use super::pending::Pending;
use super::status::{Effect, ExecutionStatus};
use super::title;
use crate::event::tool::TaskItem;
use crate::event::{
    Action, ActionEvent, Content, ConversationStateUpdateEvent, Event, MessageEvent, Observation, Source,
    Text, inert,
};
use crate::ids::EventId;
use crate::json::Raw;

/// The number of replies that a step is compared with. Events of one reply are neighbours in the log; this is far more
/// than ever came between them.
const RECENT_REPLIES: usize = 32;

/// Whether actions wait for the user's confirmation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confirmation {
    /// No action waits.
    Never,
    /// Some or all actions wait.
    Asked,
}

/// The state that follows from the applied events.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct State {
    pub(super) event_count: u64,
    pub(super) kind_counts: BTreeMap<String, u64>,
    pub(super) status: ExecutionStatus,
    /// Whether an event contained the status. From then on, confirmation and repetition are not used to infer it.
    pub(super) has_explicit_status: bool,
    pub(super) confirmation: Option<Confirmation>,
    pub(super) steps: u64,
    /// The ids of the last replies, the oldest first.
    pub(super) recent_replies: VecDeque<Text>,
    pub(super) stats: Option<Stats>,
    pub(super) tasks: Vec<TaskItem>,
    pub(super) pending: Pending,
    pub(super) last_user_message: Option<EventId>,
    pub(super) final_response: String,
    pub(super) skills: Vec<Text>,
    pub(super) known_skills: HashSet<Text>,
    pub(super) title: Option<String>,
}

impl State {
    /// Returns the state before any event: idle.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the state before any event, if it is already known whether actions wait for confirmation. An event with
    /// the policy overrides this.
    #[must_use]
    pub fn knowing(confirmation: Confirmation) -> Self {
        Self { confirmation: Some(confirmation), ..Self::default() }
    }

    /// Returns the state after `events`, in their order.
    #[must_use]
    pub fn of<'e>(events: impl IntoIterator<Item = &'e Event>) -> Self {
        let mut state = Self::new();
        events.into_iter().for_each(|event| state.apply(event));
        state
    }

    /// Applies the next event.
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
            | inert!()
            | Event::Unknown(_) => {}
        }
        let effect = Effect::of_event(event);
        // If the user rejects one of several actions, the others still wait for a decision.
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

    /// Counts a step of the agent. Several events of one model reply are one step. A reply counts again if
    /// [`RECENT_REPLIES`] others came between its events, so that the state does not grow with the log.
    fn step(&mut self, response: Option<&Text>) {
        if let Some(response) = response.filter(|response| !response.is_empty()) {
            // The newest first: most events belong to the reply of the event before.
            if self.recent_replies.iter().rev().any(|recent| recent == response) {
                return;
            }
            if self.recent_replies.len() == RECENT_REPLIES {
                self.recent_replies.pop_front();
            }
            self.recent_replies.push_back(response.clone());
        }
        self.steps += 1;
    }

    /// Applies a state update that a server recorded.
    fn update(&mut self, update: &ConversationStateUpdateEvent) {
        let value = update.value.raw();
        let direct = |field| if &*update.key == field { Some(value) } else { None };
        let within = |field| if &*update.key == "full_state" { value.get(field) } else { None };
        let of = |field| direct(field).or_else(|| within(field));
        if let Some(stats) = of("stats").filter(|stats| stats.is_object()) {
            self.stats = Some(Stats::read(stats));
        }
        if let Some(kind) =
            of("confirmation_policy").and_then(|policy| policy.get("kind")).and_then(Raw::as_str)
        {
            let never = kind == "NeverConfirm";
            self.confirmation = Some(if never { Confirmation::Never } else { Confirmation::Asked });
        }
        self.has_explicit_status |= super::status::of_update(&update.key, value).is_some();
    }

    /// Returns the number of applied events.
    #[must_use]
    pub fn event_count(&self) -> u64 {
        self.event_count
    }

    /// Returns the number of events of each kind, by name.
    #[must_use]
    pub fn kind_counts(&self) -> &BTreeMap<String, u64> {
        &self.kind_counts
    }

    /// Returns the status that events contain, otherwise the one that follows from them. If actions are unanswered and
    /// need confirmation, the conversation waits for the confirmation.
    #[must_use]
    pub fn execution_status(&self) -> ExecutionStatus {
        let waits = self.confirmation == Some(Confirmation::Asked) && !self.pending.is_empty();
        match self.status {
            ExecutionStatus::Running if waits && !self.has_explicit_status => {
                ExecutionStatus::WaitingForConfirmation
            }
            status => status,
        }
    }

    /// Returns the status if the agent repeats itself at the end of its branch. A running agent is stuck then, unless
    /// events contain the status.
    #[must_use]
    pub fn execution_status_in_circles(&self) -> ExecutionStatus {
        match self.execution_status() {
            ExecutionStatus::Running if !self.has_explicit_status => ExecutionStatus::Stuck,
            status => status,
        }
    }

    /// Returns the number of the agent's steps: model replies that became actions or messages. The reference stores no
    /// such number. Its counter within a run also counts steps without a reply.
    #[must_use]
    pub fn iteration(&self) -> u64 {
        self.steps
    }

    /// Returns the cost of model calls. `None` if no event contains it. A base state contains more details.
    #[must_use]
    pub fn stats(&self) -> Option<&Stats> {
        self.stats.as_ref()
    }

    /// Returns the agent's newest task list.
    #[must_use]
    pub fn task_list(&self) -> &[TaskItem] {
        &self.tasks
    }

    /// Returns the unanswered actions.
    #[must_use]
    pub fn unmatched_actions(&self) -> &Pending {
        &self.pending
    }

    /// Returns the id of the user's last message.
    #[must_use]
    pub fn last_user_message_id(&self) -> Option<&EventId> {
        self.last_user_message.as_ref()
    }

    /// Returns the agent's last message, or its text when it finished. Empty if there is none.
    #[must_use]
    pub fn final_response(&self) -> &str {
        &self.final_response
    }

    /// Returns the skills that messages activated, each once, in the order of their first activation.
    #[must_use]
    pub fn activated_skills(&self) -> &[Text] {
        &self.skills
    }

    /// Returns the text of the first message from which a title can be made; see [`title::fallback`].
    #[must_use]
    pub fn title_candidate(&self) -> Option<&str> {
        self.title.as_deref()
    }
}

/// Returns a part of a message as text. For images, it is their number.
fn as_shown(part: &Content) -> String {
    match part {
        Content::Text(text) => text.text.to_string(),
        Content::Image(image) => format!("[Image: {} URLs]", image.image_urls.len()),
        Content::Unknown(_) => String::new(),
    }
}
