//! Proofs: heads that are kept outside the store, signatures, and bundles that standard tools can check.
#![cfg(feature = "proof")]

use std::path::Path;
use std::process::Command;

use annals::audit::proof::{
    BundleOptions, Head, Key, PublicKey, Scope, SignedHead, Withheld, compare, write_bundle,
};
use annals::redact::Finder;
use annals::store::{Finding, Redaction};
use annals::transfer::Importer;
use annals::{ConversationId, Error, Expected, Sequence, Store, Timestamp};

use crate::support::events::{answered, command, pause, printed, user_message};
use crate::support::{Found, Scratch, all_events, assert_error, conversation, folder, said};

const MOMENT: Timestamp = Timestamp(1_769_860_800_000_000); // 2026-01-31T12:00:00Z

fn store(scratch: &Scratch) -> Store {
    let store = scratch.open_without_projector();
    let talk = conversation("a talk");
    store.append(&talk, Expected::Any, &[user_message("a", "hello"), command("b", "c1", "ls")]).unwrap();
    store.append(&talk, Expected::Any, &[printed("c", "b", "c1", "x", 0), answered("d", "done")]).unwrap();
    store.append(&conversation("other"), Expected::Any, &[user_message("a", "hi")]).unwrap();
    store
}

fn head(store: &Store) -> Head {
    Head::new(Scope::Whole, MOMENT, store.audit().chain_heads(None).unwrap())
}

/// Changes the file as its owner can: drops the guards, runs `sql`, and computes the chain again.
fn rewrite(scratch: &Scratch, sql: &str) {
    let db = scratch.foreign();
    db.execute_batch(
        "PRAGMA foreign_keys = OFF; DROP TRIGGER event_update_guard; DROP TRIGGER event_delete_guard;",
    )
    .unwrap();
    db.execute_batch(sql).unwrap();
    let mut statement = db
        .prepare("SELECT e.position, c.id, e.sequence, e.id, e.payload, c.key FROM event AS e JOIN conversation AS c \
                  ON c.key = e.conversation ORDER BY e.position")
        .unwrap();
    let rows: Vec<(i64, String, i64, String, String, i64)> = statement
        .query_map([], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?))
        })
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    let mut previous = std::collections::HashMap::new();
    for (position, conversation, sequence, id, payload, key) in rows {
        use annals::chain::{Digest, link};
        let before = previous.get(&key).copied().unwrap_or(Digest::START);
        let hash = link(&conversation, sequence.cast_unsigned(), &id, Digest::of(payload.as_bytes()), before);
        previous.insert(key, hash);
        db.execute("UPDATE event SET hash = ?2 WHERE position = ?1", (position, hash.0)).unwrap();
        db.execute(
            "UPDATE conversation SET head_hash = ?2, event_count = ?3, payload_bytes = (SELECT sum(length(CAST(payload AS BLOB))) \
             FROM event WHERE conversation = ?1) WHERE key = ?1",
            (key, hash.0, sequence + 1),
        )
        .unwrap();
    }
}

/// Returns what `verify` finds without a head, except the missing guards.
fn without_guards(store: &Store) -> Vec<Finding> {
    let mut findings = store.audit().verify(None, &mut |_| ()).unwrap().findings;
    findings.retain(|finding| !finding.what.starts_with("the guard "));
    findings
}

#[test]
fn a_head_records_where_every_chain_ends() {
    let scratch = Scratch::new();
    let store = store(&scratch);
    let text = head(&store).to_text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "annals-head-v2");
    assert_eq!(lines[2..5], ["at 2026-01-31T12:00:00.000000Z", "scope whole", "position 5"]);
    assert_eq!(lines[5], format!("acts 0 {}", "0".repeat(64)));
    assert_eq!(lines[6..8], ["changes since beginning", "conversations 2"]);
    let row = store.conversation(&conversation("a talk")).unwrap();
    assert_eq!(lines[8], format!("4 {} 0 {} a talk", row.chain_head, "0".repeat(64)));
    assert!(lines[9].ends_with(" other"));
    assert_eq!(SignedHead::parse(&text).unwrap().head, head(&store));
}

