//! Model calls that several files have: forks, sub-agents, repeated lines. Each is counted once, whatever the order of imports.

use std::collections::BTreeMap;
use std::fs;

use annals::Store;
use annals::audit;
use annals::store::{SqlLimits, SqlValue, UsageTotal};
use annals::transfer::{ImportOptions, Importer};
use serde_json::{Value, json};

use crate::support::random::Random;
use crate::support::{Scratch, all_events, assert_sound, conversation, rows};

/// Tokens sent and received.
type Tokens = (i64, i64);

/// A log as a program would write it, and what its own calls took.
struct Log {
    name: String,
    id: String,
    lines: Vec<Value>,
    /// The calls in it, by the conversation in which they happened, in their order.
    calls: Vec<(String, Tokens)>,
}

impl Log {
    fn own(&self) -> Tokens {
        let own = self.calls.iter().filter(|(of, _)| *of == self.id);
        own.fold((0, 0), |sum, (_, tokens)| (sum.0 + tokens.0, sum.1 + tokens.1))
    }
}

fn thread(number: usize) -> String {
    format!("019b0000-0000-7000-8000-{number:012}")
}

fn at(day: usize, second: usize) -> String {
    format!("2026-08-{:02}T10:{:02}:{:02}.000Z", day + 1, second / 60, second % 60)
}

/// A thread of Codex: a new one, or a fork of one, of which it repeats a part with new times.
fn codex(number: usize, from: Option<&Log>, random: &mut Random) -> Log {
    let id = thread(number);
    let begins = at(number, 0);
    let line =
        |time: &str, kind: &str, payload: Value| json!({"timestamp": time, "type": kind, "payload": payload});
    let mut meta = json!({"id": id, "timestamp": begins, "cwd": "/w/mill"});
    let (mut lines, mut calls, mut sum) = (Vec::new(), Vec::new(), (0, 0));
    if let Some(from) = from {
        meta["forked_from_id"] = from.id.clone().into();
        // It ends behind one of the calls, or before the first one.
        let kept = random.below(from.calls.len() as u64 + 1) as usize;
        calls.extend(from.calls[..kept].iter().cloned());
        let mut left = kept;
        for copied in &from.lines {
            if left == 0 && kept > 0 {
                break;
            }
            let is_report = copied["payload"]["type"] == "token_count";
            if left == 0 && (is_report || copied["type"] == "response_item") {
                break;
            }
            if is_report {
                left -= 1;
                let total = &copied["payload"]["info"]["total_token_usage"];
                sum = (total["input_tokens"].as_i64().unwrap(), total["output_tokens"].as_i64().unwrap());
            }
            lines.push(line(&begins, copied["type"].as_str().unwrap(), copied["payload"].clone()));
        }
    }
    lines.insert(0, line(&begins, "session_meta", meta));
    lines.push(line(&begins, "turn_context", json!({"model": "gpt-5"})));
    for call in 0..random.below(4) as usize {
        let time = at(number, call + 1);
        // Forks often get the same prompt, and answers of the same length.
        let tokens = (100 + random.below(2) as i64, 10 + random.below(2) as i64);
        sum = (sum.0 + tokens.0, sum.1 + tokens.1);
        let usage = |tokens: Tokens| json!({"input_tokens": tokens.0, "output_tokens": tokens.1, "cached_input_tokens": 0});
        let said = format!("answer {number} {call}");
        let item = if random.below(2) == 0 {
            json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": said}]})
        } else {
            json!({"type": "function_call", "name": "shell", "call_id": said, "arguments": "{}"})
        };
        lines.push(line(&time, "response_item", item));
        let report = json!({"type": "token_count",
            "info": {"total_token_usage": usage(sum), "last_token_usage": usage(tokens)}});
        lines.push(line(&time, "event_msg", report.clone()));
        if random.below(3) == 0 {
            // A report may be written twice.
            lines.push(line(&time, "event_msg", report));
        }
        calls.push((id.clone(), tokens));
    }
    Log { name: format!("rollout-2026-08-{:02}T10-00-00-{id}.jsonl", number + 1), id, lines, calls }
}

