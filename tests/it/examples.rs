//! Runs the files of `examples/` against a model server.

use std::process::Command;

use annals::ExecutionStatus::Finished;
use annals::{Sequence, Store};
use serde_json::json;

use crate::support::child::{self, Running as Child};
use crate::support::model_server::{Answer, ModelServer};
use crate::support::{Scratch, assert_sound};

/// Includes an example as a module. Its `main` is not called here.
macro_rules! example {
    ($name:ident, $path:literal) => {
        #[allow(dead_code)]
        #[path = $path]
        mod $name;
    };
}

example!(hello_agent, "../../examples/hello_agent.rs");
example!(confirmation, "../../examples/confirmation.rs");
example!(resume_after_crash, "../../examples/resume_after_crash.rs");
example!(many_agents, "../../examples/many_agents.rs");
example!(fork_and_compare, "../../examples/fork_and_compare.rs");
example!(secrets, "../../examples/secrets.rs");
example!(mcp, "../../examples/mcp.rs");
example!(remote, "../../examples/remote.rs");

fn llm(server: &ModelServer) -> String {
    let url = format!("{}/v1", server.url());
    json!({ "model": "openai/m", "api_key": "sk-test", "base_url": url, "usage_id": "agent", "num_retries": 0 })
        .to_string()
}

fn shell(id: &str, command: &str) -> Answer {
    Answer::calls("", &[(id, "terminal", &json!({ "command": command, "security_risk": "LOW" }).to_string())])
}

fn store(scratch: &Scratch) -> Store {
    Store::open(scratch.database()).unwrap()
}

#[tokio::test]
async fn hello_agent_runs_a_command_and_says_what_it_found() {
    let (scratch, server) =
        (Scratch::new(), ModelServer::start([shell("c1", "echo hi > hi.txt"), Answer::text("Hi.")]));
    let (id, status) = hello_agent::hello(&llm(&server), "Say hi", &scratch.path("")).await.unwrap();
    assert_eq!(status, Finished);
    assert!(scratch.path("hi.txt").exists());
    let store = store(&scratch);
    assert_eq!(store.conversation(&id).unwrap().event_count, 5);
    assert_sound(&store);
}

#[tokio::test]
async fn confirmation_runs_only_approved_actions() {
    let answers = [shell("c1", "echo 1 > one"), shell("c2", "echo 2 > two"), Answer::text("I see.")];
    let (scratch, server) = (Scratch::new(), ModelServer::start(answers));
    let consents = |action: &annals::event::ActionEvent| &*action.tool_call_id == "c1";
    let status = confirmation::ask_first(&llm(&server), "Go", &scratch.path(""), consents).await.unwrap();
    assert_eq!(status, Finished);
    assert!(scratch.path("one").exists() && !scratch.path("two").exists());
    assert!(server.seen()[2].text.contains("The person said no."));
}

#[tokio::test]
async fn resume_after_crash_reports_what_was_interrupted() {
    let test = "examples::resume_after_crash_reports_what_was_interrupted";
    if let Some(role) = child::role() {
        let llm = std::env::var("EXAMPLE_LLM").unwrap();
        let folder = role.database.parent().unwrap().to_owned();
        return resume_after_crash::begin(&llm, "Go", &folder, || std::process::abort()).await.unwrap();
    }
    let answers = [shell("c1", "echo never > never"), Answer::text("I see.")];
    let (scratch, server) = (Scratch::new(), ModelServer::start(answers));
    let mut command: Command = child::command(test, "begin", &scratch.database());
    command.env("EXAMPLE_LLM", llm(&server)).stderr(std::process::Stdio::null());
    assert_eq!(Child::start(command).take_lines().count(), 0);
    let (status, interrupted) = resume_after_crash::go_on(&llm(&server), &scratch.path("")).await.unwrap();
    assert_eq!((status, interrupted.len()), (Finished, 1));
    assert!(interrupted[0].contains("A restart occurred while this tool was in progress"));
    assert!(!scratch.path("never").exists());
}

#[tokio::test]
async fn many_agents_end_independently() {
    let mut answers: Vec<Answer> = (0..23).map(|_| Answer::text("It is odd, or even.")).collect();
    answers.insert(7, Answer::error(400, "no"));
    let (scratch, server) = (Scratch::new(), ModelServer::start(answers));
    let ended = many_agents::at_once(&llm(&server), 24, &scratch.path("")).await.unwrap();
    assert_eq!(ended.into_iter().collect::<Vec<_>>(), [("failed", 1), ("finished", 23)]);
    assert_sound(&store(&scratch));
}

