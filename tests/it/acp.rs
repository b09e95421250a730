//! Agents that are programs (ACP). The program is this test binary, started again in that role.

use std::io::{BufRead as _, Write as _};
use std::time::{Duration, Instant};

use annals::ExecutionStatus::{Error, Finished, Idle, Paused};
use annals::agent::AgentDocument;
use annals::conversation::{Builder, ConversationError};
use annals::event::{Action, Event, Json};
use annals::secret::Source;
use serde_json::{Value, json};

use crate::support::stage::{Stage, kinds};
use crate::support::{assert_sound, child};

fn send(message: &Value) {
    // The test harness writes to the same pipe, so the message starts on a new line.
    let mut out = std::io::stdout().lock();
    out.write_all(format!("\n{message}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

fn update(update: Value) {
    send(
        &json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}}),
    );
}

fn say(text: &str) {
    update(json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}));
}

/// Acts as an agent program if a role is set. Without a role it does nothing.
#[test]
fn a_program_that_is_an_agent() {
    let Some(role) = child::role() else { return };
    let answer = |id: &Value, result: Value| send(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
    let refuse = |id: &Value, code: i64, message: &str| {
        send(&json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}));
    };
    send(&json!("no object"));
    let mut prompt = Value::Null;
    let mut seen: Vec<String> = Vec::new();
    for line in std::io::stdin().lock().lines() {
        let message: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let (id, params) = (&message["id"], &message["params"]);
        match message["method"].as_str() {
            Some("initialize") if role.name == "mute" => {}
            Some("initialize") => {
                let capabilities = json!({"loadSession": true, "mcpCapabilities": {"http": false}});
                let info = json!({"name": "played", "version": "1.2"});
                answer(
                    id,
                    json!({"protocolVersion": 1, "agentCapabilities": capabilities, "agentInfo": info}),
                );
            }
            Some("session/new") if role.name == "locked" => refuse(id, -32000, "Authentication required"),
            Some("session/new") => {
                seen.push(format!("new {}", params["mcpServers"]));
                answer(id, json!({"sessionId": "s-1"}));
            }
            Some("session/load") => {
                seen.push(format!("load {}", params["sessionId"]));
                // The earlier messages are replayed, more of them than a client would buffer.
                (0..3000).for_each(|_| say("earlier "));
                answer(id, json!({}));
            }
            Some("session/prompt") => {
                let blocks = params["prompt"].as_array().unwrap();
                let texts: Vec<&str> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
                match texts.first().copied().unwrap_or_default() {
                    "EXPLODE" => refuse(id, -32602, "it blew up"),
                    "HANG" => {}
                    "DIE" => std::process::exit(3),
                    "SEEN" => {
                        say(&format!("{seen:?} {texts:?} {:?}", std::env::var("TOKEN").is_ok()));
                        answer(id, json!({"stopReason": "end_turn"}));
                    }
                    "NOTHING" => answer(id, json!({"stopReason": "end_turn"})),
                    _ => {
                        let piece = json!({"type": "text", "text": "hmm "});
                        update(json!({"sessionUpdate": "agent_thought_chunk", "content": piece}));
                        update(
                            json!({"sessionUpdate": "tool_call", "toolCallId": "t1", "title": "Run ls", "kind": "execute",
                            "status": "pending", "rawInput": {"cmd": "ls tok-98765"}}),
                        );
                        send(
                            &json!({"jsonrpc": "2.0", "id": 9000, "method": "session/request_permission", "params": {
                            "options": [{"optionId": "allow"}, {"optionId": "reject"}]}}),
                        );
                        send(
                            &json!({"jsonrpc": "2.0", "id": 9001, "method": "fs/read_text_file", "params": {}}),
                        );
                        prompt = id.clone();
                    }
                }
            }
            Some("session/cancel") => {}
            None if *id == 9000 => {
                assert_eq!(message["result"]["outcome"]["optionId"], "allow");
                for _ in 0..3 {
                    let content =
                        json!([{"type": "content", "content": {"type": "text", "text": "partial"}}]);
                    update(
                        json!({"sessionUpdate": "tool_call_update", "toolCallId": "t1", "status": "in_progress", "content": content}),
                    );
                }
                let output = format!("files {}", "z".repeat(100_000));
                update(
                    json!({"sessionUpdate": "tool_call_update", "toolCallId": "t1", "status": "completed", "rawOutput": output}),
                );
                update(
                    json!({"sessionUpdate": "tool_call", "toolCallId": "t2", "title": "Never closed", "status": "in_progress"}),
                );
                say("Hello ");
                say("tok-98765");
                update(
                    json!({"sessionUpdate": "usage_update", "used": 100, "size": 200_000, "cost": {"amount": 0.05, "currency": "USD"}}),
                );
            }
            None if *id == 9001 => {
                assert_eq!(message["error"]["code"], -32601);
                answer(
                    &prompt,
                    json!({"stopReason": "end_turn", "usage": {"inputTokens": 7, "outputTokens": 3}}),
                );
            }
            other => panic!("{other:?} {message}"),
        }
    }
    std::process::exit(0);
}

