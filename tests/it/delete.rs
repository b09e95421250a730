//! Deletion removes everything of one conversation and nothing of any other, and no position is used again.

use annals::state::FieldChange;
use annals::store::{BaseStateChange, Leaf};
use annals::transfer::Importer;
use annals::{Error, Expected, Position, Sequence, Store};
use rusqlite::Connection;

use crate::support::events::{pause, user_message};
use crate::support::folder::{self, Tree};
use crate::support::projected;
use crate::support::{
    Scratch, all_events, assert_error, assert_sound, conversation, event_ids, number, rows, without_projector,
};

/// Every table that is not derived and has a column for the conversation of a row, with that column.
const TRUTH: [(&str, &str); 8] = [
    ("event", "conversation"),
    ("base_state", "conversation"),
    ("base_state_change", "conversation"),
    ("head_change", "conversation"),
    ("origin", "conversation"),
    ("attachment", "conversation"),
    ("problem", "conversation"),
    ("conversation", "key"),
];

/// Tables with one row for all conversations, or without rows of their own. [`Store::search`] is asked instead.
const OF_NO_CONVERSATION: [&str; 2] = ["projection", "transcript_search"];

/// Returns the columns of a table.
fn columns(db: &Connection, table: &str) -> Vec<String> {
    let statement = db.prepare(&format!("SELECT * FROM {table}")).unwrap();
    statement.column_names().into_iter().map(str::to_owned).collect()
}

