//! Access: which clients may call, how much they may send, and how long they may take.

use std::time::Duration;

use annals::server::Config;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::caller::{KEY, Served, model};

#[tokio::test]
async fn without_the_key_every_route_answers_unauthorized() {
    let server = Served::start().await;
    let routes = [
        ("GET", "/api/conversations/search"),
        ("POST", "/api/conversations"),
        ("GET", "/api/conversations/not-an-id"),
        ("POST", "/api/bash/execute_bash_command"),
        ("GET", "/api/file/download?path=/etc/passwd"),
        ("GET", "/api/git/changes?path=/"),
        ("GET", "/api/settings"),
        ("GET", "/api/settings/secrets/A"),
        ("GET", "/api/profiles"),
        ("GET", "/api/tools/"),
        ("POST", "/api/skills"),
        ("GET", "/api/workspaces"),
        ("POST", "/api/auth/workspace-session"),
    ];
    for (method, path) in routes {
        for key in [None, Some("wrong"), Some(""), Some(&KEY[..KEY.len() - 1])] {
            let headers: Vec<_> = key.map(|key| ("x-session-api-key", key)).into_iter().collect();
            let answer = server.send(method, path, &headers, b"{}").await;
            assert_eq!(answer.refusal(), (401, json!("Unauthorized")), "{method} {path} {key:?}");
        }
    }
}

#[tokio::test]
async fn any_of_several_keys_is_accepted() {
    let keys = vec!["other-key".to_owned(), KEY.to_owned()];
    let server = Served::with(|config| config.session_keys(keys)).await;
    for key in ["other-key", KEY] {
        assert_eq!(
            server.send("GET", "/api/conversations/count", &[("x-session-api-key", key)], b"").await.status,
            200
        );
    }
}

#[tokio::test]
async fn cors_headers_name_only_local_and_configured_origins() {
    let origins = vec!["https://app.example".to_owned()];
    let server = Served::with(|config| config.origins(origins)).await;
    let ask = async |origin: &str| {
        let headers = [
            ("origin", origin),
            ("access-control-request-method", "POST"),
            ("access-control-request-headers", "x-session-api-key"),
        ];
        server.send("OPTIONS", "/api/conversations", &headers, b"").await
    };
    for origin in ["http://localhost:3000", "https://127.0.0.1", "https://app.example"] {
        let answer = ask(origin).await;
        assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, Some(origin)));
        assert_eq!(answer.header("access-control-allow-headers"), Some("x-session-api-key"));
    }
    for origin in ["http://evil.example", "http://localhost.evil.example", "https://app.example.evil", "null"]
    {
        let answer = ask(origin).await;
        assert_eq!((answer.status, answer.header("access-control-allow-origin")), (400, None), "{origin}");
    }
    let foreign = [("origin", "http://evil.example"), ("x-session-api-key", KEY)];
    let answer = server.send("GET", "/api/conversations/count", &foreign, b"").await;
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, None));
}

#[tokio::test]
async fn without_keys_requests_from_foreign_origins_are_refused() {
    let server = Served::with(|config| config.session_keys(Vec::new())).await;
    let body = br#"{"command":"touch pwned"}"#;
    let send = async |headers: &[(&str, &str)]| {
        server.send("POST", "/api/bash/execute_bash_command", headers, body).await.refusal()
    };
    let foreign = (403, json!("Foreign origin"));
    assert_eq!(send(&[("origin", "http://evil.example"), ("content-type", "text/plain")]).await, foreign);
    // A foreign host name that its owner points to this machine.
    let (status, detail) = send(&[("host", "evil.example:8000")]).await;
    assert!(status == 403 && detail.as_str().unwrap().contains("--allow-host"), "{status} {detail}");
    let model = model(&[]);
    let id = server.conversation(&model).await;
    for path in
        [format!("/sockets/events/{id}"), format!("/sockets/session/{id}"), "/sockets/bash-events".into()]
    {
        let refused = server.socket_with(&path, &[("origin", "http://evil.example")]).await.err();
        assert_eq!(refused, Some(403), "{path}");
        assert!(server.socket_with(&path, &[("origin", "http://localhost:3000")]).await.is_ok());
    }
    let own = [("origin", "http://localhost:3000"), ("host", "localhost:8000")];
    assert_eq!(server.send("GET", "/api/conversations/count", &own, b"").await.status, 200);
}

