//! How events are drawn: every kind, whole conversations, and hostile texts.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use annals::event::json::Raw;
use annals::event::{Action, Event, Given, Observation, Source, upcast};
use annals::state::{Ledger, Spent, Stats};
use annals::visualizer::{Drawing, Line, Options, draw};
use proptest::prelude::*;
use serde_json::{Value, json};

const WIDTH: usize = 100;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn read(path: PathBuf) -> String {
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn event(payload: &str) -> Event {
    upcast::read(payload, &Given::default()).unwrap().event
}

fn options() -> Options {
    Options::default().width(WIDTH).lines_max(12)
}

fn plain(rows: &[Line]) -> String {
    rows.iter().map(|row| format!("{}\n", row.plain().trim_end())).collect()
}

fn drawing(event: &Event) -> Drawing {
    draw(event, &Spent::default(), &options()).unwrap()
}

/// Asserts that a text equals the golden file. With `UPDATE_GOLDEN`, writes the file instead.
fn assert_golden(name: &str, text: &str) {
    let path = golden(&format!("drawings/{name}.txt"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, text).unwrap();
        return;
    }
    assert_same_lines(name, &read(path), text);
}

/// Fails at the first line that differs.
fn assert_same_lines(name: &str, expected: &str, actual: &str) {
    for (place, (expected, actual)) in expected.lines().zip(actual.lines()).enumerate() {
        assert_eq!(actual, expected, "{name}.txt, line {}", place + 1);
    }
    assert_eq!(actual.lines().count(), expected.lines().count(), "lines of {name}.txt");
}

/// Returns events of every kind: those of SDK 1.58 as it loads them, and four that it does not know.
fn kinds() -> Vec<Event> {
    read(golden("drawings/kinds.jsonl")).lines().map(event).collect()
}

/// Returns the drawing of a whole conversation.
fn conversation(name: &str) -> String {
    let folder = golden("conversations").join(name);
    let base_state = read(folder.join("base_state.json"));
    let base_state = Raw::parse(&base_state).unwrap();
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder.join("events")).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    let mut ledger = Ledger::knowing(base_state.get("stats").map(Stats::read).unwrap_or_default());
    let mut text = String::new();
    for (sequence, path) in paths.into_iter().enumerate() {
        let event = event(&read(path));
        let spent = ledger.apply(&event);
        let drawing = draw(&event, &spent, &options()).unwrap();
        text.push_str(&plain(&drawing.rows(Some(WIDTH), &format!("#{sequence}"))));
    }
    text
}

#[test]
fn every_kind_draws_something() {
    let events = kinds();
    let mut missing: HashSet<&str> =
        [Event::KINDS, Action::KINDS, Observation::KINDS].into_iter().flatten().copied().collect();
    for event in &events {
        missing.remove(event.kind());
        let drawing = drawing(event);
        assert!(!drawing.title.is_empty(), "{event:?}");
        match event {
            Event::Action(action) => {
                assert!(!drawing.lines.is_empty(), "{action:?}");
                missing.remove(action.action.as_ref().map_or("", Action::kind));
            }
            Event::Observation(result) => {
                let is_drawn_with_the_action =
                    matches!(result.observation, Observation::Think(_) | Observation::Finish(_));
                assert_eq!(drawing.lines.is_empty(), is_drawn_with_the_action, "{result:?}");
                missing.remove(result.observation.kind());
            }
            Event::Unknown(unknown) => assert!(!drawing.lines.is_empty(), "{unknown:?}"),
            _ => {}
        }
    }
    assert_eq!(missing, HashSet::new());
}

#[test]
fn every_kind_is_drawn_as_in_the_golden_file() {
    let text: String = kinds().iter().map(|event| plain(&drawing(event).rows(Some(WIDTH), ""))).collect();
    assert_golden("kinds", &text);
}

#[test]
fn conversations_are_drawn_as_in_the_golden_files() {
    for name in ["coding-task", "hooks", "errors-and-stuck", "agent-server-session", "condense-rolling"] {
        assert_golden(name, &conversation(name));
    }
}

