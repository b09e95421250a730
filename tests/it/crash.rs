//! Processes are killed (SIGKILL) at any moment. All acknowledged events must be stored, complete and in order.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use annals::state::FieldChange;
use annals::store::{Append, BaseStateChange};
use annals::transfer::{Exporter, Format, ImportStatus, Importer};
use annals::{ConversationId, Error, Expected, NewEvent, Options, Sequence, Store};

use crate::support::child::{self, Role, Running};
use crate::support::events::{command, printed, user_message};
use crate::support::folder;
use crate::support::projected::{assert_same_rows, dump};
use crate::support::random::Random;
use crate::support::{Scratch, assert_sound, conversation, event_ids};

/// The number of threads of the test. Each thread tests its databases one after the other.
const LANES: u64 = 2;
/// The number of databases of each thread.
const DATABASES: u64 = 10;
/// The number of rounds of each database. In each round two processes write until they are killed.
const ROUNDS: u64 = 5;

const TEST: &str = "crash::after_a_kill_at_any_moment_no_acknowledged_event_is_lost_and_no_batch_is_partial";

#[test]
fn after_a_kill_at_any_moment_no_acknowledged_event_is_lost_and_no_batch_is_partial() {
    if let Some(role) = child::role() {
        return write_until_killed(&role);
    }
    let acknowledged: u64 = std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..LANES)
            .map(|lane| {
                scope.spawn(move || {
                    let mut random = Random::new(lane + 1);
                    (0..DATABASES).map(|_| survive(&mut random)).sum::<u64>()
                })
            })
            .collect();
        lanes.into_iter().map(|lane| lane.join().unwrap()).sum()
    });
    const { assert!(LANES * DATABASES * ROUNDS * 2 >= 200, "too few processes are killed") };
    assert!(acknowledged > 1000, "only {acknowledged} appends were acknowledged before the kills");
}

/// Kills two writers of one database in every round. Returns the number of acknowledged appends.
fn survive(random: &mut Random) -> u64 {
    let scratch = Scratch::new();
    let mut acknowledged = Vec::new();
    for round in 0..ROUNDS {
        let names = ["x", "y"].map(|name| format!("{name}{round}"));
        acknowledged.extend(run_and_kill(&scratch, &names, random));
        // No process is left that could hold a lock, so the file opens at once.
        let options = Options::default().busy_timeout(Duration::ZERO);
        let store = Store::open_with(scratch.database(), &options).unwrap();
        assert_whole(&store, &acknowledged);
    }
    let store = scratch.open_without_projector();
    store.catch_up().unwrap();
    let db = scratch.foreign();
    let before = dump(&db);
    store.maintenance().rebuild(&[], &mut |_| ()).unwrap();
    assert_same_rows(&dump(&db), &before);
    acknowledged.len() as u64
}

/// An acknowledged append: its conversation, its first sequence and the ids of its events.
#[derive(Debug)]
struct Acknowledged {
    conversation: ConversationId,
    first: u64,
    ids: Vec<String>,
}

/// Lets both writers run for a moment and kills them. Returns the appends that they acknowledged.
fn run_and_kill(scratch: &Scratch, names: &[String; 2], random: &mut Random) -> Vec<Acknowledged> {
    let (send, lines) = channel();
    let mut children = Vec::new();
    let mut readers: Vec<JoinHandle<()>> = Vec::new();
    for name in names {
        let mut child = Running::start(child::command(TEST, name, &scratch.database()));
        let (send, from) = (send.clone(), child.take_lines());
        readers.push(std::thread::spawn(move || from.for_each(|line| send.send(line).unwrap())));
        children.push(child);
    }
    drop(send);
    let mut received = wait_for_kill_time(&lines, random);
    if random.below(2) == 0 {
        children.swap(0, 1);
    }
    children.into_iter().for_each(Running::kill);
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    received.extend(lines); // the lines written before the kill
    received.iter().map(|line| read_line(line)).collect()
}

/// Waits for the moment of the kill: while the writers start and create the file, or after some number of acknowledged
/// appends. Returns the lines that arrived.
fn wait_for_kill_time(lines: &Receiver<String>, random: &mut Random) -> Vec<String> {
    let early = random.below(5) == 0;
    let count = if early { usize::MAX } else { random.below(60) as usize + 1 };
    let until = Instant::now() + Duration::from_millis(if early { random.below(80) } else { 60_000 });
    let mut received = Vec::new();
    while received.len() < count {
        match lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(line) => received.push(line),
            Err(_) => break,
        }
    }
    received
}

fn read_line(line: &str) -> Acknowledged {
    let mut parts = line.split(' ');
    let (Some("ack"), Some(talk), Some(first)) = (parts.next(), parts.next(), parts.next()) else {
        panic!("a writer failed: {line}")
    };
    let ids = parts.map(str::to_owned).collect();
    Acknowledged { conversation: conversation(talk), first: first.parse().unwrap(), ids }
}

