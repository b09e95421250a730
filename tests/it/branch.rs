//! Branches in SQL: the views find the same branches as [`Tree`].

use annals::store::{SqlQuery, SqlValue};
use annals::tree::Tree;
use annals::{Expected, NewEvent};
use rusqlite::types::Value;

use crate::support::golden;
use crate::support::{Scratch, conversation, number, rows};

fn sequences(rows: &[Vec<Value>]) -> Vec<usize> {
    let read = |row: &Vec<Value>| match row[0] {
        Value::Integer(sequence) => sequence as usize,
        ref other => panic!("{other:?}"),
    };
    rows.iter().map(read).collect()
}

/// The events of a golden conversation, in order.
fn payloads(name: &str) -> Vec<NewEvent> {
    let files = golden::list(&golden::folder("conversations").join(name).join("events"));
    let is_event = |path: &std::path::PathBuf| path.extension().is_some_and(|extension| extension == "json");
    let read = |path| NewEvent::parse(std::fs::read_to_string(path).unwrap()).unwrap();
    files.into_iter().filter(is_event).map(read).collect()
}

#[test]
fn the_branch_of_any_event_equals_the_path_in_the_tree() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let names = ["agent-server-session", "hello-two-turns", "hooks", "tree-navigate"];
    for name in names {
        store.append(&conversation(name), Expected::Empty, &payloads(name)).unwrap();
    }
    let db = scratch.foreign();
    let mut lengths = Vec::new();
    for name in names {
        let tree: Tree = store.tree(&conversation(name)).unwrap();
        assert_eq!(tree.len(), payloads(name).len(), "{name}");
        assert!(tree.len() > 1, "{name}");
        // All but this conversation have events that are not on the path to the last event.
        let last = tree.path(tree.len() - 1).unwrap();
        assert_eq!(last.len() < tree.len(), name != "hello-two-turns", "{name}: {last:?}");
        for place in 0..tree.len() {
            let sql = format!(
                "SELECT sequence FROM branches WHERE conversation_id = '{name}' AND leaf_event_id = '{}' \
                 ORDER BY steps_to_leaf DESC",
                tree.id(place).unwrap()
            );
            assert_eq!(sequences(&rows(&db, &sql)), tree.path(place).unwrap(), "{name} at {place}");
        }
        let head = store.conversation(&conversation(name)).unwrap();
        let leaf = tree.resolve_leaf(head.leaf_event_id.as_deref(), head.head_is_empty);
        let sql = format!(
            "SELECT sequence FROM active_branches WHERE conversation_id = '{name}' ORDER BY steps_to_leaf DESC"
        );
        let branch = tree.branch(leaf.as_deref()).unwrap();
        assert_eq!(sequences(&rows(&db, &sql)), branch, "{name}");
        assert!(!branch.is_empty(), "{name}");
        lengths.push(vec![SqlValue::Text(name.to_owned()), SqlValue::Integer(branch.len() as i64)]);
    }
    // All conversations at once, through the guarded query.
    let sql = "SELECT conversation_id, count(*) FROM active_branches GROUP BY 1 ORDER BY 1";
    let answer = store.query(&SqlQuery::new(sql)).unwrap();
    assert_eq!((answer.rows, answer.truncated), (lengths, None));
}

#[test]
fn a_long_branch_costs_one_look_up_a_step() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let pauses =
        (0..20_000).map(|n| NewEvent::parse(format!(r#"{{"id":"e{n}","kind":"PauseEvent"}}"#)).unwrap());
    for batch in pauses.collect::<Vec<_>>().chunks(1000) {
        store.append(&conversation("long"), Expected::Any, batch).unwrap();
    }
    store.append(&conversation("short"), Expected::Any, &payloads("hello-two-turns")).unwrap();
    let db = scratch.foreign();
    assert_eq!(number(&db, "SELECT count(*) FROM active_branches WHERE conversation_id = 'long'"), 20_000);
    assert_eq!(
        number(
            &db,
            "SELECT count(*) FROM branches WHERE conversation_id = 'long' AND leaf_event_id = 'e15000'"
        ),
        15_001
    );
    assert_eq!(number(&db, "SELECT count(*) FROM active_branches WHERE conversation_id = 'short'"), 8);
}
