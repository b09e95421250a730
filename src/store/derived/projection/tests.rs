//! Every projection is complete: its file, the migrations, the guard of queries and the documents agree.

use std::collections::BTreeSet;

use super::*;
use crate::store::derived::{migration, schema};
use crate::store::read::query::VIEWS;

const FORMAT: &str = include_str!("../../../../docs/format.md");

/// Returns whether a table is a projection's, the search index's, or the table of checkpoints.
fn is_described(object: &schema::Object) -> bool {
    tables().any(|table| table.name == object.name)
        || object.name == CHECKPOINTS
        || object.name == search::TABLE
        || search::is_beneath(&object.name)
}

/// Returns the columns of a table or a view. Empty if there is no such object.
fn columns(db: &Connection, name: &str) -> Vec<String> {
    let Ok(statement) = db.prepare(&format!("SELECT * FROM {name}")) else { return Vec::new() };
    statement.column_names().into_iter().map(str::to_owned).collect()
}

/// Returns every word that stands alone in a cell of a table, or between backticks, in a part of `docs/format.md`.
fn documented(part: &str) -> BTreeSet<&str> {
    let cells = part.lines().filter(|line| line.starts_with('|')).flat_map(|line| line.split('|'));
    let names = cells.flat_map(|cell| cell.split(',')).map(str::trim);
    names.chain(part.split('`').skip(1).step_by(2)).collect()
}

/// Returns the part of `docs/format.md` about a view. `None` if no heading names it.
fn part_about(view: &str) -> Option<&'static str> {
    let mut parts = FORMAT.split("\n### ").skip(1).filter_map(|part| part.split("\n## ").next());
    parts.find(|part| {
        let heading = part.lines().next().unwrap_or_default();
        heading.split(", ").any(|name| name == view)
    })
}

/// Returns what is wrong with the description of a table, or missing beside it.
fn lacks_of_table(db: &Connection, table: &Table) -> Vec<String> {
    let name = table.name;
    let made = schema::statements(name).unwrap();
    if made.first().is_none_or(|first| first.kind != ObjectKind::Table) {
        return vec![format!("neither its statements nor a migration makes the table {name}")];
    }
    let mut lacks = Vec::new();
    let mut need = |is_met: bool, lack: String| lacks.extend((!is_met).then_some(lack));
    let columns = columns(db, name);
    let has = |column: &str| columns.iter().any(|other| other == column);
    let key = match table.key {
        Key::Position => "position",
        Key::Conversation => "conversation",
    };
    need(has(key), format!("the table {name} has no column {key}, which is its key"));
    need(
        !has("position") || table.places.contains(&"position"),
        format!("the places of {name} lack position: rows ahead of the checkpoint would not be seen"),
    );
    for place in table.places {
        let is_there = db.prepare(&format!("SELECT {place} FROM {name}")).is_ok();
        need(is_there, format!("the table {name} has no {place}, which is one of its places"));
    }
    if let Some(order) = table.order {
        let is_there = db.prepare(&format!("SELECT 1 FROM {name} ORDER BY {order}")).is_ok();
        need(is_there, format!("the table {name} cannot be ordered by {order}"));
    }
    let view = table.view;
    need(VIEWS.iter().any(|other| other.name == view), format!("{name}: {view} is no documented view"));
    let is_shown = schema::wanted()
        .unwrap()
        .iter()
        .any(|object| object.kind == ObjectKind::View && object.name == view && object.sql.contains(name));
    // The figures of `usage_total` are only the start of the next difference, and clues are what facts are made from.
    let is_hidden = table.order.is_none() || matches!(name, "usage_total" | "conversation_clue");
    need(is_shown || is_hidden, format!("the view {view} does not show the table {name}"));
    let (_, beneath) = FORMAT.split_once("\n## The tables beneath\n").unwrap();
    let row = format!("docs/format.md has no row for the table {name} in \"The tables beneath\"");
    need(documented(beneath).contains(name), row);
    lacks
}

/// Returns what is wrong with the description of a view, or missing beside it.
fn lacks_of_view(db: &Connection, view: &SqlView) -> Vec<String> {
    let name = view.name;
    let columns = columns(db, name);
    if columns.is_empty() {
        return vec![format!("neither its statements nor a migration makes the view {name}")];
    }
    let mut lacks = Vec::new();
    let mut need = |is_met: bool, lack: String| lacks.extend((!is_met).then_some(lack));
    need(columns == view.columns, format!("the view {name} has the columns {columns:?}"));
    need(VIEWS.contains(view), format!("the guard of queries does not know the view {name}"));
    let Some(part) = part_about(name) else {
        need(false, format!("docs/format.md has no heading \"### {name}\""));
        return lacks;
    };
    for column in view.columns {
        let is_there = documented(part).contains(column);
        need(is_there, format!("docs/format.md does not say what the column {column} of {name} is"));
    }
    lacks
}

