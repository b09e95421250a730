//! The read contract of `docs/format.md`, tested with a plain SQLite connection: every view, column and statement
//! named there works, and the four questions have the right answers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use annals::Expected;
use annals::redact::Finder;
use annals::store::Redaction;
use annals::transfer::Importer;
use rusqlite::types::Value as Cell;
use rusqlite::{Connection, OpenFlags, params_from_iter};
use serde_json::Value;

use crate::support::events::{pause, user_message};
use crate::support::{Scratch, all_events, assert_sound, conversation, folder, rows};

const FORMAT: &str = include_str!("../../docs/format.md");

/// Returns a database of all goldens, and a read-only connection to it as the `sqlite3` shell opens it.
fn goldens() -> (Scratch, Connection) {
    static FILE: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let scratch = Scratch::new();
        let store = scratch.open_without_projector();
        for golden in ["conversations", "corrupt", "legacy"] {
            Importer::new(&store, Default::default()).import(&folder::golden(golden), &mut |_| ()).unwrap();
        }
        store.search("file", &Default::default(), 1, &mut |_| ()).unwrap();
        store.catch_up().unwrap();
        drop(store);
        std::fs::read(scratch.database()).unwrap() // complete, because no connection is open
    });
    let scratch = Scratch::new();
    std::fs::write(scratch.database(), &*FILE).unwrap();
    let db = Connection::open_with_flags(scratch.database(), OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    (scratch, db)
}

/// Returns the part of the document below a heading, up to the next heading of the same or a higher rank.
fn section(heading: &str) -> &'static str {
    let start = FORMAT.find(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("there is no {heading:?}"));
    let rank = heading.find(' ').unwrap();
    let text = &FORMAT[start + heading.len() + 2..];
    let end = (1..=rank).filter_map(|rank| text.find(&format!("\n{} ", "#".repeat(rank)))).min();
    &text[..end.unwrap_or(text.len())]
}

