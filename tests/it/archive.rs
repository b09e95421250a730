//! Archives: archiving changes no answer of Annals, and unarchiving restores every byte.

use std::collections::BTreeMap;

use annals::doctor::{Doctor, DoctorOptions, Trouble};
use annals::redact::Finder;
use annals::replay::{Memory, Moment, Point};
use annals::store::{ArchiveReport, ConversationFilter, Order, Redaction, SqlLimits, SqlQuery, VIEWS};
use annals::transfer::{Copier, CopyStatus, Exporter, Format, ImportStatus, Importer};
use annals::{ConversationId, Error, Expected, Sequence, Store};
use rusqlite::types::Value;

use crate::support::events::{command, printed, user_message};
use crate::support::folder::{self, Tree};
use crate::support::planted::{self, BEGINNING, CANARY, count_bytes, found, plant};
use crate::support::projected::{assert_same_rows, dump};
use crate::support::{Scratch, all_events, altered, assert_sound, conversation, number, rows};

const GOLDENS: [&str; 3] = ["conversations", "corrupt", "legacy"];

/// Imports the goldens and returns their conversations.
fn goldens(store: &Store) -> Vec<ConversationId> {
    for golden in GOLDENS {
        Importer::new(store, Default::default()).import(&folder::golden(golden), &mut |_| ()).unwrap();
    }
    ids(store)
}

fn ids(store: &Store) -> Vec<ConversationId> {
    let page = store.conversations(&ConversationFilter::default(), Order::Created, None, 1000).unwrap();
    page.conversations.into_iter().map(|one| one.id).collect()
}

/// Plants the canary in a conversation so often that the dictionary contains it.
fn plant_often(scratch: &Scratch, store: &Store) -> ConversationId {
    let id = plant(scratch, store);
    let say = |round: usize| {
        let text = format!("round {round} of the deployment; the key that it was given is {CANARY}, keep it");
        user_message(&format!("r{round}"), &text)
    };
    store.append(&id, Expected::Any, &(0..300).map(say).collect::<Vec<_>>()).unwrap();
    id
}

fn archive(store: &Store, ids: &[ConversationId]) -> ArchiveReport {
    store.retention().archive(ids, None, &mut |_| ()).unwrap()
}

fn export(scratch: &Scratch, store: &Store, ids: &[ConversationId], to: &str) -> Tree {
    for id in ids {
        Exporter::new(store, Format::OpenHands)
            .export(id, &scratch.path(to).join(id.as_str()), &mut |_| ())
            .unwrap();
    }
    folder::read(&scratch.path(to))
}

/// A view's rows, as a query returns them, without the columns about archives.
fn view(store: &Store, name: &str) -> String {
    let view = VIEWS.iter().find(|view| view.name == name).unwrap();
    let columns: Vec<&str> =
        view.columns.iter().copied().filter(|name| !["archived_at", "is_archived"].contains(name)).collect();
    let columns = columns.join(", ");
    let sql = format!("SELECT {columns} FROM {name} ORDER BY {columns}");
    let limits = SqlLimits::default().rows_max(1_000_000);
    let answer = store.query(&SqlQuery::new(&sql).limits(limits));
    let answer = answer.unwrap_or_else(|error| panic!("{name}: {error:?}"));
    assert_eq!(answer.truncated, None);
    format!("{:#?}", answer.rows)
}

