//! Imports of folders that their writer changes meanwhile: what comes and goes at every append is never a problem.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use annals::Store;
use annals::transfer::{Exporter, Format, ImportProgress, ImportReport, ImportStatus, Importer};

use crate::support::events::user_message;
use crate::support::{Scratch, all_events, assert_sound, folder, without_projector};

fn id(number: usize) -> String {
    uuid::Uuid::from_u128(number as u128 + 1).to_string()
}

fn event_file(number: usize) -> String {
    format!("event-{number:05}-{}.json", id(number))
}

fn marker(events: usize) -> String {
    format!("events/.eventlog-len-{events}.marker")
}

fn payload_of(number: usize) -> String {
    user_message(&id(number), "one of many").payload().to_owned()
}

/// Writes a conversation of so many events, as the SDK leaves it.
fn talk(scratch: &Scratch, events: usize) -> PathBuf {
    let talk = scratch.path("in/talk");
    fs::create_dir_all(talk.join("events")).unwrap();
    fs::write(talk.join("base_state.json"), r#"{"id":"talk","agent":{"kind":"Agent"}}"#).unwrap();
    fs::write(talk.join("events/.eventlog.lock"), "").unwrap();
    (0..events).for_each(|number| {
        fs::write(talk.join("events").join(event_file(number)), payload_of(number)).unwrap()
    });
    fs::write(talk.join(marker(events)), "").unwrap();
    talk
}

fn import(store: &Store, path: &Path, progress: &mut dyn FnMut(ImportProgress<'_>)) -> ImportReport {
    Importer::new(store, Default::default()).import(path, progress).unwrap().remove(0)
}

/// Asserts that an export of the conversation is the folder.
#[track_caller]
fn assert_comes_back(store: &Store, scratch: &Scratch, talk: &Path) {
    let id = annals::ConversationId::new("talk").unwrap();
    let out = scratch.path("out");
    let _is_first = fs::remove_dir_all(&out);
    let exported = Exporter::new(store, Format::OpenHands).export(&id, &out, &mut |_| ()).unwrap();
    folder::assert_same(&folder::read(&exported.path), &folder::read(talk));
    assert_sound(store);
}

#[test]
fn what_vanishes_between_the_list_of_a_folder_and_its_reading_was_never_there() {
    let scratch = Scratch::new();
    let talk = talk(&scratch, 300);
    let passing = [
        "events/..eventlog-len-300.marker.3n25e26f.tmp".to_owned(),
        format!("events/.{}.ab12.tmp", event_file(299)),
        ".base_state.json.x1.tmp".to_owned(),
        "observations/long.txt".to_owned(),
    ];
    fs::create_dir_all(talk.join("observations")).unwrap();
    passing.iter().for_each(|path| fs::write(talk.join(path), "on its way").unwrap());
    let store = scratch.open_without_projector();
    // The folder is listed by the first event. The next list of it is that of another import.
    let report = import(&store, &talk, &mut |progress| {
        if progress.events == 256 {
            passing.iter().for_each(|path| fs::remove_file(talk.join(path)).unwrap());
            fs::remove_dir(talk.join("observations")).unwrap();
            fs::rename(talk.join(marker(300)), talk.join(marker(301))).unwrap();
        }
    });
    assert_eq!((report.status, report.events), (ImportStatus::Imported, 300), "{report:?}");
    assert_eq!(report.problems, []);
    let again = import(&store, &talk, &mut |_| ());
    assert_eq!((again.status, again.problems), (ImportStatus::Updated, vec![]));
    assert_comes_back(&store, &scratch, &talk);
    assert_eq!(import(&store, &talk, &mut |_| ()).status, ImportStatus::Unchanged);
}

#[test]
fn an_event_that_vanishes_meanwhile_is_named_and_the_others_are_imported() {
    let scratch = Scratch::new();
    let talk = talk(&scratch, 600);
    let last = format!("events/{}", event_file(599));
    let store = scratch.open_without_projector();
    let report = import(&store, &talk, &mut |progress| {
        if progress.events == 256 {
            fs::remove_file(talk.join(&last)).unwrap();
        }
    });
    assert_eq!((report.status, report.events), (ImportStatus::Partial, 599));
    assert_eq!(report.problems.len(), 1);
    assert_eq!(report.problems[0].path, last);
    fs::write(talk.join(&last), payload_of(599)).unwrap();
    let report = import(&store, &talk, &mut |_| ());
    assert_eq!((report.status, report.added, report.problems), (ImportStatus::Updated, 1, vec![]));
    assert_comes_back(&store, &scratch, &talk);
}

#[test]
fn the_newest_marker_takes_the_place_of_the_others() {
    let scratch = Scratch::new();
    let talk = talk(&scratch, 3);
    let store = scratch.open_without_projector();
    assert_eq!(import(&store, &talk, &mut |_| ()).status, ImportStatus::Imported);
    let stored = |store: &Store| {
        let files = store.attachments(&annals::ConversationId::new("talk").unwrap()).unwrap();
        files.into_iter().map(|file| file.path).collect::<Vec<_>>()
    };
    // Between two appends the SDK has no marker. That alone changes nothing here.
    fs::remove_file(talk.join(marker(3))).unwrap();
    let report = import(&store, &talk, &mut |_| ());
    assert_eq!((report.status, report.problems), (ImportStatus::Unchanged, vec![]));
    assert_eq!(stored(&store), [marker(3), "events/.eventlog.lock".to_owned()]);
    // A marker that comes late, and the temporary file of an event that is whole by now.
    let temporary = format!("events/.{}.ab12.tmp", event_file(3));
    for number in 3..5 {
        fs::write(talk.join(&temporary), payload_of(3)).unwrap();
        fs::write(talk.join("events").join(event_file(number)), payload_of(number)).unwrap();
        fs::write(talk.join(marker(number + 1)), "").unwrap();
        let report = import(&store, &talk, &mut |_| ());
        assert_eq!((report.status, report.added), (ImportStatus::Updated, 1));
        assert_eq!(
            stored(&store),
            [temporary.clone(), marker(number + 1), "events/.eventlog.lock".to_owned()]
        );
        fs::remove_file(talk.join(&temporary)).unwrap();
        fs::remove_file(talk.join(marker(number + 1))).unwrap();
        let report = import(&store, &talk, &mut |_| ());
        assert_eq!((report.status, report.problems), (ImportStatus::Unchanged, vec![]));
    }
    fs::write(talk.join(marker(5)), "").unwrap();
    fs::write(talk.join("events").join(event_file(5)), payload_of(5)).unwrap();
    let report = import(&store, &talk, &mut |_| ());
    assert_eq!((report.status, report.problems), (ImportStatus::Updated, vec![]));
    assert_comes_back(&store, &scratch, &talk);
}

/// Writes a file as the SDK does: under another name first.
fn write(path: &Path, text: &str) {
    let temporary = path.with_file_name(format!(".{}.ab12.tmp", path.file_name().unwrap().to_str().unwrap()));
    fs::write(&temporary, text).unwrap();
    fs::rename(&temporary, path).unwrap();
}

#[test]
fn imports_beside_a_writer_bring_every_event_and_fail_never() {
    const EVENTS: usize = 400;
    let scratch = Scratch::new();
    let talk = talk(&scratch, 1);
    let store = scratch.open_without_projector();
    let is_done = AtomicBool::new(false);
    let imports = std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1..EVENTS {
                write(&talk.join("events").join(event_file(number)), &payload_of(number));
                fs::remove_file(talk.join(marker(number))).unwrap();
                write(&talk.join(marker(number + 1)), "");
                write(
                    &talk.join("base_state.json"),
                    &format!(r#"{{"id":"talk","agent":{{"kind":"Agent"}},"n":{number}}}"#),
                );
                let passing = talk.join(format!("observations {number}"));
                fs::create_dir(&passing).unwrap();
                fs::write(passing.join("long.txt"), "on its way").unwrap();
                fs::remove_dir_all(&passing).unwrap();
            }
            is_done.store(true, Ordering::Release);
        });
        let mut imports = 0;
        while !is_done.load(Ordering::Acquire) {
            let report = import(&store, &talk, &mut |_| ());
            assert_ne!(report.status, ImportStatus::Failed, "{report:?}");
            imports += 1;
        }
        imports
    });
    assert!(imports > 1);
    let report = import(&store, &talk, &mut |_| ());
    assert!(report.problems.iter().all(|problem| problem.path.starts_with("observations ")), "{report:?}");
    let payloads: Vec<String> =
        all_events(&store, &report.id.unwrap()).into_iter().map(|event| event.payload).collect();
    assert_eq!(payloads, (0..EVENTS).map(payload_of).collect::<Vec<_>>());
    // What had no other name was on its way into the folder for good, as far as an import can know. It is kept.
    let is_passing = |path: &String| !path.starts_with("observations ");
    let id = annals::ConversationId::new("talk").unwrap();
    let exported =
        Exporter::new(&store, Format::OpenHands).export(&id, &scratch.path("out"), &mut |_| ()).unwrap();
    let mut written = folder::read(&exported.path);
    written.retain(|path, _| is_passing(path));
    folder::assert_same(&written, &folder::read(&talk));
    assert_sound(&store);
}

