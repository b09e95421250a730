//! The commands that run agents, with a model server that speaks OpenAI's wire format.
#![cfg(all(feature = "cli", feature = "agent", unix))]

use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::cli::Program;
use crate::support::model_server::{Answer, ModelServer};

const KEY: &str = "sk-not-to-be-seen";

/// The program, a model server and a folder to work in.
struct Desk {
    program: Program,
    server: ModelServer,
}

impl Desk {
    fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        let desk = Self { program: Program::new(), server: ModelServer::start(answers) };
        std::fs::create_dir(desk.program.folder.path().join("work")).unwrap();
        desk
    }

    /// A command of the program. Its environment has only `PATH`, `HOME`, and the model's address and key.
    fn command(&self, arguments: &[&str]) -> Command {
        let folder = self.program.folder.path();
        let mut command = Command::new(env!("CARGO_BIN_EXE_annals"));
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", folder.join("home"));
        command.env("LLM_API_KEY", KEY).env("LLM_BASE_URL", format!("{}/v1", self.server.url()));
        command.current_dir(folder).args(arguments).stdin(Stdio::null());
        command
    }

    fn output(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Runs a command. Returns its exit code, standard output and standard error.
    fn result(&self, arguments: &[&str]) -> (i32, String, String) {
        decoded(&self.output(arguments))
    }

    /// The standard output of a command that exits with 0.
    #[track_caller]
    fn done(&self, arguments: &[&str]) -> String {
        let (code, out, errors) = self.result(arguments);
        assert_eq!(code, 0, "{arguments:?}: {out}{errors}");
        out
    }

    fn run(&self, more: &[&str]) -> (i32, String, String) {
        self.result(&[&["run", "Go", "--workspace", "work", "--model", "openai/m"], more].concat())
    }

    /// The id of the conversation that changed last.
    fn id(&self) -> String {
        let list: Value = serde_json::from_str(&self.done(&["--json", "list"])).unwrap();
        list["conversations"][0]["id"].as_str().unwrap().to_owned()
    }

    fn kinds(&self, id: &str) -> Vec<String> {
        let lines = self.done(&["--json", "events", id]);
        let kind =
            |line: &str| serde_json::from_str::<Value>(line).unwrap()["kind"].as_str().unwrap().to_owned();
        lines.lines().map(kind).collect()
    }
}

fn decoded(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

fn shell(id: &str, command: &str, risk: &str) -> Answer {
    let arguments = json!({ "command": command, "security_risk": risk, "summary": "do it" }).to_string();
    Answer::calls("I will do it.", &[(id, "terminal", &arguments)])
}

#[test]
fn a_run_prints_its_events_its_cost_and_how_to_continue() {
    let desk =
        Desk::new([shell("c1", "echo made > made.txt; cat made.txt", "LOW"), Answer::text("All done.")]);
    let (code, out, errors) = desk.run(&["--tag", "team=core"]);
    assert_eq!((code, errors.as_str()), (0, ""));
    for words in ["Message from User", "Go", "I will do it.", "$ echo made > made.txt", "exit 0", "All done."]
    {
        assert!(out.contains(words), "{words}: {out}");
    }
    let id = desk.id();
    assert!(out.contains("finished · 2 model calls · 20 tokens in, 4 out · cost unknown · "), "{out}");
    assert!(out.ends_with(&format!("go on with: annals resume {id} 'and now ..'\n")), "{out}");
    assert!(desk.program.folder.path().join("work/made.txt").exists());
    assert_eq!(desk.server.seen()[0].header("authorization"), Some(&*format!("Bearer {KEY}")));
    assert!(desk.done(&["list", "--tag", "team=core"]).contains(&id));
    // No file contains the key.
    for name in ["annals.db", "annals.db-wal"] {
        let bytes = std::fs::read(desk.program.folder.path().join(name)).unwrap_or_default();
        assert!(!bytes.windows(KEY.len()).any(|window| window == KEY.as_bytes()), "{name}");
    }
}

#[test]
fn the_json_output_of_a_run_is_one_value_per_line() {
    let desk = Desk::new([Answer::text("Hello.")]);
    let out = desk.done(&["--json", "run", "Hi", "-m", "openai/m", "-w", "work"]);
    let lines: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["conversation"], desk.id());
    let kinds: Vec<_> = lines.iter().filter_map(|line| line["event"]["kind"].as_str()).collect();
    assert_eq!(kinds, ["SystemPromptEvent", "MessageEvent", "MessageEvent"]);
    let last = lines.last().unwrap();
    assert_eq!(
        (&last["status"], &last["events"], &last["prompt_tokens"]),
        (&json!("finished"), &json!(3), &json!(10))
    );
}

