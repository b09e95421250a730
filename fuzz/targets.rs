//! Fuzz targets: input from outside, and the properties that must hold for any input.
//!
//! Each function takes any bytes and panics if a property does not hold. `tests/it/fuzz.rs` runs them with changed
//! seeds on stable Rust: briefly in every test run, and longer on request. `fuzz_targets/` passes them to libFuzzer,
//! which searches for bytes that reach new code (`cargo fuzz run sql`, nightly Rust).

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use annals::audit::proof::{PublicKey, SignedHead};
use annals::event::json::{Raw, scan};
use annals::event::{Given, Unfamiliar, decode, upcast};
use annals::redact::Finder;
use annals::replay::{Memory, Moment, Point, Recording};
use annals::state::{BaseDocument, Spent, upcast_base_state};
use annals::store::{Redaction, SearchFilter, SqlLimits, SqlQuery, SqlValue};
use annals::transfer::{Exporter, Format, ImportOptions, Importer};
use annals::visualizer::{self, draw};
use annals::{ConversationId, Error, Expected, NewEvent, Options, Store, Timestamp, message, stuck};

/// A target: its name and what it does with bytes.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: &[Target] = &[
    ("decode", decode_event),
    ("documents", documents),
    ("sql", sql),
    ("search", search),
    ("head", head),
    ("import", import),
    ("fold", fold),
    ("json", json),
    ("foreign", foreign),
    ("redact", redact),
    ("upgrade", upgrade),
];

fn text(data: &[u8]) -> String {
    String::from_utf8_lossy(data).into_owned()
}

fn without_projector() -> Options {
    Options::default().follow_projections(false)
}

/// Reads, upcasts, writes and draws the text of an event.
pub fn decode_event(data: &[u8]) {
    let payload = text(data);
    let kept = NewEvent::parse_lenient(payload.as_str(), annals::EventId::mint);
    if let Ok(event) = NewEvent::parse(payload.as_str()) {
        assert_eq!(event.payload(), payload, "a payload is stored unchanged");
        assert!(kept.is_ok(), "a payload that can be parsed can be kept");
    }
    let _ = upcast::upcast(&payload);
    if let Ok(raised) = upcast::read(&payload, &Given::default()) {
        let (loadable, _) = upcast::loadable(&raised.event);
        drop(loadable.dump());
        check_drawing(&raised.event);
    }
    let strict = decode(&payload, Unfamiliar::Refuse);
    if let Ok(event) = decode(&payload, Unfamiliar::Keep) {
        check_drawing(&event);
        drop(message::message(&event));
        if let Ok(event) = strict {
            let dump = event.dump();
            // Upcast first, because the reference does not write some of the members that it requires when it reads.
            let again = raised(&dump);
            assert_eq!(raised(&again), again, "the second write gives the same text");
        }
    } else {
        assert!(strict.is_err(), "strict decoding accepts no more than lenient decoding");
    }
}

/// Reads an event's text, upcasts it, and returns the text that is written for it.
fn raised(text: &str) -> String {
    match upcast::read(text, &Given::default()) {
        Ok(raised) => raised.event.dump(),
        Err(error) => panic!("the written text cannot be read: {error}\n{text}"),
    }
}

