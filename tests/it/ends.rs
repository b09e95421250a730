//! After every orderly end the file alone is whole, in each program that holds a store and with work under way.
#![cfg(unix)]

use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use annals::store::{Append, ConversationFilter, Order, SqlQuery};
use annals::{Error, EventQuery, Expected, Options, Position, Store};

use crate::support::events::pause;
use crate::support::{self, Scratch};

/// A query without an end.
const ENDLESS: &str =
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";

/// Asserts that nothing lies beside the file, and that a copy of it alone is sound and has these events.
fn assert_alone_and_whole(database: &Path, events: &[String]) {
    for ending in ["-wal", "-shm", "-journal"] {
        let beside = format!("{}{ending}", database.display());
        assert!(!Path::new(&beside).exists(), "{beside} is there");
    }
    let copies = Scratch::new();
    std::fs::copy(database, copies.database()).unwrap();
    let copy = copies.open();
    support::assert_sound(&copy);
    let db = copies.foreign();
    let mut has = db.prepare("SELECT 1 FROM event WHERE id = ?1").unwrap();
    let lost: Vec<_> = events.iter().filter(|id| !has.exists([id]).unwrap()).collect();
    assert!(lost.is_empty(), "acknowledged and not in the file: {lost:?}");
}

#[test]
fn a_closed_store_is_closed_for_every_handle_and_thread_and_its_file_is_whole_alone() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let id = support::conversation("talk");
    let events: Vec<String> = (0..1000).map(|number| format!("e{number}")).collect();
    let new: Vec<_> = events.iter().map(|id| pause(id)).collect();
    store.append(&id, Expected::Any, &new).unwrap();
    let mut pages = store.iter(&ConversationFilter::default(), Order::Created);
    let mut follower = store.follow(Position::START);
    assert_eq!(follower.next_page(10, Duration::ZERO).unwrap().len(), 10);
    let (started, begun) = mpsc::channel();
    let acknowledged = std::sync::Mutex::new(events);
    std::thread::scope(|scope| {
        // A follower that waits for ever, a query without an end, a thread that appends until it cannot.
        scope.spawn(|| {
            let mut waits = store.follow(store.last_position().unwrap());
            started.send(()).unwrap();
            let ended = loop {
                if let Err(error) = waits.next_page(10, Duration::MAX) {
                    break error;
                }
            };
            assert!(matches!(ended, Error::Closed), "{ended:?}");
        });
        scope.spawn(|| {
            started.send(()).unwrap();
            let ended = store.query(&SqlQuery::new(ENDLESS)).unwrap_err();
            assert!(matches!(ended, Error::Closed | Error::QueryCancelled), "{ended:?}");
        });
        scope.spawn(|| {
            for number in 1000.. {
                let name = format!("e{number}");
                match store.append(&id, Expected::Any, &[pause(&name)]) {
                    Ok(_) => acknowledged.lock().unwrap().push(name),
                    Err(error) => {
                        assert!(matches!(error, Error::Closed), "{error:?}");
                        return;
                    }
                }
                if number == 1010 {
                    started.send(()).unwrap();
                }
            }
        });
        (0..3).for_each(|_| begun.recv().unwrap());
        store.clone().close().unwrap();
    });
    // Also the handles and iterators that are left.
    assert_alone_and_whole(&scratch.database(), &acknowledged.into_inner().unwrap());
    for refused in [
        store.append(&id, Expected::Any, &[pause("late")]).map(drop),
        store.events(&id, &EventQuery::default(), 1).map(drop),
        store.query(&SqlQuery::new("SELECT 1")).map(drop),
        store.set_title(&id, Some("late")),
        follower.next_page(10, Duration::from_secs(60)).map(drop),
        pages.next().expect("it does not end in silence").map(drop),
        store.maintenance().vacuum().map(drop),
    ] {
        assert!(matches!(refused, Err(Error::Closed)), "{refused:?}");
    }
    store.close().unwrap();
    drop(store);
    assert_eq!(scratch.open().conversation(&id).unwrap().id, id);
}

#[test]
fn a_store_may_be_closed_by_the_callback_of_an_append() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let id = support::conversation("talk");
    let append = Append::new(Expected::Any, vec![pause("a")]);
    let (sender, receiver) = mpsc::channel();
    let inner = store.clone();
    // Answers are given without the connection.
    let done = move |_| sender.send(inner.close().map_err(|error| error.to_string())).unwrap();
    store.append_later(&id, append, done, drop);
    assert_eq!(receiver.recv().unwrap(), Ok(()));
    drop(store);
    assert_alone_and_whole(&scratch.database(), &["a".to_owned()]);
}