/// Asserts that all acknowledged events are stored, that no batch is partial and that all parts of the file agree.
fn assert_whole(store: &Store, acknowledged: &[Acknowledged]) {
    assert_sound(store);
    let page = store.conversations(&Default::default(), Default::default(), None, 1000).unwrap();
    let mut stored = BTreeMap::new();
    for row in page.conversations {
        let ids = event_ids(store, &row.id);
        assert_eq!(ids.len() as u64, row.event_count);
        if row.id.as_str() == "shared" {
            assert_batches(&ids);
        }
        if let Some(last) = ids.last().filter(|_| row.id.as_str().ends_with("state")) {
            // One append writes an event and the state that names it.
            let state = store.base_state(&row.id).unwrap().unwrap();
            assert_eq!(state.document.text("last").as_deref(), Some(last.as_str()));
            assert_eq!(state.version.0, row.event_count);
            assert_eq!(row.leaf_event_id.as_ref(), Some(last));
            let before = store.base_state_at(&row.id, Sequence(0)).unwrap().unwrap();
            assert_eq!(before.document.text("last").as_deref(), Some(ids[0].as_str()));
        }
        if row.id.as_str().ends_with("gone") {
            assert_eq!(ids.len(), 3, "a deletion removes all events or none");
        }
        stored.insert(row.id, ids);
    }
    for one in acknowledged {
        let first = one.first as usize;
        let found = stored.get(&one.conversation).and_then(|ids| ids.get(first..first + one.ids.len()));
        assert_eq!(found, Some(one.ids.as_slice()), "{one:?}");
    }
}

/// Asserts that no batch is partial. The events of a batch have the ids NAME-COUNT-INDEX and follow each other.
fn assert_batches(ids: &[String]) {
    let mut rest = ids;
    while let Some(first) = rest.first() {
        let (name, index) = first.rsplit_once('-').unwrap();
        let count: usize = name.rsplit_once('-').unwrap().1.parse().unwrap();
        assert_eq!(index, "0", "a batch has lost its beginning: {first}");
        let batch: Vec<String> = (0..count).map(|index| format!("{name}-{index}")).collect();
        assert_eq!(rest.get(..count), Some(batch.as_slice()));
        rest = &rest[count..];
    }
}

/// Runs in a child process. Four threads write in different ways and report each acknowledged append.
fn write_until_killed(role: &Role) {
    let name = role.name.as_str();
    let store = match Store::open(&role.database) {
        Ok(store) => store,
        Err(error) => return child::report(&format!("failed to open: {error:?}")),
    };
    type Work = fn(&Store, &str) -> Result<(), Error>;
    let work: [Work; 4] = [append_singly, append_batches, change_state, maintain];
    std::thread::scope(|scope| {
        for work in work {
            let store = &store;
            scope.spawn(move || {
                if let Err(error) = work(store, name) {
                    child::report(&format!("failed: {error:?}"));
                }
            });
        }
    });
}

fn acknowledge(talk: &ConversationId, first: Sequence, events: &[NewEvent]) {
    let ids: Vec<&str> = events.iter().map(|event| event.id().as_str()).collect();
    child::report(&format!("ack {talk} {first} {}", ids.join(" ")));
}

/// More operations than a process does before it is killed.
const FOREVER: u64 = 1_000_000;

fn append_singly(store: &Store, name: &str) -> Result<(), Error> {
    let talk = conversation(&format!("{name}-solo"));
    let mut parent: Option<String> = None;
    for number in 0..FOREVER {
        let id = format!("{name}-{number}");
        let event = match &parent {
            None => user_message(&id, "the first of a long talk"),
            Some(parent) => crate::support::events::pause_after(&id, parent),
        };
        let places = store.append(&talk, Expected::Exact(number), std::slice::from_ref(&event))?;
        acknowledge(&talk, places[0].sequence, &[event]);
        parent = Some(id);
    }
    Ok(())
}

fn append_batches(store: &Store, name: &str) -> Result<(), Error> {
    let talk = conversation("shared");
    for number in 0..FOREVER {
        let count = 2 + number % 5;
        let batch = format!("{name}-{number}-{count}");
        let event = |index: u64| match index {
            0 => command(&format!("{batch}-0"), &batch, "make"),
            1 => printed(&format!("{batch}-1"), &format!("{batch}-0"), &batch, "done", 0),
            _ => user_message(&format!("{batch}-{index}"), &"more words ".repeat(200)),
        };
        let events: Vec<NewEvent> = (0..count).map(event).collect();
        let places = store.append(&talk, Expected::Any, &events)?;
        acknowledge(&talk, places[0].sequence, &events);
    }
    Ok(())
}

