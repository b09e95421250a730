//! Exports for today's SDK: whatever the log came from, the SDK finds every event by the id that others name.
//! `tests/oracle/open_folders.py` opens the same folders with the SDK itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use annals::replay::{Memory, Moment, Point};
use annals::transfer::{ExportReport, Exporter, Format, ImportOptions, Importer};
use annals::{ConversationId, ROOT, Store};
use serde_json::Value;

use crate::support::{Scratch, all_events, event_ids, folder, without_projector};

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

/// What a model could see of a conversation: the events by their place in the log, and the summaries by that of the
/// condensation that they are of. `None` if the log has no such view, because it is damaged.
fn view(store: &Store, id: &ConversationId) -> Option<Vec<(usize, bool)>> {
    let places: BTreeMap<String, usize> =
        event_ids(store, id).into_iter().enumerate().map(|(place, id)| (id, place)).collect();
    let view = Moment::new(store, id, Point::End).unwrap().view(Memory::Reloaded).ok()?;
    let place = |id: &str| match (places.get(id), id.strip_suffix("-summary")) {
        (None, Some(condensation)) => (places[condensation], true),
        (place, _) => (*place.unwrap(), false),
    };
    Some(view.ids().map(place).collect())
}

#[test]
fn an_upgrade_changes_no_event_of_today_and_no_view() {
    let (mut same, mut summaries) = (0, 0);
    for kind in ["conversations", "corrupt", "legacy", "foreign", "ages"] {
        let scratch = Scratch::new();
        let store = Store::in_memory(&without_projector()).unwrap();
        let upgraded = Store::in_memory(&without_projector()).unwrap();
        Importer::new(&store, Default::default()).import(&folder::golden(kind), &mut |_| ()).unwrap();
        let entries = store.conversations(&Default::default(), Default::default(), None, 100).unwrap();
        for id in entries.conversations.into_iter().map(|entry| entry.id) {
            let exporter = Exporter::new(&store, Format::Upgraded);
            let report = exporter.export(&id, &scratch.path("out"), &mut |_| ()).unwrap();
            let again = Importer::new(&upgraded, ImportOptions::default().id(id.clone()));
            { again }.import(&report.path, &mut |_| ()).unwrap();
            let seen = view(&store, &id);
            assert_eq!(view(&upgraded, &id), seen, "{id}");
            summaries += seen.iter().flatten().filter(|(_, is_summary)| *is_summary).count();
            if report.upgrade.steps.is_empty() && report.upgrade.losses.is_empty() {
                let payloads = |store| all_events(store, &id).into_iter().map(|event| event.payload);
                let both: Vec<_> = payloads(&store).zip(payloads(&upgraded)).collect();
                assert_eq!(both.len() as u64, report.events);
                for (stored, written) in both {
                    assert_eq!(written, stored, "{id}");
                }
                assert_eq!(upgraded.base_state(&id).unwrap(), store.base_state(&id).unwrap(), "{id}");
                same += 1;
            }
        }
    }
    assert!(same >= 10 && summaries > 0, "{same} of today, {summaries} summaries");
}