/// All answers of the store, by question.
fn answers(store: &Store, ids: &[ConversationId]) -> BTreeMap<String, String> {
    let mut answers = BTreeMap::new();
    for name in
        VIEWS.iter().map(|view| view.name).filter(|name| !name.starts_with("admin_") && *name != "changes")
    {
        answers.insert(format!("view {name}"), view(store, name));
    }
    for word in ["fibonacci", "the", "error", "\"file_editor\""] {
        let hits = store.search(word, &Default::default(), 1000, &mut |_| ()).unwrap();
        answers.insert(format!("search {word}"), format!("{hits:#?}"));
    }
    let finder = Finder::secrets();
    let secrets = store.retention().scan_secrets(None, &finder, &[], &mut |_| ()).unwrap();
    answers.insert("secrets".into(), format!("{secrets:#?}"));
    for id in ids {
        let mut put = |question: &str, answer: String| answers.insert(format!("{question} {id}"), answer);
        put("events", format!("{:#?}", all_events(store, id)));
        put("transcript", format!("{:#?}", store.transcript(id, Sequence(0), 10_000).unwrap()));
        put("calls", format!("{:#?}", store.tool_calls(id, Sequence(0), 10_000).unwrap()));
        put("usage", format!("{:#?}", store.usage(Some(id)).unwrap()));
        let row = store.conversation(id).unwrap();
        put("row", format!("{:#?}", altered!(row, { archived_at: None })));
        let first = all_events(store, id).into_iter().next().map(|event| event.id);
        put("event", format!("{:#?}", first.map(|first| store.event(id, &first).unwrap())));
        let replay = Moment::new(store, id, Point::End);
        put(
            "messages",
            format!("{:#?}", replay.as_ref().map(|replay| replay.messages(Memory::Reloaded)).map_err(drop)),
        );
        let mut fed = String::new();
        let mut feed = store.follow_conversation(id, None);
        loop {
            let page = feed.next_page(500, std::time::Duration::ZERO).unwrap();
            if page.is_empty() {
                break;
            }
            fed.push_str(&format!("{page:#?}"));
        }
        put("feed", fed);
    }
    answers
}

#[track_caller]
fn assert_same_answers(after: &BTreeMap<String, String>, before: &BTreeMap<String, String>) {
    let differ = |(question, answer): &(&String, &String)| after.get(*question) != Some(*answer);
    let questions: Vec<_> = before.iter().filter(differ).map(|(question, _)| question).collect();
    assert!(questions.is_empty() && after.len() == before.len(), "the answers differ for {questions:?}");
}

#[test]
fn archived_goldens_answer_as_before_and_come_back_byte_for_byte() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let ids = goldens(&store);
    assert!(ids.len() > 30, "{}", ids.len());
    let (before, exported) = (answers(&store, &ids), export(&scratch, &store, &ids, "before"));
    let tables = dump(&scratch.foreign());
    let log =
        "SELECT position, conversation, sequence, id, payload, hash, redacted_digest FROM event ORDER BY 1";
    let events = rows(&scratch.foreign(), log);

    let report = archive(&store, &ids);
    assert_eq!(report.events as usize, events.len());
    assert!(report.conversations as usize <= ids.len() && report.dictionary_bytes > 0, "{report:?}");
    assert!(report.stored_bytes + report.dictionary_bytes < report.payload_bytes / 3, "{report:?}");
    let db = scratch.foreign();
    let stubs = number(&db, r#"SELECT count(*) FROM event WHERE payload = '{"annals":"archived"}'"#);
    assert_eq!(stubs as usize, events.len());
    assert_same_answers(&answers(&store, &ids), &before);
    folder::assert_same(&export(&scratch, &store, &ids, "archived"), &exported);
    assert_sound(&store);
    assert_eq!(store.audit().verify_projections(&mut |_| ()).unwrap().findings, []);
    store
        .maintenance()
        .rebuild(&["transcript", "tool_calls", "usage", "tasks", "search"], &mut |_| ())
        .unwrap();
    assert_same_rows(&dump(&db), &tables);
    assert_same_answers(&answers(&store, &ids), &before);
    for golden in GOLDENS {
        let reports =
            Importer::new(&store, Default::default()).import(&folder::golden(golden), &mut |_| ()).unwrap();
        assert!(reports.iter().all(|report| report.added == 0), "{reports:#?}");
    }
    assert_eq!(archive(&store, &ids), ArchiveReport::default());

    for id in &ids {
        store.retention().unarchive(id, None).unwrap();
        assert!(!store.retention().is_archived(id).unwrap());
    }
    assert_eq!(rows(&db, log), events);
    for table in ["archived_payload", "archived_conversation", "archive_dictionary", "archive_source"] {
        assert_eq!(number(&db, &format!("SELECT count(*) FROM {table}")), 0, "{table}");
    }
    assert_same_rows(&dump(&db), &tables);
    assert_same_answers(&answers(&store, &ids), &before);
    assert_sound(&store);
}

