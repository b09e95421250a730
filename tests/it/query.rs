//! SQL of callers: which statements are admitted and which are rejected, and that a rejected one has no effect.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use annals::store::{SqlAnswer, SqlLimits, SqlQuery, SqlValue, Truncation, VIEWS};
use annals::{Error, Expected, Options, Result, Store};

use crate::support::events::{answered, command, printed, user_message};
use crate::support::{Scratch, conversation};

fn ask(store: &Store, sql: &str) -> Result<SqlAnswer> {
    ask_within(store, sql, SqlLimits::default())
}

fn ask_within(store: &Store, sql: &str, limits: SqlLimits) -> Result<SqlAnswer> {
    store.query(&SqlQuery::new(sql).limits(limits))
}

fn ask_with(store: &Store, sql: &str, parameters: &[(&str, SqlValue)]) -> Result<SqlAnswer> {
    let parameters: Vec<_> =
        parameters.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    store.query(&SqlQuery::new(sql).parameters(&parameters))
}

/// Returns the error and the hint for a query that is rejected.
#[track_caller]
fn refusal(store: &Store, sql: &str) -> (String, String) {
    match ask(store, sql) {
        Err(Error::QueryRefused { what, hint }) => (what, hint.unwrap_or_default()),
        other => panic!("{sql}: {other:?}"),
    }
}

/// Creates a store with one short conversation.
fn store(scratch: &Scratch) -> Store {
    let store = scratch.open_without_projector();
    let talk = conversation("talk");
    let events = [
        user_message("a", "list the files"),
        command("b", "call-1", "ls -l"),
        printed("c", "b", "call-1", "total 0", 0),
        answered("d", "there are none"),
    ];
    store.append(&talk, Expected::Empty, &events).unwrap();
    store
}

fn text(value: &str) -> SqlValue {
    SqlValue::from(value)
}

#[test]
fn a_query_reads_what_the_views_show() {
    let scratch = Scratch::new();
    let store = store(&scratch);
    let answer = ask(&store, "SELECT sequence, role, text FROM transcript ORDER BY sequence").unwrap();
    assert_eq!(answer.columns, ["sequence", "role", "text"]);
    assert_eq!(
        answer.rows,
        [
            [0.into(), text("user"), text("list the files")],
            [1.into(), text("assistant"), text("ls -l")],
            [2.into(), text("tool"), text("total 0")],
            [3.into(), text("assistant"), text("there are none")],
        ]
    );
    assert_eq!(answer.truncated, None);
}

#[test]
fn every_view_can_be_read_whole_and_counted() {
    let scratch = Scratch::new();
    let store = store(&scratch);
    for view in VIEWS {
        let all = ask(&store, &format!("SELECT * FROM {}", view.name)).unwrap();
        assert_eq!(all.columns, view.columns, "{}", view.name);
        let count = ask(&store, &format!("SELECT count(*) FROM {}", view.name)).unwrap();
        assert_eq!(count.rows, [[SqlValue::Integer(all.rows.len() as i64)]], "{}", view.name);
        for column in view.columns {
            ask(&store, &format!("SELECT max({column}) FROM MAIN.{}", view.name.to_uppercase())).unwrap();
        }
    }
}

