//! Processes are killed (SIGKILL, or SIGXFSZ at an exact byte) while they archive, erase, redact or prune. Afterwards, each conversation is as
//! before or as intended, every acknowledged operation is done, and the next process finishes the work.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;

use annals::redact::Finder;
use annals::store::{ConversationFilter, Order, PruneRules, Redaction, StoredEvent};
use annals::transfer::{Exporter, Format, Importer};
use annals::{ConversationId, Expected, Options, Store};

use crate::support::child::{self, Role, Running};
use crate::support::events::{command, printed};
use crate::support::folder::{self, Tree};
use crate::support::planted::{BEGINNING, CANARY, count_bytes};
use crate::support::projected::{assert_same_rows, dump};
use crate::support::random::Random;
use crate::support::{Scratch, all_events, assert_sound, conversation, sample};

const ROUNDS: u64 = 5;

fn ids(store: &Store) -> Vec<ConversationId> {
    let page = store.conversations(&ConversationFilter::default(), Order::Created, None, 1000).unwrap();
    page.conversations.into_iter().map(|one| one.id).collect()
}

/// Starts the child, and kills it as soon as it has reported `lines` lines. Returns all that it reported.
fn run_and_kill(scratch: &Scratch, test: &str, role: &str, lines: usize) -> Vec<String> {
    let mut child = Running::start(child::command(test, role, &scratch.database()));
    let mut output = child.take_lines();
    let mut reported: Vec<String> = output.by_ref().take(lines).collect();
    child.kill();
    reported.extend(output);
    assert!(reported.iter().all(|line| !line.starts_with("failed")), "{reported:?}");
    reported
}

/// Opens the file that a killed process left. This needs no waiting, because no process holds a lock any more.
fn open(scratch: &Scratch) -> Store {
    let options = Options::default().busy_timeout(std::time::Duration::ZERO).follow_projections(false);
    Store::open_with(scratch.database(), &options).unwrap()
}

#[test]
fn every_payload_survives_a_kill_while_archiving() {
    const TEST: &str = "crash_privacy::every_payload_survives_a_kill_while_archiving";
    if let Some(role) = child::role() {
        return archive_until_killed(&role);
    }
    let scratch = Scratch::new();
    let mut before = BTreeMap::new();
    let tables;
    {
        let store = scratch.open_without_projector();
        Importer::new(&store, Default::default())
            .import(&folder::golden("conversations"), &mut |_| ())
            .unwrap();
        store.catch_up().unwrap();
        for id in ids(&store) {
            before.insert(id.clone(), (all_events(&store, &id), export(&scratch, &store, &id, "before")));
        }
        tables = dump(&scratch.foreign());
    }
    let mut random = Random::new(7);
    let mut archived = 0;
    for round in 0..ROUNDS {
        let lines = random.below(20) as usize;
        run_and_kill(&scratch, TEST, "archive", lines);
        let store = open(&scratch);
        assert_sound(&store);
        assert_same_rows(&dump(&scratch.foreign()), &tables);
        let after = ids(&store);
        assert_eq!(after.len(), before.len());
        for id in after {
            archived += u64::from(store.retention().is_archived(&id).unwrap());
            let (events, tree) = &before[&id];
            assert_eq!(&all_events(&store, &id), events);
            folder::assert_same(&export(&scratch, &store, &id, &format!("after{round}")), tree);
        }
    }
    assert!(archived > 0, "no kill left an archived conversation");
}

fn export(scratch: &Scratch, store: &Store, id: &ConversationId, to: &str) -> Tree {
    let place = scratch.path(to).join(id.as_str());
    Exporter::new(store, Format::OpenHands).export(id, &place, &mut |_| ()).unwrap();
    folder::read(&place)
}

/// Archives and unarchives everything until the process is killed.
fn archive_until_killed(role: &Role) {
    let work = || -> Result<(), annals::Error> {
        let store = Store::open(&role.database)?;
        let ids = ids(&store);
        for round in 0_u64.. {
            let (first, second) = ids.split_at(ids.len() / 2);
            for half in [first, second] {
                store
                    .retention()
                    .archive(half, None, &mut |done| child::report(&format!("archived {done:?}")))?;
            }
            if round % 3 == 2 {
                store.maintenance().vacuum()?;
            }
            for id in &ids {
                store.retention().unarchive(id, None)?;
                child::report("unarchived");
            }
        }
        Ok(())
    };
    if let Err(error) = work() {
        child::report(&format!("failed: {error:?}"));
    }
}

