//! Whether the agent goes in circles: a pure function of a branch's last events.
//!
//! Looked at are the last [`WINDOW`] events of the branch, of these only what follows the last message of
//! source `user`. Source: `runtime.md` section 4; the reference also declares a fifth pattern, a loop of
//! context windows that overflow, which its detector never finds, so there is no value for it here.

mod same;

use std::fmt;

use crate::event::{ActionEvent, Event, Source};
use crate::ids::EventId;
use same::same;

/// How many events of a branch are looked at.
pub const WINDOW: usize = 20;

/// How often something has to happen before it is a circle. Each at least 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thresholds {
    /// Equal calls with equal results.
    pub action_observation: usize,
    /// Equal calls that fail, before the agent is told; one more is a circle.
    pub action_error: usize,
    /// Messages of the agent without anything else between.
    pub monologue: usize,
    /// Calls, and results, of which every second one is equal.
    pub alternating_pattern: usize,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self { action_observation: 4, action_error: 3, monologue: 3, alternating_pattern: 6 }
    }
}

/// In what sort of circle the agent goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// One call with one result, over and over.
    ActionObservation,
    /// One call that fails, over and over.
    ActionError,
    /// It talks to itself.
    Monologue,
    /// Two calls in turn.
    Alternating,
}

impl Pattern {
    /// The name in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ActionObservation => "action_observation",
            Self::ActionError => "action_error",
            Self::Monologue => "monologue",
            Self::Alternating => "alternating",
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What an agent that repeats a failing call is told, once for each streak.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nudge {
    /// The error it is told of.
    pub error: EventId,
    /// What it is told: the text of a message of source `environment`, role `user`.
    pub text: String,
}

/// What to do before the next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Take it.
    GoOn,
    /// Tell the agent this, then take it.
    Nudge(String),
    /// Stop: the agent goes in circles.
    Stuck(Pattern),
}

/// The detector of one run: it remembers which error it has already spoken of.
#[derive(Debug, Clone, Default)]
pub struct Detector {
    /// When it finds a pattern.
    pub thresholds: Thresholds,
    nudged: Option<EventId>,
}

impl Detector {
    /// A detector that has said nothing yet.
    #[must_use]
    pub fn new(thresholds: Thresholds) -> Self {
        Self { thresholds, nudged: None }
    }

    /// What to do before the next step; asked once for each. Only the last [`WINDOW`] events of `branch`,
    /// root first, are looked at.
    pub fn judge<'e>(&mut self, branch: impl DoubleEndedIterator<Item = &'e Event> + Clone) -> Verdict {
        match self.nudge(branch.clone()) {
            Some(text) => Verdict::Nudge(text),
            None => pattern(branch, self.thresholds).map_or(Verdict::GoOn, Verdict::Stuck),
        }
    }

    /// The text to tell the agent, unless it was told of that error before.
    pub fn nudge<'e>(&mut self, branch: impl DoubleEndedIterator<Item = &'e Event>) -> Option<String> {
        let nudge =
            nudge(branch, self.thresholds).filter(|nudge| self.nudged.as_ref() != Some(&nudge.error))?;
        self.nudged = Some(nudge.error);
        Some(nudge.text)
    }
}

/// The pattern that the end of `branch` shows; of several the first in the order of [`Pattern`].
#[must_use]
pub fn pattern<'e>(
    branch: impl DoubleEndedIterator<Item = &'e Event>,
    thresholds: Thresholds,
) -> Option<Pattern> {
    let recent = recent(branch);
    let Thresholds { action_observation, action_error, monologue, alternating_pattern } = thresholds;
    if recent.len() < action_observation.min(action_error).min(monologue) {
        return None;
    }
    // One failing pair more than the threshold tells a streak that went on from one that is due a nudge.
    let needed = action_observation.max(action_error.saturating_add(1));
    let actions = newest(&recent, needed, ACTIONS);
    let answers = newest(&recent, needed, ANSWERS);
    if repeats(&actions, action_observation) && repeats(&answers, action_observation) {
        return Some(Pattern::ActionObservation);
    }
    if error_streak(&actions, &answers) > action_error {
        return Some(Pattern::ActionError);
    }
    if talks_alone(&recent, monologue) {
        return Some(Pattern::Monologue);
    }
    alternates(&recent, alternating_pattern).then_some(Pattern::Alternating)
}

