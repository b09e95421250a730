//! Compares views and condensers with those of the real SDK (`tests/golden/views`), and tests their properties.

use std::collections::{HashMap, HashSet};

use annals::EventId;
use annals::event::{Common, Condensation, Event, Source, Text, Unfamiliar, decode};
use annals::tree::{Tree, TreeError};
use annals::view::{Condenser, History, Plan, Requirement, Tokens, View};
use proptest::prelude::*;
use serde_json::Value;

use crate::log::{Log, named_apart, steps};
use crate::support::golden::{self, events};

fn tree(events: &[Event]) -> Tree {
    let mut tree = Tree::new();
    for event in events {
        let common = event.common();
        tree.push(common.id.as_str(), common.parent_id.as_deref(), event.kind());
    }
    tree
}

/// Returns the branch of a case: the path to its leaf if it names one, otherwise all of its events.
fn branch(case: &Value) -> Result<Vec<Event>, TreeError> {
    let events = events(case);
    match case["leaf"].as_str() {
        None => Ok(events),
        leaf => Ok(tree(&events).branch(leaf)?.into_iter().map(|place| events[place].clone()).collect()),
    }
}

fn ids(view: &View) -> Vec<&str> {
    view.ids().collect()
}

fn indices(view: &View) -> Vec<usize> {
    view.indices().iter().collect()
}

#[test]
fn every_golden_view_is_the_same() {
    let mut seen = 0;
    for (name, case) in golden::cases("views").iter().filter(|(_, case)| case["error"].is_null()) {
        let branch = branch(case).unwrap();
        if case["branch_ids"].is_array() {
            let ids: Vec<&str> = branch.iter().map(|event| event.id().as_str()).collect();
            assert_eq!(case["branch_ids"], serde_json::json!(ids), "{name}");
        }
        let (live, reloaded) = (View::live(&branch), View::reloaded(&branch));
        assert_eq!(case["view_ids"], serde_json::json!(ids(&reloaded)), "{name}");
        assert_eq!(case["incremental_view_ids"], serde_json::json!(ids(&live)), "{name}");
        assert_eq!(case["unhandled_condensation_request"], reloaded.has_unhandled_request(), "{name}");
        assert_eq!(case["manipulation_indices"], serde_json::json!(indices(&reloaded)), "{name}");
        if case["snapshot_ids"].is_array() {
            assert_eq!(case["snapshot_ids"], serde_json::json!(ids(&live.snapshot())), "{name}");
            let cuts = serde_json::json!(indices(&live));
            assert_eq!(case["incremental_manipulation_indices"], cuts, "{name}");
        }
        seen += 1;
    }
    assert!(seen >= 140, "only {seen} cases");
}

#[test]
fn every_event_of_a_golden_view_is_the_same() {
    for (name, case) in golden::cases("views").iter().filter(|(_, case)| case["view"].is_array()) {
        let view = View::reloaded(&events(case));
        let mut wanted: Vec<Value> = case["view"].as_array().unwrap().clone();
        let mut found: Vec<Value> =
            view.events().map(|event| serde_json::from_str(&event.dump()).unwrap()).collect();
        for (wanted, found) in wanted.iter_mut().zip(&mut found) {
            // The reference gives a summary the current time.
            if wanted["timestamp"] == "<generated>" {
                wanted["timestamp"] = found["timestamp"].take();
                found["timestamp"] = wanted["timestamp"].clone();
            }
        }
        assert_eq!(wanted, found, "{name}");
    }
}

#[test]
fn every_prefix_of_a_golden_branch_has_the_same_views() {
    let mut seen = 0;
    for (name, case) in golden::cases("views").iter().filter(|(_, case)| case["prefixes"].is_array()) {
        let branch = branch(case).unwrap();
        let (mut live, mut history) = (View::new(), History::new());
        for (event, wanted) in branch.iter().zip(case["prefixes"].as_array().unwrap()) {
            live.apply(event);
            history.apply(event);
            let mut reloaded = live.clone();
            reloaded.enforce(&history);
            let place = live.applied() - 1;
            assert_eq!(wanted["live"], serde_json::json!(ids(&live)), "{name} at {place}");
            assert_eq!(wanted["reloaded"], serde_json::json!(ids(&reloaded)), "{name} at {place}");
            assert_eq!(wanted["indices"], serde_json::json!(indices(&reloaded)), "{name} at {place}");
            seen += 1;
        }
        assert_eq!(live.applied(), branch.len());
    }
    assert!(seen >= 500, "only {seen} prefixes");
}