#[test]
fn a_store_that_only_grew_matches_its_old_head() {
    let scratch = Scratch::new();
    let store = store(&scratch);
    let then = head(&store);
    assert_eq!(compare(&store, &then).unwrap(), []);
    store.append(&conversation("other"), Expected::Any, &[pause("p")]).unwrap();
    store.append(&conversation("new"), Expected::Any, &[pause("p")]).unwrap();
    assert_eq!(compare(&store, &then).unwrap(), []);
    // A copy matches the head, too.
    store.backup().to_new_file(scratch.path("copy.db")).unwrap();
    let copy = Store::open(scratch.path("copy.db")).unwrap();
    assert_eq!(compare(&copy, &then).unwrap(), []);
}

/// Every change here passes the check of the chain itself. Only the head that was kept outside the store reveals it.
#[test]
fn a_rewritten_chain_does_not_match_a_kept_head() {
    let talk = |sequence: Option<u64>, what: &str| -> Found {
        (Some(conversation("a talk")), sequence.map(Sequence), what.into())
    };
    let rewritten =
        "its first 4 events are not those it had at 2026-01-31T12:00:00 UTC: its history was rewritten";
    for (sql, findings) in [
        (
            "UPDATE event SET payload = replace(payload, 'ls', 'rm') WHERE position = 2",
            vec![talk(Some(3), rewritten)],
        ),
        (
            "UPDATE event SET id = 'x', payload = replace(payload, '\"id\":\"d\"', '\"id\":\"x\"') WHERE position = 4; \
             UPDATE conversation SET leaf_event_id = 'x' WHERE key = 1",
            vec![talk(Some(3), rewritten)],
        ),
        (
            "DELETE FROM event WHERE position = 4; UPDATE conversation SET leaf_event_id = 'c', status = 'running' WHERE key = 1",
            vec![talk(
                None,
                "it ends after 3 events; at 2026-01-31T12:00:00 UTC it had 4: its end was cut off",
            )],
        ),
        (
            "DELETE FROM event WHERE conversation = 1; DELETE FROM conversation WHERE key = 1",
            vec![talk(None, "it is gone; at 2026-01-31T12:00:00 UTC it had 4 events")],
        ),
        (
            "DELETE FROM event WHERE position = 5; UPDATE conversation SET event_count = 0, \
             payload_bytes = 0, leaf_event_id = NULL, first_message = NULL, first_timestamp = NULL, last_timestamp = NULL, \
             status = 'idle', updated_minute = 0, head_hash = zeroblob(32) WHERE key = 2",
            vec![
                (
                    None,
                    None,
                    "the log ends at position 4, at 2026-01-31T12:00:00 UTC it had 5: it was set back".into(),
                ),
                (
                    Some(conversation("other")),
                    None,
                    "it ends after 0 events; at 2026-01-31T12:00:00 UTC it had 1: its end was cut off".into(),
                ),
            ],
        ),
    ] {
        let scratch = Scratch::new();
        let store = store(&scratch);
        let then = head(&store);
        rewrite(&scratch, sql);
        assert_eq!(without_guards(&store), [], "the chain alone does not reveal it: {sql}");
        assert_eq!(said(&compare(&store, &then).unwrap()), findings, "{sql}");
    }
}

#[test]
fn a_head_of_another_store_is_detected() {
    let (one, two) = (Scratch::new(), Scratch::new());
    let then = head(&store(&one));
    let findings = compare(&store(&two), &then).unwrap();
    assert!(findings[0].what.starts_with("the head is of another store"), "{findings:?}");
}

/// Returns the SHA-256 of `bytes` in hex. It uses the crate, not Annals.
fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest as _;
    sha2::Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

