//! Sockets: clients receive events when they happen.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::caller::{KEY, Served, model, until};

fn is(kind: &str) -> impl Fn(&Value) -> bool {
    move |frame| frame["kind"] == *kind
}

fn is_state(frame: &Value) -> bool {
    frame["key"] == "full_state"
}

#[tokio::test]
async fn the_state_is_sent_first_and_after_every_run() {
    let (server, model) = (Served::start().await, model(&["Hello."]));
    let id = server.conversation(&model).await;
    let mut socket = server.socket(&format!("/sockets/events/{id}")).await;
    let first = socket.receive().await.unwrap();
    assert!(is_state(&first), "{first}");
    let state = &first["value"];
    assert_eq!((&state["execution_status"], &state["id"]), (&json!("idle"), &json!(id)));
    assert_eq!(state["agent"]["llm"]["api_key"], json!("**********"));
    for member in ["agent", "workspace", "persistence_dir", "confirmation_policy", "stats", "tags"] {
        assert!(!state[member].is_null(), "{member}");
    }
    server.say(&id, "Hi").await;
    let (mut received, mut last) = (Vec::new(), Value::Null);
    while !is_state(&last) {
        last = socket.receive().await.unwrap();
        received.push(last.clone());
    }
    assert_eq!(last["value"]["execution_status"], json!("finished"));
    let stored = server.get(&format!("/api/conversations/{id}/events/search")).await.ok();
    received.pop();
    assert_eq!(json!(received), stored["items"]);
}

#[tokio::test]
async fn earlier_events_are_resent_on_request() {
    let (server, model) = (Served::start().await, model(&["Hello."]));
    let id = server.conversation(&model).await;
    server.say_until_at_rest(&id, "Hi").await;
    let stored = server.get(&format!("/api/conversations/{id}/events/search")).await.ok();
    let stored = stored["items"].as_array().unwrap();
    let from = stored[2]["timestamp"].as_str().unwrap();
    for (query, first) in [
        ("resend_mode=all".to_owned(), Some(0)),
        ("resend_all=true".to_owned(), Some(0)),
        (format!("resend_mode=since&after_timestamp={from}"), Some(2)),
        ("resend_mode=since".to_owned(), None),
        (String::new(), None),
    ] {
        let mut socket = server.socket(&format!("/sockets/events/{id}?{query}")).await;
        assert!(is_state(&socket.receive().await.unwrap()));
        for event in first.map_or(&[][..], |first| &stored[first..]) {
            assert_eq!(socket.receive().await.unwrap(), *event, "{query}");
        }
        // There are no more events: the next frame is the answer to this one.
        socket.say("no message").await;
        assert!(is("ServerErrorEvent")(&socket.receive().await.unwrap()), "{query}");
    }
    assert_eq!(
        server
            .socket_with(&format!("/sockets/events/{id}?resend_mode=some&session_api_key={KEY}"), &[])
            .await
            .err(),
        Some(403)
    );
}

#[tokio::test]
async fn a_key_is_accepted_in_three_ways() {
    let (server, model) = (Served::start().await, model(&[]));
    let id = server.conversation(&model).await;
    let path = format!("/sockets/events/{id}");
    let mut by_query = server.socket_with(&format!("{path}?session_api_key={KEY}"), &[]).await.unwrap();
    assert!(is_state(&by_query.receive().await.unwrap()));
    let mut by_header = server.socket_with(&path, &[("x-session-api-key", KEY)]).await.unwrap();
    assert!(is_state(&by_header.receive().await.unwrap()));
    let mut by_frame = server.socket_with(&path, &[]).await.unwrap();
    by_frame.say(&json!({"type": "auth", "session_api_key": KEY}).to_string()).await;
    assert!(is_state(&by_frame.receive().await.unwrap()));
    // A key that is not needed is ignored.
    by_frame.say(&json!({"type": "auth", "session_api_key": "x"}).to_string()).await;
    by_frame.say("garbage{").await;
    assert_eq!(by_frame.receive().await.unwrap()["code"], json!("JSONDecodeError"));
    for wrong in [format!("{path}?session_api_key=wrong"), format!("{path}?session_api_key=")] {
        assert_eq!(server.socket_with(&wrong, &[]).await.err(), Some(403));
    }
    assert_eq!(server.socket_with(&path, &[("x-session-api-key", "wrong")]).await.err(), Some(403));
    for frame in ["garbage", "[]", r#"{"type":"auth"}"#, r#"{"type":"auth","session_api_key":"wrong"}"#] {
        let mut socket = server.socket_with(&path, &[]).await.unwrap();
        socket.say(frame).await;
        assert_eq!(socket.receive().await, Err((4001, "Authentication failed".to_owned())), "{frame}");
    }
}

