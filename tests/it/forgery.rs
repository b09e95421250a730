//! Forgery: another program changes each column of each table that is not derived. Either `verify` reports the change,
//! or `docs/tamper-evidence.md` names the column as not covered. Damage: no value of any column and no content of any
//! page ends a verification early.
#![cfg(feature = "proof")]

use std::collections::BTreeSet;
use std::sync::LazyLock;

use annals::audit::proof::{Head, Scope, compare, redacted_since};
use annals::chain::{ChangeItem, ChangePlace, Digest, change_link};
use annals::state::FieldChange;
use annals::store::{
    BaseStateChange, Finding, Leaf, Mending, ObjectKind, Options, Redaction, Verification, derived_objects,
};
use annals::transfer::Importer;
use annals::{EventId, Expected, Store, Timestamp};
use rusqlite::Connection;
use rusqlite::types::Value;

use crate::support::events::{answered, command, pause, printed, user_message};
use crate::support::{Scratch, conversation, folder, is_exhaustive, number, sample};

/// Columns that a forger can change unnoticed. `docs/tamper-evidence.md` names each of them and the effect.
const NOT_COVERED: &[&str] = &[
    "archive_dictionary.is_stale",
    "archive_source.conversation",
    "archive_source.dictionary",
    "event.recorded_at",
    "log.changes_since",
    "log.created_at",
    "log.position_floor",
    "log.store_id",
    "refinery_schema_history.applied_on",
    "refinery_schema_history.checksum",
    "refinery_schema_history.name",
    "repair.conversation_id",
    "repair.done",
    "repair.event_ids",
    "repair.finding",
    "repair.found",
    "repair.head_after",
    "repair.head_before",
    "repair.key",
    "repair.program",
    "repair.repaired_at",
    "sqlite_sequence.name",
    "sqlite_sequence.seq",
    "subscription.acknowledged_at",
    "subscription.began_at",
    "subscription.name",
    "subscription.position",
    "write_log.generation",
    "write_log.one",
];

/// Columns in which the administrative log's hash chain does not tell an absent text from an empty one.
const ABSENT_IS_EMPTY: &[&str] =
    &["admin_act.conversation", "admin_act.host", "admin_act.os_user", "admin_act.reason"];

/// Returns the tables that can be made again from the log. `tests/it/derived.rs` tests their forgery.
fn derived_tables() -> Vec<String> {
    let objects = derived_objects().unwrap().into_iter();
    objects.filter(|object| object.kind == ObjectKind::Table).map(|object| object.name).collect()
}

/// Returns a store whose file has rows in every table.
fn written() -> (Scratch, Store) {
    let scratch = Scratch::new();
    std::fs::write(scratch.database(), file()).unwrap();
    let store = scratch.open_without_projector();
    (scratch, store)
}

/// Returns the file of [`written`].
fn file() -> &'static [u8] {
    static FILE: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let scratch = Scratch::new();
        write(&scratch.open_without_projector());
        let keys = ["add ann --role read", "add ben --role write", "revoke ann"];
        for arguments in keys.into_iter().filter(|_| cfg!(feature = "cli")) {
            let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_annals"));
            command.arg("--db").arg(scratch.database()).args(["keys", "server"]).args(arguments.split(' '));
            assert!(command.output().unwrap().status.success(), "{arguments}");
        }
        // The file is complete, because the store is closed.
        std::fs::read(scratch.database()).unwrap()
    });
    &FILE
}

/// Returns the file of [`written`] after `work` of another program.
fn worked_on(work: impl FnOnce(&Scratch) -> Connection) -> Vec<u8> {
    let scratch = Scratch::new();
    std::fs::write(scratch.database(), file()).unwrap();
    let db = work(&scratch);
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    drop(db);
    std::fs::read(scratch.database()).unwrap()
}

