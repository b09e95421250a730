//! Columns that answer auditors' questions: whether a call is live, for which user it was, its outcome, why it failed.

use std::collections::BTreeSet;

use annals::EventId;
use annals::event::{ErrorClassification, Unfamiliar, decode};
use annals::state::State;
use annals::store::{Leaf, SqlAnswer, SqlQuery, SqlValue};
use annals::transfer::Importer;
use annals::{Expected, Store};
use serde_json::{Value, json};

use crate::support::events::{command, event, pause_after, printed, tool_call, user_message};
use crate::support::{Scratch, conversation, folder};

fn ask(store: &Store, sql: &str, parameters: &[(String, SqlValue)]) -> SqlAnswer {
    store.query(&SqlQuery::new(sql).parameters(parameters)).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

fn rows(store: &Store, sql: &str) -> Vec<Vec<SqlValue>> {
    ask(store, sql, &[]).rows
}

fn text(value: &str) -> SqlValue {
    SqlValue::from(value)
}

fn goldens(scratch: &Scratch) -> Store {
    let store = scratch.open_without_projector();
    for golden in ["conversations", "legacy"] {
        Importer::new(&store, Default::default()).import(&folder::golden(golden), &mut |_| ()).unwrap();
    }
    store
}

#[test]
fn a_call_is_live_if_head_descends_from_it() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let talk = conversation("talk");
    let events = [
        user_message("a", "try"),
        command("b", "call-1", "rm left"),
        printed("c", "b", "call-1", "", 0),
        tool_call("d", "call-2", "grep", json!({"kind": "GrepAction"})),
    ];
    store.append(&talk, Expected::Empty, &events).unwrap();
    let live = "SELECT action_id, is_live FROM tool_calls ORDER BY sequence";
    assert_eq!(rows(&store, live), [[text("b"), 1.into()], [text("d"), 1.into()]]);
    store.set_leaf(&talk, Leaf::At(EventId::new("a").unwrap())).unwrap();
    assert_eq!(rows(&store, live), [[text("b"), 0.into()], [text("d"), 0.into()]]);
    store.append(&talk, Expected::Any, &[pause_after("e", "a"), command("f", "call-3", "ls")]).unwrap();
    assert_eq!(rows(&store, live), [[text("b"), 0.into()], [text("d"), 0.into()], [text("f"), 1.into()]]);
    assert_eq!(rows(&store, "SELECT command FROM commands WHERE NOT is_live"), [[text("rm left")]]);
    store.set_leaf(&talk, Leaf::Empty).unwrap();
    assert_eq!(rows(&store, "SELECT sum(is_live) FROM tool_calls"), [[SqlValue::Integer(0)]]);
}

#[test]
fn calls_of_the_goldens_are_live_if_their_branch_is_active() {
    let scratch = Scratch::new();
    let store = goldens(&scratch);
    let wrong = "SELECT position FROM tool_calls WHERE is_live <> (position IN (SELECT position FROM active_branches))
                 UNION ALL SELECT c.position FROM commands AS c JOIN tool_calls AS t USING (position)
                 WHERE c.is_live <> t.is_live";
    assert_eq!(rows(&store, wrong), [[0; 0]; 0].map(|row| row.map(SqlValue::Integer)));
    let both = rows(&store, "SELECT DISTINCT is_live FROM tool_calls ORDER BY 1");
    assert_eq!(both, [[SqlValue::Integer(0)], [SqlValue::Integer(1)]]);
}

#[test]
fn an_outcome_equals_the_replay_of_the_branch() {
    let scratch = Scratch::new();
    let store = goldens(&scratch);
    let mut seen = 0;
    for row in rows(&store, "SELECT conversation_id, steps, coalesce(final_response, '') FROM outcomes") {
        let SqlValue::Text(id) = &row[0] else { panic!("{row:?}") };
        let sql =
            "SELECT payload FROM active_branches AS b JOIN events AS e USING (conversation_id, sequence)
                   WHERE conversation_id = :id ORDER BY steps_to_leaf DESC";
        let payloads = ask(&store, sql, &[("id".to_owned(), text(id))]).rows;
        let events: Vec<_> = payloads
            .iter()
            .filter_map(|row| match &row[0] {
                SqlValue::Text(payload) => decode(payload, Unfamiliar::Keep).ok(),
                _ => None,
            })
            .collect();
        let state = State::of(&events);
        let steps = i64::try_from(state.iteration()).unwrap();
        assert_eq!(row[1..], [SqlValue::Integer(steps), text(state.final_response())], "{id}");
        seen += usize::from(steps > 0 && !state.final_response().is_empty());
    }
    assert!(seen >= 8, "{seen}");
}

