//! Servers of several machines on one log: what a reader sees on each, and what a server does whose file differs.

use annals::server::{Config, Consistency, WebhookSpec};
use annals::{Expected, Store};
use reqwest::StatusCode;

use crate::server::Server;
use crate::support::events::user_message;
use crate::support::model_server::{Answer, Content, ModelServer};
use crate::support::served::Served;
use crate::support::{Scratch, conversation, folder};

async fn serve(store: &Store, consistency: Consistency) -> Served {
    Served::with(store, Config::default().consistency(consistency)).await
}

async fn append(store: &Store, id: &str) {
    let (store, event) = (store.clone(), user_message(id, "text"));
    let append = move || store.append(&conversation("talk"), Expected::Any, &[event]).map(drop);
    tokio::task::spawn_blocking(append).await.unwrap().unwrap();
}

const TALK: &str = "/api/annals/conversations/talk";

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_of_another_machine_sees_what_was_written_before_it_asked() {
    let (server, scratch) = (Server::with_log(), Scratch::new());
    let a = server.open_apart(&scratch.path("a.db")).await;
    let b = server.open_apart(&scratch.path("b.db")).await;
    let [here, there] = [&a, &b].map(|store| serve(store, Consistency::Log));
    let (here, there) = (here.await, there.await);
    for number in 0..30 {
        append(&a, &format!("m-{number}")).await;
        assert_eq!(there.json(TALK).await["event_count"], number + 1);
    }
    // Many questions at once are one question to the log, and each has what was written before it.
    append(&b, "last").await;
    let asked = futures_util::future::join_all((0..20).map(|_| here.json(TALK))).await;
    assert!(asked.iter().all(|talk| talk["event_count"] == 31), "{asked:?}");
    here.end().await;
    there.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_can_name_the_entry_that_an_answer_must_have() {
    let (server, scratch) = (Server::with_log(), Scratch::new());
    let a = server.open_apart(&scratch.path("a.db")).await;
    let b = server.open_apart(&scratch.path("b.db")).await;
    let (here, there) = (serve(&a, Consistency::File).await, serve(&b, Consistency::File).await);
    append(&a, "first").await;
    for number in 0..10 {
        let event = format!(r#"{{"id":"e-{number}","kind":"PauseEvent","source":"user"}}"#);
        let request = here.client.post(format!("{}{TALK}/events", here.url)).body(event);
        let request = request.header("content-type", "application/json");
        let answer = request.send().await.unwrap();
        assert!(answer.status().is_success(), "{}", answer.text().await.unwrap());
        let entry = answer.headers()["annals-entry"].clone();
        let request = there.client.get(format!("{}{TALK}", there.url)).header("annals-as-of", &entry);
        let answer = request.send().await.unwrap();
        let has: u64 = answer.headers()["annals-entry"].to_str().unwrap().parse().unwrap();
        assert!(has >= entry.to_str().unwrap().parse().unwrap());
        let talk: serde_json::Value = answer.json().await.unwrap();
        assert_eq!(talk["event_count"], number + 2);
    }
    for wrong in ["soon", "-1", "999"] {
        let request = there.client.get(format!("{}{TALK}", there.url)).header("annals-as-of", wrong);
        assert_eq!(request.send().await.unwrap().status(), StatusCode::BAD_REQUEST, "{wrong}");
    }
    here.end().await;
    there.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_file_is_ahead_of_the_log_answers_nothing() {
    let (server, scratch) = (Server::with_log(), Scratch::new());
    let store = server.open_apart(&scratch.path("a.db")).await;
    let served = serve(&store, Consistency::File).await;
    append(&store, "one").await;
    let metric = |text: &str, name: &str| -> f64 {
        let line = text.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap_or_default();
        line.rsplit(' ').next().and_then(|value| value.parse().ok()).unwrap_or(-1.0)
    };
    let text = served.get("/metrics").await.text;
    assert_eq!(metric(&text, "annals_shared_entry"), 2.0, "{text}");
    assert_eq!(metric(&text, "annals_shared_log_entry"), 2.0);
    assert_eq!((metric(&text, "annals_shared_trouble"), metric(&text, "annals_shared_stopped")), (0.0, 0.0));
    let set_back = tokio::task::spawn_blocking({
        let store = store.clone();
        move || {
            let before = server.dump();
            let event = [user_message("two", "text")];
            store.append(&conversation("talk"), Expected::Any, &event).unwrap();
            server.restore(&before);
            let event = [user_message("three", "text")];
            let refused = store.append(&conversation("talk"), Expected::Any, &event);
            (server, refused)
        }
    });
    let (server, refused) = set_back.await.unwrap();
    assert!(refused.is_err());
    let answer = served.get(TALK).await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{}", answer.text);
    assert!(answer.text.contains("shared log"), "{}", answer.text);
    let ready = served.get("/ready").await;
    assert_eq!(ready.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(served.get("/alive").await.status, StatusCode::OK);
    assert_eq!(metric(&served.get("/metrics").await.text, "annals_shared_stopped"), 1.0);
    served.end().await;
    tokio::task::spawn_blocking(|| drop((server, store))).await.unwrap();
}

/// A server that names itself to the others on the log.
struct Named {
    url: String,
    stop: tokio::sync::oneshot::Sender<()>,
    running: tokio::task::JoinHandle<()>,
    _folder: tempfile::TempDir,
}

impl Named {
    async fn start(store: &Store, webhooks: Vec<WebhookSpec>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let config = Config::default()
            .conversations_dir(folder.path().join("conversations"))
            .settings_dir(folder.path().join("settings"))
            .webhooks(webhooks)
            .advertise(url.clone())
            .consistency(Consistency::Log);
        let app = std::sync::Arc::new(annals::server::App::new(store.clone(), config).unwrap());
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let served = async {
            let until = async { drop(stopped.await) };
            annals::server::serve(listener, app, until).await.unwrap();
        };
        Self { url, stop, running: tokio::spawn(served), _folder: folder }
    }

    /// Ends it as a signal does.
    async fn end(self) {
        self.stop.send(()).unwrap();
        self.running.await.unwrap();
    }
}

/// The number of conversations that a server has open.
async fn open(client: &reqwest::Client, url: &str) -> f64 {
    let text = client.get(format!("{url}/metrics")).send().await.unwrap().text().await.unwrap();
    let line = text.lines().find(|line| line.starts_with("annals_conversations_open ")).unwrap();
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

async fn import(store: &Store) -> String {
    let store = store.clone();
    let import = move || {
        let mut importer =
            annals::transfer::Importer::new(&store, annals::transfer::ImportOptions::default());
        importer.import(&folder::golden("conversations/hello-two-turns"), &mut |_| ()).unwrap();
        let page = store.conversations(&Default::default(), Default::default(), None, 1).unwrap();
        page.conversations[0].id.as_str().to_owned()
    };
    tokio::task::spawn_blocking(import).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_passes_on_what_concerns_a_conversation_that_is_open_elsewhere() {
    let (server, scratch) = (Server::with_log(), Scratch::new());
    let a = server.open_apart(&scratch.path("a.db")).await;
    let b = server.open_apart(&scratch.path("b.db")).await;
    let id = import(&a).await;
    let (one, other) = (Named::start(&a, Vec::new()).await, Named::start(&b, Vec::new()).await);
    let (here, there) = (one.url.clone(), other.url.clone());
    let client = crate::support::served::http_client();
    let command = |url: &str, name: &str, body: &str| {
        let request = client.post(format!("{url}/api/conversations/{id}/{name}")).body(body.to_owned());
        let request = request.header("content-type", "application/json");
        async move { request.send().await.unwrap() }
    };
    assert!(command(&here, "pause", "{}").await.status().is_success());
    assert_eq!((open(&client, &here).await, open(&client, &there).await), (1.0, 0.0));
    // A command, a page of events and a socket go to the server that has it open.
    let renamed = command(&there, "secrets", r#"{"secrets":{"TOKEN":"geheim"}}"#).await;
    assert!(renamed.status().is_success(), "{}", renamed.text().await.unwrap());
    let events = client.get(format!("{there}/api/conversations/{id}/events/search?limit=100"));
    let events = events.send().await.unwrap();
    assert!(events.headers().contains_key("annals-entry"));
    let events: serde_json::Value = events.json().await.unwrap();
    assert!(events["items"].as_array().is_some_and(|items| items.len() > 3), "{events}");
    let socket = format!("{}/sockets/events/{id}", there.replace("http://", "ws://"));
    let (mut socket, _) = tokio_tungstenite::connect_async(socket).await.unwrap();
    let first = futures_util::StreamExt::next(&mut socket).await.unwrap().unwrap();
    assert!(first.to_text().unwrap().contains("ConversationStateUpdateEvent"), "{first:?}");
    let unknown = client.post(format!("{there}/api/conversations/{}/pause", uuid::Uuid::new_v4()));
    assert_eq!(unknown.send().await.unwrap().status(), StatusCode::NOT_FOUND);
    assert_eq!((open(&client, &here).await, open(&client, &there).await), (1.0, 0.0));
    // Commands that belong to no conversation are kept by one of them.
    let started = client.post(format!("{here}/api/bash/start_bash_command"));
    let started = started.header("content-type", "application/json").body(r#"{"command":"echo said"}"#);
    let started: serde_json::Value = started.send().await.unwrap().json().await.unwrap();
    for url in [&here, &there] {
        let found = client.get(format!("{url}/api/bash/bash_events/{}", started["id"].as_str().unwrap()));
        assert_eq!(found.send().await.unwrap().status(), StatusCode::OK, "{started}");
    }
    // It ends without a word. Reads are answered at once, and a command as soon as its time is up.
    one.running.abort();
    let _ended = one.running.await;
    drop(socket);
    // A process that was being started beside it keeps its listener until it has started.
    while tokio::net::TcpStream::connect(here.trim_start_matches("http://")).await.is_ok() {}
    let read = client.get(format!("{there}/api/conversations/{id}/events/count"));
    assert_eq!(read.send().await.unwrap().status(), StatusCode::OK);
    let waiting = tokio::spawn(command(&there, "pause", "{}"));
    let server = tokio::task::spawn_blocking(move || {
        // Its process has ended only in part, and would name itself again if the row were there.
        server.client().execute("DELETE FROM home WHERE name NOT LIKE '%desk'", &[]).unwrap();
        server
    });
    let server = server.await.unwrap();
    assert!(waiting.await.unwrap().status().is_success());
    assert_eq!(open(&client, &there).await, 1.0);
    tokio::task::spawn_blocking(|| drop((server, a, b))).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_is_answered_here_if_the_other_server_ends_before_it_has_answered() {
    let (server, scratch) = (Server::with_log(), Scratch::new());
    let a = server.open_apart(&scratch.path("a.db")).await;
    let b = server.open_apart(&scratch.path("b.db")).await;
    let id = import(&a).await;
    let (one, other) = (Named::start(&a, Vec::new()).await, Named::start(&b, Vec::new()).await);
    let client = crate::support::served::http_client();
    let open = client.post(format!("{}/api/conversations/{id}/pause", one.url)).send().await.unwrap();
    assert!(open.status().is_success());
    // Where the server was, connections are made and closed: at once, or after the request was read.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let closing = tokio::spawn(async move {
        for number in 0_u64.. {
            let (mut stream, _) = listener.accept().await.unwrap();
            if number % 2 == 1 {
                let _read = tokio::io::AsyncReadExt::read(&mut stream, &mut [0; 1024]).await;
            }
        }
    });
    let server = tokio::task::spawn_blocking(move || {
        let moved = server.client().execute("UPDATE home SET address = $1", &[&address]).unwrap();
        assert_eq!(moved, 1);
        server
    });
    let server = server.await.unwrap();
    for path in ["/events/count", "/events/search?limit=3", "/events/count", ""] {
        let read = client.get(format!("{}/api/conversations/{id}{path}", other.url)).send().await.unwrap();
        assert_eq!(read.status(), StatusCode::OK, "{path}: {}", read.text().await.unwrap());
    }
    // What that server has done of a command is not known.
    let command = client.post(format!("{}/api/conversations/{id}/pause", other.url)).send().await.unwrap();
    assert_eq!(command.status(), StatusCode::BAD_GATEWAY);
    closing.abort();
    one.end().await;
    other.end().await;
    tokio::task::spawn_blocking(|| drop((server, a, b))).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_of_several_servers_gets_each_event_once() {
    let (server, scratch) = (Server::with_log(), Scratch::new());
    let sink = ModelServer::start((0..500).map(|_| Answer::of(Content::Text("{}".into()))));
    let a = server.open_apart(&scratch.path("a.db")).await;
    let b = server.open_apart(&scratch.path("b.db")).await;
    let id = import(&a).await;
    let hook = || vec![WebhookSpec::new(sink.url()).flush_delay(std::time::Duration::from_millis(1))];
    let (one, other) = (Named::start(&a, hook()).await, Named::start(&b, hook()).await);
    let client = crate::support::served::http_client();
    let is_open = client.post(format!("{}/api/conversations/{id}/pause", one.url)).send().await.unwrap();
    assert!(is_open.status().is_success());
    let known = {
        let (a, id) = (a.clone(), conversation(&id));
        move || a.conversation(&id).unwrap().event_count
    };
    let before = tokio::task::spawn_blocking(known.clone()).await.unwrap();
    for number in 0..20 {
        // What is written here and there, of a conversation that is open and of one that is not.
        let urls = [&one.url, &other.url];
        let path = if number % 4 < 2 { &*id } else { "talk" };
        let event = format!(r#"{{"id":"w-{number}","kind":"PauseEvent","source":"user"}}"#);
        let url = format!("{}/api/annals/conversations/{path}/events", urls[number % 2]);
        let sent =
            client.post(url).header("content-type", "application/json").body(event).send().await.unwrap();
        assert!(sent.status().is_success(), "{}", sent.text().await.unwrap());
    }
    let after = tokio::task::spawn_blocking(known).await.unwrap();
    assert_eq!(after - before, 10);
    // What waits is sent before they end.
    one.end().await;
    other.end().await;
    let mut posted: Vec<String> = Vec::new();
    for seen in sink.seen() {
        let events = seen.body.as_array().cloned().unwrap_or_default();
        let ids = events.iter().filter_map(|event| event["id"].as_str());
        posted.extend(ids.filter(|id| id.starts_with("w-")).map(str::to_owned));
    }
    posted.sort();
    let mut wanted: Vec<String> = (0..20).map(|number| format!("w-{number}")).collect();
    wanted.sort();
    assert_eq!(posted, wanted);
    tokio::task::spawn_blocking(|| drop((server, a, b))).await.unwrap();
}
