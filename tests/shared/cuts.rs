//! Connections that are lost at the worst moment, and stores that write without taking the order.

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use annals::error::SharedError;
use annals::{Error, Expected, Options, Result, Store};

use crate::faults::assert_the_same;
use crate::server::Server;
use crate::support::events::user_message;
use crate::support::{Scratch, conversation, event_ids};

const TALK: &str = "talk";

/// What the way to the server does with the next commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    /// It passes.
    None,
    /// The connection is lost before the server has it.
    Before,
    /// The connection is lost before the client has the answer.
    After,
    /// The same, and there is no other connection until the way is open again.
    AfterForLong,
    /// The connection is lost, and the server gets it when the test says so.
    Late,
}

/// What is held for [`Cut::Late`]: the connection to the server, and what the client had sent.
type Held = (UnixStream, Vec<u8>);

/// A way to the server that can be cut. It passes bytes, and knows a commit when it sees one.
#[derive(Clone)]
struct Way {
    cut: Arc<Mutex<Cut>>,
    is_closed: Arc<AtomicBool>,
    /// Whether no store learns from the server that there is something new.
    is_silent: Arc<AtomicBool>,
    /// How often a store has taken the order.
    orders: Arc<AtomicUsize>,
    /// How often something was sent on a connection that has taken the order before, or with it.
    sent: Arc<AtomicUsize>,
    held: Arc<Mutex<Option<Held>>>,
    /// Whether the server has ended a connection that was cut.
    ended: Arc<Mutex<mpsc::Receiver<()>>>,
}

impl Way {
    fn open(folder: &Path, server: &Server) -> Self {
        let listener = UnixListener::bind(folder.join(".s.PGSQL.5432")).unwrap();
        let (ends, ended) = mpsc::channel();
        let way = Self {
            cut: Arc::new(Mutex::new(Cut::None)),
            is_closed: Arc::default(),
            is_silent: Arc::default(),
            orders: Arc::default(),
            sent: Arc::default(),
            held: Arc::default(),
            ended: Arc::new(Mutex::new(ended)),
        };
        let (own, socket) = (way.clone(), server.socket());
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let Ok(client) = client else { return };
                if own.is_closed.load(Ordering::SeqCst) {
                    continue;
                }
                let there = UnixStream::connect(&socket).unwrap();
                let (way, ends) = (own.clone(), ends.clone());
                std::thread::spawn(move || way.pass(client, there, ends));
            }
        });
        way
    }

    fn cut_next(&self, cut: Cut) {
        *self.cut.lock().unwrap() = cut;
    }

    fn orders(&self) -> usize {
        self.orders.load(Ordering::SeqCst)
    }

    /// Gives the server what was held, and returns when it has ended that connection.
    fn deliver(&self) {
        let (mut there, bytes) = self.held.lock().unwrap().take().expect("nothing was held");
        there.write_all(&bytes).unwrap();
        there.shutdown(std::net::Shutdown::Write).unwrap();
        self.ended.lock().unwrap().recv_timeout(Duration::from_secs(120)).unwrap();
    }

    /// Passes bytes in both directions until the connection is cut.
    fn pass(&self, client: UnixStream, there: UnixStream, ends: mpsc::Sender<()>) {
        let (mut from, mut to) = (client.try_clone().unwrap(), there.try_clone().unwrap());
        let (mut answers, mut back) = (there, client.try_clone().unwrap());
        let [is_deaf, is_listening, is_late] = [(); 3].map(|()| Arc::new(AtomicBool::new(false)));
        let (deaf, listening, late) = (Arc::clone(&is_deaf), Arc::clone(&is_listening), Arc::clone(&is_late));
        let is_silent = Arc::clone(&self.is_silent);
        std::thread::spawn(move || {
            let mut bytes = [0; 1 << 16];
            while let Ok(count @ 1..) = answers.read(&mut bytes) {
                let is_news = listening.load(Ordering::SeqCst) && is_silent.load(Ordering::SeqCst);
                let is_dropped = deaf.load(Ordering::SeqCst) || is_news;
                if !is_dropped && back.write_all(&bytes[..count]).is_err() {
                    break;
                }
            }
            let _is_gone = back.shutdown(std::net::Shutdown::Both);
            if late.load(Ordering::SeqCst) {
                ends.send(()).unwrap();
            }
        });
        let (mut is_within, mut is_of_turns) = (false, false);
        let mut bytes = [0; 1 << 16];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            let has = |text: &[u8]| bytes[..count].windows(text.len()).any(|window| window == text);
            is_listening.fetch_or(has(b"LISTEN "), Ordering::SeqCst);
            is_within |= has(b"BEGIN");
            if has(b"FOR UPDATE\0") {
                self.orders.fetch_add(1, Ordering::SeqCst);
                is_of_turns = true;
            }
            self.sent.fetch_add(usize::from(is_of_turns), Ordering::SeqCst);
            let is_commit = has(b"COMMIT\0") || (!is_within && has(b"MessageEvent"));
            is_within &= !has(b"COMMIT\0") && !has(b"ROLLBACK");
            let mut next = self.cut.lock().unwrap();
            let cut = if is_commit { std::mem::replace(&mut *next, Cut::None) } else { Cut::None };
            drop(next);
            if cut == Cut::Before {
                break;
            }
            if cut != Cut::None {
                is_deaf.store(true, Ordering::SeqCst);
                self.is_closed.store(cut == Cut::AfterForLong, Ordering::SeqCst);
            }
            if cut == Cut::Late {
                is_late.store(true, Ordering::SeqCst);
                *self.held.lock().unwrap() = Some((to, bytes[..count].to_vec()));
                let _is_gone = client.shutdown(std::net::Shutdown::Both);
                return;
            }
            if to.write_all(&bytes[..count]).is_err() || cut != Cut::None {
                break;
            }
        }
        // The server answers what it has, and sees the end then.
        let _is_gone = to.shutdown(std::net::Shutdown::Write);
        let _is_gone = client.shutdown(std::net::Shutdown::Both);
    }
}

