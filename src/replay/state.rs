//! The state of a conversation at a moment. It follows from the events; for the present, the base state takes
//! precedence.

use std::collections::{HashSet, VecDeque};

use serde_json::{Value, json};

use super::Moment;
use crate::error::Result;
use crate::event::{Event, Text};
use crate::ids::Sequence;
use crate::json::Raw;
use crate::state::{Bill, ExecutionStatus, Metrics, State, Stats, TokenUsage};
use crate::store::{FieldAt, Folded};
use crate::stuck::{self, Thresholds, WINDOW};

/// A conversation's state at a moment.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct MomentState {
    /// The status: from the base state if its value for this moment is known, else derived from the events.
    pub execution_status: ExecutionStatus,
    /// The state that follows from all events.
    pub whole: State,
    /// The state that follows from the events of the live branch.
    pub branch: State,
    /// The pattern that shows that the agent was stuck in a loop. `None` if it was not.
    pub stuck: Option<stuck::Pattern>,
    /// The cost of model calls: from the base state if its value for this moment is known, else from the events. If the
    /// events have no costs either, the costs of the calls whose replies were in the log.
    pub stats: Stats,
    /// The tags, a JSON object of string members.
    pub tags: String,
    /// The present title, if one was set. Titles have no history.
    pub title: Option<String>,
    /// The id of the user's last message as the base state has it. `None` before the end if its value then is not known,
    /// and for a fork until its first message, because the reference does not copy it.
    pub last_user_message_id: Option<String>,
    /// The id of the user's last message in the log.
    pub last_user_message_in_log: Option<String>,
}

