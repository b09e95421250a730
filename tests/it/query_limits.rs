//! Statements that take time or memory where the engine does not look: while they are prepared, and in straight lines.
#![cfg(unix)]

use std::time::{Duration, Instant};

use annals::store::{SqlLimits, SqlQuery};
use annals::{Error, Options, Store};

use crate::support::Scratch;
use crate::support::child::{self, Running, role};

const MEMORY: u64 = 128 << 20;

/// A text of 60 MB, in a row that no statement can reach through a column of its own.
const LARGE: &str =
    "WITH t(p) AS (SELECT replace(printf('%.*c', 60000000, 'x'), 'x', '1') AS p LIMIT 1) SELECT ";

fn many(one: impl Fn(usize) -> String, count: usize, between: &str) -> String {
    (0..count).map(one).collect::<Vec<_>>().join(between)
}

/// Names that stand for names, each for `times` of those before it.
fn names(depth: usize, times: usize) -> String {
    let mut sql = "WITH a0(x) AS (SELECT 1)".to_owned();
    for level in 1..=depth {
        let before = many(|n| format!("a{} AS t{n}", level - 1), times, " JOIN ");
        sql.push_str(&format!(", a{level}(x) AS (SELECT t0.x FROM {before})"));
    }
    format!("{sql} SELECT count(*) FROM a{depth}")
}

/// Expressions that stand for expressions, each for two of those before it.
fn expressions(depth: usize) -> String {
    let each = many(|n| format!(", a{}(x) AS (SELECT x + x + 1 FROM a{n})", n + 1), depth, "");
    format!("WITH a0(x) AS (SELECT sequence FROM events){each} SELECT x FROM a{depth}")
}

/// Statements that grow as they are read: they are refused, whatever the clock says.
fn growing() -> Vec<String> {
    let mut all: Vec<String> = [16, 20, 40].map(|depth| names(depth, 2)).into();
    all.extend([16, 30].map(expressions));
    all
}

/// Statements that go straight on, each over large values.
fn straight() -> Vec<String> {
    let over = |one: &str, count: usize, between: &str| {
        format!("{LARGE}{} FROM t", many(|_| one.to_owned(), count, between))
    };
    vec![
        names(10, 3),
        format!("SELECT {}", many(|n| format!("printf('%.*c', {}, 'x')", 60_000_000 + n), 50, ", ")),
        format!("SELECT {}", many(|n| format!("printf('%.*c', {}, 'x')", 2_000_000 + n), 190, ", ")),
        over("length(upper(p))", 189, " + "),
        over(&format!("{}p{}", "upper(lower(".repeat(10), "))".repeat(10)), 150, ", "),
        over("json_valid(p || '')", 59, " + "),
        over("length(p)", 190, ", "),
        over("length(trim(p, '1'))", 190, ", "),
        over("substr(p, 59999999)", 190, ", "),
        over(&many(|_| "(p = p)".to_owned(), 80, " + "), 100, ", "),
        over(&format!("p IN ({})", many(|_| "p".to_owned(), 200, ", ")), 100, ", "),
        over(&many(|_| "p".to_owned(), 150, " + "), 100, ", "),
        over(&format!("CASE WHEN {} THEN 1 END", many(|_| "p".to_owned(), 150, " AND ")), 100, ", "),
        format!("{LARGE}{} FROM t", many(|n| format!("sum(p + {n})"), 180, ", ")),
    ]
}

/// The most memory this process had since it was last asked, in bytes; nothing where the system does not say.
fn most() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    std::fs::write("/proc/self/clear_refs", "5").ok()?;
    Some(kibibytes << 10)
}

/// In a process of its own, whose memory is only its own and which opens a store before it uses SQLite otherwise.
#[test]
fn no_statement_goes_beyond_its_limits_unseen() {
    const TEST: &str = "query_limits::no_statement_goes_beyond_its_limits_unseen";
    if role().is_some() {
        return stay_within();
    }
    let scratch = Scratch::new();
    let reports = Running::start(child::command(TEST, "asks", &scratch.database())).finish();
    assert_eq!(reports, ["done"]);
}

fn stay_within() {
    let store = Store::in_memory(&Options::default()).unwrap();
    let limits =
        SqlLimits { time_max: Duration::from_secs(2), memory_bytes_max: MEMORY, ..SqlLimits::default() };
    let ask = |sql: &str| {
        let _before = most();
        let before = most();
        let began = Instant::now();
        let error = store.query(&SqlQuery { sql, parameters: &[], limits }).expect_err(sql);
        // Far less than the minutes and gigabytes that each of them takes where nobody looks; the functions that are
        // Annals' own may have an argument and a result beyond the limit.
        assert!(began.elapsed() < Duration::from_secs(60), "{:?}: {sql:.200}", began.elapsed());
        if let (Some(before), Some(most)) = (before, most()) {
            let grown = most.saturating_sub(before);
            assert!(grown < MEMORY + (192 << 20), "{grown} bytes: {sql:.200}");
        }
        error
    };
    for sql in growing() {
        let error = ask(&sql);
        let Error::QueryRefused { what, .. } = &error else { panic!("{sql:.200}: {error:?}") };
        assert!(what.starts_with("the statement grows too large"), "{sql:.200}: {what}");
    }
    for sql in straight() {
        let error = ask(&sql);
        let ended = matches!(error, Error::QueryTooLong { .. } | Error::QueryTooLarge { .. });
        assert!(ended, "{sql:.200}: {error:?}");
    }
    child::report("done");
}
