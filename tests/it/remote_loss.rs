//! Connections that break, servers that end, clients that are slow: every event of the server's log is heard once, in its
//! order, all the same.

use std::sync::{Arc, Mutex};

use annals::conversation::Conversation;
use annals::{ExecutionStatus, Expected};
use proptest::prelude::*;

use crate::remote::{Far, Heard, assert_same, config, shell};
use crate::support::events::{event, pause};
use crate::support::model_server::Answer;
use crate::support::proxy::Proxy;
use crate::support::served::Served;

/// A conversation of three commands and an answer.
fn answers() -> [Answer; 4] {
    [shell("c1", "echo 1"), shell("c2", "echo 2"), shell("c3", "echo 3"), Answer::text("One, two, three.")]
}

async fn cut_after(limits: &[usize]) {
    let far = Far::new(answers()).await;
    // The first socket is whole until the conversation is open.
    let proxy = Proxy::start(&far.served.url, limits.iter().copied()).await;
    let heard = Heard::default();
    let builder = heard.by(Conversation::builder().agent(far.agent()));
    let conversation = match builder.open_at(&far.at(&proxy.url)).await {
        Ok(conversation) => conversation,
        // Its first connection has to be of use.
        Err(_) => return far.served.end().await,
    };
    conversation.send_message("Count").await.unwrap();
    assert_eq!(conversation.run().await.unwrap(), ExecutionStatus::Finished);
    assert_same(&heard.dumps(), &far.payloads(conversation.id()));
    conversation.close().await.unwrap();
    far.served.end().await;
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 20, ..ProptestConfig::with_cases(12) })]

    #[test]
    fn sockets_that_break_anywhere_lose_nothing_and_double_nothing(
        first in 3_000usize..30_000, more in prop::collection::vec(1usize..20_000, 0..5)
    ) {
        let limits: Vec<usize> = [first].into_iter().chain(more).collect();
        tokio::runtime::Runtime::new().unwrap().block_on(cut_after(&limits));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_are_cut_during_a_run_again_and_again_lose_nothing() {
    let far = Far::new(answers().map(|answer| answer.held())).await;
    let proxy = Proxy::start(&far.served.url, []).await;
    let heard = Heard::default();
    let builder = heard.by(Conversation::builder().agent(far.agent()));
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
    assert_same(&heard.dumps(), &far.payloads(conversation.id()));
    assert!(proxy.sockets() >= 2, "{}", proxy.sockets());
    conversation.close().await.unwrap();
    far.served.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_starts_anew_is_followed_on() {
    let far = Far::new([Answer::text("One."), Answer::text("Two.")]).await;
    let proxy = Proxy::start(&far.served.url, []).await;
    let heard = Heard::default();
    let builder = heard.by(Conversation::builder().agent(far.agent()));
    let conversation = builder.open_at(&far.at(&proxy.url)).await.unwrap();
    conversation.send_message("1").await.unwrap();
    conversation.run().await.unwrap();
    let Far { store, served, model, scratch } = far;
    served.end().await;
    // While nobody is there somebody else writes.
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
    assert_same(&heard.ids(), &crate::support::event_ids(&far.store, conversation.id()));
    conversation.wait().await;
    assert_eq!(conversation.trouble(), None);
    conversation.close().await.unwrap();
    far.served.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_slow_hears_everything_though_the_server_gives_them_up() {
    const EVENTS: usize = 6_000;
    let far = Far::new([]).await;
    let (heard, (hold, held)) = (Heard::default(), std::sync::mpsc::channel::<()>());
    let held = Mutex::new(held);
    let builder = heard.by(Conversation::builder().agent(far.agent())).callback(Arc::new(move |_| {
        // Until the other end is let go of.
        let _over = held.lock().unwrap().recv();
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
    assert_same(&heard.ids(), &crate::support::event_ids(&far.store, conversation.id()));
    conversation.close().await.unwrap();
    far.served.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_no_frame_holds_is_read_from_the_log() {
    let far = Far::new([]).await;
    let heard = Heard::default();
    let builder = heard.by(Conversation::builder().agent(far.agent()));
    let conversation = builder.open_at(&far.server()).await.unwrap();
    // 5 MiB: more than the 4 MiB of a frame.
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
    assert_eq!(heard.ids(), ["a", "large", "b"]);
    conversation.close().await.unwrap();
    far.served.end().await;
}
