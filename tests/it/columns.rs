//! What people ask first of a conversation is a column: where it worked, which program wrote it, which model answered,
//! who started it. What nothing says is unknown.

use annals::redact::Finder;
use annals::state::FieldChange;
use annals::store::{
    Actor, Append, BaseStateChange, ConversationFacts, ConversationFilter, Order, Redaction, SearchFilter,
};
use annals::transfer::Importer;
use annals::{Expected, Options, Store};
use rusqlite::Connection;
use rusqlite::types::Value;
use serde_json::json;

use crate::support::events::{event, user_message};
use crate::support::{Scratch, conversation, folder, number, rows};

/// The facts of a conversation as the view shows them, without its id.
type Facts = (Option<&'static str>, Option<&'static str>, Option<&'static str>, Option<&'static str>);

const GPT: Option<&str> = Some("openai/gpt-4o");
const OPUS: Option<&str> = Some("claude-opus-4-6");
const SOL: Option<&str> = Some("gpt-5.6-sol");
const ENGINE: Option<&str> = Some("/home/ada/engine");

/// What the golden files say, read by a person.
const GOLDEN: [(&str, Facts); 20] = [
    ("0d4e8a70-9d1b-4a55-8a39-5f5b2f1c7b02", (ENGINE, Some("claude-code"), OPUS, None)),
    // The folder of the base state, and not that of meta.json: both say the same.
    (
        "0ed7fb8f-2743-57ea-bd23-d7136b9f5633",
        (Some("/workspace/agent-server/project/0ed7fb8f"), Some("openhands"), GPT, None),
    ),
    ("019c2000-0000-7000-8000-00000000c0de", (ENGINE, Some("codex"), SOL, None)),
    (
        "18bb6d90-5fa2-53b0-b52f-1d697c90264d",
        (Some("/workspace/errors-and-stuck/project"), Some("openhands"), GPT, None),
    ),
    (
        "5610a708-170e-58da-bb08-33350f7cdc03",
        (Some("/workspace/coding-task/project"), Some("openhands"), GPT, None),
    ),
    // A Codex log of May 2025 names neither its folder nor its model.
    ("5973b6c0-94b8-487b-a530-2aeb6098ae0e", (None, Some("codex"), None, None)),
    ("5c0f7b52-1f0e-4b0a-9d55-0c6f4d2f1a01", (ENGINE, Some("claude-code"), OPUS, None)),
    // The model of metadata.json. Its selected_repository and its user_id are null.
    (
        "7d1a0c5e-9b6f-4f0f-8a3e-2b1c0d9e8f70",
        (None, Some("openhands-v0"), Some("anthropic/claude-3-7-sonnet-20250219"), None),
    ),
    (
        "a974c9f5-e8de-5263-bc49-55c0881c4a66",
        (Some("/workspace/confirm-reject/project"), Some("openhands"), GPT, None),
    ),
    ("agent-a17", (ENGINE, Some("claude-code"), OPUS, None)),
    ("branched", (None, Some("openai-agents"), None, None)),
    (
        "caf528f3-7c41-5bad-a968-2a27aa2ad3e5",
        (Some("/workspace/condense-rolling/project"), Some("openhands"), GPT, None),
    ),
    (
        "d69b9a0e-4397-577b-ad7a-a529806b01a6",
        (Some("/workspace/secrets-cipher/project"), Some("openhands"), GPT, None),
    ),
    (
        "d69dd086-5603-5525-a75c-e3ea0218e0aa",
        (Some("/workspace/hooks/project"), Some("openhands"), GPT, None),
    ),
    (
        "dc3e2801-a35e-5001-94a7-d105aced297a",
        (Some("/workspace/hello-two-turns/project"), Some("openhands"), GPT, None),
    ),
    (
        "e871805c-0a00-57d4-8f7c-557d01898f17",
        (Some("/workspace/fork-slice/project"), Some("openhands"), GPT, None),
    ),
    (
        "f16839ee-361b-586c-a6c1-fdb1cfd9f8b0",
        (Some("/workspace/tree-navigate/project"), Some("openhands"), GPT, None),
    ),
    ("hello-nested", (None, Some("langgraph"), None, None)),
    ("mill", (None, Some("langgraph"), SOL, None)),
    // The messages of events of V0 name the model, because no file beside them does.
    ("saved", (None, Some("openhands-v0"), Some("claude-3-7-sonnet-20250219"), None)),
];