/// Returns the tables with a column for the conversation of a row, each with that column, and the derived tables whose
/// rows are those of events. Every derived table is one or the other.
fn tables(db: &Connection) -> (Vec<(String, &'static str)>, Vec<String>) {
    let mut of_conversations: Vec<(String, &'static str)> =
        TRUTH.iter().map(|(table, column)| ((*table).to_owned(), *column)).collect();
    let mut of_events = Vec::new();
    for table in projected::tables() {
        let columns = columns(db, &table);
        if columns.iter().any(|column| column == "conversation") {
            of_conversations.push((table, "conversation"));
        } else if columns.iter().any(|column| column == "position") && table != "projection" {
            of_events.push(table);
        } else {
            let is_known = OF_NO_CONVERSATION.iter().any(|known| table.starts_with(known));
            assert!(is_known, "{table}: which rows are those of a conversation?");
        }
    }
    (of_conversations, of_events)
}

#[test]
fn deletion_removes_everything_of_one_conversation_and_nothing_of_another() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let import = |golden: &str| {
        let mut importer = Importer::new(&store, Default::default());
        importer.import(&folder::golden(golden), &mut |_| ()).unwrap().remove(0).id.unwrap()
    };
    let stays = import("conversations/coding-task");
    let goes = import("corrupt/gap-middle"); // has problems, and files with names of their own
    let state =
        || FieldChange::set("stats", r#"{"usage_to_metrics":{"a":{"accumulated_cost":1.0}}}"#).unwrap();
    for talk in [&stays, &goes] {
        store.append(talk, Expected::Any, &[user_message("more", "needle")]).unwrap();
        store.set_leaf(talk, Leaf::Empty).unwrap();
        let change = BaseStateChange::new(vec![state()]);
        store.save_base_state(talk, change).unwrap();
    }
    store.search("needle", &Default::default(), 10, &mut |_| ()).unwrap();
    store.catch_up().unwrap();
    let db = scratch.foreign();
    let key = number(&db, &format!("SELECT key FROM conversation WHERE id = '{goes}'"));
    let (tables, of_events) = tables(&db);
    let others = || {
        let others = tables.iter().map(|(table, column)| {
            rows(&db, &format!("SELECT * FROM {table} WHERE {column} IS NOT {key} ORDER BY 1"))
        });
        others.collect::<Vec<_>>()
    };
    let before = others();
    let counts: Vec<i64> = tables
        .iter()
        .map(|(table, column)| number(&db, &format!("SELECT count(*) FROM {table} WHERE {column} = {key}")))
        .collect();
    assert!(counts.iter().filter(|count| **count > 0).count() >= 8, "{counts:?}");

    let length = store.conversation(&goes).unwrap().event_count;
    assert_eq!(store.retention().delete(&goes).unwrap(), length);
    for (table, column) in &tables {
        let left = number(&db, &format!("SELECT count(*) FROM {table} WHERE {column} = {key}"));
        assert_eq!(left, 0, "{table}");
    }
    for table in of_events.iter().map(String::as_str).chain(["event_file"]) {
        let rest = format!("FROM {table} WHERE position NOT IN (SELECT position FROM event)");
        assert_eq!(number(&db, &format!("SELECT count(*) {rest}")), 0, "{table}");
    }
    assert_eq!(number(&db, "SELECT count(*) FROM blob WHERE key NOT IN (SELECT blob FROM attachment)"), 0);
    assert_eq!(number(&db, "SELECT count(*) FROM maintenance"), 0);
    assert_eq!(others(), before);
    let hits = store.search("needle", &Default::default(), 10, &mut |_| ()).unwrap();
    assert_eq!(hits.iter().map(|hit| &hit.conversation).collect::<Vec<_>>(), [&stays]);
    let unknown = || Error::UnknownConversation { conversation: goes.to_string() };
    assert_error(store.conversation(&goes), &unknown());
    assert_error(store.events(&goes, &Default::default(), 1), &unknown());
    assert_error(store.retention().delete(&goes), &unknown());
    assert_sound(&store);
    let rest = (all_events(&store, &stays), rows(&db, "SELECT * FROM tool_call"));
    store.maintenance().rebuild(&[], &mut |_| ()).unwrap();
    assert_eq!((all_events(&store, &stays), rows(&db, "SELECT * FROM tool_call")), rest);
}

#[test]
fn a_table_of_another_program_that_keeps_a_conversation_is_named() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let talk = conversation("talk");
    store.append(&talk, Expected::Any, &[pause("a")]).unwrap();
    for (target, column) in [("conversation", "id"), ("event", "position")] {
        let theirs = format!(
            "CREATE TABLE notes (c REFERENCES {target} ({column})); INSERT INTO notes SELECT {column} FROM {target}"
        );
        scratch.stranger().execute_batch(&theirs).unwrap();
        let named = format!("the table notes, which refers to {target}");
        for refused in
            [store.retention().delete(&talk).map(drop), store.retention().erase(&talk, "a test").map(drop)]
        {
            let error = refused.unwrap_err();
            let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
            assert!(source.contains(&named), "{error}: {source}");
        }
        scratch.stranger().execute_batch("DROP TABLE notes").unwrap();
    }
    store.retention().erase(&talk, "a test").unwrap();
}

#[test]
fn no_position_is_reused_and_a_deleted_name_is_free_again() {
    let store = Store::in_memory(&without_projector()).unwrap();
    let talk = conversation("talk");
    store.append(&talk, Expected::Any, &[pause("a"), pause("b")]).unwrap();
    store.retention().delete(&talk).unwrap();
    assert_eq!(store.last_position().unwrap(), Position(2));
    let places = store.append(&talk, Expected::Empty, &[pause("b"), pause("a")]).unwrap();
    let places: Vec<_> = places.iter().map(|place| (place.sequence, place.position)).collect();
    assert_eq!(places, [(Sequence(0), Position(3)), (Sequence(1), Position(4))]);
    assert_eq!(event_ids(&store, &talk), ["b", "a"]);
    store.retention().delete(&talk).unwrap();
    store
        .retention()
        .delete(&{
            store.append(&conversation("x"), Expected::Any, &[]).unwrap();
            conversation("x")
        })
        .unwrap();
    assert_eq!(store.last_position().unwrap(), Position(4));
    assert_sound(&store);
}

#[test]
fn sub_agents_of_a_deleted_conversation_stay_without_a_parent() {
    let scratch = Scratch::new();
    let mut tree = Tree::new();
    for path in ["events/event-00000-aaaaaaaa.json", "subagents/child/events/event-00000-aaaaaaaa.json"] {
        tree.insert(path.into(), pause("aaaaaaaa").payload().into());
    }
    folder::write(&scratch.path("parent"), &tree);
    let store = Store::in_memory(&without_projector()).unwrap();
    let mut importer = Importer::new(&store, Default::default());
    importer.import(&scratch.path("parent"), &mut |_| ()).unwrap();
    let child = conversation("child");
    assert_eq!(store.conversation(&child).unwrap().parent.as_deref(), Some("parent"));
    assert_eq!(store.retention().delete(&conversation("parent")).unwrap(), 1);
    assert_eq!(store.conversation(&child).unwrap().parent, None);
    assert_eq!(event_ids(&store, &child), ["aaaaaaaa"]);
    assert_sound(&store);
}

#[test]
fn a_deleted_folder_can_be_imported_again() {
    let store = Store::in_memory(&without_projector()).unwrap();
    let import = || {
        let mut importer = Importer::new(&store, Default::default());
        importer.import(&folder::golden("conversations/hooks"), &mut |_| ()).unwrap().remove(0)
    };
    let first = import();
    let id = first.id.clone().unwrap();
    let before = event_ids(&store, &id);
    store.retention().delete(&id).unwrap();
    assert_eq!(import(), first);
    assert_eq!(event_ids(&store, &id), before);
}

#[test]
fn a_read_only_store_deletes_nothing() {
    let scratch = Scratch::new();
    let talk = conversation("talk");
    scratch.open().append(&talk, Expected::Any, &[pause("a")]).unwrap();
    let reader = Store::open_with(scratch.database(), &without_projector().read_only(true)).unwrap();
    assert_error(reader.retention().delete(&talk), &Error::ReadOnly { path: scratch.database() });
    assert_eq!(event_ids(&reader, &talk), ["a"]);
}