impl Moment<'_> {
    /// Returns the state.
    ///
    /// In a long conversation it is computed from the nearest snapshot before the moment, and its cost does not depend on
    /// the length of the log. The first call for a moment far from a snapshot makes the snapshots before it, after it has
    /// brought the derived tables up to date. A store that is read-only uses those that are there and makes none.
    ///
    /// # Errors
    /// [`Error::Tree`](crate::Error::Tree) if the live branch cannot be determined; otherwise the errors of reading.
    pub fn state(&self) -> Result<MomentState> {
        let near = self.store.folded(self.id(), self.length, self.active_leaf(), WINDOW)?;
        match near {
            Some(folded) => self.state_of(folded),
            None => self.state_of(self.fold_all()?),
        }
    }

    /// Folds every event up to the moment. Keeps only the last few of the branch in memory.
    fn fold_all(&self) -> Result<Folded> {
        let mut on_branch = self.branch()?;
        on_branch.sort_unstable();
        let mut members = on_branch.iter().copied().peekable();
        let (mut whole, mut branch) = (State::new(), State::new());
        let mut tail: VecDeque<Event> = VecDeque::with_capacity(WINDOW + 1);
        self.each(|sequence, event| {
            whole.apply(event);
            if members.next_if(|place| *place as u64 == sequence.0).is_some() {
                branch.apply(event);
                tail.push_back(event.clone());
                if tail.len() > WINDOW {
                    tail.pop_front();
                }
            }
            Ok(())
        })?;
        Ok(Folded { whole, branch, tail: tail.into() })
    }

    fn state_of(&self, folded: Folded) -> Result<MomentState> {
        let Folded { whole, branch, tail } = folded;
        let stuck = stuck::pattern(tail.iter(), Thresholds::default());
        let base = self.base_fields()?;
        let field =
            |name: &str| base.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str());
        let recorded = field("execution_status").and_then(text).and_then(|status| status.parse().ok());
        let folded = || match stuck {
            Some(_) => whole.execution_status_in_circles(),
            None => whole.execution_status(),
        };
        let stats = match field("stats").and_then(|stats| Raw::parse(stats).ok()).map(Stats::read) {
            Some(stats) => stats,
            None => match whole.stats() {
                Some(stats) => stats.clone(),
                None => match self.stats_of_calls()? {
                    stats if stats.usage_to_metrics.is_empty() => self.stats_of_log()?,
                    stats => stats,
                },
            },
        };
        let conversation = self.conversation();
        Ok(MomentState {
            execution_status: recorded.unwrap_or_else(folded),
            stuck,
            stats,
            tags: field("tags").map_or_else(|| conversation.tags.clone(), str::to_owned),
            title: conversation.title.clone().filter(|_| conversation.is_titled),
            last_user_message_id: field("last_user_message_id").and_then(text),
            last_user_message_in_log: whole.last_user_message_id().map(ToString::to_string),
            whole,
            branch,
        })
    }

    /// Returns the fields of the base state that are known for this moment: at the end all of them, before the end only
    /// those whose change was recorded.
    fn base_fields(&self) -> Result<Vec<(&'static str, String)>> {
        const FIELDS: [&str; 4] = ["execution_status", "tags", "stats", "last_user_message_id"];
        let mut fields = Vec::new();
        if self.is_end() {
            if let Some(state) = self.store.base_state(self.id())? {
                let known = |name: &'static str| {
                    state.document.current_field(name).map(|value| (name, value.text().to_owned()))
                };
                fields.extend(FIELDS.into_iter().filter_map(known));
            }
        } else if let Some(last) = self.length().checked_sub(1) {
            for name in FIELDS {
                let at = self.store.base_state_field_at(self.id(), name, Sequence(last))?;
                if let FieldAt::Value(value) = at {
                    fields.push((name, value));
                }
            }
        }
        Ok(fields)
    }

    /// Returns the ids of the replies that are in the log. They are read from columns; only events of OpenHands V0 have them
    /// elsewhere.
    fn replies(&self) -> Result<HashSet<Text>> {
        let (mut replies, mut old) = (HashSet::new(), Vec::new());
        self.store.each_reply(self.id(), self.length, |sequence, reply, kind| match reply {
            Some(reply) if !replies.contains(reply) => drop(replies.insert(Text::from(reply))),
            Some(_) => {}
            None if kind.contains(':') => old.push(sequence.0 as usize),
            None => {}
        })?;
        self.each_of(&old, |_, event| {
            replies.extend(event.reply().cloned());
            Ok(())
        })?;
        Ok(replies)
    }

    /// Returns the costs of the model calls whose replies are in the log, if the present base state lists the calls singly.
    fn stats_of_calls(&self) -> Result<Stats> {
        let Some(state) = self.store.base_state(self.id())? else { return Ok(Stats::default()) };
        let stats = state.document.field("stats").map(Stats::read).unwrap_or_default();
        let mut uses: Vec<_> =
            stats.usage_to_metrics.into_iter().filter(|(_, metrics)| metrics.calls() > 0).collect();
        if !uses.is_empty() {
            let replies = self.replies()?;
            uses.iter_mut().for_each(|(_, metrics)| *metrics = metrics_of(metrics, &replies));
            uses.retain(|(_, metrics)| metrics.calls() > 0);
        }
        Ok(Stats { usage_to_metrics: uses })
    }

    /// Returns the costs that the log's events have in a form that their present form lacks: those of OpenHands V0.
    fn stats_of_log(&self) -> Result<Stats> {
        match self.length().checked_sub(1) {
            Some(last) => self.store.usage_until(self.id(), Sequence(last)),
            None => Ok(Stats::default()),
        }
    }

    /// Returns the state as JSON, with the ids of the live branch. `docs/cli.md` describes its shape.
    ///
    /// # Errors
    /// As [`Moment::state`].
    pub fn state_value(&self) -> Result<Value> {
        let mut value = self.brief_state_value()?;
        value["active_branch_ids"] = self.branch_ids()?.into();
        Ok(value)
    }

    /// Returns the state as JSON, without the ids of the live branch. They are as many as the events of the branch.
    ///
    /// # Errors
    /// As [`Moment::state`].
    pub fn brief_state_value(&self) -> Result<Value> {
        Ok(self.value_of(&self.state()?))
    }

    fn value_of(&self, state: &MomentState) -> Value {
        let ids = |state: &State| state.unmatched_actions().ids().map(str::to_owned).collect::<Vec<_>>();
        let bill = state.stats.bill();
        let tasks = state.branch.task_list().iter().map(
            |task| json!({"title": &*task.title, "notes": &*task.notes, "status": task.status.as_str()}),
        );
        json!({
            "conversation_id": self.id().as_str(),
            "as_of_sequence": self.length().checked_sub(1),
            "is_end": self.is_end(),
            "execution_status": state.execution_status.as_str(),
            "iteration": state.whole.iteration(),
            "event_count": self.length(),
            "kind_counts": state.whole.kind_counts(),
            "leaf_event_id": self.leaf_event_id(),
            "head_is_empty": self.head_is_empty(),
            "resolved_active_leaf": self.active_leaf(),
            "branch_event_count": state.branch.event_count(),
            "unmatched_action_ids": ids(&state.branch),
            "unmatched_action_ids_all_events": ids(&state.whole),
            "last_user_message_id": state.last_user_message_id,
            "last_user_message_in_log": state.last_user_message_in_log,
            "is_stuck": state.stuck.is_some(),
            "stuck_pattern": state.stuck.map(stuck::Pattern::as_str),
            "agent_final_response": state.branch.final_response(),
            "activated_skills": state.branch.activated_skills().iter().map(|skill| &**skill).collect::<Vec<_>>(),
            "tags": serde_json::from_str::<Value>(&state.tags).unwrap_or_else(|_| json!({})),
            "title": state.title,
            "title_candidate": state.whole.title_candidate(),
            "stats": stats_value(&state.stats),
            "cost": bill.cost,
            "estimated_cost": bill.estimated_cost,
            "tokens_without_cost": bill.tokens_without_cost,
            "task_list": tasks.collect::<Vec<_>>(),
        })
    }
}

