//! Clients that read nothing, or ask for much, against `annals serve` as a process. The server holds a bounded number
//! of bytes for them, and still serves other clients.
#![cfg(all(feature = "cli", feature = "server", target_os = "linux"))]

use futures_util::StreamExt as _;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

use crate::hostile::{KEY, PATIENCE, ServerProcess};
use crate::support::caller::until;

/// The size of a large event: a screenshot, or the output of a command.
const LARGE_BYTES: usize = 4 << 20;

/// The number of large events. Without a bound, one reader of all of them would take 240 MiB.
const EVENTS: usize = 30;

/// The number of events that are appended while clients are connected.
const LIVE: usize = 4;

/// The most memory that the server may hold, in MiB, whatever its clients do.
const MEMORY_MAX: u64 = 300;

/// The same with full queues for two webhook addresses, in MiB. It was 1,100 before the queues were bounded in bytes.
const MEMORY_WITH_QUEUES_MAX: u64 = 500;

const TALK: &str = "00000000-0000-4000-8000-000000000007";

/// Appends an event of `bytes` bytes. The JSON is written by hand, because serde would be slower than the server.
async fn append(server: &ServerProcess, talk: &str, number: usize, bytes: usize) {
    let event = format!(
        r#"{{"id":"event-{number}","kind":"PauseEvent","source":"user","padding":"{}"}}"#,
        "x".repeat(bytes)
    );
    let asked = server.client.post(format!("{}/api/annals/conversations/{talk}/events", server.url));
    let answer = asked.header("x-session-api-key", KEY).body(event).send().await.unwrap();
    assert_eq!(answer.status(), 200);
}

