//! Derived state: every comparable answer of the golden conversations, the automaton of
//! `docs/reference/seeds.md#derived-state`, and the fold's properties.

use std::collections::HashSet;
use std::path::Path;

use annals::EventId;
use annals::event::json::Raw;
use annals::event::{Common, Envelope, Event, Source, Unfamiliar, decode};
use annals::state::Effect;
use annals::state::Stats;
use annals::state::{BaseDocument, Confirmation, ExecutionStatus, State};
use annals::stuck::{Thresholds, pattern};
use annals::tree::Tree;
use annals::view::View;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::log::{Log, steps, update};
use crate::support::golden;

/// A golden conversation, read from its folder.
struct Conversation {
    name: String,
    payloads: Vec<String>,
    events: Vec<Event>,
    tree: Tree,
    base: BaseDocument,
    expected: Value,
}

impl Conversation {
    fn read(folder: &Path) -> Self {
        let is_event = |path: &Path| path.extension().is_some_and(|extension| extension == "json");
        let files = golden::list(&folder.join("events")).into_iter().filter(|path| is_event(path));
        let payloads: Vec<String> = files.map(|path| std::fs::read_to_string(path).unwrap()).collect();
        let events: Vec<Event> =
            payloads.iter().map(|payload| decode(payload, Unfamiliar::Refuse).unwrap()).collect();
        let mut tree = Tree::new();
        for event in &events {
            let common = event.common();
            tree.push(common.id.as_str(), common.parent_id.as_deref(), event.kind());
        }
        let base = std::fs::read_to_string(folder.join("base_state.json")).unwrap();
        Self {
            name: folder.file_name().unwrap().to_string_lossy().into_owned(),
            payloads,
            events,
            tree,
            base: BaseDocument::parse(&base).unwrap(),
            expected: golden::read(&folder.join("expected.json")),
        }
    }

    fn all() -> Vec<Self> {
        let all: Vec<Self> =
            golden::list(&golden::folder("conversations")).iter().map(|folder| Self::read(folder)).collect();
        assert_eq!(all.len(), 10);
        all
    }

    fn leaf(&self) -> Option<String> {
        let (leaf, head_is_empty) = self.base.leaf();
        self.tree.resolve_leaf(leaf.as_deref(), head_is_empty)
    }

    fn branch(&self) -> Vec<Event> {
        let path = self.tree.branch(self.leaf().as_deref()).unwrap();
        path.into_iter().map(|place| self.events[place].clone()).collect()
    }

    fn confirmation(&self) -> Confirmation {
        let kind = self.base.field("confirmation_policy").and_then(|policy| policy.get("kind"));
        match kind.and_then(Raw::as_str).as_deref() {
            Some("NeverConfirm") | None => Confirmation::Never,
            Some(_) => Confirmation::Asked,
        }
    }
}

fn ids<'e>(events: impl IntoIterator<Item = &'e Event>) -> Vec<&'e str> {
    events.into_iter().map(|event| event.id().as_str()).collect()
}

