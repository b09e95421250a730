//! Bytes that no client would send, to a server that runs: frames of sockets, settings, and whatever arrives at the port.
//!
//! Whatever comes, the server answers the next one, and what it keeps is sound. [`crate::fuzz`] says how to have more.

use std::cell::Cell;
use std::sync::LazyLock;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::Runtime;

use crate::fuzz::run_on;
use crate::support::caller::{KEY, Served, model};

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());

/// Longer than any answer takes.
const PATIENCE: Duration = Duration::from_secs(60);

fn bytes(texts: impl IntoIterator<Item = String>) -> Vec<Vec<u8>> {
    texts.into_iter().map(String::into_bytes).collect()
}

async fn is_well(server: &Served) {
    assert_eq!(server.get("/health").await.status, 200);
    assert!(server.store.audit().verify(None, &mut |_| ()).unwrap().findings.is_empty());
}

/// Frames as a case holds them: how the socket is opened, then frame after frame with 0x1e between.
fn talks() -> Vec<Vec<u8>> {
    let auth = json!({"type": "auth", "session_api_key": KEY}).to_string();
    let said = |content: Value, run: bool| {
        json!({"role": "user", "content": content, "run": run, "sender": "me", "extended_content": []})
            .to_string()
    };
    let texts = [
        said(json!([{"type": "text", "text": "Hi"}]), false),
        said(json!("a text"), true),
        said(json!([{"type": "image", "image_urls": ["data:image/png;base64,AAAA"]}]), false),
        json!({"role": "assistant", "content": []}).to_string(),
        json!({"command": "true", "cwd": null, "timeout": 1}).to_string(),
        "not json".to_owned(),
        String::new(),
    ];
    let mut talks = Vec::new();
    for how in b'0'..b'8' {
        for text in &texts {
            talks
                .push([&[how], auth.as_bytes(), &[0x1e], text.as_bytes(), &[0x1e], text.as_bytes()].concat());
            talks.push([&[how], text.as_bytes()].concat());
        }
    }
    talks
}

/// What may be sent before a key is seen is bounded; cases with less are sure to be within that.
const KEYLESS_BYTES: usize = 8 << 10;

/// Says the frames of a case. With a key, each that is no JSON must be answered; without one, none may be.
async fn talk(server: &Served, id: &str, data: &[u8]) {
    let Some((how, rest)) = data.split_first() else { return };
    let (is_bash, is_unknown, is_binary) = (how & 1 != 0, how & 2 != 0, how & 4 != 0);
    let path = if is_bash { "/sockets/bash-events".to_owned() } else { format!("/sockets/events/{id}") };
    let keys = if is_unknown { vec![] } else { vec![("x-session-api-key", KEY)] };
    let mut socket = server.socket_with(&path, &keys).await.expect("a socket");
    let key = json!({"type": "auth", "session_api_key": KEY});
    // Whether there was a key, in the header or the first frame; how many bytes were said, how many frames are no JSON.
    let (mut is_let_in, mut said, mut wrong) = ((!is_unknown).then_some(true), 0, 0);
    for frame in rest.split(|byte| *byte == 0x1e).take(16) {
        let text = String::from_utf8_lossy(frame);
        let value: Option<Value> = serde_json::from_str(&text).ok();
        // A command would be run, whatever it came to be: only the harmless one is.
        let command = value.as_ref().and_then(|value| value.get("command")?.as_str());
        if is_bash && command.is_some_and(|command| command != "true") {
            continue;
        }
        let is_bytes = is_binary && text.len().is_multiple_of(3);
        is_let_in.get_or_insert(!is_bytes && value.as_ref() == Some(&key));
        said += text.len();
        wrong += usize::from(!is_bytes && value.is_none());
        if !socket.offer(&text, is_bytes).await {
            break;
        }
    }
    wrong += 1;
    let _closed_already = socket.offer("]", false).await;
    let mut told = 0;
    while told < wrong
        && let Some(frame) = socket.receive_any().await
    {
        told += usize::from(frame["code"] == "JSONDecodeError");
    }
    match is_let_in {
        Some(true) if is_unknown && said > KEYLESS_BYTES => {}
        Some(true) => assert_eq!(told, wrong, "the socket was closed"),
        Some(false) | None => assert_eq!(told, 0, "it was answered without a key"),
    }
}

#[test]
fn any_frame_of_a_socket_is_answered_or_ends_it() {
    let model = model(&[]);
    let (server, id) = RUNTIME.block_on(async {
        let server = Served::start().await;
        let id = server.conversation(&model).await;
        (server, id)
    });
    run_on("socket", &talks(), 300, |data| {
        RUNTIME.block_on(async {
            talk(&server, &id, data).await;
            assert_eq!(server.get("/health").await.status, 200);
        });
    });
    RUNTIME.block_on(is_well(&server));
}