fn write(store: &Store) {
    let (talk, child, kept) = (conversation("talk"), conversation("child"), conversation("kept"));
    let hello = [user_message("a", "hello"), command("b", "c1", "ls"), printed("c", "b", "c1", "x", 0)];
    for id in [&talk, &child, &kept] {
        store.append(id, Expected::Empty, &hello).unwrap();
    }
    store.set_title(&talk, Some("the title")).unwrap();
    store.set_leaf(&talk, Leaf::At(EventId::new("a").unwrap())).unwrap();
    store.append(&talk, Expected::Any, &[answered("d", "done")]).unwrap();
    for (field, value) in [("tags", r#"{"team":"red"}"#), ("persistence_dir", r#""one""#), ("agent", "{}")] {
        let fields = vec![FieldChange::set(field, value).unwrap()];
        store.save_base_state(&talk, BaseStateChange::new(fields)).unwrap();
    }
    for count in 0..70 {
        let fields = vec![FieldChange::set("persistence_dir", count.to_string()).unwrap()];
        store.save_base_state(&child, BaseStateChange::new(fields)).unwrap();
    }
    store.attach(&talk, "notes.txt", b"a note").unwrap();
    store.set_parent(&child, &talk).unwrap();
    store.set_fork(&child, &talk, Some(&EventId::new("a").unwrap())).unwrap();
    let why = Mending::new("test", "this", "that");
    store.maintenance().note_repair(Some(&talk), &why).unwrap();
    store.retention().redact(&child, Redaction::Event(&EventId::new("c").unwrap()), "a test").unwrap();
    let gone = conversation("gone");
    store.append(&gone, Expected::Any, &[pause("p")]).unwrap();
    store.retention().delete(&gone).unwrap();
    for golden in ["conversations/hooks", "corrupt"] {
        Importer::new(store, Default::default()).import(&folder::golden(golden), &mut |_| ()).unwrap();
    }
    store.retention().archive(std::slice::from_ref(&kept), Some("old"), &mut |_| ()).unwrap();
    for name in ["audit", "billing"] {
        let mut subscription = store.subscription(name).unwrap();
        assert!(!subscription.next_page(10, std::time::Duration::ZERO).unwrap().is_empty());
        subscription.acknowledge().unwrap();
    }
    store.catch_up().unwrap();
}

/// Returns a connection of another program that has dropped every guard and turned off every constraint.
fn intruder(scratch: &Scratch) -> Connection {
    let db = scratch.foreign();
    let triggers: Vec<String> = db
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'trigger'")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    for trigger in triggers {
        db.execute_batch(&format!("DROP TRIGGER {trigger}")).unwrap();
    }
    db.execute_batch("PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON").unwrap();
    db
}

/// Verifies the whole file. Leaves out the findings about dropped guards.
fn verify(store: &Store) -> Verification {
    let mut seen = store.audit().verify_whole(&mut |_| ()).unwrap();
    seen.findings.retain(|finding| !finding.what.starts_with("the guard "));
    seen
}

fn head(store: &Store) -> Head {
    Head::new(Scope::Whole, Timestamp(1_769_860_800_000_000), store.audit().chain_heads(None).unwrap())
}

#[track_caller]
fn assert_found(findings: &[Finding], id: Option<&str>, what: &str) {
    let found = findings.iter().any(|finding| {
        finding.conversation.as_ref().map(|id| id.as_str()) == id && finding.what.contains(what)
    });
    assert!(found, "wanted {what:?} at {id:?}, found {findings:#?}");
}

#[test]
fn a_file_with_rows_in_every_table_is_sound() {
    let (_scratch, store) = written();
    let seen = verify(&store);
    assert_eq!(seen.findings, []);
    assert!(seen.changes > 80 && seen.damaged == 0, "{seen:?}");
}

/// A column of a table.
struct Column {
    table: String,
    name: String,
    of_type: String,
    /// The columns that select one row of the table.
    row: String,
}

/// Returns every column of every table, except of virtual tables.
fn columns(db: &Connection) -> Vec<Column> {
    let tables: Vec<String> = db
        .prepare("SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND name <> 'sqlite_schema'")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    let mut all = Vec::new();
    for table in tables {
        let columns: Vec<(String, String, i64)> = db
            .prepare(&format!("SELECT name, type, pk FROM pragma_table_info('{table}')"))
            .unwrap()
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap();
        let own: Vec<&str> = columns.iter().filter(|column| column.2 > 0).map(|column| &*column.0).collect();
        let row = if own.is_empty() { "rowid".to_owned() } else { own.join(", ") };
        for (name, of_type, _) in columns {
            all.push(Column { table: table.clone(), name, of_type, row: row.clone() });
        }
    }
    all
}

/// Returns every column that is not derived, with SQL that changes it, in a row in which it has a value and in one in which it
/// is null, if there are such rows: another value, nothing, a value of another type, that of another row, and one less.
fn forgeries() -> Vec<(String, String)> {
    let (scratch, _store) = written();
    let db = scratch.foreign();
    let derived = derived_tables();
    let mut forgeries = Vec::new();
    for Column { table, name, of_type, row } in
        columns(&db).iter().filter(|column| !derived.contains(&column.table))
    {
        let other = match of_type.as_str() {
            "INTEGER" => format!("CASE {name} WHEN 1 THEN 0 ELSE coalesce({name}, 0) + 1000003 END"),
            "BLOB" => format!("randomblob(max(coalesce(length({name}), 32), 1))"),
            _ => format!("coalesce({name}, '') || 'x'"),
        };
        for which in ["IS NOT NULL", "IS NULL"] {
            let of = format!("SELECT {row} FROM {table} WHERE {name} {which} ORDER BY 1 DESC LIMIT 1");
            if db.prepare(&of).unwrap().exists([]).unwrap() {
                let wrong_type = if of_type == "INTEGER" { "'x'" } else { "7" };
                let of_another = format!(
                    "(SELECT o.{name} FROM {table} AS o WHERE o.{name} IS NOT {table}.{name} ORDER BY 1 LIMIT 1)"
                );
                let one_less = format!("{name} - 1");
                let news = [&*other, "NULL", wrong_type, &of_another, &one_less];
                for new in news.iter().take(if of_type == "INTEGER" { 5 } else { 4 }) {
                    let sql = format!(
                        "UPDATE {table} SET {name} = {new} WHERE ({row}) IN ({of}) AND {name} IS NOT {new}"
                    );
                    forgeries.push((format!("{table}.{name}"), sql));
                }
            }
        }
    }
    forgeries
}

