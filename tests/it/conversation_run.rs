//! A run from the first message to its end: the events it writes, their order, and the ways it ends.

use annals::ExecutionStatus::{Error, Finished, Idle, Running, Stuck};
use annals::conversation::{ConversationError, RunOptions};
use annals::event::{Content, Event, Message, Role};
use annals::llm::LlmError;
use annals::llm::scripted::Line;
use annals::tool::ToolError;

use crate::support::assert_sound;
use crate::support::stage::{Act, Stage, UPDATES, assert_chain, command, errors, finish};

#[tokio::test]
async fn two_turns_are_written_as_the_reference_writes_them() {
    let stage = Stage::new([
        Line::text("Hello!").id("r1").tokens(10, 2).cost(0.25),
        Line::calls("Sure.", &[("c1", "terminal", r#"{"command":"echo hi","summary":"say hi"}"#)])
            .id("r2")
            .tokens(20, 3),
        finish("c2", "Said hi.").id("r3").tokens(30, 4),
    ]);
    let conversation = stage.open().await;
    assert_eq!((conversation.status(), conversation.snapshot().event_count), (Idle, 0));
    conversation.send_message("Hello there").await.unwrap();
    assert_eq!(conversation.status(), Idle);
    assert_eq!(conversation.run().await.unwrap(), Finished);
    let asked = conversation.send_message("Run `echo hi` please.").await.unwrap();
    assert_eq!(conversation.status(), Idle);
    assert_eq!(conversation.run().await.unwrap(), Finished);
    let kinds = stage.kinds();
    assert_eq!(
        kinds,
        [
            "SystemPromptEvent",
            "MessageEvent user",
            "MessageEvent agent",
            "MessageEvent user",
            "ActionEvent",
            "ObservationEvent",
            "ActionEvent",
            "ObservationEvent"
        ]
    );
    let events = stage.events();
    assert_chain(&events);
    let Event::Action(action) = &events[4] else { panic!("{:?}", events[4]) };
    assert_eq!(
        (&*action.llm_response_id, &*action.tool_call_id, action.summary.as_deref()),
        ("r2", "c1", Some("say hi"))
    );
    assert_eq!(&*action.thought[0].text, "Sure.");
    assert_eq!(&*action.tool_call.arguments, r#"{"command": "echo hi", "summary": "say hi"}"#);
    let state = stage.base_state();
    assert_eq!(state["execution_status"], "finished");
    assert_eq!(state["last_user_message_id"], asked.as_str());
    assert_eq!(state["leaf_event_id"], events[7].id().as_str());
    assert_eq!(state["agent"]["llm"]["api_key"], "**********");
    let agent = &state["stats"]["usage_to_metrics"]["agent"];
    assert_eq!(
        (&agent["accumulated_cost"], &agent["accumulated_token_usage"]["prompt_tokens"]),
        (&0.25.into(), &60.into())
    );
    assert_eq!(agent["token_usages"][2]["response_id"], "r3");
    assert_eq!(conversation.snapshot().leaf.as_ref(), Some(events[7].id()));
    // Each request had all messages up to then.
    let requests = stage.model.requests();
    let roles: Vec<Vec<Role>> = requests
        .iter()
        .map(|request| request.messages.iter().map(|message| message.role.clone()).collect())
        .collect();
    use Role::{Assistant, System, Tool, User};
    assert_eq!(roles[0], [System, User]);
    assert_eq!(roles[1], [System, User, Assistant, User]);
    assert_eq!(roles[2], [System, User, Assistant, User, Assistant, Tool]);
    assert_eq!(
        requests[0].tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>(),
        ["finish", "think", "terminal"]
    );
    conversation.close().await.unwrap();
    assert_sound(stage.host.store());
}

#[tokio::test]
async fn the_base_state_has_the_fields_of_the_reference_in_its_order() {
    let stage = Stage::new([Line::text("Hello!")]);
    let tags = vec![("env".to_owned(), "test".to_owned())];
    let conversation = stage.builder().tags(tags).open().await.unwrap();
    conversation.send_message("Hi").await.unwrap();
    conversation.run().await.unwrap();
    let state = stage.host.store().base_state(&stage.id).unwrap().unwrap();
    let keys: Vec<String> = annals::event::json::Raw::parse(state.document.as_str())
        .unwrap()
        .members()
        .map(|(key, _)| key.into_owned())
        .collect();
    assert_eq!(
        keys,
        [
            "id",
            "agent",
            "workspace",
            "max_iterations",
            "stuck_detection",
            "execution_status",
            "confirmation_policy",
            "activated_knowledge_skills",
            "activated_path_rules",
            "invoked_skills",
            "blocked_actions",
            "blocked_messages",
            "last_user_message_id",
            "leaf_event_id",
            "head_is_empty",
            "stats",
            "secret_registry",
            "tags",
            "agent_state"
        ]
    );
}

#[tokio::test]
async fn base_state_changes_become_events_if_requested() {
    let stage =
        Stage::new([command("c1", "ls").id("r1").tokens(1, 1), Line::text("Done.").id("r2").tokens(1, 1)]);
    let conversation = stage.builder().state_updates(UPDATES).open().await.unwrap();
    conversation.send_message("Go").await.unwrap();
    conversation.run().await.unwrap();
    conversation.send_message("More").await.unwrap();
    let events = stage.events();
    let summaries: Vec<String> = events
        .iter()
        .map(|event| match event {
            Event::StateUpdate(update) if &*update.key == "stats" => "stats".to_owned(),
            Event::StateUpdate(update) if &*update.key == "last_user_message_id" => "last".to_owned(),
            Event::StateUpdate(update) => update.value.text().to_owned(),
            other => other.kind().to_owned(),
        })
        .collect();
    assert_eq!(
        summaries,
        [
            "SystemPromptEvent",
            "MessageEvent",
            "last",
            "\"running\"",
            "stats",
            "ActionEvent",
            "ObservationEvent",
            "stats",
            "MessageEvent",
            "\"finished\"",
            "\"idle\"",
            "MessageEvent",
            "last"
        ]
    );
    // State updates are not on the branch: the next event has the same parent.
    let parent = |place: usize| events[place].common().parent_id.clone().unwrap_or_else(|| "".into());
    let id = |place: usize| events[place].id().as_str();
    assert_eq!([&*parent(2), &*parent(3), &*parent(4), &*parent(5)], [id(1); 4]);
    assert_eq!([&*parent(9), &*parent(10), &*parent(11)], [id(8); 3]);
    let Event::StateUpdate(stats) = &events[4] else { panic!("{:?}", events[4]) };
    let stats = stats.value.to_value();
    let agent = &stats["usage_to_metrics"]["agent"];
    assert!(agent.get("costs").is_none() && agent["max_budget_per_task"].is_null());
    assert_eq!(conversation.snapshot().leaf.as_ref().map(|head| head.as_str()), Some(id(11)));
}

#[tokio::test]
async fn invalid_calls_are_answered_and_the_others_are_carried_out() {
    let stage = Stage::new([
        Line::calls(
            "mixed",
            &[
                ("c1", "terminal", r#"{"command":"echo ok"}"#),
                ("c2", "no_such_tool", r#"{"a":1}"#),
                ("c3", "terminal", r#"{"command": "ls"#),
            ],
        ),
        Line::text("Done."),
    ]);
    let conversation = stage.open().await;
    conversation.send_message("Go").await.unwrap();
    assert_eq!(conversation.run().await.unwrap(), Finished);
    assert_eq!(
        stage.kinds()[2..],
        [
            "ActionEvent",
            "ActionEvent",
            "AgentErrorEvent",
            "ActionEvent",
            "AgentErrorEvent",
            "ObservationEvent",
            "MessageEvent agent"
        ]
    );
    let events = stage.events();
    assert_chain(&events);
    assert_eq!(
        errors(&events),
        [
            "Tool 'no_such_tool' not found. Available: ['finish', 'think', 'terminal']",
            "Error validating tool 'terminal': Unterminated string starting at: line 1 column 13 (char 12). Arguments: \
             unparseable JSON"
        ]
    );
    assert_eq!(stage.terminal.commands(), ["echo ok"]);
}

#[tokio::test]
async fn failed_tools_are_reported_to_the_model_and_the_run_goes_on() {
    let stage = Stage::new([
        command("c1", "a"),
        command("c2", "b"),
        command("c3", "c"),
        command("c4", "d"),
        Line::text("Done."),
    ])
    .acts([
        Act::Fail(ToolError::Failed("no disk".into())),
        Act::Fail(ToolError::Internal("a bug".into())),
        Act::Fail(ToolError::ResourceTimeout("busy".into())),
        Act::Panic,
    ]);
    let conversation = stage.builder().stuck_detection(None).open().await.unwrap();
    conversation.send_message("Go").await.unwrap();
    assert_eq!(conversation.run().await.unwrap(), Finished);
    let events = stage.events();
    assert_eq!(
        errors(&events),
        [
            "Error executing tool 'terminal': no disk",
            "Error executing tool 'terminal': a bug",
            "Error executing tool 'terminal': busy",
            "Error executing tool 'terminal': the tool panicked"
        ]
    );
    let classes: Vec<String> = events
        .iter()
        .filter_map(|event| match event {
            Event::AgentError(error) => Some(error.classification.kind.as_str().to_owned()),
            _ => None,
        })
        .collect();
    assert_eq!(classes, ["agent_action", "internal", "internal", "internal"]);
}

#[tokio::test]
async fn calls_after_finish_are_answered_and_never_executed() {
    let stage = Stage::new([
        Line::calls(
            "",
            &[
                ("c1", "terminal", r#"{"command":"first"}"#),
                ("c2", "finish", r#"{"message":"done"}"#),
                ("c3", "terminal", r#"{"command":"late"}"#),
            ],
        ),
        Line::text("Later."),
    ]);
    let conversation = stage.open().await;
    conversation.send_message("Go").await.unwrap();
    assert_eq!(conversation.run().await.unwrap(), Finished);
    assert_eq!(stage.kinds()[5..], ["ObservationEvent", "AgentErrorEvent", "ObservationEvent"]);
    assert_eq!(errors(&stage.events()), ["Tool call not executed: the agent finished in the same response."]);
    assert_eq!(conversation.pending_actions().await.unwrap().len(), 0);
    conversation.send_message("And now?").await.unwrap();
    assert_eq!(conversation.run().await.unwrap(), Finished);
    assert_eq!(stage.terminal.commands(), ["first"]);
}

#[tokio::test]
async fn an_empty_reply_is_nudged_and_three_make_the_run_stuck() {
    let mut thought = Message::new(Role::Assistant, Vec::new());
    thought.reasoning_content = Some("hm".into());
    let stage = Stage::new([Line::text(" "), Line::message(thought), Line::text("")]);
    let conversation = stage.open().await;
    conversation.send_message("Go").await.unwrap();
    assert_eq!(conversation.run().await.unwrap(), Stuck);
    let round = ["MessageEvent agent", "MessageEvent environment"];
    assert_eq!(stage.kinds()[2..], [round, round, round].concat());
    assert_eq!(stage.base_state()["execution_status"], "stuck");
    // Running it again does not ask the model until there is a new message.
    assert_eq!(conversation.run().await.unwrap(), Stuck);
    assert_eq!(stage.model.requests().len(), 3);
    conversation.send_message("Well?").await.unwrap();
    assert_eq!(conversation.status(), Idle);
    stage.model.push(Line::text("Yes."));
    assert_eq!(conversation.run().await.unwrap(), Finished);
}

#[tokio::test]
async fn a_call_that_fails_again_and_again_is_nudged_once_and_then_ends_the_run() {
    let bad = |id: &str| Line::calls("", &[(id, "fly", r#"{"to":"the moon"}"#)]);
    let stage = Stage::new([bad("c1"), bad("c2"), bad("c3"), bad("c4")]);
    let conversation = stage.open().await;
    conversation.send_message("Go").await.unwrap();
    assert_eq!(conversation.run().await.unwrap(), Stuck);
    let failed = ["ActionEvent", "AgentErrorEvent"];
    assert_eq!(
        stage.kinds()[2..],
        [&failed[..], &failed, &failed, &["MessageEvent environment"], &failed].concat()
    );
}

#[tokio::test]
async fn a_run_stops_at_its_maximum_of_iterations() {
    let lines = (0..6).map(|number| command(&format!("c{number}"), &format!("echo {number}")));
    let stage = Stage::new(lines);
    let conversation = stage.builder().max_iterations(2).open().await.unwrap();
    conversation.send_message("Go").await.unwrap();
    assert_eq!(conversation.run().await.unwrap(), Error);
    let Some(Event::ConversationError(error)) = stage.events().pop() else { panic!("{:?}", stage.kinds()) };
    assert_eq!(
        (&*error.code, &*error.detail),
        ("MaxIterationsReached", "Agent reached maximum iterations limit (2).")
    );
    // The next run has the same limit again, or the limit in its options.
    let options = RunOptions::default().max_iterations(1);
    assert_eq!(conversation.run_with(options).await.unwrap(), Error);
    assert_eq!(stage.model.requests().len(), 3);
    let none = RunOptions::default().max_iterations(0);
    assert!(matches!(conversation.run_with(none).await, Err(ConversationError::Limit { .. })));
}

#[tokio::test]
async fn a_run_that_finishes_with_its_last_step_has_finished() {
    let stage = Stage::new([finish("c1", "done")]);
    let conversation = stage.builder().max_iterations(1).open().await.unwrap();
    conversation.send_message("Go").await.unwrap();
    assert_eq!(conversation.run().await.unwrap(), Finished);
}

#[tokio::test]
async fn a_run_exceeds_its_budget_by_at_most_one_step() {
    let stage = Stage::new([command("c1", "a").cost(0.4), command("c2", "b").cost(0.7), command("c3", "c")]);
    let conversation = stage.builder().max_budget(1.0).open().await.unwrap();
    conversation.send_message("Go").await.unwrap();
    assert_eq!(conversation.run().await.unwrap(), Error);
    let Some(Event::ConversationError(error)) = stage.events().pop() else { panic!("{:?}", stage.kinds()) };
    assert_eq!(
        (&*error.code, &*error.detail),
        ("MaxBudgetReached", "Agent reached maximum budget limit ($1.0000); accumulated cost $1.1000.")
    );
    assert_eq!(stage.model.requests().len(), 2);
}

#[tokio::test]
async fn a_failed_model_request_ends_the_run_with_an_event_that_names_the_error() {
    for (failure, code, detail, kind) in [
        (
            LlmError::Authentication("key sk-123 is wrong".into()),
            "LLMAuthenticationError",
            "Your LLM API key appears to be invalid or has expired.",
            "auth",
        ),
        (LlmError::RateLimit("slow down".into()), "LLMRateLimitError", "slow down", "rate_limit"),
        (LlmError::ServiceUnavailable("gone".into()), "LLMServiceUnavailableError", "gone", "transient"),
        (
            LlmError::ContextWindowExceeded("much".into()),
            "LLMContextWindowExceedError",
            "much",
            "agent_action",
        ),
    ] {
        let stage = Stage::new([Line::error(failure), Line::text("Better now.")]);
        let conversation = stage.open().await;
        conversation.send_message("Go").await.unwrap();
        let error = conversation.run().await.unwrap_err();
        let ConversationError::Run { code: actual, .. } = &error else { panic!("{error:?}") };
        assert_eq!(actual, code);
        let Some(Event::ConversationError(event)) = stage.events().pop() else {
            panic!("{:?}", stage.kinds())
        };
        assert_eq!((&*event.code, &*event.detail), (code, detail));
        assert_eq!(event.classification.as_ref().unwrap().kind.as_str(), kind);
        assert_eq!(conversation.status(), Error);
        assert_eq!(conversation.run().await.unwrap(), Finished, "a run can be tried again");
    }
}

#[tokio::test]
async fn errors_that_the_model_can_fix_are_sent_to_it() {
    let stage = Stage::new([
        Line::error(LlmError::FunctionCall("the call is torn".into())),
        Line::error(LlmError::ContentPolicy("no".into())),
        Line::text("Sorry."),
    ]);
    let conversation = stage.open().await;
    conversation.send_message("Go").await.unwrap();
    assert_eq!(conversation.run().await.unwrap(), Finished);
    assert_eq!(stage.kinds()[2..], ["MessageEvent user", "MessageEvent user", "MessageEvent agent"]);
    let last = stage.model.requests().pop().unwrap().messages.pop().unwrap();
    let texts: Vec<&str> = last.content.iter().filter_map(Content::as_text).collect();
    assert_eq!(texts[..2], ["Go", "the call is torn"]);
    assert!(texts[2].contains("content filter"));
}

#[tokio::test]
async fn a_model_without_vision_is_not_sent_images() {
    let mut stage = Stage::new([Line::text("A cat.")]);
    stage.model = stage.model.clone().blind().named("blind/model");
    let conversation = stage.open().await;
    let picture = annals::event::ImageContent::new(vec!["data:image/png;base64,AA==".into()]);
    let message =
        annals::conversation::UserMessage::new(vec![Content::text("What is it?"), Content::Image(picture)])
            .sender(annals::event::Text::from("tester-1"));
    conversation.send_message(message).await.unwrap();
    assert_eq!(conversation.run().await.unwrap(), Finished);
    assert_eq!(stage.model.requests().len(), 0);
    let Some(Event::Message(said)) = stage.events().pop() else { panic!("{:?}", stage.kinds()) };
    let text = said.llm_message.content[0].as_text().unwrap();
    assert!(text.contains("(blind/model) does not support image understanding"), "{text}");
    assert_eq!(said.llm_response_id, None);
}

#[tokio::test]
async fn a_second_concurrent_run_is_rejected_and_callbacks_receive_all_events_in_order() {
    let gate = annals::llm::scripted::Gate::new();
    let stage = Stage::new([Line::text("Done.").gate(&gate)]);
    let received = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let (store, id) = (stage.host.store().clone(), stage.id.clone());
    let receiver = std::sync::Arc::clone(&received);
    let callback: annals::conversation::Callback = std::sync::Arc::new(move |event| {
        // The event is in the store before a callback receives it.
        store.event(&id, event.id()).unwrap();
        receiver.lock().unwrap().push(event.id().clone());
    });
    let conversation = stage.builder().callback(callback).open().await.unwrap();
    conversation.send_message("Go").await.unwrap();
    let run = tokio::spawn({
        let conversation = conversation.clone();
        async move { conversation.run().await }
    });
    gate.reached().await;
    assert_eq!(conversation.status(), Running);
    assert!(conversation.is_running());
    assert!(matches!(conversation.run().await, Err(ConversationError::Running { .. })));
    // A caller that stops waiting for the run does not end it.
    run.abort();
    gate.open();
    conversation.wait().await;
    assert_eq!(conversation.status(), Finished);
    let ids: Vec<_> = stage.events().iter().map(|event| event.id().clone()).collect();
    assert_eq!(*received.lock().unwrap(), ids);
}

#[tokio::test]
async fn the_deltas_of_a_reply_carry_the_id_of_its_event() {
    let stage = Stage::new([Line::text("Hello you")]);
    let received = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let receiver = std::sync::Arc::clone(&received);
    let callback: annals::conversation::DeltaCallback = std::sync::Arc::new(move |id, delta| {
        receiver.lock().unwrap().push((id.clone(), format!("{delta:?}")));
    });
    let conversation = stage.builder().on_delta(callback).open().await.unwrap();
    conversation.send_message("Hi").await.unwrap();
    conversation.run().await.unwrap();
    let said = stage.events().pop().unwrap();
    let received = received.lock().unwrap();
    assert!(!received.is_empty() && received.iter().all(|(id, _)| id == said.id()), "{received:?}");
}