#[test]
fn an_archived_conversation_can_continue_and_be_archived_again() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let talk = conversation("talk");
    let first =
        [user_message("a", "begin"), command("b", "c1", "ls -l"), printed("c", "b", "c1", "total 0", 0)];
    store.append(&talk, Expected::Empty, &first).unwrap();
    let report = archive(&store, std::slice::from_ref(&talk));
    assert_eq!((report.conversations, report.events, report.dictionary_bytes), (1, 3, 0));

    // A retry of archived events is recognized. Another payload with the same id is rejected.
    let places = store.append(&talk, Expected::Any, &first).unwrap();
    assert!(places.iter().all(|place| place.known));
    assert!(matches!(
        store.append(&talk, Expected::Any, &[user_message("a", "begin otherwise")]).unwrap_err(),
        Error::DuplicateEvent { .. }
    ));
    let more = [command("d", "c2", "pwd"), printed("e", "d", "c2", "/x", 0)];
    assert_eq!(store.append(&talk, Expected::Exact(3), &more).unwrap()[0].sequence, Sequence(3));
    assert!(store.retention().is_archived(&talk).unwrap());
    let payloads = |store: &Store| -> Vec<String> {
        all_events(store, &talk).into_iter().map(|event| event.payload).collect()
    };
    let expected: Vec<&str> = first.iter().chain(&more).map(annals::NewEvent::payload).collect();
    assert_eq!(payloads(&store), expected);
    let db = scratch.foreign();
    assert_eq!(number(&db, "SELECT count(*) FROM events WHERE is_archived"), 3);
    assert_eq!(archive(&store, std::slice::from_ref(&talk)).events, 2);
    assert_eq!(number(&db, "SELECT count(*) FROM events WHERE is_archived"), 5);
    assert_eq!(payloads(&store), expected);
    let commands: Vec<_> = store.tool_calls(&talk, Sequence(0), 10).unwrap();
    assert_eq!(commands[1].command.as_deref(), Some("pwd"));
    assert_sound(&store);
    assert_eq!(store.retention().unarchive(&talk, Some("wanted")).unwrap(), 5);
    assert_eq!(store.retention().unarchive(&talk, None).unwrap(), 0);
    assert_eq!(payloads(&store), expected);
    let acts: Vec<String> = store
        .audit()
        .admin_log(annals::store::ActNumber::START, 10)
        .unwrap()
        .into_iter()
        .map(|act| act.act)
        .collect();
    assert_eq!(acts, ["archive", "archive", "unarchive"]);
}