#[test]
fn a_reloaded_view_can_be_continued() {
    for (name, case) in golden::cases("views") {
        let Some(places) = case["reloaded_after"].as_object() else { continue };
        let branch = branch(&case).unwrap();
        for (place, wanted) in places {
            let (before, after) = branch.split_at(place.parse::<usize>().unwrap() + 1);
            let mut view = View::reloaded(before);
            after.iter().for_each(|event| view.apply(event));
            assert_eq!(*wanted, serde_json::json!(ids(&view)), "{name} at {place}");
        }
    }
}

#[test]
fn a_branch_that_does_not_reach_a_root_is_refused_as_in_the_reference() {
    let mut seen = 0;
    for (name, case) in golden::cases("views").iter().filter(|(_, case)| case["error"].is_string()) {
        let error = branch(case).unwrap_err();
        let message = match &error {
            TreeError::Cycle { event } => format!("Cycle in event tree at {event}"),
            TreeError::MissingParent { parent, .. } => format!("Unknown event_id: {parent}"),
            TreeError::Unknown { event } => format!("Unknown event_id: {event}"),
            other => panic!("{other}"),
        };
        assert_eq!(case["message"], message, "{name}");
        seen += 1;
    }
    assert!(seen >= 7, "only {seen} cases");
}

fn condenser(config: &Value) -> Condenser {
    let number = |name: &str| config[name].as_u64().map(|number| number as usize);
    let default = Condenser::default();
    default
        .max_size(number("max_size").unwrap_or(default.max_size))
        .max_tokens(config["max_tokens"].as_u64())
        .keep_first(number("keep_first").unwrap_or(default.keep_first))
        .minimum_progress(config["minimum_progress"].as_f64().unwrap_or(default.minimum_progress))
}

/// Runs a condenser on `view`. Returns the outcome as a golden case writes it. The case says whether the model fails.
fn condensed(view: &View, asked: &Value) -> Value {
    let config = &asked["config"];
    let Ok(condenser) = condenser(config).checked() else { return serde_json::json!("refused") };
    let weights: Vec<u64> =
        asked["weights"].as_array().unwrap().iter().map(|w| w.as_u64().unwrap()).collect();
    let count = |length: usize| weights[..length].iter().sum();
    let counts_tokens = !asked["limit"].is_null() || !config["max_tokens"].is_null();
    let tokens = counts_tokens.then_some(Tokens::new(&count).model_limit(asked["limit"].as_u64()));
    let reasons = condenser.reasons(view, tokens);
    let names = [("events", reasons.events), ("request", reasons.request), ("tokens", reasons.tokens)];
    let names: Vec<&str> = names.into_iter().filter(|(_, is)| *is).map(|(name, _)| name).collect();
    assert_eq!(asked["reasons"], serde_json::json!(names));
    let requirement = reasons.requirement().map(|requirement| match requirement {
        Requirement::Soft => "soft",
        Requirement::Hard => "hard",
    });
    assert_eq!(asked["requirement"], serde_json::json!(requirement));
    let mut failures = match asked["summarizer"].as_str().unwrap() {
        "answers" => 0,
        "fails once" => 1,
        _ => usize::MAX,
    };
    let mut plan = condenser.plan(view, tokens);
    if let Plan::Forget { requirement, .. } = plan
        && failures > 0
    {
        failures -= 1;
        plan = condenser.without_summary(view, requirement);
    }
    let longest = asked["longest"].as_u64().unwrap() as usize;
    match plan {
        Plan::Keep => serde_json::json!("view"),
        Plan::Reset { range } if failures < condenser.reset_cuts(longest).count() => {
            serde_json::json!([[range.start, range.end], range.start])
        }
        Plan::Reset { .. } => {
            let cuts: Vec<Option<usize>> = condenser.reset_cuts(longest).collect();
            assert_eq!(asked["cuts"], serde_json::json!(cuts));
            serde_json::json!("none")
        }
        Plan::Impossible => serde_json::json!("none"),
        Plan::Forget { range, .. } => serde_json::json!([[range.start, range.end], range.start]),
    }
}

