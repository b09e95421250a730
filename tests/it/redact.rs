//! Redaction and erasure: no byte of the removed text is left in the file, the rest is unchanged, the chain stays
//! valid, and no import brings the text back silently.

use annals::chain::Digest;
use annals::event::{Unfamiliar, decode};
use annals::redact::{Finder, REDACTED};
use annals::store::{Act, ActNumber, Finding, Mending, Redaction, RedactionReport};
use annals::transfer::{Exporter, Format, ImportOptions, ImportStatus};
use annals::{ConversationId, Error, EventId, Expected, Store};

use crate::support::events::{answered, event, user_message};
use crate::support::folder::{self, Tree};
use crate::support::planted::{self, BEGINNING, CANARY, count_bytes, found, plant};
use crate::support::projected::{assert_same_rows, dump};
use crate::support::{
    Scratch, all_events, altered, assert_error, assert_sound, conversation, number, rows, without_projector,
};

fn canary() -> Finder {
    Finder::expression(CANARY).unwrap()
}

fn matches(finder: &Finder) -> Redaction<'_> {
    Redaction::Matches { finder, values: &[], own: false }
}

#[track_caller]
fn redact(store: &Store, id: &ConversationId) -> RedactionReport {
    store.retention().redact(id, matches(&canary()), "a test").unwrap()
}

fn export(scratch: &Scratch, store: &Store, id: &ConversationId, to: &str) -> Tree {
    Exporter::new(store, Format::OpenHands).export(id, &scratch.path(to), &mut |_| ()).unwrap();
    folder::read(&scratch.path(to).join("planted"))
}

#[test]
fn no_byte_of_a_redacted_text_is_left_in_file_or_log() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let id = plant(&scratch, &store);
    assert!(count_bytes(&scratch.database(), BEGINNING) > 20);
    let report = redact(&store, &id);
    assert!(report.log_emptied);
    assert_eq!((report.events, report.attachments), (4, 2));
    assert_eq!(count_bytes(&scratch.database(), BEGINNING), 0);
    let vacuumed = store.maintenance().vacuum().unwrap();
    assert!(vacuumed.log_emptied && vacuumed.bytes_after <= vacuumed.bytes_before);
    assert_eq!(count_bytes(&scratch.database(), BEGINNING), 0);
    drop(store);
    assert_eq!(count_bytes(&scratch.database(), BEGINNING), 0);
}

#[test]
fn a_redaction_changes_only_the_redacted_text() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let id = plant(&scratch, &store);
    let (before, other) = (all_events(&store, &id), all_events(&store, &conversation("other")));
    let exported = export(&scratch, &store, &id, "before");
    redact(&store, &id);
    let after = all_events(&store, &id);
    assert_eq!(after.len(), before.len());
    for (before, after) in before.iter().zip(&after) {
        let expected = altered!(before, {
            payload: before.payload.replace(CANARY, REDACTED),
            redacted_digest: Some(annals::chain::Digest::of(before.payload.as_bytes())),
        });
        assert_eq!(*after, expected);
        let was_readable = decode(&before.payload, Unfamiliar::Refuse).is_ok();
        assert_eq!(decode(&after.payload, Unfamiliar::Refuse).is_ok(), was_readable, "{}", after.payload);
    }
    assert_eq!(all_events(&store, &conversation("other")), other);
    let row = store.conversation(&id).unwrap();
    assert_eq!(row.title.as_deref(), Some("about [redacted]"));
    assert_eq!(row.tags, r#"{"owner":"[redacted]"}"#);
    let first: String = scratch
        .foreign()
        .query_row("SELECT first_message FROM conversation WHERE id = 'planted'", [], |row| row.get(0))
        .unwrap();
    assert_eq!(first, format!("{} [redacted]", "word ".repeat(38).trim()));
    let expected = exported.into_iter().map(|(path, content)| {
        let at = content.windows(CANARY.len()).position(|window| window == CANARY.as_bytes());
        match at {
            Some(_) if path == "data.bin" => (path, [b"\xff\xfe\x00", REDACTED.as_bytes(), b"\x80"].concat()),
            Some(_) => (path, String::from_utf8(content).unwrap().replace(CANARY, REDACTED).into_bytes()),
            None => (path, content),
        }
    });
    folder::assert_same(&export(&scratch, &store, &id, "after"), &expected.collect());
    assert_eq!(found(&store), 0);
    assert_eq!(store.search("line", &Default::default(), 10, &mut |_| ()).unwrap().len(), 1);
    assert_eq!(store.tasks(&id).unwrap()[0].title, "hide [redacted]");
    assert_eq!(
        store.tool_calls(&id, annals::Sequence(0), 10).unwrap()[0].path.as_deref(),
        Some("/tmp/[redacted]/x")
    );
}