fn program(role: &str) -> AgentDocument {
    let agent = json!({
        "llm": {"model": "acp-managed", "usage_id": "acp-managed"}, "tools": [], "include_default_tools": [],
        "mcp_config": {"notes": {"command": "notes", "env": {"A": "b"}}, "far": {"url": "http://h/"}},
        "acp_command": ["env", format!("ANNALS_TEST_ROLE={role}"), "ANNALS_TEST_DATABASE=none", std::env::current_exe().unwrap(),
            "acp::a_program_that_is_an_agent", "--exact", "--nocapture", "--test-threads=1"],
        "acp_args": [], "acp_prompt_timeout": 10.0, "acp_startup_timeout": 120.0, "kind": "ACPAgent",
    });
    AgentDocument::parse(&agent.to_string()).unwrap()
}

fn builder(stage: &Stage, role: &str) -> Builder {
    annals::conversation::Conversation::builder()
        .host(&stage.host)
        .id(stage.id.clone())
        .agent(program(role))
        .workspace(stage.scratch.path("work"))
        .secret("TOKEN", Source::given("tok-98765"))
}

/// The messages of the agent's `finish` actions, in order.
fn finished(stage: &Stage) -> Vec<String> {
    let events = stage.events();
    let messages = events.iter().filter_map(|event| match event {
        Event::Action(action) => match &action.action {
            Some(Action::Finish(finish)) => Some(finish.message.to_string()),
            _ => None,
        },
        _ => None,
    });
    messages.collect()
}

#[tokio::test]
async fn a_turn_is_recorded_as_the_reference_records_it() {
    let stage = Stage::new([]);
    let conversation = builder(&stage, "server").open().await.unwrap();
    conversation.send_message("Hi.").await.unwrap();
    assert_eq!((conversation.status(), stage.kinds().len()), (Idle, 1));
    assert_eq!(conversation.run().await.unwrap(), Finished);
    let events = stage.events();
    assert_eq!(
        kinds(&events),
        [
            "MessageEvent user",
            "SystemPromptEvent",
            "ACPToolCallEvent",
            "ACPToolCallEvent",
            "ACPToolCallEvent",
            "ACPToolCallEvent",
            "ActionEvent",
            "ObservationEvent"
        ]
    );
    let calls: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            Event::AcpToolCall(call) => Some(call),
            _ => None,
        })
        .collect();
    let updates: Vec<(&str, Option<&str>)> =
        calls.iter().map(|call| (&*call.tool_call_id, call.status.as_deref())).collect();
    assert_eq!(
        updates,
        [
            ("t1", Some("pending")),
            ("t1", Some("completed")),
            ("t2", Some("in_progress")),
            ("t2", Some("completed"))
        ]
    );
    assert_eq!(calls[0].raw_input.as_ref().unwrap().to_value(), json!({"cmd": "ls <secret-hidden>"}));
    assert!(calls[1].raw_output.as_ref().unwrap().text().len() < 31_000);
    let Event::Action(action) = &events[6] else { panic!("{:?}", events[6]) };
    assert_eq!(action.reasoning_content.as_deref(), Some("hmm "));
    assert_eq!(finished(&stage), ["Hello <secret-hidden>"]);
    let state = stage.base_state();
    let spent = &state["stats"]["usage_to_metrics"]["acp-managed"];
    assert_eq!(
        (&spent["accumulated_cost"], &spent["accumulated_token_usage"]["prompt_tokens"]),
        (&json!(0.05), &json!(7))
    );
    let known = &state["agent_state"];
    assert_eq!((&known["acp_session_id"], &known["acp_agent_name"]), (&json!("s-1"), &json!("played")));
    assert_eq!(known["acp_suffix_installed"], true);
    conversation.close().await.unwrap();
    assert_sound(stage.host.store());
}

