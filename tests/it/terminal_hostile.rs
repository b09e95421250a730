//! A real shell whose commands print too much, binary data, and secrets in pieces. The recorded output is bounded and
//! readable, and contains no secret.
#![cfg(unix)]

use annals::ExecutionStatus::Finished;
use annals::event::{Event, Observation};
use annals::llm::scripted::Line;
use annals::secret::Source;
use annals::tool::Spec;
use serde_json::json;

use crate::support::stage::{Stage, finish};
use crate::support::{all_events, assert_sound};

const TOKEN: &str = "tok-0123456789-end";

/// The maximum length of an observation's text, in characters, with the text that the tool adds.
const CHARACTERS_MAX: usize = 31_000;

fn commands() -> Vec<Line> {
    let lines = [
        // A line of 100 MB, with a secret at its beginning and at its end.
        json!({"command": "printf %s \"$TOKEN\"; head -c 100000000 /dev/zero | tr '\\0' x; printf '%s\\n' \"$TOKEN\"", "timeout": 300}),
        json!({"command": "head -c 3000000 /dev/urandom", "timeout": 300}),
        json!({"command": "printf '\\033[2J\\033]0;title\\007\\r\\b\\b\\033[?1049h\\0\\001\\177\\302\\205\\xff\\xfe seen\\n'"}),
        // A secret in two writes, so that no single read contains all of it.
        json!({"command": "echo $TOKEN >/dev/null; printf tok-0123; sleep 0.3; printf '456789-end\\n'"}),
        json!({"command": "yes \"$TOKEN\"", "timeout": 1}),
        json!({"command": "C-c", "is_input": true}),
        json!({"command": "echo over"}),
    ];
    let line = |(number, arguments): (usize, &serde_json::Value)| {
        Line::calls("", &[(&format!("c{number}"), "terminal", &arguments.to_string())])
    };
    lines.iter().enumerate().map(line).chain([finish("f", "done")]).collect()
}

#[tokio::test]
async fn hostile_output_is_bounded_readable_and_without_secrets() {
    let stage = Stage::new(commands());
    let agent = stage.agent();
    let agent = annals::agent::AgentDocument::new(&agent.llm().unwrap().into(), &[Spec::new("terminal")]);
    let conversation = annals::conversation::Conversation::builder()
        .host(&stage.host)
        .id(stage.id.clone())
        .agent(agent)
        .workspace(stage.scratch.path("work"))
        .keep_dir(stage.scratch.path("keep"))
        .model(std::sync::Arc::new(stage.model.clone()))
        .secret("TOKEN", Source::given(TOKEN))
        .open()
        .await
        .unwrap();
    conversation.send_message("Go.").await.unwrap();
    assert_eq!(conversation.run().await.unwrap(), Finished);
    conversation.close().await.unwrap();

    let answers: Vec<String> = stage
        .events()
        .iter()
        .filter_map(|event| match event {
            Event::Observation(event) => match &event.observation {
                Observation::Terminal(_) => Some(event.observation.text()),
                _ => None,
            },
            _ => None,
        })
        .collect();
    assert_eq!(answers.len(), 7);
    for (number, answer) in answers.iter().enumerate() {
        assert!(answer.chars().count() < CHARACTERS_MAX, "{number}: {}", answer.chars().count());
        let other = answer.chars().find(|c| c.is_control() && !['\n', '\t', '\u{1b}'].contains(c));
        assert_eq!(other, None, "{number}");
    }
    assert!(answers[0].starts_with("<secret-hidden>xxx"), "{}", &answers[0][..200]);
    assert!(answers[0].contains("xxx<secret-hidden>"));
    assert!(answers[2].contains("seen"), "{}", answers[2]);
    assert!(answers[3].starts_with("<secret-hidden>"), "{}", answers[3]);
    assert!(answers[6].starts_with("over"), "{}", answers[6]);

    // The log, the requests to the model and the files beside the log do not contain the secret.
    for stored in all_events(stage.host.store(), &stage.id) {
        assert!(stored.payload.len() < 400_000, "{}", stored.payload.len());
        assert!(!stored.payload.contains(TOKEN), "{}", stored.kind);
    }
    for request in stage.model.requests() {
        assert!(!format!("{:?}", request.messages).contains(TOKEN));
    }
    let mut files = 0;
    for file in std::fs::read_dir(stage.scratch.path("keep/observations")).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        assert!(!String::from_utf8_lossy(&bytes).contains(TOKEN));
        files += 1;
    }
    assert!(files >= 2, "{files}");
    assert_sound(stage.host.store());
}
