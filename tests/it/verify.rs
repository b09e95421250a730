//! Verification: it finds changes that another program made to the file, and reports what was changed and where.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use annals::state::FieldChange;
use annals::store::{Append, BaseStateChange, Finding, Leaf, Verification};
use annals::transfer::Importer;
use annals::{ConversationId, Error, EventId, Expected, NewEvent, Sequence, Store};
use rusqlite::Connection;
use serde_json::json;

use crate::support::events::{answered, command, event, pause, printed, updated, user_message};
use crate::support::{
    Found, Scratch, altered, assert_error, assert_sound, conversation, folder, said, without_projector,
};

fn verify(store: &Store) -> Verification {
    store.audit().verify(None, &mut |_| ()).unwrap()
}

/// A database with two conversations: one that was appended to in every way, one that was imported.
fn written() -> (Scratch, Store, ConversationId) {
    static FILE: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let scratch = Scratch::new();
        write(&scratch.open_without_projector());
        // The file is complete, because the store is closed.
        std::fs::read(scratch.database()).unwrap()
    });
    let scratch = Scratch::new();
    std::fs::write(scratch.database(), &*FILE).unwrap();
    let store = scratch.open_without_projector();
    (scratch, store, conversation("talk"))
}

fn write(store: &Store) {
    let talk = conversation("talk");
    let begun = NewEvent::parse(
        r#"{"id":"a","kind":"MessageEvent","source":"user","timestamp":"2026-01-01T00:00:00","llm_message":{"role":"user","content":[{"type":"text","text":"hello"}]}}"#,
    );
    store.append(&talk, Expected::Empty, &[begun.unwrap(), answered("b", "hi")]).unwrap();
    store
        .append(&talk, Expected::Any, &[command("c", "call", "ls"), printed("d", "c", "call", "x", 0)])
        .unwrap();
    store.set_leaf(&talk, Leaf::At(EventId::new("b").unwrap())).unwrap();
    store.append(&talk, Expected::Any, &[updated("e", "x", json!(1)), pause("f")]).unwrap();
    let fields = vec![FieldChange::set("execution_status", r#""paused""#).unwrap()];
    let change = BaseStateChange::new(fields);
    store.save_base_state(&talk, change.clone()).unwrap();
    let events = vec![event("g", "SomethingNew", json!({}))];
    let append = Append::new(Expected::Any, events).base_state(change);
    store.append_all(&talk, append).unwrap();
    let mut importer = Importer::new(store, Default::default());
    importer.import(&folder::golden("conversations/hooks"), &mut |_| ()).unwrap();
    store.catch_up().unwrap();
}

/// Returns a connection of another program that has dropped the guards and turned off the constraints.
fn intruder(scratch: &Scratch) -> Connection {
    let db = scratch.foreign();
    db.execute_batch(
        "PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON;
         DROP TRIGGER event_insert_guard; DROP TRIGGER event_update_guard; DROP TRIGGER event_delete_guard;
         DROP TRIGGER base_state_change_update_guard; DROP TRIGGER base_state_change_delete_guard;",
    )
    .unwrap();
    db
}

/// The guards that [`intruder`] drops.
const GUARDS: [&str; 5] = [
    "base_state_change_delete_guard",
    "base_state_change_update_guard",
    "event_delete_guard",
    "event_insert_guard",
    "event_update_guard",
];

#[test]
fn an_unchanged_file_is_sound() {
    let (_scratch, store, talk) = written();
    let all = verify(&store);
    let rows = store.conversations(&Default::default(), Default::default(), None, 10).unwrap().conversations;
    let attachments = rows.iter().flat_map(|row| store.attachments(&row.id).unwrap());
    let contents: BTreeSet<_> = attachments.map(|attachment| attachment.digest).collect();
    assert_eq!(
        all,
        altered!(all, {
            conversations: 2,
            events: rows.iter().map(|row| row.event_count).sum(),
            payload_bytes: rows.iter().map(|row| row.payload_bytes).sum(),
            redacted: 0,
            changes: rows.iter().map(|row| store.audit().changes_end(&row.id).unwrap().count).sum(),
            changes_since: None,
            attachments: contents.len() as u64,
            damaged: 0,
            findings: Vec::new(),
            notes: Vec::new(),
        })
    );
    let one = store.audit().verify(Some(&talk), &mut |_| ()).unwrap();
    assert_eq!((one.conversations, one.events, one.attachments, one.findings), (1, 7, 0, Vec::new()));
    assert_error(
        store.audit().verify(Some(&conversation("nobody")), &mut |_| ()),
        &Error::UnknownConversation { conversation: "nobody".into() },
    );
}

#[test]
fn imported_goldens_of_every_kind_are_sound() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    for golden in ["conversations", "corrupt", "legacy"] {
        Importer::new(&store, Default::default()).import(&folder::golden(golden), &mut |_| ()).unwrap();
    }
    assert_sound(&store);
}

#[test]
fn missing_and_changed_guards_are_reported() {
    let (scratch, store, _) = written();
    intruder(&scratch);
    let finding = |name: &str, what: &str| -> Found {
        (None, None, format!("the guard {name} {what}: other programs can change the log"))
    };
    assert_eq!(said(&verify(&store).findings), GUARDS.map(|name| finding(name, "is missing")));

    let (scratch, store, _) = written();
    scratch
        .foreign()
        .execute_batch(
            "DROP TRIGGER event_delete_guard;
             CREATE TRIGGER event_delete_guard BEFORE DELETE ON event WHEN 0 BEGIN SELECT RAISE(ABORT, 'no'); END;",
        )
        .unwrap();
    assert_eq!(said(&verify(&store).findings), [finding("event_delete_guard", "was changed")]);
}

#[test]
fn a_leftover_permission_for_maintenance_is_reported() {
    let (scratch, store, _) = written();
    scratch.foreign().execute_batch("INSERT INTO maintenance VALUES ('mine')").unwrap();
    let what = "the table maintenance is not empty: other programs can change the log".to_owned();
    assert_eq!(said(&verify(&store).findings), [(None, None, what)]);
}

/// The place that a finding names: a conversation, and an event of it if the finding names one.
type Place = Option<(&'static str, Option<u64>)>;

#[test]
fn every_change_is_found_at_its_place() {
    let talk = |sequence: u64| Some(("talk", Some(sequence)));
    let whole = Some(("talk", None));
    let hash = "its hash does not follow";
    let tampered: &[(&str, Place, &str)] = &[
        // The log.
        ("UPDATE event SET payload = replace(payload, 'hello', 'bye!!') WHERE id = 'a'", talk(0), hash),
        ("UPDATE event SET payload = payload || ' ' WHERE id = 'c'", talk(2), hash),
        ("UPDATE event SET payload = 'no event' WHERE id = 'c'", talk(2), hash),
        ("UPDATE event SET payload = CAST(x'ff' AS TEXT) WHERE id = 'c'", talk(2), hash),
        ("UPDATE event SET payload = '' WHERE id = 'c'", talk(2), hash),
        ("UPDATE event SET id = 'cc' WHERE id = 'c'", talk(2), hash),
        ("UPDATE event SET id = CAST(x'ff' AS TEXT) WHERE id = 'c'", talk(2), hash),
        ("UPDATE event SET hash = randomblob(32) WHERE id = 'd'", talk(3), hash),
        ("UPDATE event SET hash = zeroblob(3) WHERE id = 'd'", talk(3), hash),
        ("DELETE FROM event WHERE id = 'd'", talk(3), "event 3 is missing"),
        (
            "DELETE FROM event WHERE conversation = 1 AND sequence BETWEEN 1 AND 3",
            talk(1),
            "events 1 to 3 are missing",
        ),
        ("DELETE FROM event WHERE id = 'g'", whole, "the catalogue says 7 events, the log ends after 6"),
        (
            "DELETE FROM event WHERE conversation = 1",
            whole,
            "the catalogue says 7 events, the log ends after 0",
        ),
        (
            "INSERT INTO event SELECT 900, conversation, 7, 'new', kind, source, timestamp, parent_id, tool_call_id, \
             action_id, llm_response_id, tool_name, recorded_at, hash, NULL, payload FROM event WHERE id = 'b'",
            talk(7),
            hash,
        ),
        (
            "INSERT INTO event SELECT 900, conversation, -1, 'new', kind, source, timestamp, parent_id, tool_call_id, \
             action_id, llm_response_id, tool_name, recorded_at, hash, NULL, payload FROM event WHERE id = 'b'",
            whole,
            "an event stands at sequence -1, before the first",
        ),
        (
            "INSERT INTO event SELECT 900, 77, 0, id, kind, source, timestamp, parent_id, tool_call_id, \
             action_id, llm_response_id, tool_name, recorded_at, hash, NULL, payload FROM event WHERE id = 'b'",
            None,
            "the log has events of a conversation that the catalogue does not know (key 77)",
        ),
        (
            "UPDATE event SET sequence = 100 WHERE id = 'b'; UPDATE event SET sequence = 1 WHERE id = 'c'; \
             UPDATE event SET sequence = 2 WHERE id = 'b'",
            talk(1),
            hash,
        ),
        (
            "UPDATE event SET position = 900 WHERE id = 'b'; UPDATE event SET position = 2 WHERE id = 'c'; \
             UPDATE event SET position = 3 WHERE id = 'b'",
            talk(2),
            "its position is not behind that of the event before",
        ),
        (
            "UPDATE event SET conversation = 2, sequence = 1000 WHERE id = 'g'",
            whole,
            "the catalogue says 7 events, the log ends after 6",
        ),
        // Columns that are copied from the payload.
        (
            "UPDATE event SET kind = 'PauseEvent' WHERE id = 'b'",
            talk(1),
            "column kind does not say what the payload says",
        ),
        ("UPDATE event SET source = NULL WHERE id = 'a'", talk(0), "column source does"),
        ("UPDATE event SET timestamp = '2025' WHERE id = 'a'", talk(0), "column timestamp does"),
        ("UPDATE event SET parent_id = 'a' WHERE id = 'b'", talk(1), "column parent_id does"),
        ("UPDATE event SET tool_call_id = 'x' WHERE id = 'c'", talk(2), "column tool_call_id does"),
        ("UPDATE event SET action_id = 'x' WHERE id = 'd'", talk(3), "column action_id does"),
        ("UPDATE event SET llm_response_id = 'x' WHERE id = 'c'", talk(2), "column llm_response_id does"),
        ("UPDATE event SET tool_name = CAST(x'ff' AS TEXT) WHERE id = 'c'", talk(2), "column tool_name does"),
        // The event is marked as redacted with a digest that is not the digest of its payload.
        (
            "UPDATE event SET redacted_digest = (SELECT digest FROM blob LIMIT 1), payload = '{}' WHERE id = 'c'",
            talk(2),
            hash,
        ),
        // The catalogue.
        (
            "UPDATE conversation SET event_count = 6 WHERE key = 1",
            whole,
            "the catalogue says 6 events, the log ends after 7",
        ),
        ("UPDATE conversation SET payload_bytes = 1 WHERE key = 1", whole, "the catalogue's payload_bytes"),
        (
            "UPDATE conversation SET head_hash = randomblob(32) WHERE key = 1",
            whole,
            "the head hash is not that of the last event",
        ),
        ("UPDATE conversation SET action_count = 3 WHERE key = 1", whole, "the catalogue's action_count"),
        (
            "UPDATE conversation SET observation_count = 0 WHERE key = 1",
            whole,
            "the catalogue's observation_count",
        ),
        ("UPDATE conversation SET first_message = 'x' WHERE key = 1", whole, "the catalogue's first_message"),
        (
            "UPDATE conversation SET first_timestamp = 'x' WHERE key = 1",
            whole,
            "the catalogue's first_timestamp",
        ),
        (
            "UPDATE conversation SET last_timestamp = NULL WHERE key = 1",
            whole,
            "the catalogue's last_timestamp",
        ),
        ("UPDATE conversation SET created_at = 1 WHERE key = 1", whole, "the catalogue's created_at"),
        ("UPDATE conversation SET updated_at = 1 WHERE key = 1", whole, "the catalogue's updated_at"),
        ("UPDATE conversation SET updated_minute = 1 WHERE key = 1", whole, "the catalogue's updated_minute"),
        ("UPDATE conversation SET status = 'error' WHERE key = 1", whole, "the catalogue's status"),
        ("UPDATE conversation SET id = 'tale' WHERE key = 1", Some(("tale", Some(0))), hash),
        (
            "DELETE FROM conversation WHERE key = 1",
            None,
            "the log has events of a conversation that the catalogue does not know (key 1)",
        ),
        // HEAD and the base state.
        ("UPDATE conversation SET leaf_event_id = 'gone' WHERE key = 1", whole, "HEAD is not where"),
        ("UPDATE conversation SET leaf_event_id = 'a' WHERE key = 1", whole, "HEAD is not where"),
        (
            "UPDATE conversation SET leaf_event_id = NULL, head_is_empty = 1 WHERE key = 1",
            whole,
            "HEAD is not where",
        ),
        ("UPDATE conversation SET head_is_empty = 1 WHERE key = 1", whole, "HEAD is not where"),
        (
            "UPDATE base_state SET version = 1 WHERE conversation = 1",
            whole,
            "the base state is at version 1, its history at 2",
        ),
        (
            "DELETE FROM base_state_change WHERE version = 2",
            whole,
            "the base state is at version 2, its history at 1",
        ),
        (
            "DELETE FROM base_state WHERE conversation = 1",
            whole,
            "the base state is missing, but its history is there",
        ),
        (
            "UPDATE base_state SET document = '{' WHERE conversation = 1",
            whole,
            "the base state cannot be read",
        ),
        (
            "UPDATE base_state_change SET value = '{' WHERE version = 2",
            whole,
            "the base state cannot be read",
        ),
        (
            "UPDATE base_state_change SET sequence = 99 WHERE version = 2",
            whole,
            "version 2 of the base state follows an event that is not there",
        ),
    ];
    for (sql, place, what) in tampered {
        let (scratch, store, _) = written();
        intruder(&scratch).execute_batch(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        let mut findings = verify(&store).findings;
        findings.retain(|finding| !finding.what.starts_with("the guard "));
        let place = place.map(|(id, sequence)| (conversation(id), sequence.map(Sequence)));
        let found = findings.iter().find(|finding| {
            let at = finding.conversation.clone().map(|id| (id, finding.sequence));
            at == place && finding.what.contains(what)
        });
        assert!(found.is_some(), "{sql}\nwanted {what:?} at {place:?}, found {findings:#?}");
    }
}

#[test]
fn a_payload_that_is_falsely_marked_as_redacted_is_reported() {
    let (scratch, store, talk) = written();
    let digest = annals::chain::Digest::of(command("c", "call", "ls").payload().as_bytes());
    let db = intruder(&scratch);
    let forge = "UPDATE event SET redacted_digest = ?1, payload = '{\"id\":\"c\",\"kind\":\"ActionEvent\"}' WHERE id = 'c'";
    db.execute(forge, [digest.0]).unwrap();
    let findings = verify(&store).findings;
    let what =
        "it is marked as redacted, but the administrative log has no receipt: it was changed".to_owned();
    assert!(said(&findings).contains(&(Some(talk), Some(Sequence(2)), what)), "{findings:#?}");
}

#[test]
fn changed_attachments_are_reported() {
    for (sql, what) in [
        (
            "UPDATE blob SET content = zeroblob(10) WHERE key = (SELECT blob FROM attachment WHERE path = 'fixture.json')",
            "the attachment fixture.json does not have its digest: its content was changed",
        ),
        (
            "UPDATE blob SET digest = randomblob(32) WHERE key = (SELECT blob FROM attachment WHERE path = 'fixture.json')",
            "the attachment fixture.json does not have its digest: its content was changed",
        ),
        (
            "DELETE FROM blob WHERE key = (SELECT blob FROM attachment WHERE path = 'fixture.json')",
            "the content of the attachment fixture.json is missing",
        ),
    ] {
        let (scratch, store, talk) = written();
        intruder(&scratch).execute_batch(sql).unwrap();
        let mut findings = verify(&store).findings;
        findings.retain(|finding| !finding.what.starts_with("the guard "));
        let golden =
            store.conversations(&Default::default(), Default::default(), None, 2).unwrap().conversations;
        let golden = golden.into_iter().find(|row| row.id != talk).unwrap().id;
        let wanted = (Some(golden), None, what.into());
        assert!(said(&findings).contains(&wanted), "{sql}: {findings:#?}");
        let of_it = |finding: &Finding| finding.what.contains("the attachment fixture.json");
        assert!(findings.iter().all(of_it), "{sql}: {findings:#?}");
    }
}

#[test]
fn one_change_is_one_finding_and_not_one_for_each_later_event() {
    let (scratch, store, talk) = written();
    intruder(&scratch)
        .execute_batch("UPDATE event SET payload = replace(payload, 'hi', 'ho') WHERE id = 'b'")
        .unwrap();
    let mut findings = verify(&store).findings;
    findings.retain(|finding| !finding.what.starts_with("the guard "));
    let what = "its hash does not follow from its payload, id, place and the event before: \
                one of them was changed; the events behind it are as they were";
    assert_eq!(said(&findings), [(Some(talk), Some(Sequence(1)), what.to_owned())]);
}

#[test]
fn a_projection_ahead_of_the_log_is_reported() {
    let (scratch, store, _) = written();
    scratch.foreign().execute_batch("UPDATE projection SET position = 999 WHERE name = 'usage'").unwrap();
    let what = "projection usage is ahead of the log; rebuild it".to_owned();
    assert_eq!(said(&verify(&store).findings), [(None, None, what)]);
}

#[test]
fn a_conversation_that_grows_during_verification_is_no_finding() {
    let scratch = Scratch::new();
    let store = Store::open_with(scratch.database(), &without_projector()).unwrap();
    let talk = conversation("talk");
    store.append(&talk, Expected::Any, &[user_message("first", "hello")]).unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for number in 0..150 {
                store.append(&talk, Expected::Any, &[user_message(&number.to_string(), "more")]).unwrap();
            }
        });
        while !writer.is_finished() {
            assert_sound(&store);
        }
    });
    assert_eq!(verify(&store).events, 151);
}