/// A server, a way to it, and a store that uses the way and does not wait for long.
fn store_on_a_way() -> (Server, Scratch, tempfile::TempDir, Way, Store) {
    let (server, scratch) = (Server::with_log(), Scratch::new());
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    let way = Way::open(folder.path(), &server);
    let address = server.address_at(folder.path().to_str().unwrap());
    let options = Options::default().busy_timeout(Duration::from_millis(500));
    let store = Store::open_shared(&address, scratch.path("a.db"), &options).unwrap();
    (server, scratch, folder, way, store)
}

fn append(store: &Store, id: &str) -> Result<(u64, bool)> {
    let places = store.append(&conversation(TALK), Expected::Any, &[user_message(id, "text")])?;
    Ok((places[0].sequence.0, places[0].known))
}

#[test]
fn a_connection_that_is_lost_during_a_commit_is_found_out_about() {
    let (server, scratch, _folder, way, store) = store_on_a_way();
    append(&store, "first").unwrap();
    // The server has committed, and only the answer is lost: the caller does not notice.
    way.cut_next(Cut::After);
    assert_eq!(append(&store, "second").unwrap(), (1, false));
    // The server never had it: it is refused, and may be tried again.
    way.cut_next(Cut::Before);
    let lost = append(&store, "third");
    assert!(matches!(lost, Err(Error::Shared(SharedError::Unreachable { .. }))), "{lost:?}");
    assert!(lost.unwrap_err().is_transient());
    assert_eq!(append(&store, "third").unwrap(), (2, false));
    // The server cannot be asked. The next attempt finds that it took place.
    way.cut_next(Cut::AfterForLong);
    let unknown = append(&store, "fourth");
    assert!(matches!(unknown, Err(Error::Shared(SharedError::Unknown))), "{unknown:?}");
    let talk = conversation(TALK);
    assert_eq!(event_ids(&store, &talk).len(), 3, "the file never has what may not be");
    way.is_closed.store(false, Ordering::SeqCst);
    assert_eq!(append(&store, "fourth").unwrap(), (3, true));
    assert_the_same(&server, std::slice::from_ref(&store), 4, &scratch);
}