/// Writes conversations `taken-N` with the canary and `kept-N` without it. Archives half of them. Returns their events.
fn plant_many(scratch: &Scratch, count: u64) -> BTreeMap<ConversationId, Vec<StoredEvent>> {
    let store = scratch.open_without_projector();
    let mut all = Vec::new();
    for number in 0..count {
        for (name, text) in [("taken", CANARY), ("kept", "harmless")] {
            let id = conversation(&format!("{name}-{number}"));
            let mut events = Vec::new();
            for call in 0..40 {
                let (action, answer) = (format!("a{call}"), format!("o{call}"));
                let typed = format!("deploy --round {call} --key {text}");
                events.push(command(&action, &format!("c{call}"), &typed));
                events.push(printed(&answer, &action, &format!("c{call}"), &format!("{typed}: done"), 0));
            }
            store.append(&id, Expected::Empty, &events).unwrap();
            all.push(id);
        }
    }
    store.search(CANARY, &Default::default(), 10, &mut |_| ()).unwrap();
    store.retention().archive(&all[..all.len() / 2], None, &mut |_| ()).unwrap();
    all.into_iter().map(|id| (id.clone(), all_events(&store, &id))).collect()
}

#[test]
fn a_kill_leaves_every_removal_done_or_undone() {
    const TEST: &str = "crash_privacy::a_kill_leaves_every_removal_done_or_undone";
    if let Some(role) = child::role() {
        return remove_until_killed(&role);
    }
    let mut random = Random::new(11);
    for role in ["erase", "redact", "prune"] {
        let scratch = Scratch::new();
        let before = plant_many(&scratch, 16);
        let mut taken = 0;
        for round in 0..3 {
            let reported = run_and_kill(&scratch, TEST, role, round + random.below(3) as usize);
            taken += reported.len();
            let store = open(&scratch);
            assert_sound(&store);
            assert_eq!(store.audit().verify_projections(&mut |_| ()).unwrap().findings, []);
            assert_whole_or_taken(&store, &before, role, &reported);
        }
        assert!(taken > 0, "{role}: nothing was acknowledged");
        // The next process finishes the work. Then no byte of the removed text is left.
        let store = open(&scratch);
        remove(&store, role, &mut |_| ()).unwrap();
        assert!(store.maintenance().vacuum().unwrap().log_emptied);
        assert_eq!(count_bytes(&scratch.database(), BEGINNING), 0, "{role}");
        for (id, events) in before.iter().filter(|(id, _)| id.as_str().starts_with("kept")) {
            if role != "prune" {
                assert_eq!(&all_events(&store, id), events);
            }
        }
        assert_sound(&store);
    }
}

/// Asserts that every conversation is as before or as intended, and that every acknowledged operation is done.
fn assert_whole_or_taken(
    store: &Store,
    before: &BTreeMap<ConversationId, Vec<StoredEvent>>,
    role: &str,
    reported: &[String],
) {
    let remaining = ids(store);
    for (id, events) in before {
        let is_acknowledged = reported.iter().any(|line| line == id.as_str());
        if !remaining.contains(id) {
            assert!(
                role != "redact" && (role == "prune" || id.as_str().starts_with("taken")),
                "{id} is lost"
            );
            continue;
        }
        let now = all_events(store, id);
        let is_as_before = now == *events;
        let is_redacted =
            now.len() == events.len() && !now.iter().any(|event| event.payload.contains(CANARY));
        assert!(is_as_before || is_redacted, "{id} is only partly changed");
        assert!(!is_acknowledged || (role == "redact" && is_redacted), "{id} was reported as done");
    }
    let acts = store.audit().admin_log(annals::store::ActNumber::START, 1000).unwrap();
    for line in reported {
        let logged = acts.iter().any(|act| act.act == role && act.conversation.as_deref() == Some(line));
        assert!(logged, "there is no act for {line}");
    }
}

fn remove_until_killed(role: &Role) {
    let done = Store::open(&role.database)
        .and_then(|store| remove(&store, &role.name, &mut |id| child::report(id.as_str())));
    if let Err(error) = done {
        child::report(&format!("failed: {error:?}"));
    }
}

/// Runs the operation `role` on all conversations that it concerns and that still exist.
fn remove(store: &Store, role: &str, done: &mut dyn FnMut(&ConversationId)) -> Result<(), annals::Error> {
    if role == "prune" {
        // No event ends these conversations, so their status is `running`.
        let rules = PruneRules::default().keep_last(0).statuses(vec!["running".into()]);
        return store.retention().prune(&rules, None, &mut |one| done(&one.id)).map(drop);
    }
    let finder = Finder::expression(CANARY).unwrap();
    for id in ids(store).iter().filter(|id| id.as_str().starts_with("taken")) {
        if role == "erase" {
            store.retention().erase(id, "a test")?;
            done(id);
        } else {
            let what = Redaction::Matches { finder: &finder, values: &[], own: false };
            if !store.retention().redact(id, what, "a test")?.taken.is_empty() {
                done(id);
            }
        }
    }
    Ok(())
}