/// A session of Claude Code: a new one, or one that repeats a part of another with its ids and times. `says_so` is whether the
/// copies name their original.
fn claude(number: usize, from: Option<&Log>, says_so: bool, random: &mut Random) -> Log {
    let id = format!("00000000-0000-4000-8000-{number:012}");
    let (mut lines, mut calls) = (Vec::<Value>::new(), Vec::new());
    if let Some(from) = from {
        let kept = random.below(from.lines.len() as u64 + 1) as usize;
        for copied in &from.lines[..kept] {
            let mut copied = copied.clone();
            copied["sessionId"] = id.clone().into();
            if says_so {
                copied["forkedFrom"] = json!({"sessionId": from.id, "messageUuid": copied["uuid"]});
            }
            lines.push(copied);
        }
        // A reply of which only the first lines are here has the figures that these lines say; the original has all.
        let seen: BTreeMap<String, Tokens> = figures(&lines);
        let kept: Vec<_> = figures(&from.lines).into_keys().collect();
        calls.extend(
            from.calls
                .iter()
                .zip(kept)
                .filter(|(_, key)| seen.contains_key(key))
                .map(|(call, _)| call.clone()),
        );
    }
    for call in 0..1 + random.below(3) as usize {
        let prompt = 100 + random.below(50) as i64;
        let total = 10 + random.below(50) as i64;
        let count = 1 + random.below(3);
        for part in 1..=count {
            // The figures of a reply grow from line to line.
            let received = if part == count { total } else { part as i64 };
            let uuid = format!("u-{number}-{call}-{part}");
            let parent = lines.last().map(|line| line["uuid"].clone());
            lines.push(json!({"parentUuid": parent, "isSidechain": false, "sessionId": id, "type": "assistant", "uuid": uuid,
                "timestamp": at(number, 4 * call + part as usize), "requestId": format!("req-{number}-{call}"),
                "message": {"role": "assistant", "id": format!("msg-{number}-{call}"), "model": "claude-haiku-4-5",
                    "content": [{"type": "text", "text": format!("part {part}")}],
                    "usage": {"input_tokens": prompt, "output_tokens": received}}}));
        }
        calls.push((id.clone(), (prompt, total)));
        if random.below(3) == 0 {
            // A compaction writes earlier lines again.
            let again = random.below(lines.len() as u64) as usize;
            let again: Vec<Value> = lines[again..].to_vec();
            lines.extend(again);
        }
    }
    Log { name: format!("{id}.jsonl"), id, lines, calls }
}

/// The replies in lines, in their order, with their highest figures.
fn figures(lines: &[Value]) -> BTreeMap<String, Tokens> {
    let mut seen: BTreeMap<String, Tokens> = BTreeMap::new();
    for line in lines {
        let message = &line["message"];
        let count = |member: &str| message["usage"][member].as_i64().unwrap();
        let highest = seen.entry(message["id"].as_str().unwrap().to_owned()).or_default();
        *highest = (count("input_tokens").max(highest.0), count("output_tokens").max(highest.1));
    }
    seen
}

fn import(scratch: &Scratch, store: &Store, logs: &[&Log]) {
    for log in logs {
        let text: String = log.lines.iter().map(|line| format!("{line}\n")).collect();
        let path = scratch.path(&log.name);
        fs::write(&path, text).unwrap();
        let reports = Importer::new(store, ImportOptions::default()).import(&path, &mut |_| ()).unwrap();
        assert_eq!(reports[0].id, Some(conversation(&log.id)), "{reports:?}");
    }
    store.catch_up().unwrap();
}

/// Tokens by conversation, as `usage` sums them.
fn counted(scratch: &Scratch) -> BTreeMap<String, Tokens> {
    let sql = "SELECT conversation_id, sum(prompt_tokens), sum(completion_tokens) FROM usage GROUP BY 1";
    let all = rows(&scratch.foreign(), sql);
    all.into_iter()
        .map(|row| match &row[..] {
            [
                rusqlite::types::Value::Text(id),
                rusqlite::types::Value::Integer(sent),
                rusqlite::types::Value::Integer(got),
            ] => (id.clone(), (*sent, *got)),
            other => panic!("{other:?}"),
        })
        .collect()
}

fn own(logs: &[Log]) -> BTreeMap<String, Tokens> {
    logs.iter().map(|log| (log.id.clone(), log.own())).filter(|(_, tokens)| *tokens != (0, 0)).collect()
}

fn shuffled<'a>(logs: &'a [Log], random: &mut Random) -> Vec<&'a Log> {
    let mut order: Vec<&Log> = logs.iter().collect();
    for place in (1..order.len()).rev() {
        order.swap(place, random.below(place as u64 + 1) as usize);
    }
    order
}

