//! Operations beside a conversation's runs: questions, titles, tools called by hand, another model, forks, branches.

use std::sync::Arc;

use annals::ExecutionStatus::{Error, Finished, Idle, Running, WaitingForConfirmation};
use annals::agent::{Analyzer, Policy};
use annals::conversation::{ConversationError, ForkMetrics, ForkOptions};
use annals::event::{Content, Event, Json};
use annals::llm::scripted::{Gate, Line, Scripted};
use annals::llm::{LlmError, Model};
use annals::secret::{Cipher, Source};
use annals::{ConversationId, EventId};

use crate::support::stage::{Act, Stage, agent, command, events, finish, kinds};

#[tokio::test]
async fn a_question_adds_no_event_only_its_cost() {
    let gate = Gate::new();
    let stage = Stage::new([command("c1", "slow").cost(0.5), Line::text("I run a command.").cost(0.25)])
        .acts([Act::Wait(gate.clone())]);
    let conversation = stage.open().await;
    conversation.send_message("Go").await.unwrap();
    let run = tokio::spawn({
        let conversation = conversation.clone();
        async move { conversation.run().await }
    });
    gate.reached().await;
    let before = stage.kinds();
    // The tool still works. The question does not wait for it and leaves out the unanswered call.
    assert_eq!(conversation.ask_agent("What do you do?").await.unwrap(), "I run a command.");
    assert_eq!((stage.kinds(), conversation.status()), (before, Running));
    let request = stage.model.requests().pop().unwrap();
    assert_eq!(request.messages.len(), 3);
    assert!(request.messages.iter().all(|message| message.tool_calls.is_none()));
    let question = request.messages[2].content[0].as_text().unwrap();
    assert!(question.contains("What do you do?"), "{question}");
    let schema = request.tools.last().unwrap().parameters.text().to_owned();
    assert!(!schema.contains("security_risk") && schema.contains("summary"));
    stage.model.push(Line::text("Done."));
    gate.open();
    run.await.unwrap().unwrap();
    // The question's cost is recorded a little later.
    let spent =
        |usage: &str| stage.base_state()["stats"]["usage_to_metrics"][usage]["accumulated_cost"].clone();
    let mut shown = conversation.watch();
    while spent("ask-agent-llm").is_null() {
        shown.changed().await.unwrap();
    }
    assert_eq!((spent("agent"), spent("ask-agent-llm")), (0.5.into(), 0.25.into()));
}

#[tokio::test]
async fn a_title_is_generated_from_the_first_message() {
    let stage = Stage::new([Line::text("🔧 Mend the build"), Line::error(LlmError::RateLimit("no".into()))]);
    let conversation = stage.open().await;
    let error = conversation.generate_title(None, 50).await.unwrap_err();
    assert!(matches!(error, ConversationError::NoUserMessage));
    let long = "Please mend the build, which has been broken for a week now";
    conversation.send_message(long).await.unwrap();
    assert_eq!(conversation.generate_title(None, 50).await.unwrap(), "🔧 Mend the build");
    let cut = conversation.generate_title(None, 20).await.unwrap();
    assert_eq!(cut, "Please mend the b...");
    assert_eq!(stage.kinds(), ["SystemPromptEvent", "MessageEvent user"]);
}