#[test]
fn nothing_of_a_projection_is_missing() {
    let db = migration::open_fresh().unwrap();
    let mut lacks = Vec::new();
    for projection in PROJECTIONS {
        let name = projection.name;
        let begun = (projection.begin)();
        if begun.name() != name {
            lacks.push(format!("{name}: what it begins is {}", begun.name()));
        }
        if db.prepare(projection.check).is_err() {
            lacks.push(format!("{name}: its check is no statement of this schema"));
        }
        for statement in projection.statements {
            let is_stored = schema::wanted()
                .unwrap()
                .iter()
                .any(|object| object.sql == *statement && schema::is_declared(object, &[*projection]));
            if !is_stored {
                lacks.push(format!("{name}: the engine does not store this statement as it is: {statement}"));
            }
        }
        let of_tables = projection.tables.iter().flat_map(|table| lacks_of_table(&db, table));
        let of_views = projection.views.iter().flat_map(|view| lacks_of_view(&db, view));
        lacks.extend(of_tables.chain(of_views).map(|lack| format!("{name}: {lack}")));
    }
    assert!(lacks.is_empty(), "projections are not complete:\n{}", lacks.join("\n"));
}

#[test]
fn what_every_projection_shares_works_on_every_table() {
    let db = migration::open_fresh().unwrap();
    for table in tables() {
        table.delete_rows(&db, 1).unwrap();
        table.prune(&db).unwrap();
        assert!(!table.is_ahead(&db, 0, true).unwrap(), "{}", table.name);
    }
    let names = names();
    assert_eq!(names.len(), names.iter().collect::<BTreeSet<_>>().len(), "two projections have one name");
    let all: Vec<_> = tables().map(|table| table.name).collect();
    assert_eq!(all.len(), all.iter().collect::<BTreeSet<_>>().len(), "two projections fill one table");
}

#[test]
fn a_table_is_derived_only_if_a_projection_owns_it() {
    for object in schema::wanted().unwrap().iter().filter(|object| object.kind == ObjectKind::Table) {
        assert_eq!(object.role() == Role::Derived, is_described(object), "{}", object.name);
    }
}

#[test]
fn a_shadow_table_has_the_same_columns_and_indexes() {
    let db = migration::open_fresh().unwrap();
    let count = |schema: &str, name: &str| -> (i64, i64) {
        let sql = format!(
            "SELECT (SELECT count(*) FROM pragma_table_info('{name}', '{schema}')), \
             (SELECT count(*) FROM pragma_index_list('{name}', '{schema}'))"
        );
        db.query_row(&sql, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
    };
    for table in tables() {
        table.make_shadow(&db).unwrap();
        assert_eq!(count("temp", table.name), count("main", table.name), "{}", table.name);
    }
    assert_eq!(count("temp", "tool_call").1, 4, "with the index that a later migration added");
}

/// A projection that makes its table, index and view itself.
const SAMPLE: Description = Description {
    name: "sample",
    schema: migration::SCHEMA_VERSION + 1,
    statements: &[
        "CREATE TABLE sample_row (
    position INTEGER PRIMARY KEY, -- of the event
    word     TEXT NOT NULL
) STRICT",
        "CREATE INDEX sample_row_by_word ON sample_row (word) WHERE word <> ''",
        "CREATE VIEW samples AS
SELECT position, word
FROM sample_row",
    ],
    ..tasks::DESCRIPTION
};

#[test]
fn a_projection_may_make_its_tables_itself() {
    let all: Vec<&Description> = PROJECTIONS.iter().copied().chain([&SAMPLE]).collect();
    let is_as_made = |db: &Connection| schema::are_as_made(schema::read(db).unwrap(), &all);
    let made = || {
        let db = migration::open_fresh().unwrap();
        schema::make_declared(&db, &all).unwrap();
        db
    };
    assert!(!is_as_made(&migration::open_fresh().unwrap()), "its objects are missing");
    let db = made();
    assert!(is_as_made(&db));
    assert!(!schema::is_as_made(&db).unwrap(), "they are of no projection that this program has");
    db.execute("INSERT INTO sample_row (position, word) VALUES (1, 'one')", []).unwrap();
    schema::make_declared(&db, &all).unwrap();
    assert!(is_as_made(&db));
    let rows: i64 = db.query_row("SELECT count(*) FROM samples", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 1, "what is there stays");
    for harm in [
        "DROP TABLE sample_row",
        "DROP INDEX sample_row_by_word",
        "DROP INDEX sample_row_by_word; CREATE INDEX sample_row_by_word ON sample_row (word)",
        "DROP VIEW samples; CREATE VIEW samples AS SELECT 1 AS word",
        "ALTER TABLE sample_row ADD COLUMN more TEXT",
        "CREATE TRIGGER theirs AFTER INSERT ON sample_row BEGIN SELECT 1; END",
        "CREATE TABLE theirs (x)",
        "DROP VIEW events",
    ] {
        let db = made();
        db.execute_batch(harm).unwrap();
        assert!(!is_as_made(&db), "{harm}");
    }
}