#[test]
fn any_forks_of_forks_count_each_call_once_in_any_order_of_imports() {
    for seed in 1..=18 {
        let mut random = Random::new(seed);
        let mut logs: Vec<Log> = Vec::new();
        for number in 0..6 {
            let from = match logs.len() {
                0 => None,
                count => logs.get(random.below(count as u64 + 1) as usize),
            };
            let log = match seed % 3 {
                0 => claude(number, from, true, &mut random),
                1 => claude(number, from, false, &mut random),
                _ => codex(number, from, &mut random),
            };
            logs.push(log);
        }
        let mut seen = Vec::new();
        for _ in 0..3 {
            let scratch = Scratch::new();
            let store = scratch.open_without_projector();
            import(&scratch, &store, &shuffled(&logs, &mut random));
            if seed % 3 == 1 {
                // Copies that do not say so have the times of their original. Then the smallest id owns the calls.
                let sum = |all: BTreeMap<String, Tokens>| {
                    all.into_values().fold((0, 0), |sum, tokens| (sum.0 + tokens.0, sum.1 + tokens.1))
                };
                assert_eq!(sum(counted(&scratch)), sum(own(&logs)), "seed {seed}");
            } else {
                assert_eq!(counted(&scratch), own(&logs), "seed {seed}");
            }
            let copies = "SELECT conversation_id, sequence, model, prompt_tokens, completion_tokens, owner_id \
                 FROM usage_copies ORDER BY 1, 2, 4, 5";
            seen.push(rows(&scratch.foreign(), copies));
            assert_sound(&store);
        }
        assert!(seen.windows(2).all(|two| two[0] == two[1]), "seed {seed}: {seen:?}");
    }
}

#[test]
fn a_copy_owns_its_calls_once_the_original_is_gone() {
    let any = |make: &dyn Fn(&mut Random) -> Log, is_right: &dyn Fn(&Log) -> bool| {
        (1..).map(|seed| make(&mut Random::new(seed))).find(is_right).unwrap()
    };
    let first = any(&|random| codex(0, None, random), &|log| log.calls.len() == 3);
    let has_copies = |log: &Log, count| log.calls.iter().filter(|(of, _)| *of == first.id).count() == count;
    let logs = [(1, 1), (2, 2)].map(|(number, count)| {
        any(&|random| codex(number, Some(&first), random), &|log| has_copies(log, count))
    });
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    import(&scratch, &store, &[&first, &logs[0], &logs[1]]);
    let all: i64 = counted(&scratch).values().map(|tokens| tokens.0).sum();
    store.retention().delete(&conversation(&first.id)).unwrap();
    store.catch_up().unwrap();
    // What the forks have of it is counted once still. The last call is in no fork.
    let lost = first.calls[2].1.0;
    assert_eq!(counted(&scratch).values().map(|tokens| tokens.0).sum::<i64>(), all - lost);
    assert_sound(&store);
}

#[test]
fn a_fork_that_goes_on_from_a_sum_counts_its_own_calls_alone() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let usage =
        |sent: i64, got: i64| json!({"input_tokens": sent, "output_tokens": got, "cached_input_tokens": 0});
    let line = |kind: &str, payload: Value| json!({"timestamp": at(1, 1), "type": kind, "payload": payload});
    let log = Log {
        name: format!("rollout-2026-08-02T10-00-00-{}.jsonl", thread(1)),
        id: thread(1),
        calls: Vec::new(),
        lines: vec![
            line("session_meta", json!({"id": thread(1), "forked_from_id": thread(0), "cwd": "/w/mill"})),
            line("turn_context", json!({"model": "gpt-5"})),
            line(
                "response_item",
                json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "yes"}]}),
            ),
            line(
                "event_msg",
                json!({"type": "token_count",
                    "info": {"total_token_usage": usage(5000, 300), "last_token_usage": usage(2000, 100)}}),
            ),
        ],
    };
    import(&scratch, &store, &[&log]);
    assert_eq!(counted(&scratch), BTreeMap::from([(thread(1), (2000, 100))]));
}