#[test]
fn every_column_that_is_not_derived_is_covered_or_named_as_not_covered() {
    let (mut missed, mut found) = (BTreeSet::new(), BTreeSet::new());
    let forgeries = forgeries();
    assert!(forgeries.len() > 100, "{}", forgeries.len());
    // All forgeries of a column are one item: the list below is compared with all of them.
    for (column, sql) in sample(forgeries.chunk_by(|one, next| one.0 == next.0), 5).into_iter().flatten() {
        let (scratch, store) = written();
        drop(store);
        let db = intruder(&scratch);
        let before = number(&db, "SELECT total_changes()");
        // The file may refuse a value, and some changes change nothing.
        let is_changed = db.execute_batch(sql).is_ok() && number(&db, "SELECT total_changes()") > before;
        drop(db);
        if !is_changed {
            continue;
        }
        // It also counts if the forged file cannot be opened.
        let options = Options::default().follow_projections(false);
        let is_noticed = match Store::open_with(scratch.database(), &options) {
            Ok(store) => !verify(&store).findings.is_empty(),
            Err(_) => true,
        };
        if is_noticed {
            found.insert(column.as_str())
        } else {
            missed.insert(column.as_str())
        };
    }
    assert!(found.len() + missed.len() > 20, "{found:?} {missed:?}");
    let listed: BTreeSet<&str> = NOT_COVERED.iter().copied().collect();
    let unlisted: Vec<_> = missed.difference(&listed).collect();
    assert!(unlisted.is_empty(), "a forger can change these unnoticed: {unlisted:?}");
    let docs = include_str!("../../docs/tamper-evidence.md");
    for column in &listed {
        let table = column.split('.').next().unwrap();
        let is_named = docs.contains(&format!("`{column}`")) || docs.contains(&format!("`{table}.*`"));
        assert!(is_named, "docs/tamper-evidence.md does not name {column}");
        // The receipt of a conversation's repair is covered. The receipt of a repair of the file is not.
        let is_found = found.contains(column) && !missed.contains(column) && table != "repair";
        assert!(!is_found, "{column} is covered: take it off the list");
    }
}