#[tokio::test]
async fn a_tool_can_be_called_by_hand() {
    let stage = Stage::new([]).acts([Act::Print("the token is s3cret-value")]);
    let conversation = stage.builder().secret("TOKEN", Source::given("s3cret-value")).open().await.unwrap();
    let observation = conversation.execute_tool("terminal", r#"{"command":"ls"}"#).await.unwrap();
    assert_eq!(observation.text(), "the token is <secret-hidden>");
    assert_eq!(stage.kinds(), ["SystemPromptEvent"]);
    let error = conversation.execute_tool("zz", "{}").await.unwrap_err();
    assert_eq!(error.to_string(), "Tool 'zz' not found. Available tools: ['finish', 'think', 'terminal']");
}

#[tokio::test]
async fn another_model_takes_over_and_earlier_costs_are_kept() {
    let one = Scripted::new([Line::text("One.").cost(0.5)]).used_as("agent");
    let other = Scripted::new([Line::text("Other.").cost(0.25)]).used_as("agent");
    let stage = Stage::new([]);
    let (first, second) = (one.clone(), other.clone());
    let open = || async {
        let (first, second) = (first.clone(), second.clone());
        annals::conversation::Conversation::builder()
            .host(&stage.host)
            .id(stage.id.clone())
            .workspace(stage.scratch.path("work"))
            .models(Arc::new(move |settings| {
                let model = if &*settings.model == "openai/gpt-4o" { &first } else { &second };
                Ok(Arc::new(model.clone()) as Arc<dyn Model>)
            }))
            .agent(agent())
            .open()
            .await
            .unwrap()
    };
    let conversation = open().await;
    conversation.send_message("Go").await.unwrap();
    conversation.run().await.unwrap();
    let llm = Json::parse(r#"{"model":"anthropic/claude","usage_id":"agent"}"#).unwrap();
    conversation.switch_llm(&llm).await.unwrap();
    conversation.send_message("And you?").await.unwrap();
    assert_eq!(conversation.run().await.unwrap(), Finished);
    assert_eq!((one.requests().len(), other.requests().len()), (1, 1));
    let state = stage.base_state();
    assert_eq!(state["agent"]["llm"]["model"], "anthropic/claude");
    assert_eq!(state["stats"]["usage_to_metrics"]["agent"]["accumulated_cost"], 0.75);
}

#[tokio::test]
async fn a_fork_keeps_what_its_agent_needs_to_run() {
    let cipher = Cipher::new("key", &[]);
    let stage = Stage::new([command("c1", "one").cost(0.5), command("c2", "two")]);
    let source = stage
        .builder()
        .cipher(cipher.clone())
        .secret("TOKEN", Source::given("s3cret-value"))
        .confirmation_policy(Policy::Always)
        .security_analyzer(Analyzer::Llm)
        .open()
        .await
        .unwrap();
    source.send_message("Go").await.unwrap();
    assert_eq!(source.run().await.unwrap(), WaitingForConfirmation);
    let options = ForkOptions::default().metrics(ForkMetrics::Keep);
    let fork = source.fork(options).await.unwrap();
    assert_eq!(fork.status(), WaitingForConfirmation, "the fork executes no action without consent");
    assert_eq!(events(&stage.host, fork.id()), stage.events());
    let state = stage.host.store().base_state(fork.id()).unwrap().unwrap();
    let text = state.document.as_str();
    assert!(
        text.contains("AlwaysConfirm")
            && text.contains("LLMSecurityAnalyzer")
            && !text.contains("s3cret-value")
    );
    let state: serde_json::Value = serde_json::from_str(text).unwrap();
    let token = state["secret_registry"]["secret_sources"]["TOKEN"]["value"].as_str().unwrap();
    assert_eq!(cipher.open(token).unwrap().expose(), "s3cret-value");
    assert_eq!(state["stats"]["usage_to_metrics"]["agent"]["accumulated_cost"], 0.5);
    // The two conversations are independent.
    fork.reject_pending_actions("No").await.unwrap();
    stage.model.push(Line::text("As you wish."));
    assert_eq!(source.run().await.unwrap(), WaitingForConfirmation);
    assert_eq!(source.snapshot().event_count, 7);
    assert_eq!(fork.snapshot().event_count, 5);
    let unknown = ForkOptions::default().from_event(EventId::mint());
    assert!(matches!(source.fork(unknown).await, Err(ConversationError::UnknownEvent { .. })));
    let taken = ForkOptions::default().id(fork.id().clone());
    let error = source.fork(taken).await.unwrap_err();
    assert!(matches!(error, ConversationError::Store(annals::Error::ConversationExists { .. })), "{error}");
}

#[tokio::test]
async fn a_reply_to_an_abandoned_branch_adds_no_event_only_its_cost() {
    let gate = Gate::new();
    let stage = Stage::new([
        Line::text("First."),
        command("c1", "rm it").gate(&gate).cost(0.5),
        Line::text("Second."),
    ]);
    let conversation = stage.open().await;
    let first = conversation.send_message("One").await.unwrap();
    conversation.run().await.unwrap();
    conversation.send_message("Two").await.unwrap();
    let run = tokio::spawn({
        let conversation = conversation.clone();
        async move { conversation.run().await }
    });
    gate.reached().await;
    conversation.navigate_to(Some(&first)).await.unwrap();
    gate.open();
    assert_eq!(run.await.unwrap().unwrap(), Finished);
    assert_eq!(stage.terminal.commands().len(), 0);
    let events = stage.events();
    assert_eq!(kinds(&events)[4..], ["MessageEvent agent"]);
    assert_eq!(events[4].common().parent_id.as_deref(), Some(first.as_str()));
    let last = stage.model.requests().pop().unwrap().messages;
    assert_eq!(last.len(), 2, "the model sees the branch that HEAD is on");
    assert_eq!(stage.base_state()["stats"]["usage_to_metrics"]["agent"]["accumulated_cost"], 0.5);
    let error = conversation.navigate_to(Some(&EventId::mint())).await.unwrap_err();
    assert!(matches!(error, ConversationError::UnknownEvent { .. }));
}

#[tokio::test]
async fn a_conversation_needs_an_agent_and_keeps_the_tools_it_began_with() {
    let stage = Stage::new([Line::text("Hi.")]);
    let bare = || {
        annals::conversation::Conversation::builder()
            .host(&stage.host)
            .id(ConversationId::new("22222222-2222-4333-8444-555555555555").unwrap())
            .workspace(stage.scratch.path("work"))
    };
    assert!(matches!(bare().open().await, Err(ConversationError::NoAgent)));
    let with = agent().with("tools", Some(&Json::parse(r#"[{"name":"task_tracker"}]"#).unwrap()));
    bare().agent(with).open().await.unwrap();
    assert!(bare().open().await.is_ok(), "the conversation keeps its own agent");
    let error = bare().agent(agent()).open().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "Cannot resume conversation: tools were removed mid-conversation (removed: ['task_tracker']). To use different \
         tools, start a new conversation."
    );
    let tags = vec![("Bad Key".to_owned(), "x".to_owned())];
    assert!(matches!(bare().tags(tags).open().await, Err(ConversationError::Tag { .. })));
}

#[tokio::test]
async fn without_a_condenser_condensing_is_an_error() {
    let stage = Stage::new([]);
    let conversation = stage.open().await;
    conversation.send_message("Go").await.unwrap();
    let error = conversation.condense().await.unwrap_err();
    assert!(
        error.to_string().starts_with("Cannot condense conversation: No condenser configured."),
        "{error}"
    );
    assert_eq!(stage.kinds(), ["SystemPromptEvent", "MessageEvent user"]);
}

/// A builder of a conversation whose agent has a condenser. A summary reduces the view to four entries.
fn condensing(stage: &Stage, summaries: Vec<Line>) -> annals::conversation::Builder {
    let condenser = Json::parse(
        r#"{"llm":{"model":"openai/mini","usage_id":"condenser"},"max_size":8,"keep_first":1,"kind":"LLMSummarizingCondenser"}"#,
    )
    .unwrap();
    let (agent_model, condenser_model) = (stage.model.clone(), Scripted::new(summaries).used_as("condenser"));
    annals::conversation::Conversation::builder()
        .host(&stage.host)
        .id(stage.id.clone())
        .workspace(stage.scratch.path("work"))
        .tool(Arc::new(stage.terminal.clone()))
        .agent(agent().with("condenser", Some(&condenser)))
        .models(Arc::new(move |settings| {
            let model = if &*settings.usage_id == "condenser" { &condenser_model } else { &agent_model };
            Ok(Arc::new(model.clone()) as Arc<dyn Model>)
        }))
}

#[tokio::test]
async fn an_exceeded_context_window_requests_a_summary() {
    let stage = Stage::new([
        command("c1", "one"),
        Line::error(LlmError::ContextWindowExceeded("too much".into())),
        finish("c2", "done"),
    ]);
    let conversation = condensing(&stage, vec![Line::text("What was.").id("sum")]).open().await.unwrap();
    conversation.send_message("Go").await.unwrap();
    assert_eq!(conversation.run().await.unwrap(), Finished);
    assert_eq!(
        stage.kinds()[4..],
        ["CondensationRequest", "Condensation", "ActionEvent", "ObservationEvent"]
    );
    let last = stage.model.requests().pop().unwrap().messages;
    let texts: Vec<&str> =
        last.iter().flat_map(|message| &message.content).filter_map(Content::as_text).collect();
    assert!(texts.contains(&"What was."), "{texts:?}");
}

#[tokio::test]
async fn a_needed_summary_that_fails_ends_the_run() {
    let stage =
        Stage::new([command("c1", "one"), Line::error(LlmError::ContextWindowExceeded("too much".into()))]);
    let conversation = condensing(&stage, Vec::new()).open().await.unwrap();
    conversation.send_message("Go").await.unwrap();
    let error = conversation.run().await.unwrap_err();
    let ConversationError::Run { code, .. } = &error else { panic!("{error:?}") };
    assert_eq!((code.as_str(), conversation.status()), ("NoCondensationAvailableException", Error));
    let Some(Event::ConversationError(_)) = stage.events().pop() else { panic!("{:?}", stage.kinds()) };
    assert_ne!(conversation.status(), Idle);
}
