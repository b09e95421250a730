//! Tests that reads which must be fast at any size of the log use an index.
//!
//! In tests every connection records the statements that it executes. The tests here check their query plans.

use std::cell::RefCell;
use std::collections::BTreeSet;

use rusqlite::Connection;
use rusqlite::trace::{TraceEvent, TraceEventCodes};

thread_local! {
    static STATEMENTS: RefCell<BTreeSet<String>> = const { RefCell::new(BTreeSet::new()) };
}

/// Makes the connection record every statement, for the thread that runs it.
pub(super) fn note(db: &Connection) {
    db.trace_v2(
        TraceEventCodes::SQLITE_TRACE_STMT,
        Some(|event| {
            if let TraceEvent::Stmt(_, sql) = event {
                STATEMENTS.with_borrow_mut(|statements| statements.insert(sql.to_owned()));
            }
        }),
    );
}

/// Returns the reading statements that `work` runs on this thread.
fn statements(work: impl FnOnce()) -> Vec<String> {
    STATEMENTS.take();
    work();
    let statements = STATEMENTS.take().into_iter();
    let reads = statements.filter(|sql| sql.starts_with("SELECT") || sql.starts_with("WITH"));
    reads.collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{
        Append, BaseStateChange, ConversationFilter, EventQuery, Leaf, Options, Order, SearchFilter, Store,
    };
    use super::*;
    use crate::error::Expected;
    use crate::event::NewEvent;
    use crate::ids::{ConversationId, EventId, Position, Sequence, Timestamp};
    use crate::state::base::FieldChange;

    fn event(id: &str) -> NewEvent {
        NewEvent::parse(format!(r#"{{"id":"{id}","kind":"PauseEvent"}}"#)).unwrap()
    }

    struct Setup {
        _folder: tempfile::TempDir,
        store: Store,
        talk: ConversationId,
        db: Connection,
    }

    fn setup() -> Setup {
        let folder = tempfile::tempdir().unwrap();
        let options = Options { follow_projections: false, ..Options::default() };
        let store = Store::open_with(folder.path().join("annals.db"), &options).unwrap();
        let talk = ConversationId::new("talk").unwrap();
        let append = Append {
            expected: Expected::Any,
            events: vec![event("a"), event("b")],
            base_state: Some(BaseStateChange {
                expected: None,
                fields: vec![FieldChange::set("a", "1").unwrap()],
            }),
            leaf: Some(Leaf::Empty),
        };
        store.append_all(&talk, append).unwrap();
        store.search("nothing", &SearchFilter::default(), 1, &mut |_| ()).unwrap();
        store.catch_up().unwrap();
        let db = Connection::open(folder.path().join("annals.db")).unwrap();
        Setup { _folder: folder, store, talk, db }
    }

    fn plan(db: &Connection, sql: &str) -> Vec<String> {
        let mut statement = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let mut rows = statement.raw_query();
        let mut steps = Vec::new();
        while let Some(row) = rows.next().unwrap() {
            steps.push(row.get(3).unwrap());
        }
        steps
    }

    /// The scans that are allowed, because they are small: parts of one event, tables of one row, and usage that is not
    /// summed yet.
    const BOUNDED_SCANS: &[&str] = &[
        "CONSTANT ROW",
        "(subquery",
        " VIRTUAL TABLE",
        "SCAN usage_stale",
        // A conversation's sub-agents.
        "SCAN below",
        "SCAN fact_stale",
        "SCAN log",
        // In `usage`: not executed for one conversation.
        "SCAN conversation USING COVERING INDEX",
    ];

    /// Asserts that `work` reads by index: it scans no whole table and sorts nothing.
    #[track_caller]
    fn assert_indexed(setup: &Setup, what: &str, work: impl FnOnce(&Store, &ConversationId)) -> Vec<String> {
        let steps = assert_found(setup, what, work);
        let sorts = steps.iter().any(|step| step.contains("TEMP B-TREE") && !step.contains("FOR LAST"));
        assert!(!sorts, "{what}: {steps:#?}");
        steps
    }

    /// Asserts that `work` reads by index: it scans no whole table.
    #[track_caller]
    fn assert_found(setup: &Setup, what: &str, work: impl FnOnce(&Store, &ConversationId)) -> Vec<String> {
        let statements = statements(|| work(&setup.store, &setup.talk));
        assert!(!statements.is_empty(), "{what}: no statement was recorded");
        let mut steps = Vec::new();
        for sql in statements.iter().filter(|sql| !sql.contains("sqlite_schema")) {
            let plan = plan(&setup.db, sql);
            for step in &plan {
                let scans = step.starts_with("SCAN ");
                let is_slow = scans && !BOUNDED_SCANS.iter().any(|known| step.contains(known));
                assert!(!is_slow, "{what}: {sql}\n{plan:#?}");
            }
            steps.extend(plan);
        }
        steps
    }

    #[test]
    fn hot_reads_are_answered_by_index() {
        let setup = setup();
        let page = |query: EventQuery| {
            move |store: &Store, talk: &ConversationId| drop(store.events(talk, &query, 100).unwrap())
        };
        let all = EventQuery::default();
        assert_indexed(&setup, "a page", page(all.clone()));
        assert_indexed(&setup, "the last page", page(EventQuery { descending: true, ..all.clone() }));
        let bounds = EventQuery { from: Some(Sequence(1)), to: Some(Sequence(9)), ..all.clone() };
        assert_indexed(&setup, "a stretch", page(bounds));
        for kinds in [vec!["PauseEvent"], vec!["ActionEvent"], vec!["PauseEvent", "ActionEvent"]] {
            let kinds = kinds.into_iter().map(str::to_owned).collect();
            assert_indexed(&setup, "a page of kinds", page(EventQuery { kinds, ..all.clone() }));
        }
        let tool = EventQuery { tool: Some("x".into()), sources: vec!["user".into()], ..all };
        assert_indexed(&setup, "a page of a tool", page(tool));
        assert_indexed(&setup, "an event", |store, talk| {
            store.event(talk, &EventId::new("a").unwrap()).unwrap();
        });
        assert_indexed(&setup, "an id", |store, talk| drop(store.resolve_event(talk, "a").unwrap()));
        assert_indexed(&setup, "a scan", |store, talk| store.scan(talk, Sequence(0), |_| Ok(true)).unwrap());
        assert_indexed(&setup, "the head", |store, _| {
            assert_eq!(store.last_position().unwrap(), Position(2))
        });
        assert_indexed(&setup, "the feed", |store, talk| {
            store.follow(Position::START).next_page(10, Duration::ZERO).unwrap();
            store.follow_conversation(talk, None).next_page(10, Duration::ZERO).unwrap();
        });
        assert_indexed(&setup, "the feed of some kinds", |store, talk| {
            store.follow(Position::START).kinds(["x"]).next_page(10, Duration::ZERO).unwrap();
            store.follow_conversation(talk, None).kinds(["x"]).next_page(10, Duration::ZERO).unwrap();
        });
        assert_indexed(&setup, "a subscription", |store, _| drop(store.subscription("mailer").unwrap()));
        assert_indexed(&setup, "a tree", |store, talk| drop(store.tree(talk).unwrap()));
        assert_indexed(&setup, "a base state", |store, talk| {
            store.base_state(talk).unwrap();
            store.base_state_at(talk, Sequence(0)).unwrap();
        });
        assert_indexed(&setup, "data beside the events", |store, talk| {
            store.attachments(talk).unwrap();
            store.read_attachment(talk, "none", &mut std::io::sink()).unwrap_err();
            store.problems(talk).unwrap();
            store.origin(talk).unwrap();
        });
    }

    #[test]
    fn reads_of_one_conversation_use_an_index() {
        let setup = setup();
        // The parts of one event's text are sorted; events are not.
        assert_found(&setup, "a transcript", |store, talk| {
            drop(store.transcript(talk, Sequence(0), 100).unwrap());
        });
        assert_indexed(&setup, "calls and tasks", |store, talk| {
            store.tool_calls(talk, Sequence(0), 100).unwrap();
            store.tasks(talk).unwrap();
        });
        // The events of one page, which are few, are sorted.
        assert_found(&setup, "correlated events", |store, talk| {
            let query = EventQuery {
                correlation_id: Some("x".into()),
                causation_id: Some("y".into()),
                kinds: vec!["PauseEvent".into()],
                ..EventQuery::default()
            };
            store.events(talk, &query, 100).unwrap();
            store.count_events(talk, &query).unwrap();
            store.correlated("x", Position::START, 100).unwrap();
            store.caused_by("x", Position::START, 100).unwrap();
        });
        // A few rows are grouped and sorted.
        assert_found(&setup, "usage", |store, talk| drop(store.usage(Some(talk)).unwrap()));
        assert_found(&setup, "usage of a family", |store, talk| {
            assert_eq!(store.usage_with_sub_agents(talk).unwrap(), None);
        });
        assert_indexed(&setup, "a reply's usage", |store, talk| {
            assert_eq!(store.usage_of_reply(talk, "none").unwrap(), None);
        });
        assert_found(&setup, "tools", |store, talk| drop(store.tool_counts(talk).unwrap()));
        assert_indexed(&setup, "history", |store, talk| {
            store.sequence_at(talk, Timestamp(0)).unwrap();
            store.last_head_move(talk, Sequence(1)).unwrap();
            store.base_state_field_at(talk, "a", Sequence(1)).unwrap();
            store.tree_until(talk, 1).unwrap();
        });
        assert_indexed(&setup, "the administrative log", |store, talk| {
            store.audit().admin_log(crate::ids::ActNumber::START, 100).unwrap();
            store.audit().receipts(crate::ids::ActNumber(1)).unwrap();
            store.retention().erased_at(talk).unwrap();
            store.retention().is_archived(talk).unwrap();
        });
        assert_indexed(&setup, "a proof", |store, talk| {
            store.audit().chain_heads(Some(talk)).unwrap();
            store.audit().hash_at(talk, Sequence(0)).unwrap();
            store.audit().links(talk, |_| Ok(())).unwrap();
        });
    }

    /// Methods whose query plans are not checked, with the reason. Most read every conversation or every event, because
    /// that is their purpose.
    const EXEMPT: &[&str] = &[
        "statistics",          // totals over everything
        "count_conversations", // by a filter of any column
        "search",              // uses the full-text index and sorts the hits
        "query",               // any statement
        "append_later",        // like `append_all`
        "verify",              // every event, and every attachment
        "verify_projections",  // everything
        "rebuild",
        "to_new_file",
        "to_file",   // everything since the last part
        "to_folder", // the same
        "restore",   // the whole file
        "delete",
        "erase",
        "redact",         // every place where an event is stored
        "plan_redaction", // the same
        "scan_secrets",   // every payload
        "archive",        // every payload of the given conversations
        "unarchive",
        "archived",        // a sum over one conversation's payloads
        "finder_with_own", // one base state
        "plan_pruning",    // by a filter of any column
        "prune",
        "breakdown", // totals over everything
        "vacuum",    // every free page
        "verify_whole",
        "check_structure", // every page
        "check_catalogue", // every event of one conversation
        "remake_catalogue",
        "bring_back",     // the same, and every event without a conversation
        "changed_guards", // the schema
        "strange_triggers",
        "foreign_tables",
        "upgrade",
        "schema_of", // the schema of a file that is not open
        "upgrade_steps",
        // These read nothing, or the same as a read above.
        "path",
        "close",
        "downgrade",
        "backup",
        "retention",
        "audit",
        "maintenance",
        "is_read_only",
        "is_in_memory",
        "damaged_logs",
        "place",
        "catch_up",
        "projections",
        "behind",
        "index_behind",
        "save_base_state",
        "set_leaf",
        "set_title",
        "set_fork",
        "set_parent",
        "attach",
        "detach",         // the files of one conversation, as `attachments`
        "put_base_state", // as `base_state`
        "mark",           // a row, by the conversation's id
        "note_repair",
        "empty_log",
        "write_log",  // the size of a file, and the system's locks
        "free_bytes", // the system
        "counts",     // of this process
        "made_again",
        "on_rebuild_progress",
        "store_id",
        "upgraded_from",
        "body",
        "new_event",
        "own_projections",     // the tables of hosts, which are few
        "drop_own_projection", // likewise
        "catch_up_own",        // in steps, by position
        "query_own",           // a statement of the host
        // One row for each such action: there are few, and they are read by number.
        "locks_are_own",    // no statement
        "was_never_filled", // one row of three tables
        "list",             // the names of the files of a folder
        "repairs",
        "unfinished",
        "changes",
        "subscriptions",
        "delete_subscription",
        "replica", // what concerns a shared log
    ];

    /// A test here checks the query plans of every public method, unless [`EXEMPT`] names it.
    #[test]
    fn every_read_is_checked_or_exempt() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store");
        let here = std::fs::read_to_string(root.join("plans.rs")).unwrap();
        let mut folders = vec![root];
        let mut names = BTreeSet::new();
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let text = std::fs::read_to_string(&path).unwrap();
                // The public methods of the store and of its groups, in each of their `impl` blocks.
                let of = ["Store", "Backup<'_>", "Retention<'_>", "Audit<'_>", "Maintenance<'_>"];
                let marks = of.map(|of| format!("\nimpl {of} {{\n"));
                for block in marks.iter().flat_map(|mark| text.split(mark.as_str()).skip(1)) {
                    let block = block.split("\n}\n").next().unwrap();
                    for (at, mark) in block.match_indices("\n    pub fn ") {
                        let name = block[at + mark.len()..].split(|c: char| !c.is_alphanumeric() && c != '_');
                        names.insert(name.into_iter().next().unwrap().to_owned());
                    }
                }
            }
        }
        for constructor in ["open", "open_with", "in_memory"] {
            assert!(names.remove(constructor), "{constructor}");
        }
        let unchecked: Vec<_> = names
            .iter()
            .filter(|name| !EXEMPT.contains(&name.as_str()) && !here.contains(&format!(".{name}(")))
            .collect();
        assert!(names.len() > 30, "{names:?}");
        assert!(unchecked.is_empty(), "no test checks the query plans of {unchecked:?}");
    }

    #[test]
    fn a_rare_kind_is_found_without_reading_the_others() {
        let setup = setup();
        let query = EventQuery { kinds: vec!["PauseEvent".into()], ..EventQuery::default() };
        let steps =
            assert_indexed(&setup, "a kind", |store, talk| drop(store.events(talk, &query, 10).unwrap()));
        assert!(steps.iter().any(|step| step.contains("event_by_rare_kind")), "{steps:#?}");
    }

    #[test]
    fn kinds_are_counted_from_an_index_alone() {
        let setup = setup();
        let query = EventQuery { kinds: vec!["PauseEvent".into()], ..EventQuery::default() };
        let statements = statements(|| {
            setup.store.count_kinds(&setup.talk).unwrap();
            setup.store.count_events(&setup.talk, &query).unwrap();
        });
        let steps: Vec<_> = statements.iter().flat_map(|sql| plan(&setup.db, sql)).collect();
        // Only the kinds are sorted.
        let events: Vec<_> = steps.iter().filter(|step| step.contains(" event ")).collect();
        assert!(!events.is_empty());
        assert!(
            events
                .iter()
                .all(|step| step.starts_with("SEARCH event USING COVERING INDEX event_by_rare_kind")),
            "{steps:#?}"
        );
    }

    #[test]
    fn the_catalogue_is_listed_in_every_order_without_sorting() {
        let setup = setup();
        for order in [Order::UpdatedDescending, Order::Updated, Order::CreatedDescending, Order::Created] {
            for after in [None, Some(&setup.talk)] {
                let statements = statements(|| {
                    setup.store.conversations(&ConversationFilter::default(), order, after, 10).unwrap();
                });
                for sql in statements {
                    let plan = plan(&setup.db, &sql);
                    // Only conversations of the same minute are sorted; there are few of them.
                    let sorts = plan.iter().any(|step| step.contains("TEMP B-TREE FOR ORDER BY"));
                    let scans =
                        plan.iter().any(|step| step.starts_with("SCAN c") && !step.contains("USING INDEX"));
                    assert!(!sorts && !scans, "{order:?} {after:?}: {sql}\n{plan:#?}");
                }
            }
        }
        assert_indexed(&setup, "one conversation", |store, talk| {
            store.find(talk).unwrap().unwrap();
            store.conversation(talk).unwrap();
            assert!(store.contains(talk).unwrap());
            store.children(talk).unwrap();
            store.events_while(talk, &EventQuery::default(), 10, |_| true).unwrap();
            assert_eq!(store.event_id(talk, Sequence(0)).unwrap(), EventId::new("a").unwrap());
            assert_eq!(store.sequence(talk, &EventId::new("a").unwrap()).unwrap(), Sequence(0));
            store.resolve("ta").unwrap();
            store.unique_beginning(talk).unwrap();
            store.facts(talk).unwrap();
        });
    }

    #[test]
    fn an_append_reads_only_by_index() {
        let setup = setup();
        assert_indexed(&setup, "an append", |store, talk| {
            let events = [
                NewEvent::parse(r#"{"id":"c","kind":"PauseEvent","parent_id":"a"}"#).unwrap(),
                event("a"), // already stored
            ];
            store.append(talk, Expected::Any, &events).unwrap();
            store.append(&ConversationId::new("new").unwrap(), Expected::Any, &[event("a")]).unwrap();
        });
    }

    /// If a step sorted the log, it would read all remaining events, and its cost would grow with the log.
    #[test]
    fn projections_read_the_log_from_their_place_without_sorting() {
        let setup = setup();
        assert_indexed(&setup, "projections that follow", |store, talk| {
            store.append(talk, Expected::Any, &[event("c")]).unwrap();
            store.catch_up().unwrap();
            store.search("nothing", &SearchFilter::default(), 1, &mut |_| ()).unwrap();
        });
    }
}