/// Checks a bundle by its README alone. Returns the number of events, the number of events without a payload, and
/// whether the bundle is signed. Returns an error for the first step that fails.
/// `tests/oracle/check_bundle.py` does the same with the tools that the README names.
fn check(folder: &Path) -> Result<(u64, u64, bool), String> {
    let read = |name: &str| std::fs::read(folder.join(name)).map_err(|error| format!("{name}: {error}"));
    let text = |name: &str| read(name).map(|bytes| String::from_utf8(bytes).unwrap());
    let mut sums = Vec::new();
    for line in text("payloads.sha256")?.lines() {
        let (digest, name) = line.split_once("  ").ok_or("a torn line in payloads.sha256")?;
        if sha256(&read(name)?) != digest {
            return Err(format!("{name} does not have its digest"));
        }
        sums.push((digest.to_owned(), name.to_owned()));
    }
    let head = text("head.txt")?;
    let lines: Vec<&str> = head.lines().collect();
    let (events, rest) = lines[6].split_once(' ').ok_or("no head")?;
    let (last, id) = rest.split_once(' ').ok_or("no head")?;
    let (mut previous, mut length, mut chain) = ("0".repeat(64), 0_u64, Vec::new());
    for line in text("chain.tsv")?.lines() {
        let fields: Vec<&str> = line.splitn(4, '\t').collect();
        let [sequence, payload, hash, event] = fields[..] else { return Err("a torn line".into()) };
        let link = format!("annals-event-v1\n{id}\n{sequence}\n{event}\n{payload}\n{previous}\n");
        previous = sha256(link.as_bytes());
        if previous != hash || sequence != length.to_string() {
            return Err(format!("event {sequence} does not follow"));
        }
        chain.push((payload.to_owned(), format!("payloads/{length:06}.json")));
        length += 1;
    }
    if sums.iter().any(|sum| !chain.contains(sum)) {
        return Err("a payload is not in the chain".into());
    }
    if (length.to_string().as_str(), previous.as_str()) != (events, last) {
        return Err("the chain does not end where the head says".into());
    }
    let Some((message, signature)) = head.split_once("key ") else {
        return Ok((length, length - sums.len() as u64, false));
    };
    let (key, signature) = signature.split_once("\nsignature ").ok_or("no signature")?;
    let key = ed25519_dalek::VerifyingKey::from_bytes(&unhex(key).try_into().unwrap()).unwrap();
    let signature = ed25519_dalek::Signature::from_slice(&unhex(signature.trim_end())).unwrap();
    key.verify_strict(message.as_bytes(), &signature).map_err(|_| "the signature is wrong".to_owned())?;
    Ok((length, length - sums.len() as u64, true))
}

fn bundle(store: &Store, id: &ConversationId, to: &Path, key: Option<&Key>) -> u64 {
    let options = BundleOptions::new(MOMENT).key(key);
    write_bundle(store, id, to, &options).unwrap().events
}

#[test]
fn a_bundle_can_be_checked_without_annals() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    Importer::new(&store, Default::default()).import(&folder::golden("conversations"), &mut |_| ()).unwrap();
    // A conversation whose id and texts have special characters of the shell, and a conversation without events.
    let odd = conversation("it's $HOME `odd` \"name\" %s");
    let events = [
        user_message("a b", "line\nbreak"),
        user_message("--x", "tab\t"),
        user_message("$(touch evil)", "\u{0}\\ 日本"),
    ];
    store.append(&odd, Expected::Any, &events).unwrap();
    let empty = conversation("empty");
    store.append(&empty, Expected::Any, &[]).unwrap();
    let golden = store.resolve("5610a7").unwrap();
    let key = Key::make(&scratch.path("key")).unwrap();
    for (name, id, key) in
        [("odd", &odd, None), ("empty", &empty, Some(&key)), ("golden", &golden, Some(&key))]
    {
        let to = scratch.path(name);
        let count = bundle(&store, id, &to, key);
        assert_eq!(count, store.conversation(id).unwrap().event_count);
        assert_eq!(check(&to), Ok((count, 0, key.is_some())), "{name}");
        for (at, event) in all_events(&store, id).iter().enumerate() {
            let file = std::fs::read_to_string(to.join(format!("payloads/{at:06}.json"))).unwrap();
            assert_eq!(file, event.payload, "{name}");
        }
    }
}