#[test]
fn risky_actions_wait_if_no_person_can_be_asked() {
    let desk = Desk::new([shell("c1", "rm -rf /nowhere/at/all", "LOW"), Answer::text("As you wish.")]);
    let (code, out, _) = desk.run(&[]);
    let id = desk.id();
    assert_eq!(code, 1);
    assert!(out.contains("waiting for your consent"), "{out}");
    assert!(out.contains(&format!("annals approve {id}, or: annals reject {id}")), "{out}");
    // Resuming without a message does not execute the action.
    assert_eq!(desk.result(&["resume", &id]).0, 1);
    assert_eq!(desk.server.seen().len(), 1);
    let rejected = format!("rejected 1 action; `annals resume {id}` tells the agent and lets it go on\n");
    assert_eq!(desk.done(&["reject", &id[..8], "--reason", "not here"]), rejected);
    // If no action waits for consent, the error gives the reason and what the operator can do instead.
    let nothing_waits = |command: &str, state: &str, way_out: &str| {
        let (code, _, errors) = desk.result(&[command, &id]);
        assert_eq!(code, 1);
        let what = format!("annals: nothing waits for consent: {id} {state}\n");
        assert!(errors.contains(&format!("{what}        `annals resume {id}{way_out}\n")), "{errors}");
    };
    nothing_waits("reject", "does not run", "` continues it");
    assert!(desk.done(&["resume", &id]).contains("As you wish."));
    assert!(desk.server.seen()[1].text.contains("not here"));
    nothing_waits("reject", "has finished", " 'and now ..'` gives it more to do");
    nothing_waits("approve", "has finished", " 'and now ..'` gives it more to do");
}

#[test]
fn a_command_that_cannot_be_judged_waits_although_the_model_calls_it_harmless() {
    // The shell waits for the end of the text. What it would run is not known.
    let desk = Desk::new([shell("c1", "echo 'one", "LOW")]);
    let (code, out, _) = desk.run(&[]);
    assert_eq!(code, 1);
    assert!(out.contains("waiting for your consent"), "{out}");
}

#[test]
fn a_resumed_conversation_gets_the_analyzer_of_its_new_policy() {
    let desk = Desk::new([
        Answer::text("Hello."),
        shell("c1", "echo yes > yes.txt", "LOW"),
        shell("c2", "echo 'one", "LOW"),
    ]);
    assert_eq!(desk.run(&["--confirm", "never"]).0, 0);
    let (code, out, _) = desk.result(&["resume", &desk.id(), "Go on", "--confirm", "risky"]);
    assert_eq!(code, 1);
    assert!(out.contains("waiting for your consent"), "{out}");
    // The harmless action was executed. The one that cannot be judged waits.
    assert!(desk.program.folder.path().join("work/yes.txt").exists(), "{out}");
    assert_eq!(desk.server.seen().len(), 3);
}

#[test]
fn consent_executes_the_waiting_action() {
    let desk = Desk::new([shell("c1", "echo yes > yes.txt", "LOW"), Answer::text("Done.")]);
    assert_eq!(desk.run(&["--confirm", "always"]).0, 1);
    let file = desk.program.folder.path().join("work/yes.txt");
    assert!(!file.exists());
    assert!(desk.done(&["approve", &desk.id()]).contains("Done."));
    assert!(file.exists());
}

