//! Random logs for property tests: turns, batches, tool loops, condensations, branches and nonsense.

use annals::EventId;
use annals::event::tool::{FinishAction, FinishObservation};
use annals::event::{
    Action, ActionEvent, AgentErrorEvent, Common, Condensation, CondensationRequest,
    CondensationSummaryEvent, Content, Event, InterruptEvent, Json, Message, MessageEvent, MessageToolCall,
    Observation, ObservationEvent, PauseEvent, RejectionSource, Role, Source, SystemPromptEvent, Text,
    Thinking, ThinkingBlock, Unfamiliar, UserRejectObservation, decode,
};
use annals::tree::Tree;
use proptest::prelude::*;

/// One change of a log. Its numbers select among the events that exist.
#[derive(Debug, Clone)]
pub enum Step {
    /// One reply with these calls.
    Act { response: u32, calls: Vec<u32>, thinks: bool, valid: bool },
    /// An answer to an open action or to any earlier one.
    Answer { which: usize, how: u8 },
    /// A message, by source, with or without text.
    Say { source: u8, text: bool },
    /// The agent finishes.
    Finish,
    /// A condensation that forgets a range of events, and an id that does not exist.
    Condense { from: usize, length: usize, summary: bool, offset: Option<u64> },
    /// One of the kinds that the model never sees.
    Other(u8),
    /// A summary stored as an event, perhaps with the id of a generated one.
    Summary { of: Option<usize> },
    /// HEAD moves to another event.
    Move(usize),
}

pub fn steps(length: usize) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..9u32, prop::collection::vec(0..12u32, 1..4), prop::bool::weighted(0.3), prop::bool::weighted(0.9))
            .prop_map(|(response, calls, thinks, valid)| Step::Act { response, calls, thinks, valid }),
        9 => (any::<usize>(), 0..6u8).prop_map(|(which, how)| Step::Answer { which, how }),
        3 => (0..4u8, any::<bool>()).prop_map(|(source, text)| Step::Say { source, text }),
        1 => Just(Step::Finish),
        2 => (any::<usize>(), 0..8usize, any::<bool>(), prop::option::of(0..9u64)).prop_map(
            |(from, length, summary, offset)| Step::Condense { from, length, summary, offset }
        ),
        2 => (0..5u8).prop_map(Step::Other),
        1 => prop::option::of(any::<usize>()).prop_map(|of| Step::Summary { of }),
        1 => any::<usize>().prop_map(Step::Move),
    ];
    prop::collection::vec(step, 0..length)
}

/// The same steps with unique ids, as models and providers give them: no two replies and no two calls share one. Stored
/// summaries are left out.
pub fn named_apart(steps: Vec<Step>) -> Vec<Step> {
    let named = |(number, step)| match step {
        Step::Act { calls, thinks, valid, .. } => {
            let response = number as u32;
            let calls = (0..calls.len() as u32).map(|place| response * 10 + place).collect();
            Step::Act { response, calls, thinks, valid }
        }
        other => other,
    };
    steps
        .into_iter()
        .enumerate()
        .filter(|(_, step)| !matches!(step, Step::Summary { .. }))
        .map(named)
        .collect()
}

/// A log under construction.
#[derive(Debug, Default)]
pub struct Log {
    pub events: Vec<Event>,
    parent: Option<Text>,
    open: Vec<usize>,
}

impl Log {
    /// The log that these steps make.
    pub fn of(steps: &[Step]) -> Self {
        let mut log = Self::default();
        log.add(|common| SystemPromptEvent::new(common, "You are a test.", Vec::new()).into());
        for step in steps {
            log.step(step);
        }
        log
    }

    /// The branch that ends at the last event, root first.
    pub fn branch(&self) -> Vec<Event> {
        let mut tree = Tree::new();
        for event in &self.events {
            let common = event.common();
            tree.push(common.id.as_str(), common.parent_id.as_deref(), event.kind());
        }
        let path = tree.path(self.events.len() - 1).unwrap();
        path.into_iter().map(|place| self.events[place].clone()).collect()
    }

    fn add(&mut self, make: impl FnOnce(Common) -> Event) {
        let number = self.events.len();
        let source = Source::Environment;
        let mut common =
            Common::new(EventId::new(format!("e{number}")).unwrap(), format!("t{number}"), source);
        common.parent_id = Some(self.parent.clone().unwrap_or_else(|| "__root__".into()));
        self.parent = Some(common.id.as_str().into());
        self.events.push(make(common));
    }