#[test]
fn times_before_1970_are_kept() {
    let store = Store::in_memory(&without_projector()).unwrap();
    let talk = conversation("talk");
    for (id, time) in
        [("a", "1970-01-01T00:00:30"), ("b", "1969-12-31T23:59:59"), ("c", "1970-01-01T00:00:00")]
    {
        let old = event(id, "PauseEvent", json!({"timestamp": time}));
        store.append(&talk, Expected::Any, &[old]).unwrap();
    }
    let row = store.conversation(&talk).unwrap();
    assert_eq!((row.created_at.0, row.updated_at.0), (30_000_000, 0));
    assert_sound(&store);
}

#[test]
fn unchanged_projections_agree_with_the_log() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    for golden in ["conversations", "corrupt", "legacy"] {
        Importer::new(&store, Default::default()).import(&folder::golden(golden), &mut |_| ()).unwrap();
    }
    let seen = store.audit().verify_projections(&mut |_| ()).unwrap();
    assert_eq!((seen.findings, seen.notes), (Vec::new(), Vec::new()));
    let (_scratch, store, _) = written();
    let seen = store.audit().verify_projections(&mut |_| ()).unwrap();
    assert_eq!((seen.findings, seen.notes), (Vec::new(), Vec::new()));
}

#[test]
fn a_projection_that_differs_from_the_log_is_reported_with_its_place() {
    let talk = |sequence: u64| Some(("talk", Some(sequence)));
    for (sql, place, what) in [
        (
            "UPDATE tool_call SET outcome = 'rejected' WHERE conversation = 1",
            talk(2),
            "projection tool_calls: outcome is not what the log says; `annals rebuild tool_calls` mends it",
        ),
        ("DELETE FROM tool_call WHERE conversation = 1", talk(2), "projection tool_calls: a row is missing"),
        ("UPDATE tool_call SET path = '/etc' WHERE conversation = 1", talk(2), "projection tool_calls: path"),
        (
            "UPDATE transcript_line SET role = 'user' WHERE position = 2",
            talk(1),
            "projection transcript: role",
        ),
        (
            "DELETE FROM transcript_line WHERE position = 2",
            talk(1),
            "projection transcript: a row is missing",
        ),
        (
            "INSERT INTO transcript_line VALUES (0, 'user', '[]')",
            None,
            "projection transcript: a row that the log does not make",
        ),
        (
            "INSERT INTO task VALUES (1, 7, 'forged', '', 'todo', 1)",
            talk(0),
            "projection tasks: a row that the log does not make",
        ),
        (
            "INSERT INTO usage_entry VALUES (1, 'agent', 'forged', NULL, NULL, 0, NULL, NULL, 1, 1, 0, 0, 0, 9.0, NULL, 0, NULL)",
            Some(("talk", None)),
            "projection usage: ",
        ),
    ] {
        let (scratch, store, _) = written();
        store.catch_up().unwrap();
        scratch.foreign().execute_batch(sql).unwrap();
        let findings = store.audit().verify_projections(&mut |_| ()).unwrap().findings;
        let [finding] = findings.as_slice() else { panic!("{sql}: {findings:#?}") };
        assert!(finding.what.contains(what), "{sql}: {finding:?}");
        let found = finding.conversation.as_ref().map(|id| (id.as_str(), finding.sequence.map(|at| at.0)));
        assert_eq!(found, place, "{sql}: {finding:?}");
        // The advice of the finding is right.
        store.maintenance().rebuild(&[], &mut |_| ()).unwrap();
        assert_eq!(store.audit().verify_projections(&mut |_| ()).unwrap().findings, [], "{sql}");
    }
}