#[test]
fn projections_after_a_redaction_equal_those_of_a_rebuild() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let id = plant(&scratch, &store);
    redact(&store, &id);
    let db = scratch.foreign();
    let checkpoints = || rows(&db, "SELECT name, version, position FROM projection ORDER BY name");
    let (redacted, reached) = (dump(&db), checkpoints());
    let hits = |word: &str| store.search(word, &Default::default(), 100, &mut |_| ()).unwrap();
    let words = (hits("redacted"), hits("word"), hits("concern"));
    assert_eq!((words.0.len(), words.1.len(), words.2.len()), (3, 1, 1));
    store.maintenance().rebuild(&[], &mut |_| ()).unwrap();
    store.maintenance().rebuild(&["search"], &mut |_| ()).unwrap();
    assert_same_rows(&dump(&db), &redacted);
    assert_eq!(checkpoints(), reached);
    assert_eq!((hits("redacted"), hits("word"), hits("concern")), words);
}

#[test]
fn the_chain_stays_valid_and_redacted_events_are_counted() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let id = plant(&scratch, &store);
    let head = store.conversation(&id).unwrap().chain_head;
    redact(&store, &id);
    assert_sound(&store);
    assert_eq!(store.audit().verify(None, &mut |_| ()).unwrap().redacted, 4);
    assert_eq!(store.conversation(&id).unwrap().chain_head, head);
    // If a writer retries with the original event, the event is reported as known.
    let first = annals::NewEvent::parse(
        String::from_utf8(planted::tree()["events/event-00000-e0.json"].clone()).unwrap(),
    );
    assert!(store.append(&id, Expected::Any, &[first.unwrap()]).unwrap()[0].known);
    store.append(&id, Expected::Exact(4), &[answered("e4", "on")]).unwrap();
    assert_sound(&store);
}

#[test]
fn an_import_does_not_bring_redacted_text_back() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let id = plant(&scratch, &store);
    // The folder lacks the base state changes that were made here. Without them, folder and conversation agree.
    let db = scratch.foreign();
    db.execute_batch(
        "INSERT INTO maintenance VALUES ('test'); DELETE FROM base_state_change; DELETE FROM maintenance;
         UPDATE base_state SET version = 0, document_version = 0, document = first_document, first_document = NULL",
    )
    .unwrap();
    redact(&store, &id);
    let redacted = export(&scratch, &store, &id, "redacted");
    let report = planted::import(&scratch, &store, &planted::tree());
    assert_eq!((report.status, report.added, report.problems), (ImportStatus::Unchanged, 0, vec![]));
    let accepting = ImportOptions::default().accept_changed_files(true);
    let report = planted::import_with(&scratch, &store, &planted::tree(), accepting);
    assert_eq!(report.status, ImportStatus::Unchanged);
    // A folder with a new event and a changed base state does not bring it back either.
    let mut grown = planted::tree();
    grown.insert(
        "events/event-00004-e4.json".into(),
        answered("e4", "news").payload().to_owned().into_bytes(),
    );
    let state = String::from_utf8(grown["base_state.json"].clone()).unwrap();
    let state =
        state.replace("\"/x\"", "\"/y\"").replace("\"leaf_event_id\":\"e3\"", "\"leaf_event_id\":\"e4\"");
    grown.insert("base_state.json".into(), state.into_bytes());
    let report = planted::import(&scratch, &store, &grown);
    assert_eq!((report.status, report.added), (ImportStatus::Updated, 1));
    store.maintenance().vacuum().unwrap(); // overwrites the rows that were deleted above
    assert_eq!(count_bytes(&scratch.database(), BEGINNING), 0);
    let now = export(&scratch, &store, &id, "grown");
    let text = |tree: &Tree, path: &str| String::from_utf8(tree[path].clone()).unwrap();
    let expected = text(&redacted, "base_state.json").replace("\"/x\"", "\"/y\"").replace("e3", "e4");
    assert_eq!(text(&now, "base_state.json"), expected);
    assert_eq!(now["notes/todo.txt"], redacted["notes/todo.txt"]);
    // Only the rows that were deleted above without Annals are reported.
    let findings = store.audit().verify(None, &mut |_| ()).unwrap().findings;
    let is_history = |finding: &Finding| finding.what.contains("of the base state is gone, and change");
    assert!(!findings.is_empty() && findings.iter().all(is_history), "{findings:#?}");
    // An import of the redacted folder itself changes nothing either.
    let report = planted::import(&scratch, &store, &now);
    assert_eq!(report.status, ImportStatus::Unchanged);
}