#[tokio::test]
async fn sockets_of_unknown_conversations_are_closed_with_a_code() {
    let server = Served::start().await;
    let gone = Err((4004, "Conversation not found".to_owned()));
    for kind in ["events", "session"] {
        let mut socket = server.socket(&format!("/sockets/{kind}/{}", Uuid::new_v4())).await;
        assert_eq!(socket.receive().await, gone, "{kind}");
        let key = [("x-session-api-key", KEY)];
        assert_eq!(server.socket_with(&format!("/sockets/{kind}/not-an-id"), &key).await.err(), Some(403));
    }
}

#[tokio::test]
async fn the_number_of_sockets_of_a_conversation_is_limited() {
    let (server, model) = (Served::start().await, model(&[]));
    let id = server.conversation(&model).await;
    let mut sockets = Vec::new();
    for _ in 0..50 {
        let mut socket = server.socket(&format!("/sockets/events/{id}")).await;
        assert!(is_state(&socket.receive().await.unwrap()));
        sockets.push(socket);
    }
    let mut late = server.socket(&format!("/sockets/events/{id}")).await;
    assert_eq!(late.receive().await, Err((1013, "Too many connections for this conversation".to_owned())));
    drop(sockets.pop());
    until(async || server.socket(&format!("/sockets/events/{id}")).await.receive().await.is_ok()).await;
}