/// Statements that an auditor is likely to write. Each must be admitted.
#[test]
fn statements_that_an_auditor_writes_are_admitted() {
    let scratch = Scratch::new();
    let store = store(&scratch);
    for sql in [
        "WITH calls AS (SELECT tool, count(*) AS n FROM tool_calls GROUP BY tool) SELECT * FROM calls ORDER BY n DESC",
        "WITH RECURSIVE n(x) AS (VALUES (1) UNION ALL SELECT x + 1 FROM n WHERE x < 9) SELECT count(*) FROM n",
        "WITH RECURSIVE up(id, parent) AS (SELECT event_id, parent_id FROM events UNION SELECT e.event_id, \
         e.parent_id FROM events AS e JOIN up ON up.parent = e.event_id) SELECT count(*) FROM up",
        "SELECT t.key, t.value FROM conversations, json_each(conversations.tags) AS t",
        "SELECT e.payload ->> '$.kind', json_extract(payload, '$.id') FROM events AS e",
        "SELECT tool, row_number() OVER (PARTITION BY tool ORDER BY sequence) FROM tool_calls",
        "SELECT (SELECT count(*) FROM events AS e WHERE e.conversation_id = c.conversation_id) FROM conversations AS c",
        "SELECT 1 FROM events WHERE EXISTS (SELECT 1 FROM tool_calls) UNION ALL SELECT 2 FROM usage",
        "SELECT command FROM tool_calls WHERE command LIKE '%LS%' AND command GLOB 'ls*' AND instr(command, 'l') = 1",
        "SELECT substr(started_at, 1, 10) AS day, total(duration_ms), group_concat(DISTINCT tool) FROM tool_calls \
         GROUP BY day HAVING count(*) > 0 ORDER BY day LIMIT 5 OFFSET 0",
        "SELECT count(*) FILTER (WHERE outcome = 'error') FROM tool_calls",
        "SELECT CASE WHEN kind LIKE 'Action%' THEN 'a' ELSE 'b' END, strftime('%Y', recorded_at) FROM events",
        "SELECT * FROM events NATURAL JOIN conversations",
        "VALUES (1, 'one')",
        "  /* why */ SELECT kind FROM events -- which\n ;  ",
        "SELECT conversation.title FROM conversations AS conversation",
        "WITH event AS (SELECT * FROM events) SELECT count(*) FROM event",
    ] {
        ask(&store, sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
}

/// Returns statements that try to read or do something that the views do not allow.
fn attacks() -> Vec<&'static str> {
    vec![
        // Other tables: those of the log and of the engine, with every way to write a name.
        "SELECT * FROM event",
        "SELECT payload FROM main.event",
        "SELECT * FROM \"event\"",
        "SELECT * FROM [event]",
        "SELECT * FROM `event`",
        "SELECT * FROM 'event'",
        "SELECT count(*) FROM event",
        "SELECT 1 FROM event",
        "SELECT rowid FROM event",
        "SELECT EXISTS (SELECT 1 FROM maintenance)",
        "SELECT * FROM log",
        "SELECT * FROM blob",
        "SELECT * FROM refinery_schema_history",
        "SELECT (SELECT reason FROM maintenance) FROM events",
        "SELECT * FROM events WHERE sequence IN (SELECT sequence FROM event)",
        "SELECT * FROM events JOIN conversation",
        "SELECT 1 UNION SELECT payload FROM event",
        "SELECT * FROM sqlite_schema",
        "SELECT count(*) FROM sqlite_schema",
        "SELECT sql FROM sqlite_master",
        "SELECT * FROM main.sqlite_master",
        "SELECT * FROM sqlite_temp_schema",
        "SELECT * FROM sqlite_sequence",
        "SELECT * FROM sqlite_stat1",
        // A name in the statement that equals a view's name, to get the rights of the view.
        "WITH events AS (SELECT * FROM event) SELECT * FROM events",
        "WITH tool_calls(a) AS (SELECT payload FROM event) SELECT a FROM tool_calls",
        "WITH RECURSIVE events(a) AS (SELECT payload FROM event UNION ALL SELECT a FROM events) SELECT a FROM events",
        "SELECT * FROM (SELECT * FROM event) AS events",
        "SELECT * FROM events AS e, (WITH events AS (SELECT reason FROM maintenance) SELECT * FROM events)",
        "WITH conversations AS (SELECT sql FROM sqlite_schema) SELECT * FROM conversations",
        "WITH asked AS (SELECT * FROM event) SELECT * FROM asked",
        "WITH stood AS (SELECT reason FROM maintenance), judged AS (SELECT * FROM stood) SELECT * FROM judged",
        // The full-text index and its shadow tables.
        "SELECT * FROM transcript_search",
        "SELECT * FROM transcript_search('secret')",
        "SELECT count(*) FROM transcript_search_data",
        "SELECT * FROM transcript_search_config",
        "SELECT block FROM transcript_search_data",
        // Pragmas, as statements and as functions.
        "PRAGMA user_version",
        "PRAGMA query_only = OFF",
        "PRAGMA writable_schema = ON",
        "PRAGMA trusted_schema = ON",
        "PRAGMA journal_mode = DELETE",
        "PRAGMA wal_checkpoint(TRUNCATE)",
        "PRAGMA database_list",
        "PRAGMA temp_store_directory = '/tmp'",
        "SELECT * FROM pragma_table_info('event')",
        "SELECT count(*) FROM pragma_table_list",
        "SELECT * FROM pragma_database_list",
        "SELECT * FROM pragma_function_list",
        "SELECT 1 FROM pragma_compile_options",
        // Virtual tables of the engine.
        "SELECT * FROM dbstat",
        "SELECT count(*) FROM dbstat",
        "SELECT * FROM dbstat('main')",
        "SELECT * FROM fts5vocab",
        "SELECT * FROM bytecode('SELECT 1')",
        "SELECT * FROM sqlite_stmt",
        // Files and extensions.
        "ATTACH DATABASE '/etc/passwd' AS other",
        "ATTACH DATABASE ':memory:' AS other",
        "DETACH DATABASE main",
        "VACUUM",
        "VACUUM INTO 'copy.db'",
        "SELECT load_extension('evil.so')",
        "SELECT load_extension('evil.so', 'main') FROM events",
        "SELECT readfile('/etc/passwd')",
        "SELECT writefile('evil', 'x')",
        "SELECT edit('x', 'sh')",
        "SELECT fts3_tokenizer('x', x'00')",
        "SELECT fts5(?1)",
        // Writing, of any kind.
        "INSERT INTO events (payload) VALUES ('{}')",
        "INSERT INTO maintenance VALUES ('x')",
        "REPLACE INTO event (position) VALUES (1)",
        "UPDATE event SET payload = '{}'",
        "UPDATE sqlite_schema SET sql = NULL",
        "DELETE FROM event",
        "WITH x AS (SELECT 1) DELETE FROM event",
        "WITH x AS (DELETE FROM event RETURNING *) SELECT * FROM x",
        "INSERT INTO event DEFAULT VALUES RETURNING *",
        "CREATE TABLE evil (x)",
        "CREATE TEMP TABLE evil AS SELECT * FROM event",
        "CREATE TEMP VIEW evil AS SELECT * FROM event",
        "CREATE TEMP TRIGGER evil AFTER INSERT ON event BEGIN SELECT 1; END",
        "CREATE VIRTUAL TABLE evil USING fts5(x)",
        "CREATE VIRTUAL TABLE temp.evil USING fts5vocab('transcript_search', 'row')",
        "CREATE INDEX evil ON event (kind)",
        "DROP VIEW events",
        "DROP TRIGGER event_delete_guard",
        "ALTER TABLE event RENAME TO evil",
        "REINDEX",
        "ANALYZE",
        // Transactions, to keep a lock or to mix statements.
        "BEGIN",
        "BEGIN IMMEDIATE",
        "COMMIT",
        "ROLLBACK",
        "SAVEPOINT x",
        "RELEASE x",
        // More than one statement, no statement, or no query.
        "SELECT 1; DELETE FROM event",
        "SELECT 1; SELECT 2",
        "; ; SELECT 1; SELECT load_extension('x')",
        "",
        "   ;",
        "-- SELECT 1",
        "SELECT 1 /* ; */ ; -- more\n SELECT 2",
        "EXPLAIN SELECT * FROM events",
        "EXPLAIN QUERY PLAN SELECT * FROM events",
        "EXPLAIN DELETE FROM event",
        "SELECT 1\0; DELETE FROM event",
        // Functions that allocate any amount of memory, run for ever, or reveal facts about the engine.
        "SELECT zeroblob(1000000000)",
        "SELECT randomblob(100000000)",
        "SELECT sqlite_version()",
        "SELECT sqlite_compileoption_used('x')",
        "SELECT sqlite_log(1, 'x')",
        "SELECT last_insert_rowid(), changes(), total_changes()",
        "SELECT json_patch('{}', '{}')",
        "SELECT only_annals_appends_to_the_log()",
        "SELECT rtreecheck('event')",
        "SELECT match('x', 'y')",
        "SELECT count(*) FROM events WHERE payload REGEXP '(a+)+'",
        "SELECT kind FROM events ORDER BY kind COLLATE evil",
        "SELECT count(*) FROM events INDEXED BY event_by_rare_kind",
        // Parameters without a name.
        "SELECT ?",
        "SELECT ?1",
        // The log's tables in places where no table is expected.
        "SELECT 1 FROM events WHERE sequence IN event",
        "SELECT 1 IN log",
        "SELECT kind FROM events ORDER BY (SELECT reason FROM maintenance)",
        "SELECT kind FROM events GROUP BY (SELECT reason FROM maintenance)",
        "SELECT kind FROM events GROUP BY kind HAVING EXISTS (SELECT 1 FROM maintenance)",
        "SELECT kind FROM events LIMIT (SELECT count(*) FROM event)",
        "SELECT kind FROM events LIMIT 1 OFFSET (SELECT count(*) FROM blob)",
        "SELECT count(*) OVER (ORDER BY (SELECT reason FROM maintenance)) FROM events",
        "SELECT sum(sequence) FILTER (WHERE (SELECT 1 FROM event)) FROM events",
        "SELECT CASE (SELECT 1 FROM event) WHEN 1 THEN 2 END",
        "SELECT * FROM events LEFT JOIN event ON 1",
        "SELECT * FROM events, LATERAL (SELECT * FROM event)",
        "SELECT * FROM events NATURAL JOIN event",
        "SELECT * FROM events EXCEPT SELECT * FROM event",
        "SELECT 1 INTERSECT SELECT one FROM log",
        "VALUES ((SELECT payload FROM event))",
        "WITH t AS NOT MATERIALIZED (SELECT * FROM event) SELECT * FROM t",
        "WITH t AS MATERIALIZED (SELECT * FROM event) SELECT 1 FROM t",
        "WITH unused AS (SELECT * FROM event) SELECT * FROM unused, events",
        "SELECT * FROM json_each((SELECT payload FROM event))",
        "SELECT * FROM json_tree((SELECT group_concat(payload) FROM event))",
        "SELECT * FROM (VALUES (1)) AS v JOIN (event AS e JOIN log)",
        // Names written in odd ways.
        "SELECT * FROM EvEnT",
        "SELECT * FROM MAIN.\"EVENT\"",
        "SELECT * FROM temp.event",
        "SELECT * FROM temp.sqlite_master",
        "SELECT * FROM nowhere.events",
        "SELECT * FROM \"main\".\"sqlite_schema\"",
        "SELECT*FROM/**/event/**/",
        "SELECT \"load_extension\"('evil')",
        "SELECT [load_extension]('evil')",
        "SELECT main.event.payload FROM event",
        "SELECT * FROM \"events\u{200b}\"",
        "SELECT * FROM ｅｖｅｎｔ",
        // Other tables and functions of the engine.
        "SELECT * FROM generate_series(1, 9)",
        "SELECT * FROM sqlite_dbpage",
        "SELECT * FROM sqlite_dbdata",
        "SELECT * FROM pragma_module_list",
        "SELECT * FROM pragma_query_only",
        "SELECT * FROM tables_used('SELECT 1')",
        "SELECT * FROM csv",
        "SELECT * FROM completion('a')",
        "SELECT sqlite_offset(payload) FROM events",
        "SELECT fts5_source_id()",
        "SELECT bm25(transcript_search) FROM transcript_search",
        "SELECT highlight(transcript_search, 0, '<', '>') FROM transcript_search",
        "SELECT text FROM transcript WHERE transcript MATCH 'x'",
        "SELECT rtreenode(1, x'00')",
        "SELECT rtreedepth(x'0000')",
        "SELECT unhex('00')",
        "SELECT json_pretty('{}')",
        "SELECT jsonb('{}')",
        "SELECT RAISE(ABORT, 'x')",
        "SELECT RAISE(ROLLBACK, 'x')",
        "SELECT sqlite_source_id()",
        "SELECT unistr('x')",
        "SELECT soundex('x')",
        "SELECT median(sequence) FROM events",
        // Statements in disguise.
        "(SELECT 1)",
        "SELECT 1 INTO x",
        "SELECT * FROM events FOR UPDATE",
        "WITH x AS (SELECT 1) INSERT INTO event SELECT * FROM x",
        "WITH x AS (SELECT 1) UPDATE event SET payload = ''",
        "WITH x AS (SELECT 1) REPLACE INTO log SELECT * FROM x",
        "CREATE TABLE evil AS SELECT 1",
        "INSERT INTO transcript_search (transcript_search) VALUES ('rebuild')",
        "DROP TABLE IF EXISTS event",
        "PRAGMA main.integrity_check",
        "PRAGMA optimize",
        "END TRANSACTION",
        ".open evil.db",
        "SELECT 1;;PRAGMA query_only = OFF",
        "SELECT 1 -- \n; DELETE FROM event",
        // Stray text.
        "SELECT",
        "DROP",
        "événements",
        "\u{feff}DELETE FROM event",
    ]
}

fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_none_or(|extension| extension != "db-shm"))
        .map(|path| (path.clone(), std::fs::read(path).unwrap()))
        .collect()
}