#[test]
fn data_beside_the_events_cannot_be_forged_unnoticed() {
    let attacks: &[(&str, &str, &str)] = &[
        ("UPDATE conversation SET title = 'mine' WHERE id = 'talk'", "talk", "the title is not what change"),
        ("UPDATE conversation SET title = NULL WHERE id = 'talk'", "talk", "the title is gone, and change"),
        (
            "UPDATE conversation SET title = 'x' WHERE id = 'kept'",
            "kept",
            "the title is there, and no change",
        ),
        ("UPDATE conversation SET tags = '{}' WHERE id = 'talk'", "talk", "the set of tags is gone"),
        (
            "UPDATE conversation SET foreign_format = 'codex' WHERE id = 'kept'",
            "kept",
            "the format of the log",
        ),
        (
            "UPDATE conversation SET parent = NULL WHERE id = 'child'",
            "child",
            "the link to the conversation whose",
        ),
        (
            "UPDATE conversation SET forked_at = 'b' WHERE id = 'child'",
            "child",
            "the link to the conversation it was",
        ),
        (
            "UPDATE base_state SET document = '{\"x\":1}' WHERE conversation = 1",
            "talk",
            "the first base state is not what change",
        ),
        (
            "UPDATE base_state_change SET value = '\"two\"' WHERE field = 'persistence_dir' AND conversation = 1",
            "talk",
            "version 2 of the base state is not what change",
        ),
        (
            "UPDATE base_state SET document = replace(document, '63', '64') WHERE conversation = 2",
            "child",
            "the base state does not follow from its first version and its history",
        ),
        (
            "UPDATE attachment SET reason = 'x' WHERE path = 'notes.txt'",
            "talk",
            "the attachment notes.txt is not",
        ),
        ("DELETE FROM attachment WHERE path = 'notes.txt'", "talk", "the attachment notes.txt is gone"),
        (
            "UPDATE head_change SET leaf_event_id = 'b'; UPDATE conversation SET leaf_event_id = 'b' WHERE id = 'talk'",
            "talk",
            "move 1 of HEAD is not what change",
        ),
        ("UPDATE archived_conversation SET archived_at = 1", "kept", "the record that it is archived is not"),
        ("INSERT INTO arrival VALUES (1, '/tmp', 5)", "talk", "the record of its unfinished import is there"),
        ("UPDATE repair SET done = 'nothing'", "talk", "the receipt of repair 1 is not what change"),
        ("DELETE FROM repair", "talk", "the receipt of repair 1 is gone"),
        ("DELETE FROM change WHERE conversation = 1", "talk", "the title is there, and no change says so"),
        ("DELETE FROM change WHERE conversation = 1 AND number = 2", "talk", "change 2 is missing from its"),
        (
            "UPDATE change SET actor = 'nobody' WHERE conversation = 1 AND number = 2",
            "talk",
            "change 2 (head \"1\") does not follow from what it says",
        ),
    ];
    for (sql, id, what) in attacks {
        let (scratch, store) = written();
        intruder(&scratch).execute_batch(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        assert_found(&verify(&store).findings, Some(id), what);
    }
    for sql in
        ["UPDATE origin SET source = '/etc'", "DELETE FROM problem", "UPDATE event_file SET path = 'x'"]
    {
        let (scratch, store) = written();
        let changed = intruder(&scratch).execute(sql, []).unwrap();
        assert!(changed > 0 && !verify(&store).findings.is_empty(), "{sql}");
    }
    // Rows that belong to no event, and an archived payload of an event that is not archived.
    for (sql, what) in [
        ("INSERT INTO event_file VALUES (9999, 'x')", "file names belong to events that do not exist"),
        (
            "INSERT INTO archived_payload SELECT 1, bytes, content FROM archived_payload LIMIT 1",
            "archived payloads belong to events that are not archived",
        ),
    ] {
        let (scratch, store) = written();
        intruder(&scratch).execute_batch(sql).unwrap();
        assert_found(&verify(&store).findings, None, what);
    }
}

/// A version may both set a field and extend it. No hash chain covers the order of these rows.
#[test]
fn the_order_of_rows_within_a_version_of_a_base_state_has_no_effect() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let talk = conversation("talk");
    store.append(&talk, Expected::Any, &[user_message("a", "hello")]).unwrap();
    for round in 0..2 {
        let things = format!(r#"{{"round":{round}}}"#);
        let fields = vec![
            FieldChange::set("things", things).unwrap(),
            FieldChange::extend("things", r#"{"more":1}"#).unwrap(),
            FieldChange::set("things+", "{}").unwrap(),
            FieldChange::extend("things+", r#"{"most":2}"#).unwrap(),
        ];
        store.save_base_state(&talk, BaseStateChange::new(fields)).unwrap();
    }
    let before = store.base_state(&talk).unwrap().unwrap();
    assert_eq!(before.document.field("things").unwrap().text(), r#"{"round":1,"more":1}"#);
    assert_eq!(before.document.field("things+").unwrap().text(), r#"{"most":2}"#);
    let forge = "UPDATE base_state_change SET rowid = 1000 - rowid";
    assert!(intruder(&scratch).execute(forge, []).unwrap() > 2);
    let after = store.base_state(&talk).unwrap().unwrap();
    for field in ["things", "things+"] {
        assert_eq!(after.document.field(field), before.document.field(field), "{field}");
    }
    assert_eq!(verify(&store).findings, []);
}

/// `verify` must not advise a rebuild of projections from a forged base state: the costs would follow the forgery.
#[test]
fn neither_a_rebuild_nor_a_later_change_hides_a_forged_base_state() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let talk = conversation("talk");
    store.append(&talk, Expected::Any, &[user_message("a", "hello")]).unwrap();
    let stats = r#"{"usage_to_metrics":{"agent":{"model_name":"m","accumulated_cost":0.2}}}"#;
    let fields = vec![FieldChange::set("stats", stats).unwrap()];
    store.save_base_state(&talk, BaseStateChange::new(fields)).unwrap();
    assert_eq!(verify(&store).findings, []);
    let forge = "UPDATE base_state_change SET value = replace(value, '0.2', '0.0')";
    assert_eq!(intruder(&scratch).execute(forge, []).unwrap(), 1);
    let findings = verify(&store).findings;
    assert_found(&findings, Some("talk"), "version 1 of the base state is not what change");
    assert!(findings.iter().all(|finding| !finding.what.contains("annals rebuild")), "{findings:#?}");
    store.maintenance().rebuild(&["usage"], &mut |_| ()).unwrap();
    assert_found(&verify(&store).findings, Some("talk"), "version 1 of the base state is not what change");
    // A later legitimate change of the forged field, or of other data, does not hide the forgery either.
    let fields = vec![FieldChange::set("stats", stats).unwrap()];
    store.save_base_state(&talk, BaseStateChange::new(fields)).unwrap();
    store.retention().redact(&talk, Redaction::Event(&EventId::new("a").unwrap()), "a test").unwrap();
    assert_found(&verify(&store).findings, Some("talk"), "version 1 of the base state is not what change");
}

/// Recomputes a conversation's chain of changes, as the owner of the file can.
fn rewrite_changes(db: &Connection, id: &str) {
    let key = number(db, &format!("SELECT key FROM conversation WHERE id = '{id}'"));
    let sql = "SELECT number, subject, name, digest, after_sequence, recorded_at, actor FROM change \
               WHERE conversation = ?1 ORDER BY number";
    type Row = (i64, String, String, Option<[u8; 32]>, i64, i64, String);
    let rows: Vec<Row> = db
        .prepare(sql)
        .unwrap()
        .query_map([key], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?, row.get(6)?))
        })
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    let mut previous = Digest::START;
    for (place, (old, subject, name, digest, after_sequence, recorded_at, actor)) in (1..).zip(rows) {
        let at = ChangePlace::new(place, after_sequence, recorded_at);
        let item = ChangeItem::new(&subject, &name, digest.map(Digest));
        previous = change_link(id, &at, &item, &actor, previous);
        let sql = "UPDATE change SET number = ?3, hash = ?4 WHERE conversation = ?1 AND number = ?2";
        db.execute(sql, (key, old, place, previous.0)).unwrap();
    }
}

/// Returns the digest of an item with one text, as `docs/format.md` describes it.
fn item(subject: &str, value: &str) -> Digest {
    Digest::of(format!("annals-item-v1\n{subject}\n{}\n", Digest::of(value.as_bytes())).as_bytes())
}

/// As the documents say, `verify` accepts each forgery here. Only a head that was kept elsewhere reveals it.
#[test]
fn a_recomputed_chain_of_changes_does_not_match_a_kept_head() {
    let (scratch, store) = written();
    let then = head(&store);
    assert_eq!(compare(&store, &then).unwrap(), []);
    let db = intruder(&scratch);
    db.execute("UPDATE conversation SET title = 'mine' WHERE id = 'talk'", []).unwrap();
    let sql = "UPDATE change SET digest = ?1 WHERE conversation = 1 AND subject = 'title'";
    assert_eq!(db.execute(sql, [item("title", "mine").0]).unwrap(), 1);
    rewrite_changes(&db, "talk");
    assert_eq!(verify(&store).findings, []);
    assert_found(&compare(&store, &then).unwrap(), Some("talk"), "they were rewritten");
    // A head does not cover changes after it. It reveals that changes before it were cut off.
    let (scratch, store) = written();
    let db = intruder(&scratch);
    let last = "DELETE FROM change WHERE conversation = 1 AND subject = 'repair'; DELETE FROM repair";
    db.execute_batch(last).unwrap();
    assert_eq!(verify(&store).findings, []);
    assert_found(&compare(&store, &then).unwrap(), Some("talk"), "their end was cut off");
    let (scratch, store) = written();
    intruder(&scratch).execute_batch("UPDATE log SET changes_since = 5").unwrap();
    assert_found(&compare(&store, &then).unwrap(), None, "they were made again");
}

#[test]
fn removed_administrative_acts_do_not_match_a_kept_head() {
    for (sql, what) in [
        ("number = (SELECT max(number) FROM admin_act)", "its end was cut off"),
        ("number > 0", "its end was cut off"),
    ] {
        let (scratch, store) = written();
        let then = head(&store);
        let db = intruder(&scratch);
        db.execute_batch(&format!(
            "DELETE FROM admin_receipt WHERE act IN (SELECT number FROM admin_act WHERE {sql});
             DELETE FROM admin_act WHERE {sql}"
        ))
        .unwrap();
        assert_found(&compare(&store, &then).unwrap(), None, what);
    }
    // An act was replaced by another one.
    let (scratch, store) = written();
    let then = head(&store);
    let db = intruder(&scratch);
    db.execute(
        "UPDATE admin_act SET hash = randomblob(32) WHERE number = ?1",
        [then.heads.acts.unwrap().count.cast_signed()],
    )
    .unwrap();
    assert_found(&compare(&store, &then).unwrap(), None, "it was rewritten");
    assert!(!verify(&store).findings.is_empty());
}

/// A forged redaction with a matching act and receipt looks like a legitimate one. Therefore each redaction after a
/// head is listed for the person who kept the head.
#[test]
fn redactions_since_a_head_are_listed() {
    let (scratch, store) = written();
    let then = head(&store);
    assert_eq!(redacted_since(&store, &then).unwrap(), []);
    let talk = conversation("talk");
    store.retention().redact(&talk, Redaction::Event(&EventId::new("a").unwrap()), "by law").unwrap();
    let notes = redacted_since(&store, &then).unwrap();
    assert_found(&notes, Some("talk"), "event a was redacted since the head was made");
    assert_eq!(notes.len(), 1);
    assert!(
        notes[0].what.ends_with(": by law") && notes[0].sequence.is_some_and(|at| at.0 == 0),
        "{notes:?}"
    );
    assert_eq!(compare(&store, &then).unwrap(), []);
    // `verify` alone finds a changed receipt if the hash of its act was not changed.
    intruder(&scratch).execute("UPDATE admin_receipt SET new_digest = randomblob(32)", []).unwrap();
    assert!(!verify(&store).findings.is_empty());
    // A head of an older version holds no acts. For such a head, its time decides.
    let mut events = then.clone();
    events.heads = events.heads.of_events();
    assert_found(&redacted_since(&store, &events).unwrap(), Some("talk"), "event a was redacted since");
}

/// Runs SQL on a table's rows without its indexes, through a temporary table `alias` on the same tree.
fn beneath(scratch: &Scratch, table: &str, sql: &str) {
    let db = intruder(scratch);
    let columns: String = db
        .query_row(
            "SELECT group_concat(name || CASE pk WHEN 1 THEN ' INTEGER PRIMARY KEY' ELSE '' END) FROM pragma_table_info(?1)",
            [table],
            |row| row.get(0),
        )
        .unwrap();
    db.execute_batch(&format!(
        "PRAGMA writable_schema = ON;
         INSERT INTO sqlite_schema (type, name, tbl_name, rootpage, sql)
         SELECT 'table', 'alias', 'alias', rootpage, 'CREATE TABLE alias ({columns})' FROM sqlite_schema WHERE name = '{table}';
         PRAGMA schema_version = 900"
    ))
    .unwrap();
    drop(db);
    let db = scratch.foreign();
    db.execute_batch(sql).unwrap();
    db.execute_batch(
        "PRAGMA writable_schema = ON; DELETE FROM sqlite_schema WHERE name = 'alias'; PRAGMA schema_version = 901",
    )
    .unwrap();
}

#[test]
fn rows_without_an_index_entry_and_entries_without_a_row_are_found() {
    // An event that is in no index.
    let (scratch, store) = written();
    drop(store);
    beneath(
        &scratch,
        "event",
        "INSERT INTO alias SELECT 5000, conversation, 900, 'x', kind, source, timestamp, parent_id, tool_call_id, action_id, \
         llm_response_id, tool_name, recorded_at, hash, redacted_digest, payload FROM alias WHERE position = 1",
    );
    assert_found(&verify(&scratch.open_without_projector()).findings, None, "the structure is damaged: row");
    // A conversation that is not in the index by id.
    let (scratch, store) = written();
    drop(store);
    beneath(&scratch, "conversation", "UPDATE alias SET id = 'talks' WHERE id = 'talk'");
    let findings = verify(&scratch.open_without_projector()).findings;
    assert_found(&findings, Some("talks"), "it is not found by its id");
    assert_found(&findings, None, "the structure is damaged");
    // An index that is replaced by the index of an empty table, so that its event is missing.
    let (scratch, store) = written();
    drop(store);
    let db = intruder(&scratch);
    let sql: String = db
        .query_row("SELECT sql FROM sqlite_schema WHERE name = 'event_by_rare_kind'", [], |row| row.get(0))
        .unwrap();
    db.execute_batch(&format!(
        "CREATE TABLE other (conversation INTEGER, kind TEXT, sequence INTEGER);
         {};
         PRAGMA writable_schema = ON;
         UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema WHERE name = 'other_kind')
         WHERE name = 'event_by_rare_kind';
         DELETE FROM sqlite_schema WHERE name IN ('other', 'other_kind');
         PRAGMA schema_version = 902",
        sql.replace("event_by_rare_kind", "other_kind").replace("ON event", "ON other")
    ))
    .unwrap();
    drop(db);
    assert_found(
        &verify(&scratch.open_without_projector()).findings,
        None,
        "missing from index event_by_rare_kind",
    );
}

