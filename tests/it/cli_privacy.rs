//! `scan-secrets`, `redact`, `erase`, `admin-log` and `vacuum` as people and scripts use them.
#![cfg(feature = "cli")]

use serde_json::{Value, json};

use crate::cli::Program;

/// The conversation whose fixture has files with tokens.
const CIPHER: &str = "d69b9a0e-4397-577b-ad7a-a529806b01a6";
/// A conversation without tokens.
const CODING: &str = "5610a708-170e-58da-bb08-33350f7cdc03";

#[test]
fn a_scan_exits_with_1_if_it_finds_a_secret_and_prints_no_value() {
    let program = Program::with_goldens();
    let output = program.run(&["--json", "scan-secrets", "d69b"]);
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&report["secrets"], &report["events"], &report["conversations"]),
        (&3.into(), &7.into(), &1.into())
    );
    assert_eq!(
        report["places"][0],
        json!({"conversation": CIPHER, "part": "attachment", "sequence": null, "name": "expected.json",
               "path": "secrets.DEPLOY_TOKEN", "kind": "named-secret", "hint": "… (29 characters)",
               "secret": 1, "count": 1})
    );
    let values = std::fs::read_to_string(
        std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/golden/conversations/secrets-cipher/expected.json"),
    )
    .unwrap();
    let expected: Value = serde_json::from_str(&values).unwrap();
    let token = expected["secrets"]["DEPLOY_TOKEN"].as_str().unwrap();
    for output in [output, program.run(&["scan-secrets"])] {
        assert!(!String::from_utf8_lossy(&output.stdout).contains(token));
    }
    assert_eq!(program.json(&["scan-secrets", "5610"])["secrets"], 0);
}

#[test]
fn values_are_read_from_a_file_and_short_ones_are_rejected_without_being_printed() {
    let program = Program::with_goldens();
    std::fs::write(program.folder.path().join("values"), "nowhere-at-all\r\n\nfibonacci\n").unwrap();
    let output = program.run(&["--json", "scan-secrets", "5610", "--values-from", "values"]);
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["places"][0]["hint"], "value 2 (9 characters)");
    std::fs::write(program.folder.path().join("values"), "long enough\nhush\n").unwrap();
    let (code, errors) = program.fails(&["scan-secrets", "--values-from", "values"]);
    assert_eq!(code, 1);
    assert!(errors.contains("value 2 has less than 6 bytes") && !errors.contains("hush"), "{errors}");
}

#[test]
fn a_redaction_is_tried_applied_reported_and_logged() {
    let program = Program::with_goldens();
    let tried = program.json(&["redact", "5610", "--pattern", "(?i)fibonacci", "--dry-run"]);
    assert_eq!((&tried["dry_run"], &tried["act"]), (&true.into(), &Value::Null));
    let done = program.json(&["redact", "5610", "--pattern", "(?i)fibonacci", "--reason", "a test"]);
    assert_eq!(
        (&done["act"], &done["vacuumed"], &done["log_emptied"]),
        (&1.into(), &true.into(), &true.into())
    );
    assert_eq!((&done["taken"], &done["events"]), (&tried["taken"], &tried["events"]));
    let found = program.json(&["search", "fibonacci"]);
    let elsewhere = found["hits"].as_array().unwrap().iter().all(|hit| hit["conversation"] != CODING);
    assert!(elsewhere, "{found}");
    let verified = program.json(&["verify"]);
    assert_eq!((&verified["sound"], &verified["redacted"]), (&true.into(), &done["events"]));
    assert!(program.succeed(&["verify"]).contains("5 of them redacted"));

    let log = program.succeed(&["--json", "admin-log", "--receipts"]);
    let act: Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
    assert_eq!(
        (&act["act"], &act["conversation"], &act["reason"]),
        (&"redact".into(), &CODING.into(), &"a test".into())
    );
    let times = done["taken"].as_array().unwrap().iter().map(|place| place["count"].as_u64().unwrap());
    assert_eq!(act["detail"]["kinds"]["pattern"], times.sum::<u64>());
    assert!(
        act["os_user"].as_str().unwrap().contains("uid")
            && act["program"].as_str().unwrap().starts_with("annals ")
    );
    assert_eq!(act["receipts"].as_array().unwrap().len(), act["receipt_count"].as_u64().unwrap() as usize);
    assert!(program.succeed(&["admin-log"]).contains("vacuum"));

    let event =
        program.json(&["events", "5610", "--from", "2", "--to", "2"])["id"].as_str().unwrap().to_owned();
    let one = program.json(&["redact", "5610", "--event", &event[..8], "--reason", "a test", "--no-vacuum"]);
    assert_eq!((&one["events"], &one["vacuumed"]), (&1.into(), &false.into()));
    let nothing = program.succeed(&["redact", "5610", "--pattern", "fibonacci", "--reason", "again"]);
    assert!(nothing.contains("there is nothing to redact"), "{nothing}");
}

#[test]
fn a_redaction_needs_a_target_and_a_reason() {
    let program = Program::with_goldens();
    for (arguments, message) in [
        (vec!["redact", "5610", "--reason", "r"], "--event"),
        (vec!["redact", "5610", "--secrets"], "--reason"),
        (vec!["redact", "5610", "--secrets", "--event", "x", "--reason", "r"], "cannot be used with"),
        (vec!["redact", "5610", "--pattern", "(", "--reason", "r"], "the pattern cannot be used"),
        (vec!["redact", "5610", "--pattern", "a*", "--reason", "r"], "matches the empty text"),
        (vec!["redact", "5610", "--event", "zzz", "--reason", "r"], "there is no event"),
        (vec!["erase", "5610", "--yes"], "--reason"),
    ] {
        let (code, errors) = program.fails(&arguments);
        assert_eq!(code, 1, "{arguments:?}: {errors}");
        assert!(errors.contains(message), "{arguments:?}: {errors}");
    }
}

#[test]
fn an_erasure_asks_first_and_keeps_a_receipt() {
    let program = Program::with_goldens();
    assert_eq!(program.fails(&["erase", "5610", "--reason", "r"]).0, 1);
    let done = program.json(&["erase", "5610", "--reason", "asked for", "--yes"]);
    assert_eq!(done["erased"][0]["id"], CODING);
    assert_eq!((&done["erased"][0]["events"], &done["vacuumed"]), (&36.into(), &true.into()));
    assert_eq!(program.json(&["list"])["total"], 9);
    let log = program.json(&["admin-log", "--limit", "1"]);
    assert_eq!((&log["act"], &log["reason"]), (&"erase".into(), &"asked for".into()));
    assert_eq!(program.json(&["verify"])["sound"], true);
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/conversations/coding-task");
    let (code, _) = program.fails(&["import", folder]);
    assert_eq!(code, 1);
    let imported = program.json(&["import", folder, "--accept-erased"]);
    assert_eq!(imported["conversations"][0]["status"], "partial");
    assert_eq!(program.json(&["list"])["total"], 10);
}

#[test]
fn a_vacuum_makes_the_file_smaller() {
    let program = Program::with_goldens();
    program.succeed(&["delete", "5610", "--yes"]);
    let report = program.json(&["vacuum"]);
    let bytes = |name: &str| report[name].as_u64().unwrap();
    assert!(bytes("bytes_after") < bytes("bytes_before"), "{report}");
    assert_eq!(
        std::fs::metadata(program.folder.path().join("annals.db")).unwrap().len(),
        bytes("bytes_after")
    );
}