#[tokio::test]
async fn a_session_is_resumed_and_messages_are_answered_one_by_one() {
    let stage = Stage::new([]);
    let conversation = builder(&stage, "server").open().await.unwrap();
    conversation.send_message("SEEN").await.unwrap();
    conversation.send_message("NOTHING").await.unwrap();
    assert_eq!(conversation.run().await.unwrap(), Finished);
    conversation.close().await.unwrap();
    let conversation = builder(&stage, "server").open().await.unwrap();
    conversation.send_message("SEEN").await.unwrap();
    assert_eq!(conversation.run().await.unwrap(), Finished);
    let answers = finished(&stage);
    assert_eq!(answers.len(), 3, "{answers:?}");
    // The program receives the MCP servers that it supports, and the secrets as environment variables. The prompt names
    // the secrets only once.
    assert!(
        answers[0].contains(r#"\"command\":\"notes\""#) && !answers[0].contains("http://h/"),
        "{answers:?}"
    );
    assert!(answers[0].contains("CUSTOM_SECRETS") && answers[0].ends_with("true"), "{answers:?}");
    assert_eq!(answers[1], "(No response from ACP server)");
    assert!(
        answers[2].starts_with(r#"["load \"s-1\""]"#) && !answers[2].contains("CUSTOM_SECRETS"),
        "{answers:?}"
    );
    assert!(!answers[2].contains("earlier"));
    conversation.close().await.unwrap();
    assert_sound(stage.host.store());
}

#[tokio::test]
async fn a_turn_that_fails_is_an_event_and_the_next_one_works() {
    let stage = Stage::new([]);
    let conversation = builder(&stage, "server").open().await.unwrap();
    for (text, code) in [("EXPLODE", "ACPPromptError"), ("DIE", "ACPPromptError")] {
        conversation.send_message(text).await.unwrap();
        let error = conversation.run().await.unwrap_err();
        assert!(matches!(&error, ConversationError::Run { code: actual, .. } if actual == code), "{error:?}");
        assert_eq!(conversation.status(), Error);
    }
    let events = stage.events();
    let errors: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            Event::ConversationError(error) => {
                Some((error.common.source.as_str().to_owned(), error.detail.to_string()))
            }
            _ => None,
        })
        .collect();
    assert_eq!(errors[0], ("agent".to_owned(), "[-32602] it blew up".to_owned()));
    assert_eq!(errors.len(), 2, "{errors:?}");
    conversation.send_message("NOTHING").await.unwrap();
    assert_eq!(conversation.run().await.unwrap(), Finished);
    // A silent program runs into the timeout. A message reports it, and `run` returns no error.
    conversation.send_message("HANG").await.unwrap();
    let begun = Instant::now();
    assert_eq!(conversation.run().await.unwrap(), Error);
    assert!(begun.elapsed() < Duration::from_secs(120));
    assert_eq!(kinds(&stage.events()).last().map(String::as_str), Some("MessageEvent agent"));
    conversation.close().await.unwrap();
    assert_sound(stage.host.store());
}

#[tokio::test]
async fn an_interrupted_turn_leaves_a_conversation_that_goes_on() {
    let stage = Stage::new([]);
    let conversation = builder(&stage, "server").open().await.unwrap();
    conversation.send_message("HANG").await.unwrap();
    let running = tokio::spawn({
        let conversation = conversation.clone();
        async move { conversation.run().await }
    });
    conversation.watch().wait_for(|shown| shown.event_count >= 2).await.unwrap();
    conversation.interrupt().await.unwrap();
    assert_eq!(running.await.unwrap().unwrap(), Paused);
    assert_eq!(kinds(&stage.events()).last().map(String::as_str), Some("InterruptEvent"));
    conversation.close().await.unwrap();
}

#[tokio::test]
async fn an_agent_program_that_fails_to_start_is_recorded_with_its_own_code() {
    for (role, code) in
        [("mute", "ACPStartupTimeout"), ("locked", "ACPAuthRequired"), ("none", "ACPSpawnError")]
    {
        let stage = Stage::new([]);
        let agent = program(role);
        let agent = match role {
            "mute" => agent.with("acp_startup_timeout", Some(&Json::parse("1.5").unwrap())),
            "none" => agent.with("acp_command", Some(&Json::parse(r#"["/no/such/program"]"#).unwrap())),
            _ => agent,
        };
        let conversation = builder(&stage, role).agent(agent).open().await.unwrap();
        conversation.send_message("Hi.").await.unwrap();
        let error = conversation.run().await.unwrap_err();
        assert!(matches!(error, ConversationError::Acp(_)), "{role} {error:?}");
        assert_eq!(conversation.status(), Error);
        let events = stage.events();
        let Some(Event::ConversationError(error)) = events.last() else { panic!("{events:?}") };
        assert_eq!((&*error.code, error.common.source.as_str()), (code, "agent"), "{role}");
        conversation.close().await.unwrap();
    }
}