/// Writes a file into a folder of its own.
fn placed(file: &[u8]) -> Scratch {
    let scratch = Scratch::new();
    std::fs::write(scratch.database(), file).unwrap();
    scratch
}

/// Runs every check of a damaged file. None of them may end early. Returns the result without the findings about
/// dropped guards, and `None` if the file cannot be opened.
#[track_caller]
fn checked(scratch: &Scratch, then: &Head, damage: &str) -> Option<Verification> {
    let options = Options::default().read_only(true);
    let store = Store::open_with(scratch.database(), &options).ok()?;
    let mut seen =
        store.audit().verify_whole(&mut |_| ()).unwrap_or_else(|error| panic!("{damage}: {error:?}"));
    seen.findings.retain(|finding| !finding.what.starts_with("the guard "));
    seen.findings.extend(compare(&store, then).unwrap_or_else(|error| panic!("{damage}: {error:?}")));
    // For a head of the events alone, every act is later.
    let mut events = then.clone();
    events.heads = events.heads.of_events();
    events.at = Timestamp(0);
    redacted_since(&store, &events).unwrap_or_else(|error| panic!("{damage}: {error:?}"));
    match store.audit().verify(Some(&conversation("talk")), &mut |_| ()) {
        // Its id may be what is damaged.
        Ok(_) | Err(annals::Error::UnknownConversation { .. }) => Some(seen),
        Err(error) => panic!("{damage}: {error:?}"),
    }
}