#[tokio::test]
async fn a_frame_is_a_message_and_an_invalid_one_is_reported_only_to_its_sender() {
    let (server, model) = (Served::start().await, model(&["Hello."]));
    let id = server.conversation(&model).await;
    let mut socket = server.socket(&format!("/sockets/events/{id}")).await;
    let mut other = server.socket(&format!("/sockets/events/{id}")).await;
    assert!(is_state(&socket.receive().await.unwrap()) && is_state(&other.receive().await.unwrap()));
    for (frame, code) in [
        ("garbage{", "JSONDecodeError"),
        (r#"{"foo":"bar"}"#, "ValidationError"),
        (r#"{"role":"user","content":[{"type":"nope"}]}"#, "ValidationError"),
    ] {
        socket.say(frame).await;
        let error = socket.receive().await.unwrap();
        assert_eq!((&error["kind"], &error["code"]), (&json!("ServerErrorEvent"), &json!(code)));
    }
    socket.say(r#"{"role":"user","content":"Hi"}"#).await;
    let answer = other.receive_until(|frame| frame["source"] == "agent" && is("MessageEvent")(frame)).await;
    assert_eq!(answer["llm_message"]["content"][0]["text"], json!("Hello."));
    assert_eq!(
        server.get(&format!("/api/conversations/{id}/events/count?kind=ServerErrorEvent")).await.ok(),
        json!(0)
    );
}

#[tokio::test]
async fn the_session_socket_resumes_from_any_sequence() {
    let (server, model) = (Served::start().await, model(&["Hello.", "Again."]));
    let id = server.conversation(&model).await;
    server.say_until_at_rest(&id, "Hi").await;
    let length = server.get(&format!("/api/conversations/{id}/events/count")).await.ok().as_u64().unwrap();
    for (query, from) in [("?after_seq=-1", 0), ("?after_seq=1", 2), ("", length), ("?after_seq=99", length)]
    {
        let mut socket = server.socket(&format!("/sockets/session/{id}{query}")).await;
        let sync = socket.receive().await.unwrap();
        assert_eq!(sync, json!({"type": "sync", "from_seq": from, "through_seq": length - 1}), "{query}");
        for sequence in from..length {
            let frame = socket.receive().await.unwrap();
            assert_eq!((&frame["type"], &frame["seq"]), (&json!("durable"), &json!(sequence)));
        }
        let state = socket.receive().await.unwrap();
        assert_eq!((&state["type"], is_state(&state["event"])), (&json!("transient"), true));
    }
    let mut socket = server.socket(&format!("/sockets/session/{id}")).await;
    socket.receive_until(|frame| frame["type"] == "transient").await;
    socket.say("garbage{").await;
    let error = socket.receive().await.unwrap();
    assert_eq!((&error["type"], &error["code"]), (&json!("error"), &json!("JSONDecodeError")));
    socket.say(r#"{"role":"user","content":"Go on"}"#).await;
    let mut next = length;
    loop {
        let frame = socket.receive().await.unwrap();
        if frame["type"] == "durable" {
            assert_eq!(frame["seq"], json!(next));
            next += 1;
        }
        if frame["type"] == "transient" && frame["event"]["value"]["execution_status"] == "finished" {
            break;
        }
    }
    assert_eq!(server.get(&format!("/api/conversations/{id}/events/count")).await.ok(), json!(next));
    let key = [("x-session-api-key", KEY)];
    assert_eq!(
        server.socket_with(&format!("/sockets/session/{id}?after_seq=x"), &key).await.err(),
        Some(403)
    );
}

#[tokio::test]
async fn commands_are_sent_and_their_output_received_on_a_socket() {
    let server = Served::start().await;
    let mut socket = server.socket("/sockets/bash-events").await;
    socket.say(r#"{"command":"echo one; exit 3"}"#).await;
    assert_eq!(socket.receive_until(is("BashCommand")).await["command"], json!("echo one; exit 3"));
    let output = socket.receive_until(|frame| !frame["exit_code"].is_null()).await;
    assert_eq!((&output["exit_code"], &output["stdout"]), (&json!(3), &json!("one\n")));
    for (frame, code) in
        [("garbage{", "JSONDecodeError"), ("[]", "ValidationError"), ("{}", "ValidationError")]
    {
        socket.say(frame).await;
        let error = socket.receive().await.unwrap();
        assert_eq!((&error["kind"], &error["code"]), (&json!("BashError"), &json!(code)));
    }
    let mut again = server.socket("/sockets/bash-events?resend_mode=all").await;
    assert_eq!(again.receive().await.unwrap()["kind"], json!("BashCommand"));
    let mut unknown = server.socket_with("/sockets/bash-events", &[]).await.unwrap();
    unknown.say("{}").await;
    assert_eq!(unknown.receive().await, Err((4001, "Authentication failed".to_owned())));
}

#[tokio::test]
async fn a_server_that_ends_closes_its_sockets_with_code_1012() {
    let (mut server, model) = (Served::start().await, model(&[]));
    let id = server.conversation(&model).await;
    let mut sockets = Vec::new();
    for path in [format!("/sockets/events/{id}"), format!("/sockets/session/{id}")] {
        let mut socket = server.socket(&path).await;
        socket.receive().await.unwrap();
        sockets.push(socket);
    }
    let mut bash = server.socket("/sockets/bash-events").await;
    bash.say("garbage{").await;
    bash.receive().await.unwrap();
    sockets.push(bash);
    server.stop().await;
    for mut socket in sockets {
        let end = loop {
            if let Err(end) = socket.receive().await {
                break end;
            }
        };
        assert_eq!(end, (1012, "the server ends".to_owned()));
    }
}

/// How long an answer waits for subscribers: `DELIVERY_TIMEOUT` of the hub.
const DELIVERY_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(1);
/// The same after a subscriber was late: `DELIVERY_TIMEOUT_IF_LATE` of the hub.
const DELIVERY_TIMEOUT_IF_LATE: std::time::Duration = std::time::Duration::from_millis(100);

#[tokio::test(flavor = "multi_thread")]
async fn the_event_of_a_command_is_sent_before_the_answer() {
    use std::io::{Read as _, Write as _};

    let (server, model) = (Served::start().await, model(&[]));
    let id = server.conversation(&model).await;
    let mut socket = std::net::TcpStream::connect(server.address).unwrap();
    let head = format!(
        "GET /sockets/events/{id} HTTP/1.1\r\nx-session-api-key: {KEY}\r\nhost: {}\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        server.address
    );
    socket.write_all(head.as_bytes()).unwrap();
    socket.set_nonblocking(true).unwrap();
    // Returns the bytes that have arrived, without waiting.
    let read_arrived = || {
        let (mut socket, mut bytes) = (&socket, Vec::new());
        let _would_block = socket.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let mut begin = String::new();
    until(async || {
        begin.push_str(&read_arrived());
        begin.contains("full_state")
    })
    .await;
    let mut timeout = DELIVERY_TIMEOUT;
    for round in 0..20 {
        let kind = if round % 2 == 0 { "AlwaysConfirm" } else { "NeverConfirm" };
        let words = format!("words-{round}");
        for (path, body, expected) in [
            ("confirmation_policy", json!({"policy": {"kind": kind}}), kind),
            ("events", json!({"role": "user", "content": [{"type": "text", "text": words}]}), words.as_str()),
        ] {
            let begun = std::time::Instant::now();
            server.post(&format!("/api/conversations/{id}/{path}"), body).await.ok();
            let mut seen = read_arrived();
            // On a busy machine the answer may come before the event, but only after the timeout.
            let took = begun.elapsed();
            assert!(
                seen.contains(expected) || took >= timeout,
                "{round}: {path} was answered after {took:?}"
            );
            if took >= DELIVERY_TIMEOUT {
                timeout = DELIVERY_TIMEOUT_IF_LATE;
            }
            until(async || {
                seen.push_str(&read_arrived());
                seen.contains(expected)
            })
            .await;
        }
    }
    // A subscriber that reads nothing delays the answers only for a short time. The messages fill the system's buffers.
    let large = "x".repeat(1 << 20);
    for _ in 0..12 {
        let message = json!({"role": "user", "content": [{"type": "text", "text": large}]});
        server.post(&format!("/api/conversations/{id}/events"), message).await.ok();
    }
}