#[test]
fn a_store_that_only_reads_leaves_nothing_beside_the_file() {
    let scratch = Scratch::new();
    drop(scratch.open());
    for closes in [false, true] {
        let store = Store::open_with(scratch.database(), &Options::default().read_only(true)).unwrap();
        store.last_position().unwrap();
        if closes {
            store.clone().close().unwrap();
            assert_alone_and_whole(&scratch.database(), &[]);
        }
        drop(store);
        assert_alone_and_whole(&scratch.database(), &[]);
    }
}

#[test]
fn the_last_process_moves_the_log_and_the_others_leave_it() {
    let scratch = Scratch::new();
    let (first, second) =
        (scratch.open(), Store::open_with(scratch.database(), &Options::default()).unwrap());
    first.append(&support::conversation("talk"), Expected::Any, &[pause("a")]).unwrap();
    // One that only reads has made none of it, and removes nothing.
    let read_only = Options::default().read_only(true);
    drop(Store::open_with(scratch.database(), &read_only).unwrap());
    first.close().unwrap();
    second.append(&support::conversation("talk"), Expected::Any, &[pause("b")]).unwrap();
    second.close().unwrap();
    assert_alone_and_whole(&scratch.database(), &["a".to_owned(), "b".to_owned()]);
}

#[cfg(all(feature = "cli", feature = "server", target_os = "linux"))]
mod programs {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::net::TcpStream;
    use std::os::unix::process::ExitStatusExt as _;
    use std::path::PathBuf;
    use std::process::{Child, Command, ExitStatus, Stdio};
    use std::sync::{Arc, Mutex};

    use rustix::process::{Pid, Signal, kill_process};
    use serde_json::{Value, json};

    use super::*;
    use crate::support::model_server::{Answer, ModelServer};

    const KEY: &str = "a-key-of-this-test";
    const ENDING: [Signal; 4] = [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT];

    /// The arguments with which each command opens the file, after its name. `None` for a command that opens none.
    /// `{id}` is a conversation, `{folder}` an empty folder, `{bytes}` a folder with a conversation to import.
    const COMMANDS: &[(&str, Option<&[&str]>)] = &[
        ("run", Some(&["hello", "-m", "openai/test"])),
        ("resume", Some(&["{id}"])),
        ("send", Some(&["{id}", "hello"])),
        ("approve", Some(&["{id}"])),
        ("reject", Some(&["{id}"])),
        ("pause", Some(&["{id}"])),
        ("fork", Some(&["{id}"])),
        ("ask", Some(&["{id}", "why"])),
        ("secrets", Some(&["{id}"])),
        ("profiles", None),
        ("config", None),
        ("list", Some(&[])),
        ("show", Some(&["{id}"])),
        ("search", Some(&["hello"])),
        ("stats", Some(&[])),
        ("tail", Some(&["--once"])),
        ("open", None),
        ("transcript", Some(&["{id}"])),
        ("events", Some(&["{id}"])),
        ("view", Some(&["{id}"])),
        ("messages", Some(&["{id}"])),
        ("replay", Some(&["{id}"])),
        ("state", Some(&["{id}"])),
        ("branches", Some(&["{id}"])),
        ("diff", Some(&["{id}", "{id}"])),
        ("edits", Some(&["{id}"])),
        ("convert", None),
        ("report", Some(&["commands"])),
        ("query", Some(&["SELECT * FROM no_such_view"])),
        ("seen", Some(&["--text", "hello"])),
        ("verify", Some(&[])),
        ("doctor", Some(&["--repair"])),
        ("rebuild", Some(&[])),
        ("backup", Some(&["{folder}/backup.db"])),
        ("restore", None),
        ("recover", None),
        ("upgrade", Some(&[])),
        ("archive", Some(&["{id}"])),
        ("unarchive", Some(&["{id}"])),
        ("vacuum", Some(&[])),
        ("head", Some(&[])),
        ("keys", Some(&["server", "list"])),
        ("bundle", Some(&["{id}", "--to", "{folder}/bundle"])),
        ("import", Some(&["{bytes}"])),
        ("export", Some(&["--all", "--to", "{folder}/export"])),
        ("merge", Some(&["{folder}/none.db", "--into", "{db}"])),
        ("split", Some(&["--ids", "talk", "--to", "{folder}/split.db"])),
        ("copy", Some(&["{id}", "--to", "{folder}/copy.db"])),
        ("delete", Some(&["no-such-conversation"])),
        ("prune", Some(&["--older-than", "1d"])),
        ("redact", Some(&["{id}", "--pattern", "hello", "--reason", "test"])),
        ("erase", Some(&["no-such-conversation", "--reason", "test"])),
        ("scan-secrets", Some(&[])),
        ("admin-log", Some(&[])),
        // The next tests have those that live long.
        ("serve", None),
        ("mcp", Some(&[])),
        ("shared", None),
        ("self-check", Some(&[])),
        ("completions", None),
        ("man", None),
        ("help", None),
    ];