#[test]
fn a_bundle_has_archived_payloads_and_only_digests_of_redacted_ones() {
    let scratch = Scratch::new();
    let store = store(&scratch);
    let talk = conversation("a talk");
    let before = all_events(&store, &talk);
    store.retention().archive(std::slice::from_ref(&talk), None, &mut |_| ()).unwrap();
    bundle(&store, &talk, &scratch.path("archived"), None);
    assert_eq!(check(&scratch.path("archived")), Ok((4, 0, false)));
    for (at, event) in before.iter().enumerate() {
        let path = scratch.path("archived").join(format!("payloads/{at:06}.json"));
        assert_eq!(std::fs::read_to_string(path).unwrap(), event.payload);
    }
    let then = head(&store);
    store.retention().redact(&talk, Redaction::Event(&before[1].id), "a test").unwrap();
    assert_eq!(compare(&store, &then).unwrap(), []);
    bundle(&store, &talk, &scratch.path("redacted"), None);
    assert_eq!(check(&scratch.path("redacted")), Ok((4, 1, false)));
    assert!(!scratch.path("redacted/payloads/000001.json").exists());
}

/// Runs the steps of a bundle's README in a shell. Returns what each step prints.
fn steps(to: &Path) -> Vec<String> {
    let readme = std::fs::read_to_string(to.join("README.md")).unwrap();
    let mut script = String::from("LC_ALL=C; export LC_ALL\n");
    for block in readme.split("```sh\n").skip(1) {
        let (block, _) = block.split_once("```").unwrap();
        // `check` verifies the signatures, because not every machine has OpenSSL 3.
        if !block.contains("openssl") {
            script += block;
        }
        script += "echo ---\n";
    }
    let output = Command::new("sh")
        .args(["-c", &script])
        .current_dir(to)
        .env("TMPDIR", to.parent().unwrap())
        .output()
        .unwrap();
    let printed = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    printed.split("---\n").map(str::to_owned).collect()
}

const CANARY: &str = "ghp_0aB1cD2eF3gH4iJ5kL6mN7oP8qR9sT0uV1wX";