#[test]
fn every_other_statement_is_rejected_and_changes_nothing() {
    let scratch = Scratch::new();
    let store = store(&scratch);
    store.search("files", &annals::store::SearchFilter::default(), 1, &mut |_| ()).unwrap();
    ask(&store, "SELECT 1").unwrap();
    let before = files(&scratch.path(""));
    for sql in attacks() {
        let (what, _) = refusal(&store, sql);
        assert!(!what.is_empty() && !what.contains("secret"), "{sql:?}: {what}");
    }
    assert_eq!(files(&scratch.path("")), before);
    assert!(attacks().len() > 190, "{}", attacks().len());
    // The same on a read-only store and on a store in memory.
    drop(store);
    let read_only = Options::default().read_only(true);
    let read_only = Store::open_with(scratch.database(), &read_only).unwrap();
    let memory = Store::in_memory(&Options::default()).unwrap();
    for sql in attacks() {
        refusal(&read_only, sql);
        refusal(&memory, sql);
    }
}

/// The statements are admitted, but they would run for ever or use all memory. So the test ends only because they are
/// ended. `query_limits.rs` measures how soon.
#[test]
fn statements_that_would_never_end_are_ended() {
    let scratch = Scratch::new();
    let store = store(&scratch);
    let limits = SqlLimits::default().time_max(Duration::from_millis(300)).memory_bytes_max(64 << 20);
    for sql in [
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n",
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION SELECT x + 1 FROM n) SELECT max(x) FROM n",
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 100000) \
         SELECT count(*) FROM n AS a, n AS b, n AS c WHERE a.x + b.x = c.x",
        "SELECT count(*) FROM events a, events b, events c, events d, events e, events f, events g, events h, \
         events i, events j, events k, events l, events m, events n, events o",
        "WITH RECURSIVE s(x) AS (SELECT 'x' UNION ALL SELECT x || x FROM s) SELECT length(x) FROM s",
        "WITH RECURSIVE s(x) AS (SELECT hex(x'00') UNION ALL SELECT hex(x) FROM s) SELECT max(x) FROM s",
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) \
         SELECT group_concat(printf('%.*c', 100000, 'x')) FROM n",
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) \
         SELECT json_group_array(printf('%.*c', 100000, 'x')) FROM n",
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) \
         SELECT DISTINCT x, printf('%.*c', 10000, 'x') FROM n ORDER BY x DESC",
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x, count(*) OVER () FROM n",
        "WITH RECURSIVE n(x) AS MATERIALIZED (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n LIMIT 1",
        "SELECT printf('%.*c', 2000000000, 'x')",
        "SELECT printf('%2000000000d', 1)",
        "SELECT length(replace(printf('%.*c', 1000000, 'x'), 'x', printf('%.*c', 1000000, 'x')))",
        "WITH t(x) AS (SELECT printf('%.*c', 60000000, 'x')) SELECT x || x FROM t",
        "WITH t(x) AS (SELECT printf('%.*c', 60000000, 'a')) SELECT x LIKE '%aaaaaaaaaaaaaaaaaaaaaaaaaaaaaab' FROM t \
         UNION ALL SELECT x GLOB '*a*a*a*a*a*a*a*a*b' FROM t UNION ALL SELECT x LIKE '%_a%_a%_a%_ab' FROM t \
         UNION ALL SELECT count(*) FROM t AS a, t AS b, t AS c, t AS d WHERE a.x || 'b' LIKE '%' || substr(b.x, 1, 900) || 'c'",
    ] {
        let error = ask_within(&store, sql, limits).expect_err(sql);
        assert!(
            matches!(error, Error::QueryTooLong { .. } | Error::QueryTooLarge { .. }),
            "{sql}: {error:?}"
        );
    }
    assert_eq!(ask(&store, "SELECT count(*) FROM events").unwrap().rows, [[SqlValue::Integer(4)]]);
}