/// What to tell an agent whose last calls were equal and failed, exactly as often as the threshold says.
///
/// Neither the arguments of invalid calls nor the errors are compared, so the text can say more than is true;
/// it is the reference's.
#[must_use]
pub fn nudge<'e>(
    branch: impl DoubleEndedIterator<Item = &'e Event>,
    thresholds: Thresholds,
) -> Option<Nudge> {
    let recent = recent(branch);
    let times = thresholds.action_error;
    let actions = newest(&recent, times.saturating_add(1), ACTIONS);
    let answers = newest(&recent, times.saturating_add(1), ANSWERS);
    if error_streak(&actions, &answers) != times {
        return None;
    }
    let (Some(Event::Action(action)), Some(Event::AgentError(error))) = (actions.first(), answers.first())
    else {
        return None;
    };
    Some(Nudge { error: error.common.id.clone(), text: nudge_text(action, times, &error.error) })
}

fn nudge_text(action: &ActionEvent, times: usize, error: &str) -> String {
    format!(
        "You've called `{}` with the same arguments {times} times in a row and gotten the same error each time: \
         {error}. Repeating the exact same call again will not work — review the error message and either \
         correct the arguments or try a different approach.",
        action.tool_name
    )
}

/// What an event is to the detector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sort {
    /// A message, by who said it.
    SaidByUser,
    SaidByAgent,
    SaidByOthers,
    /// A condensation's summary, where one is stored.
    Summary,
    /// A tool call.
    Action,
    /// What answers one.
    Result,
    Error,
    Refusal,
    /// Anything else.
    Other,
}

impl Sort {
    fn of(event: &Event) -> Self {
        match event {
            Event::Message(message) => match message.common.source {
                Source::User => Self::SaidByUser,
                Source::Agent => Self::SaidByAgent,
                Source::Environment | Source::Hook | Source::Other(_) => Self::SaidByOthers,
            },
            Event::CondensationSummary(_) => Self::Summary,
            Event::Action(_) => Self::Action,
            Event::Observation(_) => Self::Result,
            Event::AgentError(_) => Self::Error,
            Event::UserReject(_) => Self::Refusal,
            Event::SystemPrompt(_)
            | Event::Condensation(_)
            | Event::CondensationRequest(_)
            | Event::StateUpdate(_)
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
            | Event::Unknown(_) => Self::Other,
        }
    }
}

/// The events that are looked at, the newest first.
fn recent<'e>(branch: impl DoubleEndedIterator<Item = &'e Event>) -> Vec<&'e Event> {
    branch.rev().take(WINDOW).take_while(|event| Sort::of(event) != Sort::SaidByUser).collect()
}

/// The newest events of some sorts, at most `most`.
fn newest<'e>(recent: &[&'e Event], most: usize, sorts: &[Sort]) -> Vec<&'e Event> {
    recent.iter().copied().filter(|event| sorts.contains(&Sort::of(event))).take(most).collect()
}

const ACTIONS: &[Sort] = &[Sort::Action];
const ANSWERS: &[Sort] = &[Sort::Result, Sort::Error, Sort::Refusal];
const ANSWERS_BUT_REFUSALS: &[Sort] = &[Sort::Result, Sort::Error];

/// Whether the newest `times` of `events` are all equal.
fn repeats(events: &[&Event], times: usize) -> bool {
    events.len() >= times && events[..times].iter().all(|event| same(events[0], event))
}

/// How often the newest action was called in a row and failed each time.
fn error_streak(actions: &[&Event], answers: &[&Event]) -> usize {
    let failing =
        |(action, answer): &(&&Event, &&Event)| same(actions[0], action) && Sort::of(answer) == Sort::Error;
    actions.iter().zip(answers).take_while(failing).count()
}

/// Whether the newest events are at least `times` messages of the agent. Messages of others who are not a
/// person, and summaries, neither count nor end it.
fn talks_alone(recent: &[&Event], times: usize) -> bool {
    let sorts = recent.iter().map(|event| Sort::of(event));
    let talk = sorts.take_while(|sort| {
        matches!(sort, Sort::SaidByUser | Sort::SaidByAgent | Sort::SaidByOthers | Sort::Summary)
    });
    recent.len() >= times && talk.filter(|sort| *sort == Sort::SaidByAgent).count() >= times
}

/// Whether of the newest `length` calls, and of as many results, every second one is equal.
fn alternates(recent: &[&Event], length: usize) -> bool {
    let every_second = |events: &[&Event]| {
        events.len() == length && events.iter().zip(events.iter().skip(2)).all(|(one, next)| same(one, next))
    };
    recent.len() >= length
        && every_second(&newest(recent, length, ACTIONS))
        && every_second(&newest(recent, length, ANSWERS_BUT_REFUSALS))
}