#[test]
fn condensers_forget_what_the_reference_forgets() {
    let mut seen = 0;
    for (name, case) in golden::cases("views") {
        let Some(asked) = case["condense"].as_array() else { continue };
        let view = View::reloaded(&branch(&case).unwrap());
        for asked in asked {
            let wanted = match asked["outcome"].as_str().unwrap() {
                "condensation" => serde_json::json!([asked["forgotten"], asked["offset"]]),
                word => serde_json::json!(word),
            };
            assert_eq!(wanted, condensed(&view, asked), "{name} {}", asked["config"]);
            seen += 1;
        }
    }
    assert!(seen >= 150, "only {seen} condensers");
}

/// Enforces the properties as the reference does, step by step: the first property that is broken removes events, and
/// then all are checked again.
fn enforced_slowly(mut view: Vec<Event>, all: &[Event]) -> Vec<Event> {
    loop {
        let doomed =
            [duplicate_answers(&view), torn_batches(&view, all), unpaired(&view), torn_loops(&view, all)]
                .into_iter()
                .find(|doomed| !doomed.is_empty());
        let Some(doomed) = doomed else { return view };
        view.retain(|event| !doomed.contains(event.id().as_str()));
    }
}

/// Returns the id of the call that an event answers. `None` if it answers no call.
fn answered(event: &Event) -> Option<String> {
    let call = match event {
        Event::Observation(answer) => &answer.tool_call_id,
        Event::UserReject(answer) => &answer.tool_call_id,
        Event::AgentError(answer) => &answer.tool_call_id,
        _ => return None,
    };
    Some(call.to_string())
}

fn id(event: &Event) -> String {
    event.id().as_str().to_owned()
}

fn duplicate_answers(view: &[Event]) -> HashSet<String> {
    let mut seen = HashSet::new();
    view.iter().filter(|event| answered(event).is_some_and(|call| !seen.insert(call))).map(id).collect()
}

fn batches(events: &[Event]) -> HashMap<String, HashSet<String>> {
    let mut batches: HashMap<String, HashSet<String>> = HashMap::new();
    for event in events {
        if let Event::Action(action) = event {
            batches.entry(action.llm_response_id.to_string()).or_default().insert(id(event));
        }
    }
    batches
}

fn torn_batches(view: &[Event], all: &[Event]) -> HashSet<String> {
    let all = batches(all);
    batches(view)
        .into_iter()
        .filter(|(response, members)| all[response] != *members)
        .flat_map(|(_, m)| m)
        .collect()
}

fn unpaired(view: &[Event]) -> HashSet<String> {
    let answers: HashSet<String> = view.iter().filter_map(answered).collect();
    let called = |event: &Event| match event {
        Event::Action(action) => Some(action.tool_call_id.to_string()),
        _ => None,
    };
    let calls: HashSet<String> = view.iter().filter_map(called).collect();
    let is_unpaired = |event: &&Event| {
        answered(event).is_some_and(|call| !calls.contains(&call))
            || called(event).is_some_and(|call| !answers.contains(&call))
    };
    view.iter().filter(is_unpaired).map(id).collect()
}

fn torn_loops(view: &[Event], all: &[Event]) -> HashSet<String> {
    let mut loops: Vec<HashSet<String>> = Vec::new();
    let mut inside = false;
    for event in all {
        match event {
            Event::Action(action) if !action.thinking_blocks.is_empty() => {
                loops.push(HashSet::new());
                inside = true;
            }
            Event::Action(_) => {}
            event if answered(event).is_some() => {}
            _ => inside = false,
        }
        if inside {
            loops.last_mut().unwrap().insert(id(event));
        }
    }
    let present: HashSet<String> = view.iter().map(id).collect();
    let torn = loops.into_iter().filter(|members| !members.is_subset(&present));
    torn.flat_map(|members| members.intersection(&present).cloned().collect::<Vec<_>>()).collect()
}

