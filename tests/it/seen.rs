//! Who saw a content: events that have it in any form, and the replies after them.
#![cfg(feature = "cli")]

use annals::audit::{Likeness, SeenReport, Wanted, seen, seen_in};
use annals::chain::Digest;
use annals::store::ConversationFilter;
use annals::{EventId, Expected, Leaf, NewEvent, Store};
use base64::Engine as _;
use serde_json::{Value, json};

use crate::cli::Program;
use crate::support::events::{event, user_message};
use crate::support::{Scratch, conversation, without_projector};

const FILE: &str = "alpha = 1\nbeta = \"zwölf\"\ngamma = 3\n";

/// The agent runs a command; the call belongs to the model's reply `reply`.
fn step(id: &str, reply: &str) -> NewEvent {
    let call =
        json!({"id": id, "name": "terminal", "arguments": "{\"command\":\"ls\"}", "origin": "completion"});
    event(
        id,
        "ActionEvent",
        json!({"source": "agent", "thought": [], "tool_name": "terminal", "tool_call_id": id, "llm_response_id": reply,
               "tool_call": call, "action": {"kind": "TerminalAction", "command": "ls"}}),
    )
}

/// The terminal answers.
fn printed(id: &str, call: &str, text: &str) -> NewEvent {
    let observation =
        json!({"kind": "TerminalObservation", "command": "ls", "content": [{"type": "text", "text": text}]});
    event(
        id,
        "ObservationEvent",
        json!({"source": "environment", "tool_name": "terminal", "tool_call_id": call, "action_id": call,
               "observation": observation}),
    )
}

fn after(parent: &str, event: &NewEvent) -> NewEvent {
    let mut value: Value = serde_json::from_str(event.payload()).unwrap();
    value["parent_id"] = parent.into();
    NewEvent::parse(value.to_string()).unwrap()
}

fn find(store: &Store, wanted: &Wanted) -> SeenReport {
    seen(store, wanted, &ConversationFilter::default(), &mut |_| ()).unwrap()
}

/// The sequences of the sightings in the only conversation that has the content, with how they have it.
fn places(report: &SeenReport) -> Vec<(u64, Likeness, u64, bool)> {
    let [by] = &*report.conversations else { panic!("{report:?}") };
    by.sightings.iter().map(|it| (it.sequence.0, it.likeness, it.replies, it.is_in_view)).collect()
}

#[test]
fn a_file_is_found_in_every_form_that_a_model_was_sent() {
    let store = Store::in_memory(&without_projector()).unwrap();
    let numbered: String =
        FILE.lines().enumerate().map(|(at, line)| format!("{:6}\t{line}\n", at + 1)).collect();
    let encoded = base64::engine::general_purpose::STANDARD.encode(FILE);
    let picture = json!({"source": "user", "llm_message": {"role": "user", "content": [
        {"type": "image", "image_urls": [format!("data:text/plain;base64,{encoded}")]}]}});
    let events = [
        user_message("m0", &format!("Look at this:\n{FILE}Thanks")),
        step("a1", "r1"),
        printed("o1", "a1", FILE),
        step("a2", "r2"),
        printed("o2", "a2", &numbered),
        step("a3", "r3"),
        step("a4", "r3"),
        printed("o3", "a3", "alpha = 1\n"),
        printed("o4", "a4", "alpha = 1\n"),
        event("m1", "MessageEvent", picture),
    ];
    store.append(&conversation("talk"), Expected::Any, &events).unwrap();
    store.append(&conversation("other"), Expected::Any, &[user_message("m0", "alpha = 2")]).unwrap();
    let report = find(&store, &Wanted::content(FILE.as_bytes()).unwrap());
    assert_eq!((report.searched, report.events, report.left_off), (2, 11, 0));
    assert_eq!(
        places(&report),
        [(0, Likeness::Part, 3, true), (2, Likeness::Same, 2, true), (4, Likeness::Numbered, 1, true)]
    );
    // By the digest alone, the message is no sighting, because it says more than the file.
    let report = find(&store, &Wanted::digest(Digest::of(FILE.as_bytes())));
    assert_eq!(
        places(&report),
        [(2, Likeness::Same, 2, true), (4, Likeness::Same, 1, true), (9, Likeness::Same, 0, true)]
    );
    // A part of a word, as no index has it.
    assert_eq!(places(&find(&store, &Wanted::text("wölf").unwrap())).len(), 3);
    assert_eq!(find(&store, &Wanted::text("zwoelf").unwrap()).conversations, []);
    let talk = seen_in(&store, &Wanted::text("alpha").unwrap(), &conversation("other"), &mut |_| ()).unwrap();
    assert_eq!(places(&talk), [(0, Likeness::Part, 0, true)]);
}