#[test]
fn a_message_to_an_idle_conversation_reaches_the_model_on_resume() {
    let desk = Desk::new([Answer::text("One."), Answer::text("Two."), Answer::text("Three.")]);
    desk.run(&[]);
    let id = desk.id();
    assert_eq!(
        desk.done(&["send", &id, "and then?"]),
        format!("sent; `annals resume {id}` runs the agent\n")
    );
    assert!(desk.done(&["resume", &id]).contains("Two."));
    assert!(desk.server.seen()[1].text.contains("and then?"));
    assert!(desk.done(&["resume", &id, "go on"]).contains("Three."));
    assert_eq!(desk.kinds(&id).iter().filter(|kind| *kind == "MessageEvent").count(), 6);
}

#[test]
fn a_question_adds_no_event_only_its_cost() {
    let desk = Desk::new([Answer::text("One."), Answer::text("Because.")]);
    desk.run(&[]);
    let id = desk.id();
    let before = desk.kinds(&id);
    assert_eq!(desk.done(&["ask", &id, "why?"]), "Because.\n");
    assert_eq!(desk.kinds(&id), before);
    assert!(desk.done(&["show", &id]).contains("ask-agent-llm"));
}

#[test]
fn a_fork_is_independent_after_the_named_event() {
    let desk = Desk::new([Answer::text("One."), Answer::text("Another."), Answer::text("More.")]);
    desk.run(&[]);
    let id = desk.id();
    let fork = desk.done(&["fork", &id, "--from", "1"]);
    let fork = fork.lines().next().unwrap().to_owned();
    assert_eq!(desk.kinds(&fork), ["SystemPromptEvent", "MessageEvent"]);
    assert!(desk.done(&["resume", &fork]).contains("Another."));
    assert_eq!(desk.kinds(&id).len(), 3);
    let (code, _, errors) = desk.result(&["fork", &id, "--from", "77"]);
    assert_eq!(code, 1);
    assert!(errors.contains("has no event 77"), "{errors}");
    assert!(desk.done(&["--json", "fork", &id, "--keep-cost"]).contains("\"events\":3"));
}

#[tokio::test]
async fn a_run_of_another_process_gets_messages_and_is_paused_but_never_run_twice() {
    let answer = shell("c1", "echo never", "LOW").held();
    let desk = Desk::new([answer, Answer::text("Done.")]);
    let run = ["run", "Go", "--workspace", "work", "--model", "openai/m"];
    let child = desk.command(&run).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    desk.server.arrived(1).await;
    let id = desk.id();
    let (code, _, errors) = desk.result(&["resume", &id]);
    assert_eq!(code, 1);
    assert!(errors.contains("is running already") && errors.contains("annals pause"), "{errors}");
    assert!(desk.done(&["send", &id, "by the way"]).contains("the running agent receives it"));
    assert_eq!(desk.done(&["pause", &id]), "paused\n");
    desk.server.release();
    let (code, out, _) = decoded(&child.wait_with_output().unwrap());
    assert_eq!(code, 1);
    assert!(out.contains("by the way") && out.contains("\npaused · 1 model call"), "{out}");
    // The action that the model requested meanwhile is executed once, after the resume.
    assert_eq!(desk.kinds(&id).iter().filter(|kind| *kind == "ObservationEvent").count(), 0);
    assert!(desk.done(&["resume", &id]).contains("Done."));
    assert_eq!(desk.kinds(&id).iter().filter(|kind| *kind == "ObservationEvent").count(), 1);
}