#[test]
fn a_plan_changes_nothing_and_reports_what_would_change() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let id = plant(&scratch, &store);
    let before = (all_events(&store, &id), number(&scratch.foreign(), "PRAGMA data_version"));
    let plan = store.retention().plan_redaction(&id, matches(&canary())).unwrap();
    assert_eq!(all_events(&store, &id), before.0);
    assert_eq!(found(&store), 3);
    assert_eq!(store.audit().admin_log(annals::store::ActNumber::START, 10).unwrap(), []);
    let done = redact(&store, &id);
    assert_eq!(plan, altered!(done, { act: None, log_emptied: false }));
    assert_eq!(done.act, Some(annals::store::ActNumber(1)));
    let nothing = redact(&store, &id);
    assert_eq!((nothing.act, nothing.taken, nothing.events), (None, vec![], 0), "all is redacted already");
    assert_eq!(store.audit().admin_log(annals::store::ActNumber::START, 10).unwrap().len(), 1);
}

#[test]
fn a_single_event_is_redacted_whole_and_keeps_its_shape() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let id = plant(&scratch, &store);
    let before = all_events(&store, &id);
    let one = EventId::new("e2").unwrap();
    let report = store.retention().redact(&id, Redaction::Event(&one), "a test").unwrap();
    assert_eq!((report.events, report.attachments), (1, 0));
    let after = all_events(&store, &id);
    assert_eq!([&after[0], &after[1], &after[3]], [&before[0], &before[1], &before[3]]);
    let changed: serde_json::Value = serde_json::from_str(&after[2].payload).unwrap();
    assert_eq!(changed["observation"]["content"][0]["text"], REDACTED);
    assert_eq!(changed["observation"]["metadata"]["exit_code"], 0);
    assert_eq!((&changed["action_id"], &changed["tool_call_id"]), (&"e1".into(), &"c1".into()));
    assert_sound(&store);
    let unknown = EventId::new("e9").unwrap();
    assert_error(
        store.retention().redact(&id, Redaction::Event(&unknown), "a test"),
        &Error::UnknownEvent { conversation: id.clone(), event: "e9".into() },
    );
    assert_error(
        store.retention().redact(&conversation("nobody"), matches(&canary()), "a test"),
        &Error::UnknownConversation { conversation: "nobody".into() },
    );
}

#[test]
fn an_attached_source_file_is_redacted_too() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    // The second line is no event, so the whole file is kept as an attachment.
    let lines = format!(
        "{}\nnothing\n{}\n",
        user_message("a", CANARY).payload(),
        user_message("b", "stays").payload()
    );
    std::fs::create_dir_all(scratch.path("in")).unwrap();
    std::fs::write(scratch.path("in/talk.jsonl"), &lines).unwrap();
    let mut importer = annals::transfer::Importer::new(&store, ImportOptions::default());
    let id = importer.import(&scratch.path("in/talk.jsonl"), &mut |_| ()).unwrap().remove(0).id.unwrap();
    let report =
        store.retention().redact(&id, Redaction::Event(&EventId::new("a").unwrap()), "a test").unwrap();
    assert_eq!((report.events, report.attachments), (1, 1));
    assert_eq!(count_bytes(&scratch.database(), BEGINNING), 0);
    Exporter::new(&store, Format::OpenHands).export(&id, &scratch.path("out"), &mut |_| ()).unwrap();
    let out = std::fs::read_to_string(scratch.path("out/talk.jsonl")).unwrap();
    assert_eq!(out, lines.replace(CANARY, REDACTED));
}

