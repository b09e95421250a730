//! Statements that take time or memory where the engine does not look: while they are prepared, and in straight lines.
#![cfg(unix)]

use std::time::Duration;

use annals::store::{SqlLimits, SqlQuery};
use annals::{Error, Options, Store};

use crate::support::Scratch;
use crate::support::child::{self, Running, role};
use crate::support::statements::{growing, straight};

const MEMORY: u64 = 128 << 20;

/// How long a statement may go on.
const TIME: Duration = Duration::from_secs(2);

/// What may have been worked when it has ended.
const WORK_MAX: Duration = Duration::from_secs(6);

/// The time of the processors that this process took so far, all threads together.
fn worked() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap()
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
    let limits = SqlLimits { time_max: TIME, memory_bytes_max: MEMORY, ..SqlLimits::default() };
    let ask = |sql: &str, time_max| {
        let limits = SqlLimits { time_max, ..limits };
        let _before = most();
        let before = most();
        let began = worked();
        let error = store.query(&SqlQuery { sql, parameters: &[], limits }).expect_err(sql);
        // What the process worked, and not what the clock says: other programs may keep it waiting. Without limits each
        // of them takes minutes and gigabytes. One call of a function over 60 MB goes on beyond the limit; the functions
        // that are Annals' own may have an argument and a result beyond it.
        let worked = worked() - began;
        assert!(worked < WORK_MAX, "{worked:?}: {sql:.200}");
        if let (Some(before), Some(most)) = (before, most()) {
            let grown = most.saturating_sub(before);
            assert!(grown < MEMORY + (192 << 20), "{grown} bytes: {sql:.200}");
        }
        error
    };
    for sql in growing() {
        // Its shape is what refuses it, and not the clock, which others may have advanced.
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