fn import(store: &Store, name: &str) {
    Importer::new(store, Default::default()).import(&folder::golden(name), &mut |_| ()).unwrap();
}

fn with_goldens(scratch: &Scratch) -> Store {
    let store = scratch.open_without_projector();
    import(&store, "conversations");
    import(&store, "foreign");
    store.catch_up().unwrap();
    store
}

fn facts_in(db: &Connection, condition: &str) -> Vec<Vec<Value>> {
    rows(
        db,
        &format!(
            "SELECT conversation_id, workspace, source, model, started_by FROM conversations WHERE {condition} ORDER BY 1"
        ),
    )
}

fn row(id: &str, (workspace, source, model, started_by): Facts) -> Vec<Value> {
    let value = |text: Option<&str>| text.map_or(Value::Null, |text| Value::Text(text.to_owned()));
    vec![Value::Text(id.into()), value(workspace), value(source), value(model), value(started_by)]
}

/// Asserts that the projections hold what the log makes.
#[track_caller]
fn assert_made(store: &Store) {
    assert_eq!(store.audit().verify_projections(&mut |_| ()).unwrap().findings, []);
}

#[test]
fn every_format_says_what_its_files_say() {
    let scratch = Scratch::new();
    let store = with_goldens(&scratch);
    let db = scratch.foreign();
    let mut wanted: Vec<_> = GOLDEN.iter().map(|(id, facts)| row(id, *facts)).collect();
    wanted.sort_by_key(|row| format!("{:?}", row[0]));
    let mut found = facts_in(&db, "conversation_id NOT LIKE 'mill~%'");
    found.sort_by_key(|row| format!("{:?}", row[0]));
    assert_eq!(found, wanted);
    // Of models without a base state, the one with most rows of usage.
    let most = "SELECT c.conversation_id FROM conversations AS c WHERE c.source IN ('claude-code', 'codex', 'langgraph') \
         AND EXISTS (SELECT 1 FROM usage AS u WHERE u.conversation_id = c.conversation_id AND u.model <> '') \
         AND c.model IS NOT (SELECT u.model FROM usage AS u WHERE u.conversation_id = c.conversation_id AND u.model <> '' \
         GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT 1)";
    assert_eq!(rows(&db, most), Vec::<Vec<Value>>::new());
    assert_made(&store);
    store.maintenance().rebuild(&["facts"], &mut |_| ()).unwrap();
    let mut again = facts_in(&db, "conversation_id NOT LIKE 'mill~%'");
    again.sort_by_key(|row| format!("{:?}", row[0]));
    assert_eq!(again, wanted);
}

/// Whether facts are made event by event or at once, and in whatever order logs arrive, they are the same.
#[test]
fn facts_made_step_by_step_are_those_of_a_rebuild() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    for name in ["foreign/codex", "foreign/openhands-v0", "foreign/claude-code", "conversations/hooks"] {
        import(&store, name);
        store.catch_up().unwrap();
        assert_made(&store);
    }
    let talk = conversation("talk");
    let said = |model: &str, n: u32| {
        let usage = json!({"model": model, "prompt_tokens": 1});
        event(&format!("{model}{n}"), "Said", json!({"provenance": {"format": "codex", "usage": usage}}))
    };
    for (n, (model, most)) in
        [("b", "b"), ("a", "a"), ("b", "b"), ("a", "a"), ("a", "a"), ("", "a")].into_iter().enumerate()
    {
        store.append(&talk, Expected::Any, &[said(model, n as u32)]).unwrap();
        assert_eq!(store.facts(&talk).unwrap().model.as_deref(), Some(most), "{n}");
        assert_made(&store);
    }
}