#[test]
fn text_around_the_events_of_a_file_is_redacted_and_stays_redacted() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let file = |events: &[annals::NewEvent]| {
        let events: Vec<&str> = events.iter().map(|event| event.payload()).collect();
        format!("[\n  {}\n]\n\n", events.join(",\n  "))
    };
    let place = scratch.path("in.json");
    let import = |text: &str| {
        std::fs::write(&place, text).unwrap();
        annals::transfer::Importer::new(&store, ImportOptions::default())
            .import(&place, &mut |_| ())
            .unwrap()
            .remove(0)
    };
    let id = import(&file(&[user_message("a", CANARY), user_message("b", "x")])).id.unwrap();
    let finder = Finder::expression("\n\n").unwrap();
    let report = store.retention().redact(&id, matches(&finder), "a test").unwrap();
    let places: Vec<_> =
        report.taken.iter().map(|place| (place.part.as_str(), place.name.as_str())).collect();
    assert_eq!(places, [("origin", "suffix")]);
    let again = import(&file(&[user_message("a", CANARY), user_message("b", "x"), user_message("c", "y")]));
    assert_eq!((again.status, again.added), (ImportStatus::Updated, 1));
    let origin = store.origin(&id).unwrap().unwrap();
    assert_eq!(origin.container.unwrap().glue.unwrap().suffix, "\n][redacted]");
}

#[test]
fn a_redacted_payload_that_is_changed_again_is_found() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let id = plant(&scratch, &store);
    redact(&store, &id);
    let db = scratch.foreign();
    let tamper = |sql: &str| {
        db.execute_batch(&format!(
            "INSERT INTO maintenance VALUES ('test'); {sql}; DELETE FROM maintenance;"
        ))
        .unwrap();
        let findings = store.audit().verify(None, &mut |_| ()).unwrap().findings;
        findings
            .into_iter()
            .map(|finding| (finding.sequence.map(|place| place.0), finding.what))
            .collect::<Vec<_>>()
    };
    let found = tamper("UPDATE event SET payload = replace(payload, '[redacted]', 'forged') WHERE id = 'e2'");
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].0, Some(2));
    assert!(found[0].1.contains("changed after it was redacted"), "{found:?}");
    tamper("UPDATE event SET payload = replace(payload, 'forged', '[redacted]') WHERE id = 'e2'");
    assert_sound(&store);
    // An event that is marked as redacted needs a receipt.
    let digest = annals::chain::Digest::of(user_message("o", "of no concern").payload().as_bytes());
    let found = tamper(&format!(
        "UPDATE event SET redacted_digest = x'{digest}', payload = replace(payload, 'of no', 'of some') WHERE id = 'o'"
    ));
    assert!(found[0].1.contains("the administrative log has no receipt"), "{found:?}");
}

#[test]
fn the_administrative_log_is_append_only_and_chained() {
    let scratch = Scratch::new();
    let options = without_projector().actor(
        annals::store::Actor::default().user("u\n1".to_owned()).host("h".to_owned()).program("test 1".into()),
    );
    let store = Store::open_with(scratch.database(), &options).unwrap();
    let id = plant(&scratch, &store);
    redact(&store, &id);
    store.retention().delete(&conversation("other")).unwrap();
    let acts = store.audit().admin_log(annals::store::ActNumber::START, 10).unwrap();
    let listed: Vec<_> =
        acts.iter().map(|act| (act.number.0, act.act.as_str(), act.conversation.as_deref())).collect();
    assert_eq!(listed, [(1, "redact", Some("planted")), (2, "delete", Some("other"))]);
    assert_eq!(acts[0].reason.as_deref(), Some("a test"));
    assert_eq!(acts[0].actor.user.as_deref(), Some("u 1"), "a line break would break the chain's format");
    assert_eq!(store.audit().receipts(annals::store::ActNumber(1)).unwrap().len() as u64, acts[0].receipts);
    let db = scratch.stranger();
    for attack in [
        "DELETE FROM admin_act",
        "UPDATE admin_act SET reason = 'none'",
        "INSERT INTO admin_act SELECT 9, at, act, conversation, reason, os_user, host, program, detail, hash, salt, receipts_digest FROM admin_act",
        "DELETE FROM admin_receipt",
        "UPDATE admin_receipt SET name = 'other'",
        "INSERT OR REPLACE INTO admin_receipt SELECT * FROM admin_receipt",
    ] {
        let error = db.execute_batch(attack).expect_err(attack).to_string();
        assert!(
            error.contains("administrative log") || error.contains("no such function"),
            "{attack}: {error}"
        );
    }
    db.execute_batch(
        "DROP TRIGGER admin_receipt_update_guard; UPDATE admin_receipt SET name = 'e9' WHERE name = 'e1'",
    )
    .unwrap();
    let findings = store.audit().verify(None, &mut |_| ()).unwrap().findings;
    let whats: Vec<&str> = findings.iter().map(|finding| finding.what.as_str()).collect();
    assert!(whats.iter().any(|what| what.contains("act 1 of the administrative log")), "{whats:?}");
    assert!(
        whats.iter().any(|what| what.contains("guard admin_receipt_update_guard is missing")),
        "{whats:?}"
    );
}

