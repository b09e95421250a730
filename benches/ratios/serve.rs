//! Measures appends over HTTP: the raw append route with 1, 16 and 64 connections. The load generator runs on the same
//! cores.

use std::path::Path;
use std::sync::Arc;

use annals::server::{App, Config, serve};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use crate::append::store;
use crate::baseline;
use crate::corpus::orphans;
use crate::table::{Budget, Row, Table, rate};

const ROUNDS: usize = 7;
const BASELINE_COUNT: usize = 600;

pub fn measure(folder: &Path, table: &mut Table) {
    let cases = [
        ("serve: raw append, 1 connection / (i)", 1, 600, Budget::AtLeast(0.6)),
        ("serve: raw append, 16 connections / (i)", 16, 1600, Budget::AtLeast(2.3)),
        ("serve: raw append, 64 connections / (i)", 64, 2560, Budget::AtLeast(3.2)),
    ];
    let per_round = cases.iter().map(|(_, _, count, _)| count).sum::<usize>() + BASELINE_COUNT;
    let payloads = orphans(per_round * (ROUNDS + 1), 3);
    let runtime = Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let server = Server::start(&runtime, &folder.join("served.db"));
    let db = baseline::bare(&folder.join("served-bare.db"));
    let mut rows: Vec<Row> = cases.iter().map(|(what, .., budget)| Row::new(*what, *budget, "/s")).collect();
    let mut at = 0;
    // The first round only grows both write-ahead logs. It is not counted.
    for round in 0..=ROUNDS {
        for (case, (_, connections, count, _)) in cases.iter().enumerate() {
            let theirs = rate(BASELINE_COUNT, || {
                baseline::append_singly(&db, at, &payloads[at..at + BASELINE_COUNT]);
            });
            let share: Vec<Vec<Vec<u8>>> = payloads[at..at + count]
                .chunks(count / connections)
                .enumerate()
                .map(|(connection, part)| part.iter().map(|event| request(connection, event)).collect())
                .collect();
            let ours = rate(*count, || runtime.block_on(server.send(share)));
            at += (*count).max(BASELINE_COUNT);
            if round > 0 {
                rows[case].push(ours, theirs);
            }
        }
    }
    server.end(&runtime);
    rows.iter().for_each(|row| table.add(row));
}

/// Returns the request that appends one event. All requests are made before the measurement.
fn request(connection: usize, event: &str) -> Vec<u8> {
    format!(
        "POST /api/annals/conversations/bench-{connection}/events HTTP/1.1\r\nHost: localhost\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{event}",
        event.len()
    )
    .into_bytes()
}

struct Server {
    port: u16,
    stop: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<std::io::Result<()>>,
}

impl Server {
    fn start(runtime: &Runtime, path: &Path) -> Self {
        let store = store(path);
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let port = listener.local_addr().expect("an address").port();
            let app = Arc::new(App::new(store, Config::default()).expect("a server"));
            let (stop, stopped) = oneshot::channel::<()>();
            let task = tokio::spawn(serve(listener, app, async {
                let _dropped = stopped.await;
            }));
            Self { port, stop, task }
        })
    }

    /// Sends each part over its own connection. A request is sent when the request before it is answered.
    async fn send(&self, parts: Vec<Vec<Vec<u8>>>) {
        let port = self.port;
        let tasks: Vec<_> = parts.into_iter().map(|part| tokio::spawn(connection(port, part))).collect();
        for task in tasks {
            task.await.expect("the connection task succeeded");
        }
    }

    fn end(self, runtime: &Runtime) {
        self.stop.send(()).expect("the server listens");
        runtime.block_on(self.task).expect("the server task ended").expect("the server ended well");
    }
}

async fn connection(port: u16, requests: Vec<Vec<u8>>) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.expect("a connection");
    stream.set_nodelay(true).expect("no delay");
    let mut buffer = [0_u8; 4096];
    for request in requests {
        stream.write_all(&request).await.expect("sent");
        let mut length = 0;
        // The answer is short, and its body ends with `}]}`.
        while !buffer[..length].ends_with(b"}]}") {
            let more = stream.read(&mut buffer[length..]).await.expect("an answer");
            assert!(more > 0, "the server hung up: {}", String::from_utf8_lossy(&buffer[..length]));
            length += more;
        }
        assert!(buffer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&buffer[..length]));
    }
}
