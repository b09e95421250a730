//! Statements that use time or memory in places where the SQL engine does not check its limits: during preparation, and
//! in code without loops.
#![cfg(unix)]

use std::time::Duration;

use annals::store::{SqlLimits, SqlQuery};
use annals::{Error, Options, Store};

use crate::support::Scratch;
use crate::support::child::{self, Running, role};
use crate::support::statements::{growing, straight};

const MEMORY: u64 = 128 << 20;

/// The time limit of a statement.
const TIME: Duration = Duration::from_secs(2);

/// The maximum processor time that a statement may use until it is ended.
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

fn check_limits() {
    let store = Store::in_memory(&Options::default()).unwrap();
    let limits = SqlLimits { time_max: TIME, memory_bytes_max: MEMORY, ..SqlLimits::default() };
    let ask = |sql: &str, time_max| {
        let limits = SqlLimits { time_max, ..limits };
        let _before = peak_memory();
        let before = peak_memory();
        let began = cpu_time();
        let error = store.query(&SqlQuery { sql, parameters: &[], limits }).expect_err(sql);
        // Processor time is measured and not elapsed time, because other programs may delay the process. Without limits
        // each statement takes minutes and gigabytes. One call of a function over 60 MB may exceed the time limit. The
        // argument and the result of a function of Annals may exceed the memory limit.
        let used = cpu_time() - began;
        assert!(used < CPU_TIME_MAX, "{used:?}: {sql:.200}");
        if let (Some(before), Some(peak)) = (before, peak_memory()) {
            let grown = peak.saturating_sub(before);
            assert!(grown < MEMORY + (192 << 20), "{grown} bytes: {sql:.200}");
        }
        error
    };
    for sql in growing() {
        // The statement must be rejected because of its shape. The time limit is long because other programs may delay
        // the process.
        let error = ask(&sql, Duration::from_secs(600));
        let Error::QueryRefused { what, .. } = &error else { panic!("{sql:.200}: {error:?}") };
        assert!(what.starts_with("the statement grows too large"), "{sql:.200}: {what}");
    }
    for sql in straight() {
        let error = ask(&sql, TIME);
        let ended = matches!(error, Error::QueryTooLong { .. } | Error::QueryTooLarge { .. });
        assert!(ended, "{sql:.200}: {error:?}");
    }
    child::report("done");
}
