//! Pauses, interruptions, and other calls during a model request or a tool call.

use annals::ExecutionStatus::{Finished, Idle, Paused, Running};
use annals::event::Event;
use annals::llm::scripted::{Gate, Line};

use crate::support::stage::{Act, Stage, assert_chain, command, errors, finish, until};

#[tokio::test]
async fn a_pause_during_a_model_request_stays_a_pause() {
    let gate = Gate::new();
    let stage = Stage::new([Line::text("Done.").gate(&gate), Line::text("Again.")]);
    let conversation = stage.open().await;
    conversation.send_message("Go").await.unwrap();
    let run = tokio::spawn({
        let conversation = conversation.clone();
        async move { conversation.run().await }
    });
    gate.reached().await;
    conversation.pause().await.unwrap();
    assert_eq!(conversation.status(), Paused);
    gate.open();
    assert_eq!(run.await.unwrap().unwrap(), Paused);
    assert_eq!(stage.kinds()[2..], ["PauseEvent", "MessageEvent agent"]);
    // The turn was already over, so the model is not asked again.
    assert_eq!(conversation.resume().await.unwrap(), Finished);
    assert_eq!(stage.model.requests().len(), 1);
}

#[tokio::test]
async fn a_requested_action_is_not_executed_after_a_pause() {
    let gate = Gate::new();
    let stage = Stage::new([command("c1", "rm it").gate(&gate), Line::text("Done.")]);
    let conversation = stage.open().await;
    conversation.send_message("Go").await.unwrap();
    let run = tokio::spawn({
        let conversation = conversation.clone();
        async move { conversation.run().await }
    });
    gate.reached().await;
    conversation.pause().await.unwrap();
    gate.open();
    assert_eq!(run.await.unwrap().unwrap(), Paused);
    assert_eq!(stage.terminal.commands().len(), 0);
    assert_eq!(conversation.pending_actions().await.unwrap().len(), 1);
    assert_eq!(conversation.run().await.unwrap(), Finished);
    assert_eq!(stage.terminal.commands(), ["rm it"]);
    assert_chain(&stage.events());
}

#[tokio::test]
async fn a_pause_changes_only_an_idle_or_running_conversation() {
    let stage = Stage::new([Line::text("Done.")]);
    let conversation = stage.open().await;
    conversation.pause().await.unwrap();
    assert_eq!((conversation.status(), stage.kinds().len()), (Paused, 1));
    conversation.pause().await.unwrap();
    assert_eq!(stage.kinds(), ["PauseEvent"]);
    conversation.send_message("Go").await.unwrap();
    assert_eq!(conversation.status(), Paused);
    assert_eq!(conversation.run().await.unwrap(), Finished);
    conversation.pause().await.unwrap();
    assert_eq!(conversation.status(), Finished);
}

#[tokio::test]
async fn an_interruption_ends_a_model_request_at_once() {
    let gate = Gate::new();
    let stage = Stage::new([Line::text("Never.").gate(&gate), Line::text("Now.")]);
    let conversation = stage.open().await;
    conversation.send_message("Go").await.unwrap();
    let run = tokio::spawn({
        let conversation = conversation.clone();
        async move { conversation.run().await }
    });
    gate.reached().await;
    conversation.interrupt().await.unwrap();
    assert_eq!(run.await.unwrap().unwrap(), Paused);
    assert_eq!(stage.kinds()[2..], ["InterruptEvent"]);
    gate.open();
    assert_eq!(conversation.run().await.unwrap(), Finished);
}

