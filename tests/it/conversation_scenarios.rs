//! Recorded conversations of the real SDK, repeated with a scripted model. The events, their parents, the status and
//! the messages to the model must be the same.

use annals::ConversationId;
use annals::ExecutionStatus::{Error, Finished, Idle, Stuck, WaitingForConfirmation};
use annals::agent::{Analyzer, Policy};
use annals::conversation::{ForkOptions, RunOptions, UserMessage};
use annals::event::Content;
use annals::hook;
use annals::secret::Source;
use serde_json::Value;

use crate::support::all_events;
use crate::support::scenario::{Scenario, without_prompt};

fn unchanged(_: &mut Value) {}

#[tokio::test]
async fn hello_in_two_turns() {
    let scenario = Scenario::load("hello-two-turns", &[]);
    let conversation = scenario.builder().open().await.unwrap();
    conversation.send_message("Hello there").await.unwrap();
    assert_eq!(conversation.run().await.unwrap(), Finished);
    let message =
        UserMessage::new(vec![Content::text("Run `echo hi` please."), Content::text("And then finish.")])
            .sender(annals::event::Text::from("tester-1"));
    conversation.send_message(message).await.unwrap();
    assert_eq!(conversation.run().await.unwrap(), Finished);
    scenario.assert_same(unchanged);
    scenario.assert_asked(without_prompt);
}

#[tokio::test]
async fn a_coding_task() {
    let scenario = Scenario::load("coding-task", &[]);
    let conversation = scenario.builder().open().await.unwrap();
    conversation
        .send_message("Write a fibonacci module and test it. Bitte schön — ありがとう 🙏")
        .await
        .unwrap();
    assert_eq!(conversation.run().await.unwrap(), Finished);
    scenario.assert_same(unchanged);
    // The SDK wrote text that was too long to send to a file. The path of that file depends on the host.
    scenario.assert_asked(|message| {
        without_prompt(message);
        if let Some(text) = message["content"][0]["text"].as_str().filter(|text| text.len() > 25_000) {
            message["content"] = text.chars().take(10_000).collect::<String>().into();
        }
    });
}

#[tokio::test]
async fn consent_and_refusal() {
    let scenario = Scenario::load("confirm-reject", &[]);
    let conversation = scenario
        .builder()
        .confirmation_policy(Policy::risky())
        .security_analyzer(Analyzer::Llm)
        .open()
        .await
        .unwrap();
    conversation.send_message("Clean up, then print things.").await.unwrap();
    assert_eq!(conversation.run().await.unwrap(), WaitingForConfirmation);
    conversation.reject_pending_actions("Too dangerous, do something harmless.").await.unwrap();
    assert_eq!(conversation.status(), Idle);
    assert_eq!(conversation.run().await.unwrap(), WaitingForConfirmation);
    assert_eq!(conversation.run().await.unwrap(), WaitingForConfirmation);
    scenario.assert_same(unchanged);
    scenario.assert_asked(unchanged);
}

