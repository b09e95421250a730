//! `archive`, `unarchive`, `prune`, `vacuum` and `stats --by` as people and scripts use them.
#![cfg(feature = "cli")]

use serde_json::{Value, json};

use crate::cli::Program;

const CODING: &str = "5610a708-170e-58da-bb08-33350f7cdc03";

#[test]
fn an_archived_conversation_reads_as_before_and_can_be_unarchived() {
    let program = Program::with_goldens();
    let commands: [&[&str]; 7] = [
        &["events", "5610", "--raw"],
        &["transcript", "5610"],
        &["--json", "messages", "5610"],
        &["--json", "state", "5610"],
        &["--json", "search", "fibonacci"],
        &["--json", "report", "commands"],
        &["--json", "query", "SELECT sequence, payload FROM events ORDER BY position"],
    ];
    let outputs = || commands.map(|command| program.succeed(command));
    let before = outputs();
    let text = program.succeed(&["archive", "5610", "dc3e", "--reason", "a test"]);
    assert!(text.starts_with("2 conversations archived: 44 events, 124.2 kB of payloads in "), "{text}");
    assert_eq!(outputs(), before);
    let shown = program.json(&["show", "5610"]);
    assert_eq!(shown["archived"]["events"], 36);
    assert!(shown["archived_at"].is_string());
    assert!(program.succeed(&["show", "5610"]).contains("\narchived    "));
    let again = program.succeed(&["archive", "5610"]);
    assert_eq!(again, "nothing to archive: all of it is archived\n");
    assert_eq!(program.json(&["verify"])["sound"], true);

    let unarchived = program.json(&["unarchive", "5610"]);
    assert_eq!(unarchived, json!({"conversations": [{"id": CODING, "events": 36}]}));
    assert!(program.succeed(&["unarchive", "5610"]).contains("was not archived"));
    assert_eq!(outputs(), before);
    let log = program.succeed(&["--json", "admin-log"]);
    let acts: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&acts[0]["act"], &acts[0]["reason"]), (&"archive".into(), &"a test".into()));
    assert_eq!((&acts[2]["act"], &acts[2]["conversation"]), (&"unarchive".into(), &CODING.into()));
}

#[test]
fn archive_takes_rules_and_frees_space() {
    let program = Program::with_goldens();
    let (code, errors) = program.fails(&["archive"]);
    assert_eq!(code, 1);
    assert!(errors.contains("--older-than"), "{errors}");
    let none = program.succeed(&["archive", "--older-than", "2020-01-01"]);
    assert!(none.starts_with("nothing to archive: no conversation fits"), "{none}");
    let report = program.json(&["archive", "--older-than", "0d", "--status", "finished", "--vacuum"]);
    let finished = program.json(&["list", "--status", "finished"])["total"].clone();
    assert_eq!(report["conversations"], finished);
    let (payloads, stored) =
        (report["payload_bytes"].as_u64().unwrap(), report["stored_bytes"].as_u64().unwrap());
    assert!(stored + report["dictionary_bytes"].as_u64().unwrap() < payloads / 2, "{report}");
    assert!(report["bytes_given_back"].as_u64().unwrap() > 0, "{report}");
    assert_eq!(program.json(&["stats"])["free_bytes"], 0);
}

#[test]
fn prune_is_a_dry_run_without_yes() {
    let program = Program::with_goldens();
    for (arguments, message) in [
        (vec!["prune"], "say which"),
        (vec!["prune", "--yes"], "say which"),
        (vec!["prune", "--keep-tag", "legal"], "say which"),
        (vec!["prune", "--older-than", "soon"], "is not a time"),
        (vec!["prune", "--max-bytes", "lots"], "is no size"),
        (vec!["prune", "--status", "done"], "possible values"),
        (vec!["prune", "--keep-last", "1", "--vacuum"], "--yes"),
    ] {
        let (code, errors) = program.fails(&arguments);
        assert_eq!(code, 1, "{arguments:?}: {errors}");
        assert!(errors.contains(message), "{arguments:?}: {errors}");
    }
    let rules = ["prune", "--keep-last", "4", "--keep-tag", "lang=python"];
    let dry_run = program.json(&rules);
    assert_eq!((&dry_run["applied"], &dry_run["kept"]), (&false.into(), &5.into()));
    let text = program.run(&rules);
    let (out, remarks) = (String::from_utf8(text.stdout).unwrap(), String::from_utf8(text.stderr).unwrap());
    assert!(out.contains("would be deleted; 5 ("), "{out}");
    assert!(remarks.contains("nothing was deleted; --yes does it"), "{remarks}");
    assert_eq!(program.json(&["list"])["total"], 10);

    let done = program.json(&[&rules[..], &["--yes", "--reason", "quarterly", "--vacuum"]].concat());
    assert_eq!((&done["applied"], &done["pruned"]), (&true.into(), &dry_run["pruned"]));
    assert_eq!(program.json(&["list"])["total"], 5);
    assert_eq!(program.json(&["show", "5610"])["tags"]["lang"], "python");
    assert_eq!(program.json(&["verify"])["sound"], true);
    let log = program.succeed(&["--json", "admin-log", "--receipts"]);
    let act: Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
    assert_eq!((&act["act"], &act["reason"]), (&"prune".into(), &"quarterly".into()));
    assert_eq!(act["detail"]["because"], json!(["keep_last"]));
    assert_eq!(act["receipts"][0]["part"], "conversation");
}

#[test]
fn figures_by_conversation_kind_tool_and_day_add_up() {
    let program = Program::with_goldens();
    let whole = program.json(&["stats"]);
    for by in ["conversation", "kind", "tool", "day"] {
        let rows = program.json(&["stats", "--by", by])["rows"].as_array().unwrap().clone();
        let sum = |name: &str| rows.iter().map(|row| row[name].as_u64().unwrap()).sum::<u64>();
        assert_eq!(whole["events"], sum("events"), "{by}");
        assert_eq!(whole["payload_bytes"], sum("payload_bytes"), "{by}");
        assert!(program.succeed(&["stats", "--by", by]).lines().count() > 1);
    }
    program.succeed(&["archive", "5610"]);
    let rows = program.json(&["stats", "--by", "conversation"])["rows"].clone();
    let row = rows.as_array().unwrap().iter().find(|row| row["name"] == CODING).unwrap();
    assert!(row["archived_bytes"].as_u64().unwrap() < row["payload_bytes"].as_u64().unwrap(), "{row}");
    let by_kind = program.json(&["stats", "--by", "kind"])["rows"].as_array().unwrap().clone();
    let bytes: u64 = by_kind.iter().map(|row| row["payload_bytes"].as_u64().unwrap()).sum();
    assert_eq!(whole["payload_bytes"], bytes, "an archived payload counts with its original size");
}
