//! Exports for today's SDK: whatever the log came from, the SDK finds every event by the id that others name.
//! `tests/oracle/open_folders.py` opens the same folders with the SDK itself.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use annals::transfer::{Exporter, Format, Importer};
use annals::{ROOT, Store};
use serde_json::Value;

use crate::support::{Scratch, folder, without_projector};

/// Checks an exported folder, and returns how many of its events name another one.
fn references(exported: &Path) -> usize {
    let mut events = Vec::new();
    for entry in fs::read_dir(exported.join("events")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let event: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let in_name = name.strip_suffix(".json").unwrap().splitn(3, '-').nth(2).unwrap().to_owned();
        // The SDK's own pattern: it skips other files.
        let is_found =
            in_name.len() >= 8 && in_name.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
        assert!(is_found, "{}", path.display());
        assert_eq!(event["id"], in_name.as_str(), "{}", path.display());
        events.push((path, event));
    }
    let ids: BTreeSet<&str> = events.iter().map(|(_, event)| event["id"].as_str().unwrap()).collect();
    let mut named = 0;
    for (path, event) in &events {
        for member in ["parent_id", "action_id"] {
            if let Some(id) = event[member].as_str().filter(|id| *id != ROOT) {
                assert!(ids.contains(id), "{} names {id} in {member}", path.display());
                named += 1;
            }
        }
    }
    named
}

#[test]
fn every_id_that_an_upgraded_event_names_is_that_of_a_file() {
    let scratch = Scratch::new();
    let store = Store::in_memory(&without_projector()).unwrap();
    for format in ["claude-code", "codex", "langgraph", "openai-agents", "openhands-v0"] {
        let log = folder::golden("foreign").join(format);
        Importer::new(&store, Default::default()).import(&log, &mut |_| ()).unwrap();
    }
    let (mut folders, mut named) = (0, 0);
    for entry in
        store.conversations(&Default::default(), Default::default(), None, 100).unwrap().conversations
    {
        let exported =
            Exporter::new(&store, Format::Upgraded).export(&entry.id, &scratch.path("out"), &mut |_| ());
        named += references(&exported.unwrap().path);
        folders += 1;
    }
    assert!(folders > 9 && named > 50, "{folders} folders, {named} references");
}