#[tokio::test]
async fn an_interruption_answers_every_call_of_the_batch() {
    let gate = Gate::new();
    let stage = Stage::new([
        Line::calls(
            "",
            &[
                ("c1", "terminal", r#"{"command":"one"}"#),
                ("c2", "terminal", r#"{"command":"two"}"#),
                ("c3", "terminal", r#"{"command":"three"}"#),
            ],
        ),
        Line::text("Done."),
    ])
    .acts([Act::Print("one"), Act::Wait(gate.clone())]);
    let conversation = stage.open().await;
    conversation.send_message("Go").await.unwrap();
    let run = tokio::spawn({
        let conversation = conversation.clone();
        async move { conversation.run().await }
    });
    gate.reached().await;
    conversation.interrupt().await.unwrap();
    assert_eq!(run.await.unwrap().unwrap(), Paused);
    let events = stage.events();
    assert_eq!(
        stage.kinds()[5..],
        ["ObservationEvent", "AgentErrorEvent", "AgentErrorEvent", "InterruptEvent"]
    );
    assert_eq!(
        errors(&events),
        [
            "Tool call interrupted before completion. The conversation was paused.",
            "Tool call cancelled by interrupt."
        ]
    );
    assert_chain(&events);
    assert_eq!(stage.terminal.commands(), ["one", "two"]);
    assert_eq!(conversation.run().await.unwrap(), Finished);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_ignores_cancellation_is_abandoned() {
    let gate = Gate::new();
    let stage = Stage::new([command("c1", "deaf")]).acts([Act::Ignore(gate.clone())]);
    let conversation = stage.open().await;
    conversation.send_message("Go").await.unwrap();
    let run = tokio::spawn({
        let conversation = conversation.clone();
        async move { conversation.run().await }
    });
    gate.reached().await;
    conversation.interrupt().await.unwrap();
    assert_eq!(run.await.unwrap().unwrap(), Paused);
    assert_eq!(stage.kinds()[3..], ["AgentErrorEvent", "InterruptEvent"]);
}

#[tokio::test]
async fn a_message_during_a_model_request_is_answered_in_the_same_run() {
    let gate = Gate::new();
    let stage = Stage::new([finish("c1", "done").gate(&gate), Line::text("And that too.")]);
    let conversation = stage.open().await;
    conversation.send_message("Go").await.unwrap();
    let run = tokio::spawn({
        let conversation = conversation.clone();
        async move { conversation.run().await }
    });
    gate.reached().await;
    conversation.send_message("And this?").await.unwrap();
    gate.open();
    assert_eq!(run.await.unwrap().unwrap(), Finished);
    assert_eq!(
        stage.kinds()[1..],
        ["MessageEvent user", "MessageEvent user", "ActionEvent", "ObservationEvent", "MessageEvent agent"]
    );
    assert_eq!(stage.model.requests().len(), 2);
}

#[tokio::test]
async fn a_message_in_the_last_step_waits_for_the_next_run() {
    let gate = Gate::new();
    let stage = Stage::new([finish("c1", "done").gate(&gate)]);
    let conversation = stage.builder().max_iterations(1).open().await.unwrap();
    conversation.send_message("Go").await.unwrap();
    let run = tokio::spawn({
        let conversation = conversation.clone();
        async move { conversation.run().await }
    });
    gate.reached().await;
    conversation.send_message("And this?").await.unwrap();
    gate.open();
    assert_eq!(run.await.unwrap().unwrap(), Idle);
}

#[tokio::test]
async fn a_message_during_a_tool_call_is_appended_after_it() {
    let gate = Gate::new();
    let stage = Stage::new([command("c1", "slow"), Line::text("Done.")]).acts([Act::Wait(gate.clone())]);
    let conversation = stage.open().await;
    conversation.send_message("Go").await.unwrap();
    let run = tokio::spawn({
        let conversation = conversation.clone();
        async move { conversation.run().await }
    });
    gate.reached().await;
    assert_eq!(conversation.status(), Running, "reading the status never waits");
    let message = tokio::spawn({
        let conversation = conversation.clone();
        async move { conversation.send_message("Meanwhile").await }
    });
    tokio::task::yield_now().await;
    gate.open();
    message.await.unwrap().unwrap();
    run.await.unwrap().unwrap();
    conversation.wait().await;
    assert_eq!(
        stage.kinds()[2..],
        ["ActionEvent", "ObservationEvent", "MessageEvent user", "MessageEvent agent"]
    );
}

#[tokio::test]
async fn closing_ends_a_run_and_later_messages_are_rejected() {
    let gate = Gate::new();
    let stage = Stage::new([Line::text("Never.").gate(&gate)]);
    let conversation = stage.open().await;
    conversation.send_message("Go").await.unwrap();
    let run = tokio::spawn({
        let conversation = conversation.clone();
        async move { conversation.run().await }
    });
    until(&conversation, Running).await;
    gate.reached().await;
    conversation.close().await.unwrap();
    conversation.close().await.unwrap();
    assert_eq!(run.await.unwrap().unwrap(), Paused);
    assert!(conversation.send_message("More").await.is_err());
    let Some(Event::Interrupt(_)) = stage.events().pop() else { panic!("{:?}", stage.kinds()) };
    // The stored conversation can be opened again.
    let again = stage.open().await;
    assert_eq!(again.status(), Paused);
}