    pub fn say(&mut self, source: Source, text: Option<&str>) {
        let role = if source == Source::Agent { Role::Assistant } else { Role::User };
        let content = text.map(Content::text).into_iter().collect();
        self.add(|mut common| {
            common.source = source;
            MessageEvent::new(common, Message::new(role, content)).into()
        });
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Act { response, calls, thinks, valid } => {
                for (place, call) in calls.iter().enumerate() {
                    self.act(&format!("c{call}"), &format!("r{response}"), *thinks && place == 0, *valid);
                }
            }
            Step::Answer { which, how } => self.answer(*which, *how),
            Step::Say { source, text } => {
                let source = match source {
                    0 => Source::User,
                    1 => Source::Agent,
                    2 => Source::Environment,
                    _ => Source::Hook,
                };
                self.say(source, text.then_some("text"));
            }
            Step::Finish => self.finish(),
            Step::Condense { from, length, summary, offset } => {
                self.condense(*from, *length, *summary, *offset)
            }
            Step::Other(which) => self.other(*which),
            Step::Summary { of } => {
                let id = of.map(|of| format!("{}-summary", self.events[of % self.events.len()].id()));
                self.add(|mut common| {
                    if let Some(id) = id {
                        common.id = EventId::new(id).unwrap();
                    }
                    CondensationSummaryEvent::new(common, "stored").into()
                });
                self.parent = self.events.last().map(|event| event.id().as_str().into());
            }
            Step::Move(to) => self.parent = Some(self.events[to % self.events.len()].id().as_str().into()),
        }
    }

    fn act(&mut self, call: &str, response: &str, thinks: bool, valid: bool) {
        let action = valid.then(|| Action::Finish(FinishAction::new("m")));
        let block = ThinkingBlock::new("t");
        self.open.push(self.events.len());
        self.add(|mut common| {
            let tool_call = MessageToolCall::new(call, "terminal", "{}");
            common.source = Source::Agent;
            let mut event = ActionEvent::new(common, tool_call, response, action);
            event.thinking_blocks = thinks.then_some(Thinking::Shown(block)).into_iter().collect();
            event.into()
        });
    }

    fn answer(&mut self, which: usize, how: u8) {
        let actions: Vec<usize> = if self.open.is_empty() || how == 5 {
            (0..self.events.len()).filter(|place| matches!(self.events[*place], Event::Action(_))).collect()
        } else {
            self.open.clone()
        };
        if actions.is_empty() {
            return;
        }
        // Most answers come in the order of the calls.
        let place = actions[if how < 3 { 0 } else { which % actions.len() }];
        let Event::Action(action) = self.events[place].clone() else { return };
        self.open.retain(|open| *open != place);
        self.add(|common| match how {
            0 | 1 | 5 => ObservationEvent::new(common, &action, done()).into(),
            2 => AgentErrorEvent::new(common, &action.tool_call, "boom").into(),
            3 => UserRejectObservation::new(common, &action, "no", RejectionSource::User).into(),
            _ => UserRejectObservation::new(common, &action, "no", RejectionSource::Hook).into(),
        });
    }

    fn finish(&mut self) {
        let message = format!("finished at {}", self.events.len());
        let action = Action::Finish(FinishAction::new(message));
        let call = MessageToolCall::new(format!("f{}", self.events.len()), "finish", "{}");
        let response = format!("rf{}", self.events.len());
        self.add(|mut common| {
            common.source = Source::Agent;
            ActionEvent::new(common, call, response, Some(action)).into()
        });
        let Some(Event::Action(action)) = self.events.last().cloned() else { return };
        self.add(|common| ObservationEvent::new(common, &action, done()).into());
    }

    fn condense(&mut self, from: usize, length: usize, summary: bool, offset: Option<u64>) {
        let from = from % self.events.len();
        let mut forgotten: Vec<Text> = vec!["nobody".into()];
        for event in self.events.iter().skip(from).take(length) {
            forgotten.push(event.id().as_str().into());
            forgotten.push(format!("{}-summary", event.id()).into());
        }
        self.add(|common| {
            let mut event = Condensation::new(common, forgotten, "rc");
            event.summary = summary.then(|| "S".into());
            event.summary_offset = offset;
            event.into()
        });
    }

    fn other(&mut self, which: u8) {
        self.add(|common| match which {
            0 => PauseEvent::new(common).into(),
            1 => InterruptEvent::new(common).into(),
            2 => CondensationRequest::new(common).into(),
            3 => unknown(&common, "FromTheFuture"),
            _ => update(&common, "execution_status", "\"stuck\""),
        });
    }
}

fn done() -> Observation {
    Observation::Finish(FinishObservation::new("done"))
}

fn unknown(common: &Common, kind: &str) -> Event {
    let parent = common.parent_id.as_deref().unwrap_or("__root__");
    let text = format!(r#"{{"id":"{}","parent_id":"{parent}","source":"agent","kind":"{kind}"}}"#, common.id);
    decode(&text, Unfamiliar::Keep).unwrap()
}

/// A state update: `value` is JSON text.
pub fn update(common: &Common, key: &str, value: &str) -> Event {
    annals::event::ConversationStateUpdateEvent::new(common.clone(), key, Json::parse(value).unwrap()).into()
}