#[test]
fn a_projection_that_is_behind_the_log_is_a_note_and_no_finding() {
    let (scratch, store, talk) = written();
    store.catch_up().unwrap();
    store.append(&talk, Expected::Any, &[user_message("later", "more")]).unwrap();
    drop(store);
    let store = Store::open_with(scratch.database(), &without_projector().read_only(true)).unwrap();
    let seen = store.audit().verify_projections(&mut |_| ()).unwrap();
    assert_eq!(seen.findings, []);
    assert_eq!(seen.notes.len(), 7);
    assert_eq!(
        seen.notes[0].what,
        "projection transcript has not read the whole log yet and was not compared"
    );
}

/// Changes several rows at once, as a forger could who knows the tables but cannot find fitting hashes. The finding
/// names the kind of each change.
#[test]
fn a_finding_names_the_kind_of_change() {
    const COLUMNS: &str = "conversation, id, kind, source, timestamp, parent_id, tool_call_id, action_id, \
         llm_response_id, tool_name, recorded_at, hash, redacted_digest, payload";
    let renumber = |from: u64, step: i64| {
        // Uses negative numbers first, because sequences must be unique at every moment.
        format!(
            "UPDATE event SET sequence = -sequence - 1000 WHERE conversation = 1 AND sequence >= {from};
             UPDATE event SET sequence = -sequence - 1000 + {step} WHERE conversation = 1 AND sequence < 0;"
        )
    };
    let swap = |columns: &str| {
        format!(
            "CREATE TEMP TABLE kept AS SELECT * FROM event WHERE id IN ('b', 'c');
             UPDATE event SET id = '-' WHERE id = 'b' AND conversation = 1;
             UPDATE event SET ({columns}) = (SELECT {columns} FROM kept WHERE id = 'b') WHERE id = 'c' AND conversation = 1;
             UPDATE event SET ({columns}) = (SELECT {columns} FROM kept WHERE id = 'c') WHERE id = '-';
             UPDATE event SET id = 'b' WHERE id = '-';"
        )
    };
    let insert = |sequence: u64| {
        format!(
            "INSERT INTO event (position, sequence, {COLUMNS}) SELECT 900, {sequence}, {} FROM event WHERE id = 'b' \
             AND conversation = 1;",
            COLUMNS.replace("id, kind", "'forged', kind")
        )
    };
    for (sql, sequence, what) in [
        (
            "UPDATE event SET payload = replace(payload, 'hi', 'ho') WHERE id = 'b'".to_owned(),
            1,
            "as they were",
        ),
        ("UPDATE event SET hash = randomblob(32) WHERE id = 'b'".into(), 1, "the hash alone was changed"),
        (
            swap(
                "id, kind, source, timestamp, parent_id, tool_call_id, action_id, llm_response_id, tool_name, payload",
            ),
            1,
            "have changed contents",
        ),
        (swap("payload"), 1, "have changed contents"),
        (
            "UPDATE event SET sequence = -1 WHERE id = 'b'; UPDATE event SET sequence = 1 WHERE id = 'c'; \
             UPDATE event SET sequence = 2 WHERE id = 'b' AND conversation = 1"
                .into(),
            1,
            "have changed places",
        ),
        (renumber(2, 1) + &insert(2), 2, "it was put in"),
        (
            "DELETE FROM event WHERE id = 'c' AND conversation = 1;".to_owned() + &renumber(3, -1),
            2,
            "an event before it was taken out",
        ),
        (
            "DELETE FROM event WHERE id IN ('b', 'c') AND conversation = 1;".to_owned() + &renumber(3, -2),
            1,
            "2 events before it were taken out",
        ),
    ] {
        let (scratch, store, talk) = written();
        let db = intruder(&scratch);
        // Turns off the constraints of the table, as an intruder can.
        db.pragma_update(None, "ignore_check_constraints", true).unwrap();
        db.execute_batch(&sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        let findings = verify(&store).findings;
        let first = findings.iter().find(|finding| finding.conversation.as_ref() == Some(&talk)).unwrap();
        assert_eq!(first.sequence, Some(Sequence(sequence)), "{sql}: {findings:#?}");
        assert!(
            first.what.contains("its hash does not follow") && first.what.contains(what),
            "{sql}: {findings:#?}"
        );
        let of_hashes = findings.iter().filter(|finding| finding.what.contains("its hash does not follow"));
        assert_eq!(of_hashes.count(), 1, "one change is one finding: {sql}: {findings:#?}");
    }
}

#[test]
fn a_change_of_any_byte_of_a_payload_is_found() {
    let (scratch, store, talk) = written();
    let payload = command("c", "call", "ls").payload().to_owned();
    let db = intruder(&scratch);
    for at in 0..payload.len() {
        let mut changed = payload.clone().into_bytes();
        changed[at] ^= 1;
        db.execute("UPDATE event SET payload = CAST(?1 AS TEXT) WHERE id = 'c'", [changed]).unwrap();
        let seen = store.audit().verify(Some(&talk), &mut |_| ()).unwrap();
        assert_eq!(seen.findings[0].sequence, Some(Sequence(2)), "byte {at}");
        assert!(seen.findings[0].what.contains("its hash does not follow"), "byte {at}");
    }
    db.execute("UPDATE event SET payload = ?1 WHERE id = 'c'", [payload]).unwrap();
    assert_eq!(store.audit().verify(Some(&talk), &mut |_| ()).unwrap().findings, []);
}

#[test]
fn an_imported_broken_tree_is_a_note() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    Importer::new(&store, Default::default()).import(&folder::golden("corrupt"), &mut |_| ()).unwrap();
    let seen = verify(&store);
    assert_eq!(seen.findings, []);
    let notes: Vec<&str> = seen.notes.iter().map(|note| note.what.as_str()).collect();
    assert!(notes.iter().any(|what| what.ends_with("is not in the log")), "{notes:?}");
    assert!(notes.iter().any(|what| what.contains("a circle")), "{notes:?}");
}