#[test]
fn any_settings_are_taken_or_refused() {
    let server = RUNTIME.block_on(Served::start());
    let change = async |data: &[u8]| {
        let headers = [("x-session-api-key", KEY), ("content-type", "application/json")];
        server.send("PATCH", "/api/settings", &headers, data).await
    };
    let kept = async || server.get("/api/settings").await.ok();
    let seeds = [
        json!({"agent_settings_diff": {"llm": {"model": "m", "temperature": 0.5, "api_key": "k"}, "tools": []}}),
        json!({"agent_settings_diff": {"condenser": {"kind": "NoOpCondenser"}, "mcp_config": {"mcpServers": {}}}}),
        json!({"conversation_settings_diff": {"max_iterations": 5, "confirmation_mode": true}}),
        json!({"misc_settings_diff": {"language": "en", "nested": {"a": [1, 2.5, null]}}}),
        json!({"active_profile": null, "active_agent_profile_id": "x"}),
    ];
    RUNTIME.block_on(async {
        for seed in &seeds[2..4] {
            change(seed.to_string().as_bytes()).await.ok();
        }
        let kept = kept().await;
        assert_eq!(
            (&kept["conversation_settings"]["max_iterations"], &kept["misc_settings"]["language"]),
            (&json!(5), &json!("en"))
        );
    });
    let (taken, refused) = (Cell::new(0), Cell::new(0));
    run_on("settings", &bytes(seeds.map(|seed| seed.to_string())), 300, |data| {
        RUNTIME.block_on(async {
            let before = kept().await;
            let changed = change(data).await;
            let after = kept().await;
            assert!(after.is_object());
            match changed.status {
                200..300 => taken.set(taken.get() + 1),
                400..500 => {
                    refused.set(refused.get() + 1);
                    assert_eq!(after, before, "a refused change changes nothing: {}", changed.text());
                }
                other => panic!("{other}: {}", changed.text()),
            }
        });
    });
    assert!(taken.get() >= 2 && refused.get() >= 1, "{} taken, {} refused", taken.get(), refused.get());
}

/// Sends bytes to the port and returns the answer, which ends with the connection.
async fn answer(server: &Served, data: &[u8]) -> Vec<u8> {
    let mut stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
    // It may hang up before it has read it all.
    let _refused = stream.write_all(data).await;
    let _refused = stream.shutdown().await;
    let mut answer = Vec::new();
    let ended = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
    assert!(ended.is_ok(), "it neither answers nor hangs up");
    answer
}

#[test]
fn any_bytes_at_the_port_are_answered_or_refused() {
    let seeds = [
        "GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "GET /api/conversations/search?limit=1 HTTP/1.1\r\nhost: localhost\r\naccept: */*\r\n\r\nGET / HTTP/1.1\r\nhost: x\r\n\r\n",
        "POST /api/conversations HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        "POST /api/conversations HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n{}",
        "GET /sockets/bash-events HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n\u{1}\u{2}\u{3}\u{4}",
        "OPTIONS /api/settings HTTP/1.1\r\nhost: x\r\norigin: http://localhost:3000\r\naccess-control-request-method: PATCH\r\n\r\n",
        "GET /%2e%2e/%00?q=%ff&q=1 HTTP/1.0\r\ncookie: a=b\r\n\r\n",
    ];
    // Whoever speaks here has no key: nothing that is asked for is done.
    let server = RUNTIME.block_on(Served::with(|config| config.runs_max(1)));
    let settings = RUNTIME.block_on(async {
        for (seed, line) in [(seeds[0], "HTTP/1.1 200"), (seeds[1], "HTTP/1.1 401")] {
            // A client that has not said that it ends is always answered.
            let mut stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
            stream.write_all(seed.as_bytes()).await.unwrap();
            let mut begin = vec![0; line.len()];
            tokio::time::timeout(PATIENCE, stream.read_exact(&mut begin)).await.unwrap().unwrap();
            assert_eq!(String::from_utf8_lossy(&begin), line, "{seed}");
        }
        server.get("/api/settings").await.ok()
    });
    run_on("port", &bytes(seeds.map(str::to_owned)), 300, |data| {
        RUNTIME.block_on(async {
            let answer = answer(&server, data).await;
            let is_http = answer.is_empty() || answer.starts_with(b"HTTP/1.");
            assert!(is_http, "{}", String::from_utf8_lossy(&answer));
            assert_eq!(server.get("/health").await.status, 200);
        });
    });
    RUNTIME.block_on(async {
        assert_eq!(server.get("/api/conversations/count").await.ok(), json!(0));
        assert_eq!(server.get("/api/settings").await.ok(), settings);
        is_well(&server).await;
    });
}