#[test]
fn other_programs_see_stubs_and_can_read_every_view() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let ids = goldens(&store);
    archive(&store, &ids);
    let db = scratch.foreign();
    let payloads = rows(&db, "SELECT DISTINCT payload, is_archived FROM events");
    assert_eq!(payloads, [vec![Value::Text(r#"{"annals":"archived"}"#.into()), Value::Integer(1)]]);
    assert_eq!(
        number(&db, "SELECT count(*) FROM conversations WHERE archived_at IS NULL AND event_count > 0"),
        0
    );
    assert_eq!(rows(&db, "SELECT DISTINCT text FROM transcript"), [vec![Value::Text(String::new())]]);
    for view in VIEWS {
        rows(&db, &format!("SELECT * FROM {} LIMIT 1000", view.name));
    }
    // Values that have their own columns and tables are still readable.
    assert!(number(&db, "SELECT count(*) FROM tool_calls WHERE outcome = 'ok' AND path IS NOT NULL") > 0);
    assert_eq!(
        number(&db, "SELECT sum(payload_bytes) FROM events"),
        number(&db, "SELECT sum(payload_bytes) FROM conversations")
    );
}

#[test]
fn a_second_archive_uses_the_dictionary_of_the_first() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    Importer::new(&store, Default::default()).import(&folder::golden("corrupt"), &mut |_| ()).unwrap();
    let ids = ids(&store);
    let (first, second) = ids.split_at(ids.len() / 2);
    let known = archive(&store, first);
    let again = archive(&store, second);
    assert!(known.dictionary_bytes > 0 && again.events > 0);
    assert_eq!(again.dictionary_bytes, 0);
    assert_eq!(number(&scratch.foreign(), "SELECT count(*) FROM archive_dictionary"), 1);
    assert_sound(&store);
}

#[test]
fn redacted_text_does_not_stay_in_a_dictionary() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let mut ids = goldens(&store);
    let id = plant_often(&scratch, &store);
    ids.push(id.clone());
    archive(&store, &ids);
    assert!(count_bytes(&scratch.database(), BEGINNING) > 0);
    let content =
        "SELECT count(*) FROM archive_dictionary WHERE instr(content, CAST('zqcanary' AS BLOB)) > 0";
    assert_eq!(number(&scratch.foreign(), content), 1, "the dictionary does not contain the canary");

    let finder = Finder::expression(CANARY).unwrap();
    let report = store
        .retention()
        .redact(&id, Redaction::Matches { finder: &finder, values: &[], own: false }, "a test")
        .unwrap();
    assert!(report.log_emptied && report.events > 200);
    assert_eq!(count_bytes(&scratch.database(), BEGINNING), 0);
    assert_eq!(found(&store), 0);
    assert!(!store.retention().is_archived(&id).unwrap());
    let others = number(&scratch.foreign(), "SELECT count(*) FROM archived_conversation");
    assert!(others > 30 && store.retention().is_archived(&ids[0]).unwrap());
    assert_sound(&store);
}

#[test]
fn erased_and_deleted_conversations_leave_the_archive() {
    for how in ["erase", "delete"] {
        let scratch = Scratch::new();
        let store = scratch.open_without_projector();
        let mut ids = goldens(&store);
        let id = plant_often(&scratch, &store);
        ids.push(id.clone());
        let exported = export(&scratch, &store, &ids[..ids.len() - 1], "before");
        archive(&store, &ids);
        if how == "erase" {
            assert!(store.retention().erase(&id, "a test").unwrap().log_emptied);
        } else {
            store.retention().delete(&id).unwrap();
            // Only a vacuum replaces a dictionary that was trained on the deleted text, and recompresses its payloads.
            store.maintenance().vacuum().unwrap();
        }
        assert_eq!(count_bytes(&scratch.database(), BEGINNING), 0, "{how}");
        let db = scratch.foreign();
        assert_eq!(number(&db, "SELECT count(*) FROM archive_dictionary WHERE is_stale"), 0);
        let orphans =
            "SELECT count(*) FROM archived_payload WHERE position NOT IN (SELECT position FROM event)";
        assert_eq!(number(&db, orphans), 0);
        assert_eq!(number(&db, "SELECT count(*) FROM pragma_foreign_key_check"), 0);
        folder::assert_same(&export(&scratch, &store, &ids[..ids.len() - 1], "after"), &exported);
        assert_sound(&store);
    }
}

#[test]
fn a_redacted_conversation_can_be_archived_and_still_verifies() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let id = planted::import(&scratch, &store, &planted::tree()).id.unwrap();
    let finder = Finder::expression(CANARY).unwrap();
    store
        .retention()
        .redact(&id, Redaction::Matches { finder: &finder, values: &[], own: false }, "a test")
        .unwrap();
    let before = all_events(&store, &id);
    archive(&store, std::slice::from_ref(&id));
    assert_eq!(all_events(&store, &id), before);
    let seen = store.audit().verify(None, &mut |_| ()).unwrap();
    assert_eq!((seen.findings, seen.redacted), (Vec::new(), 4));
    // A second import of the source folder restores nothing.
    let report = planted::import(&scratch, &store, &planted::tree());
    assert_eq!((report.status, report.added), (ImportStatus::Unchanged, 0));
    assert_eq!(found(&store), 0);
}