#[test]
fn an_erased_conversation_leaves_an_act_and_no_byte() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let id = plant(&scratch, &store);
    let bytes = store.conversation(&id).unwrap().payload_bytes;
    let erasure = store.retention().erase(&id, "asked for").unwrap();
    assert!(erasure.log_emptied);
    assert_eq!((erasure.events, erasure.attachments), (4, 3));
    assert_eq!(count_bytes(&scratch.database(), BEGINNING), 0);
    store.maintenance().vacuum().unwrap();
    assert_eq!(count_bytes(&scratch.database(), BEGINNING), 0);
    assert_eq!(found(&store), 0);
    assert_sound(&store);
    let act = store.audit().admin_log(annals::store::ActNumber::START, 1).unwrap().remove(0);
    assert_eq!((act.act.as_str(), act.reason.as_deref()), ("erase", Some("asked for")));
    assert_eq!((act.conversation.as_deref(), act.receipts), (Some("planted"), 0));
    assert_eq!(
        act.detail,
        r#"{"attachments":3,"events":4,"payload_bytes":2012}"#.replace("2012", &bytes.to_string())
    );
    // An import does not bring it back unless the operator accepts erased conversations.
    let report = planted::import(&scratch, &store, &planted::tree());
    assert_eq!(report.status, ImportStatus::Conflict);
    assert!(report.problems[0].problem.starts_with("it was erased here at"), "{:?}", report.problems);
    assert_error(store.conversation(&id), &Error::UnknownConversation { conversation: "planted".into() });
    let accepting = ImportOptions::default().accept_erased(true);
    let report = planted::import_with(&scratch, &store, &planted::tree(), accepting);
    assert_eq!((report.status, report.events), (ImportStatus::Partial, 4));
    assert_eq!(
        store.audit().admin_log(annals::store::ActNumber::START, 10).unwrap().last().unwrap().act,
        "accept"
    );
}

/// The place of every digest of `texts`, and of the texts themselves, in the bytes of the file.
fn traces(scratch: &Scratch, texts: &[&[u8]]) -> usize {
    let digests = texts.iter().map(|text| Digest::of(text));
    let bytes = digests.flat_map(|digest| [digest.0.to_vec(), digest.to_hex().into_bytes()]);
    let all = bytes.chain(texts.iter().map(|text| text.to_vec()));
    all.map(|bytes| count_bytes(&scratch.database(), &bytes)).sum()
}