#[test]
fn a_parent_that_comes_later_is_a_circle_only_if_it_leads_back() {
    let root = "UPDATE event SET parent_id = '__root__' WHERE id = 'd' AND conversation = 1";
    for (parent, other, note) in [
        // The events after the second name no parent, so each follows the one before it.
        ("d", "", "its parent \"d\" comes later in the log, and leads back to it, which is a circle"),
        ("d", root, "its parent \"d\" comes later in the log"),
        ("b", "", "it is its own parent, which is a circle"),
        ("gone", "", "its parent \"gone\" is not in the log"),
    ] {
        let (scratch, store, talk) = written();
        let db = intruder(&scratch);
        let sql = "UPDATE event SET parent_id = ?1 WHERE id = 'b' AND conversation = 1";
        assert_eq!(db.execute(sql, [parent]).unwrap(), 1);
        db.execute_batch(other).unwrap();
        let notes = verify(&store).notes;
        let wanted = (Some(talk), Some(Sequence(1)), note.to_owned());
        assert!(said(&notes).contains(&wanted), "{parent} {other}: {notes:#?}");
    }
}

#[test]
fn changes_of_the_schema_are_reported() {
    let of_the_file = |what: &str| -> Found { (None, None, what.into()) };
    for (sql, finding) in [
        (
            "DROP VIEW tool_calls; CREATE VIEW tool_calls AS SELECT NULL AS conversation_id",
            "the view tool_calls is not that of this version: what it shows may be false",
        ),
        ("DROP VIEW usage", "the view usage is missing: what it shows may be false"),
        ("DROP INDEX conversation_by_update", "the index conversation_by_update is missing"),
        (
            "CREATE TRIGGER quiet AFTER INSERT ON event BEGIN DELETE FROM maintenance; END",
            "the trigger quiet on event is not of Annals' making: it may change what is written",
        ),
    ] {
        let (scratch, store, _) = written();
        scratch.foreign().execute_batch(sql).unwrap();
        assert_eq!(said(&verify(&store).findings), [of_the_file(finding)], "{sql}");
    }
    let (scratch, store, _) = written();
    scratch.foreign().execute_batch("CREATE VIEW mine AS SELECT 1 AS one").unwrap();
    let seen = verify(&store);
    assert_eq!(
        (said(&seen.findings), said(&seen.notes)),
        (Vec::new(), vec![of_the_file("the view mine is not of Annals' making")])
    );
}

/// What is derived of an event that is gone belongs to no conversation any more. To rebuild it would hide that it was there.
#[test]
fn no_advice_to_rebuild_follows_an_event_that_was_removed() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let id = conversation("talk");
    let events =
        [command("a", "call", "make"), printed("b", "a", "call", "fine", 0), command("c", "next", "ls")];
    store.append(&id, Expected::Empty, &events).unwrap();
    store.catch_up().unwrap();
    drop(store);
    let forger = scratch.foreign();
    forger.execute_batch("DROP TRIGGER event_delete_guard; DELETE FROM event WHERE id = 'a'").unwrap();
    drop(forger);
    let store = scratch.open_without_projector();
    let found = store.audit().verify_whole(&mut |_| ()).unwrap().findings;
    let whats: Vec<&str> = found.iter().map(|finding| finding.what.as_str()).collect();
    assert!(whats.iter().any(|what| what.contains("projection transcript")), "{whats:?}");
    assert!(!whats.iter().any(|what| what.contains("mends it")), "{whats:?}");
}