#[test]
fn withheld_text_is_not_in_a_bundle_and_the_chain_still_holds() {
    let scratch = Scratch::new();
    let store = store(&scratch);
    let talk = conversation("a talk");
    let secret = [
        user_message("e", &format!("my key is {CANARY}, keep it")),
        command("f", "c2", &format!("curl -H 'Authorization: token {CANARY}' https://example.org")),
        printed("g", "f", "c2", &format!("tok\u{0}en {CANARY}"), 0),
        user_message("h", "Jane Doe was here"),
        // If the secret is in an id of the event, nothing of the event is shown.
        printed("i", "f", CANARY, "x", 0),
        user_message("j", "no secret at all"),
    ];
    store.append(&talk, Expected::Any, &secret).unwrap();
    store.retention().redact(&talk, Redaction::Event(&all_events(&store, &talk)[1].id), "a test").unwrap();
    let events = all_events(&store, &talk);
    let key = Key::make(&scratch.path("key")).unwrap();
    let withheld = Withheld::default().events(vec![events[9].id.clone()]).finders(vec![
        store.retention().finder_with_own(&talk, &Finder::secrets(), &[]).unwrap(),
        Finder::default().with_values(&[("value 1".into(), CANARY.into())]).unwrap(),
        Finder::expression("(?i)jane doe").unwrap(),
    ]);
    let options = BundleOptions::new(MOMENT).key(&key).withheld(withheld);
    let to = scratch.path("proof");
    let made = write_bundle(&store, &talk, &to, &options).unwrap();
    assert_eq!((made.events, made.redacted, made.withheld), (10, 1, 6));
    assert_eq!(check(&to), Ok((10, 7, true)));
    let output = steps(&to);
    assert_eq!(output[..2], ["", ""], "{output:?}");
    assert_eq!(output[2].lines().count(), 7, "{output:?}");
    assert!(output[3].starts_with("10 ") && output[3].ends_with(" a talk\n"), "{output:?}");

    for (name, bytes) in folder::read(&to) {
        let text = String::from_utf8(bytes).unwrap();
        for canary in [CANARY, "Jane Doe", "no secret at all"] {
            assert!(!text.contains(canary), "{name} has {canary}");
        }
    }
    let shown = |sequence: usize| std::fs::read_to_string(to.join(format!("redacted/{sequence:06}.json")));
    assert_eq!(shown(1).unwrap(), events[1].payload);
    assert_eq!(shown(4).unwrap(), events[4].payload.replace(CANARY, "[redacted]"));
    assert_eq!(shown(7).unwrap(), events[7].payload.replace("Jane Doe", "[redacted]"));
    assert!(shown(5).unwrap().contains("curl -H"), "{:?}", shown(5));
    assert!(shown(8).is_err());
    assert!(!shown(9).unwrap().contains("secret"));
    // The store is unchanged.
    assert_eq!(all_events(&store, &talk), events);
    // The holder of a payload can prove that it belongs to the event.
    let chain = std::fs::read_to_string(to.join("chain.tsv")).unwrap();
    assert!(chain.lines().nth(4).unwrap().contains(&sha256(events[4].payload.as_bytes())));

    // A forged text in place of a withheld payload proves nothing. A forged digest is found.
    edit(&to, "chain.tsv", |text| text.replace(&sha256(events[4].payload.as_bytes()), &sha256(b"{}")));
    assert!(steps(&to)[1].contains("event 4 does not follow"));
}

#[test]
fn a_secret_in_an_id_prevents_a_bundle() {
    let scratch = Scratch::new();
    let store = store(&scratch);
    let made = |pattern: &str, events: Vec<annals::EventId>| {
        let finders = vec![Finder::expression(pattern).unwrap()];
        let withheld = Withheld::default().events(events).finders(finders);
        let options = BundleOptions::new(MOMENT).withheld(withheld);
        write_bundle(&store, &conversation("a talk"), &scratch.path("out"), &options).map(drop)
    };
    assert_error(made("talk", Vec::new()), &Error::SecretInId { place: "the conversation's id".into() });
    assert_error(made("^c$", Vec::new()), &Error::SecretInId { place: "the id of event 2".into() });
    let missing = annals::EventId::new("nobody").unwrap();
    let unknown = Error::UnknownEvent { conversation: conversation("a talk"), event: "nobody".into() };
    assert_error(made("^none$", vec![missing]), &unknown);
    assert!(!scratch.path("out").exists());
    // If all events are withheld, the steps still print what they should.
    made("..", Vec::new()).unwrap_err();
    let all = all_events(&store, &conversation("a talk")).into_iter().map(|event| event.id).collect();
    made("^none$", all).unwrap();
    assert_eq!(check(&scratch.path("out")), Ok((4, 4, false)));
    let output = steps(&scratch.path("out"));
    assert_eq!(
        (output[0].as_str(), output[1].as_str(), output[2].lines().count()),
        ("", "", 4),
        "{output:?}"
    );
}

/// The name of a change to a bundle, the change, and the error of the check that detects it.
type Change = (&'static str, fn(&Path), &'static str);