#[test]
fn a_drawing_can_be_narrow_long_or_without_user_messages() {
    for event in kinds() {
        for (width, lines_max) in [(Some(20), 3), (Some(1), 0), (None, 0)] {
            let options = Options::default().width(width).lines_max(lines_max).skip_user_messages(true);
            let drawn = draw(&event, &Spent::default(), &options);
            let is_user_message =
                matches!(&event, Event::Message(message) if message.common.source == Source::User);
            assert_eq!(drawn.is_none(), is_user_message);
            for row in drawn.iter().flat_map(|drawing| &drawing.lines) {
                assert!(width.is_none_or(|width| row.width() <= width.saturating_sub(2).max(1)), "{row:?}");
            }
        }
    }
}

#[test]
fn long_texts_are_shortened_in_their_middle() {
    let drawn_lines = |text: &str| {
        let payload = json!({"id": "a", "kind": "MessageEvent", "source": "agent",
            "llm_message": {"role": "assistant", "content": [{"type": "text", "text": text}]}});
        let options = Options::default().width(40).lines_max(3);
        let drawing = draw(&event(&payload.to_string()), &Spent::default(), &options).unwrap();
        drawing.lines.iter().map(Line::plain).collect::<Vec<_>>()
    };
    assert_eq!(drawn_lines("1\n2\n3\n4\n"), ["1", "2", "3", "4"]);
    assert_eq!(drawn_lines("1\n2\n3\n4\n5"), ["1", "2", "… 2 more lines", "5"]);
    let long = drawn_lines(&"x".repeat(1000));
    assert_eq!(long.len(), 4);
    assert_eq!(long[3].trim_start_matches('x'), "… 873 more characters");
}

/// Generates texts that may contain anything that controls a terminal or deceives a reader.
fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => any::<char>().prop_map(String::from),
        2 => "[ -~]{0,12}",
        2 => prop::sample::select(vec![
            "\u{1b}", "\u{1b}[", "\u{1b}[31m", "\u{1b}[2J", "\u{1b}]0;", "\u{1b}]8;;http://x\u{7}", "\u{1b}\\", "\u{9b}",
            "\u{9d}", "\u{9c}", "\u{1b}P", "\u{7}", "\u{8}", "\r", "\r\n", "\n", "\t", "\u{b}", "\u{c}", "\u{0}", "\u{7f}",
            "\u{85}", "\u{202e}", "\u{2066}", "\u{200f}", "\u{2028}", "\u{feff}", "\u{e0041}", "── Agent Action ──",
        ]).prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

/// Inserts a text into every string of an event, except the strings that determine its structure.
fn infect(value: &mut Value, text: &str) {
    const STRUCTURE: [&str; 11] = [
        "id",
        "timestamp",
        "source",
        "kind",
        "type",
        "role",
        "origin",
        "security_risk",
        "status",
        "command",
        "isolation",
    ];
    match value {
        Value::String(old) => *old = format!("{text}{old}{text}"),
        Value::Array(elements) => elements.iter_mut().for_each(|element| infect(element, text)),
        Value::Object(members) => {
            let is_terminal = members.get("kind").and_then(Value::as_str) == Some("TerminalAction");
            for (key, member) in members.iter_mut() {
                if !STRUCTURE.contains(&&**key) || (key == "command" && is_terminal) {
                    infect(member, text);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn hostile_text_never_draws_a_control_character(text in hostile(), width in prop::option::of(1..120_usize)) {
        const INVISIBLE: [char; 6] = ['\u{202e}', '\u{2066}', '\u{200f}', '\u{2028}', '\u{feff}', '\u{e0041}'];
        let payloads = read(golden("drawings/kinds.jsonl"));
        for payload in payloads.lines() {
            let mut value: Value = serde_json::from_str(payload).unwrap();
            infect(&mut value, &text);
            let event = event(&value.to_string());
            let options = Options::default().width(width).lines_max(5);
            let drawing = draw(&event, &Spent::default(), &options).unwrap();
            let rows = drawing.rows(width, &text);
            for (place, row) in rows.iter().enumerate() {
                let plain = row.plain();
                let bad = plain.chars().find(|found| found.is_control() || INVISIBLE.contains(found));
                prop_assert_eq!(bad, None, "{}", plain);
                // No text can look like a title.
                prop_assert!(place == 0 || plain.starts_with("  ") || plain.trim().is_empty(), "{}", plain);
            }
        }
    }
}