fn change_state(store: &Store, name: &str) -> Result<(), Error> {
    let talk = conversation(&format!("{name}-state"));
    for number in 0..FOREVER {
        let event = user_message(&format!("{name}-{number}"), "changed");
        let field = FieldChange::set("last", format!("\"{}\"", event.id())).expect("it is a JSON string");
        let append = Append::new(Expected::Exact(number), vec![event.clone()])
            .base_state(BaseStateChange::new(vec![field]).expected(annals::Version(number)));
        let places = store.append_all(&talk, append)?;
        acknowledge(&talk, places[0].sequence, &[event]);
    }
    Ok(())
}

/// Deletes, rebuilds and searches while the other threads write.
fn maintain(store: &Store, name: &str) -> Result<(), Error> {
    let talk = conversation(&format!("{name}-gone"));
    for number in 0..FOREVER {
        let events: Vec<NewEvent> =
            (0..3).map(|index| user_message(&format!("{number}-{index}"), "brief")).collect();
        store.append(&talk, Expected::Empty, &events)?;
        store.search("brief words", &Default::default(), 1, &mut |_| ())?;
        store.maintenance().rebuild(&[], &mut |_| ())?;
        store.retention().delete(&talk)?;
    }
    Ok(())
}

#[test]
fn an_import_that_was_killed_is_completed_by_the_next() {
    const TEST: &str = "crash::an_import_that_was_killed_is_completed_by_the_next";
    if let Some(role) = child::role() {
        let store = Store::open(&role.database).unwrap();
        let mut importer = Importer::new(&store, Default::default());
        let from = role.database.with_file_name("in");
        let mut left: usize = role.name.parse().unwrap();
        let mut report = |line: &str| {
            child::report(line);
            left -= 1;
            if left == 0 {
                // It is killed here. If its parent is gone, it ends by itself.
                let _ended = std::io::stdin().read(&mut [0]);
                std::process::exit(1);
            }
        };
        importer.import(&from, &mut |at| report(&format!("at {}", at.events))).unwrap();
        return report("done");
    }
    let scratch = Scratch::new();
    let mut tree = folder::Tree::new();
    for number in 0..2300 {
        let id = format!("{number:08x}-0000");
        tree.insert(
            format!("long/events/event-{number:05}-{id}.json"),
            user_message(&id, "word").payload().into(),
        );
    }
    tree.insert("long/base_state.json".into(), br#"{"id":"long","leaf_event_id":"00000003-0000"}"#.to_vec());
    for (path, content) in folder::read(&folder::golden("conversations/hooks")) {
        tree.insert(format!("hooks/{path}"), content);
    }
    folder::write(&scratch.path("in"), &tree);
    let long = conversation("long");
    let mut partial_imports = 0;
    // The child reports every 256 events. A transaction has a thousand events.
    for line in [1, 2, 5, 7, 10] {
        for file in ["annals.db", "annals.db-wal", "annals.db-shm"] {
            let _ = std::fs::remove_file(scratch.path(file)); // of the previous round
        }
        let mut import = child::command(TEST, &line.to_string(), &scratch.database());
        import.stdin(std::process::Stdio::piped());
        let mut child = Running::start(import);
        assert_eq!(child.take_lines().take(line).count(), line);
        child.kill();
        let store = scratch.open_without_projector();
        assert_sound(&store);
        let found = store.conversation(&long).map_or(0, |row| row.event_count);
        partial_imports += usize::from(found > 0 && store.origin(&long).unwrap().is_none());

        let mut importer = Importer::new(&store, Default::default());
        let reports = importer.import(&scratch.path("in"), &mut |_| ()).unwrap();
        let statuses: Vec<_> = reports.iter().map(|report| (report.status, report.events)).collect();
        let done = |status: ImportStatus| matches!(status, ImportStatus::Imported | ImportStatus::Unchanged);
        assert!(statuses.iter().all(|(status, _)| done(*status)), "{statuses:?}");
        assert_eq!(statuses.iter().map(|(_, events)| *events).collect::<Vec<_>>(), [29, 2300]);
        let state = store.base_state(&long).unwrap().unwrap();
        assert_eq!(state.document.leaf().0.as_deref(), Some("00000003-0000"));
        assert_sound(&store);
    }
    assert!(partial_imports >= 2, "{partial_imports}");
    let store = scratch.open_without_projector();
    for id in store.conversations(&Default::default(), Default::default(), None, 9).unwrap().conversations {
        let exporter = Exporter::new(&store, Format::OpenHands);
        exporter.export(&id.id, &scratch.path("out"), &mut |_| ()).unwrap();
    }
    folder::assert_same(&folder::read(&scratch.path("out")), &tree);
}