fn edit(to: &Path, name: &str, change: impl Fn(String) -> String) {
    let path = to.join(name);
    std::fs::write(&path, change(std::fs::read_to_string(&path).unwrap())).unwrap();
}

/// Changes the command in the second event. Returns the digests of its payload before and after.
fn forge(to: &Path) -> (String, String) {
    let path = to.join("payloads/000001.json");
    let before = sha256(&std::fs::read(&path).unwrap());
    edit(to, "payloads/000001.json", |text| text.replace("ls", "rm"));
    (before, sha256(&std::fs::read(&path).unwrap()))
}

const CHANGES: &[Change] = &[
    ("a payload", |to| drop(forge(to)), "does not have its digest"),
    (
        "a payload and its sum",
        |to| {
            let (before, after) = forge(to);
            edit(to, "payloads.sha256", |text| text.replace(&before, &after));
        },
        "a payload is not in the chain",
    ),
    (
        "a payload, its sum and the chain's",
        |to| {
            let (before, after) = forge(to);
            for name in ["payloads.sha256", "chain.tsv"] {
                edit(to, name, |text| text.replace(&before, &after));
            }
        },
        "event 1 does not follow",
    ),
    (
        "the order",
        |to| {
            edit(to, "chain.tsv", |text| {
                let mut lines: Vec<&str> = text.lines().collect();
                lines.swap(1, 2);
                lines.join("\n") + "\n"
            });
        },
        "event 2 does not follow",
    ),
    (
        "the end",
        |to| {
            edit(to, "chain.tsv", |text| text.lines().take(3).map(|line| line.to_owned() + "\n").collect());
            edit(to, "payloads.sha256", |text| {
                text.lines().take(3).map(|line| line.to_owned() + "\n").collect()
            });
        },
        "the chain does not end where the head says",
    ),
    (
        "everything",
        |to| ["chain.tsv", "payloads.sha256"].iter().for_each(|name| edit(to, name, |_| String::new())),
        "the chain does not end where the head says",
    ),
    (
        "one more payload",
        |to| {
            std::fs::write(to.join("payloads/000009.json"), "{}").unwrap();
            edit(to, "payloads.sha256", |text| format!("{text}{}  payloads/000009.json\n", sha256(b"{}")));
        },
        "a payload is not in the chain",
    ),
    ("the time", |to| edit(to, "head.txt", |text| text.replace("2026", "2025")), "the signature is wrong"),
];

#[test]
fn a_bundle_that_was_changed_does_not_pass() {
    let scratch = Scratch::new();
    let store = store(&scratch);
    let key = Key::make(&scratch.path("key")).unwrap();
    for (what, change, step) in CHANGES {
        let to = scratch.path(&what.replace(' ', "-"));
        bundle(&store, &conversation("a talk"), &to, Some(&key));
        assert_eq!(check(&to), Ok((4, 0, true)));
        change(&to);
        let error = check(&to).unwrap_err();
        assert!(error.contains(step), "{what}: {error}");
    }
}

#[test]
fn a_bundle_is_written_into_an_empty_folder_only() {
    let scratch = Scratch::new();
    let store = store(&scratch);
    let to = scratch.path("out");
    std::fs::create_dir(&to).unwrap();
    bundle(&store, &conversation("other"), &to, None);
    let options = BundleOptions::new(MOMENT);
    assert_error(
        write_bundle(&store, &conversation("other"), &to, &options),
        &Error::WouldOverwrite { path: to },
    );
    let broken = write_bundle(&store, &conversation("nobody"), &scratch.path("none"), &options);
    assert_error(broken, &Error::UnknownConversation { conversation: "nobody".into() });
    assert!(!scratch.path("none").exists());
}