/// Asserts that the drawing of an event contains no control characters for the terminal.
fn check_drawing(event: &annals::event::Event) {
    let options = visualizer::Options::default().width(60).lines_max(20);
    let Some(drawing) = draw(event, &Spent::default(), &options) else { return };
    for row in drawing.rows(Some(60), "note") {
        let plain = row.plain();
        let control = plain
            .chars()
            .find(|c| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'));
        assert_eq!(control, None, "{plain:?}");
    }
}

/// Parses any text as JSON. Our reader and `serde_json` must agree.
pub fn json(data: &[u8]) {
    let text = text(data);
    // Our reader accepts Python's words for NaN and infinity; `serde_json` does not.
    let is_odd = text.contains("NaN") || text.contains("Infinity");
    let own = Raw::parse(&text);
    let other = serde_json::from_str::<serde_json::Value>(&text);
    match (&own, &other) {
        (Ok(raw), Ok(value)) => same(*raw, value),
        (Err(_), Err(_)) => {}
        (Err(fault), Ok(_)) => panic!("rejected by our reader only: {fault}\n{text}"),
        (Ok(_), Err(error)) => {
            let reason = error.to_string();
            // `serde_json` builds the values that it reads, and fails on a value that it cannot represent.
            let cannot_hold = reason.contains("number out of range") || reason.contains("recursion limit");
            assert!(is_odd || cannot_hold, "accepted by our reader only: {reason}\n{text}");
        }
    }
    let mut members = Vec::new();
    let scanned = scan(&text, |key, value| members.push((key, value)));
    let is_object = own.is_ok_and(Raw::is_object);
    assert_eq!(scanned.is_ok(), is_object, "both ways of reading accept the same objects\n{text}");
    if let (Ok(raw), Ok(_)) = (own, scanned) {
        assert_eq!(raw.members().collect::<Vec<_>>(), members, "{text}");
    }
    if let Ok((first, rest)) = Raw::parse_first(&text) {
        assert!(text.ends_with(rest) && text.contains(first.text()), "{text}");
    }
}

/// Asserts that a value that our reader read in place equals the value that `serde_json` built.
fn same(raw: Raw<'_>, value: &serde_json::Value) {
    use serde_json::Value;
    match value {
        Value::Null => assert!(raw.is_null()),
        Value::Bool(flag) => assert_eq!(raw.text(), flag.to_string()),
        Value::Number(number) => {
            assert_eq!(raw.as_f64(), number.as_f64(), "{}", raw.text());
            assert_eq!(raw.as_i64().filter(|_| raw.text() != "-0"), number.as_i64(), "{}", raw.text());
        }
        Value::String(text) => assert_eq!(raw.as_str().as_deref(), Some(text.as_str()), "{}", raw.text()),
        Value::Array(values) => {
            let elements: Vec<Raw<'_>> = raw.elements().collect();
            assert_eq!(elements.len(), values.len(), "{}", raw.text());
            elements.into_iter().zip(values).for_each(|(raw, value)| same(raw, value));
        }
        Value::Object(members) => {
            let object = raw.to_object();
            let keys: std::collections::BTreeSet<&str> = object.keys().collect();
            assert_eq!(keys.len(), members.len(), "{}", raw.text());
            for (key, value) in members {
                same(object.get(key).unwrap_or_else(|| panic!("{key:?} of {}", raw.text())), value);
            }
        }
    }
}

/// Parses any text as a base state, a time, an id and a key.
pub fn documents(data: &[u8]) {
    let text = text(data);
    if let Ok(document) = BaseDocument::parse(text.as_str()) {
        assert_eq!(document.as_str(), text);
        let (leaf, is_empty) = document.leaf();
        drop(document.with_leaf(leaf.as_deref(), is_empty));
        if let Ok(Some(raised)) = upcast_base_state(&text) {
            assert!(BaseDocument::parse(raised.document.as_str()).is_ok(), "{}", raised.document.as_str());
        }
    }
    for time in [Timestamp::parse(&text), Timestamp::parse_typed(&text)].into_iter().flatten() {
        let written = time.to_rfc3339();
        assert_eq!(Timestamp::parse(&written), Some(time), "{written}");
    }
    if let Ok(id) = ConversationId::new(&text) {
        assert!(!id.as_str().contains('\n') && !id.folder_name().contains('/'), "{id:?}");
    }
    drop(PublicKey::from_hex(&text));
}

/// A word that no view shows. Only the log's own tables contain it.
const HIDDEN: &str = "canary-of-the-attachments";

static QUERIED: LazyLock<Store> = LazyLock::new(|| {
    let folder = std::env::temp_dir().join(format!("annals-fuzz-{}", std::process::id()));
    let talk = folder.join("talk");
    std::fs::create_dir_all(talk.join("events")).expect("a folder");
    let event = r#"{"id":"a","kind":"MessageEvent","source":"user","timestamp":"2026-01-01T00:00:00","llm_message":{"role":"user","content":[{"type":"text","text":"list the files"}]}}"#;
    std::fs::write(talk.join("events/event-00000-a.json"), event).expect("an event");
    std::fs::write(talk.join("notes.txt"), HIDDEN).expect("an attachment");
    let store = Store::in_memory(&without_projector()).expect("a store");
    Importer::new(&store, ImportOptions::default()).import(&talk, &mut |_| ()).expect("an import");
    std::fs::remove_dir_all(&folder).expect("removing the folder");
    let events = [
        r#"{"id":"b","kind":"ActionEvent","source":"agent","tool_name":"terminal","tool_call_id":"c","action":{"kind":"TerminalAction","command":"ls"},"thought":[],"tool_call":{"id":"c","name":"terminal","arguments":"{}","origin":"completion"},"llm_response_id":"r"}"#,
        r#"{"id":"d","kind":"PauseEvent","source":"user"}"#,
    ];
    let events: Vec<NewEvent> =
        events.into_iter().map(|text| NewEvent::parse(text).expect("an event")).collect();
    store.append(&ConversationId::new("other").expect("an id"), Expected::Any, &events).expect("an append");
    store.search("files", &SearchFilter::default(), 1, &mut |_| ()).expect("an index");
    store
});

/// Runs any SQL statement. It is answered or rejected, changes nothing, and reads only data that a view shows.
pub fn sql(data: &[u8]) {
    let store = &*QUERIED;
    let text = text(data);
    let limits = SqlLimits::default()
        .rows_max(100)
        .bytes_max(1 << 20)
        .time_max(Duration::from_millis(200))
        .memory_bytes_max(32 << 20)
        .value_bytes_max(1 << 20);
    let head = store.last_position().expect("the head");
    let conversation = vec![("conversation".to_owned(), SqlValue::from("other"))];
    let needs = text.contains(":conversation");
    let parameters = if needs { conversation.as_slice() } else { &[] };
    match store.query(&SqlQuery::new(&text).parameters(parameters).limits(limits)) {
        Ok(answer) => {
            for row in &answer.rows {
                assert_eq!(row.len(), answer.columns.len());
                for value in row {
                    let shown = match value {
                        SqlValue::Text(text) => text.clone(),
                        SqlValue::Blob(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                        SqlValue::Null | SqlValue::Integer(_) | SqlValue::Real(_) => continue,
                    };
                    assert!(!shown.contains(HIDDEN) || text.contains("canary"), "{text}\nshows {shown}");
                }
            }
        }
        Err(Error::QueryRefused { what, .. }) => assert!(!what.is_empty()),
        Err(Error::QueryTooLong { .. } | Error::QueryTooLarge { .. }) => {}
        Err(other) => panic!("{text}\n{other:?}"),
    }
    assert_eq!(store.last_position().expect("the head"), head, "{text}");
}

/// Searches for any words.
pub fn search(data: &[u8]) {
    let text = text(data);
    match QUERIED.search(&text, &SearchFilter::default(), 10, &mut |_| ()) {
        Ok(hits) => {
            for hit in hits {
                for range in &hit.marks {
                    assert!(
                        hit.snippet.get(range.clone()).is_some(),
                        "{text:?}: {range:?} of {:?}",
                        hit.snippet
                    );
                }
            }
        }
        Err(Error::Unsearchable(_)) => {}
        Err(other) => panic!("{text:?}\n{other:?}"),
    }
}

/// Parses the text of a head. A valid head is written again byte for byte.
pub fn head(data: &[u8]) {
    let text = text(data);
    if let Ok(signed) = SignedHead::parse(&text) {
        let again = signed.head.to_text();
        match signed.signer {
            None => assert_eq!(again, text),
            Some(_) => assert!(text.starts_with(&again)),
        }
    }
}

/// Returns the name and the content of each file. A name ends in 0x1f, a content in 0x1e.
pub fn files(data: &[u8]) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for file in data.split(|byte| *byte == 0x1e).take(64) {
        let Some(at) = file.iter().position(|byte| *byte == 0x1f) else { continue };
        let name = String::from_utf8_lossy(&file[..at]).into_owned();
        let path = Path::new(&name);
        let plain = path.components().all(|part| {
            matches!(part, Component::Normal(name) if name.len() < 100 && !name.to_string_lossy().contains(['\0', '\u{fffd}']))
        });
        if plain && path.components().next().is_some() && name.len() < 200 && !name.ends_with('/') {
            files.insert(path.components().collect(), file[at + 1..].to_vec());
        }
    }
    files
}

/// Imports any logs as another program's. The store is sound, a second import adds nothing, and a file of lines is
/// exported unchanged.
pub fn foreign(data: &[u8]) {
    let scratch = tempfile::tempdir().expect("a folder");
    let folder = scratch.path().join("in");
    // Data that starts with 0x1e holds several files. Other data holds one file: a name up to 0x1f, then the content.
    let given = match data.strip_prefix(&[0x1e]) {
        Some(several) => files(several),
        None => {
            let end = data.iter().position(|byte| *byte == 0x1f).unwrap_or(data.len());
            let name = files(&[&data[..end], &[0x1f]].concat()).into_keys().next();
            name.map(|name| (name, data.get(end + 1..).unwrap_or_default().to_vec())).into_iter().collect()
        }
    };
    let mut written = Vec::new();
    for (path, content) in given {
        let place = folder.join(&path);
        if std::fs::create_dir_all(place.parent().expect("the file has a parent folder")).is_ok()
            && std::fs::write(&place, &content).is_ok()
        {
            written.push((path, content));
        }
    }
    if written.is_empty() {
        return;
    }
    let store = Store::in_memory(&without_projector()).expect("a store");
    let run_import = || {
        Importer::new(&store, ImportOptions::default())
            .import(&folder, &mut |_| ())
            .unwrap_or_else(|error| panic!("{error:?}"))
    };
    let reports = run_import();
    check_store(&store);
    let head = store.last_position().expect("the head");
    let again = run_import();
    assert_eq!(
        store.last_position().expect("the head"),
        head,
        "the second import changed the log\n{reports:?}\n{again:?}"
    );
    let page = store.conversations(&Default::default(), Default::default(), None, 1000).expect("a list");
    let [(path, content)] = written.as_slice() else { return };
    let [row] = page.conversations.as_slice() else { return };
    if row.foreign_format.is_some() && path.extension().is_some_and(|end| end == "jsonl") {
        let out = scratch.path().join("out");
        let report = Exporter::new(&store, Format::OpenHands).export(&row.id, &out, &mut |_| ());
        let report = report.unwrap_or_else(|error| panic!("{error:?}\n{reports:?}"));
        let back = std::fs::read(&report.path).unwrap_or_default();
        assert!(back == *content, "the exported file differs: {reports:?}");
    }
}

/// Writes the folder of a conversation, called `talk`, into `within`. Returns the files that could be written.
fn write_folder(data: &[u8], within: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let folder = within.join("talk");
    std::fs::create_dir_all(&folder).expect("a folder");
    let mut written = BTreeMap::new();
    for (path, content) in files(data) {
        let place = folder.join(&path);
        // A file may have the same name as another file's folder. Then it is not written.
        if std::fs::create_dir_all(place.parent().expect("the file has a parent folder")).is_ok()
            && std::fs::write(&place, &content).is_ok()
        {
            written.insert(Path::new("talk").join(path), content);
        }
    }
    written
}

/// Imports what is in a folder into a new store, which must be sound. `None` if there is no conversation.
fn imported(folder: &Path) -> Option<Store> {
    let store = Store::in_memory(&without_projector()).expect("a store");
    let reports = Importer::new(&store, ImportOptions::default()).import(folder, &mut |_| ());
    let reports = reports.unwrap_or_else(|error| panic!("{error:?}"));
    check_store(&store);
    (!reports.is_empty()).then_some(store)
}

/// Exports every conversation of a store that has no parent. Returns the files.
fn exported(store: &Store, format: Format, out: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let page = store.conversations(&Default::default(), Default::default(), None, 1000).expect("a list");
    for row in page.conversations.into_iter().filter(|row| row.parent.is_none()) {
        Exporter::new(store, format).export(&row.id, out, &mut |_| ()).expect("an export");
    }
    let mut back = BTreeMap::new();
    walk(out, Path::new(""), &mut back);
    back
}

/// Imports any folder. The store is sound, and the export equals the folder.
pub fn import(data: &[u8]) {
    let scratch = tempfile::tempdir().expect("a folder");
    let written = write_folder(data, &scratch.path().join("in"));
    let Some(store) = imported(&scratch.path().join("in/talk")) else { return };
    assert_eq!(exported(&store, Format::OpenHands, &scratch.path().join("out")), written);
}

/// Upgrades any folder. The upgraded one can be imported, and is the same when it is upgraded again.
pub fn upgrade(data: &[u8]) {
    let scratch = tempfile::tempdir().expect("a folder");
    write_folder(data, &scratch.path().join("in"));
    let Some(store) = imported(&scratch.path().join("in/talk")) else { return };
    let (once, twice) = (scratch.path().join("once"), scratch.path().join("twice"));
    let first = exported(&store, Format::Upgraded, &once);
    let Some(again) = imported(&once) else {
        assert!(first.is_empty(), "what was upgraded is no conversation: {:?}", first.keys());
        return;
    };
    assert_eq!(exported(&again, Format::Upgraded, &twice), first);
}

/// Redacts a word out of any folder. The store is sound, nothing is left without a word, and a second time there is nothing to
/// do. What is exported can be imported.
pub fn redact(data: &[u8]) {
    let scratch = tempfile::tempdir().expect("a folder");
    write_folder(data, &scratch.path().join("in"));
    let Some(store) = imported(&scratch.path().join("in/talk")) else { return };
    let Some(word) = data.first().and_then(|byte| {
        let text = String::from_utf8_lossy(data).into_owned();
        let words: Vec<&str> =
            text.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() > 3).collect();
        words.get(usize::from(*byte) % words.len().max(1)).map(|word| (*word).to_owned())
    }) else {
        return;
    };
    let finder = Finder::expression(&word).expect("a word is an expression");
    let all = || Redaction::Matches { finder: &finder, values: &[], own: false };
    let page = store.conversations(&Default::default(), Default::default(), None, 1000).expect("a list");
    for row in page.conversations {
        match store.retention().redact(&row.id, all(), "fuzz") {
            Ok(_) => {
                let again = store.retention().plan_redaction(&row.id, all()).expect("a plan");
                assert!(again.taken.is_empty(), "{word:?} is left: {:?}", again.taken);
            }
            // What cannot be read is named, and nothing is changed.
            Err(Error::Corrupt { .. } | Error::ReadOnlyCopy { .. }) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
    check_store(&store);
    let out = scratch.path().join("out");
    if !exported(&store, Format::OpenHands, &out).is_empty() {
        imported(&out);
    }
}

fn walk(folder: &Path, prefix: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries {
        let entry = entry.expect("an entry");
        let path = prefix.join(entry.file_name());
        if entry.path().is_dir() {
            walk(&entry.path(), &path, files);
        } else {
            files.insert(path, std::fs::read(entry.path()).expect("a file"));
        }
    }
}

/// Appends any events, one per line, to a conversation, and derives everything that Annals derives from it.
pub fn fold(data: &[u8]) {
    let store = Store::in_memory(&without_projector()).expect("a store");
    let talk = ConversationId::new("talk").expect("an id");
    let text = text(data);
    for line in text.lines().take(100) {
        let Ok(event) = NewEvent::parse_lenient(line, annals::EventId::mint) else { continue };
        match store.append(&talk, Expected::Any, &[event]) {
            // An event with that id has another text, or the named parent does not exist.
            Ok(_) | Err(Error::DuplicateEvent { .. } | Error::UnknownParent { .. }) => {}
            Err(other) => panic!("{line}\n{other:?}"),
        }
    }
    if store.conversation(&talk).is_err() {
        return;
    }
    for point in [Point::End, Point::Behind(annals::Sequence(1))] {
        let moment = Moment::new(&store, &talk, point).expect("a moment");
        drop(moment.state_value());
        for memory in [Memory::Live, Memory::Reloaded] {
            if let Ok(view) = moment.view(memory) {
                let events: Vec<_> = view.events().collect();
                let _ = stuck::pattern(events.into_iter(), stuck::Thresholds::default());
            }
            if let Ok(messages) = moment.messages(memory) {
                let _ = message::chat(&messages, message::ChatFlags::default());
                drop(message::responses(&messages, true));
            }
        }
    }
    if let Ok(mut recording) = Recording::new(&store, &talk, Point::End) {
        for place in 0..recording.len() {
            let _ = recording.step(place);
        }
    }
    check_store(&store);
}

fn check_store(store: &Store) {
    let findings = store.audit().verify(None, &mut |_| ()).expect("verify").findings;
    assert!(findings.is_empty(), "{findings:?}");
    let findings = store.audit().verify_projections(&mut |_| ()).expect("verify").findings;
    assert!(findings.is_empty(), "{findings:?}");
}