#[test]
fn damage_to_an_archive_is_found_and_reported() {
    let damages = [
        ("UPDATE archived_payload SET content = x'00' WHERE position = 2", "cannot be decompressed"),
        (
            "UPDATE archived_payload SET bytes = 9223372036854775807 WHERE position = 2",
            "cannot be decompressed",
        ),
        ("UPDATE archived_payload SET bytes = bytes + 1 WHERE position = 2", "cannot be decompressed"),
        (
            "UPDATE archived_payload SET (content, bytes) = (SELECT content, bytes FROM archived_payload WHERE \
             position = 1) WHERE position = 2",
            "its hash does not follow",
        ),
        (
            "DELETE FROM archived_payload WHERE position = 2",
            "its row in the table archived_payload is missing",
        ),
        ("UPDATE archive_dictionary SET content = zeroblob(5000)", "cannot be"),
    ];
    for (damage, expected) in damages {
        let scratch = Scratch::new();
        let store = scratch.open_without_projector();
        let coding = folder::golden("conversations/coding-task");
        Importer::new(&store, Default::default()).import(&coding, &mut |_| ()).unwrap();
        archive(&store, &ids(&store));
        scratch.foreign().execute_batch(damage).unwrap();
        let findings = store.audit().verify(None, &mut |_| ()).unwrap().findings;
        assert!(findings.iter().any(|finding| finding.what.contains(expected)), "{damage}: {findings:#?}");
        if expected == "cannot be decompressed" {
            let sql = "SELECT payload FROM events WHERE position = 2";
            let query = SqlQuery::new(sql);
            let error = store.query(&query).unwrap_err();
            assert!(matches!(error, Error::Corrupt { .. }), "{error:?}");
        }
    }
}

/// Ways in which another program takes the text of an action away, if no guard stops it.
const LOSSES: [&str; 3] = [
    "DELETE FROM archived_payload WHERE position = 3",
    "DELETE FROM archived_conversation",
    "DELETE FROM archived_payload; DELETE FROM archived_conversation; DELETE FROM archive_dictionary",
];