/// The memory limit ends these statements without a time limit.
#[test]
fn statements_that_would_use_all_memory_are_ended_by_the_memory_limit() {
    let scratch = Scratch::new();
    let store = store(&scratch);
    let limits = SqlLimits::default().time_max(Duration::MAX).memory_bytes_max(32 << 20);
    for sql in [
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION SELECT x + 1 FROM n) SELECT max(x) FROM n",
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) \
         SELECT group_concat(printf('%.*c', 100000, 'x')) FROM n",
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) \
         SELECT DISTINCT x, printf('%.*c', 10000, 'x') FROM n ORDER BY x DESC",
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x, count(*) OVER () FROM n",
        "WITH RECURSIVE n(x, y) AS (SELECT 1, printf('%.*c', 10000, 'x') UNION ALL SELECT x + 1, y FROM n) \
         SELECT count(*) FROM (SELECT x, y FROM n GROUP BY x, y)",
    ] {
        match ask_within(&store, sql, limits).expect_err(sql) {
            Error::QueryTooLarge { what: "memory", bytes_max } => assert_eq!(bytes_max, 32 << 20),
            other => panic!("{sql}: {other:?}"),
        }
    }
}

/// To parse these statements could already take much time or memory.
#[test]
fn statements_that_are_too_long_or_too_deep_are_rejected() {
    let scratch = Scratch::new();
    let store = store(&scratch);
    let many = |text: &str, count: usize, between: &str| vec![text; count].join(between);
    for sql in [
        format!("SELECT '{}'", "x".repeat(100_000)),
        format!("SELECT {}1{}", "(".repeat(500), ")".repeat(500)),
        format!("SELECT {}1{}", "abs(".repeat(300), ")".repeat(300)),
        format!("SELECT {}", many("1", 500, " + ")),
        many("SELECT 1", 500, " UNION ALL "),
        format!("SELECT {}", many("1", 500, ", ")),
        format!("SELECT coalesce({})", many("1", 100, ", ")),
        format!("SELECT count(*) FROM {}", many("events", 70, ", ")),
        format!("SELECT {}", (0..200).map(|n| format!(":p{n}")).collect::<Vec<_>>().join(", ")),
        format!("SELECT 'x' LIKE '{}'", "%x".repeat(2_000)),
    ] {
        refusal(&store, &sql);
    }
}