/// Overwrites each page of the file. No check ends early, and every page that was overwritten with noise is noticed.
#[test]
fn no_damaged_page_ends_a_check_or_stays_unnoticed() {
    let (scratch, store) = written();
    let then = head(&store);
    drop((scratch, store));
    // Without free pages, which no check reads.
    let file = worked_on(|scratch| {
        let db = scratch.foreign();
        db.execute_batch("VACUUM").unwrap();
        db
    });
    let sound = checked(&placed(&file), &then, "no damage").unwrap();
    assert_eq!((sound.findings, sound.damaged), (Vec::new(), 0));
    let size = usize::from(u16::from_be_bytes([file[16], file[17]]));
    let pages: Vec<&[u8]> = file.chunks(size).collect();
    let (zeros, mut swapped, mut noticed) = (vec![0; size], 0, 0);
    // The first page has the header of the file. Without it, the file is no database.
    for page in sample(1..pages.len(), 9) {
        let mut noise = page as u64;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (noise >> 56) as u8
        })
        .take(size)
        .collect();
        let other = pages[if page + 1 < pages.len() { page + 1 } else { 1 }];
        // The first byte of a page of a tree. Other pages have the end of a long value, which may be zeros anyway.
        let is_of_a_tree = [2, 5, 10, 13].contains(&pages[page][0]);
        for (what, content, must_be_noticed) in
            [("noise", &*noise, true), ("zeros", &*zeros, is_of_a_tree), ("another page", other, false)]
        {
            let damage = format!("page {} is {what}", page + 1);
            let mut damaged = file.clone();
            damaged[page * size..][..size].copy_from_slice(content);
            let seen = checked(&placed(&damaged), &then, &damage);
            let is_noticed = seen.as_ref().is_none_or(|seen| !seen.findings.is_empty());
            assert!(is_noticed || !must_be_noticed, "{damage}");
            assert!(!must_be_noticed || seen.is_none_or(|seen| seen.damaged > 0), "{damage}");
            if what == "another page" && content != pages[page] {
                swapped += 1;
                noticed += i32::from(is_noticed);
            }
        }
    }
    assert!(noticed > swapped / 2, "{noticed} of {swapped}");
}

