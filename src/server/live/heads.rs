//! Writes signed heads while the server runs.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::App;
use super::notice;
use crate::audit::proof::{Head, Key, PublicKey, Scope, SignedHead};
use crate::error::{Error, Result};
use crate::ids::{Position, Timestamp};
use crate::server::schedule::HeadSchedule;
use crate::store::Store;
use crate::untrusted;

/// The start and the end of the name of a head's file. Between them is its time, so that names sort by time.
const NAME: (&str, &str) = ("head-", ".txt");

/// The largest file that is compared with a new head, in bytes: a million conversations with 250 bytes each. A larger one
/// is not compared: another head is written.
const BYTES_MAX: u64 = 256 << 20;

/// A head that was signed and is in its file.
pub(super) struct Signed {
    pub path: PathBuf,
    pub conversations: u64,
    pub position: Position,
    pub key: PublicKey,
}

/// Writes heads as the configuration says, until the server ends.
pub(in crate::server) async fn run(app: Arc<App>) {
    let Some(schedule) = app.config().heads.clone() else { return };
    loop {
        let (store, wanted, now) = (app.store().clone(), schedule.clone(), Timestamp::now());
        let signing = tokio::task::spawn_blocking(move || sign(&store, &wanted, now));
        let signed = tokio::select! {
            () = app.ending().cancelled() => return,
            signed = signing => signed,
        };
        app.work().count_head(matches!(signed, Ok(Ok(_))));
        match signed {
            Ok(Ok(signed)) => {
                app.work().know_head(now);
                signed.iter().for_each(notice::signed);
            }
            Ok(Err(error)) => notice::signing_failed(&error.to_string()),
            Err(_) => notice::signing_failed("it panicked"),
        }
        tokio::select! {
            () = app.ending().cancelled() => return,
            () = tokio::time::sleep(schedule.every) => {}
        }
    }
}

/// Writes one head. `None` if the newest file says the same, signed with the same key.
fn sign(store: &Store, schedule: &HeadSchedule, now: Timestamp) -> Result<Option<Signed>> {
    let folder = &schedule.folder;
    let key = Key::read(&schedule.key)?;
    fs::create_dir_all(folder).map_err(Error::io("creating", folder))?;
    let heads = store.audit().chain_heads(None)?;
    if newest(folder)?
        .is_some_and(|known| known.head.heads == heads && known.signer.as_ref() == Some(&key.public()))
    {
        return Ok(None);
    }
    let (conversations, position) = (heads.conversations.len() as u64, heads.position);
    let text = Head::new(Scope::Whole, now, heads).to_signed_text(&key);
    let path = folder.join(name(now));
    write(&path, &text).map_err(Error::io("writing", &path))?;
    Ok(Some(Signed { path, conversations, position, key: key.public() }))
}

/// Returns the name of the file of a head of this time: `head-2026-11-27T17-48-45.000000Z.txt`.
fn name(at: Timestamp) -> String {
    format!("{}{}{}", NAME.0, at.to_rfc3339().replace(':', "-"), NAME.1)
}

/// Returns the newest head in the folder. `None` if the newest file is no head; then the next head is written anyway.
fn newest(folder: &Path) -> Result<Option<SignedHead>> {
    let entries = fs::read_dir(folder).map_err(Error::io("reading", folder))?;
    let is_head = |name: &String| name.starts_with(NAME.0) && name.ends_with(NAME.1);
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).filter(is_head);
    let Some(newest) = names.max() else { return Ok(None) };
    let text = untrusted::read(&folder.join(newest), BYTES_MAX).ok();
    Ok(text.and_then(|text| SignedHead::parse(&String::from_utf8(text).ok()?).ok()))
}

/// Writes a new file. It has its name only once all of it is on the disk.
fn write(path: &Path, text: &str) -> io::Result<()> {
    if path.exists() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    let unfinished = path.with_extension("unfinished");
    let written = File::create_new(&unfinished)
        .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&unfinished, path));
    // Some file systems cannot sync a folder. Then there is nothing better to do.
    #[cfg(unix)]
    if let Some(folder) = path.parent() {
        let _unsynced = untrusted::sync_folder(folder);
    }
    if written.is_err() {
        // It may not exist. The caller gets the first error.
        let _unfinished = fs::remove_file(&unfinished);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Expected;
    use crate::event::NewEvent;
    use crate::ids::ConversationId;
    use crate::store::Options;

    #[test]
    fn a_head_is_written_if_it_says_something_new_and_what_it_says_can_be_checked() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open_with(folder.path().join("a.db"), &Options::default()).unwrap();
        let (key, other) = (folder.path().join("key.pem"), folder.path().join("other.pem"));
        let schedule = HeadSchedule::new(folder.path().join("kept/heads"), &key);
        let append = |id: &str| {
            let event = NewEvent::parse(format!(r#"{{"id":"{id}","kind":"PauseEvent"}}"#)).unwrap();
            store.append(&ConversationId::new("talk").unwrap(), Expected::Any, &[event]).unwrap();
        };
        let at = |second: i64| Timestamp(1_764_000_000_000_000 + second * 1_000_000);
        assert!(matches!(sign(&store, &schedule, at(0)), Err(Error::Io { .. })), "there is no key yet");
        let public = Key::make(&key).unwrap().public();
        Key::make(&other).unwrap();

        append("a");
        let first = sign(&store, &schedule, at(1)).unwrap().unwrap();
        assert!(first.key == public && first.position.0 == 1 && first.conversations == 1);
        assert!(sign(&store, &schedule, at(2)).unwrap().is_none(), "nothing is new");
        append("b");
        let second = sign(&store, &schedule, at(3)).unwrap().unwrap();
        assert!(sign(&store, &schedule.clone().key(other), at(4)).unwrap().is_some(), "another key signs");
        // A file that is no head is not taken for one.
        fs::write(schedule.folder.join("head-9999.txt"), "nothing").unwrap();
        assert!(sign(&store, &schedule, at(5)).unwrap().is_some());

        let names = |folder: &Path| {
            let names =
                fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
            let mut names: Vec<String> = names.collect();
            names.sort();
            names
        };
        assert_eq!(names(&schedule.folder).len(), 5, "{:?}", names(&schedule.folder));
        for signed in [first, second] {
            let head = SignedHead::parse(&fs::read_to_string(&signed.path).unwrap()).unwrap();
            assert!(head.signer == Some(public.clone()) && head.head.scope == Scope::Whole);
            assert_eq!(head.head.heads.position, signed.position);
            assert_eq!(crate::audit::proof::compare(&store, &head.head).unwrap(), []);
        }
        // A second head of one moment is refused, and the first stays.
        append("c");
        assert!(matches!(sign(&store, &schedule, at(5)), Err(Error::Io { .. })));
        assert_eq!(names(&schedule.folder).len(), 5);
    }
}
