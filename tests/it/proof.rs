//! Proof: heads that are kept elsewhere, signatures, and bundles that standard tools check.
#![cfg(feature = "proof")]

use std::path::Path;
use std::process::{Command, Stdio};

use annals::audit::proof::{Head, Key, PublicKey, Scope, SignedHead, compare, write_bundle};
use annals::store::Finding;
use annals::transfer::Importer;
use annals::{ConversationId, Error, Expected, Sequence, Store, Timestamp};

use crate::support::events::{answered, command, pause, printed, said};
use crate::support::{Scratch, assert_error, conversation, folder};

const MOMENT: Timestamp = Timestamp(1_769_860_800_000_000); // 2026-01-31T12:00:00Z

fn store(scratch: &Scratch) -> Store {
    let store = scratch.open_still();
    let talk = conversation("a talk");
    store.append(&talk, Expected::Any, &[said("a", "hello"), command("b", "c1", "ls")]).unwrap();
    store.append(&talk, Expected::Any, &[printed("c", "b", "c1", "x", 0), answered("d", "done")]).unwrap();
    store.append(&conversation("other"), Expected::Any, &[said("a", "hi")]).unwrap();
    store
}

fn head(store: &Store) -> Head {
    Head { scope: Scope::Whole, at: MOMENT, heads: store.heads(None).unwrap() }
}

/// Changes the file as its owner can: with the guards off, and the chain made again from there.
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

#[test]
fn a_head_says_where_every_chain_ends() {
    let scratch = Scratch::new();
    let store = store(&scratch);
    let text = head(&store).to_text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "annals-head-v1");
    assert_eq!(
        lines[2..6],
        ["at 2026-01-31T12:00:00.000000Z", "scope whole", "position 5", "conversations 2"]
    );
    let row = store.conversation(&conversation("a talk")).unwrap();
    assert_eq!(lines[6], format!("4 {} a talk", row.head_hash));
    assert!(lines[7].ends_with(" other"));
    assert_eq!(SignedHead::parse(&text).unwrap().head, head(&store));
}

#[test]
fn what_only_grew_still_has_everything() {
    let scratch = Scratch::new();
    let store = store(&scratch);
    let then = head(&store);
    assert_eq!(compare(&store, &then).unwrap(), []);
    store.append(&conversation("other"), Expected::Any, &[pause("p")]).unwrap();
    store.append(&conversation("new"), Expected::Any, &[pause("p")]).unwrap();
    assert_eq!(compare(&store, &then).unwrap(), []);
    // So has a copy.
    store.backup(scratch.path("copy.db")).unwrap();
    let copy = Store::open(scratch.path("copy.db")).unwrap();
    assert_eq!(compare(&copy, &then).unwrap(), []);
}

/// Everything here passes the chain's own check: only the head that was kept elsewhere tells.
#[test]
fn a_chain_that_was_made_again_does_not_pass() {
    let talk = |sequence: Option<u64>, what: &str| Finding {
        conversation: Some(conversation("a talk")),
        sequence: sequence.map(Sequence),
        what: what.into(),
    };
    let rewritten =
        "its first 4 events are not those it had at 2026-01-31T12:00:00 UTC: its history was rewritten";
    for (sql, findings) in [
        (
            "UPDATE event SET payload = replace(payload, 'hello', 'bye!!') WHERE position = 1",
            vec![talk(Some(3), rewritten)],
        ),
        ("UPDATE event SET id = 'x' WHERE position = 4", vec![talk(Some(3), rewritten)]),
        (
            "DELETE FROM event WHERE position = 4",
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
            "DELETE FROM event WHERE position = 5; UPDATE conversation SET event_count = 0, head_hash = zeroblob(32) WHERE key = 2",
            vec![
                Finding {
                    conversation: None,
                    sequence: None,
                    what: "the log ends at position 4, at 2026-01-31T12:00:00 UTC it had 5: it was set back"
                        .into(),
                },
                Finding {
                    conversation: Some(conversation("other")),
                    sequence: None,
                    what: "it ends after 0 events; at 2026-01-31T12:00:00 UTC it had 1: its end was cut off"
                        .into(),
                },
            ],
        ),
    ] {
        let scratch = Scratch::new();
        let store = store(&scratch);
        let then = head(&store);
        rewrite(&scratch, sql);
        assert_eq!(compare(&store, &then).unwrap(), findings, "{sql}");
    }
}

