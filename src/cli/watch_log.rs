//! What a server says while a reader keeps its write-ahead log from beginning anew: commands say so as they open the file,
//! and a server opens it once.

use std::path::Path;
use std::time::{Duration, Instant};

use super::print::tell;
use crate::store::Store;

/// How often the log is looked at.
const ROUND: Duration = Duration::from_secs(5);

/// How long a warning holds before it is said again.
const AGAIN: Duration = Duration::from_secs(600);

/// What has been said.
#[derive(Debug, Default)]
struct Watch {
    said: Option<Instant>,
}

impl Watch {
    /// What is to be said now; `warning` is what is to be said of the log, where there is something.
    fn notice(&mut self, now: Instant, warning: Option<String>) -> Option<String> {
        match (warning, self.said) {
            (Some(_), Some(said)) if now.duration_since(said) < AGAIN => None,
            (Some(warning), _) => {
                self.said = Some(now);
                Some(warning)
            }
            (None, Some(_)) => {
                self.said = None;
                Some("the write-ahead log begins anew again".to_owned())
            }
            (None, None) => None,
        }
    }
}

/// Looks at the log of `store` for as long as it is polled, and warns on standard error.
pub(super) async fn watch(store: Store) {
    let (path, mut watch) = (store.path(), Watch::default());
    let mut rounds = tokio::time::interval(ROUND);
    // Who opened the file has said what there was to say.
    rounds.tick().await;
    loop {
        rounds.tick().await;
        let asked = store.clone();
        let Ok(warning) = tokio::task::spawn_blocking(move || asked.write_log().warning()).await else {
            return;
        };
        if let Some(said) = watch.notice(Instant::now(), warning) {
            say(&path, &said);
        }
    }
}

fn say(path: &Path, said: &str) {
    tell(format_args!("annals: {}: {said}", path.display()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_is_said_once_again_when_it_has_lasted_and_taken_back() {
        let (mut watch, begin) = (Watch::default(), Instant::now());
        let pinned = || Some("process 7 reads from it".to_owned());
        assert_eq!(watch.notice(begin, None), None);
        assert_eq!(watch.notice(begin, pinned()), pinned());
        assert_eq!(watch.notice(begin + ROUND, pinned()), None);
        assert_eq!(watch.notice(begin + AGAIN, pinned()), pinned());
        assert_eq!(watch.notice(begin + AGAIN + ROUND, pinned()), None);
        assert!(watch.notice(begin + AGAIN + 2 * ROUND, None).is_some());
        assert_eq!(watch.notice(begin + AGAIN + 3 * ROUND, None), None);
        assert_eq!(watch.notice(begin + AGAIN + 4 * ROUND, pinned()), pinned());
    }
}