#[test]
fn nothing_that_confirms_a_guess_is_left_of_an_erased_conversation() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let mut tree = planted::tree();
    tree.insert("John-Doe-divorce-papers.txt".into(), format!("signed {CANARY}").into_bytes());
    let id = planted::import(&scratch, &store, &tree).id.unwrap();
    store.set_title(&id, Some(&format!("about {CANARY}"))).unwrap();
    store
        .maintenance()
        .note_repair(Some(&id), &Mending::new("a-test", "the title was 4711-4711", "done"))
        .unwrap();
    let payloads: Vec<String> = all_events(&store, &id).into_iter().map(|event| event.payload).collect();
    let head = store.conversation(&id).unwrap().chain_head;
    let kept = conversation("kept");
    store.append(&kept, Expected::Any, &[user_message("k", CANARY)]).unwrap();
    redact(&store, &id);
    redact(&store, &kept);
    let title = format!("about {CANARY}");
    let guesses: Vec<&[u8]> = payloads.iter().map(String::as_bytes).chain([title.as_bytes()]).collect();
    let names: [&[u8]; 2] = [b"John-Doe-divorce", b"4711-4711"];
    let count = |bytes: &[u8]| count_bytes(&scratch.database(), bytes);
    assert!(
        traces(&scratch, &guesses) > 0 && names.iter().all(|name| count(name) > 0),
        "nothing to look for"
    );
    let acts = || store.audit().admin_log(ActNumber::START, 10).unwrap();
    let hashes = |acts: Vec<Act>| acts.into_iter().map(|act| act.hash).collect::<Vec<_>>();
    let before = hashes(acts());

    store.retention().erase(&id, "asked for").unwrap();
    store.maintenance().vacuum().unwrap();
    assert_eq!(traces(&scratch, &guesses), 0);
    assert_eq!((names.map(count), count(&head.0)), ([0, 0], 0));
    // The acts stay, each at its place in the chain. What is left of their receipts confirms nothing without the salt.
    assert_eq!(hashes(acts())[..2], before);
    assert_eq!(acts().iter().map(Act::is_blind).collect::<Vec<_>>(), [true, false, false, false]);
    let db = scratch.foreign();
    assert_eq!(
        number(&db, "SELECT count(*) FROM admin_act WHERE salt IS NOT NULL AND receipts_digest IS NOT NULL"),
        0
    );
    assert_eq!(number(&db, "SELECT sum(is_blind) FROM admin_log"), 1);
    assert_sound(&store);
    // The receipts of other conversations stay, and what is forged afterwards is found.
    assert!(!store.audit().receipts(ActNumber(2)).unwrap().is_empty());
    db.execute_batch("INSERT INTO admin_receipt VALUES (1, 0, 'title', '', NULL, NULL, NULL)").unwrap();
    let findings = store.audit().verify(None, &mut |_| ()).unwrap().findings;
    assert!(
        findings.iter().any(|finding| finding.what.contains("act 1 of the administrative log")),
        "{findings:?}"
    );
}

#[test]
fn a_copy_that_is_brought_up_to_date_loses_the_receipts_too() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let id = plant(&scratch, &store);
    redact(&store, &id);
    let copy = scratch.path("copy.db");
    store.backup().to_file(&copy).unwrap();
    store.retention().erase(&id, "asked for").unwrap();
    store.backup().to_file(&copy).unwrap();
    let copy = Store::open_with(&copy, &without_projector()).unwrap();
    assert!(copy.audit().receipts(ActNumber(1)).unwrap().is_empty());
    assert_sound(&copy);
}

#[test]
fn a_new_import_reports_redactions_before_a_deletion() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let id = plant(&scratch, &store);
    redact(&store, &id);
    store.retention().delete(&id).unwrap();
    let report = planted::import(&scratch, &store, &planted::tree());
    assert_eq!(report.status, ImportStatus::Partial);
    assert!(report.problems[0].problem.starts_with("text was taken out of it at"), "{:?}", report.problems);
}

#[test]
fn content_that_another_conversation_shares_stays_there() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let id = plant(&scratch, &store);
    folder::write(&scratch.path("in2/second"), &planted::tree());
    let options = ImportOptions::default().id(conversation("second"));
    annals::transfer::Importer::new(&store, options)
        .import(&scratch.path("in2/second"), &mut |_| ())
        .unwrap();
    let report = redact(&store, &id);
    assert_eq!(report.shared, ["data.bin", "notes/todo.txt"]);
    let mut content = Vec::new();
    store.read_attachment(&conversation("second"), "notes/todo.txt", &mut content).unwrap();
    assert_eq!(content, format!("remember {CANARY}\n").into_bytes());
    assert_sound(&store);
}

#[test]
fn a_conversation_without_forks_has_no_related_conversations() {
    let store = Store::in_memory(&without_projector()).unwrap();
    let talk = conversation("talk");
    store
        .append(
            &talk,
            Expected::Any,
            &[user_message("a", CANARY), event("b", "PauseEvent", serde_json::json!({"note": CANARY}))],
        )
        .unwrap();
    let report = redact(&store, &talk);
    assert_eq!((report.events, report.related.len(), report.log_emptied), (2, 0, true));
    assert_sound(&store);
}