/// The ids of the events in a JSON text, in order.
fn ids(text: &str) -> Vec<String> {
    let found = text.split(r#""id":"event-"#).skip(1);
    found.map(|rest| format!("event-{}", rest.split('"').next().unwrap())).collect()
}

/// Sends a request and returns the text of the answer.
async fn read(server: &ServerProcess, method: Method, path: &str, body: Option<Value>) -> String {
    let asked = server.client.request(method, format!("{}{path}", server.url)).timeout(PATIENCE);
    let asked = asked.header("x-session-api-key", KEY).body(body.unwrap_or_default().to_string());
    let answer = asked.send().await.unwrap();
    assert_eq!(answer.status(), 200, "{path}");
    answer.text().await.unwrap()
}

/// Opens a connection that sends a request and reads only the beginning of the answer.
async fn stalled(server: &ServerProcess, path: &str, more: &str) -> TcpStream {
    let address = server.url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nx-session-api-key: {KEY}\r\n{more}\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut begin = [0; 12];
    tokio::time::timeout(PATIENCE, stream.read_exact(&mut begin)).await.unwrap().unwrap();
    assert!(
        matches!(&begin, b"HTTP/1.1 200" | b"HTTP/1.1 101"),
        "{path}: {}",
        String::from_utf8_lossy(&begin)
    );
    stream
}

const SOCKET: &str = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
                      sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

/// Reads all pages and returns the ids of their events. Asserts that no page exceeds its limit in bytes.
async fn page_through(server: &ServerProcess, path: &str, next: &str, cursor: &str) -> Vec<String> {
    let (mut all, mut at) = (Vec::new(), String::new());
    loop {
        let page = read(server, Method::GET, &format!("{path}?limit=100{at}"), None).await;
        let found = ids(&page);
        assert!(
            !found.is_empty() && page.len() < (8 << 20) + 4096,
            "{} events, {} bytes",
            found.len(),
            page.len()
        );
        all.extend(found);
        let (_, next) = page.rsplit_once(next).unwrap();
        let next = next.trim_start_matches("\":").trim_end_matches('}').trim_matches('"');
        if next == "null" {
            return all;
        }
        at = format!("&{cursor}={next}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_read_nothing_cost_little_and_block_no_other_client() {
    let server = ServerProcess::start().await;
    for number in 0..EVENTS {
        append(&server, TALK, number, LARGE_BYTES - 1024).await;
    }
    let all: Vec<String> = (0..EVENTS).map(|number| format!("event-{number}")).collect();
    let mut held = Vec::new();
    for _ in 0..20 {
        held.push(stalled(&server, &format!("/sockets/events/{TALK}?resend_all=true"), SOCKET).await);
    }
    for _ in 0..4 {
        held.push(stalled(&server, &format!("/sockets/session/{TALK}?after_seq=-1"), SOCKET).await);
        held.push(stalled(&server, "/sockets/bash-events", SOCKET).await);
        held.push(stalled(&server, "/api/annals/feed?after=0", "").await);
        held.push(stalled(&server, &format!("/api/conversations/{TALK}/events/search?limit=100"), "").await);
        held.push(stalled(&server, &format!("/api/annals/conversations/{TALK}/events?limit=1000"), "").await);
    }
    // Other clients are served: they read page after page, up to the last event.
    let path = format!("/api/conversations/{TALK}/events/search");
    assert_eq!(page_through(&server, &path, "next_page_id", "page_id").await, all);
    let path = format!("/api/annals/conversations/{TALK}/events");
    assert_eq!(page_through(&server, &path, "next", "from").await, all);
    // They read many events by id in one answer.
    let path = format!("/api/conversations/{TALK}/events");
    assert_eq!(ids(&read(&server, Method::GET, &path, Some(json!(all))).await), all);
    // A new socket receives all stored events, and then the new ones.
    let address = format!("{}/sockets/events/{TALK}?resend_all=true", server.url.replace("http", "ws"));
    let mut request = address.into_client_request().unwrap();
    request.headers_mut().insert("x-session-api-key", KEY.parse().unwrap());
    let (mut socket, _) = connect_async(request).await.unwrap();
    let (mut received, mut live): (Vec<String>, _) = (Vec::new(), 0);
    while received.len() < EVENTS + LIVE {
        if received.len() >= EVENTS && live < LIVE {
            append(&server, TALK, EVENTS + live, LARGE_BYTES - 1024).await;
            live += 1;
        }
        let frame = tokio::time::timeout(PATIENCE, socket.next()).await.expect("a frame in time");
        let Message::Text(text) = frame.unwrap().unwrap() else { continue };
        received.extend(ids(&text));
    }
    assert_eq!(received, (0..EVENTS + LIVE).map(|number| format!("event-{number}")).collect::<Vec<_>>());
    // A command prints very much while clients subscribe to commands and read nothing.
    let floods = json!({"command": "head -c 120000000 /dev/zero | tr '\\0' x"});
    let (status, last) = server.post("/api/bash/execute_bash_command", floods).await;
    assert_eq!((status.as_u16(), &last["exit_code"]), (200, &json!(0)));
    let (_, page) = server.get("/api/bash/bash_events/search?limit=100").await;
    let printed: usize = page["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|item| item["stdout"].as_str())
        .map(str::len)
        .sum();
    assert!((1..=8 << 20).contains(&printed) && page["next_page_id"].is_string(), "{printed} bytes");
    let peak = server.peak();
    assert!(peak < MEMORY_MAX, "{peak} MiB");
    drop(held);
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_that_hang_cost_little() {
    // The webhook address accepts connections and requests, and never answers.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let hanging = tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            held.push(stream);
        }
    });
    let hooks = json!([{"base_url": url, "flush_delay": 0.0}, {"base_url": format!("{url}/b")}]).to_string();
    let keys = format!("[\"{KEY}\"]");
    let server = ServerProcess::with(&[("OH_SESSION_API_KEYS", &keys), ("OH_WEBHOOKS", &hooks)]).await;
    for number in 0..8 * 6 {
        let talk = format!("00000000-0000-4000-8000-0000000000{:02}", number % 8);
        append(&server, &talk, number, LARGE_BYTES).await;
    }
    // Once the last subscriber has received its event, all earlier events have been handed to the webhooks.
    let talk = "00000000-0000-4000-8000-000000000099";
    append(&server, talk, 0, 10).await;
    let address = format!("{}/sockets/events/{talk}", server.url.replace("http", "ws"));
    let mut request = address.into_client_request().unwrap();
    request.headers_mut().insert("x-session-api-key", KEY.parse().unwrap());
    let (mut socket, _) = connect_async(request).await.unwrap();
    append(&server, talk, 1, 10).await;
    until(async || match socket.next().await.unwrap().unwrap() {
        Message::Text(text) => text.contains("event-1"),
        _ => false,
    })
    .await;
    let peak = server.peak();
    assert!(peak < MEMORY_WITH_QUEUES_MAX, "{peak} MiB");
    server.end().await;
    hanging.abort();
}