#[test]
fn another_store_is_told_apart() {
    let (one, two) = (Scratch::new(), Scratch::new());
    let then = head(&store(&one));
    let findings = compare(&store(&two), &then).unwrap();
    assert!(findings[0].what.starts_with("the head is of another store"), "{findings:?}");
}

fn shell(folder: &Path, script: &str) -> (bool, String) {
    let output =
        Command::new("sh").current_dir(folder).args(["-c", script]).stdin(Stdio::null()).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

fn is_there(tools: &[&str]) -> bool {
    tools.iter().all(|tool| shell(Path::new("."), &format!("command -v {tool}")).0)
}

/// The commands that a bundle's README tells to type, one script each.
fn steps(folder: &Path) -> Vec<String> {
    let readme = std::fs::read_to_string(folder.join("README.md")).unwrap();
    let visible = match readme.split_once("<!--") {
        Some((before, rest)) => before.to_owned() + rest.split_once("-->").unwrap().1,
        None => readme,
    };
    visible.split("```sh\n").skip(1).map(|block| block.split("```").next().unwrap().to_owned()).collect()
}

fn bundle(store: &Store, id: &ConversationId, to: &Path, key: Option<&Key>) -> u64 {
    write_bundle(store, id, to, key, MOMENT).unwrap().events
}

#[test]
fn a_stranger_checks_a_bundle_as_its_readme_says() {
    if !is_there(&["sha256sum", "awk", "mktemp"]) {
        return;
    }
    let scratch = Scratch::new();
    let store = scratch.open_still();
    Importer::new(&store, Default::default()).import(&folder::golden("conversations"), &mut |_| ()).unwrap();
    // An id and texts that a shell could stumble over.
    let odd = conversation("it's $HOME `odd` \"name\" %s");
    let events = [said("a b", "line\nbreak"), said("--x", "tab\t"), said("$(touch evil)", "\u{0}\\ 日本")];
    store.append(&odd, Expected::Any, &events).unwrap();
    let golden = store.resolve("5610a7").unwrap();
    let key = Key::make(&scratch.path("key")).unwrap();
    for (name, id, key) in
        [("odd", &odd, None), ("signed", &odd, Some(&key)), ("golden", &golden, Some(&key))]
    {
        let to = scratch.path(name);
        let count = bundle(&store, id, &to, key);
        let steps = steps(&to);
        assert_eq!(steps.len(), if key.is_some() { 5 } else { 4 });
        let quiet = steps[..3].join("\n");
        assert_eq!(shell(&to, &quiet), (false, String::new()), "{quiet}"); // the last grep finds nothing
        let (done, line) = shell(&to, &steps[..4].join("\n"));
        assert!(
            done && line.starts_with(&format!("{count} ")) && line.trim_end().ends_with(id.as_str()),
            "{line}"
        );
        if key.is_some() && is_there(&["openssl", "xxd"]) {
            let (done, told) = shell(&to, &steps.join("\n"));
            assert!(done && told.contains("Signature Verified Successfully"), "{told}");
        }
        if is_there(&["python3"]) {
            let (done, told) = shell(&to, "python3 check.py");
            assert!(done, "{told}");
            assert_eq!(
                told.trim_end(),
                format!("{count} events are as they were recorded; 0 of them have no payload any more")
            );
        }
        assert!(!to.join("evil").exists());
    }
}

#[test]
fn a_bundle_that_was_changed_does_not_pass() {
    if !is_there(&["sha256sum", "awk", "mktemp", "python3"]) {
        return;
    }
    let scratch = Scratch::new();
    let store = store(&scratch);
    let changes: &[(&str, fn(&Path))] = &[
        ("a payload", |to| {
            let path = to.join("payloads/000001.json");
            let text = std::fs::read_to_string(&path).unwrap().replace("ls", "rm");
            std::fs::write(path, text).unwrap();
        }),
        ("a payload and its sum", |to| {
            let path = to.join("payloads/000001.json");
            let text = std::fs::read_to_string(&path).unwrap().replace("ls", "rm");
            std::fs::write(path, text).unwrap();
            shell(to, "sha256sum payloads/*.json > payloads.sha256");
        }),
        ("a payload, its sum and the chain's", |to| {
            let path = to.join("payloads/000001.json");
            let text = std::fs::read_to_string(&path).unwrap().replace("ls", "rm");
            let before = annals::chain::Digest::of(&std::fs::read(&path).unwrap()).to_string();
            let after = annals::chain::Digest::of(text.as_bytes()).to_string();
            std::fs::write(path, text).unwrap();
            for name in ["payloads.sha256", "chain.tsv"] {
                let changed = std::fs::read_to_string(to.join(name)).unwrap().replace(&before, &after);
                std::fs::write(to.join(name), changed).unwrap();
            }
        }),
        ("the order", |to| {
            let chain = std::fs::read_to_string(to.join("chain.tsv")).unwrap();
            let mut lines: Vec<&str> = chain.lines().collect();
            lines.swap(1, 2);
            std::fs::write(to.join("chain.tsv"), lines.join("\n") + "\n").unwrap();
        }),
        ("the end", |to| {
            let chain = std::fs::read_to_string(to.join("chain.tsv")).unwrap();
            let lines: Vec<&str> = chain.lines().take(3).collect();
            std::fs::write(to.join("chain.tsv"), lines.join("\n") + "\n").unwrap();
        }),
        ("one more payload", |to| {
            std::fs::write(to.join("payloads/000009.json"), "{}").unwrap();
            shell(to, "sha256sum payloads/*.json > payloads.sha256");
        }),
    ];
    let talk = conversation("a talk");
    for (what, change) in changes {
        let to = scratch.path(&what.replace(' ', "-"));
        bundle(&store, &talk, &to, None);
        change(&to);
        let (done, told) = shell(&to, "python3 check.py");
        assert!(!done, "{what}: {told}");
        let quiet = shell(&to, &steps(&to)[..3].join("\n")).1;
        let found = shell(&to, &steps(&to)[..4].join("\n")).0;
        assert!(!quiet.is_empty() || !found, "{what}");
    }
}

#[test]
fn a_bundle_is_written_into_an_empty_folder_only() {
    let scratch = Scratch::new();
    let store = store(&scratch);
    let to = scratch.path("out");
    std::fs::create_dir(&to).unwrap();
    bundle(&store, &conversation("other"), &to, None);
    assert_error(
        write_bundle(&store, &conversation("other"), &to, None, MOMENT),
        &Error::WouldOverwrite { path: to },
    );
    let broken = write_bundle(&store, &conversation("nobody"), &scratch.path("none"), None, MOMENT);
    assert_error(broken, &Error::UnknownConversation { conversation: "nobody".into() });
    assert!(!scratch.path("none").exists());
}

#[test]
fn keys_are_those_of_openssl() {
    if !is_there(&["openssl"]) {
        return;
    }
    let scratch = Scratch::new();
    let folder = scratch.path("");
    let (made, told) = shell(
        &folder,
        "openssl genpkey -algorithm ed25519 -out theirs.pem && openssl pkey -in theirs.pem -pubout -out theirs.pub",
    );
    assert!(made, "{told}");
    let theirs = Key::read(&scratch.path("theirs.pem")).unwrap();
    let public = PublicKey::read(scratch.path("theirs.pub").to_str().unwrap()).unwrap();
    assert_eq!(theirs.public(), public);
    assert_eq!(public.to_pem(), std::fs::read_to_string(scratch.path("theirs.pub")).unwrap());
    let ours = Key::make(&scratch.path("ours.pem")).unwrap();
    let (read, pem) = shell(&folder, "openssl pkey -in ours.pem -pubout");
    assert!(read, "{pem}");
    assert_eq!(pem, ours.public().to_pem());
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
    fn an_auditor_keeps_a_head_and_holds_the_store_to_it() {
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
        let (code, told, errors) = run(&scratch, &against);
        assert_eq!(code, Some(0), "{told}{errors}");
        assert!(told.contains(&format!("2 conversations (signed by {})", public.trim_end())), "{told}");
        assert!(told.contains("all as they were written"), "{told}");

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
        let (code, told, _) = run(&scratch, &against);
        assert_eq!(code, Some(2));
        assert!(told.contains("a talk event 3: its first 4 events are not those it had"), "{told}");
        let (_, json, _) = run(&scratch, &[&["--json"], &against[..]].concat());
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["sound"], false);
        assert_eq!(json["against"]["key"], public.trim_end());
    }

    #[test]
    fn a_bundle_is_made_by_one_command() {
        let scratch = Scratch::new();
        drop(store(&scratch));
        let (code, told, errors) = run(&scratch, &["bundle", "a talk", "--to", "proof"]);
        assert_eq!(code, Some(0), "{errors}");
        assert!(told.starts_with("proof: 4 events ("), "{told}");
        assert!(scratch.path("proof/README.md").exists());
        assert_eq!(run(&scratch, &["bundle", "a talk", "--to", "proof"]).0, Some(1));
    }
}