/// Returns the blocks of SQL in a part of the document.
fn statements(text: &'static str) -> Vec<&'static str> {
    text.split("```sql\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

/// Returns the names in the first column of the tables in a part of the document.
fn documented_names(text: &str) -> Vec<String> {
    let rows = text.lines().filter(|line| line.starts_with('|') && !line.starts_with("|---"));
    let names = rows.flat_map(|row| row.split('|').nth(1).unwrap_or_default().split(','));
    let names = names.map(|name| name.trim().to_owned());
    names
        .filter(|name| !name.is_empty() && !["column", "view", "table", "limit"].contains(&name.as_str()))
        .collect()
}

fn columns(db: &Connection, view: &str) -> Vec<String> {
    let statement = db.prepare(&format!("SELECT * FROM {view}")).unwrap();
    statement.column_names().into_iter().map(str::to_owned).collect()
}

#[test]
fn every_view_and_its_columns_are_documented_and_exist() {
    let (_scratch, db) = goldens();
    let views: Vec<String> = rows(&db, "SELECT name FROM sqlite_schema WHERE type = 'view' ORDER BY name")
        .into_iter()
        .map(|row| if let Cell::Text(name) = &row[0] { name.clone() } else { panic!("{row:?}") })
        .collect();
    let part = section("## The views");
    for view in &views {
        assert!(
            part.contains(&format!("`{view}`"))
                || part.contains(&format!("### {view}"))
                || part.contains(&format!(", {view}")),
            "{view} is not documented"
        );
    }
    for view in ["conversations", "events", "transcript", "tool_calls", "usage"] {
        let listed = documented_names(section(&format!("### {view}")));
        assert_eq!(listed, columns(&db, view), "{view}");
    }
    let listed: BTreeSet<String> =
        ["conversation_id", "place", "title", "notes", "status", "sequence"].map(String::from).into();
    assert_eq!(columns(&db, "tasks").into_iter().collect::<BTreeSet<_>>(), listed);
    assert!(listed.iter().all(|column| section("### tasks").contains(&format!("`{column}`"))));
    for heading in ["### base_states, base_state_changes", "### attachments, problems"] {
        let mut view = String::new();
        let mut listed: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for row in section(heading).lines().filter(|line| line.starts_with("| ")).skip(1) {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            if !cells[1].is_empty() {
                view = cells[1].to_owned();
            }
            listed
                .entry(view.clone())
                .or_default()
                .extend(cells[2].split(',').map(|name| name.trim().to_owned()));
        }
        assert_eq!(listed.len(), 2, "{listed:?}");
        for (view, listed) in listed {
            let rest: Vec<String> =
                columns(&db, &view).into_iter().filter(|column| column != "conversation_id").collect();
            assert_eq!(rest, listed, "{view}");
        }
    }
}

#[test]
fn every_table_is_documented_and_exists() {
    let (_scratch, db) = goldens();
    let tables = rows(
        &db,
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' \
         AND name NOT LIKE 'transcript_search_%' ORDER BY name",
    );
    let tables: BTreeSet<String> = tables
        .into_iter()
        .map(|row| if let Cell::Text(name) = &row[0] { name.clone() } else { panic!("{row:?}") })
        .collect();
    let listed = documented_names(section("## The tables beneath"));
    let listed: BTreeSet<String> = listed.into_iter().filter(|name| name != "transcript_search_*").collect();
    assert_eq!(listed, tables);
}

#[test]
fn every_statement_of_the_document_runs() {
    let (_scratch, db) = goldens();
    let all = statements(FORMAT);
    assert!(all.len() >= 6, "{}", all.len());
    for sql in all {
        let mut statement = db.prepare(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        let mut rows = statement.query(params_from_iter(Vec::<Cell>::new())).unwrap();
        while rows.next().unwrap_or_else(|error| panic!("{sql}: {error}")).is_some() {}
    }
}

/// Returns one of the four statements, with replacements for the conversation or path of the document.
fn question(number: usize, replace: &[(&str, &str)]) -> String {
    let mut sql = statements(section("## Four questions"))[number].to_owned();
    for (from, to) in replace {
        assert!(sql.contains(from), "{sql}");
        sql = sql.replace(from, to);
    }
    sql
}

fn text(cell: &Cell) -> Option<&str> {
    if let Cell::Text(text) = cell { Some(text) } else { None }
}

/// Returns the events of a golden folder, read without Annals.
fn events_of(golden: &str) -> Vec<Value> {
    let tree = folder::read(&folder::golden("conversations").join(golden).join("events"));
    let files = tree.into_iter().filter(|(path, _)| path.ends_with(".json"));
    files.map(|(_, content)| serde_json::from_slice(&content).unwrap()).collect()
}

fn conversation_id(golden: &str) -> String {
    let path = folder::golden("conversations").join(golden).join("expected.json");
    let expected: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    expected["conversation_id"].as_str().unwrap().to_owned()
}

#[test]
fn the_first_question_returns_the_commands_with_their_exit_codes() {
    let (_scratch, db) = goldens();
    let id = conversation_id("coding-task");
    let actual: Vec<(Option<String>, Option<i64>)> = rows(&db, &question(0, &[("my-task-123", &id)]))
        .iter()
        .map(|row| {
            let code = if let Cell::Integer(code) = row[4] { Some(code) } else { None };
            (text(&row[2]).map(str::to_owned), code)
        })
        .collect();
    let events = events_of("coding-task");
    let exit_code = |action: &Value| {
        let answer = events.iter().find(|event| event["action_id"] == action["id"])?;
        answer["observation"]["metadata"]["exit_code"].as_i64()
    };
    let expected: Vec<(Option<String>, Option<i64>)> = events
        .iter()
        .filter(|event| event["kind"] == "ActionEvent" && event["tool_name"] == "terminal")
        .map(|action| (action["action"]["command"].as_str().map(str::to_owned), exit_code(action)))
        .collect();
    assert!(expected.len() >= 5 && expected.iter().any(|(_, code)| *code == Some(0)), "{expected:?}");
    assert_eq!(actual, expected);
}

#[test]
fn the_second_question_returns_the_cost_of_each_model() {
    let (_scratch, db) = goldens();
    // Only the undamaged conversations: the damaged copies of one of them would be counted again.
    let ids: Vec<String> = folder::goldens("conversations")
        .iter()
        .map(|path| conversation_id(path.file_name().unwrap().to_str().unwrap()))
        .collect();
    let only = format!("FROM usage WHERE conversation_id IN ('{}') GROUP BY", ids.join("', '"));
    let actual: BTreeMap<String, (i64, i64, f64)> =
        rows(&db, &question(1, &[("FROM usage GROUP BY", &only)]))
            .into_iter()
            .map(|row| match (&row[0], &row[1], &row[2], &row[3]) {
                (Cell::Text(model), Cell::Integer(prompt), Cell::Integer(completion), Cell::Real(cost)) => {
                    (model.clone(), (*prompt, *completion, *cost))
                }
                other => panic!("{other:?}"),
            })
            .collect();
    let mut expected: BTreeMap<String, (i64, i64, f64)> = BTreeMap::new();
    for path in folder::goldens("conversations") {
        let golden: Value =
            serde_json::from_slice(&std::fs::read(path.join("expected.json")).unwrap()).unwrap();
        for usage in golden["stats"]["usages"].as_object().unwrap().values() {
            let tokens = |member: &str| usage["accumulated_token_usage"][member].as_i64().unwrap();
            let total = expected.entry(usage["model_name"].as_str().unwrap().to_owned()).or_default();
            total.0 += tokens("prompt_tokens");
            total.1 += tokens("completion_tokens");
            total.2 += usage["accumulated_cost"].as_f64().unwrap();
        }
    }
    assert_eq!(actual.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for (model, (prompt, completion, cost)) in expected {
        let actual = actual[&model];
        assert_eq!((actual.0, actual.1), (prompt, completion), "{model}");
        assert!((actual.2 - cost).abs() < 1e-4, "{model}: {} and not {cost}", actual.2);
    }
}

#[test]
fn the_third_question_returns_the_conversations_that_touched_a_path() {
    let (_scratch, db) = goldens();
    let mut expected: BTreeMap<String, BTreeMap<String, i64>> = BTreeMap::new();
    for path in folder::goldens("conversations") {
        let golden = path.file_name().unwrap().to_str().unwrap();
        let events = events_of(golden);
        for action in events.iter().filter(|event| event["kind"] == "ActionEvent") {
            let Some(file) = action["action"]["path"].as_str() else { continue };
            let answer = events.iter().find(|event| event["action_id"] == action["id"]);
            if answer.is_some_and(|answer| answer["observation"]["is_error"] == false) {
                let of_path = expected.entry(file.to_owned()).or_default();
                *of_path.entry(conversation_id(golden)).or_default() += 1;
            }
        }
    }
    assert!(expected.len() >= 2, "{expected:?}");
    for (path, expected) in expected {
        let actual = rows(&db, &question(2, &[("/workspace/src/main.rs", &path)]));
        let actual: BTreeMap<String, i64> = actual
            .into_iter()
            .map(|row| match (&row[0], &row[1]) {
                (Cell::Text(id), Cell::Integer(calls)) => (id.clone(), *calls),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(actual, expected, "{path}");
    }
}

#[test]
fn the_fourth_question_returns_rejections_with_source_and_reason() {
    let (_scratch, db) = goldens();
    let actual: BTreeSet<(String, String, String)> = rows(&db, &question(3, &[]))
        .iter()
        .map(|row| [0, 4, 5].map(|column| text(&row[column]).unwrap_or_default().to_owned()).into())
        .collect();
    let mut expected = BTreeSet::new();
    for path in folder::goldens("conversations") {
        let golden = path.file_name().unwrap().to_str().unwrap();
        for event in events_of(golden).iter().filter(|event| event["kind"] == "UserRejectObservation") {
            let member = |name: &str| event[name].as_str().unwrap().to_owned();
            expected.insert((
                conversation_id(golden),
                member("rejection_source"),
                member("rejection_reason"),
            ));
        }
    }
    assert!(expected.iter().any(|(_, source, _)| source == "user"));
    assert!(expected.iter().any(|(_, source, _)| source == "hook"));
    assert_eq!(actual, expected);
}

#[test]
fn the_hash_chain_can_be_computed_as_documented() {
    let (scratch, db) = goldens();
    let store = scratch.open_without_projector();
    let row = rows(
        &db,
        "SELECT conversation_id, head_hash, event_count FROM conversations WHERE event_count > 5 LIMIT 1",
    );
    let (Some(id), Some(head)) = (text(&row[0][0]), text(&row[0][1])) else { panic!("{row:?}") };
    let mut previous = "0".repeat(64);
    for event in all_events(&store, &conversation(id)) {
        let payload = annals::chain::Digest::of(event.payload.as_bytes());
        let link =
            format!("annals-event-v1\n{id}\n{}\n{}\n{payload}\n{previous}\n", event.sequence, event.id);
        previous = annals::chain::Digest::of(link.as_bytes()).to_hex();
    }
    assert_eq!(previous, head);
}

#[test]
fn reads_of_the_views_use_an_index() {
    let (_scratch, db) = goldens();
    for sql in [
        "SELECT payload FROM events WHERE conversation_id = 'x' ORDER BY sequence LIMIT 100",
        "SELECT payload FROM events WHERE conversation_id = 'x' AND sequence >= 7 ORDER BY sequence LIMIT 100",
        "SELECT payload FROM events WHERE conversation_id = 'x' AND event_id = 'y'",
        "SELECT payload FROM events WHERE position > 7 ORDER BY position LIMIT 100",
        "SELECT text FROM transcript WHERE conversation_id = 'x' AND sequence BETWEEN 7 AND 17 ORDER BY sequence",
        "SELECT command FROM tool_calls WHERE path = 'x'",
        "SELECT command FROM tool_calls WHERE conversation_id = 'x' AND sequence > 7 ORDER BY sequence LIMIT 100",
        "SELECT command FROM commands WHERE conversation_id = 'x' AND sequence > 7 ORDER BY sequence LIMIT 100",
        "SELECT class FROM errors WHERE conversation_id = 'x'",
        "SELECT * FROM hooks WHERE conversation_id = 'x'",
        "SELECT * FROM head_moves WHERE conversation_id = 'x'",
        "SELECT * FROM imports WHERE conversation_id = 'x'",
        "SELECT * FROM secrets WHERE conversation_id = 'x'",
        "SELECT * FROM base_state_changes WHERE conversation_id = 'x'",
        "SELECT sum(cost) FROM usage WHERE conversation_id = 'x'",
        "SELECT title FROM tasks WHERE conversation_id = 'x' ORDER BY place",
        "SELECT document FROM base_states WHERE conversation_id = 'x'",
        "SELECT path FROM attachments WHERE conversation_id = 'x'",
        "SELECT problem FROM problems WHERE conversation_id = 'x'",
        "SELECT status FROM conversations WHERE conversation_id = 'x'",
    ] {
        let plan = rows(&db, &format!("EXPLAIN QUERY PLAN {sql}"));
        let details: Vec<&str> = plan.iter().filter_map(|step| text(&step[3])).collect();
        for (step, detail) in plan.iter().zip(&details) {
            let scans = detail.starts_with("SCAN ")
                && !["VIRTUAL TABLE", "CONSTANT ROW", "(subquery", "one_row"]
                    .iter()
                    .any(|known| detail.contains(known));
            // The parts of one event's text may be sorted. Rows may not.
            let sorts = detail.contains("TEMP B-TREE") && step[1] == Cell::Integer(0);
            assert!(!scans && !sorts, "{sql}\n{details:#?}");
        }
    }
}

#[test]
fn every_column_of_every_view_has_a_type_that_its_values_have() {
    let (_scratch, db) = goldens();
    let (mut checked, mut wrong) = (0, Vec::new());
    for view in rows(&db, "SELECT name FROM sqlite_schema WHERE type = 'view' ORDER BY name") {
        let Cell::Text(view) = &view[0] else { panic!("{view:?}") };
        for column in rows(&db, &format!("SELECT name, type FROM pragma_table_info('{view}')")) {
            let [Cell::Text(name), Cell::Text(declared)] = &column[..] else { panic!("{column:?}") };
            let stored: &[&str] = match declared.as_str() {
                "TEXT" => &["text", "null"],
                "INT" | "INTEGER" => &["integer", "null"],
                "REAL" => &["real", "null"],
                "BLOB" => &["blob", "null"],
                other => {
                    wrong.push(format!("{view}.{name}: {other:?}"));
                    continue;
                }
            };
            // The paths from every event of a long conversation take long, and are no other than those from HEAD.
            let rest = if view == "branches" { " LIMIT 1000" } else { "" };
            let sql =
                format!("SELECT DISTINCT typeof(\"{name}\") FROM (SELECT \"{name}\" FROM {view}{rest})");
            for found in rows(&db, &sql) {
                let Cell::Text(found) = &found[0] else { panic!("{found:?}") };
                if !stored.contains(&found.as_str()) {
                    wrong.push(format!("{view}.{name} is {declared} and has a value that is {found}"));
                }
            }
            checked += 1;
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(checked > 250, "{checked}");
}

#[test]
fn other_programs_read_the_text_of_what_they_find_and_never_what_was_taken_out() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let (talk, other) = (conversation("talk"), conversation("other"));
    for id in [&talk, &other] {
        store.append(id, Expected::Any, &[user_message("a", "the needle in cleanCode"), pause("b")]).unwrap();
    }
    store.search("needle", &Default::default(), 1, &mut |_| ()).unwrap();
    let db = scratch.stranger();
    let found = || {
        rows(
            &db,
            "SELECT rowid, text FROM transcript_search WHERE transcript_search MATCH 'needle' ORDER BY 1",
        )
    };
    let row = |position: i64| vec![Cell::Integer(position), Cell::Text("the needle in cleanCode".into())];
    assert_eq!(found(), [row(1), row(3)]);
    let count = "SELECT count(*) FROM transcript_search WHERE text LIKE '%needle%'";
    assert_eq!(rows(&db, count), [[Cell::Integer(2)]]);
    let finder = Finder::expression("needle").unwrap();
    store
        .retention()
        .redact(&talk, Redaction::Matches { finder: &finder, values: &[], own: false }, "a test")
        .unwrap();
    assert_eq!(found(), [row(3)]);
    let redacted = rows(&db, "SELECT text FROM transcript_search WHERE transcript_search MATCH 'redacted'");
    assert_eq!(redacted, [[Cell::Text("the [redacted] in cleanCode".into())]]);
    store.maintenance().rebuild(&["search"], &mut |_| ()).unwrap();
    assert_eq!(found(), [row(3)]);
    store.retention().erase(&other, "a test").unwrap();
    assert_eq!((found().len(), rows(&db, count)), (0, vec![vec![Cell::Integer(0)]]));
    assert_sound(&store);
}