#[test]
fn a_stub_is_never_an_answer() {
    for loss in LOSSES {
        let scratch = Scratch::new();
        let store = scratch.open_without_projector();
        let coding = folder::golden("conversations/coding-task");
        let id = Importer::new(&store, Default::default()).import(&coding, &mut |_| ()).unwrap()[0]
            .id
            .clone()
            .unwrap();
        let row = store.conversation(&id).unwrap();
        let action = all_events(&store, &id).remove(2).id;
        archive(&store, std::slice::from_ref(&id));
        scratch.foreign().execute_batch(&format!("PRAGMA foreign_keys = OFF; {loss}")).unwrap();

        let query = |sql: &str| store.query(&SqlQuery::new(sql)).map(|answer| format!("{:?}", answer.rows));
        let finder = Finder::secrets();
        let redaction = Redaction::Matches { finder: &finder, values: &[], own: false };
        let mut feed = store.follow_conversation(&id, None);
        let file = scratch.path("other.db");
        let other = Store::open_with(&file, &Default::default()).unwrap();
        let copied =
            Copier::new(&store, &other, Default::default()).copy(std::slice::from_ref(&id), &mut |_| ());
        let copied = copied.unwrap().remove(0);
        assert_eq!(copied.status, CopyStatus::Damaged, "{loss}");
        let answers: Vec<(&str, Result<String, Error>)> = vec![
            ("events", store.events(&id, &Default::default(), 100).map(|page| format!("{page:?}"))),
            ("event", store.event(&id, &action).map(|event| format!("{event:?}"))),
            ("transcript", store.transcript(&id, Sequence(0), 100).map(|lines| format!("{lines:?}"))),
            ("calls", store.tool_calls(&id, Sequence(0), 100).map(|calls| format!("{calls:?}"))),
            ("feed", feed.next_page(100, std::time::Duration::ZERO).map(|page| format!("{page:?}"))),
            ("query events", query("SELECT payload FROM events")),
            ("query transcript", query("SELECT text FROM transcript")),
            (
                "messages",
                Moment::new(&store, &id, Point::End)
                    .and_then(|then| Ok(format!("{:?}", then.messages(Memory::Reloaded)?))),
            ),
            ("unarchive", store.retention().unarchive(&id, None).map(|events| events.to_string())),
            (
                "archive",
                store
                    .retention()
                    .archive(std::slice::from_ref(&id), None, &mut |_| ())
                    .map(|report| format!("{report:?}")),
            ),
            (
                "redact",
                store.retention().redact(&id, redaction, "a test").map(|report| format!("{report:?}")),
            ),
            (
                "backup",
                store.backup().to_new_file(scratch.path("backup.db")).map(|report| format!("{report:?}")),
            ),
            (
                "export",
                Exporter::new(&store, Format::OpenHands)
                    .export(&id, &scratch.path("out"), &mut |_| ())
                    .map(|report| format!("{report:?}")),
            ),
            (
                "json lines",
                Exporter::new(&store, Format::Jsonl)
                    .export(&id, &scratch.path("out"), &mut |_| ())
                    .map(|report| format!("{report:?}")),
            ),
        ];
        for (question, answer) in answers {
            match answer {
                // Its last event is archived as far as the archive knows, so nothing was left to do.
                Ok(said) if question == "archive" && said.contains("conversations: 0, events: 0") => {}
                Err(error @ Error::Corrupt { .. }) => {
                    let said = error.to_string();
                    assert!(said.contains("archived"), "{loss}: {question}: {said}");
                }
                other => panic!("{loss}: {question}: {other:?}"),
            }
        }
        assert!(!store.audit().verify(None, &mut |_| ()).unwrap().findings.is_empty());
        // What is left of the conversation is not changed by what is lost, also not by a repair.
        let doctor = Doctor::new(&store, DoctorOptions::default());
        let seen = doctor.examine(None, &mut |_| ()).unwrap();
        let lost = seen.findings.iter().find(|finding| finding.trouble == Trouble::Unreadable);
        assert!(
            lost.is_some_and(|finding| finding.what.contains("cannot be read")),
            "{loss}: {:?}",
            seen.findings
        );
        for finding in seen.findings.iter().filter(|finding| finding.remedy.is_some()) {
            let _ = doctor.repair(finding);
        }
        let _ = store.maintenance().rebuild(&[], &mut |_| ());
        let after = store.conversation(&id).unwrap();
        assert_eq!(
            (after.title, after.updated_at, after.payload_bytes),
            (row.title, row.updated_at, row.payload_bytes)
        );
        // Privacy does not wait for what is lost.
        store.retention().erase(&id, "a test").unwrap();
    }
}

#[test]
fn no_query_can_decompress_by_itself() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    archive(&store, &goldens(&store));
    for sql in [
        "SELECT unarchived_payload(x'00', 1, NULL)",
        "SELECT content FROM archived_payload",
        "SELECT content FROM archive_dictionary",
        "SELECT * FROM temp.events",
        "SELECT * FROM sqlite_temp_schema",
    ] {
        let query = SqlQuery::new(sql);
        let error = store.query(&query).map(|answer| answer.rows.len()).unwrap_err();
        assert!(matches!(error, Error::QueryRefused { .. }), "{sql}: {error:?}");
    }
}