#[test]
fn every_comparable_answer_of_the_golden_conversations_is_the_same() {
    for conversation in Conversation::all() {
        let (name, expected) = (&conversation.name, &conversation.expected);
        let same = |key: &str, found: Value| assert_eq!(expected[key], found, "{name}: {key}");
        let (events, branch) = (&conversation.events, conversation.branch());
        let (whole, of_branch) = (State::of(events), State::of(&branch));
        let (leaf, head_is_empty) = conversation.base.leaf();

        same("event_count", json!(whole.event_count()));
        same("kind_counts", json!(whole.kind_counts()));
        same("event_ids", json!(ids(events)));
        same("leaf_event_id", json!(leaf));
        same("head_is_empty", json!(head_is_empty));
        same("resolved_active_leaf", json!(conversation.leaf()));
        same("active_branch_ids", json!(ids(&branch)));

        let (live, reloaded) = (View::live(&branch), View::reloaded(&branch));
        same("view_event_ids", json!(reloaded.ids().collect::<Vec<_>>()));
        same("view_unhandled_condensation_request", json!(reloaded.has_unhandled_request()));
        same("view_manipulation_indices", json!(reloaded.indices().iter().collect::<Vec<_>>()));
        same("view_incremental_event_ids", json!(live.ids().collect::<Vec<_>>()));
        same("view_of_all_events_ids", json!(View::reloaded(events).ids().collect::<Vec<_>>()));

        same("unmatched_action_ids", json!(of_branch.unmatched_actions().ids().collect::<Vec<_>>()));
        same("unmatched_action_ids_all_events", json!(whole.unmatched_actions().ids().collect::<Vec<_>>()));
        same("last_user_message_id", json!(whole.last_user_message_id().map(EventId::as_str)));
        same("last_user_message_id", json!(conversation.base.text("last_user_message_id")));
        same(
            "activated_knowledge_skills",
            json!(whole.activated_skills().iter().map(|skill| &**skill).collect::<Vec<_>>()),
        );
        let circles = pattern(branch.iter(), Thresholds::default());
        same("is_stuck", json!(circles.is_some()));
        same("agent_final_response", json!(of_branch.final_response()));
        let tasks: Vec<Value> = of_branch
            .task_list()
            .iter()
            .map(|task| json!({"title": *task.title, "notes": *task.notes, "status": task.status.as_str()}))
            .collect();
        same("task_list_last_observation", if tasks.is_empty() { Value::Null } else { json!(tasks) });

        // The status also follows from the events and the confirmation policy, which only the base state holds.
        same("execution_status", json!(conversation.base.text("execution_status")));
        let mut state = State::knowing(conversation.confirmation());
        events.iter().for_each(|event| state.apply(event));
        let status = match circles {
            Some(_) => state.execution_status_in_circles(),
            None => state.execution_status(),
        };
        // In `hooks`, a hook rejected the last message. The run ended because of it and left no event.
        let status = if name == "hooks" { "finished" } else { status.as_str() };
        same("execution_status", json!(status));
    }
}

#[test]
fn every_figure_of_the_golden_conversations_is_the_same_to_the_bit() {
    for Conversation { name, base, expected, .. } in Conversation::all() {
        let stats = base.field("stats").map(Stats::read).unwrap_or_default();
        let uses: serde_json::Map<String, Value> = stats
            .usage_to_metrics
            .iter()
            .map(|(usage_id, metrics)| {
                let value = json!({
                    "model_name": metrics.model_name,
                    "accumulated_cost": metrics.accumulated_cost,
                    "accumulated_token_usage": metrics.accumulated_token_usage,
                    "n_costs": metrics.costs.len(),
                    "n_response_latencies": metrics.response_latencies.len(),
                    "n_token_usages": metrics.token_usages.len(),
                });
                (usage_id.clone(), value)
            })
            .collect();
        let combined = stats.combined();
        let found = json!({
            "usages": uses,
            "combined": {
                "accumulated_cost": combined.accumulated_cost,
                "accumulated_token_usage": combined.accumulated_token_usage,
            },
            "snapshot_json": stats.snapshot(),
        });
        assert_eq!(expected["stats"], found, "{name}");
        let bits = |value: &Value| value["combined"]["accumulated_cost"].as_f64().unwrap().to_bits();
        assert_eq!(bits(&expected["stats"]), combined.accumulated_cost.to_bits(), "{name}");
        assert_eq!(combined.calls(), combined.token_usages.len(), "{name}");
    }
}

#[test]
fn stats_from_events_equal_the_final_stats_of_the_base_state() {
    let server =
        Conversation::all().into_iter().find(|conversation| conversation.name == "agent-server-session");
    let server = server.unwrap();
    let from_events = State::of(&server.events).stats().unwrap().combined();
    let from_base = Stats::read(server.base.field("stats").unwrap()).combined();
    assert_eq!(from_events.accumulated_cost.to_bits(), from_base.accumulated_cost.to_bits());
    assert_eq!(from_events.accumulated_token_usage, from_base.accumulated_token_usage);
    assert_eq!(from_events.calls(), 0);
}

#[test]
fn a_servers_status_follows_from_its_events_without_its_status_updates() {
    let all = Conversation::all();
    let server = all.iter().find(|conversation| conversation.name == "agent-server-session").unwrap();
    let mut seen = 0;
    let (mut with_updates, mut without_updates) = (State::new(), State::new());
    for event in &server.events {
        with_updates.apply(event);
        match event {
            Event::StateUpdate(update) if &*update.key == "execution_status" => {
                // Only `finished` is compared: the server writes that a run starts, or that a message ended the last
                // one, before any event shows it.
                if with_updates.execution_status() == ExecutionStatus::Finished {
                    assert_eq!(
                        without_updates.execution_status(),
                        with_updates.execution_status(),
                        "{}",
                        event.id()
                    );
                    seen += 1;
                }
            }
            event => without_updates.apply(event),
        }
    }
    assert_eq!(seen, 3);
}

