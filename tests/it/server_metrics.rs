//! `/metrics`, the page that Prometheus reads.

use annals::server::Config;
use annals::{Expected, Store};
use reqwest::header::AUTHORIZATION;

use crate::support::events::pause;
use crate::support::served::Served;
use crate::support::{Scratch, conversation};

/// The value of the metric `name`.
fn figure(text: &str, name: &str) -> f64 {
    let line = text.lines().find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ')));
    line.unwrap_or_else(|| panic!("{name} is not in\n{text}")).rsplit(' ').next().unwrap().parse().unwrap()
}

fn append(store: &Store, id: &str) {
    store.append(&conversation("talk"), Expected::Any, &[pause(id)]).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_file_the_process_and_its_requests_are_counted() {
    let scratch = Scratch::new();
    let store = scratch.open();
    append(&store, "e0");
    append(&store, "e1");
    let server = Served::start(&store).await;
    server.get("/api/annals/conversations/talk/state").await;
    server.get("/api/annals/conversations/nobody/state").await;
    server.get("/no/such/path").await;
    let feed = server.client.get(format!("{}/api/annals/feed", server.url)).send().await.unwrap();
    let answer = server.get("/metrics").await;
    assert_eq!(answer.content_type, "text/plain; version=0.0.4; charset=utf-8");
    let text = &answer.text;
    assert_eq!(figure(text, "annals_log_position"), 2.0);
    assert_eq!(figure(text, "annals_conversations"), 1.0);
    assert_eq!(figure(text, "annals_appends_total"), 2.0);
    assert_eq!(figure(text, "annals_commits_total"), 2.0);
    assert_eq!(figure(text, "annals_feeds_open"), 1.0);
    assert_eq!(figure(text, "annals_runs"), 0.0);
    assert!(figure(text, "annals_database_bytes") > 0.0 && figure(text, "annals_wal_bytes") > 0.0);
    let route = r#"method="GET",route="/api/annals/conversations/{conversation_id}/state""#;
    assert_eq!(figure(text, &format!("annals_http_requests_total{{{route},status=\"200\"}}")), 1.0);
    assert_eq!(figure(text, &format!("annals_http_requests_total{{{route},status=\"404\"}}")), 1.0);
    assert_eq!(figure(text, &format!("annals_http_request_seconds_bucket{{{route},le=\"+Inf\"}}")), 2.0);
    assert_eq!(figure(text, r#"annals_http_requests_total{method="GET",route="none",status="404"}"#), 1.0);
    drop(feed);
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_follows_the_file_is_counted_by_how_far_it_is_behind() {
    let scratch = Scratch::new();
    let store = scratch.open();
    append(&store, "e0");
    append(&store, "e1");
    let server = Served::start(&store).await;
    let figures = async || server.get("/metrics").await.text;
    let text = figures().await;
    assert_eq!(figure(&text, "annals_feed_behind"), 0.0, "no client follows");
    assert!(!text.contains("annals_subscription_behind{"));

    let mut mailer = store.subscription("mailer \"of\" all").unwrap();
    let name = r#"annals_subscription_behind{subscription="mailer \"of\" all"}"#;
    assert_eq!(figure(&figures().await, name), 2.0);
    assert_eq!(mailer.next_page(1, std::time::Duration::ZERO).unwrap().len(), 1);
    mailer.acknowledge().unwrap();
    assert_eq!(figure(&figures().await, name), 1.0);

    // A client that does not read: what lies between the two is full after some megabytes.
    let url = format!("{}/api/annals/feed?after=0", server.url);
    let feed = server.client.get(url).send().await.unwrap();
    let large = "x".repeat(1 << 20);
    for number in 0..40 {
        let text = format!(r#"{{"id":"large-{number}","kind":"PauseEvent","detail":"{large}"}}"#);
        let event = annals::NewEvent::parse(text).unwrap();
        store.append(&conversation("talk"), Expected::Any, &[event]).unwrap();
    }
    let text = figures().await;
    assert!(figure(&text, "annals_feed_behind") > 1.0, "{text}");
    assert_eq!(figure(&text, name), 41.0);
    drop(feed);
    let closed = async { while figure(&figures().await, "annals_feed_behind") > 0.0 {} };
    tokio::time::timeout(std::time::Duration::from_secs(120), closed)
        .await
        .expect("the feed ends with its client");
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_may_be_sent_as_a_bearer_token() {
    let scratch = Scratch::new();
    let config = Config::default().session_keys(vec!["secret".to_owned()]);
    let server = Served::with(&scratch.open(), config).await;
    for (token, status) in [("Bearer secret", 200), ("Bearer wrong", 401), ("secret", 401)] {
        let request = server.client.get(format!("{}/metrics", server.url)).header(AUTHORIZATION, token);
        assert_eq!(request.send().await.unwrap().status(), status, "{token}");
    }
    server.end().await;
}

#[cfg(all(feature = "cli", target_os = "linux"))]
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_pins_the_log_is_named_in_the_metrics_and_on_standard_error() {
    use tokio::io::{AsyncBufReadExt as _, BufReader};

    use crate::hostile::{KEY, ServerProcess};

    let mut server = ServerProcess::start().await;
    let mut stderr = BufReader::new(server.child.stderr.take().unwrap()).lines();
    let talk = "00000000-0000-4000-8000-000000000007";
    let event = serde_json::json!({"id": "event-0", "kind": "PauseEvent", "source": "user"});
    let (status, _) = server.post(&format!("/api/annals/conversations/{talk}/events"), event).await;
    assert_eq!(status, 200);
    let figures = async || {
        let asked = server.client.get(format!("{}/metrics", server.url)).header("x-session-api-key", KEY);
        asked.send().await.unwrap().text().await.unwrap()
    };
    assert_eq!(figure(&figures().await, "annals_wal_pinned"), 0.0);

    let db = rusqlite::Connection::open(server.path("annals.db")).unwrap();
    db.execute_batch("BEGIN").unwrap();
    let _: i64 = db.query_row("SELECT count(*) FROM event", [], |row| row.get(0)).unwrap();
    // The log file is made as long as it would have grown. No process reads the added bytes.
    let log = std::fs::File::options().write(true).open(server.path("annals.db-wal")).unwrap();
    let bytes = log.metadata().unwrap().len();
    log.set_len(400 << 20).unwrap();
    let process = std::process::id().to_string();
    let mut next = async || loop {
        let line = stderr.next_line().await.unwrap().expect("a warning");
        if line.contains("restart") {
            return line;
        }
    };
    let line = next().await;
    let text = figures().await;
    assert_eq!(figure(&text, "annals_wal_pinned"), 1.0);
    if std::fs::read_to_string("/proc/locks").is_ok_and(|text| !text.is_empty()) {
        assert!(line.contains("400 MiB") && line.contains(&process), "{line}");
        assert!(text.contains(&format!("annals_wal_readers{{process=\"{process}\",name=")), "{text}");
    }
    drop(db);
    log.set_len(bytes).unwrap();
    let line = next().await;
    assert!(line.contains("can restart again"), "{line}");
    assert!(!figures().await.contains("annals_wal_readers{"));
    server.end().await;
}