#[test]
fn an_answer_is_truncated_at_its_limits_and_reports_it() {
    let scratch = Scratch::new();
    let store = store(&scratch);
    let sql = "SELECT text FROM transcript ORDER BY sequence";
    let limit = |rows_max, bytes_max| SqlLimits::default().rows_max(rows_max).bytes_max(bytes_max);
    let cut = ask_within(&store, sql, limit(2, 1_000)).unwrap();
    assert_eq!(cut.rows, [[text("list the files")], [text("ls -l")]]);
    assert_eq!(cut.truncated, Some(Truncation::Rows));
    let cut = ask_within(&store, sql, limit(10, 15)).unwrap();
    assert_eq!((cut.rows.len(), cut.truncated), (1, Some(Truncation::Bytes)));
    let whole = ask_within(&store, sql, limit(4, 1_000)).unwrap();
    assert_eq!((whole.rows.len(), whole.truncated), (4, None));
}

#[test]
fn parameters_are_bound_and_never_read_as_sql() {
    let scratch = Scratch::new();
    let store = store(&scratch);
    let sql = "SELECT event_id FROM events WHERE kind = :kind AND sequence >= :from ORDER BY sequence";
    let answer =
        ask_with(&store, sql, &[("kind", text("MessageEvent")), ("from", SqlValue::Integer(1))]).unwrap();
    assert_eq!(answer.rows, [[text("d")]]);
    let injected = ask_with(
        &store,
        "SELECT count(*) FROM events WHERE kind = @kind",
        &[("kind", text("' OR 1 = 1; DELETE FROM event; --"))],
    );
    assert_eq!(injected.unwrap().rows, [[SqlValue::Integer(0)]]);
    let values = [
        ("n", SqlValue::Null),
        ("r", SqlValue::Real(0.5)),
        ("b", SqlValue::Blob(vec![0, 255])),
        ("t", text("日本")),
    ];
    let answer = ask_with(&store, "SELECT :n, $r, :b, :t, typeof(:b)", &values).unwrap();
    let [n, r, b, t] = values.map(|(_, value)| value);
    assert_eq!(answer.rows, [[n, r, b, t, text("blob")]]);

    let error = ask_with(&store, sql, &[("kind", text("x"))]).unwrap_err();
    assert_eq!(error.to_string(), "the parameter :from has no value");
    let error = ask_with(&store, "SELECT 1", &[("kind", text("x"))]).unwrap_err();
    assert_eq!(error.to_string(), "there is no parameter :kind");
}