#[test]
fn so_is_one_that_is_lost_while_the_store_has_the_order() {
    let (server, scratch, _folder, way, store) = store_on_a_way();
    let talk = conversation(TALK);
    append(&store, "first").unwrap();
    // Only appends do without it.
    let title = || store.conversation(&talk).unwrap().title;
    way.cut_next(Cut::After);
    store.set_title(&talk, Some("one")).unwrap();
    way.cut_next(Cut::Before);
    let lost = store.set_title(&talk, Some("two"));
    assert!(matches!(lost, Err(Error::Shared(SharedError::Unreachable { .. }))), "{lost:?}");
    assert_eq!(title().as_deref(), Some("one"));
    store.set_title(&talk, Some("two")).unwrap();
    way.cut_next(Cut::AfterForLong);
    let unknown = store.set_title(&talk, Some("three"));
    assert!(matches!(unknown, Err(Error::Shared(SharedError::Unknown))), "{unknown:?}");
    assert_eq!(title().as_deref(), Some("two"));
    way.is_closed.store(false, Ordering::SeqCst);
    store.replica().unwrap().refresh().unwrap();
    assert_eq!(title().as_deref(), Some("three"));
    assert_the_same(&server, std::slice::from_ref(&store), 1, &scratch);
}

#[test]
fn what_was_refused_is_not_written_later() {
    let (server, scratch, _folder, way, store) = store_on_a_way();
    append(&store, "first").unwrap();
    way.cut_next(Cut::Late);
    let orders = way.orders();
    let lost = append(&store, "second");
    assert!(matches!(lost, Err(Error::Shared(SharedError::Unreachable { .. }))), "{lost:?}");
    assert_eq!(way.orders(), orders + 1, "it asked for the order to find out, and not before");
    way.deliver();
    let count = server.client().query_one("SELECT count(*) FROM event", &[]).unwrap();
    assert_eq!(count.get::<_, i64>(0), 1);
    assert_eq!(append(&store, "second").unwrap(), (1, false));
    assert_the_same(&server, std::slice::from_ref(&store), 2, &scratch);
}

#[test]
fn a_store_that_writes_alone_takes_no_order_until_another_writes() {
    let (server, scratch, _folder, way, store) = store_on_a_way();
    let other = server.open(&scratch.path("b.db"));
    way.is_silent.store(true, Ordering::SeqCst);
    let talk = conversation(TALK);
    let append_at = |expected: u64, id: &str| {
        let appended = store.append(&talk, Expected::Exact(expected), &[user_message(id, "text")]);
        appended.map(|places| places[0].sequence.0)
    };
    append(&store, "first").unwrap();
    let orders = way.orders();
    for number in 1..20 {
        assert_eq!(append_at(number, &format!("own-{number}")).unwrap(), number);
    }
    assert_eq!(way.orders(), orders);
    // The store does not know of it, and what it expects is true in its file.
    append(&other, "other").unwrap();
    let refused = append_at(20, "too-early");
    assert!(matches!(refused, Err(Error::Conflict { actual: 21, .. })), "{refused:?}");
    assert!(way.orders() > orders);
    for number in 21..25 {
        assert_eq!(append_at(number, &format!("own-{number}")).unwrap(), number);
    }
    // What it expects is not true in its file yet.
    append(&other, "another").unwrap();
    assert_eq!(append_at(26, "in-time").unwrap(), 26);
    for number in 27..29 {
        assert_eq!(append_at(number, &format!("own-{number}")).unwrap(), number);
    }
    // A retry finds what another store has written, and what this one has.
    append(&other, "third").unwrap();
    assert_eq!(append(&store, "third").unwrap(), (29, true));
    assert_eq!(append(&store, "first").unwrap(), (0, true));
    assert_the_same(&server, &[store, other], 30, &scratch);
}

/// The order comes with what others wrote, and the entry goes with its commit.
#[test]
fn a_turn_sends_twice() {
    let (server, scratch, _folder, way, store) = store_on_a_way();
    let other = server.open(&scratch.path("b.db"));
    way.is_silent.store(true, Ordering::SeqCst);
    let talk = conversation(TALK);
    append(&store, "first").unwrap();
    // The thread that follows may look in between, and the first statements are prepared.
    let twice = (0..20).filter(|number| {
        append(&other, &format!("other-{number}")).unwrap();
        let before = way.sent.load(Ordering::SeqCst);
        store.set_title(&talk, Some(&format!("title {number}"))).unwrap();
        way.sent.load(Ordering::SeqCst) - before == 2
    });
    assert!(twice.count() > 0);
    assert_the_same(&server, &[store, other], 21, &scratch);
}