/// Computes the live view step by step on a plain list.
fn folded_slowly(branch: &[Event]) -> Vec<Event> {
    let mut view: Vec<Event> = Vec::new();
    for event in branch {
        if let Event::Condensation(condensation) = event {
            let forgotten: HashSet<&str> = condensation.forgotten_event_ids.iter().map(|id| &**id).collect();
            view.retain(|event| !forgotten.contains(event.id().as_str()));
            if let Some((offset, summary)) = condensation.summary_event() {
                view.insert(view.len().min(offset as usize), summary.into());
            }
        } else if event.is_llm_convertible() {
            view.push(event.clone());
        }
    }
    view
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_view_equals_the_slow_computation(steps in steps(60)) {
        let branch = Log::of(&steps).branch();
        let live = View::live(&branch);
        let slow = folded_slowly(&branch);
        prop_assert_eq!(live.events().cloned().collect::<Vec<_>>(), slow.clone());
        let reloaded = View::reloaded(&branch);
        let slowly = enforced_slowly(slow.clone(), &branch);
        prop_assert_eq!(reloaded.events().cloned().collect::<Vec<_>>(), slowly);
        let snapshot = live.snapshot();
        let slowly = enforced_slowly(slow.clone(), &slow);
        prop_assert_eq!(snapshot.events().cloned().collect::<Vec<_>>(), slowly);
    }

    #[test]
    fn enforcing_a_second_time_changes_nothing(steps in steps(60)) {
        let branch = Log::of(&steps).branch();
        let mut history = History::new();
        branch.iter().for_each(|event| history.apply(event));
        let once = View::reloaded(&branch);
        let mut again = once.clone();
        again.enforce(&history);
        prop_assert_eq!(once, again);
    }

    #[test]
    fn a_log_with_repeated_ids_equals_the_slow_computation(steps in steps(40), again in prop::collection::vec(any::<usize>(), 1..5)) {
        let mut events = Log::of(&steps).events;
        for which in again {
            let event = events[which % events.len()].clone();
            events.insert(which / 7 % events.len(), event);
        }
        let live = View::live(&events);
        let slow = folded_slowly(&events);
        prop_assert_eq!(live.events().cloned().collect::<Vec<_>>(), slow.clone());
        let reloaded = View::reloaded(&events);
        prop_assert_eq!(
            reloaded.events().cloned().collect::<Vec<_>>(),
            enforced_slowly(slow, &events)
        );
    }

    #[test]
    fn forgetting_between_two_cuts_breaks_no_property(steps in steps(50), from: usize, to: usize) {
        let view = View::reloaded(&Log::of(&named_apart(steps)).branch());
        let cuts: Vec<usize> = view.indices().iter().collect();
        let (from, to) = (cuts[from % cuts.len()], cuts[to % cuts.len()]);
        let mut events: Vec<Event> = view.events().cloned().collect();
        let all = events.clone();
        events.drain(from.min(to)..from.max(to));
        prop_assert_eq!(enforced_slowly(events.clone(), &all), events);
    }

    #[test]
    fn a_planned_condensation_leaves_a_view_that_can_be_sent(steps in steps(70), max_size in 4usize..24, keep_first in 0usize..6, request: bool) {
        let Ok(condenser) = (Condenser::default().max_size(max_size).keep_first(keep_first)).checked() else { return Ok(()) };
        let mut branch = View::reloaded(&Log::of(&named_apart(steps)).branch()).events().cloned().collect::<Vec<_>>();
        if request {
            branch.push(decode(r#"{"id":"ask","kind":"CondensationRequest"}"#, Unfamiliar::Refuse).unwrap());
        }
        let view = View::reloaded(&branch);
        let range = match condenser.plan(&view, None) {
            Plan::Keep | Plan::Impossible => return Ok(()),
            Plan::Forget { range, .. } | Plan::Reset { range } => range,
        };
        let forgotten = view.ids().skip(range.start).take(range.len()).map(Text::from).collect();
        let common = Common::new(EventId::new("condensed").unwrap(), "", Source::Environment);
        let mut event = Condensation::new(common, forgotten, "r");
        (event.summary, event.summary_offset) = (Some("S".into()), Some(range.start as u64));
        branch.push(event.into());
        let (live, reloaded) = (View::live(&branch), View::reloaded(&branch));
        prop_assert_eq!(&live, &reloaded);
        prop_assert_eq!(live.len(), view.len() - range.len() + 1);
        prop_assert!(!live.has_unhandled_request());
        prop_assert_eq!(live.ids().nth(range.start), Some("condensed-summary"));
        let prompted = |view: &View| view.events().any(|event| matches!(event, Event::SystemPrompt(_)));
        prop_assert_eq!(prompted(&live), prompted(&view));
    }
}

/// Returns a log of `turns` turns in which each batch and tool loop depends on the next: the second call of each reply
/// is answered after the calls of the next reply.
fn chained(turns: usize) -> Vec<Event> {
    let action = |id: String, call: String, response: String, thinking: &str| {
        format!(
            r#"{{"id":"{id}","source":"agent","thought":[],"thinking_blocks":[{thinking}],"tool_name":"t","tool_call_id":"{call}",
               "tool_call":{{"id":"{call}","name":"t","arguments":"{{}}","origin":"completion"}},"llm_response_id":"{response}",
               "kind":"ActionEvent"}}"#
        )
    };
    let answer = |id: String, call: String| {
        format!(
            r#"{{"id":"{id}","tool_name":"t","tool_call_id":"{call}","error":"e","kind":"AgentErrorEvent"}}"#
        )
    };
    let thinking = r#"{"type":"thinking","thinking":"t"}"#;
    let mut texts = Vec::new();
    for n in 0..turns {
        texts.push(action(
            format!("l{n}"),
            format!("l{n}"),
            format!("r{n}"),
            if n % 2 == 0 { thinking } else { "" },
        ));
        texts.push(action(format!("m{n}"), format!("m{n}"), format!("r{n}"), ""));
        texts.push(answer(format!("al{n}"), format!("l{n}")));
        if n > 0 {
            texts.push(answer(format!("am{n}"), format!("m{}", n - 1)));
        }
        if n % 2 == 1 {
            texts.push(format!(r#"{{"id":"p{n}","kind":"PauseEvent"}}"#));
        }
    }
    texts.iter().map(|text| decode(text, Unfamiliar::Refuse).unwrap()).collect()
}

#[test]
fn a_removal_across_the_whole_log_takes_one_pass() {
    // The last call has no answer. Its removal causes the removal of everything before it, one event after the other.
    let log = chained(20_000);
    assert!(View::live(&log).len() > 79_000);
    assert!(View::reloaded(&log).is_empty());
    let short = chained(20);
    let slow = enforced_slowly(folded_slowly(&short), &short);
    assert_eq!(View::reloaded(&short).events().cloned().collect::<Vec<_>>(), slow);
}

#[test]
fn many_condensations_of_a_long_view_are_fast() {
    let mut view = View::new();
    for number in 0..40_000 {
        let message = format!(
            r#"{{"id":"e{number}","source":"user","llm_message":{{"role":"user","content":[]}},"kind":"MessageEvent"}}"#
        );
        view.apply(&decode(&message, Unfamiliar::Refuse).unwrap());
        let condensation = format!(
            r#"{{"id":"c{number}","forgotten_event_ids":["c{}-summary","e{}"],"summary":"s","summary_offset":3,
               "llm_response_id":"r","kind":"Condensation"}}"#,
            number as i64 - 1,
            number / 2 * 2
        );
        view.apply(&decode(&condensation, Unfamiliar::Refuse).unwrap());
    }
    // Every second message, and the last summary.
    assert_eq!(view.len(), 20_001);
    assert_eq!(view.ids().nth(3), Some("c39999-summary"));
}