#[tokio::test]
async fn fork_and_compare_gives_two_answers_to_one_question() {
    let (scratch, server) =
        (Scratch::new(), ModelServer::start([Answer::text("They hum."), Answer::text("O purr!")]));
    let answers =
        fork_and_compare::both(&llm(&server), ["In brief.", "In verse."], &scratch.path("")).await.unwrap();
    assert_eq!(answers, ["They hum.", "O purr!"]);
    let seen = server.seen();
    assert!(!seen[1].text.contains("In brief.") && seen[1].text.contains("In verse."));
}

#[tokio::test]
async fn secrets_reach_only_the_shell() {
    let answers = [shell("c1", "echo ${#DEPLOY_TOKEN} > length; echo $DEPLOY_TOKEN"), Answer::text("Done.")];
    let (scratch, server) = (Scratch::new(), ModelServer::start(answers));
    let id = secrets::with_a_secret(&llm(&server), "Go", &scratch.path(""), "a key", "hush-hush-hush")
        .await
        .unwrap();
    assert_eq!(std::fs::read_to_string(scratch.path("length")).unwrap(), "14\n");
    let store = store(&scratch);
    store
        .scan(&id, Sequence(0), |event| {
            assert!(!event.payload.contains("hush"), "{}", event.payload);
            Ok(true)
        })
        .unwrap();
    let state = store.base_state(&id).unwrap().unwrap();
    assert!(!state.document.as_str().contains("hush") && state.document.as_str().contains("gAAAA"));
    assert!(server.seen().iter().all(|seen| !seen.text.contains("hush")));
    assert!(server.seen()[1].text.contains("<secret-hidden>"));
}

#[tokio::test]
async fn mcp_calls_a_tool_of_a_program() {
    let test = "examples::mcp_calls_a_tool_of_a_program";
    if child::role().is_some() {
        // The test harness has begun a line. The MCP messages must start on a new line.
        println!();
        mcp::serve().await.unwrap();
        std::process::exit(0);
    }
    let call = ("c1", "count_words", r#"{"text":"to be or not to be"}"#);
    let (scratch, server) =
        (Scratch::new(), ModelServer::start([Answer::calls("", &[call]), Answer::text("Six.")]));
    let program = json!({ "words": {
        "command": std::env::current_exe().unwrap(),
        "args": [test, "--exact", "--nocapture", "--test-threads=1"],
        "env": { "ANNALS_TEST_ROLE": "serve", "ANNALS_TEST_DATABASE": "none" },
    }});
    let (id, status) = mcp::with_servers(&llm(&server), "Count", &program, &scratch.path("")).await.unwrap();
    assert_eq!(status, Finished);
    assert!(server.seen()[1].text.contains("[Tool 'count_words' executed.]"));
    let events = crate::support::all_events(&store(&scratch), &id);
    assert!(events.iter().any(|event| event.payload.contains(r#""text":"6""#)), "{events:?}");
}

#[cfg(feature = "server")]
#[tokio::test(flavor = "multi_thread")]
async fn remote_runs_at_a_server_and_keeps_a_copy() {
    let (far, model) =
        (Scratch::new(), ModelServer::start([shell("c1", "echo hi > hi.txt"), Answer::text("Hi.")]));
    let there = far.open();
    let served = crate::support::served::Served::start(&there).await;
    let address = annals::remote::Server::new(&served.url).unwrap();
    let address = address.working_dir(far.path("work").to_string_lossy());
    let here = Scratch::new();
    let (id, status) = remote::watched(&llm(&model), "Say hi", address, &here.path("")).await.unwrap();
    assert_eq!(status, Finished);
    assert!(far.path("work/hi.txt").exists());
    let (copy, log) = (store(&here), crate::support::all_events(&there, &id));
    let payloads = |events: &[annals::store::StoredEvent]| -> Vec<String> {
        events.iter().map(|event| event.payload.clone()).collect()
    };
    assert_eq!(payloads(&crate::support::all_events(&copy, &id)), payloads(&log));
    assert_sound(&copy);
    served.end().await;
}