#[tokio::test]
async fn a_killed_run_is_resumed_and_reports_the_interrupted_tool() {
    let desk = Desk::new([shell("c1", "echo once >> log; sleep 600", "LOW"), Answer::text("I see.")]);
    let run = ["run", "Go", "--workspace", "work", "--model", "openai/m"];
    let mut child = desk.command(&run).stdout(Stdio::null()).spawn().unwrap();
    let log = desk.program.folder.path().join("work/log");
    // The file is there before its text is.
    while std::fs::read_to_string(&log).ok().as_deref() != Some("once\n") {
        tokio::task::yield_now().await;
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let out = desk.done(&["resume", &desk.id()]);
    assert!(out.contains("A restart occurred while this tool was in progress"), "{out}");
    assert!(out.contains("I see."), "{out}");
    assert_eq!(std::fs::read_to_string(log).unwrap(), "once\n");
}

#[test]
fn every_setting_is_shown_with_its_source() {
    let desk = Desk::new([]);
    let folder = desk.program.folder.path().join("home/.config/annals");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(
        folder.join("config.toml"),
        "model = 'file/model'\nmax_budget = 2.5\nconfirm = 'always'\n",
    )
    .unwrap();
    let mut command = desk.command(&["--json", "config", "--confirm", "never"]);
    let out = decoded(
        &command.env("ANNALS_MODEL", "environment/model").env("ANNALS_MAX_ITERATIONS", "7").output().unwrap(),
    )
    .1;
    let found: Value = serde_json::from_str(&out).unwrap();
    let setting = |name: &str| found["settings"][name].clone();
    assert_eq!(
        setting("model"),
        json!({ "value": "environment/model", "from": "environment, ANNALS_MODEL" })
    );
    assert_eq!(setting("max_iterations")["value"], "7");
    assert_eq!(setting("max_budget"), json!({ "value": "2.5", "from": found["file"] }));
    assert_eq!(setting("confirm"), json!({ "value": "never", "from": "command line" }));
    assert_eq!(setting("condense_at"), json!({ "value": "240", "from": "default" }));
    assert_eq!(setting("profile"), json!({ "value": null, "from": "not set" }));
    assert_eq!(setting("api_key"), json!({ "value": "**********", "from": "environment, LLM_API_KEY" }));
    std::fs::write(folder.join("config.toml"), "modle = 'x'\n").unwrap();
    let (code, _, errors) = desk.result(&["config"]);
    assert_eq!(code, 1);
    assert!(errors.contains("modle") && errors.contains("config.toml"), "{errors}");
}

#[test]
fn a_profile_names_a_model_and_typed_options_take_precedence() {
    let desk = Desk::new([Answer::text("One."), Answer::text("Two.")]);
    desk.done(&["profiles", "--save", "fast", "--model", "openai/quick", "--with-key"]);
    let mut run = desk.command(&["run", "Go", "-w", "work", "--profile", "fast"]);
    let (code, out, errors) =
        decoded(&run.env_remove("LLM_API_KEY").env_remove("LLM_BASE_URL").output().unwrap());
    assert_eq!(code, 0, "{out}{errors}");
    desk.done(&["run", "Go", "-w", "work", "--profile", "fast", "--model", "openai/other"]);
    let models: Vec<_> = desk.server.seen().iter().map(|seen| seen.body["model"].clone()).collect();
    assert_eq!(models, ["quick", "other"]);
    assert_eq!(desk.server.seen()[0].header("authorization"), Some(&*format!("Bearer {KEY}")));
    assert!(desk.done(&["profiles"]).contains("fast"));
    desk.done(&["profiles", "--remove", "fast"]);
    let (code, _, errors) = desk.result(&["run", "Go", "--profile", "fast"]);
    assert_eq!(code, 1);
    assert!(errors.contains("fast"), "{errors}");
}

#[test]
fn no_run_begins_without_a_model() {
    let desk = Desk::new([]);
    let (code, _, errors) = desk.result(&["run", "Go"]);
    assert_eq!(code, 1);
    assert!(errors.contains("which model is to be asked?") && errors.contains("--model"), "{errors}");
    let (code, _, errors) = desk.result(&["resume", "1234"]);
    assert_eq!(code, 1);
    assert!(errors.contains("there is no"), "{errors}");
}

/// A model that nothing answers for.
const NOWHERE: [&str; 6] = ["run", "Go", "--model", "openai/m", "--base-url", "http://127.0.0.1:1/v1"];

#[test]
fn a_new_database_in_the_folder_of_the_agent_is_reported_once() {
    let desk = Desk::new([Answer::text("Hello"), Answer::text("Hello"), Answer::text("Hello")]);
    let warns = |more: &[&str]| {
        let (code, out, errors) = desk.result(&[&["run", "Go", "--model", "openai/m"], more].concat());
        assert_eq!(code, 0, "{out}{errors}");
        errors.contains("the new database annals.db is in the folder where agents work")
    };
    assert!(warns(&[]));
    assert!(!warns(&[]));
    // A file beside the folder is out of the way of most commands.
    assert!(!warns(&["--db", "other.db", "--workspace", "work"]));
}

#[test]
fn no_conversation_is_stored_for_a_model_that_cannot_be_asked() {
    let desk = Desk::new([]);
    let refused = |model: &str, words: &[&str]| {
        let mut command = desk.command(&["run", "Go", "--model", model]);
        command.env_remove("LLM_API_KEY").env_remove("LLM_BASE_URL");
        let (code, out, errors) = decoded(&command.output().unwrap());
        assert_eq!((code, &*out), (1, ""), "{errors}");
        for word in words {
            assert!(errors.contains(word), "{word}: {errors}");
        }
    };
    refused(
        "anthropic/claude-sonnet-4-5",
        &["no API key for anthropic", "set ANTHROPIC_API_KEY or LLM_API_KEY"],
    );
    refused("claude-sonnet-4-5", &["no API key for anthropic", "set ANTHROPIC_API_KEY or LLM_API_KEY"]);
    let mut command = desk.command(&["run", "Go", "--model", "foo"]);
    let (code, _, errors) = decoded(&command.env_remove("LLM_BASE_URL").output().unwrap());
    assert!(code != 0 && errors.contains("names no provider"), "{errors}");
    let list: Value = serde_json::from_str(&desk.done(&["--json", "list"])).unwrap();
    assert_eq!(list["conversations"], json!([]));
}

#[test]
fn a_failed_call_is_reported_at_once_and_a_signal_ends_the_wait() {
    let desk = Desk::new([]);
    for (json, signal) in [(true, rustix::process::Signal::TERM), (false, rustix::process::Signal::INT)] {
        let mut command = desk.command(if json { &["--json"] } else { &[] });
        let mut child = command.args(NOWHERE).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines: Box<dyn std::io::Read> = match json {
            true => Box::new(child.stdout.take().unwrap()),
            false => Box::new(child.stderr.take().unwrap()),
        };
        let mut lines = std::io::BufRead::lines(std::io::BufReader::new(lines)).map(Result::unwrap);
        // The first wait takes eight seconds, and all of them two minutes.
        if json {
            let retry = lines.find(|line| line.starts_with("{\"retry\":")).expect("a line");
            let retry: Value = serde_json::from_str(&retry).unwrap();
            assert_eq!(retry["retry"]["attempt"], 2);
            assert_eq!((&retry["retry"]["of"], &retry["retry"]["wait_seconds"]), (&json!(5), &json!(8.0)));
            assert!(retry["retry"]["error"].as_str().unwrap().contains("cannot be reached"), "{retry}");
        } else {
            let line = lines.next().expect("a line");
            assert!(line.contains("cannot be reached") && line.ends_with("; try 2 of 5 in 8 s"), "{line}");
        }
        let process = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(process, signal).unwrap();
        // It does not wait for the second try.
        let rest: Vec<String> = lines.collect();
        assert_eq!(child.wait().unwrap().code(), Some(1), "{rest:?}");
        assert!(
            !rest.iter().any(|line| line.contains("\"attempt\":3") || line.contains("try 3")),
            "{rest:?}"
        );
        let list: Value = serde_json::from_str(&desk.done(&["--json", "list"])).unwrap();
        assert_eq!(list["conversations"][0]["status"], "paused");
    }
}

#[test]
fn a_secret_is_given_to_commands_that_name_it_and_never_shown() {
    let desk = Desk::new([
        Answer::text("One."),
        shell("c1", "echo \"$DEPLOY_TOKEN\" | tr a-z A-Z; echo $DEPLOY_TOKEN", "LOW"),
        Answer::text("Two."),
    ]);
    desk.run(&[]);
    let id = desk.id();
    let with = |arguments: &[&str], key: bool| {
        let mut command = desk.command(arguments);
        command.env("DEPLOY_TOKEN", "hush-hush-hush");
        if key {
            command.env("OH_SECRET_KEY", "a long random text");
        }
        decoded(&command.output().unwrap())
    };
    let (code, _, errors) = with(&["secrets", &id, "--set", "DEPLOY_TOKEN"], false);
    assert_eq!(code, 1);
    assert!(errors.contains("OH_SECRET_KEY"), "{errors}");
    assert!(with(&["secrets", &id, "--set", "DEPLOY_TOKEN"], true).1.contains("DEPLOY_TOKEN"));
    let (code, out, _) = with(&["resume", &id, "deploy"], true);
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("HUSH-HUSH-HUSH") && out.contains("<secret-hidden>"), "{out}");
    assert!(!out.contains("hush-hush-hush"), "{out}");
    assert!(with(&["secrets", &id, "--remove", "DEPLOY_TOKEN"], true).1.contains("it has no secrets"));
    assert_eq!(with(&["secrets", &id, "--remove", "DEPLOY_TOKEN"], true).0, 1);
}

