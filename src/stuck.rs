//! Detects that the agent repeats itself without progress: a pure function of a branch's last events.
//!
//! The detector reads the last [`WINDOW`] events of the branch, and of these only the events after the last message of
//! source `user`. Source: `docs/reference/stuck.md`. The reference also declares a fifth pattern, a loop of context
//! windows that overflow. Its detector never finds it, so it has no value here.

mod same;

use std::fmt;

use crate::event::{ActionEvent, Event, Source, inert};
use crate::ids::EventId;
use same::same;

/// The number of events of a branch that the detector reads.
pub const WINDOW: usize = 20;

/// How many repetitions make a pattern. Each is at least 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Thresholds {
    /// The number of equal calls with equal results.
    pub action_observation: usize,
    /// The number of equal calls that fail before the agent is warned. One more call makes the agent stuck.
    pub action_error: usize,
    /// The number of messages of the agent with no other events between them.
    pub monologue: usize,
    /// The number of calls, and of results, of which every second one is equal.
    pub alternating_pattern: usize,
}

setters!(Thresholds {
    action_observation: usize,
    action_error: usize,
    monologue: usize,
    alternating_pattern: usize,
});

impl Default for Thresholds {
    fn default() -> Self {
        Self { action_observation: 4, action_error: 3, monologue: 3, alternating_pattern: 6 }
    }
}

/// The pattern in which the agent repeats itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// The same call with the same result, again and again.
    ActionObservation,
    /// The same call that fails again and again.
    ActionError,
    /// Messages of the agent that no user answers.
    Monologue,
    /// Two calls that alternate.
    Alternating,
}

impl Pattern {
    /// Returns the name in JSON.
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

/// A warning to an agent that repeats a failing call. It is sent once for each streak of failures.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Nudge {
    /// The error that the warning is about.
    pub error: EventId,
    /// The text of the warning. It is sent as a message of source `environment` and role `user`.
    pub text: String,
}

/// What the run does before the next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Take the step.
    GoOn,
    /// Send the agent this text, then take the step.
    Nudge(String),
    /// Stop, because the agent repeats itself.
    Stuck(Pattern),
}

/// The detector of one run. It remembers which error it has already warned about.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Detector {
    /// The numbers of repetitions at which it finds a pattern.
    pub thresholds: Thresholds,
    nudged: Option<EventId>,
}

impl Detector {
    /// Creates a detector that has not warned yet.
    #[must_use]
    pub fn new(thresholds: Thresholds) -> Self {
        Self { thresholds, nudged: None }
    }

    /// Decides what to do before the next step. Call it once for each step. It reads only the last [`WINDOW`] events
    /// of `branch`, which begins with the root.
    pub fn judge<'e>(&mut self, branch: impl DoubleEndedIterator<Item = &'e Event> + Clone) -> Verdict {
        match self.nudge(branch.clone()) {
            Some(text) => Verdict::Nudge(text),
            None => pattern(branch, self.thresholds).map_or(Verdict::GoOn, Verdict::Stuck),
        }
    }

    /// Returns the warning for the agent. `None` if there is none, or if it was already given for that error.
    pub fn nudge<'e>(&mut self, branch: impl DoubleEndedIterator<Item = &'e Event>) -> Option<String> {
        let nudge =
            nudge(branch, self.thresholds).filter(|nudge| self.nudged.as_ref() != Some(&nudge.error))?;
        self.nudged = Some(nudge.error);
        Some(nudge.text)
    }
}

/// Returns the pattern that the end of `branch` shows. If it shows several, the first in the order of [`Pattern`].
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
    // One pair more than the threshold is needed to distinguish a longer streak from one that is due a nudge.
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

/// Returns the warning for an agent if its last calls were equal and failed exactly as often as the threshold says.
///
/// Neither the arguments of invalid calls nor the errors are compared, so the text can claim more than is true. It is
/// the reference's text.
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

/// The sort of an event, as the detector distinguishes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sort {
    /// A message, by its source.
    UserMessage,
    AgentMessage,
    OtherMessage,
    /// A stored summary of a condensation.
    Summary,
    /// A tool call.
    Action,
    /// The three answers to a tool call.
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
                Source::User => Self::UserMessage,
                Source::Agent => Self::AgentMessage,
                Source::Environment | Source::Hook | Source::Other(_) => Self::OtherMessage,
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
            | inert!()
            | Event::Unknown(_) => Self::Other,
        }
    }
}

/// Returns the events that the detector reads, newest first.
fn recent<'e>(branch: impl DoubleEndedIterator<Item = &'e Event>) -> Vec<&'e Event> {
    branch.rev().take(WINDOW).take_while(|event| Sort::of(event) != Sort::UserMessage).collect()
}

/// Returns the newest events of the given sorts, at most `most`.
fn newest<'e>(recent: &[&'e Event], most: usize, sorts: &[Sort]) -> Vec<&'e Event> {
    recent.iter().copied().filter(|event| sorts.contains(&Sort::of(event))).take(most).collect()
}

const ACTIONS: &[Sort] = &[Sort::Action];
const ANSWERS: &[Sort] = &[Sort::Result, Sort::Error, Sort::Refusal];
const ANSWERS_BUT_REFUSALS: &[Sort] = &[Sort::Result, Sort::Error];

/// Returns whether the newest `times` of `events` are all equal.
fn repeats(events: &[&Event], times: usize) -> bool {
    events.len() >= times && events[..times].iter().all(|event| same(events[0], event))
}

/// Returns how many times in a row the newest action was called and failed.
fn error_streak(actions: &[&Event], answers: &[&Event]) -> usize {
    let failing =
        |(action, answer): &(&&Event, &&Event)| same(actions[0], action) && Sort::of(answer) == Sort::Error;
    actions.iter().zip(answers).take_while(failing).count()
}

/// Returns whether the newest events are at least `times` messages of the agent. Messages of other sources except the
/// user, and summaries, do not count and do not end the series.
fn talks_alone(recent: &[&Event], times: usize) -> bool {
    let sorts = recent.iter().map(|event| Sort::of(event));
    let talk = sorts.take_while(|sort| {
        matches!(sort, Sort::UserMessage | Sort::AgentMessage | Sort::OtherMessage | Sort::Summary)
    });
    recent.len() >= times && talk.filter(|sort| *sort == Sort::AgentMessage).count() >= times
}

/// Returns whether every second one of the newest `length` calls, and of as many results, is equal.
fn alternates(recent: &[&Event], length: usize) -> bool {
    let every_second = |events: &[&Event]| {
        events.len() == length && events.iter().zip(events.iter().skip(2)).all(|(one, next)| same(one, next))
    };
    recent.len() >= length
        && every_second(&newest(recent, length, ACTIONS))
        && every_second(&newest(recent, length, ANSWERS_BUT_REFUSALS))
}