    struct Place {
        scratch: Scratch,
    }

    impl Place {
        /// A file with one conversation that holds `events`.
        fn new() -> Self {
            let place = Self { scratch: Scratch::new() };
            let store = place.scratch.open();
            let new: Vec<_> = events().iter().map(|id| pause(id)).collect();
            store.append(&support::conversation("talk"), Expected::Any, &new).unwrap();
            place
        }

        fn database(&self) -> PathBuf {
            self.scratch.database()
        }

        fn command(&self, arguments: &[&str]) -> Command {
            let mut command = Command::new(env!("CARGO_BIN_EXE_annals"));
            command
                .env_clear()
                .env("PATH", std::env::var_os("PATH").unwrap())
                .env("HOME", self.scratch.path("home"));
            command.env("SESSION_API_KEY", KEY).env("TERM", "dumb").current_dir(self.scratch.path(""));
            command.arg("--db").arg(self.database()).args(arguments);
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            command
        }
    }

    fn events() -> Vec<String> {
        (0..20).map(|number| format!("first-{number}")).collect()
    }

    fn send(child: &Child, signal: Signal) {
        kill_process(Pid::from_raw(child.id().cast_signed()).unwrap(), signal).unwrap();
    }

    /// Reads lines of the standard output until one fits.
    fn line_with(child: &mut Child, what: &str) -> String {
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        loop {
            line.clear();
            if out.read_line(&mut line).unwrap() == 0 {
                let mut errors = String::new();
                child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
                panic!("the output ended before {what:?}: {errors}");
            }
            if line.contains(what) {
                // What comes later is read to its end, so that the program can write it.
                std::thread::spawn(move || std::io::copy(&mut out, &mut std::io::sink()));
                return line;
            }
        }
    }

    #[test]
    fn every_command_leaves_the_file_alone_whole_however_it_ends() {
        let help = Command::new(env!("CARGO_BIN_EXE_annals")).arg("--help").output().unwrap();
        let help = String::from_utf8(help.stdout).unwrap();
        let listed: Vec<&str> = help
            .lines()
            .take_while(|line| !line.starts_with("Options:") && !line.starts_with("Examples:"))
            .filter_map(|line| line.strip_prefix("  "))
            .filter(|line| line.starts_with(|first: char| first.is_ascii_lowercase()))
            .filter_map(|line| line.split_whitespace().next())
            .collect();
        assert!(listed.len() > 50, "{listed:?}");
        let undecided: Vec<_> =
            listed.iter().filter(|name| !COMMANDS.iter().any(|(known, _)| known == *name)).collect();
        assert!(undecided.is_empty(), "COMMANDS says of each command how it opens the file: {undecided:?}");
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/conversations");
        let opening = COMMANDS.iter().filter(|(name, _)| listed.contains(name));
        for (name, arguments) in opening.filter_map(|(name, arguments)| Some((name, (*arguments)?))) {
            let place = Place::new();
            let database = place.database();
            let folder = place.scratch.path("folder");
            std::fs::create_dir(&folder).unwrap();
            let fill = |argument: &&str| {
                argument
                    .replace("{id}", "talk")
                    .replace("{db}", database.to_str().unwrap())
                    .replace("{folder}", folder.to_str().unwrap())
                    .replace("{bytes}", golden.to_str().unwrap())
            };
            let arguments: Vec<String> = arguments.iter().map(fill).collect();
            let words: Vec<&str> = [*name].into_iter().chain(arguments.iter().map(String::as_str)).collect();
            let ended = place.command(&words).stdin(Stdio::null()).output().unwrap();
            let errors = String::from_utf8_lossy(&ended.stderr);
            assert!(ended.status.code().is_some(), "{name}: {errors}");
            // Otherwise it did not come as far as to open the file.
            assert!(!errors.contains("Usage:"), "{name}: {errors}");
            assert_alone_and_whole(&database, &events());
        }
    }