#[test]
fn a_rejected_key_fails_the_run_with_a_hint() {
    let desk = Desk::new([Answer::error(401, "no such key")]);
    let (code, out, _) = desk.run(&[]);
    assert_eq!(code, 2);
    assert!(
        out.contains("Your LLM API key appears to be invalid") && out.contains("failed · 0 model calls"),
        "{out}"
    );
    assert!(out.contains("annals resume"), "{out}");
}

#[test]
fn a_persons_files_and_plugins_add_to_an_agent_unless_excluded() {
    let desk = Desk::new([Answer::text("One."), Answer::text("Two."), Answer::text("Three.")]);
    let folder = desk.program.folder.path();
    let hook = |word: &str| {
        json!({"session_start": [{"hooks": [{"command": format!("echo {word} >> hooks.txt")}]}]}).to_string()
    };
    for (name, content) in [
        ("home/.agents/skills/mine.md", "MY-OWN-RULE".to_owned()),
        ("home/.openhands/memory/MEMORY.md", "I-REMEMBER".to_owned()),
        ("home/.agents/plugins/own/hooks/hooks.json", hook("own")),
        ("work/AGENTS.md", "THE-PROJECTS-RULE".to_owned()),
        ("work/.agents/plugins/theirs/hooks/hooks.json", hook("theirs")),
        ("named/hooks/hooks.json", hook("named")),
    ] {
        std::fs::create_dir_all(folder.join(name).parent().unwrap()).unwrap();
        std::fs::write(folder.join(name), content).unwrap();
    }
    let ran = || std::fs::read_to_string(folder.join("work/hooks.txt")).unwrap_or_default();
    let has = |number: usize, words: &str| desk.server.seen()[number].body.to_string().contains(words);
    let plugin = ["--plugin", "./named"];
    assert_eq!(desk.run(&plugin).0, 0);
    assert_eq!(ran(), "named\nown\n");
    for words in ["MY-OWN-RULE", "I-REMEMBER", "THE-PROJECTS-RULE"] {
        assert!(has(0, words), "{words}");
    }
    assert_eq!(desk.run(&["--extras", "none"]).0, 0);
    assert_eq!(ran(), "named\nown\n");
    for words in ["MY-OWN-RULE", "I-REMEMBER", "THE-PROJECTS-RULE"] {
        assert!(!has(1, words), "{words}");
    }
    assert_eq!(desk.run(&["--extras", "all"]).0, 0);
    assert_eq!(ran(), "named\nown\nown\ntheirs\n");
    assert!(desk.done(&["config"]).contains("extras"));
    let (code, _, errors) = desk.run(&["--plugin", "./nowhere"]);
    assert!(code != 0 && errors.contains("Plugin directory not found"), "{errors}");
}