#[test]
fn the_base_state_of_any_age_comes_before_the_events_and_is_followed() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let talk = conversation("talk");
    let set = |field: &str, value: &str| {
        let change = BaseStateChange::new(vec![FieldChange::set(field, value).unwrap()]);
        store.append_all(&talk, Append::new(Expected::Any, Vec::new()).base_state(Some(change))).unwrap();
        store.facts(&talk).unwrap()
    };
    let state = json!({"workspace": {"working_dir": "/of/event"}, "agent": {"llm": {"model": "of-event"}}});
    let update = event("e1", "ConversationStateUpdateEvent", json!({"key": "full_state", "value": state}));
    store.append(&talk, Expected::Empty, &[user_message("e0", "hi"), update]).unwrap();
    let facts = store.facts(&talk).unwrap();
    assert_eq!((facts.workspace.as_deref(), facts.model.as_deref()), (Some("/of/event"), Some("of-event")));
    assert_eq!((facts.source.as_deref(), facts.started_by), (Some("annals"), None));

    let model = |facts: ConversationFacts| facts.model.unwrap_or_default();
    let workspace = |facts: ConversationFacts| facts.workspace.unwrap_or_default();
    assert_eq!(workspace(set("working_dir", r#""/before/2025-11""#)), "/before/2025-11");
    let tools =
        r#"{"llm":{"model":"old"},"tools":[{"name":"BashTool","params":{"working_dir":"/of/tool"}}]}"#;
    let facts = set("agent", tools);
    assert_eq!((workspace(facts.clone()), model(facts)), ("/before/2025-11".into(), "old".into()));
    assert_eq!(workspace(set("workspace", r#"{"working_dir":"/now"}"#)), "/now");
    assert_eq!(
        model(set("agent", r#"{"kind":"ACPAgent","llm":{"model":"acp-managed"},"acp_model":"own"}"#)),
        "own"
    );
    // Without a model in the base state, its calls are counted.
    let calls = r#"{"usage_to_metrics":{"agent":{"model_name":"x","token_usages":[{"model":"y"},{},{}]}}}"#;
    assert_eq!(model(set("agent", r#"{"llm":{}}"#)), "of-event");
    set("stats", calls);
    assert_eq!(model(store.facts(&talk).unwrap()), "of-event", "what an event says comes first");
    assert_made(&store);
    let quiet = conversation("quiet");
    let change = BaseStateChange::new(vec![FieldChange::set("stats", calls).unwrap()]);
    store.append_all(&quiet, Append::new(Expected::Any, Vec::new()).base_state(Some(change))).unwrap();
    assert_eq!(store.facts(&quiet).unwrap().model.as_deref(), Some("x"));
    let more = r#"{"usage_to_metrics":{"agent":{"token_usages":[{"model":"y"}]}}}"#;
    let change = BaseStateChange::new(vec![FieldChange::set("stats", more).unwrap()]);
    store.append_all(&quiet, Append::new(Expected::Any, Vec::new()).base_state(Some(change))).unwrap();
    assert_eq!(store.facts(&quiet).unwrap().model.as_deref(), Some("y"));
    assert_made(&store);
}

#[test]
fn who_started_a_conversation_is_who_made_its_base_state_here() {
    let scratch = Scratch::new();
    let ada = Actor::default().user("ada (uid 1000)".to_owned()).host("box".to_owned());
    let options = Options::default().follow_projections(false).actor(ada);
    let store = Store::open_with(scratch.database(), &options).unwrap();
    let begun = |id: &str, field: &str, value: &str| {
        let change = BaseStateChange::new(vec![FieldChange::set(field, value).unwrap()]);
        let append = Append::new(Expected::Any, Vec::new()).base_state(Some(change));
        store.append_all(&conversation(id), append).unwrap();
    };
    begun("hers", "max_iterations", "5");
    begun("named", "user_id", "\"bob\"");
    store.append(&conversation("later"), Expected::Empty, &[user_message("e0", "hi")]).unwrap();
    begun("later", "max_iterations", "5");
    import(&store, "conversations/hooks");
    let started = |id: &str| store.facts(&store.resolve(id).unwrap()).unwrap().started_by;
    assert_eq!(started("hers").as_deref(), Some("ada"));
    assert_eq!(started("named").as_deref(), Some("bob"), "the base state says for whom");
    assert_eq!(started("later"), None, "its first event came from an unknown user");
    assert_eq!(started("d69dd086"), None, "who imports a conversation did not start it");
    assert_made(&store);
}

#[test]
fn a_list_is_narrowed_by_every_fact_and_by_all_together() {
    let scratch = Scratch::new();
    let store = with_goldens(&scratch);
    let db = scratch.foreign();
    let none = ConversationFilter::default;
    for (filter, condition) in [
        (none().workspace("/home/ada/engine".to_owned()), "workspace = '/home/ada/engine'"),
        (none().workspace("/home/ada/".to_owned()), "workspace LIKE '/home/ada/%'"),
        (none().workspace("/home/ad".to_owned()), "false"),
        (none().workspace("/".to_owned()), "workspace LIKE '/%'"),
        (none().workspace("/workspace/hooks".to_owned()), "workspace = '/workspace/hooks/project'"),
        (none().source("codex".to_owned()), "source = 'codex'"),
        (none().model("openai/gpt-4o".to_owned()), "model = 'openai/gpt-4o'"),
        (none().started_by("ada".to_owned()), "started_by = 'ada'"),
        (
            none().workspace("/home".to_owned()).source("codex".to_owned()).model("gpt-5.6-sol".to_owned()),
            "workspace LIKE '/home/%' AND source = 'codex' AND model = 'gpt-5.6-sol'",
        ),
    ] {
        let wanted = number(&db, &format!("SELECT count(*) FROM conversations WHERE {condition}"));
        assert_eq!(store.count_conversations(&filter).unwrap(), wanted.cast_unsigned(), "{condition}");
        let listed: Vec<String> = store
            .iter(&filter, Order::Created)
            .map(|row| row.unwrap().id.to_string())
            .collect::<std::collections::BTreeSet<_>>()
            .into_iter()
            .collect();
        let ids =
            rows(&db, &format!("SELECT conversation_id FROM conversations WHERE {condition} ORDER BY 1"));
        let ids: Vec<String> = ids
            .iter()
            .map(|row| if let [Value::Text(id)] = &row[..] { id.clone() } else { panic!("{row:?}") })
            .collect();
        assert_eq!(listed, ids, "{condition}");
    }
    assert!(store.count_conversations(&none().source("codex".to_owned())).unwrap() == 2);
    for (column, index) in
        [("workspace", "workspace"), ("source", "source"), ("model", "model"), ("started_by", "user")]
    {
        let sql =
            format!("EXPLAIN QUERY PLAN SELECT conversation_id FROM conversations WHERE {column} = 'x'");
        let plan = format!("{:?}", rows(&db, &sql));
        assert!(plan.contains(&format!("conversation_fact_by_{index}")), "{plan}");
    }
    let found = |filter: SearchFilter| store.search("mill", &filter, 1000, &mut |_| ()).unwrap().len() as i64;
    let hits = |condition: &str| {
        let sql = format!(
            "SELECT count(*) FROM conversations AS c JOIN transcript AS t USING (conversation_id) \
             WHERE t.text LIKE '%mill%' AND {condition}"
        );
        number(&db, &sql)
    };
    let by_source = SearchFilter::default().source("claude-code".to_owned());
    assert_eq!(found(by_source.clone()), hits("c.source = 'claude-code'"));
    assert!(found(by_source.clone()) > 1);
    let time = |text: &str| annals::Timestamp::parse(text).unwrap();
    let later = by_source.since(time("2026-02-03T09:00:08Z"));
    assert_eq!(found(later), hits("c.source = 'claude-code' AND t.timestamp >= '2026-02-03T09:00:08'"));
}

#[test]
fn what_is_redacted_or_deleted_is_in_no_column() {
    let scratch = Scratch::new();
    let store = with_goldens(&scratch);
    let db = scratch.foreign();
    let codex = store.resolve("019c2000").unwrap();
    let finder = Finder::expression("ada").unwrap();
    let matches = Redaction::Matches { finder: &finder, values: &[], own: false };
    assert!(!store.retention().redact(&codex, matches, "a name").unwrap().taken.is_empty());
    assert_eq!(store.facts(&codex).unwrap().workspace, None, "a redacted path is no workspace");
    assert_eq!(
        number(
            &db,
            "SELECT count(*) FROM conversation_clue WHERE value LIKE '%ada%' AND conversation = \
         (SELECT key FROM conversation WHERE id LIKE '019c2000%')"
        ),
        0
    );
    store.retention().delete(&codex).unwrap();
    for table in ["conversation_fact", "conversation_clue", "fact_stale"] {
        let left =
            format!("SELECT count(*) FROM {table} WHERE conversation NOT IN (SELECT key FROM conversation)");
        assert_eq!(number(&db, &left), 0, "{table}");
    }
    assert_made(&store);
}

#[cfg(feature = "cli")]
mod program {
    use super::*;
    use crate::cli::Program;

    fn with_all() -> (Program, Connection) {
        let program = Program::with_goldens();
        program.succeed(&["import", folder::golden("foreign").to_str().unwrap()]);
        let db = Connection::open(program.folder.path().join("annals.db")).unwrap();
        (program, db)
    }

    #[test]
    fn commands_select_by_the_columns() {
        let (program, db) = with_all();
        for (options, condition) in [
            (&["--workspace", "/home/ada"][..], "workspace LIKE '/home/ada/%'"),
            (
                &["--workspace", "/home/ada/engine/", "--source", "claude-code"],
                "workspace = '/home/ada/engine' AND source = 'claude-code'",
            ),
            (&["--source", "openhands"], "source = 'openhands'"),
            (&["--model", "gpt-5.6-sol"], "model = 'gpt-5.6-sol'"),
            (&["--user", "nobody"], "started_by = 'nobody'"),
        ] {
            let wanted = number(&db, &format!("SELECT count(*) FROM conversations WHERE {condition}"));
            let list = program.json(&[&["list"], options].concat());
            assert_eq!(list["total"], wanted, "{options:?}");
            assert_eq!(list["conversations"].as_array().unwrap().len() as i64, wanted, "{options:?}");
            let out = format!("out{}", options.join("").replace('/', ""));
            let exported = program.json(&[&["export", "--format", "jsonl", "--to", &out], options].concat());
            assert_eq!(exported["conversations"].as_array().unwrap().len() as i64, wanted, "{options:?}");
            let pruned = program.json(&[&["prune"], options].concat());
            assert_eq!(pruned["pruned"].as_array().unwrap().len() as i64, wanted, "{options:?}");
        }
        let one = program.json(&["list", "--source", "codex", "--model", "gpt-5.6-sol"])["conversations"][0]
            .clone();
        for (member, value) in [
            ("workspace", json!("/home/ada/engine")),
            ("source", json!("codex")),
            ("model", json!("gpt-5.6-sol")),
            ("started_by", json!(null)),
        ] {
            assert_eq!(one[member], value, "{member}");
        }
        assert_eq!(program.json(&["show", "019c2000"])["workspace"], "/home/ada/engine");
        assert!(program.succeed(&["show", "019c2000"]).contains("/home/ada/engine"));
        for by in ["workspace", "source"] {
            let shares = program.json(&["stats", "--by", by]);
            let shares = shares["rows"].as_array().unwrap().clone();
            for share in &shares {
                let name = share["name"].as_str().unwrap();
                let sql = format!(
                    "SELECT count(*) || ' ' || sum(event_count) || ' ' || sum(payload_bytes) FROM conversations \
                     WHERE coalesce({by}, '') = '{name}'"
                );
                let wanted = rows(&db, &sql);
                let found =
                    format!("{} {} {}", share["conversations"], share["events"], share["payload_bytes"]);
                assert_eq!(wanted, [[Value::Text(found)]], "{name}");
            }
            let groups =
                number(&db, &format!("SELECT count(DISTINCT coalesce({by}, '')) FROM conversations"));
            assert_eq!(shares.len() as i64, groups);
        }
    }

    #[test]
    fn reports_are_narrowed_by_the_workspace() {
        let (program, db) = with_all();
        for (report, table) in [("commands", "commands"), ("network", "tool_calls"), ("files", "tool_calls")]
        {
            let at = |folder: &str| {
                program.json(&["report", report, "--workspace", folder])["rows"].as_array().unwrap().len()
                    as i64
            };
            let of = |condition: &str| {
                let what = match report {
                    "commands" => "count(*)",
                    "network" => "count(t.network)",
                    _ => "count(DISTINCT t.path || t.conversation_id)",
                };
                let sql = format!(
                    "SELECT {what} FROM {table} AS t JOIN conversations USING (conversation_id) WHERE {condition}"
                );
                number(&db, &sql)
            };
            assert_eq!(at("/home/ada/engine"), of("workspace = '/home/ada/engine'"), "{report}");
            assert_eq!(at("/workspace/"), of("workspace LIKE '/workspace/%'"), "{report}");
            assert_eq!(at("/work"), 0, "{report}");
        }
        let costs = program.json(&["report", "cost-by-workspace"]);
        let sum: i64 = costs["rows"].as_array().unwrap().iter().map(|row| row[2].as_i64().unwrap()).sum();
        assert_eq!(sum, number(&db, "SELECT sum(prompt_tokens) FROM usage"));
    }

    #[test]
    fn a_value_that_matches_nothing_says_which_values_there_are() {
        let (program, _) = with_all();
        for (arguments, said) in [
            (&["list", "--status", "finishd"][..], "no conversation has the status \"finishd\"; there are "),
            (
                &["list", "--source", "cursor"],
                "no conversation was written by \"cursor\"; there are openhands, ",
            ),
            (&["list", "--model", "m"], "no conversation has the model \"m\"; there are openai/gpt-4o, "),
            (
                &["list", "--user", "ada"],
                "no conversation was started by \"ada\"; no conversation has a known user",
            ),
            (&["list", "--workspace", "/none"], "no conversation worked in \"/none\"; there are "),
            (&["search", "mill", "--source", "cursor"], "no conversation was written by \"cursor\""),
        ] {
            let output = program.run(arguments);
            let errors = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(0), "{arguments:?}");
            assert!(errors.contains(said), "{arguments:?}: {errors}");
        }
        // Both values exist, and only together they match nothing.
        let errors = program.run(&["list", "--source", "codex", "--status", "stuck"]).stderr;
        assert!(!String::from_utf8_lossy(&errors).contains("there are"));
    }

    #[test]
    fn a_list_for_programs_keeps_its_first_columns_and_whole_ids() {
        let (program, _) = with_all();
        let list = program.succeed(&["list", "--source", "codex", "--model", "gpt-5.6-sol"]);
        let mut lines = list.lines();
        let headings: Vec<&str> =
            lines.next().unwrap().split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        assert_eq!(
            headings,
            [
                "ID",
                "STATUS",
                "EVENTS",
                "UPDATED (UTC)",
                "TITLE",
                "WORKSPACE",
                "SOURCE",
                "MODEL",
                "STARTED BY"
            ]
        );
        let row = lines.next().unwrap();
        assert!(row.starts_with("019c2000-0000-7000-8000-00000000c0de "), "{row}");
        for cell in ["/home/ada/engine", "codex", "gpt-5.6-sol", " -"] {
            assert!(row.contains(cell), "{row}");
        }
    }

    #[test]
    fn hits_stand_below_their_conversation_or_one_a_line() {
        let (program, db) = with_all();
        let grouped = program.succeed(&["search", "mill", "--limit", "100"]);
        let flat = program.succeed(&["search", "mill", "--limit", "100", "--flat"]);
        let json = program.json(&["search", "mill", "--limit", "100"]);
        let hits = json["hits"].as_array().unwrap();
        assert_eq!(flat.lines().count(), hits.len());
        let conversations: std::collections::BTreeSet<&str> =
            hits.iter().map(|hit| hit["conversation"].as_str().unwrap()).collect();
        let headings = grouped.lines().filter(|line| !line.is_empty() && !line.starts_with(' ')).count();
        assert_eq!(headings, conversations.len());
        for (line, hit) in flat.lines().zip(hits) {
            let id = hit["conversation"].as_str().unwrap();
            assert!(
                line.starts_with(&format!("{id} {} {}", hit["sequence"], hit["kind"].as_str().unwrap())),
                "{line}"
            );
            let sql =
                format!("SELECT title, workspace, model FROM conversations WHERE conversation_id = '{id}'");
            let text = |value: &serde_json::Value| {
                value.as_str().map_or(Value::Null, |text| Value::Text(text.into()))
            };
            let told = vec![text(&hit["title"]), text(&hit["workspace"]), text(&hit["model"])];
            assert_eq!(rows(&db, &sql), [told], "{id}");
        }
    }
}
