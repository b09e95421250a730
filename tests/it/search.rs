//! Full-text search: a query finds what a user expects, and nothing else.

use annals::event::Unsearchable;
use annals::store::SearchFilter;
use annals::transfer::Importer;
use annals::{Error, Expected, NewEvent, Options, Position, Sequence, Store};
use serde_json::json;

use crate::support::events::{answered, command, event, printed, user_message};
use crate::support::{Scratch, altered, assert_error, conversation, folder, without_projector};

/// Returns the ids of the events found, the newest first.
fn found(store: &Store, text: &str) -> Vec<String> {
    let hits = store.search(text, &SearchFilter::default(), 100, &mut |_| ()).unwrap();
    hits.into_iter().map(|hit| hit.event_id).collect()
}

/// Creates a store with one conversation of these events.
fn with(events: &[NewEvent]) -> Store {
    let store = Store::in_memory(&without_projector()).unwrap();
    store.append(&conversation("talk"), Expected::Any, events).unwrap();
    store
}

#[track_caller]
fn assert_found(store: &Store, queries: &[(&str, &[&str])]) {
    for (query, ids) in queries {
        assert_eq!(found(store, query), *ids, "{query}");
    }
}

#[test]
fn words_are_found_in_any_case_order_and_kind_of_event() {
    let store = with(&[
        user_message("user", "Please fix the Timeout in the scheduler."),
        answered("agent", "The timeout is set in scheduler.toml, naïve as it is."),
        command("action", "c", "grep -rn timeout src/"),
        printed("output", "action", "c", "src/scheduler.rs:12: let timeout = 30;", 0),
        event("error", "AgentErrorEvent", json!({"tool_call_id": "x", "error": "connection timeout"})),
        event("future", "SomethingNew", json!({"detail": {"text": "a timeout of the future"}})),
    ]);
    assert_found(
        &store,
        &[
            ("timeout", &["future", "error", "output", "action", "agent", "user"]),
            ("TIMEOUT scheduler", &["output", "agent", "user"]),
            ("scheduler timeout", &["output", "agent", "user"]),
            ("naive", &["agent"]),
            ("Naïve", &["agent"]),
            ("timeouts", &[]),
            ("schedule", &[]),
            ("30", &["output"]),
        ],
    );
}