#[tokio::test]
async fn without_keys_a_foreign_page_loads_nothing_and_a_user_may_open_the_page() {
    let hosts = vec!["agents.example".to_owned()];
    let config = |config: Config| config.session_keys(Vec::new()).hosts(hosts);
    let server = Served::with(config).await;
    std::fs::write(server.path("config.js"), "secret = 1").unwrap();
    let download = format!("/api/file/download?path={}", server.path("config.js").display());
    let routes = [
        "/api/conversations/count",
        "/api/git/changes?path=/tmp",
        "/api/settings",
        &download,
        "/openapi.json",
    ];
    for site in ["cross-site", "same-site"] {
        for dest in ["image", "script", "iframe", "document", "empty"] {
            let mode = if dest == "document" || dest == "iframe" { "navigate" } else { "no-cors" };
            let headers = [("sec-fetch-site", site), ("sec-fetch-mode", mode), ("sec-fetch-dest", dest)];
            for path in routes {
                let answer = server.send("GET", path, &headers, b"").await;
                assert_eq!(answer.refusal(), (403, json!("Foreign site")), "{path} {site} {dest}");
            }
            for path in ["/", "/docs"] {
                let status = server.send("GET", path, &headers, b"").await.status;
                assert_eq!(status, if dest == "document" { 200 } else { 403 }, "{path} {site} {dest}");
            }
        }
    }
    for host in ["evil.example", "[::1].evil", "127.0.0.1.evil.example"] {
        let answer = server.send("GET", &download, &[("host", host)], b"").await;
        assert_eq!(answer.status, 403, "{host}");
    }
    for own in
        [("host", "agents.example:8000"), ("sec-fetch-site", "same-origin"), ("sec-fetch-site", "none")]
    {
        let answer = server.send("GET", &download, &[own], b"").await;
        assert_eq!((answer.status, answer.text().as_str()), (200, "secret = 1"), "{own:?}");
    }
}

#[tokio::test]
async fn every_answer_has_the_nosniff_and_same_origin_headers() {
    let server = Served::start().await;
    std::fs::write(server.path("a.js"), "1").unwrap();
    let download = format!("/api/file/download?path={}", server.path("a.js").display());
    for (path, status) in [
        ("/health", 200),
        ("/", 200),
        ("/docs", 200),
        ("/openapi.json", 200),
        ("/nothing", 404),
        ("/api/settings", 200),
        ("/api/conversations/none", 422),
        (&download, 200),
    ] {
        let answer = server.get(path).await;
        assert_eq!(answer.status, status, "{path}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(answer.header("cross-origin-resource-policy"), Some("same-origin"), "{path}");
    }
    assert_eq!(
        server.send("GET", &download, &[], b"").await.header("x-content-type-options"),
        Some("nosniff")
    );
}

#[tokio::test]
async fn heads_and_bodies_are_bounded() {
    let server = Served::start().await;
    let long = "x".repeat(200 << 10);
    let answer = server.send("GET", "/health", &[("x-long", &long)], b"").await;
    assert!([0, 400, 431].contains(&answer.status), "{}", answer.status);
    let many: Vec<(String, &str)> = (0..200).map(|number| (format!("x-{number}"), "y")).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    let answer = server.send("GET", "/health", &many, b"").await;
    assert!([0, 400, 431].contains(&answer.status), "{}", answer.status);
    let body = vec![b' '; (32 << 20) + 1];
    let answer = server.send("POST", "/api/conversations", &[("x-session-api-key", KEY)], &body).await;
    assert!([0, 413].contains(&answer.status), "{}", answer.status);
    assert_eq!(server.get("/api/conversations/count").await.status, 200);
}

#[tokio::test]
async fn deep_json_does_not_stop_the_server() {
    let server = Served::start().await;
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let answer =
        server.send("POST", "/api/conversations", &[("x-session-api-key", KEY)], deep.as_bytes()).await;
    assert_eq!(answer.status, 422);
    assert_eq!(server.get("/api/conversations/count").await.status, 200);
}

/// The test advances the paused clock by half a minute, so that the timeouts pass at once.
#[tokio::test]
async fn silent_and_slow_connections_are_closed() {
    let server = Served::start().await;
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    let mut slow = TcpStream::connect(server.address).await.unwrap();
    slow.write_all(b"GET /health HTTP/1.1\r\nhost: x\r\nx-a: ").await.unwrap();
    let mut pausing = TcpStream::connect(server.address).await.unwrap();
    let head = format!(
        "POST /api/conversations HTTP/1.1\r\nhost: localhost\r\nx-session-api-key: {KEY}\r\ncontent-length: 100\r\n\r\n{{"
    );
    pausing.write_all(head.as_bytes()).await.unwrap();
    // The server accepts the connections before the clock advances.
    assert_eq!(server.get("/health").await.status, 200);
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(31)).await;
    tokio::time::resume();
    for stream in [&mut silent, &mut slow, &mut pausing] {
        let mut rest = Vec::new();
        let ended = tokio::time::timeout(Duration::from_secs(120), stream.read_to_end(&mut rest)).await;
        assert!(ended.is_ok(), "the connection is still open");
    }
    assert_eq!(server.get("/health").await.status, 200);
}