/// Returns the part of `metrics` that belongs to these replies. Costs have no response ids: they are paired with the
/// token usages by index, if there are equally many of both.
fn metrics_of(metrics: &Metrics, replies: &HashSet<Text>) -> Metrics {
    let mut part = Metrics {
        accumulated_cost: 0.0,
        accumulated_token_usage: TokenUsage { model: metrics.model_name.clone(), ..TokenUsage::default() },
        costs: Vec::new(),
        response_latencies: Vec::new(),
        token_usages: Vec::new(),
        ..metrics.clone()
    };
    let is_priced = metrics.costs.len() == metrics.token_usages.len();
    let mut bill = Bill::default();
    for (place, (usage, its)) in metrics.token_usages.iter().zip(metrics.bills_of_calls()).enumerate() {
        if !replies.contains(usage.response_id.as_str()) {
            continue;
        }
        bill = bill.plus(its);
        part.accumulated_token_usage.add(usage);
        part.token_usages.push(usage.clone());
        if let Some(cost) = metrics.costs.get(place).filter(|_| is_priced) {
            part.accumulated_cost += cost.cost;
            part.costs.push(cost.clone());
        }
    }
    part.stated_bill = Some(bill);
    let latencies = metrics.response_latencies.iter();
    part.response_latencies
        .extend(latencies.filter(|latency| replies.contains(latency.response_id.as_str())).cloned());
    part
}

/// The cost of model calls as JSON: by usage id, combined, and in the form that the reference sends to clients.
fn stats_value(stats: &Stats) -> Value {
    let figures = |metrics: &Metrics| {
        json!({
            "accumulated_cost": metrics.accumulated_cost,
            "accumulated_token_usage": metrics.accumulated_token_usage,
        })
    };
    let usages: serde_json::Map<String, Value> = stats
        .usage_to_metrics
        .iter()
        .map(|(usage_id, metrics)| {
            let mut value = figures(metrics);
            value["model_name"] = json!(metrics.model_name);
            value["n_costs"] = json!(metrics.costs.len());
            value["n_response_latencies"] = json!(metrics.response_latencies.len());
            value["n_token_usages"] = json!(metrics.token_usages.len());
            (usage_id.clone(), value)
        })
        .collect();
    json!({"usages": usages, "combined": figures(&stats.combined()), "snapshot_json": stats.snapshot()})
}

/// The text of a JSON string.
fn text(json: &str) -> Option<String> {
    Raw::parse(json).ok().and_then(Raw::as_str).map(std::borrow::Cow::into_owned)
}