#[test]
fn phrases_prefixes_and_exclusions_are_understood() {
    let store = with(&[
        user_message("a", "the build failed with an error"),
        user_message("b", "an error: failed again, and so did the build"),
        user_message("c", "building took long"),
        user_message("d", "rebuild"),
    ]);
    assert_found(
        &store,
        &[
            (r#""build failed""#, &["a"]),
            (r#""failed build""#, &[]),
            ("build*", &["c", "b", "a"]),
            ("build -again", &["a"]),
            ("failed build", &["b", "a"]),
            ("error -again -build", &[]),
            (r#"error -"build failed""#, &["b"]),
            ("buil* -error", &["c"]),
            (r#""error" "again""#, &["b"]),
        ],
    );
}

#[test]
fn words_of_scripts_without_spaces_are_found_within_a_run() {
    let store = with(&[
        user_message("ja", "設定ファイルの読み込みに失敗しました"),
        user_message("zh", "配置文件读取失败，请重试"),
        user_message("ko", "설정 파일을 읽지 못했습니다"),
        user_message("mixed", "version2の設定file"),
    ]);
    assert_found(
        &store,
        &[
            ("設定", &["mixed", "ja"]),
            ("ファイル", &["ja"]),
            ("失敗", &["ja"]),
            ("失败", &["zh"]),
            ("文件读取", &["zh"]),
            ("读取文件", &[]),
            ("파일", &["ko"]),
            ("設定 失敗", &["ja"]),
            ("設定file", &["mixed"]),
            ("file", &["mixed"]),
            ("version2", &["mixed"]),
        ],
    );
}

#[test]
fn names_of_code_are_found_whole_and_by_their_parts() {
    let store = with(&[
        user_message("rust", "call Store::append_all(&talk, append)? and then getHTTPStatus()"),
        user_message("path", "see src/store/writer.rs:120 and std::sync::Arc<Mutex<T>>"),
        user_message("cpp", "in C++ you would write operator-> here"),
        user_message("c", "in C you would not"),
        user_message("flag", "run with --no-default-features"),
        user_message("snake", "max_iterations = 500"),
        user_message("prose", "append all of the store, then get the http status; no default features"),
    ]);
    assert_found(
        &store,
        &[
            ("Store::append_all", &["rust"]),
            ("append_all", &["rust"]),
            ("append", &["prose", "rust"]),
            ("getHTTPStatus", &["rust"]),
            ("http status", &["prose", "rust"]),
            ("src/store/writer.rs", &["path"]),
            ("writer.rs:120", &["path"]),
            ("Arc<Mutex<T>>", &["path"]),
            ("C++", &["cpp"]),
            ("--no-default-features", &["flag"]),
            ("max_iterations", &["snake"]),
            ("iterations", &["snake"]),
            ("store/writer", &["path"]),
        ],
    );
}

#[test]
fn operators_of_the_index_language_are_plain_text() {
    let store = with(&[
        user_message("a", "a AND b OR NOT NEAR(c) col:val ^top {x}"),
        user_message("b", "quote \" here * there"),
    ]);
    assert_found(
        &store,
        &[
            ("AND", &["a"]),
            ("a OR b", &["a"]),
            ("NEAR(c)", &["a"]),
            ("col:val", &["a"]),
            ("^top", &["a"]),
            ("{x}", &["a"]),
            ("here *", &["b"]),
            ("'; DROP TABLE event; --", &[]),
        ],
    );
    for text in ["", "   ", "->", "\"\"", "***"] {
        let error = store.search(text, &SearchFilter::default(), 10, &mut |_| ()).unwrap_err();
        assert!(
            matches!(&error, Error::Unsearchable(Unsearchable::Empty { text: found }) if found == text),
            "{error:?}"
        );
    }
}

#[test]
fn a_hit_has_its_place_and_a_snippet() {
    let store = Store::in_memory(&without_projector()).unwrap();
    store.append(&conversation("other"), Expected::Any, &[user_message("x", "nothing")]).unwrap();
    let payload = r#"{"id":"a","kind":"MessageEvent","source":"user","timestamp":"2026-01-01T00:00:00","llm_message":{"role":"user","content":[{"type":"text","text":"find the\n  needle here"}]}}"#;
    store.append(&conversation("talk"), Expected::Any, &[NewEvent::parse(payload).unwrap()]).unwrap();
    let hits = store.search("needle", &SearchFilter::default(), 10, &mut |_| ()).unwrap();
    assert_eq!(
        hits,
        [altered!(hits[0], {
            conversation: conversation("talk"),
            sequence: Sequence(0),
            position: Position(2),
            event_id: "a".into(),
            kind: "MessageEvent".into(),
            timestamp: Some("2026-01-01T00:00:00".into()),
            snippet: "find the needle here".into(),
            marks: std::iter::once(9..15).collect(),
        })]
    );
}

#[test]
fn a_search_can_be_narrowed_and_read_page_by_page() {
    let store = Store::in_memory(&without_projector()).unwrap();
    for (talk, id) in [("one", "a"), ("two", "b"), ("one", "c"), ("two", "d")] {
        store.append(&conversation(talk), Expected::Any, &[user_message(id, "needle")]).unwrap();
    }
    store.append(&conversation("one"), Expected::Any, &[command("e", "call", "needle")]).unwrap();
    let search = |filter: SearchFilter, limit: usize| {
        let hits = store.search("needle", &filter, limit, &mut |_| ()).unwrap();
        hits.into_iter().map(|hit| hit.event_id).collect::<Vec<_>>()
    };
    let all = SearchFilter::default();
    assert_eq!(search(all.clone(), 2), ["e", "d"]);
    assert_eq!(search(all.clone().before(Position(4)), 2), ["c", "b"]);
    assert_eq!(search(all.clone().conversation(conversation("one")), 9), ["e", "c", "a"]);
    assert_eq!(search(all.clone().kinds(vec!["ActionEvent".into()]), 9), ["e"]);
    assert_eq!(search(all.clone().tool("terminal".to_owned()), 9), ["e"]);
    let unknown = all.conversation(conversation("nobody"));
    assert_error(
        store.search("needle", &unknown, 9, &mut |_| ()),
        &Error::UnknownConversation { conversation: "nobody".into() },
    );
}

#[test]
fn the_first_search_creates_the_index_and_later_events_are_added() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let talk = conversation("talk");
    let read_only = Options::default().read_only(true);
    store.append(&talk, Expected::Any, &[user_message("a", "needle")]).unwrap();
    let reader = Store::open_with(scratch.database(), &read_only).unwrap();
    let no_index = Error::NoIndex { path: scratch.database() };
    assert_error(reader.search("needle", &SearchFilter::default(), 9, &mut |_| ()), &no_index);

    assert_eq!(found(&store, "needle"), ["a"]);
    store.append(&talk, Expected::Any, &[user_message("b", "needle")]).unwrap();
    assert_eq!(found(&reader, "needle"), ["a"], "a read-only store searches only what is indexed");
    store.catch_up().unwrap();
    assert_eq!(found(&reader, "needle"), ["b", "a"]);
    store.maintenance().rebuild(&["search"], &mut |_| ()).unwrap();
    assert_eq!(found(&reader, "needle"), ["b", "a"]);
    store.retention().delete(&talk).unwrap();
    assert_eq!(found(&reader, "needle"), Vec::<String>::new());
    assert_eq!(found(&store, "needle"), Vec::<String>::new());
}

#[test]
fn hits_do_not_depend_on_the_time_of_indexing() {
    let stepwise = Store::in_memory(&without_projector()).unwrap();
    found(&stepwise, "begin");
    let at_once = Store::in_memory(&without_projector()).unwrap();
    for path in folder::goldens("conversations") {
        for store in [&stepwise, &at_once] {
            Importer::new(store, Default::default()).import(&path, &mut |_| ()).unwrap();
        }
        stepwise.catch_up().unwrap();
    }
    let mut hits = 0;
    for query in ["file", "the -file", "test*", r#""exit code""#, "error", "def", "/workspace", "python3"] {
        let both = [&stepwise, &at_once]
            .map(|store| store.search(query, &SearchFilter::default(), 1000, &mut |_| ()).unwrap());
        assert_eq!(both[0], both[1], "{query}");
        hits += both[0].len();
    }
    assert!(hits >= 50, "{hits}");
}

#[test]
fn any_number_of_words_may_be_required_or_excluded() {
    let store = with(&[
        user_message("names", "list of names"),
        user_message("files", "list the files"),
        user_message("open", "a lsof of names"),
        user_message("both", "a ls of the files"),
        user_message("neither", "nothing at all"),
    ]);
    let many = |word: &str| vec![word; 2000].join(" ");
    assert_found(
        &store,
        &[
            (&many("list"), &["files", "names"]),
            (&format!("list {}", many("names")), &["names"]),
            (&format!("list {}", many("-files")), &["names"]),
            (&format!("a {}", many("-\"the files\" ls*")), &["open"]),
        ],
    );
}