#[tokio::test]
async fn after_a_refusal_a_connection_is_kept_or_announced_as_closed() {
    let server = Served::start().await;
    let ask = async |stream: &mut TcpStream, body: usize, sent: usize| {
        let head = format!(
            "POST /api/conversations HTTP/1.1\r\nhost: {}\r\ncontent-length: {body}\r\n\r\n",
            server.address
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(&vec![b'x'; sent]).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"}") {
            assert!(stream.read_buf(&mut answer).await.unwrap() > 0, "{}", String::from_utf8_lossy(&answer));
        }
        String::from_utf8(answer).unwrap()
    };
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    for body in [0, 10, 60_000] {
        let answer = ask(&mut stream, body, body).await;
        assert!(answer.starts_with("HTTP/1.1 401") && !answer.contains("connection: close"), "{answer}");
    }
    // A body that is too long, and a body that is never sent.
    for sent in [100_000, 0] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let answer = ask(&mut stream, 1_000_000, sent).await;
        assert!(answer.starts_with("HTTP/1.1 401") && answer.contains("connection: close"), "{answer}");
    }
}

#[test]
fn vaults_that_hang_do_not_block_readers() {
    // If each look-up held a thread, all threads would soon be held.
    const THREADS: usize = 8;
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).max_blocking_threads(THREADS).enable_all().build().unwrap();
    runtime.block_on(async {
        let vault = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", vault.local_addr().unwrap());
        let server = Served::with(|config| config.runs_max(4 * THREADS)).await;
        let model = model(&[]);
        let hook = json!([{"matcher": "*", "hooks": [{"type": "command", "command": "true"}]}]);
        let mut conversations = Vec::new();
        for _ in 0..3 * THREADS {
            let mut wanted = server.conversation_request(&model);
            wanted["secrets"] = json!({"L": {"kind": "LookupSecret", "url": url}});
            wanted["hook_config"] = json!({"UserPromptSubmit": hook});
            let made = server.post("/api/conversations", wanted).await.ok();
            conversations.push(made["id"].as_str().unwrap().to_owned());
        }
        // A look-up ends after half a minute. On a busy machine, making a conversation takes seconds. So all look-ups
        // begin once all conversations are made.
        let message = json!({"role": "user", "content": [{"type": "text", "text": "Go"}], "run": true});
        let message = message.to_string();
        let (mut asked, mut lookups) = (Vec::new(), Vec::new());
        for id in conversations {
            let mut stream = TcpStream::connect(server.address).await.unwrap();
            let head = format!(
                "POST /api/conversations/{id}/events HTTP/1.1\r\nhost: {}\r\nx-session-api-key: {KEY}\r\n\
                 content-length: {}\r\n\r\n{message}",
                server.address,
                message.len(),
            );
            stream.write_all(head.as_bytes()).await.unwrap();
            asked.push(stream);
        }
        while lookups.len() < asked.len() {
            lookups.push(vault.accept().await.unwrap().0);
        }
        for path in ["/api/conversations/count", "/api/conversations/search", "/health"] {
            assert_eq!(server.get(path).await.status, 200, "{path}");
        }
        // The answers came while more look-ups hang than there are threads.
        let hangs = |lookup: &TcpStream| {
            let mut bytes = [0; 4096];
            loop {
                match lookup.try_read(&mut bytes) {
                    Ok(0) => return false,
                    Ok(_) => {}
                    Err(error) => return error.kind() == std::io::ErrorKind::WouldBlock,
                }
            }
        };
        let hanging = lookups.iter().filter(|lookup| hangs(lookup)).count();
        assert!(hanging > THREADS, "{hanging}");
    });
    runtime.shutdown_background();
}