#[test]
fn a_lease_that_has_not_ended_is_said_and_stays_out_of_an_upgraded_folder() {
    for (expires, is_open) in [("1.5", false), ("99999999999.25", true), ("1e300", true), ("\"soon\"", false)]
    {
        let scratch = Scratch::new();
        let talk = talk(&scratch, 1);
        let lease = format!(r#"{{"owner_instance_id":"a","generation":3,"expires_at":{expires}}}"#);
        fs::write(talk.join("owner_lease.json"), &lease).unwrap();
        let store = Store::in_memory(&without_projector()).unwrap();
        let report = import(&store, &talk, &mut |_| ());
        let said: Vec<&str> = report.problems.iter().map(|problem| problem.path.as_str()).collect();
        assert_eq!(said, if is_open { vec!["owner_lease.json"] } else { vec![] }, "{expires}");
        assert_comes_back(&store, &scratch, &talk);
        let id = report.id.unwrap();
        let upgraded =
            Exporter::new(&store, Format::Upgraded).export(&id, &scratch.path("up"), &mut |_| ()).unwrap();
        assert_eq!(fs::exists(upgraded.path.join("owner_lease.json")).unwrap(), !is_open, "{expires}");
        assert_eq!(upgraded.upgrade.losses.values().sum::<u64>(), u64::from(is_open), "{expires}");
    }
}

#[cfg(unix)]
#[test]
fn a_conversation_whose_events_are_a_link_is_not_imported_as_an_empty_one() {
    let scratch = Scratch::new();
    let talk = talk(&scratch, 3);
    fs::rename(talk.join("events"), scratch.path("elsewhere")).unwrap();
    std::os::unix::fs::symlink(scratch.path("elsewhere"), talk.join("events")).unwrap();
    let store = Store::in_memory(&without_projector()).unwrap();
    for path in [&talk, &scratch.path("in")] {
        let report = import(&store, path, &mut |_| ());
        assert_eq!((report.status, report.id), (ImportStatus::Failed, None));
        assert!(report.problems[0].problem.contains("it is a link"), "{:?}", report.problems);
    }
    assert_eq!(store.count_conversations(&Default::default()).unwrap(), 0);
}