#[test]
fn steps_skills_and_titles_are_counted_from_events() {
    let all = Conversation::all();
    let state =
        |name: &str| State::of(&all.iter().find(|conversation| conversation.name == name).unwrap().events);
    assert_eq!(state("agent-server-session").iteration(), 5);
    let rolling = state("condense-rolling");
    let replies: HashSet<&str> = all[2].payloads.iter().filter_map(|payload| reply(payload)).collect();
    assert_eq!((all[2].name.as_str(), rolling.iteration()), ("condense-rolling", replies.len() as u64));
    assert!(state("hello-two-turns").title_candidate().is_some());
    assert_eq!(
        annals::state::fallback_title(state("hello-two-turns").title_candidate().unwrap(), 8).chars().count(),
        8
    );
}

/// The id of the model's reply that an agent's event names, found by text search.
fn reply(payload: &str) -> Option<&str> {
    let agent = payload.contains(r#""kind":"ActionEvent""#)
        || (payload.contains(r#""kind":"MessageEvent""#) && payload.contains(r#""source":"agent""#));
    let after = payload.split_once(r#""llm_response_id":""#).filter(|_| agent)?.1;
    after.split_once('"').map(|(reply, _)| reply)
}

#[test]
fn payload_and_event_have_the_same_effect_on_the_status() {
    for conversation in Conversation::all() {
        for (payload, event) in conversation.payloads.iter().zip(&conversation.events) {
            let envelope = Envelope::read(payload).unwrap().0;
            assert_eq!(Effect::of(&envelope, payload), Effect::of_event(event), "{payload}");
        }
    }
}

/// Events in words: `user`, `agent`, `empty` (an agent's message without text), `hint` of the environment, `act N`,
/// `done N`, `finish N` and its `finished N`, `reject N`, `hook N`, `fail N`, `pause`, `interrupt`, `error`,
/// `condense`, `ask` for a condensation, `status WORD`, `policy WORD`, `full WORD`.
fn events(words: &str) -> Vec<Event> {
    let mut events = Vec::new();
    for (number, words) in words.split(", ").filter(|words| !words.is_empty()).enumerate() {
        let (word, rest) = words.split_once(' ').unwrap_or((words, ""));
        let message = |source: &str, text: &str| {
            format!(
                r#""source":"{source}","llm_message":{{"role":"user","content":[{{"type":"text","text":"{text}"}}]}},"kind":"MessageEvent""#
            )
        };
        let act = |tool: &str, action: &str| {
            format!(
                r#""id":"a{rest}","source":"agent","thought":[],"action":{action},"tool_name":"{tool}","tool_call_id":"c{rest}",
                   "tool_call":{{"id":"c{rest}","name":"{tool}","arguments":"{{}}","origin":"completion"}},
                   "llm_response_id":"r{rest}","kind":"ActionEvent""#
            )
        };
        let answer = |tool: &str| {
            format!(
                r#""tool_name":"{tool}","tool_call_id":"c{rest}","action_id":"a{rest}",
                   "observation":{{"content":[],"kind":"ThinkObservation"}},"kind":"ObservationEvent""#
            )
        };
        let refuse = |source: &str| {
            format!(
                r#""tool_name":"t","tool_call_id":"c{rest}","action_id":"a{rest}","rejection_source":"{source}",
                   "kind":"UserRejectObservation""#
            )
        };
        let state_update = |key: &str, value: String| {
            format!(r#""key":"{key}","value":{value},"kind":"ConversationStateUpdateEvent""#)
        };
        let body = match word {
            "user" => message("user", "hi"),
            "agent" => message("agent", "hi"),
            "empty" => message("agent", " \\n"),
            "hint" => message("environment", "hi"),
            "act" => act("t", r#"{"thought":"x","kind":"ThinkAction"}"#),
            "invalid" => act("t", "null"),
            "finish" => act("finish", r#"{"message":"bye","kind":"FinishAction"}"#),
            "done" => answer("t"),
            "finished" => answer("finish"),
            "reject" => refuse("user"),
            "hook" => refuse("hook"),
            "fail" => {
                format!(r#""tool_name":"t","tool_call_id":"c{rest}","error":"e","kind":"AgentErrorEvent""#)
            }
            "pause" => r#""kind":"PauseEvent""#.to_owned(),
            "interrupt" => r#""kind":"InterruptEvent""#.to_owned(),
            "error" => {
                r#""source":"environment","code":"c","detail":"d","kind":"ConversationErrorEvent""#.to_owned()
            }
            "condense" => r#""llm_response_id":"s","kind":"Condensation""#.to_owned(),
            "ask" => r#""kind":"CondensationRequest""#.to_owned(),
            "status" => state_update("execution_status", format!("\"{rest}\"")),
            "policy" => state_update("confirmation_policy", format!(r#"{{"kind":"{rest}"}}"#)),
            "full" => state_update("full_state", format!(r#"{{"execution_status":"{rest}"}}"#)),
            other => panic!("{other}"),
        };
        let id = if body.contains("\"id\":\"a") { String::new() } else { format!(r#""id":"e{number}","#) };
        events.push(decode(&format!("{{{id}{body}}}"), Unfamiliar::Refuse).unwrap());
    }
    events
}

#[test]
fn the_status_follows_the_automaton() {
    for (words, status) in [
        ("", "idle"),
        ("user", "idle"),
        ("user, act 1", "running"),
        ("user, act 1, done 1", "running"),
        ("user, finish 1", "running"),
        ("user, finish 1, finished 1", "finished"),
        ("user, finish 1, finished 1, user", "idle"),
        ("user, agent", "finished"),
        ("user, empty", "running"),
        ("user, empty, hint", "running"),
        ("user, agent, hint", "running"),
        ("user, act 1, reject 1", "idle"),
        ("user, act 1, act 2, reject 1", "running"),
        ("user, act 1, act 2, reject 1, reject 2", "idle"),
        ("user, act 1, hook 1", "running"),
        ("user, invalid 1, fail 1", "running"),
        ("user, act 1, pause", "paused"),
        ("user, act 1, pause, user", "paused"),
        ("user, act 1, fail 1, interrupt", "paused"),
        ("user, error", "error"),
        ("user, error, user", "error"),
        ("user, ask", "running"),
        ("user, agent, condense", "running"),
        ("policy AlwaysConfirm, user, act 1", "waiting_for_confirmation"),
        ("policy AlwaysConfirm, user, act 1, user", "waiting_for_confirmation"),
        ("policy AlwaysConfirm, user, act 1, done 1", "running"),
        ("policy AlwaysConfirm, user, invalid 1, fail 1", "running"),
        ("policy AlwaysConfirm, user, act 1, pause", "paused"),
        ("policy AlwaysConfirm, policy NeverConfirm, user, act 1", "running"),
        ("policy AlwaysConfirm, status running, act 1", "running"),
        ("user, act 1, status waiting_for_confirmation, user", "waiting_for_confirmation"),
        ("user, act 1, status waiting_for_confirmation, reject 1", "idle"),
        ("user, status stuck, user", "idle"),
        ("full finished", "finished"),
        ("full finished, user, status DELETING", "deleting"),
        ("user, agent, status nonsense", "finished"),
    ] {
        assert_eq!(State::of(&events(words)).execution_status().as_str(), status, "{words}");
    }
}

#[test]
fn a_looping_agent_is_stuck_unless_its_events_give_the_status() {
    for (words, status) in [
        ("user, act 1, done 1", "stuck"),
        ("user, act 1, done 1, pause", "paused"),
        ("user, agent", "finished"),
        ("status running, act 1, done 1", "running"),
    ] {
        assert_eq!(State::of(&events(words)).execution_status_in_circles().as_str(), status, "{words}");
    }
}

#[test]
fn a_step_is_a_reply_of_the_model() {
    let mut state = State::of(&events("user, act 1, act 1, done 1, agent, empty, act 2, hint, condense"));
    assert_eq!(state.iteration(), 4); // two replies with calls, two messages that name no reply
    assert_eq!(state.final_response(), " \n");
    events("finish 3").iter().for_each(|event| state.apply(event));
    assert_eq!(state.final_response(), "bye");
    assert_eq!(State::of(&events("agent, invalid 1")).final_response(), "hi");
}

/// The unmatched actions, searched backwards as the reference does.
fn unmatched_slowly(events: &[Event]) -> Vec<&str> {
    let (mut actions, mut calls, mut found) = (HashSet::new(), HashSet::new(), Vec::new());
    for event in events.iter().rev() {
        match event {
            Event::Observation(answer) => drop(actions.insert(answer.action_id.clone())),
            Event::UserReject(answer) => drop(actions.insert(answer.action_id.clone())),
            Event::AgentError(answer) => drop(calls.insert(answer.tool_call_id.clone())),
            Event::Action(action)
                if action.action.is_some()
                    && !actions.contains(event.id().as_str())
                    && !calls.contains(&action.tool_call_id) =>
            {
                found.insert(0, event.id().as_str());
            }
            _ => {}
        }
    }
    found
}

#[test]
fn golden_branches_leave_the_same_actions_unmatched() {
    for (name, case) in
        golden::cases("views").iter().filter(|(_, case)| case["unmatched_action_ids"].is_array())
    {
        let mut events = golden::events(case);
        if let Some(branch) = case["branch_ids"].as_array() {
            let find = |id: &Value| events.iter().find(|event| id == event.id().as_str()).unwrap().clone();
            events = branch.iter().map(find).collect();
        }
        let mut state = State::new();
        let nothing = Vec::new();
        let prefixes = case["prefixes"].as_array().unwrap_or(&nothing);
        for (place, event) in events.iter().enumerate() {
            state.apply(event);
            if let Some(prefix) = prefixes.get(place) {
                let ids: Vec<&str> = state.unmatched_actions().ids().collect();
                assert_eq!(prefix["unmatched"], json!(ids), "{name} at {place}");
            }
        }
        let ids: Vec<&str> = state.unmatched_actions().ids().collect();
        assert_eq!(case["unmatched_action_ids"], json!(ids), "{name}");
        assert_eq!(case["agent_final_response"], state.final_response(), "{name}");
    }
}

proptest! {
    #[test]
    fn folding_in_two_parts_equals_folding_once(steps in steps(60), cut: usize) {
        let events = Log::of(&steps).events;
        let (first, second) = events.split_at(cut % (events.len() + 1));
        let mut state = State::of(first);
        second.iter().for_each(|event| state.apply(event));
        prop_assert_eq!(&state, &State::of(&events));
        let ids: Vec<&str> = state.unmatched_actions().ids().collect();
        prop_assert_eq!(ids, unmatched_slowly(&events));
        prop_assert_eq!(state.unmatched_actions().len(), unmatched_slowly(&events).len());
        let counted: u64 = state.kind_counts().values().sum();
        prop_assert_eq!(counted, state.event_count());
    }

    #[test]
    fn the_payload_and_the_event_agree_on_any_log(steps in steps(40)) {
        for event in &Log::of(&steps).events {
            let payload = event.dump();
            let envelope = Envelope::read(&payload).unwrap().0;
            prop_assert_eq!(Effect::of(&envelope, &payload), Effect::of_event(event));
        }
    }

    #[test]
    fn any_value_of_a_state_update_can_be_folded(key in "(stats|full_state|execution_status|confirmation_policy)", value in json_text()) {
        let common = Common::new(EventId::new("e").unwrap(), "", Source::Environment);
        let state = State::of(&[update(&common, &key, &value)]);
        prop_assert_eq!(state.event_count(), 1);
    }
}

/// JSON values that resemble what servers write.
fn json_text() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("\"finished\"".to_owned()),
        Just("-1".to_owned()),
        Just("1e400".to_owned()),
        any::<u64>().prop_map(|number| number.to_string()),
        any::<f64>()
            .prop_filter("JSON has no such number", |number| number.is_finite())
            .prop_map(|number| format!("{number:e}")),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let key = "(usage_to_metrics|stats|agent|accumulated_cost|accumulated_token_usage|prompt_tokens|costs|kind|execution_status|confirmation_policy)";
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|values| format!("[{}]", values.join(","))),
            prop::collection::vec((key, inner), 0..4).prop_map(|members| {
                let members: Vec<String> = members.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    })
}