/// Values that no column has, by type. The engine rejects a value of another type.
fn extremes(of_type: &str) -> &'static [&'static str] {
    match of_type {
        "INTEGER" => &["NULL", "9223372036854775807", "-9223372036854775808", "0", "-1"],
        "BLOB" => &["NULL", "x''", "zeroblob(100000)"],
        _ => &["NULL", "''", "char(10)", "CAST(x'ff00' AS TEXT)", "printf('%.*c', 50000, 'x')"],
    }
}

/// Sets each column to values that no program writes. No check ends early or panics, and all that is covered is noticed.
#[test]
fn no_value_of_any_column_ends_a_check_or_stays_unnoticed() {
    let (scratch, store) = written();
    let then = head(&store);
    let file = worked_on(intruder);
    let (derived, mut changed, mut unnoticed) = (derived_tables(), 0, BTreeSet::new());
    let columns = columns(&scratch.foreign());
    let values =
        columns.iter().flat_map(|column| extremes(&column.of_type).iter().map(move |value| (column, value)));
    for (Column { table, name, row, .. }, value) in sample(values, 17) {
        let column = format!("{table}.{name}");
        let is_covered = !derived.contains(table) && !NOT_COVERED.contains(&&*column);
        let of = format!("SELECT {row} FROM {table} WHERE {name} IS NOT {value} ORDER BY 1 DESC LIMIT 1");
        let sql = format!("UPDATE {table} SET {name} = {value} WHERE ({row}) IN ({of})");
        let scratch = placed(&file);
        let db = scratch.foreign();
        db.execute_batch("PRAGMA synchronous = OFF; PRAGMA foreign_keys = OFF").unwrap();
        db.execute_batch("PRAGMA ignore_check_constraints = ON").unwrap();
        // The engine rejects NULL in most columns, and a key that another row has.
        if !db.execute(&sql, []).is_ok_and(|rows| rows == 1) {
            continue;
        }
        drop(db);
        let seen = checked(&scratch, &then, &sql);
        changed += 1;
        let is_noticed = seen.is_none_or(|seen| !seen.findings.is_empty());
        let is_the_same = *value == "''" && ABSENT_IS_EMPTY.contains(&&*column);
        if is_covered && !is_noticed && !is_the_same {
            unnoticed.insert(sql);
        }
    }
    assert!(changed > if is_exhaustive() { 400 } else { 20 }, "{changed}");
    assert!(unnoticed.is_empty(), "nothing shows these changes: {unnoticed:#?}");
    let docs = include_str!("../../docs/tamper-evidence.md");
    for column in ABSENT_IS_EMPTY {
        assert!(docs.contains(&format!("`{column}`")), "docs/tamper-evidence.md does not name {column}");
    }
}

