//! Stuck detection: the verdict of the real SDK's detector after every event of a log (`tests/golden/stuck`), and the
//! table of examples in `docs/reference/stuck.md#examples`.

use annals::event::{Event, Unfamiliar, decode};
use annals::stuck::{Detector, Pattern, Thresholds, Verdict, pattern};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::log::{Log, steps};
use crate::support::golden;

fn thresholds(case: &Value) -> Thresholds {
    let default = Thresholds::default();
    let number =
        |name: &str, default| case["thresholds"][name].as_u64().map_or(default, |number| number as usize);
    Thresholds::default()
        .action_observation(number("action_observation", default.action_observation))
        .action_error(number("action_error", default.action_error))
        .monologue(number("monologue", default.monologue))
        .alternating_pattern(number("alternating_pattern", default.alternating_pattern))
}

#[test]
fn every_golden_verdict_is_the_same() {
    let mut seen = [0; 4];
    for (name, case) in golden::cases("stuck") {
        let events = golden::events(&case);
        let thresholds = thresholds(&case);
        let mut detector = Detector::new(thresholds);
        for length in 1..=events.len() {
            let branch = &events[..length];
            let found = pattern(branch.iter(), thresholds);
            assert_eq!(case["stuck"][length - 1], json!(found.map(Pattern::as_str)), "{name} after {length}");
            let nudge = detector.nudge(branch.iter());
            assert_eq!(case["nudges"][length - 1], json!(nudge), "{name} after {length}");
            found.into_iter().for_each(|pattern| seen[pattern as usize] += 1);
        }
    }
    assert!(seen.iter().all(|count| *count >= 4), "{seen:?}");
}

/// A log, written in letters. `U`, `M`, `N` are messages of the user, the agent and the environment. `a`, `b`, `c` are
/// calls that always have the same result. `t` is a call with a new thought each time, `f` is `finish`. `x` is a call
/// with a new error each time. `y` and `z` are calls of two more tools that always have the same error.
fn log(letters: &str) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    for (number, letter) in letters.chars().enumerate() {
        let mut add = |body: String| {
            let text = format!(r#"{{"id":"e{}","timestamp":"t",{body}}}"#, events.len());
            events.push(decode(&text, Unfamiliar::Refuse).unwrap());
        };
        let message = |source: &str, role: &str, text: &str| {
            format!(
                r#""source":"{source}","llm_message":{{"role":"{role}","content":[{{"type":"text","text":"{text}"}}]}},"kind":"MessageEvent""#
            )
        };
        let call = |tool: &str, thought: &str, action: &str| {
            format!(
                r#""source":"agent","thought":[{{"type":"text","text":"{thought}"}}],"action":{action},"tool_name":"{tool}",
                   "tool_call_id":"c{number}","tool_call":{{"id":"c{number}","name":"{tool}","arguments":"{{\"n\":{number}}}",
                   "origin":"completion"}},"llm_response_id":"r{number}","summary":"s{number}","kind":"ActionEvent""#
            )
        };
        let result = |tool: &str, text: &str| {
            format!(
                r#""source":"environment","tool_name":"{tool}","tool_call_id":"c{number}","action_id":"a{number}",
                   "observation":{{"content":[{{"type":"text","text":"{text}"}}],"kind":"ThinkObservation"}},"kind":"ObservationEvent""#
            )
        };
        let error = |tool: &str| {
            let error = if tool == "x" { format!("bad {number}") } else { "bad".to_owned() };
            format!(
                r#""source":"agent","tool_name":"{tool}","tool_call_id":"c{number}","error":"{error}","kind":"AgentErrorEvent""#
            )
        };
        let think = |letter| format!(r#"{{"thought":"{letter}","kind":"ThinkAction"}}"#);
        match letter {
            'U' => add(message("user", "user", "go")),
            'M' => add(message("agent", "assistant", "")),
            'N' => add(message("environment", "user", "hint")),
            'a' | 'b' | 'c' => {
                add(call("think", "", &think(letter)));
                add(result("think", &letter.to_string()));
            }
            't' => {
                add(call("think", &format!("thought {number}"), &think('t')));
                add(result("think", "same"));
            }
            'f' => {
                add(call("finish", "", r#"{"message":"m","kind":"FinishAction"}"#));
                add(result("finish", "m"));
            }
            tool => {
                add(call(&tool.to_string(), "", "null"));
                add(error(&tool.to_string()));
            }
        }
    }
    events
}

#[test]
fn the_table_of_examples_holds() {
    use Pattern::{ActionError, ActionObservation, Alternating, Monologue};
    for (letters, found) in [
        ("Uaaaa", Some(ActionObservation)),
        ("Uaaaf", None),
        ("Utttttt", None),
        ("Uxxx", None),
        ("Uxxxx", Some(ActionError)),
        ("UxxxNx", Some(ActionError)),
        ("UxxxNaxxxNb", None),
        ("UxxxNMNx", Some(ActionError)),
        ("Uabababababab", Some(Alternating)),
        ("Uababab", Some(Alternating)),
        ("Uababa", None),
        ("Uyzyzyz", Some(Alternating)),
        ("Uyyyy", Some(ActionObservation)),
        ("Uabcabcabcabc", None),
        ("UMNMNMN", Some(Monologue)),
        ("UMNMN", None),
        ("UaaaaU", None),
        ("UaaaaUaaaa", Some(ActionObservation)),
        ("UMMUM", None),
        ("", None),
    ] {
        assert_eq!(pattern(log(letters).iter(), Thresholds::default()), found, "{letters}");
    }
}

#[test]
fn a_streak_is_nudged_once_and_a_new_one_again() {
    let mut detector = Detector::default();
    let mut verdicts = String::new();
    let letters = "UxxxMNxUxxxNaxxx";
    for length in 1..=letters.len() {
        verdicts.push(match detector.judge(log(&letters[..length]).iter()) {
            Verdict::GoOn => '.',
            Verdict::Nudge(_) => 'n',
            Verdict::Stuck(_) => 's',
        });
    }
    assert_eq!(verdicts, "...n..s...n....n");
    let text = Detector::default().nudge(log("Uxxx").iter()).unwrap();
    assert_eq!(
        text,
        "You've called `x` with the same arguments 3 times in a row and gotten the same error each time: bad 3. \
         Repeating the exact same call again will not work — review the error message and either correct the \
         arguments or try a different approach."
    );
}

proptest! {
    #[test]
    fn only_the_window_since_the_last_user_message_counts(steps in steps(60)) {
        let branch = Log::of(&steps).branch();
        let tail = &branch[branch.len().saturating_sub(annals::stuck::WINDOW)..];
        let thresholds = Thresholds::default().action_observation(2).action_error(1).monologue(2).alternating_pattern(3);
        let found = pattern(branch.iter(), thresholds);
        prop_assert_eq!(found, pattern(tail.iter(), thresholds));
        let mut with_message = branch.clone();
        with_message.extend(log("U"));
        prop_assert_eq!(pattern(with_message.iter(), thresholds), None);
    }
}