    /// Ends a program with a signal once it works, and returns how it ended.
    fn end(place: &Place, mut child: Child, signal: Signal) -> ExitStatus {
        send(&child, signal);
        let ended = child.wait().unwrap();
        assert_alone_and_whole(&place.database(), &events());
        ended
    }

    #[test]
    fn long_commands_that_a_signal_ends_close_the_file_first_and_end_as_documented() {
        for signal in ENDING {
            let place = Place::new();
            let mut tail = place.command(&["tail", "-n", "1"]).spawn().unwrap();
            line_with(&mut tail, "PauseEvent");
            let ended = end(&place, tail, signal);
            assert_eq!(ended.signal(), Some(signal.as_raw()), "tail: by the signal itself");

            let mut query = place.command(&["query", "--seconds", "600", ENDLESS]).spawn().unwrap();
            // It has opened the file once the shared memory is there.
            let opened = place.scratch.path("annals.db-shm");
            while !opened.exists() && query.try_wait().unwrap().is_none() {
                std::thread::yield_now();
            }
            let ended = end(&place, query, signal);
            assert_eq!(ended.signal(), Some(signal.as_raw()), "query: by the signal itself");

            let watched = place.scratch.path("watched");
            std::fs::create_dir_all(&watched).unwrap();
            let mut watch = place.command(&["import", "--watch", watched.to_str().unwrap()]);
            let mut watch = watch.stderr(Stdio::null()).spawn().unwrap();
            line_with(&mut watch, "watching");
            let ended = end(&place, watch, signal);
            let by_itself = (ended.code() == Some(0)) != (ended.signal() == Some(Signal::QUIT.as_raw()));
            assert!(by_itself, "import --watch: {ended:?}");

            let mut mcp = place.command(&["mcp"]).spawn().unwrap();
            let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
            writeln!(mcp.stdin.as_mut().unwrap(), "{request}").unwrap();
            line_with(&mut mcp, "tools");
            assert_eq!(end(&place, mcp, signal).code(), Some(0), "mcp");
        }
    }

    #[test]
    fn mcp_whose_client_closes_the_pipe_leaves_the_file_alone_whole() {
        let place = Place::new();
        let mut mcp = place.command(&["mcp"]).spawn().unwrap();
        let mut input = mcp.stdin.take().unwrap();
        let call = json!({"name": "search", "arguments": {"query": "hello"}});
        for (id, method, params) in [(1, "tools/list", Value::Null), (2, "tools/call", call)] {
            writeln!(input, "{}", json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
                .unwrap();
        }
        line_with(&mut mcp, "\"id\":2");
        drop(input);
        assert_eq!(mcp.wait().unwrap().code(), Some(0));
        assert_alone_and_whole(&place.database(), &events());
    }

    /// A server as a process.
    struct Server {
        child: Child,
        address: String,
    }

    impl Server {
        fn start(place: &Place, arguments: &[&str]) -> Self {
            let mut command = place.command(arguments);
            let mut child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            let line = line_with(&mut child, " on http://");
            let address = line.split(" on http://").nth(1).unwrap().split(['/', '\n']).next().unwrap();
            Self { child, address: address.to_owned() }
        }

        /// Sends a request, and returns the connection with the answer.
        fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> TcpStream {
            ask(&self.address, method, path, headers, body).unwrap()
        }
    }

    fn ask(address: &str, method: &str, path: &str, headers: &str, body: &str) -> std::io::Result<TcpStream> {
        let mut stream = TcpStream::connect(address)?;
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nx-session-api-key: {KEY}\r\n{headers}\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        )?;
        Ok(stream)
    }

    /// Reads the answer of a connection that closes.
    fn answer(mut stream: TcpStream) -> String {
        let mut text = Vec::new();
        // A server that ends may cut it off.
        let _cut_off = stream.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    }

    const LAST: &str = "connection: close\r\n";
    const UPGRADE: &str = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
         sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

