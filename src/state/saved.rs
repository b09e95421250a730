//! A state as JSON, and back. A snapshot of a long log holds it, so that a fold can go on from there.
//!
//! Invariant: what is read back equals what was written. [`State::saved`] checks it, so a state that JSON cannot hold, such
//! as one with an infinite cost, is not saved.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::bill::Bill;
use super::fold::{Confirmation, State};
use super::metrics::{Metrics, Stats};
use super::pending::Pending;
use crate::event::{TaskItem, TaskStatus};
use crate::ids::EventId;
use crate::json::Raw;

/// A state's members. Their order is the order in the JSON text.
#[derive(Serialize, Deserialize)]
struct Saved {
    event_count: u64,
    kind_counts: BTreeMap<String, u64>,
    status: String,
    has_explicit_status: bool,
    /// Whether actions wait for confirmation, if that is known.
    asks: Option<bool>,
    steps: u64,
    recent_replies: Vec<String>,
    stats: Option<Vec<Usage>>,
    tasks: Vec<(String, String, String)>,
    /// The ids of unanswered actions and of their calls.
    pending: Vec<(String, String)>,
    last_user_message_id: Option<String>,
    final_response: String,
    skills: Vec<String>,
    title: Option<String>,
}

/// The cost of one use.
#[derive(Serialize, Deserialize)]
struct Usage {
    id: String,
    metrics: Box<RawValue>,
    /// The cost, the estimated cost, and the tokens without either.
    bill: Option<(Option<f64>, Option<f64>, u64)>,
}

impl State {
    /// Returns the state as JSON text. The same state gives the same text. `None` if it cannot be read back as it is.
    pub(crate) fn saved(&self) -> Option<String> {
        let text = serde_json::to_string(&Saved::of(self)?).ok()?;
        (Self::of_saved(&text).as_ref() == Some(self)).then_some(text)
    }

    /// Reads the text that [`State::saved`] gave. `None` if it is not such a text.
    pub(crate) fn of_saved(text: &str) -> Option<Self> {
        serde_json::from_str::<Saved>(text).ok()?.into_state()
    }
}

impl Saved {
    fn of(state: &State) -> Option<Self> {
        let usage = |(id, metrics): &(String, Metrics)| {
            let bill = metrics.stated_bill.map(|b| (b.cost, b.estimated_cost, b.tokens_without_cost));
            Some(Usage { id: id.clone(), metrics: serde_json::value::to_raw_value(metrics).ok()?, bill })
        };
        let stats = match &state.stats {
            Some(stats) => Some(stats.usage_to_metrics.iter().map(usage).collect::<Option<_>>()?),
            None => None,
        };
        let task = |task: &TaskItem| {
            (task.title.to_string(), task.notes.to_string(), task.status.as_str().to_owned())
        };
        Some(Self {
            event_count: state.event_count,
            kind_counts: state.kind_counts.clone(),
            status: state.status.as_str().to_owned(),
            has_explicit_status: state.has_explicit_status,
            asks: state.confirmation.map(|confirmation| confirmation == Confirmation::Asked),
            steps: state.steps,
            recent_replies: state.recent_replies.iter().map(|reply| reply.to_string()).collect(),
            stats,
            tasks: state.tasks.iter().map(task).collect(),
            pending: state.pending.pairs().map(|(id, call)| (id.to_owned(), call.to_owned())).collect(),
            last_user_message_id: state.last_user_message.as_ref().map(ToString::to_string),
            final_response: state.final_response.clone(),
            skills: state.skills.iter().map(|skill| skill.to_string()).collect(),
            title: state.title.clone(),
        })
    }

    fn into_state(self) -> Option<State> {
        let usage = |usage: Usage| {
            let mut metrics = Metrics::read(Raw::parse(usage.metrics.get()).ok()?);
            metrics.stated_bill = usage.bill.map(|(cost, estimated_cost, tokens_without_cost)| Bill {
                cost,
                estimated_cost,
                tokens_without_cost,
            });
            Some((usage.id, metrics))
        };
        let stats = match self.stats {
            Some(usages) => {
                Some(Stats { usage_to_metrics: usages.into_iter().map(usage).collect::<Option<_>>()? })
            }
            None => None,
        };
        let task = |(title, notes, status): (String, String, String)| {
            let mut task = TaskItem::new(title, TaskStatus::from(status.as_str()));
            task.notes = notes.into();
            task
        };
        let last_user_message = match self.last_user_message_id {
            Some(id) => Some(EventId::new(id).ok()?),
            None => None,
        };
        let mut pending = Pending::default();
        self.pending.into_iter().for_each(|(id, call)| pending.push(id, call));
        let skills: Vec<crate::event::Text> = self.skills.into_iter().map(Into::into).collect();
        Some(State {
            event_count: self.event_count,
            kind_counts: self.kind_counts,
            status: self.status.parse().ok()?,
            has_explicit_status: self.has_explicit_status,
            confirmation: self.asks.map(|asks| if asks { Confirmation::Asked } else { Confirmation::Never }),
            steps: self.steps,
            recent_replies: self.recent_replies.into_iter().map(Into::into).collect(),
            stats,
            tasks: self.tasks.into_iter().map(task).collect(),
            pending,
            last_user_message,
            final_response: self.final_response,
            known_skills: skills.iter().cloned().collect(),
            skills,
            title: self.title,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Event, Unfamiliar, decode};

    /// The events of each golden conversation.
    fn logs() -> impl Iterator<Item = Vec<Event>> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/conversations");
        std::fs::read_dir(folder).unwrap().map(|entry| {
            let events = std::fs::read_dir(entry.unwrap().path().join("events")).unwrap();
            let mut paths: Vec<_> = events.map(|entry| entry.unwrap().path()).collect();
            paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
            paths.sort();
            let read =
                |path: &_| decode(&std::fs::read_to_string(path).unwrap(), Unfamiliar::Refuse).unwrap();
            paths.iter().map(read).collect()
        })
    }

    #[test]
    fn a_fold_goes_on_from_a_saved_state_as_if_it_had_not_stopped() {
        let mut saved = 0;
        for events in logs() {
            for (place, next) in events.iter().enumerate() {
                let mut state = State::of(&events[..place]);
                let text = state.saved().unwrap();
                let mut read = State::of_saved(&text).unwrap();
                assert_eq!((&read, read.saved().as_deref()), (&state, Some(text.as_str())));
                state.apply(next);
                read.apply(next);
                assert_eq!(read, state);
                saved += 1;
            }
            let halves = events.split_at(events.len() / 2);
            let mut rest = State::of_saved(&State::of(halves.0).saved().unwrap()).unwrap();
            halves.1.iter().for_each(|event| rest.apply(event));
            assert_eq!(rest, State::of(&events));
        }
        assert!(saved > 200, "{saved}");
    }

    #[test]
    fn a_state_that_json_cannot_hold_is_not_saved() {
        let metrics = Metrics { accumulated_cost: f64::INFINITY, ..Metrics::default() };
        let stats = Stats { usage_to_metrics: vec![("agent".into(), metrics)] };
        assert_eq!(State { stats: Some(stats), ..State::default() }.saved(), None);
        assert_eq!(State::of_saved("{}"), None);
    }
}
