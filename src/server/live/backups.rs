//! Takes backups while the server runs.

use std::sync::Arc;
use std::time::Duration;

use super::App;
use super::notice;
use crate::error::Result;
use crate::ids::Timestamp;
use crate::server::schedule::BackupSchedule;
use crate::store::{Backup, BackupFile, BackupFolder, BackupResult, Store};

/// Takes backups as the configuration says, until the server ends. A backup that is under way then is given up; it
/// leaves no file that looks like a backup.
pub(in crate::server) async fn run(app: Arc<App>) {
    let Some(schedule) = app.config().backups.clone() else { return };
    let known = schedule.clone();
    // If the folder cannot be read, the first backup reports it.
    let newest = tokio::task::spawn_blocking(move || newest(&known, |_| true).ok().flatten()).await;
    if let Ok(Some(newest)) = newest {
        app.work().know_backup(newest);
    }
    loop {
        let (store, wanted) = (app.store().clone(), schedule.clone());
        let taking = tokio::task::spawn_blocking(move || take(&store, &wanted, Timestamp::now()));
        let taken = tokio::select! {
            () = app.ending().cancelled() => return,
            taken = taking => taken,
        };
        app.work().count_backup(matches!(taken, Ok(Ok(_))));
        match taken {
            Ok(Ok(taken)) => {
                app.work().know_backup(taken.as_ref().map_or_else(Timestamp::now, |taken| taken.taken_at));
                if let Some(taken) = taken {
                    notice::backed_up(&taken);
                }
            }
            Ok(Err(error)) => notice::backup_failed(&error.to_string()),
            Err(_) => notice::backup_failed("it panicked"),
        }
        tokio::select! {
            () = app.ending().cancelled() => return,
            () = tokio::time::sleep(schedule.every) => {}
        }
    }
}

/// Takes one backup. `None` if nothing is new.
fn take(store: &Store, schedule: &BackupSchedule, now: Timestamp) -> Result<Option<BackupResult>> {
    let begun = newest(schedule, |file| file.is_full).ok().flatten();
    let full = begun.is_some_and(|begun| age(begun, now) >= schedule.full_every);
    store.backup().to_folder(&schedule.folder, BackupFolder { full, keep: Some(schedule.keep) })
}

/// Returns the time of the newest of the wanted backups. `None` if the folder has no such backup.
fn newest(schedule: &BackupSchedule, is_wanted: impl Fn(&BackupFile) -> bool) -> Result<Option<Timestamp>> {
    let files = Backup::list(&schedule.folder)?;
    Ok(files.iter().filter(|file| is_wanted(file)).map(|file| file.taken_at).max())
}

/// Returns the time from `begun` to `now`. 0 if the clock was set back.
fn age(begun: Timestamp, now: Timestamp) -> Duration {
    Duration::from_micros(u64::try_from(now.0.saturating_sub(begun.0)).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Expected;
    use crate::event::NewEvent;
    use crate::ids::ConversationId;
    use crate::store::Options;

    #[test]
    fn a_series_ends_with_its_age_and_the_oldest_are_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open_with(folder.path().join("a.db"), &Options::default()).unwrap();
        let schedule = BackupSchedule::new(folder.path().join("backups")).keep(2);
        let append = |id: &str| {
            let event =
                NewEvent::parse(format!(r#"{{"id":"{id}","kind":"PauseEvent","source":"user"}}"#)).unwrap();
            store.append(&ConversationId::new("talk").unwrap(), Expected::Any, &[event]).unwrap();
        };
        let mut kinds = Vec::new();
        for (number, days) in [0, 6, 8, 0, 8, 6].into_iter().enumerate() {
            append(&format!("e{number}"));
            // The backup before was taken so many days ago.
            let now = Timestamp(Timestamp::now().0 + days * 86_400_000_000);
            kinds.push(take(&store, &schedule, now).unwrap().unwrap().is_full);
            assert_eq!(take(&store, &schedule, Timestamp::now()).unwrap(), None);
        }
        assert_eq!(kinds, [true, false, true, false, true, false]);
        let full = Backup::list(&schedule.folder).unwrap().iter().filter(|file| file.is_full).count();
        assert_eq!(full, 2);
    }
}
