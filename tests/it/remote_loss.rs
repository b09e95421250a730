//! Connections that break, servers that end, and slow clients. The client still receives every event of the server's
//! log once and in order.

use std::sync::{Arc, Mutex};

use annals::conversation::Conversation;
use annals::{ExecutionStatus, Expected};
use proptest::prelude::*;

use crate::remote::{Far, Received, assert_same, config, shell};
use crate::support::events::{event, pause};
use crate::support::model_server::Answer;
use crate::support::proxy::Proxy;
use crate::support::served::Served;

/// Returns a model's answers: three commands and a text.
fn answers() -> [Answer; 4] {
    [shell("c1", "echo 1"), shell("c2", "echo 2"), shell("c3", "echo 3"), Answer::text("One, two, three.")]
}

/// Runs a conversation over sockets that break after `limits` bytes, and asserts that the client received the log.
async fn cut_after(limits: &[usize]) {
    let far = Far::new(answers()).await;
    let proxy = Proxy::start(&far.served.url, limits.iter().copied()).await;
    // The conversation cannot be opened if a connection breaks too early. The proxy breaks only so many of them.
    let mut attempts = 0;
    let (received, conversation) = loop {
        let received = Received::default();
        let builder = received.by(Conversation::builder().agent(far.agent()));
        match builder.open_at(&far.at(&proxy.url)).await {
            Ok(conversation) => break (received, conversation),
            Err(error) => assert!(attempts < limits.len(), "{attempts}: {error}"),
        }
        attempts += 1;
    };
    conversation.send_message("Count").await.unwrap();
    assert_eq!(conversation.run().await.unwrap(), ExecutionStatus::Finished);
    // Three calls with their results, two messages and what the server adds.
    assert!(received.dumps().len() >= 8, "{}", received.dumps().len());
    assert_same(&received.dumps(), &far.payloads(conversation.id()));
    assert!(proxy.sockets() >= 1, "the proxy was passed by");
    conversation.close().await.unwrap();
    far.served.end().await;
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 20, ..ProptestConfig::with_cases(12) })]

    #[test]
    fn sockets_that_break_anywhere_lose_no_event_and_repeat_no_event(
        first in 3_000usize..30_000, more in prop::collection::vec(1usize..20_000, 0..5)
    ) {
        let limits: Vec<usize> = [first].into_iter().chain(more).collect();
        tokio::runtime::Runtime::new().unwrap().block_on(cut_after(&limits));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_are_cut_repeatedly_during_a_run_lose_no_event() {
    let far = Far::new(answers().map(|answer| answer.held())).await;
    let proxy = Proxy::start(&far.served.url, []).await;
    let received = Received::default();
    let builder = received.by(Conversation::builder().agent(far.agent()));
    let conversation = builder.open_at(&far.at(&proxy.url)).await.unwrap();
    conversation.send_message("Count").await.unwrap();
    let running = tokio::spawn({
        let conversation = conversation.clone();
        async move { conversation.run().await }
    });
    for requests in 1..=4 {
        far.model.arrived(requests).await;
        proxy.cut();
        far.model.release();
    }
    assert_eq!(running.await.unwrap().unwrap(), ExecutionStatus::Finished);
    assert_same(&received.dumps(), &far.payloads(conversation.id()));
    assert!(proxy.sockets() >= 2, "{}", proxy.sockets());
    conversation.close().await.unwrap();
    far.served.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_follows_a_restarted_server() {
    let far = Far::new([Answer::text("One."), Answer::text("Two.")]).await;
    let proxy = Proxy::start(&far.served.url, []).await;
    let received = Received::default();
    let builder = received.by(Conversation::builder().agent(far.agent()));
    let conversation = builder.open_at(&far.at(&proxy.url)).await.unwrap();
    conversation.send_message("1").await.unwrap();
    conversation.run().await.unwrap();
    let Far { store, served, model, scratch } = far;
    served.end().await;
    // Another program writes while the server is not running.
    store.append(conversation.id(), Expected::Any, &[pause("between")]).unwrap();
    let error = conversation.send_message("Anybody?").await.unwrap_err();
    assert!(matches!(
        error,
        annals::conversation::ConversationError::Remote(annals::remote::RemoteError::Unreachable { .. })
    ));
    let served = Served::with(&store, config()).await;
    proxy.retarget(&served.url);
    let far = Far { store, served, model, scratch };
    let mut shown = conversation.watch();
    let all = far.payloads(conversation.id()).len() as u64;
    shown.wait_for(|shown| shown.event_count == all).await.unwrap();
    assert_same(&received.ids(), &crate::support::event_ids(&far.store, conversation.id()));
    conversation.wait().await;
    assert_eq!(conversation.trouble(), None);
    conversation.close().await.unwrap();
    far.served.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_client_receives_every_event_even_if_the_server_drops_it() {
    const EVENTS: usize = 6_000;
    let far = Far::new([]).await;
    let (received, (hold, held)) = (Received::default(), std::sync::mpsc::channel::<()>());
    let held = Mutex::new(held);
    let builder = received.by(Conversation::builder().agent(far.agent())).callback(Arc::new(move |_| {
        // Blocks until `hold` is dropped.
        let _released = held.lock().unwrap().recv();
    }));
    let conversation = builder.open_at(&far.server()).await.unwrap();
    let long = "x".repeat(4_000);
    for batch in 0..EVENTS / 500 {
        let events: Vec<_> = (0..500)
            .map(|number| {
                event(&format!("e-{batch}-{number}"), "PauseEvent", serde_json::json!({"note": long}))
            })
            .collect();
        far.store.append(conversation.id(), Expected::Any, &events).unwrap();
    }
    drop(hold);
    conversation.watch().wait_for(|shown| shown.event_count == EVENTS as u64).await.unwrap();
    assert_same(&received.ids(), &crate::support::event_ids(&far.store, conversation.id()));
    conversation.close().await.unwrap();
    far.served.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_larger_than_a_frame_is_read_from_the_log() {
    let far = Far::new([]).await;
    let received = Received::default();
    let builder = received.by(Conversation::builder().agent(far.agent()));
    let conversation = builder.open_at(&far.server()).await.unwrap();
    // The text has 5 MiB. A frame has at most 4 MiB.
    let text = "x".repeat(5 << 20);
    let large = event(
        "large",
        "MessageEvent",
        serde_json::json!({
            "source": "user", "llm_message": {"role": "user", "content": [{"type": "text", "text": text}]},
        }),
    );
    far.store.append(conversation.id(), Expected::Any, &[pause("a"), large, pause("b")]).unwrap();
    conversation.watch().wait_for(|shown| shown.event_count == 3).await.unwrap();
    assert_eq!(received.ids(), ["a", "large", "b"]);
    conversation.close().await.unwrap();
    far.served.end().await;
}