#[test]
fn a_rejection_explains_how_to_correct_the_query() {
    let scratch = Scratch::new();
    let store = store(&scratch);
    for (sql, what, hint) in [
        (
            "SELECT * FROM toolcalls",
            "no such table: toolcalls",
            "did you mean tool_calls? tool_calls has the columns",
        ),
        ("SELECT * FROM event", "no such table: event", "the table event is shown by the view events"),
        ("SELECT * FROM users", "no such table: users", "there are the views conversations, events,"),
        ("SELECT comand FROM tool_calls", "no such column: comand", "did you mean command?"),
        ("SELECT t.comand FROM tool_calls AS t", "no such column: t.comand", "did you mean command?"),
        ("SELECT \"ls\" FROM tool_calls", "no such column", "text stands in single quotes"),
        ("SELECT load_extension('x')", "may not call the function load_extension()", "Functions"),
        ("ATTACH 'x' AS y", "may not open or close files", "views"),
        ("SELECT kind FROM events WHERE kind REGEXP 'A.*'", "no such function: REGEXP", "GLOB and LIKE"),
        ("SELECT * FROM transcript_search", "no such table: transcript_search", "annals search"),
        ("SELECT ?", "a parameter has no name", ":name"),
        ("SELECT kind, FROM events", "near \"FROM\": syntax error", ""),
        ("SELECT 1; SELECT 2", "more than one statement", "one SELECT"),
    ] {
        let (error, full_hint) = refusal(&store, sql);
        assert!(error.contains(what), "{sql}: {error}");
        assert!(full_hint.contains(hint), "{sql}: {full_hint}");
    }
}