/// What `folder` holds, without what is below it.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_bundle_that_could_not_be_finished_leaves_nothing_and_its_repeat_succeeds() {
    let scratch = Scratch::new();
    let store = store(&scratch);
    let talk = conversation("a talk");
    // The chain breaks at the last event, after the others were written.
    let db = scratch.foreign();
    db.execute_batch("DROP TRIGGER event_update_guard; UPDATE event SET hash = zeroblob(32) WHERE id = 'd'")
        .unwrap();
    std::fs::create_dir_all(scratch.path("parent/there")).unwrap();
    let parent = scratch.path("parent");
    for name in ["new", "there"] {
        let broken = write_bundle(&store, &talk, &parent.join(name), &BundleOptions::new(MOMENT));
        assert!(matches!(broken, Err(Error::Corrupt { .. })), "{broken:?}");
    }
    assert_eq!((names(&parent), names(&parent.join("there"))), (vec!["there".to_owned()], Vec::new()));
}

#[cfg(unix)]
#[test]
fn what_a_killed_bundle_left_does_not_stop_its_repeat() {
    let scratch = Scratch::new();
    let store = store(&scratch);
    let parent = scratch.path("parent");
    for partial in [".new.0a1b2c3d.partial", "there/.bundle.0a1b2c3d.partial"] {
        std::fs::create_dir_all(parent.join(partial).join("content/payloads")).unwrap();
        std::fs::write(parent.join(partial).join("content/chain.tsv"), "").unwrap();
    }
    for name in ["new", "there/"] {
        bundle(&store, &conversation("a talk"), &parent.join(name), None);
        assert_eq!(check(&parent.join(name)), Ok((4, 0, false)));
        let files = ["README.md", "chain.tsv", "check.py", "head.txt", "payloads", "payloads.sha256"];
        assert_eq!(names(&parent.join(name)), files);
    }
    assert_eq!(names(&parent), ["new", "there"]);
}

/// The key pair of RFC 8410, section 10, in the format that OpenSSL reads and writes.
#[test]
fn keys_have_the_format_of_openssl() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("theirs.pem"), "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n-----END PRIVATE KEY-----\n").unwrap();
    std::fs::write(scratch.path("theirs.pub"), "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n").unwrap();
    let private = Key::read(&scratch.path("theirs.pem")).unwrap();
    let public = PublicKey::read(scratch.path("theirs.pub").to_str().unwrap()).unwrap();
    assert_eq!(private.public(), public);
    assert_eq!(public.to_pem(), std::fs::read_to_string(scratch.path("theirs.pub")).unwrap());
}

#[cfg(feature = "cli")]
mod program {
    use super::*;

    fn run(scratch: &Scratch, arguments: &[&str]) -> (Option<i32>, String, String) {
        let output = Command::new(env!("CARGO_BIN_EXE_annals"))
            .current_dir(scratch.path(""))
            .env_remove("ANNALS_DB")
            .args(arguments)
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    }