#[test]
fn a_line_that_is_written_again_is_kept_and_is_no_second_message() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let mut log = claude(0, None, false, &mut Random::new(3));
    log.lines.extend(log.lines.clone());
    import(&scratch, &store, &[&log]);
    assert_eq!(counted(&scratch), BTreeMap::from([(log.id.clone(), log.own())]));
    let events = all_events(&store, &conversation(&log.id));
    assert_eq!(events.len(), log.lines.len());
    let messages = events.iter().filter(|event| event.kind == "MessageEvent").count();
    let repeated = events.iter().filter(|event| event.kind == "claude-code:repeated.assistant").count();
    let different = figures(&log.lines).len();
    assert!(
        messages >= different && messages + repeated == events.len() && repeated >= messages,
        "{messages} {repeated}"
    );
    // With another parent, the model sees the message once more. Its tokens do not count again.
    let mut moved = log.lines[0].clone();
    moved["parentUuid"] = log.lines[log.lines.len() - 1]["uuid"].clone();
    log.lines.push(moved);
    import(&scratch, &store, &[&log]);
    let after = all_events(&store, &conversation(&log.id));
    assert_eq!(after.iter().filter(|event| event.kind == "MessageEvent").count(), messages + 1);
    assert_eq!(counted(&scratch), BTreeMap::from([(log.id.clone(), log.own())]));
    assert_sound(&store);
}

#[test]
fn a_conversation_has_its_own_figures_and_those_with_its_sub_agents() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let session = claude(0, None, false, &mut Random::new(3));
    // A sub-agent's file names the session that started it, and has the beginning of its history.
    let mut agent = claude(1, Some(&session), false, &mut Random::new(4));
    for line in &mut agent.lines {
        line["sessionId"] = session.id.clone().into();
        line["isSidechain"] = true.into();
    }
    agent.name = "agent-1.jsonl".into();
    let own = agent.own();
    agent.id = "agent-1".into();
    assert!(agent.calls.iter().any(|(of, _)| *of == session.id), "the seeds make a copy");
    import(&scratch, &store, &[&agent, &session]);
    // It came before its session, so it gets its place when it is seen again.
    import(&scratch, &store, &[&agent]);
    let id = conversation(&session.id);
    let sum = |usage: &[UsageTotal]| {
        usage.iter().fold((0, 0), |sum, total| (sum.0 + total.prompt_tokens, sum.1 + total.completion_tokens))
    };
    assert_eq!(sum(&store.usage(Some(&id)).unwrap()), session.own());
    assert_eq!(sum(&store.usage(Some(&conversation("agent-1"))).unwrap()), own);
    let family = store.usage_with_sub_agents(&id).unwrap().unwrap();
    let both = (session.own().0 + own.0, session.own().1 + own.1);
    assert_eq!((family.sub_agents, sum(&family.usage)), (1, both));
    assert_eq!(store.usage_with_sub_agents(&conversation("agent-1")).unwrap(), None);
    assert_eq!(sum(&store.usage(None).unwrap()), both);

    let ask = |name: &str, given: &[(&str, &str)]| -> Vec<Vec<String>> {
        let given: Vec<_> =
            given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let report = audit::find(name).unwrap();
        let rows = audit::run(&store, report, &given, SqlLimits::default()).unwrap().rows;
        rows.iter().map(|row| row.iter().map(shown).collect()).collect()
    };
    let by_conversation = ask("cost-by-conversation", &[]);
    let of = |id: &str| by_conversation.iter().find(|row| row[0] == id).unwrap();
    let estimates = [of(&session.id), of("agent-1")].map(|row| row[7].parse::<f64>().unwrap());
    assert!((of(&session.id)[10].parse::<f64>().unwrap() - estimates[0] - estimates[1]).abs() < 1e-9);
    assert_eq!(of("agent-1")[10], "");
    let calls = ask("cost-calls", &[("conversation", "agent-1")]);
    let copies: Vec<_> = calls.iter().filter(|row| row[12] == "copy").collect();
    assert!(!copies.is_empty() && copies.iter().all(|row| row[13] == session.id), "{calls:?}");
    let counted = calls.iter().filter(|row| row[12] == "table");
    assert_eq!(counted.map(|row| row[6].parse::<i64>().unwrap()).sum::<i64>(), own.0);
}

fn shown(value: &SqlValue) -> String {
    match value {
        SqlValue::Text(text) => text.clone(),
        SqlValue::Integer(number) => number.to_string(),
        SqlValue::Real(number) => number.to_string(),
        _ => String::new(),
    }
}
