//! Warns the operator of a server while a reader keeps the write-ahead log from restarting.
//!
//! Commands warn when they open the file, but a server opens it only once.

use std::time::{Duration, Instant};

use super::journal;
use crate::store::Store;

/// How often the log is checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// After how long a warning is repeated.
const REPEAT_INTERVAL: Duration = Duration::from_secs(600);

/// The state of the warnings.
#[derive(Debug, Default)]
struct Watch {
    /// When the operator was last warned. `None` unless a reader pins the log.
    warned: Option<Instant>,
}

impl Watch {
    /// Returns the text to print now. `warning` is the current warning about the log, if there is one.
    fn notice(&mut self, now: Instant, warning: Option<String>) -> Option<String> {
        match (warning, self.warned) {
            (Some(_), Some(warned)) if now.duration_since(warned) < REPEAT_INTERVAL => None,
            (Some(warning), _) => {
                self.warned = Some(now);
                Some(warning)
            }
            (None, Some(_)) => {
                self.warned = None;
                Some("the write-ahead log can restart again".to_owned())
            }
            (None, None) => None,
        }
    }
}

/// Checks the log of `store` as long as this future is polled, and prints warnings on standard error.
pub(super) async fn watch(store: Store) {
    let (path, mut watch) = (store.path(), Watch::default());
    let mut checks = tokio::time::interval(CHECK_INTERVAL);
    // The first tick comes at once, but opening the file has already printed its warning.
    checks.tick().await;
    loop {
        checks.tick().await;
        let watched = store.clone();
        let Ok(warning) =
            tokio::task::spawn_blocking(move || watched.maintenance().write_log().warning()).await
        else {
            return;
        };
        if let Some(text) = watch.notice(Instant::now(), warning) {
            journal::warn(&path, &text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lasting_warning_is_repeated_and_its_end_is_reported() {
        let (mut watch, begin) = (Watch::default(), Instant::now());
        let pinned = || Some("process 7 reads from it".to_owned());
        assert_eq!(watch.notice(begin, None), None);
        assert_eq!(watch.notice(begin, pinned()), pinned());
        assert_eq!(watch.notice(begin + CHECK_INTERVAL, pinned()), None);
        assert_eq!(watch.notice(begin + REPEAT_INTERVAL, pinned()), pinned());
        assert_eq!(watch.notice(begin + REPEAT_INTERVAL + CHECK_INTERVAL, pinned()), None);
        assert!(watch.notice(begin + REPEAT_INTERVAL + 2 * CHECK_INTERVAL, None).is_some());
        assert_eq!(watch.notice(begin + REPEAT_INTERVAL + 3 * CHECK_INTERVAL, None), None);
        assert_eq!(watch.notice(begin + REPEAT_INTERVAL + 4 * CHECK_INTERVAL, pinned()), pinned());
    }
}
