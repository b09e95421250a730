//! One conversation in two processes, simulated by two independent hosts on one file.

use std::sync::{Arc, Mutex};

use annals::ExecutionStatus::{Finished, Idle, Paused, Running};
use annals::agent::Policy;
use annals::conversation::{Conversation, ConversationError, Host};
use annals::event::Event;
use annals::llm::scripted::{Gate, Line};

use crate::support::stage::{Act, Stage, assert_chain, command, errors};

/// Opens the conversation with a second host on the same file, as another process would.
async fn elsewhere(stage: &Stage) -> Conversation {
    stage.builder().host(&Host::new(stage.scratch.open())).open().await.unwrap()
}

fn run(
    conversation: &Conversation,
) -> tokio::task::JoinHandle<annals::conversation::Result<annals::ExecutionStatus>> {
    let conversation = conversation.clone();
    tokio::spawn(async move { conversation.run().await })
}

#[tokio::test]
async fn a_conversation_that_another_process_runs_is_left_alone() {
    let gate = Gate::new();
    let stage = Stage::new([command("c1", "one"), Line::text("Done.")]).acts([Act::Wait(gate.clone())]);
    let one = stage.open().await;
    one.send_message("Go").await.unwrap();
    let running = run(&one);
    gate.reached().await;
    // Opening it answers no open call, because the process that runs it is alive.
    let other = elsewhere(&stage).await;
    assert_eq!(other.status(), Running);
    assert!(other.runs_elsewhere() && !one.runs_elsewhere());
    assert!(matches!(other.run().await, Err(ConversationError::Running { .. })));
    assert_eq!(stage.kinds().len(), 3);
    gate.open();
    assert_eq!(running.await.unwrap().unwrap(), Finished);
    assert!(!other.runs_elsewhere());
    assert_eq!(errors(&stage.events()), Vec::<String>::new());
    other.send_message("And now?").await.unwrap();
    assert_eq!(other.status(), Idle);
    let folder = stage.scratch.path("annals.db-runs");
    assert!(!folder.exists(), "a finished run leaves files behind");
}

#[tokio::test]
async fn a_message_from_another_process_follows_the_result_of_the_running_tool() {
    let gate = Gate::new();
    // The message may arrive before or after the second reply. If after, the run answers with a third reply.
    let stage = Stage::new([command("c1", "one"), Line::text("Done."), Line::text("Noted.")])
        .acts([Act::Wait(gate.clone())]);
    let received = Arc::new(Mutex::new(Vec::new()));
    let callback = {
        let received = Arc::clone(&received);
        Arc::new(move |event: &Event| received.lock().unwrap().push(event.id().clone()))
    };
    let one = stage.builder().callback(callback).open().await.unwrap();
    one.send_message("Go").await.unwrap();
    let running = run(&one);
    gate.reached().await;
    let other = elsewhere(&stage).await;
    let sending = tokio::spawn({
        let other = other.clone();
        async move { other.send_message("By the way").await }
    });
    gate.open();
    sending.await.unwrap().unwrap();
    running.await.unwrap().unwrap();
    let kinds = stage.kinds();
    let at = |kind: &str| kinds.iter().rposition(|known| known == kind).unwrap();
    assert_eq!((at("ActionEvent"), at("ObservationEvent")), (2, 3));
    assert!(at("MessageEvent user") > 3, "{kinds:?}");
    assert_chain(&stage.events());
    // The callback here receives every event in order, also the events that the other handle wrote.
    one.pause().await.unwrap();
    let ids: Vec<_> = stage.events().iter().map(|event| event.id().clone()).collect();
    assert_eq!(*received.lock().unwrap(), ids);
}

#[tokio::test]
async fn a_change_by_another_process_during_a_tool_call_is_kept_and_so_is_the_result() {
    let gate = Gate::new();
    let stage = Stage::new([command("c1", "one"), command("c2", "two"), Line::text("Done.")])
        .acts([Act::Wait(gate.clone())]);
    let one = stage.open().await;
    one.send_message("Go").await.unwrap();
    let running = run(&one);
    gate.reached().await;
    let other = elsewhere(&stage).await;
    other.set_confirmation_policy(Policy::Always).await.unwrap();
    gate.open();
    assert_eq!(running.await.unwrap().unwrap(), annals::ExecutionStatus::WaitingForConfirmation);
    assert_eq!(stage.terminal.commands(), ["one"]);
    assert_eq!(stage.kinds()[2..], ["ActionEvent", "ObservationEvent", "ActionEvent"]);
    assert_eq!(stage.base_state()["confirmation_policy"]["kind"], "AlwaysConfirm");
    assert_chain(&stage.events());
    assert_eq!(other.run().await.unwrap(), Finished);
    assert_eq!(stage.terminal.commands(), ["one", "two"]);
}

#[tokio::test]
async fn a_pause_by_another_process_ends_the_run_before_its_next_step() {
    let gate = Gate::new();
    let stage = Stage::new([command("c1", "one").gate(&gate), Line::text("Done.")]);
    let one = stage.open().await;
    one.send_message("Go").await.unwrap();
    let running = run(&one);
    gate.reached().await;
    let other = elsewhere(&stage).await;
    other.pause().await.unwrap();
    gate.open();
    assert_eq!(running.await.unwrap().unwrap(), Paused);
    assert_eq!(stage.terminal.commands().len(), 0);
    assert_eq!(other.run().await.unwrap(), Finished);
    assert_eq!(stage.terminal.commands(), ["one"]);
}