/// The number of processes that are killed in each role.
const KILLS: u64 = 10;

/// Runs the child until it writes beyond the first `kib` KiB of a file, which is usually its write-ahead log: the system
/// ends it there (SIGXFSZ), in the middle of a transaction or of a write. Returns all that it reported, and whether it
/// was ended so.
fn run_until_a_write_kills(scratch: &Scratch, test: &str, role: &str, kib: u64) -> (Vec<String>, bool) {
    let limit = format!("ulimit -c 0 && ulimit -f {kib} || exit 1");
    let mut child = Running::start(child::command_after(&limit, test, role, &scratch.database()));
    let reported: Vec<String> = child.take_lines().collect();
    assert!(reported.iter().all(|line| !line.starts_with("failed")), "{reported:?}");
    let status = child.wait();
    let is_killed = status.signal() == Some(rustix::process::Signal::XFSZ.as_raw());
    assert!(is_killed || status.success(), "{role} {kib}: {status}");
    (reported, is_killed)
}

#[test]
fn a_kill_within_a_transaction_undoes_it() {
    const TEST: &str = "crash_privacy::a_kill_within_a_transaction_undoes_it";
    if let Some(role) = child::role() {
        return match role.name.as_str() {
            "archive" | "unarchive" => repack(&role),
            "vacuum" => vacuum(&role),
            _ => remove_until_killed(&role),
        };
    }
    let planted = Scratch::new();
    let before = plant_many(&planted, 6);
    for role in ["archive", "unarchive", "vacuum", "prune", "redact", "erase"] {
        // Each process is killed `step` KiB of the log later than the one before. A vacuum writes the whole file.
        let step = if role == "vacuum" { 200 } else { 45 };
        let (mut done, mut undone, mut killed) = (0, 0, 0);
        for kill in sample(0..KILLS, 3) {
            let scratch = Scratch::new();
            std::fs::copy(planted.database(), scratch.database()).unwrap();
            let (reported, is_killed) = run_until_a_write_kills(&scratch, TEST, role, kill * step);
            killed += u32::from(is_killed);
            let store = open(&scratch);
            assert_sound(&store);
            assert_eq!(store.audit().verify_projections(&mut |_| ()).unwrap().findings, [], "{role} {kill}");
            match role {
                "archive" | "unarchive" | "vacuum" => {
                    for (id, events) in &before {
                        assert_eq!(&all_events(&store, id), events, "{role} {kill}");
                        let archived = store.retention().archived(id).unwrap().events;
                        assert!(
                            archived == 0 || archived == events.len() as u64,
                            "{id}: {archived} events are archived"
                        );
                        assert!(role != "archive" || archived > 0 || !reported.contains(&id.to_string()));
                        assert!(role != "unarchive" || archived == 0 || !reported.contains(&id.to_string()));
                    }
                }
                _ => assert_whole_or_taken(&store, &before, role, &reported),
            }
            let acts = store
                .audit()
                .admin_log(annals::store::ActNumber::START, 1000)
                .unwrap()
                .iter()
                .filter(|act| act.act == role)
                .count();
            // Half of the conversations were archived when they were written.
            let begun = if role == "archive" { before.len() / 2 } else { 0 };
            let all = match role {
                "vacuum" => 1,
                "prune" => before.len(),
                _ => before.len() / 2,
            };
            done += acts - begun;
            undone += all - (acts - begun);
        }
        eprintln!("{role}: {killed} killed, {done} were done, {undone} were not");
        assert!(done > 0 && undone > 0, "{role}: {killed} killed, {done} were done, {undone} were not");
    }
}

/// Archives or unarchives every conversation that is not yet, one after the other.
fn repack(role: &Role) {
    let work = || -> Result<(), annals::Error> {
        let store = Store::open(&role.database)?;
        for id in ids(&store) {
            if store.retention().is_archived(&id)? == (role.name == "archive") {
                continue;
            }
            if role.name == "archive" {
                store.retention().archive(std::slice::from_ref(&id), None, &mut |_| ())?;
            } else {
                store.retention().unarchive(&id, None)?;
            }
            child::report(id.as_str());
        }
        Ok(())
    };
    if let Err(error) = work() {
        child::report(&format!("failed: {error:?}"));
    }
}

fn vacuum(role: &Role) {
    if let Err(error) = Store::open(&role.database).and_then(|store| store.maintenance().vacuum()) {
        child::report(&format!("failed: {error:?}"));
    }
}