#[test]
fn replies_count_until_the_event_is_condensed_away_on_their_branch() {
    let store = Store::in_memory(&without_projector()).unwrap();
    let chain = |events: &[NewEvent]| -> Vec<NewEvent> {
        let mut parent: Option<String> = None;
        let mut out = Vec::new();
        for event in events {
            out.push(parent.as_deref().map_or_else(|| event.clone(), |parent| after(parent, event)));
            parent = Some(event.id().to_string());
        }
        out
    };
    let condensed = event(
        "c1",
        "Condensation",
        json!({"source": "environment", "forgotten_event_ids": ["m0"], "llm_response_id": "c"}),
    );
    let mut events = chain(&[
        user_message("m0", "the secret plan"),
        step("a1", "r1"),
        printed("o1", "a1", ""),
        condensed,
        step("a2", "r2"),
        printed("o2", "a2", ""),
    ]);
    // Another branch, on which the message was not condensed away.
    events.push(after("o1", &step("b1", "r3")));
    events.push(after("b1", &printed("p1", "b1", "")));
    store.append(&conversation("talk"), Expected::Any, &events).unwrap();
    let wanted = Wanted::text("secret plan").unwrap();
    assert_eq!(places(&find(&store, &wanted)), [(0, Likeness::Part, 2, true)]);
    store.set_leaf(&conversation("talk"), Leaf::At(EventId::new("o2").unwrap())).unwrap();
    assert_eq!(places(&find(&store, &wanted)), [(0, Likeness::Part, 2, false)]);
}

#[test]
fn a_text_for_programs_is_sent_to_no_model() {
    let store = Store::in_memory(&without_projector()).unwrap();
    let edited = |id: &str, content: &str| {
        let observation = json!({"kind": "FileEditorObservation", "command": "str_replace", "path": "/a", "prev_exist": true,
                                 "content": [{"type": "text", "text": content}], "old_content": "the plan", "new_content": ""});
        event(
            id,
            "ObservationEvent",
            json!({"source": "environment", "tool_name": "file_editor", "tool_call_id": id, "action_id": id,
                   "observation": observation}),
        )
    };
    let events = [edited("o1", "done"), edited("o2", "it was: the plan"), step("a1", "r1")];
    store.append(&conversation("talk"), Expected::Any, &events).unwrap();
    let report = find(&store, &Wanted::text("the plan").unwrap());
    let found: Vec<_> =
        report.conversations[0].sightings.iter().map(|it| (&*it.place, it.is_sent, it.replies)).collect();
    assert_eq!(found, [("observation.old_content", false, 0), ("observation.content[0].text", true, 1)]);
}

#[test]
fn attachments_are_found_by_their_digest() {
    let store = Store::in_memory(&without_projector()).unwrap();
    let talk = conversation("talk");
    store.append(&talk, Expected::Any, &[user_message("m0", "hi")]).unwrap();
    store.attach(&talk, "files/plan.bin", b"\xff\xfe plan").unwrap();
    let report = find(&store, &Wanted::content(b"\xff\xfe plan").unwrap());
    assert_eq!(report.conversations[0].attachments, ["files/plan.bin"]);
    assert_eq!(find(&store, &Wanted::content(b"\xff\xfe plans").unwrap()).conversations, []);
}

#[test]
fn the_command_says_who_was_sent_it() {
    let program = Program::with_goldens();
    let file = program.folder.path().join("spec.txt");
    std::fs::write(&file, "no model ever saw this").unwrap();
    let none = program.succeed(&["seen", "spec.txt"]);
    assert!(none.contains("searched: nothing has it"), "{none}");
    let value = program.json(&["seen", "--text", "the"]);
    let first = &value["conversations"][0];
    assert!(first["events"][0]["replies_after"].is_u64() && first["workspace"].is_string(), "{first}");
    let text = program.succeed(&["seen", "--text", "the"]);
    assert!(text.contains(" after it; "), "{text}");
    let one = first["conversation"].as_str().unwrap();
    let within = program.json(&["seen", "--text", "the", "--in", one]);
    assert_eq!(within["conversations"].as_array().unwrap().len(), 1);
    assert_eq!(within["conversations"][0]["events"], first["events"]);
    let hint = program.run(&["seen", "--text", "the", "--model", "no-such-model"]);
    assert!(String::from_utf8_lossy(&hint.stderr).contains("no conversation has the model"), "{hint:?}");
}

#[test]
fn what_cannot_be_looked_for_is_refused() {
    let program = Program::with_goldens();
    let scratch = Scratch::new();
    std::fs::write(scratch.path("blank"), " \n").unwrap();
    for (arguments, code, says) in [
        (vec!["seen"], 1, "required"),
        (vec!["seen", "--text", " "], 1, "white space"),
        (vec!["seen", scratch.path("blank").to_str().unwrap()], 2, "white space"),
        (vec!["seen", scratch.path("none").to_str().unwrap()], 1, "none"),
        (vec!["seen", "/dev/zero"], 2, "regular file"),
        (vec!["seen", "--sha256", "12"], 1, "64 hex digits"),
        (vec!["seen", "x", "--text", "y"], 1, "cannot be used with"),
    ] {
        let (exit, errors) = program.fails(&arguments);
        assert!(errors.contains(says), "{arguments:?}: {exit} {errors}");
        assert_eq!(exit, code, "{arguments:?}: {errors}");
    }
}