#[tokio::test]
async fn mistakes_until_the_run_is_stuck() {
    let torn = [("chatcmpl-errorsandstu-0002", r#"{"command": "echo torn"#)];
    let scenario = Scenario::load("errors-and-stuck", &torn);
    let conversation = scenario.builder().open().await.unwrap();
    conversation.send_message("Make some mistakes").await.unwrap();
    assert_eq!(conversation.run().await.unwrap(), Stuck);
    scenario.assert_same(unchanged);
    scenario.assert_asked(unchanged);
}

#[tokio::test]
async fn a_long_conversation_is_condensed_repeatedly() {
    let scenario = Scenario::load("condense-rolling", &[]);
    let conversation = scenario.builder().open().await.unwrap();
    conversation.send_message("Count from 1 to 14 with echo.").await.unwrap();
    assert_eq!(conversation.run().await.unwrap(), Finished);
    conversation.condense().await.unwrap();
    assert_eq!(conversation.status(), Finished);
    conversation.send_message("One more after the manual condensation.").await.unwrap();
    assert_eq!(conversation.run().await.unwrap(), Finished);
    scenario.assert_same(unchanged);
    scenario.assert_asked(unchanged);
    let uses = scenario.usage();
    assert_eq!(uses, [("agent".to_owned(), 17), ("condenser".to_owned(), 3)]);
}

#[tokio::test]
async fn hooks_at_every_point() {
    let scenario = Scenario::load("hooks", &[]);
    let marker = scenario.scratch.path("stop-ok").to_string_lossy().into_owned();
    let config = scenario.state("hook_config").to_string().replace("/workspace/hooks/stop-ok", &marker);
    let config = hook::Config::parse(&config).unwrap();
    let conversation = scenario.builder().hooks(config).open().await.unwrap();
    conversation.send_message("Please clean the build.").await.unwrap();
    assert_eq!(conversation.run().await.unwrap(), Finished);
    conversation.send_message("this contains a forbidden word").await.unwrap();
    assert_eq!(conversation.run().await.unwrap(), Finished);
    conversation.close().await.unwrap();
    scenario.assert_same(|event| {
        if let Some(command) = event["hook_command"].as_str() {
            event["hook_command"] = command.replace(&marker, "/workspace/hooks/stop-ok").into();
        }
    });
    scenario.assert_asked(unchanged);
}

#[tokio::test]
async fn secrets_are_hidden_in_output_and_messages() {
    // The fixture has a placeholder for the hidden value. The test replaces the placeholder in output and messages by a
    // secret of its own, which must be hidden again.
    let scenario = Scenario::load_with("secrets-cipher", &[], &[("<secret-hidden>", "tok-of-the-test")]);
    let conversation = scenario
        .builder()
        .secret("DEPLOY_TOKEN", Source::given("tok-of-the-test"))
        .secret("DB_PASSWORD", Source::given("hunter2-db-password"))
        .open()
        .await
        .unwrap();
    conversation.send_message("Deploy with the secret.").await.unwrap();
    assert_eq!(conversation.run().await.unwrap(), Finished);
    scenario.assert_same(unchanged);
    scenario.assert_asked(without_prompt);
}

#[tokio::test]
async fn one_log_with_several_branches() {
    let scenario = Scenario::load("tree-navigate", &[]);
    let conversation = scenario.builder().open().await.unwrap();
    // Each message is sent where the fixture has it. HEAD moves first to the event that precedes it in the fixture.
    for (text, parent) in scenario.user_messages() {
        let there = conversation.snapshot();
        if there.event_count > 0 {
            let parent = parent.map(|place| scenario.acted(place));
            if there.leaf != parent {
                conversation.navigate_to(parent.as_ref()).await.unwrap();
            }
        }
        conversation.send_message(text.as_str()).await.unwrap();
        assert_eq!(conversation.run().await.unwrap(), Finished, "{text}");
    }
    scenario.assert_same(unchanged);
    scenario.assert_asked(unchanged);
}

#[tokio::test]
async fn a_fork_goes_its_own_way() {
    let scenario = Scenario::load("fork-slice", &[]);
    let source = scenario.builder().id(ConversationId::mint()).open().await.unwrap();
    source.send_message("Do one and two").await.unwrap();
    let one = RunOptions::default().max_iterations(1);
    assert_eq!(source.run_with(one).await.unwrap(), Error);
    let events = all_events(scenario.host.store(), source.id());
    let options = ForkOptions::default()
        .id(scenario.id.clone())
        .from_event(events[3].id.clone())
        .tags(vec![("role".to_owned(), "fork".to_owned())]);
    let fork = source.fork(options).await.unwrap();
    assert_eq!((fork.status(), fork.snapshot().event_count), (Idle, 4));
    fork.send_message("In the fork: do something else").await.unwrap();
    assert_eq!(fork.run().await.unwrap(), Finished);
    scenario.assert_same(unchanged);
    let row = scenario.host.store().conversation(&scenario.id).unwrap();
    assert_eq!(row.forked_from.as_deref(), Some(source.id().as_str()));
    assert_eq!(row.forked_at.as_deref(), Some(events[3].id.as_str()));
    assert_eq!(row.tags, r#"{"role":"fork"}"#);
}
