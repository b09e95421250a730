//! Messages and their wire formats, compared with what the real SDK made (`tests/golden/messages`).

use annals::event::{Event, Given, Message, Unfamiliar, decode, upcast};
use annals::message::{ChatFlags, chat, message, messages, responses, responses_input};
use annals::tree::Tree;
use annals::view::View;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::support::golden::{self, events};

/// The flags with which the cases were made, in the same order.
const FLAGS: &[(&str, [bool; 5])] = &[
    ("default", [false, true, true, false, false]),
    ("no_vision", [false, false, true, false, false]),
    ("string", [false, false, true, true, false]),
    ("reasoning", [false, true, true, false, true]),
    ("caching", [true, true, true, false, false]),
    ("plain", [false, false, false, false, false]),
    ("string_vision", [false, true, true, true, true]),
    ("string_caching", [true, false, true, true, false]),
    ("caching_no_vision", [true, false, false, false, false]),
];

fn flags(name: &str) -> ChatFlags {
    let known = FLAGS.iter().find(|(known, _)| *known == name);
    let [caching, vision, tool_calling, strings, reasoning] = known.expect("flags of that name").1;
    ChatFlags::default()
        .caching(caching)
        .vision(vision)
        .tool_calling(tool_calling)
        .strings(strings)
        .reasoning(reasoning)
}

/// The value with long texts replaced by their length and digest, as in the cases.
fn brief(value: Value) -> Value {
    match value {
        Value::String(text) if text.chars().count() > 400 => {
            let digest: String =
                Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
            format!("<{} characters, sha256 {digest}>", text.chars().count()).into()
        }
        Value::Array(values) => values.into_iter().map(brief).collect(),
        Value::Object(members) => members.into_iter().map(|(key, value)| (key, brief(value))).collect(),
        other => other,
    }
}

fn dumped(messages: &[Message]) -> Value {
    let value = |message: &Message| -> Value { serde_json::from_str(&message.to_json()).unwrap() };
    messages.iter().map(value).collect()
}

#[test]
fn every_golden_message_is_the_same_in_every_form() {
    let (mut made, mut failed, mut requests) = (0, 0, 0);
    for (name, case) in golden::cases("messages") {
        let messages = match messages(&events(&case)) {
            Ok(messages) => messages,
            Err(error) => {
                assert!(
                    case["error"].as_str().is_some_and(|text| text.contains("thought")),
                    "{name}: {error}"
                );
                failed += 1;
                continue;
            }
        };
        assert_eq!(case["messages"], brief(dumped(&messages)), "{name}");
        for (flags_name, expected) in case["chat"].as_object().unwrap() {
            let expected = expected.as_str().map_or(expected, |same| &case["chat"][same]);
            match chat(&messages, flags(flags_name)) {
                Ok(request) => assert_eq!(*expected, brief(request.into()), "{name} {flags_name}"),
                Err(error) => assert!(expected["error"].is_string(), "{name} {flags_name}: {error}"),
            }
            requests += 1;
        }
        assert_eq!(case["responses"], brief(responses(&messages, true).into()), "{name}");
        let blind = case.get("responses_blind").unwrap_or(&case["responses"]);
        assert_eq!(*blind, brief(responses(&messages, false).into()), "{name}");
        if let Some(request) = case.get("request") {
            let ours = responses_input(&messages, true);
            let ours = json!({ "instructions": ours.instructions, "input": ours.input });
            assert_eq!(*request, brief(ours), "{name}");
        }
        made += 1;
    }
    assert!(made >= 85 && failed >= 3 && requests > 400, "{made} made, {failed} failed, {requests} requests");
}

#[test]
fn the_message_of_a_single_event_is_the_same_as_in_a_list() {
    for (name, case) in golden::cases("messages") {
        for event in events(&case) {
            let alone = messages([&event]).unwrap();
            assert_eq!(message(&event).into_iter().collect::<Vec<_>>(), alone, "{name} {}", event.id());
        }
    }
}

#[test]
fn unknown_members_are_not_sent() {
    let payload = r#"{"id":"a","timestamp":"t","source":"user","kind":"MessageEvent","new":1,"llm_message":{"role":"user",
        "mood":"good","content":[{"type":"text","text":"hi","glow":true},{"type":"smell","of":"tea"}]}}"#;
    let event = upcast::read(payload, &Given::default()).unwrap().event;
    assert!(event.dump().contains("\"mood\":\"good\""));
    let messages = messages([&event]).unwrap();
    let smell = json!({ "type": "smell", "of": "tea" });
    assert_eq!(
        dumped(&messages),
        json!([{ "role": "user", "thinking_blocks": [], "content":
            [{ "cache_prompt": false, "type": "text", "text": "hi" }, smell] }])
    );
    let request = chat(&messages, flags("default")).unwrap();
    assert_eq!(request, [json!({ "role": "user", "content": [{ "type": "text", "text": "hi" }, smell] })]);
    let item =
        json!({ "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "hi" }] });
    assert_eq!(responses(&messages, true), [json!([item])]);
}

/// Checks what the model would be sent of each golden conversation after a restart.
#[test]
fn a_conversation_is_sent_to_the_model_as_the_sdk_sends_it() {
    let mut seen = 0;
    for folder in golden::list(&golden::folder("conversations")) {
        let expected = golden::read(&folder.join("expected.json"));
        let files = golden::list(&folder.join("events"));
        let files = files.iter().filter(|path| path.extension().is_some_and(|extension| extension == "json"));
        let payloads: Vec<String> = files.map(|path| std::fs::read_to_string(path).unwrap()).collect();
        let events: Vec<Event> = payloads
            .iter()
            .map(|payload| {
                let event = decode(payload, Unfamiliar::Refuse).unwrap();
                assert_eq!(event.dump(), *payload, "a payload of the SDK is written unchanged");
                event
            })
            .collect();
        let mut tree = Tree::new();
        for event in &events {
            tree.push(event.id().as_str(), event.common().parent_id.as_deref(), event.kind());
        }
        let path = tree.branch(expected["resolved_active_leaf"].as_str()).unwrap();
        let branch: Vec<Event> = path.into_iter().map(|place| events[place].clone()).collect();
        let view = View::reloaded(&branch);
        let messages = messages(view.events()).unwrap();
        let name = folder.display();
        assert_eq!(expected["llm_messages"], dumped(&messages), "{name}");
        let request = chat(&messages, flags("default")).unwrap();
        assert_eq!(expected["chat_wire_messages"], Value::from(request), "{name}");
        seen += 1;
    }
    assert_eq!(seen, 10);
}