    #[test]
    fn an_auditor_verifies_a_store_against_a_kept_head() {
        let scratch = Scratch::new();
        drop(store(&scratch));
        let (code, public, _) = run(&scratch, &["keys", "key.pem", "--new"]);
        assert_eq!((code, public.trim_end().len()), (Some(0), 64));
        assert_eq!(run(&scratch, &["keys", "key.pem.pub"]).1, public);
        assert_eq!(run(&scratch, &["keys", "key.pem", "--new"]).0, Some(1));
        let (code, head, _) = run(&scratch, &["head", "--sign", "key.pem"]);
        assert_eq!(code, Some(0));
        std::fs::write(scratch.path("head.txt"), &head).unwrap();
        let against = ["verify", "--against", "head.txt", "--key", "key.pem.pub"];
        let (code, output, errors) = run(&scratch, &against);
        assert_eq!(code, Some(0), "{output}{errors}");
        assert!(output.contains(&format!("2 conversations (signed by {})", public.trim_end())), "{output}");
        assert!(output.contains("all as they were written"), "{output}");

        // Another key, a changed head, no head at all.
        run(&scratch, &["keys", "other.pem", "--new"]);
        let (code, _, errors) = run(&scratch, &["verify", "--against", "head.txt", "--key", "other.pem"]);
        assert_eq!(code, Some(2), "{errors}");
        std::fs::write(scratch.path("changed.txt"), head.replacen("4 ", "3 ", 1)).unwrap();
        let (code, _, errors) = run(&scratch, &["verify", "--against", "changed.txt"]);
        assert!(code == Some(2) && errors.contains("the signature is not that of key"), "{errors}");
        std::fs::write(scratch.path("none.txt"), "hello\n").unwrap();
        let (code, _, errors) = run(&scratch, &["verify", "--against", "none.txt"]);
        assert!(code == Some(1) && errors.contains("line 1 of the head"), "{errors}");

        rewrite(&scratch, "UPDATE event SET payload = replace(payload, 'hello', 'bye!!') WHERE position = 1");
        let (code, output, _) = run(&scratch, &against);
        assert_eq!(code, Some(2));
        assert!(output.contains("a talk event 3: its first 4 events are not those it had"), "{output}");
        let (_, json, _) = run(&scratch, &[&["--json"], &against[..]].concat());
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["sound"], false);
        assert_eq!(json["against"]["key"], public.trim_end());
    }

    /// A kill between the two files of a key leaves the first one.
    #[test]
    fn the_missing_public_half_of_a_key_can_be_written() {
        let scratch = Scratch::new();
        let folder = scratch.path("keys");
        std::fs::create_dir(&folder).unwrap();
        let (code, made, _) = run(&scratch, &["keys", "keys/a.pem", "--new"]);
        assert_eq!((code, names(&folder)), (Some(0), vec!["a.pem".to_owned(), "a.pem.pub".to_owned()]));
        let whole = std::fs::read_to_string(folder.join("a.pem.pub")).unwrap();
        std::fs::remove_file(folder.join("a.pem.pub")).unwrap();

        let (code, _, errors) = run(&scratch, &["keys", "keys/a.pem", "--new"]);
        assert!(code == Some(1) && errors.contains("`annals keys FILE --public` writes that"), "{errors}");
        assert_eq!(names(&folder), ["a.pem"]);
        let (code, shown, errors) = run(&scratch, &["keys", "keys/a.pem", "--public"]);
        assert_eq!((code, shown), (Some(0), made), "{errors}");
        assert_eq!(std::fs::read_to_string(folder.join("a.pem.pub")).unwrap(), whole);
        for refused in ["--public", "--new"] {
            let (code, _, errors) = run(&scratch, &["keys", "keys/a.pem", refused]);
            assert!(code == Some(1) && errors.contains("a.pem.pub"), "{errors}");
        }
    }

    #[test]
    fn a_bundle_is_made_by_one_command() {
        let scratch = Scratch::new();
        drop(store(&scratch));
        let (code, output, errors) = run(&scratch, &["bundle", "a talk", "--to", "proof"]);
        assert_eq!(code, Some(0), "{errors}");
        assert!(output.starts_with("proof: 4 events ("), "{output}");
        assert!(scratch.path("proof/README.md").exists());
        assert_eq!(run(&scratch, &["bundle", "a talk", "--to", "proof"]).0, Some(1));

        let without =
            ["bundle", "a talk", "--to", "shared", "--redact-pattern", "hello", "--redact-event", "b"];
        let (code, output, errors) = run(&scratch, &without);
        assert_eq!(code, Some(0), "{errors}");
        assert!(output.contains("2 events withheld"), "{output}");
        assert_eq!(check(&scratch.path("shared")), Ok((4, 2, false)));
        std::fs::write(scratch.path("values"), "a talk\n").unwrap();
        let (code, _, errors) =
            run(&scratch, &["bundle", "a talk", "--to", "none", "--values-from", "values"]);
        assert!(code == Some(1) && errors.contains("the conversation's id"), "{errors}");
    }
}