/// Returns the string literals of `classify.rs`: codes, and words of details.
fn words() -> BTreeSet<String> {
    let source = include_str!("../../src/event/classify.rs").split("#[cfg(test)]").next().unwrap();
    let code = source.lines().filter(|line| !line.trim_start().starts_with("//"));
    let literals = code.flat_map(|line| {
        let line = line.replace("\\\"", "\u{1}");
        line.split('"').skip(1).step_by(2).map(|text| text.replace('\u{1}', "\"")).collect::<Vec<_>>()
    });
    literals.collect()
}

#[test]
fn an_error_without_a_class_gets_the_class_that_annals_computes() {
    let words = words();
    assert!(words.len() > 60, "{}", words.len());
    let mut cases = vec![("".to_owned(), "".to_owned()), ("RuntimeError".to_owned(), "who knows".to_owned())];
    for word in &words {
        cases.push((word.clone(), "who knows".to_owned()));
        for code in ["RuntimeError", "APIError", "KeyError", ""] {
            cases.push((code.to_owned(), format!("It said: {} (12)", word.to_uppercase())));
        }
    }
    // Two words in one detail: the order of the rules decides.
    let two: Vec<&String> = words.iter().collect();
    cases.extend(two.windows(2).map(|two| ("X".to_owned(), format!("{} {}", two[1], two[0]))));
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let events: Vec<_> = cases
        .iter()
        .enumerate()
        .map(|(number, (code, detail))| {
            let members = json!({"source": "environment", "code": code, "detail": detail});
            event(&format!("e{number}"), "ConversationErrorEvent", members)
        })
        .collect();
    for batch in events.chunks(100) {
        store.append(&conversation("talk"), Expected::Any, batch).unwrap();
    }
    let classes = rows(&store, "SELECT class FROM errors ORDER BY position");
    assert_eq!(classes.len(), cases.len());
    for (row, (code, detail)) in classes.iter().zip(&cases) {
        let class = ErrorClassification::classify(code, detail);
        assert_eq!(row[0], text(class.kind.as_str()), "{code:?} {detail:?}");
    }
    let own = json!({"source": "environment", "code": "KeyError", "detail": "", "classification": {"kind": "quota"}});
    let own = [event("own", "ConversationErrorEvent", own)];
    store.append(&conversation("other"), Expected::Empty, &own).unwrap();
    let own_class = rows(&store, "SELECT class FROM errors WHERE conversation_id = 'other'");
    assert_eq!(own_class, [[text("quota")]]);
}

#[test]
fn conversations_have_a_user_id_and_attachments_have_a_rowid() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    for (name, meta) in [("ada", r#"{"user_id": "ada"}"#), ("odd", "{no json"), ("none", "{}")] {
        let folder = scratch.path(name);
        std::fs::create_dir_all(folder.join("events")).unwrap();
        let first = user_message("a", "hello");
        std::fs::write(folder.join("events/event-00000-a.json"), first.payload()).unwrap();
        std::fs::write(folder.join("base_state.json"), json!({"id": name}).to_string()).unwrap();
        std::fs::write(folder.join("meta.json"), meta).unwrap();
        Importer::new(&store, Default::default()).import(&folder, &mut |_| ()).unwrap();
    }
    let users = rows(&store, "SELECT user_id FROM conversations ORDER BY user_id");
    assert_eq!(users, [[SqlValue::Null], [SqlValue::Null], [text("ada")]]);
    let same = "SELECT count(*) FROM attachments AS a JOIN attachments AS b USING (rowid)
                WHERE a.sha256 <> b.sha256 OR typeof(a.rowid) <> 'integer'";
    assert_eq!(rows(&store, same), [[SqlValue::Integer(0)]]);
}

/// Returns the SQL statements of a document's commands `annals query "SELECT …"`.
fn sql_statements(document: &str) -> Vec<&str> {
    let commands = document.lines().filter_map(|line| line.split_once("query \"")).map(|(_, rest)| rest);
    let quoted = commands.filter_map(|rest| rest.split('"').next());
    quoted.filter(|sql| sql.starts_with("SELECT") && !sql.contains("FROM event\"")).collect()
}

#[test]
fn the_queries_of_the_documents_are_answered() {
    let scratch = Scratch::new();
    let store = goldens(&scratch);
    let statements = sql_statements(include_str!("../../docs/query.md"));
    assert!(statements.len() >= 7, "{statements:?}");
    for sql in statements {
        let given = [("id".to_owned(), text("my-task-123"))];
        ask(&store, sql, if sql.contains(":id") { &given } else { &[] });
    }
    let bodies: Vec<&str> = include_str!("../../docs/api.md")
        .split("-d '")
        .skip(1)
        .filter_map(|rest| rest.split("'\n").next())
        .filter(|body| body.contains("\"sql\""))
        .collect();
    assert_eq!(bodies.len(), 1);
    for body in bodies {
        let body: Value = serde_json::from_str(body).unwrap();
        let given: Vec<_> = body["parameters"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, value)| (name.clone(), text(value.as_str().unwrap())))
            .collect();
        assert!(!ask(&store, body["sql"].as_str().unwrap(), &given).rows.is_empty());
    }
}
