//! The plugins of a conversation: what they contribute, what the state stores about them, and how they are resumed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use annals::ExecutionStatus::Finished;
use annals::conversation::{Builder, ConversationError};
use annals::event::{Content, Event, Json, Observation};
use annals::hook;
use annals::llm::scripted::Line;
use annals::llm::{LlmError, Model};
use annals::plugin::{AmbientPlugins, PluginError, PluginSource};
use annals::secret::Source;
use serde_json::{Value, json};

use crate::mcp::program;
use crate::support::assert_sound;
use crate::support::stage::{Stage, agent, finish};

/// Writes files below a folder.
fn write(folder: &Path, files: &[(&str, &str)]) {
    for (name, content) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
}

fn hooks(command: &str) -> String {
    json!({"session_start": [{"hooks": [{"command": command}]}]}).to_string()
}

/// Writes a plugin `tools` that has one item of each sort.
fn tools(folder: &Path) {
    let servers = json!({"mcpServers": {"own": program("server")}}).to_string();
    write(
        folder,
        &[
            (".plugin/plugin.json", r#"{"name":"tools"}"#),
            ("skills/style/SKILL.md", "---\nname: style\ndescription: How to write.\n---\nUse tabs."),
            ("skills/known.md", "---\nname: known\ntriggers: [weather]\n---\nThe plugin's."),
            ("commands/now.md", "---\ndescription: Tells the time.\n---\nTell $ARGUMENTS."),
            ("agents/helper.md", "---\nname: helper\ndescription: Helps.\n---\nYou help."),
            ("hooks/hooks.json", &hooks("echo tools >> hooks.txt")),
            (".mcp.json", &servers),
        ],
    );
}

fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@t", "-c", "init.defaultBranch=main"])
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A stage with its own home folder.
struct Desk {
    stage: Stage,
    home: PathBuf,
}

impl Desk {
    fn new(lines: impl IntoIterator<Item = Line>) -> Self {
        let stage = Stage::new(lines);
        let home = stage.scratch.path("home");
        fs::create_dir_all(&home).unwrap();
        Self { stage, home }
    }

    fn builder(&self) -> Builder {
        self.stage.builder().home(&self.home).secret("TOKEN", Source::given("tok-12345"))
    }

    fn path(&self, name: &str) -> String {
        self.stage.scratch.path(name).to_str().unwrap().to_owned()
    }

    fn ran(&self) -> Vec<String> {
        let text = fs::read_to_string(self.stage.scratch.path("work/hooks.txt")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

fn source(text: &str) -> PluginSource {
    PluginSource::new(text)
}

fn skills(state: &Value) -> Vec<String> {
    let skills = state["agent"]["agent_context"]["skills"].as_array().cloned().unwrap_or_default();
    skills.iter().map(|skill| skill["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn plugin_contents_are_usable_and_written_into_the_agent() {
    let desk = Desk::new([
        Line::calls("", &[("c1", "invoke_skill", r#"{"name":"style"}"#)]),
        Line::calls("", &[("c2", "variable", r#"{"name":"NOTES_TOKEN"}"#)]),
        finish("c3", "done"),
    ]);
    tools(&desk.stage.scratch.path("tools"));
    write(
        &desk.stage.scratch.path("second"),
        &[
            ("skills/style/SKILL.md", "---\nname: style\n---\nUse spaces."),
            ("hooks/hooks.json", &hooks("echo second >> hooks.txt")),
        ],
    );
    let context = json!({"skills": [
        {"name": "known", "content": "The agent's.", "trigger": {"type": "keyword", "keywords": ["old"]}},
        {"name": "last", "content": "Stays.", "license": "MIT"},
    ]});
    let agent = agent().with("agent_context", Some(&Json::from(&context)));
    let own = hook::Config::parse(&hooks("echo own >> hooks.txt")).unwrap();
    let conversation = desk
        .builder()
        .agent(agent)
        .hooks(own)
        .plugins([source(&desk.path("tools")), source(&desk.path("second"))])
        .open()
        .await
        .unwrap();
    assert_eq!(conversation.resolved_plugins(), []);
    conversation.send_message("The weather, and /tools:now in Rome").await.unwrap();
    assert_eq!(conversation.run().await.unwrap(), Finished);
    let state = desk.stage.base_state();
    // Skills keep their order. If two have the same name, the last plugin's skill takes the place of the first. Unknown
    // members stay.
    assert_eq!(skills(&state), ["known", "last", "style", "tools:now"]);
    let written = &state["agent"]["agent_context"]["skills"];
    assert_eq!((&written[0]["content"], &written[1]["license"]), (&json!("The plugin's."), &json!("MIT")));
    assert_eq!(written[2]["content"], "Use spaces.");
    assert_eq!(state["activated_knowledge_skills"], json!(["known", "tools:now"]));
    // MCP servers are written too, without the value of the secret that they name.
    assert!(state["agent"]["mcp_config"]["own"]["command"].is_string());
    assert!(!state.to_string().contains("tok-12345"));
    assert_eq!(desk.ran(), ["own", "tools", "second"]);
    assert_eq!(state["hook_config"]["session_start"].as_array().unwrap().len(), 3);
    let resolved = state["agent_state"]["resolved_plugins"].as_array().unwrap();
    assert_eq!(resolved.len(), 2);
    assert_eq!(
        resolved[0],
        json!({"source": desk.path("tools"), "resolved_ref": null, "repo_path": null, "original_ref": null})
    );
    let events = desk.stage.events();
    let invoked = events.iter().find_map(|event| match event {
        Event::Observation(event) if event.tool_name.as_ref() == "invoke_skill" => Some(event.clone()),
        _ => None,
    });
    let text: String = match &invoked.unwrap().observation {
        Observation::InvokeSkill(answer) => answer.content.iter().filter_map(Content::as_text).collect(),
        other => panic!("{other:?}"),
    };
    assert!(text.contains("Use spaces."), "{text}");
    conversation.set_agent_state(Json::parse(r#"{"mine":1}"#).unwrap()).await.unwrap();
    let remembered = desk.stage.base_state()["agent_state"].clone();
    assert_eq!(
        (&remembered["mine"], remembered["resolved_plugins"].as_array().unwrap().len()),
        (&json!(1), 2)
    );
    conversation.close().await.unwrap();
    assert_sound(desk.stage.host.store());
}

#[tokio::test]
async fn a_conversation_goes_on_with_the_commits_it_began_with() {
    let desk = Desk::new([finish("c1", "one"), finish("c2", "two"), finish("c3", "three")]);
    let repo = desk.stage.scratch.path("repo");
    write(
        &repo,
        &[("p/skills/rule.md", "The first."), ("p/hooks/hooks.json", &hooks("echo plugin >> hooks.txt"))],
    );
    git(&repo, &["init", "--quiet"]);
    git(&repo, &["add", "."]);
    git(&repo, &["commit", "--quiet", "-m", "one"]);
    let first = git(&repo, &["rev-parse", "HEAD"]);
    // The folder's name is given as a secret.
    let wanted = PluginSource::new(format!("file://{}/${{PLACE}}", desk.path("")))
        .reference("main".to_owned())
        .repo_path("p".to_owned());
    let builder = || desk.builder().secret("PLACE", Source::given("repo"));
    let conversation = builder().plugins([wanted.clone()]).open().await.unwrap();
    conversation.send_message("Go.").await.unwrap();
    conversation.run().await.unwrap();
    let resolved = conversation.resolved_plugins();
    assert_eq!(resolved[0].resolved_ref.as_deref(), Some(first.as_str()));
    assert!(resolved[0].source.ends_with("/${PLACE}"), "{resolved:?}");
    conversation.close().await.unwrap();
    write(&repo, &[("p/skills/rule.md", "The second.")]);
    git(&repo, &["commit", "--quiet", "-am", "two"]);
    // The plugin may be named again, with the stored hooks, or not named at all. The result is the same.
    let config = desk.stage.base_state()["hook_config"].to_string();
    let again =
        builder().plugins([wanted]).hooks(hook::Config::parse(&config).unwrap()).open().await.unwrap();
    again.send_message("Go on.").await.unwrap();
    again.run().await.unwrap();
    assert_eq!(again.resolved_plugins(), resolved);
    assert_eq!(desk.ran(), ["plugin", "plugin"]);
    let fork = again.fork(annals::conversation::ForkOptions::default()).await.unwrap();
    again.close().await.unwrap();
    // The repository is deleted, because resuming does not need it.
    fs::remove_dir_all(&repo).unwrap();
    let third = builder().open().await.unwrap();
    third.send_message("And on.").await.unwrap();
    assert_eq!(third.resolved_plugins(), resolved);
    assert_eq!(desk.stage.base_state()["agent"]["agent_context"]["skills"][0]["content"], "The first.");
    third.close().await.unwrap();
    fork.send_message("Here too.").await.unwrap();
    assert_eq!(fork.resolved_plugins(), resolved);
    fork.close().await.unwrap();
}

#[tokio::test]
async fn ambient_plugins_are_found_at_each_open_and_not_written_into_the_agent() {
    let desk = Desk::new([]);
    write(
        &desk.home,
        &[
            (".agents/plugins/mine/skills/mine.md", "---\ntriggers: [mine]\n---\nMine."),
            (".agents/plugins/mine/hooks/hooks.json", &hooks("echo mine >> hooks.txt")),
            (".agents/plugins/tools/skills/not.md", "---\ntriggers: [mine]\n---\nThe named one counts."),
        ],
    );
    let work = desk.stage.scratch.path("work");
    write(&work, &[(".openhands/plugins/theirs/hooks/hooks.json", &hooks("echo theirs >> hooks.txt"))]);
    tools(&desk.stage.scratch.path("tools"));
    fs::remove_file(desk.stage.scratch.path("tools/.mcp.json")).unwrap();
    for (ambient, ran, called) in [
        (AmbientPlugins::None, vec!["tools"], vec![]),
        (AmbientPlugins::Own, vec!["tools", "mine"], vec!["mine"]),
        (AmbientPlugins::All, vec!["tools", "mine", "theirs"], vec![]),
    ] {
        let _gone = fs::remove_file(work.join("hooks.txt"));
        let conversation = desk
            .builder()
            .plugins([source(&desk.path("tools"))])
            .ambient_plugins(ambient)
            .open()
            .await
            .unwrap();
        conversation.send_message("This is mine.").await.unwrap();
        assert_eq!(desk.ran(), ran, "{ambient:?}");
        let events = desk.stage.events();
        let activated = events.iter().rev().find_map(|event| match event {
            Event::Message(message) => Some(message.activated_skills.clone()),
            _ => None,
        });
        assert_eq!(activated.unwrap().iter().map(|name| &**name).collect::<Vec<_>>(), called, "{ambient:?}");
        assert!(!skills(&desk.stage.base_state()).contains(&"mine".to_owned()));
        conversation.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_plugin_is_loaded_while_the_conversation_goes_on() {
    let desk = Desk::new([finish("c1", "one")]);
    tools(&desk.stage.scratch.path("market/plugins/tools"));
    let list = json!({"name": "market", "owner": {"name": "us"}, "plugins": [{"name": "tools", "source": "./plugins/tools"}]});
    write(&desk.stage.scratch.path("market"), &[(".plugin/marketplace.json", &list.to_string())]);
    let bare = desk.builder().open().await.unwrap();
    assert!(matches!(
        bare.load_plugin("tools").await,
        Err(ConversationError::NoMarketplace { has_context: false })
    ));
    bare.close().await.unwrap();
    let context = json!({"registered_marketplaces": [{"name": "market", "source": desk.path("market")}]});
    let agent = agent().with("agent_context", Some(&Json::from(&context)));
    let own = hook::Config::parse(
        &json!({"session_end": [{"hooks": [{"command": "echo end >> hooks.txt"}]}]}).to_string(),
    );
    let conversation = desk.builder().agent(agent).hooks(own.unwrap()).open().await.unwrap();
    conversation.send_message("Go.").await.unwrap();
    conversation.run().await.unwrap();
    assert!(matches!(
        conversation.load_plugin("gone").await,
        Err(ConversationError::Plugin(PluginError::NotFound(_)))
    ));
    assert_eq!(conversation.resolved_plugins(), []);
    conversation.load_plugin("tools@market").await.unwrap();
    // Hooks that were loaded before are notified of a session end, as in the reference.
    assert_eq!(desk.ran(), ["end", "tools"]);
    desk.stage.model.push(Line::calls("", &[("d1", "invoke_skill", r#"{"name":"style"}"#)]));
    desk.stage.model.push(Line::calls("", &[("d2", "add", r#"{"a":2,"b":3}"#)]));
    desk.stage.model.push(finish("d3", "two"));
    conversation.send_message("And /tools:now").await.unwrap();
    assert_eq!(conversation.run().await.unwrap(), Finished);
    let texts: Vec<String> = desk
        .stage
        .events()
        .iter()
        .filter_map(|event| match event {
            Event::Observation(event) => Some(format!("{} {:?}", event.tool_name, event.observation)),
            _ => None,
        })
        .collect();
    assert!(
        texts.iter().any(|text| text.starts_with("invoke_skill") && text.contains("Use tabs.")),
        "{texts:?}"
    );
    assert!(texts.iter().any(|text| text.starts_with("add") && text.contains('5')), "{texts:?}");
    let state = desk.stage.base_state();
    assert_eq!(state["agent_state"]["resolved_plugins"].as_array().unwrap().len(), 1);
    assert_eq!(skills(&state), ["known", "style", "tools:now"]);
    conversation.close().await.unwrap();
    assert_sound(desk.stage.host.store());
}

#[tokio::test]
async fn an_unavailable_plugin_is_reported_and_nothing_is_written() {
    let desk = Desk::new([]);
    let conversation = desk.builder().plugins([source("./nowhere-at-all")]).open().await.unwrap();
    let error = conversation.send_message("Go.").await.unwrap_err();
    assert!(matches!(error, ConversationError::Plugin(PluginError::NoFolder(_))), "{error}");
    assert_eq!(desk.stage.events().len(), 0);
    conversation.close().await.unwrap();
    // An unavailable marketplace is skipped, as in the reference.
    let context =
        json!({"registered_marketplaces": [{"name": "m", "source": "/nowhere", "auto_load": true}]});
    let agent = agent().with("agent_context", Some(&Json::from(&context)));
    let conversation = desk.builder().agent(agent).open().await.unwrap();
    conversation.send_message("Go.").await.unwrap();
    assert_eq!(left_out(&desk.stage).len(), 1);
    assert!(left_out(&desk.stage)[0].contains("/nowhere"), "{:?}", left_out(&desk.stage));
    conversation.close().await.unwrap();
}

/// What the events say of what is left out.
fn left_out(stage: &Stage) -> Vec<String> {
    let events = stage.events();
    let told = events.iter().filter_map(|event| match event {
        Event::StateUpdate(update) if &*update.key == "left_out" => Some(update.value.text().to_owned()),
        _ => None,
    });
    told.collect()
}

#[tokio::test]
async fn what_cannot_be_used_is_reported_once_by_a_state_update() {
    let desk = Desk::new([finish("c1", "one"), finish("c2", "two")]);
    let folder = desk.stage.scratch.path("");
    let wrong = [
        "named/commands/wrong.md",
        "work/.agents/plugins/broken/.plugin/plugin.json",
        "work/.agents/plugins/part/hooks/hooks.json",
        "work/.agents/skills/wrong.md",
        "work/.agents/agents/wrong.md",
        "home/.openhands/plugins/installed/.installed.json",
        "home/.openhands/skills/installed/.installed.json",
    ];
    for name in wrong {
        write(&folder, &[(name, if name.ends_with(".md") { "---\nname: [\n---\n" } else { "{" })]);
    }
    let context = json!({"load_user_skills": true, "load_project_skills": true});
    let tools = [annals::tool::Spec::new("task_tool_set")];
    let agent = annals::agent::AgentDocument::new(&agent().llm().map(Json::from).unwrap(), &tools)
        .with("agent_context", Some(&Json::from(&context)));
    let conversation = desk
        .builder()
        .agent(agent.clone())
        .plugins([source(&desk.path("named"))])
        .ambient_plugins(AmbientPlugins::All)
        .open()
        .await
        .unwrap();
    conversation.send_message("Go.").await.unwrap();
    let told = left_out(&desk.stage);
    assert_eq!(told.len(), 1, "{told:?}");
    for name in wrong {
        assert_eq!(told[0].matches(&format!("/{name}: ")).count(), 1, "{name} {told:?}");
    }
    let report: serde_json::Value = serde_json::from_str(&told[0]).unwrap();
    assert_eq!(report["problems"].as_array().unwrap().len(), wrong.len(), "{told:?}");
    // It does not stand in the way: the prompt is the first event, and the run goes on.
    assert_eq!(desk.stage.kinds()[0], "SystemPromptEvent");
    assert_eq!(conversation.run().await.unwrap(), Finished);
    conversation.send_message("Go on.").await.unwrap();
    conversation.run().await.unwrap();
    assert_eq!(left_out(&desk.stage).len(), 1);
    conversation.close().await.unwrap();
    // Opening it again reads everything again. The log says the same already.
    let again =
        desk.builder().agent(agent.clone()).ambient_plugins(AmbientPlugins::All).open().await.unwrap();
    again.send_message("And again.").await.unwrap();
    assert_eq!(left_out(&desk.stage).len(), 1);
    again.close().await.unwrap();
    // What was corrected is not reported any more.
    fs::remove_file(folder.join("work/.agents/skills/wrong.md")).unwrap();
    let again =
        desk.builder().agent(agent.clone()).ambient_plugins(AmbientPlugins::All).open().await.unwrap();
    again.send_message("Once more.").await.unwrap();
    let told = left_out(&desk.stage);
    assert_eq!(told.len(), 2);
    assert!(!told[1].contains("skills/wrong.md"), "{told:?}");
    again.close().await.unwrap();
    assert_sound(desk.stage.host.store());
}

#[tokio::test]
async fn what_cannot_be_used_of_a_plugin_that_is_loaded_later_is_reported_before_the_rest() {
    let desk = Desk::new([]);
    let list =
        json!({"name": "market", "owner": {"name": "us"}, "plugins": [{"name": "odd", "source": "./odd"}]});
    let servers = json!({"mcpServers": {"gone": {"command": "/no/such/program"}}});
    write(
        &desk.stage.scratch.path(""),
        &[
            ("market/.plugin/marketplace.json", &list.to_string()),
            ("market/odd/commands/wrong.md", "---\nname: [\n---\n"),
            ("market/odd/.mcp.json", &servers.to_string()),
            ("work/.agents/skills/wrong.md", "---\nname: [\n---\n"),
        ],
    );
    let markets = json!([{"name": "market", "source": desk.path("market")}, {"name": "wrong"}]);
    let context = json!({"load_project_skills": true, "registered_marketplaces": markets});
    let agent = agent().with("agent_context", Some(&Json::from(&context)));
    let conversation = desk.builder().agent(agent).open().await.unwrap();
    conversation.send_message("Go.").await.unwrap();
    conversation.load_plugin("odd").await.unwrap();
    let told = left_out(&desk.stage);
    let problems: Vec<Vec<String>> = told
        .iter()
        .map(|report| {
            let report: Value = serde_json::from_str(report).unwrap();
            let problems = report["problems"].as_array().unwrap().iter();
            problems.map(|problem| problem.as_str().unwrap().to_owned()).collect()
        })
        .collect();
    assert_eq!(problems.iter().map(Vec::len).collect::<Vec<_>>(), [2, 4], "{told:?}");
    assert!(problems[1][0].starts_with("MCP server \"gone\": "), "{told:?}");
    assert!(problems[1][1].contains("/market/odd/commands/wrong.md: "), "{told:?}");
    assert_eq!(problems[1][2..], problems[0]);
    assert!(problems[0].iter().any(|text| text.starts_with("registered_marketplaces: ")), "{told:?}");
    assert!(problems[0].iter().any(|text| text.contains("/work/.agents/skills/wrong.md: ")), "{told:?}");
    // It does not look as if the run had failed.
    assert!(desk.stage.events().iter().all(|event| !matches!(event, Event::ConversationError(_))));
    conversation.close().await.unwrap();
    assert_sound(desk.stage.host.store());
}

#[tokio::test]
async fn plugins_are_loaded_again_if_their_record_was_not_written() {
    let desk = Desk::new([]);
    write(&desk.stage.scratch.path("small"), &[("skills/rule.md", "Rule.")]);
    let condenser = r#"{"llm":{"model":"openai/mini","usage_id":"condenser"},"max_size":8,"keep_first":1,"kind":"LLMSummarizingCondenser"}"#;
    let agent = agent().with("condenser", Some(&Json::parse(condenser).unwrap()));
    let is_down = Arc::new(AtomicBool::new(true));
    let (down, model) = (Arc::clone(&is_down), desk.stage.model.clone());
    let conversation = desk
        .builder()
        .agent(agent)
        .models(Arc::new(move |_| match down.load(Ordering::Relaxed) {
            true => Err(LlmError::BadRequest("not now".to_owned())),
            false => Ok(Arc::new(model.clone()) as Arc<dyn Model>),
        }))
        .plugins([source(&desk.path("small"))])
        .open()
        .await
        .unwrap();
    // The plugins are loaded. Then the condenser's model cannot be made, or there is no marketplace.
    let refused = conversation.send_message("Go.").await;
    assert!(matches!(refused, Err(ConversationError::Model(_))), "{refused:?}");
    assert_eq!(conversation.resolved_plugins(), []);
    let refused = conversation.load_plugin("more").await;
    assert!(matches!(refused, Err(ConversationError::NoMarketplace { .. })), "{refused:?}");
    assert_eq!(conversation.resolved_plugins(), []);
    assert_eq!((desk.stage.events().len(), skills(&desk.stage.base_state()).len()), (0, 0));
    is_down.store(false, Ordering::Relaxed);
    conversation.send_message("Go.").await.unwrap();
    assert_eq!(conversation.resolved_plugins().len(), 1);
    let state = desk.stage.base_state();
    assert_eq!(skills(&state), ["rule"]);
    assert_eq!(state["agent_state"]["resolved_plugins"].as_array().unwrap().len(), 1);
    conversation.close().await.unwrap();
    assert_sound(desk.stage.host.store());
}

#[tokio::test]
async fn no_report_and_no_error_about_a_source_holds_a_secret() {
    let desk = Desk::new([]);
    let sources = [
        format!("file://{}/${{TOKEN}}", desk.path("nowhere")),
        "https://user:hunter2@127.0.0.1:9/r?private_token=hunter2&a=${TOKEN}".to_owned(),
        "user:hunter2@127.0.0.1/r".to_owned(),
        "${TOKEN}".to_owned(),
    ];
    let is_safe = |text: &str| !text.contains("hunter2") && !text.contains("tok-12345");
    let markets: Vec<Value> = sources
        .iter()
        .enumerate()
        .map(|(number, source)| json!({"name": format!("m{number}"), "source": source, "auto_load": true}))
        .chain([json!({"name": "wrong", "source": 1})])
        .collect();
    let context = json!({"registered_marketplaces": markets});
    let agent = agent().with("agent_context", Some(&Json::from(&context)));
    let conversation = desk.builder().agent(agent).open().await.unwrap();
    conversation.send_message("Go.").await.unwrap();
    let told = left_out(&desk.stage);
    let report: Value = serde_json::from_str(&told[0]).unwrap();
    assert_eq!((told.len(), report["problems"].as_array().unwrap().len()), (1, markets.len()), "{told:?}");
    assert!(is_safe(&told[0]), "{told:?}");
    for reference in ["p", "p@m0", "p@m1", "p@m2", "p@m3"] {
        let error = conversation.load_plugin(reference).await.unwrap_err();
        assert!(matches!(error, ConversationError::Plugin(_)), "{error:?}");
        assert!(is_safe(&error.to_string()), "{error}");
    }
    conversation.close().await.unwrap();
    for text in &sources {
        let desk = Desk::new([]);
        let conversation = desk.builder().plugins([source(text)]).open().await.unwrap();
        let error = conversation.send_message("Go.").await.unwrap_err();
        assert!(matches!(error, ConversationError::Plugin(_)), "{error:?}");
        assert!(is_safe(&error.to_string()), "{error}");
        conversation.close().await.unwrap();
    }
}