/// The file may come from an untrusted source. Its views run with the rights of the query, not of the schema.
#[test]
fn a_forged_view_gains_nothing() {
    let scratch = Scratch::new();
    drop(store(&scratch));
    for (forged, refused) in [
        ("SELECT load_extension('evil') AS status", "load_extension"),
        ("SELECT name AS status FROM pragma_database_list", "pragma_database_list"),
        ("SELECT file AS status FROM pragma_database_list", "pragma_database_list"),
        ("SELECT name AS status FROM dbstat", "dbstat"),
        ("SELECT zeroblob(1000000000) AS status", "zeroblob"),
    ] {
        let db = scratch.foreign();
        db.execute_batch(&format!("DROP VIEW conversations; CREATE VIEW conversations AS {forged}")).unwrap();
        drop(db);
        let read_only = Options::default().read_only(true);
        let store = Store::open_with(scratch.database(), &read_only).unwrap();
        let error = ask(&store, "SELECT status FROM conversations").expect_err(forged);
        assert!(error.to_string().contains(refused), "{forged}: {error}");
    }
}

#[test]
fn a_query_sees_one_state_while_others_write() {
    let scratch = Scratch::new();
    let store = store(&scratch);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for number in 0..50 {
                let talk = conversation(&format!("talk-{number}"));
                store
                    .append(&talk, Expected::Empty, &[user_message("a", "one"), answered("b", "two")])
                    .unwrap();
            }
        });
        for _ in 0..20 {
            let sql = "SELECT (SELECT sum(event_count) FROM conversations) - (SELECT count(*) FROM events)";
            assert_eq!(ask(&store, sql).unwrap().rows, [[SqlValue::Integer(0)]]);
        }
        writer.join().unwrap();
    });
}