/// A conversation with one call of the tool `weigh`, whose answer is in members of its own. Its agent has `tools`.
fn weighing(scratch: &Scratch, name: &str, tools: &str) -> PathBuf {
    let event = |id: &str, parent: &str, source: &str, rest: &str| {
        let head = r#""timestamp":"2026-01-31T12:00:00.000001""#;
        format!(r#"{{"id":"{id}",{head},"source":"{source}",{parent}{rest}}}"#)
    };
    let (prompt, call, answer) = ("aaaaaaaa-0000", "bbbbbbbb-0000", "cccccccc-0000");
    let tool = r#"{"description":"Weighs animals.","action_type":"WeighAction","observation_type":"WeighObservation","kind":"WeighTool","title":"weigh"}"#;
    let files = BTreeMap::from([
        (
            format!("events/event-00000-{prompt}.json"),
            event(
                prompt,
                "",
                "agent",
                &format!(
                    r#""system_prompt":{{"cache_prompt":false,"type":"text","text":"You weigh."}},"tools":[{tool}],"kind":"SystemPromptEvent""#
                ),
            ),
        ),
        (
            format!("events/event-00001-{call}.json"),
            event(
                call,
                r#""parent_id":"aaaaaaaa-0000","#,
                "agent",
                r#""thought":[],"thinking_blocks":[],"action":{"animals":["ox","hen"],"kind":"WeighAction"},"tool_name":"weigh","tool_call_id":"call_1","tool_call":{"id":"call_1","name":"weigh","arguments":"{}","origin":"completion"},"llm_response_id":"c1","security_risk":"UNKNOWN","kind":"ActionEvent""#,
            ),
        ),
        (
            format!("events/event-00002-{answer}.json"),
            event(
                answer,
                r#""parent_id":"bbbbbbbb-0000","#,
                "environment",
                r#""tool_name":"weigh","tool_call_id":"call_1","observation":{"content":[],"is_error":false,"weights":{"ox":2.0,"hen":3.0},"note":"naïve ✓","kind":"WeighObservation"},"action_id":"bbbbbbbb-0000","extended_content":[],"kind":"ObservationEvent""#,
            ),
        ),
        (
            "base_state.json".to_owned(),
            format!(
                r#"{{"id":"00000000-0000-4000-8000-000000000001","agent":{{"llm":{{"model":"m"}},"tools":{tools},"kind":"Agent"}},"workspace":{{"working_dir":"w","kind":"LocalWorkspace"}},"execution_status":"finished"}}"#
            ),
        ),
    ]);
    let tree = files.into_iter().map(|(path, text)| (path, text.into_bytes())).collect();
    let place = scratch.path(name).join("00000000000040008000000000000001");
    folder::write(&place, &tree);
    place
}

/// Imports a folder and exports it with an upgrade, into `up` within the scratch folder.
fn upgraded(scratch: &Scratch, from: &Path, up: &str) -> (Store, ExportReport) {
    let store = Store::in_memory(&without_projector()).unwrap();
    let reports = Importer::new(&store, Default::default()).import(from, &mut |_| ()).unwrap();
    let id = reports[0].id.clone().unwrap();
    let report = Exporter::new(&store, Format::Upgraded).export(&id, &scratch.path(up), &mut |_| ()).unwrap();
    (store, report)
}

fn counts(of: &BTreeMap<String, u64>) -> Vec<(&str, u64)> {
    of.iter().map(|(what, count)| (what.as_str(), *count)).collect()
}

/// What a model is sent of a conversation.
fn messages(store: &Store, id: &ConversationId) -> Vec<String> {
    let messages = Moment::new(store, id, Point::End).unwrap().messages(Memory::Reloaded).unwrap();
    messages.iter().map(|message| message.to_json()).collect()
}

#[test]
fn what_a_tool_of_the_agent_s_own_made_stays_as_it_is() {
    for name in ["WeighTool", "weigh", "ScalesToolSet"] {
        let scratch = Scratch::new();
        let tools = format!(r#"[{{"name":"terminal","params":{{}}}},{{"name":"{name}","params":{{}}}}]"#);
        let from = weighing(&scratch, "in", &tools);
        let (_, report) = upgraded(&scratch, &from, "up");
        folder::assert_same(&folder::read(&report.path), &folder::read(&from));
        assert_eq!(counts(&report.upgrade.losses), [], "{name}");
        let kept = [("WeighAction", 1), ("WeighObservation", 1), ("WeighTool", 1)];
        assert_eq!(counts(&report.upgrade.kept), kept, "{name}");
    }
}

#[test]
fn a_tool_that_the_agent_does_not_have_keeps_its_answers_as_text() {
    for tools in ["[]", r#"[{"name":"terminal"},{"name":"LiftTool"}]"#] {
        let scratch = Scratch::new();
        let from = weighing(&scratch, "in", tools);
        let (store, report) = upgraded(&scratch, &from, "up");
        let answer = fs::read_to_string(report.path.join("events/event-00002-cccccccc-0000.json")).unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let observation = &answer["observation"];
        assert_eq!(observation["kind"], "MCPToolObservation");
        let said = r#"{"weights":{"ox":2.0,"hen":3.0},"note":"naïve ✓"}"#;
        assert_eq!(observation["content"][0]["text"], said);
        let losses = [
            ("action WeighAction became a server's tool call", 1),
            ("observation WeighObservation became a server's answer", 1),
        ];
        assert_eq!(counts(&report.upgrade.losses), losses);
        assert_eq!(counts(&report.upgrade.kept), []);
        let (again, _) = upgraded(&scratch, &report.path, "again");
        let sent = messages(&store, &report.id);
        assert_eq!(messages(&again, &report.id), sent);
        assert!(sent.iter().any(|message| message.contains("naïve ✓")), "{sent:?}");
    }
}

#[test]
fn a_tool_that_no_longer_exists_is_left_out_of_the_agent_and_counted() {
    let scratch = Scratch::new();
    let from = weighing(&scratch, "in", r#"[{"name":"DelegateTool"},{"name":"WeighTool"}]"#);
    let (_, report) = upgraded(&scratch, &from, "up");
    let state = fs::read_to_string(report.path.join("base_state.json")).unwrap();
    let state: Value = serde_json::from_str(&state).unwrap();
    assert_eq!(state["agent"]["tools"], serde_json::json!([{"name": "WeighTool"}]));
    assert_eq!(counts(&report.upgrade.losses), [("tool DelegateTool of the agent left out", 1)]);
    assert_eq!(report.upgrade.steps.get("gone_tools"), Some(&1));
}

/// Imports a folder. Returns the attachments of each conversation.
fn imported(path: &Path) -> BTreeMap<String, Vec<String>> {
    let store = Store::in_memory(&without_projector()).unwrap();
    let reports = Importer::new(&store, Default::default()).import(path, &mut |_| ()).unwrap();
    let names = |id| store.attachments(id).unwrap().into_iter().map(|file| file.path).collect();
    let ids = reports.iter().map(|report| report.id.as_ref().unwrap());
    ids.map(|id| (id.to_string(), names(id))).collect()
}

#[test]
fn conversations_without_a_readable_event_keep_their_ids_in_an_upgraded_export() {
    let scratch = Scratch::new();
    let torn = [
        ("one", "base_state.json", "{\"id\": "),
        ("two", "base_state.json", "{"),
        ("three", "events/event-00000-127634c5-9a45-4d05-950c-0488bfd0597d.json", "{\"kind\":"),
    ];
    for (folder, file, text) in torn {
        let path = scratch.path("in").join(folder).join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let store = Store::in_memory(&without_projector()).unwrap();
    Importer::new(&store, Default::default()).import(&scratch.path("in"), &mut |_| ()).unwrap();
    let exporter = Exporter::new(&store, Format::Upgraded);
    let outcome =
        exporter.export_each(&exporter.select_all().unwrap(), &scratch.path("up"), &mut |_| ()).unwrap();
    assert_eq!((outcome.reports.len(), outcome.failed.len()), (3, 0), "{outcome:?}");
    let found = imported(&scratch.path("up"));
    let expected = torn.map(|(folder, file, _)| {
        (folder.to_owned(), vec!["events/".to_owned(), format!("set-aside/{file}")])
    });
    assert_eq!(found, BTreeMap::from(expected));
}

#[test]
fn a_folder_named_set_aside_elsewhere_is_a_conversation() {
    let scratch = Scratch::new();
    let event = r#"{"id":"a","timestamp":"2026-01-31T12:00:00","source":"user","kind":"PauseEvent"}"#;
    for folder in ["in/set-aside", "in/other"] {
        fs::create_dir_all(scratch.path(folder).join("events")).unwrap();
        fs::write(scratch.path(folder).join("events/event-00000-a.json"), event).unwrap();
    }
    let found = imported(&scratch.path("in"));
    assert_eq!(found.keys().collect::<Vec<_>>(), ["other", "set-aside"]);
}
