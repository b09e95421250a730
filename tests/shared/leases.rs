//! One machine runs a conversation at a time. If it does not answer for too long, another takes over, and the first can
//! write nothing more of that run.

use std::time::Duration;

use annals::conversation::{Conversation, ConversationError, Host};
use annals::error::SharedError;
use annals::llm::scripted::{Gate, Line};
use annals::{Error, ExecutionStatus, Options, Store};

use crate::replicas::{assert_equal, wait_for};
use crate::server::Server;
use crate::support::stage::{Act, Stage, assert_chain, command, events};
use crate::support::{Scratch, assert_sound};

/// Opens the conversation of the stage on a machine.
async fn on(store: &Store, stage: &Stage) -> Conversation {
    stage.builder().host(&Host::new(store.clone())).open().await.unwrap()
}

/// Starts a run, and waits until it is at the gate.
async fn begun(
    conversation: &Conversation,
    gate: &Gate,
) -> tokio::task::JoinHandle<annals::conversation::Result<ExecutionStatus>> {
    let conversation = conversation.clone();
    let mut running = tokio::spawn(async move { conversation.run().await });
    tokio::select! {
        () = gate.reached() => running,
        ended = &mut running => panic!("{ended:?}"),
    }
}

/// Waits until the second store has what the first has.
async fn arrived(from: &Store, to: &Store) {
    let (to, last) = (to.clone(), from.last_position().unwrap());
    tokio::task::spawn_blocking(move || wait_for(&to, last)).await.unwrap();
}

/// Ends every lease, as if another machine had taken it over and given it back.
async fn expire(server: &Server) {
    let address = server.address().replace(" schema=team", "");
    let update = move || {
        let mut client = postgres::Client::connect(&address, postgres::NoTls).unwrap();
        client
            .batch_execute("UPDATE team.lease SET until = '-infinity', generation = generation + 1")
            .unwrap();
    };
    tokio::task::spawn_blocking(update).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_lease_another_had_writes_nothing_more() {
    let (server, scratch) = (Server::with_log(), Scratch::new());
    let store = server.open_apart(&scratch.path("a.db")).await;
    let gate = Gate::new();
    let stage = Stage::new([command("c1", "one"), Line::text("Done.")]).acts([Act::Wait(gate.clone())]);
    let one = on(&store, &stage).await;
    one.send_message("Go").await.unwrap();
    let running = begun(&one, &gate).await;
    let before = events(&Host::new(store.clone()), one.id()).len();
    expire(&server).await;
    gate.open();
    let late = running.await.unwrap();
    assert!(
        matches!(late, Err(ConversationError::Store(Error::Shared(SharedError::Fenced { .. })))),
        "{late:?}"
    );
    assert_eq!(events(&Host::new(store.clone()), one.id()).len(), before);
    // A new run has a lease of its own. What the old one left open is answered first, as after a crash.
    drop(one);
    let again = on(&store, &stage).await;
    assert_eq!(again.run().await.unwrap(), ExecutionStatus::Finished);
    assert_chain(&events(&Host::new(store.clone()), again.id()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_runs_on_one_machine_until_another_takes_over() {
    let (server, scratch) = (Server::with_log(), Scratch::new());
    let options = Options::default().busy_timeout(Duration::from_secs(60));
    let open = |name: &str| Store::open_shared(&server.address(), scratch.path(name), &options).unwrap();
    let (a, b) = (open("a.db"), open("b.db"));
    let gate = Gate::new();
    let stage = Stage::new([command("c1", "one"), Line::text("Done."), Line::text("Done again.")])
        .acts([Act::Wait(gate.clone())]);
    let one = on(&a, &stage).await;
    one.send_message("Go").await.unwrap();
    let running = begun(&one, &gate).await;
    arrived(&a, &b).await;
    // The other machine sees it, speaks in it, and does not run it.
    let other = on(&b, &stage).await;
    assert_eq!(other.status(), ExecutionStatus::Running);
    assert!(matches!(other.run().await, Err(ConversationError::Running { .. })));
    // The first does not answer for too long: its lease is not its own any more.
    let begun = std::time::Instant::now();
    let taken_over = loop {
        assert!(begun.elapsed() < Duration::from_secs(60), "the lease was never free");
        expire(&server).await;
        match other.run().await {
            Err(ConversationError::Running { .. }) => {}
            ended => break ended,
        }
    };
    assert_eq!(taken_over.unwrap(), ExecutionStatus::Finished);
    // The result of the tool comes too late: nothing of the old run is written any more.
    gate.open();
    let late = running.await.unwrap();
    assert!(matches!(late, Err(ConversationError::Store(Error::Conflict { .. }))), "{late:?}");
    arrived(&b, &a).await;
    let (of_a, of_b) = (events(&Host::new(a.clone()), one.id()), events(&Host::new(b.clone()), one.id()));
    assert_eq!(of_a.len(), of_b.len());
    assert_chain(&of_b);
    tokio::task::spawn_blocking(move || {
        assert_equal(&a, &b);
        assert_sound(&a);
        drop(server);
    })
    .await
    .unwrap();
}