#[cfg(feature = "cli")]
mod program {
    use std::io::Write as _;
    use std::process::{Command, Output, Stdio};

    use super::*;

    fn run(scratch: &Scratch, arguments: &[&str], input: &str) -> Output {
        let mut child = Command::new(env!("CARGO_BIN_EXE_annals"))
            .arg("--db")
            .arg(scratch.database())
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }

    fn out(output: &Output) -> (&str, &str, Option<i32>) {
        let text = |bytes| std::str::from_utf8(bytes).unwrap();
        (text(&output.stdout), text(&output.stderr), output.status.code())
    }

    #[test]
    fn an_answer_is_a_table_csv_or_json() {
        let scratch = Scratch::new();
        drop(store(&scratch));
        let sql = "SELECT sequence, text FROM transcript WHERE sequence < :n";
        let query = |more: &[&str]| run(&scratch, &[&["query", sql, "--param", "n=2"], more].concat(), "");
        let table = query(&[]);
        assert_eq!(
            out(&table),
            ("SEQUENCE  TEXT\n       0  list the files\n       1  ls -l\n", "\n2 rows\n", Some(0))
        );
        let csv = query(&["--csv", "--rows", "1"]);
        assert_eq!(out(&csv).0, "sequence,text\r\n0,list the files\r\n");
        assert_eq!(out(&csv).1, "annals: only the first row: --rows allows more\n");
        let json = query(&["--json"]);
        let expected = "{\"columns\":[\"sequence\",\"text\"],\"rows\":[[0,\"list the files\"],[1,\"ls -l\"]],\"truncated\":null}\n";
        assert_eq!(out(&json).0, expected);
        let piped = run(&scratch, &["query", "-", "--csv"], "SELECT count(*) AS n FROM events");
        assert_eq!(out(&piped), ("n\r\n4\r\n", "", Some(0)));
    }

    #[test]
    fn a_rejected_query_exits_with_1_and_a_hint() {
        let scratch = Scratch::new();
        drop(store(&scratch));
        let refused = run(&scratch, &["query", "SELECT * FROM task"], "");
        let (printed, errors, code) = out(&refused);
        assert_eq!((printed, code), ("", Some(1)));
        assert!(
            errors.starts_with(
                "annals: no such table: task\n        the table task is shown by the view tasks"
            )
        );
        let late = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n";
        let late = run(&scratch, &["query", late, "--seconds", "1"], "");
        assert_eq!(out(&late).2, Some(1));
        assert!(out(&late).1.contains("the query was not done after 1000 ms\n        narrow it"));
        let views = run(&scratch, &["query"], "");
        assert!(out(&views).0.contains("tool_calls"), "{}", out(&views).0);
    }
}