/// Damage to one part of what a head records does not hide that another part was changed.
#[test]
fn damage_does_not_hide_a_contradiction_of_a_kept_head() {
    let (scratch, store) = written();
    let then = head(&store);
    let rewritten = "UPDATE event SET hash = randomblob(32) WHERE conversation = 2 AND sequence = 2";
    for (damage, id, what) in [
        ("DELETE FROM log", None, "the id of the store cannot be read"),
        ("DELETE FROM log", None, "the end of the log cannot be read"),
        ("UPDATE log SET store_id = CAST(x'ff00' AS TEXT)", None, "the id of the store cannot be read"),
        (
            "UPDATE admin_act SET os_user = CAST(x'ff00' AS TEXT)",
            None,
            "the end of the administrative log cannot be read",
        ),
        (
            "UPDATE event SET hash = x'' WHERE conversation = 1",
            Some("talk"),
            "what the head says of its events cannot be read",
        ),
        (
            "UPDATE change SET hash = x'' WHERE conversation = 1",
            Some("talk"),
            "what the head says of its changes cannot be read",
        ),
    ] {
        let (scratch, store) = written();
        intruder(&scratch).execute_batch(&format!("{damage}; {rewritten}")).unwrap();
        let findings = compare(&store, &then).unwrap();
        assert_found(&findings, id, what);
        assert_found(&findings, Some("child"), "its history was rewritten");
    }
    // An act that cannot be read is a finding too, and the redactions before and after it are listed.
    let acts = number(&scratch.foreign(), "SELECT max(number) FROM admin_act");
    let talk = conversation("talk");
    for id in ["a", "b", "c"] {
        store.retention().redact(&talk, Redaction::Event(&EventId::new(id).unwrap()), "by law").unwrap();
    }
    let damage = "UPDATE admin_act SET program = CAST(x'ff00' AS TEXT) WHERE number = ?1";
    assert_eq!(intruder(&scratch).execute(damage, [acts + 2]).unwrap(), 1);
    let what = format!("act {} of the administrative log cannot be read", acts + 2);
    assert_found(&compare(&store, &then).unwrap(), None, &what);
    assert_found(&verify(&store).findings, None, &what);
    let notes = redacted_since(&store, &then).unwrap();
    assert_found(&notes, Some("talk"), "event a was redacted");
    assert_found(&notes, Some("talk"), "event c was redacted");
    assert!(notes.iter().all(|note| !note.what.contains("event b was")), "{notes:#?}");
}

#[test]
fn an_unreadable_archived_payload_does_not_hide_other_findings() {
    let (scratch, store) = written();
    let db = intruder(&scratch);
    db.execute_batch("UPDATE archived_payload SET content = x'00' WHERE position = (SELECT min(position) FROM archived_payload)")
        .unwrap();
    db.execute_batch("UPDATE conversation SET title = 'x' WHERE id = 'talk'").unwrap();
    let seen = verify(&store);
    assert_found(&seen.findings, Some("kept"), "it cannot be read: ");
    assert_found(&seen.findings, Some("talk"), "the title is not what change");
    assert!(seen.damaged > 0);
}

/// The documents are enough to compute every digest.
#[test]
fn the_chain_of_changes_is_as_documented() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let talk = conversation("talk");
    store.append(&talk, Expected::Any, &[user_message("a", "hello")]).unwrap();
    store.set_title(&talk, Some("a title")).unwrap();
    store.set_title(&talk, Some("a title")).unwrap(); // no change
    store.set_title(&talk, None).unwrap();
    let db = scratch.foreign();
    let sql =
        "SELECT number, subject, name, sha256, after_sequence, actor, hash FROM changes ORDER BY number";
    let rows = crate::support::rows(&db, sql);
    let text = |value: &Value| match value {
        Value::Text(text) => text.clone(),
        Value::Integer(number) => number.to_string(),
        other => format!("{other:?}"),
    };
    let shown: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(text).collect()).collect();
    let digest = item("title", "a title").to_hex();
    let actor = concat!("annals ", env!("CARGO_PKG_VERSION"));
    assert_eq!(shown[0][..6], ["1", "title", "", &digest, "0", actor]);
    assert_eq!(shown[1][..6], ["2", "title", "", "Null", "0", actor]);
    assert_eq!(shown.len(), 2);
    let at = number(&db, "SELECT recorded_at FROM change WHERE number = 1");
    let of = |text: &str| Digest::of(text.as_bytes());
    let first = of(&format!(
        "annals-change-v1\ntalk\n1\ntitle\n{}\n{digest}\n0\n{at}\n{}\n{}\n",
        of(""),
        of(actor),
        "0".repeat(64)
    ));
    assert_eq!(shown[0][6], first.to_hex());
}
