//! Statements that use time or memory in places where the SQL engine does not check its limits: during preparation, and
//! in code without loops.
#![cfg(unix)]

use std::time::Duration;

use annals::store::{SqlLimits, SqlQuery};
use annals::{Error, Options, Store};
use rusqlite::Connection;

use crate::support::Scratch;
use crate::support::child::{self, Running, role};
use crate::support::statements::{growing, straight};

const MEMORY: u64 = 128 << 20;

/// The time limit of a statement.
const TIME: Duration = Duration::from_secs(2);

/// The time limit of a statement that a limit of another kind has to end. It is long because other programs may delay
/// the process.
const PATIENCE: Duration = Duration::from_secs(600);

/// The maximum processor time that a statement may use until it is ended. A slow machine has more; see [`Asked::on`].
const CPU_TIME_MAX: Duration = Duration::from_secs(6);

/// Returns the processor time that all threads of this process have used so far.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap()
}

/// Returns the peak memory of this process since the last call, in bytes. `None` if the system does not report it.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    std::fs::write("/proc/self/clear_refs", "5").ok()?;
    Some(kibibytes << 10)
}

/// The test runs in its own process, because other tests would change the memory of the process, and because the store
/// must be opened before any other use of SQLite.
#[test]
fn no_statement_exceeds_its_limits_unnoticed() {
    const TEST: &str = "query_limits::no_statement_exceeds_its_limits_unnoticed";
    if role().is_some() {
        return check_limits();
    }
    let scratch = Scratch::new();
    let reports = Running::start(child::command(TEST, "asks", &scratch.database())).finish();
    assert_eq!(reports, ["done"]);
}

/// A program that uses SQLite before its first store keeps SQLite's own allocator, so no allocation is refused.
#[test]
fn a_program_that_used_sqlite_first_has_limits_too() {
    const TEST: &str = "query_limits::a_program_that_used_sqlite_first_has_limits_too";
    if role().is_some() {
        return check_limits_after_sqlite();
    }
    let scratch = Scratch::new();
    let reports = Running::start(child::command(TEST, "asks", &scratch.database())).finish();
    assert_eq!(reports, ["done"]);
}

/// A store, and the maximum processor time of a statement on this machine.
struct Asked {
    store: Store,
    cpu_time_max: Duration,
}

impl Asked {
    /// Measures how much processor time the calls of three functions need. One of them may exceed the time limit, so a
    /// statement may use several times as much beyond the limit.
    fn on(store: Store) -> Self {
        let sql = "SELECT length(replace(printf('%.*c', 40000000, 'x'), 'x', '1'))";
        let limits = SqlLimits::default().time_max(PATIENCE).memory_bytes_max(4 * MEMORY);
        let began = cpu_time();
        store.query(&SqlQuery::new(sql).limits(limits)).unwrap();
        let cpu_time_max = CPU_TIME_MAX.max(TIME + 6 * (cpu_time() - began));
        Self { store, cpu_time_max }
    }

    /// Returns the error that ends a statement. Checks the processor time and the memory that it used.
    fn ended(&self, sql: &str, time_max: Duration) -> Error {
        let limits = SqlLimits::default().time_max(time_max).memory_bytes_max(MEMORY);
        let _before = peak_memory();
        let before = peak_memory();
        let began = cpu_time();
        let error = self.store.query(&SqlQuery::new(sql).limits(limits)).expect_err(sql);
        // Processor time is measured and not elapsed time, because other programs may delay the process. Without limits
        // each statement takes minutes and gigabytes. One call of a function over 60 MB may exceed the time limit. The
        // argument and the result of a function of Annals may exceed the memory limit.
        let used = cpu_time() - began;
        assert!(used < self.cpu_time_max, "{used:?}: {sql:.200}");
        if let (Some(before), Some(peak)) = (before, peak_memory()) {
            let grown = peak.saturating_sub(before);
            assert!(grown < MEMORY + (192 << 20), "{grown} bytes: {sql:.200}");
        }
        error
    }

    /// Asserts that a limit of time or memory ends a statement.
    fn assert_ended(&self, sql: &str) {
        let error = self.ended(sql, TIME);
        let is_limit = matches!(error, Error::QueryTooLong { .. } | Error::QueryTooLarge { .. });
        assert!(is_limit, "{sql:.200}: {error:?}");
    }
}

fn check_limits() {
    let asked = Asked::on(Store::in_memory(&Options::default()).unwrap());
    for sql in growing() {
        // The statement must be rejected because of its shape.
        let error = asked.ended(&sql, PATIENCE);
        let Error::QueryRefused { what, .. } = &error else { panic!("{sql:.200}: {error:?}") };
        assert!(what.starts_with("the statement grows too large"), "{sql:.200}: {what}");
    }
    for sql in straight() {
        asked.assert_ended(&sql);
    }
    child::report("done");
}

fn check_limits_after_sqlite() {
    let of_the_program = Connection::open_in_memory().unwrap();
    let asked = Asked::on(Store::in_memory(&Options::default()).unwrap());
    let too_large = |sql: &str| match asked.ended(sql, PATIENCE) {
        Error::QueryTooLarge { what, .. } => what,
        error => panic!("{sql:.200}: {error:?}"),
    };
    // Annals cannot add up the values of a row, so each of them must be small. With its own allocator it answers this.
    let calls = vec!["length(p)"; 190].join(", ");
    let many =
        format!("WITH t(p) AS (SELECT printf('%.*c', 2000000, 'x') AS p LIMIT 1) SELECT {calls} FROM t");
    assert_eq!(too_large(&many), "a single value");
    // A join of names grows while SQLite prepares it, and nothing is checked there.
    for sql in straight().iter().filter(|sql| !sql.contains(" JOIN ")) {
        asked.assert_ended(sql);
    }
    // The memory of the process and the clock are checked between the steps of a program.
    let sort = "WITH RECURSIVE n(i, t) AS (SELECT 1, printf('%.*c', 1000000, 'x') \
                UNION ALL SELECT i + 1, t || 'x' FROM n LIMIT 600) SELECT t FROM n ORDER BY i DESC";
    assert_eq!(too_large(sort), "memory");
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";
    let error = asked.ended(endless, TIME);
    assert!(matches!(error, Error::QueryTooLong { .. }), "{error:?}");
    drop(of_the_program);
    child::report("done");
}