    #[test]
    fn a_server_under_load_that_any_signal_ends_leaves_the_file_alone_whole() {
        for (program, signal) in [
            (&["serve", "--port", "0"][..], Signal::TERM),
            (&["serve", "--port", "0"], Signal::INT),
            (&["serve", "--port", "0"], Signal::HUP),
            (&["serve", "--port", "0"], Signal::QUIT),
            (&["open", "--no-browser", "--port", "0"], Signal::HUP),
        ] {
            let place = Place::new();
            let model = ModelServer::start([Answer::text("late").held()]);
            let mut server = Server::start(&place, program);
            // SIGUSR1 and SIGUSR2 do nothing.
            send(&server.child, Signal::USR1);
            send(&server.child, Signal::USR2);
            // A conversation whose model does not answer yet.
            let request = json!({
                "agent": {"kind": "Agent", "tools": [], "llm": {
                    "model": "openai/test", "base_url": format!("{}/v1", model.url()), "api_key": "sk", "usage_id": "agent",
                }},
                "workspace": {"working_dir": place.scratch.path("work")},
                "initial_message": {"role": "user", "content": [{"type": "text", "text": "hello"}]},
                "autotitle": false,
            });
            let created = answer(server.ask("POST", "/api/conversations", LAST, &request.to_string()));
            assert!(created.starts_with("HTTP/1.1 201"), "{created}");
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(model.arrived(1));
            // A feed, a WebSocket and a query.
            let feed = server.ask("GET", "/api/annals/feed", "accept: text/event-stream\r\n", "");
            let socket = server.ask("GET", "/sockets/session/talk", UPGRADE, "");
            let query = json!({"sql": ENDLESS}).to_string();
            let query = server.ask("POST", "/api/annals/query", LAST, &query);
            // Threads that append until they are refused.
            let acknowledged = Arc::new(Mutex::new(events()));
            let (sender, receiver) = mpsc::channel();
            let threads: Vec<_> = (0..3)
                .map(|thread| {
                    let (acknowledged, sender) = (Arc::clone(&acknowledged), sender.clone());
                    let address = server.address.clone();
                    std::thread::spawn(move || {
                        for number in 0.. {
                            let id = format!("load-{thread}-{number}");
                            let body = json!({"id": id, "kind": "PauseEvent", "source": "user"}).to_string();
                            let path = format!("/api/annals/conversations/load-{thread}/events?expected=any");
                            let Ok(stream) = ask(&address, "POST", &path, LAST, &body) else { return };
                            let said = answer(stream);
                            if !said.starts_with("HTTP/1.1 20") {
                                return;
                            }
                            acknowledged.lock().unwrap().push(id);
                            if number == 20 {
                                sender.send(()).unwrap();
                            }
                        }
                    })
                })
                .collect();
            (0..3).for_each(|_| receiver.recv().expect("appends are answered"));
            send(&server.child, signal);
            let ended = server.child.wait().unwrap();
            assert_eq!(ended.code(), Some(0), "{program:?}, {signal:?}: {ended:?}");
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            drop((feed, socket, query));
            model.release();
            assert_alone_and_whole(&place.database(), &acknowledged.lock().unwrap());
        }
    }

    #[test]
    fn a_server_that_another_program_outlives_leaves_the_log_to_it() {
        let place = Place::new();
        let mut server = Server::start(&place, &["serve", "--port", "0"]);
        let mut tail = place.command(&["tail", "-n", "1"]).spawn().unwrap();
        line_with(&mut tail, "PauseEvent");
        let body = json!({"id": "mine", "kind": "PauseEvent", "source": "user"}).to_string();
        let path = "/api/annals/conversations/talk/events?expected=any";
        let said = answer(server.ask("POST", path, LAST, &body));
        assert!(said.starts_with("HTTP/1.1 20"), "{said}");
        send(&server.child, Signal::TERM);
        assert_eq!(server.child.wait().unwrap().code(), Some(0));
        assert!(place.scratch.path("annals.db-wal").exists(), "the other program has it open");
        end(&place, tail, Signal::TERM);
        assert_alone_and_whole(&place.database(), &["mine".to_owned()]);
    }

    #[test]
    fn a_program_that_was_started_to_ignore_a_hangup_outlives_its_terminal() {
        let place = Place::new();
        let annals = env!("CARGO_BIN_EXE_annals");
        let mut script = Command::new("sh");
        script
            .args(["-c", "trap '' HUP; exec \"$0\" --db \"$1\" serve --port 0", annals])
            .arg(place.database());
        script
            .env("SESSION_API_KEY", KEY)
            .env("HOME", place.scratch.path("home"))
            .current_dir(place.scratch.path(""));
        let mut child =
            script.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let line = line_with(&mut child, " on http://");
        let address = line.split(" on http://").nth(1).unwrap().trim();
        send(&child, Signal::HUP);
        let said = answer(ask(address, "GET", "/ready", LAST, "").unwrap());
        assert!(said.starts_with("HTTP/1.1 200"), "{said}");
        assert_eq!(end(&place, child, Signal::TERM).code(), Some(0));
    }
}
