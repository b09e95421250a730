//! Skills are found, listed, activated and invoked in the same way as in the real SDK.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use annals::ExecutionStatus::Finished;
use annals::agent::AgentDocument;
use annals::event::{Event, Json, Observation, Source};
use annals::llm::scripted::{Line, Scripted};
use annals::skill::{self, Shelf, Skill, Trigger};
use annals::tool::Spec;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::assert_sound;
use crate::support::stage::{Stage, finish};

fn golden() -> Value {
    serde_json::from_str(include_str!("../golden/skills/project.json")).unwrap()
}

/// Writes the files of the golden into a folder.
fn folder(golden: &Value) -> (TempDir, PathBuf) {
    let scratch = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(scratch.path()).unwrap().join("work");
    for (name, content) in golden["files"].as_object().unwrap() {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content.as_str().unwrap()).unwrap();
    }
    (scratch, root)
}

fn shape(root: &Path, skill: &Skill) -> Value {
    let plain = |text: &Option<String>| text.as_ref().map(|text| text.replace(root.to_str().unwrap(), "{W}"));
    let trigger = match &skill.trigger {
        None => Value::Null,
        Some(Trigger::Keyword(words)) => json!({"type": "keyword", "keywords": words}),
        Some(Trigger::Task(words)) => json!({"type": "task", "triggers": words}),
        Some(Trigger::Path(paths)) => json!({"type": "path", "paths": paths}),
    };
    let servers = skill
        .mcp_tools
        .as_ref()
        .map(|tools| tools.raw().members().map(|(name, _)| name.into_owned()).collect::<Vec<_>>());
    json!({
        "name": skill.name, "content": skill.content, "trigger": trigger, "source": plain(&skill.source),
        "description": plain(&skill.description), "is_agentskills_format": skill.is_agentskills_format,
        "disable_model_invocation": skill.disable_model_invocation, "mcp_tools": servers,
    })
}

#[test]
fn a_projects_skills_are_those_that_the_reference_finds() {
    let golden = golden();
    let (_scratch, root) = folder(&golden);
    let found = skill::project(&root);
    let skills: Vec<Value> = found.skills.iter().map(|skill| shape(&root, skill)).collect();
    for (ours, theirs) in skills.iter().zip(golden["skills"].as_array().unwrap()) {
        assert_eq!(ours, theirs);
    }
    assert_eq!(skills.len(), golden["skills"].as_array().unwrap().len());
    let problems: Vec<&str> =
        found.problems.iter().map(|problem| problem.path.rsplit("skills/").next().unwrap()).collect();
    assert_eq!(problems, ["Bad_Name/SKILL.md", "other/SKILL.md", "broken.md", "triggers.md"]);
    assert_eq!(
        found.problems[1].reason,
        "Invalid skill name 'else': Name 'else' does not match directory 'other'"
    );
}

#[tokio::test]
async fn the_model_reads_the_same_skill_texts_as_in_the_reference() {
    let golden = golden();
    let (_scratch, root) = folder(&golden);
    let mut shelf = Shelf::default();
    shelf.skills = skill::project(&root).skills;
    let plain = |text: &str| text.replace(root.to_str().unwrap(), "{W}");
    assert!(plain(&shelf.listed()).ends_with(golden["listed"].as_str().unwrap()));
    let repository = shelf.repository("anthropic/claude-sonnet");
    for name in golden["always"].as_array().unwrap() {
        assert!(repository.contains(&format!("[BEGIN context from [{}]]", name.as_str().unwrap())), "{name}");
    }
    assert!(!shelf.repository("openai/gpt-4o").contains("[claude]"));
    for case in golden["messages"].as_array().unwrap() {
        shelf.user_message_suffix = case["suffix"].as_str().unwrap().to_owned();
        let activated: Vec<&str> =
            case["activated"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
        let called = shelf.for_message(case["text"].as_str().unwrap(), &activated);
        let (text, names) = match &called {
            Some(called) => (Value::from(plain(&called.text)), json!(called.names)),
            None => (Value::Null, json!([])),
        };
        assert_eq!((&text, &names), (&case["added"], &case["names"]), "{case}");
    }
    for case in golden["paths"].as_array().unwrap() {
        let rules = shelf.for_path(case["path"].as_str().unwrap(), &[]);
        let names: Vec<&String> = rules.iter().map(|(name, _)| name).collect();
        let texts: Vec<String> = rules.iter().map(|(_, text)| plain(text)).collect();
        let added = if texts.is_empty() { Value::Null } else { Value::from(texts.join("\n")) };
        assert_eq!((&added, &json!(names)), (&case["added"], &case["names"]), "{case}");
    }
    for case in golden["invoked"].as_array().unwrap() {
        let answer = shelf.invoke(case["name"].as_str().unwrap().trim(), &root).await;
        assert_eq!(answer.is_err(), case["is_error"].as_bool().unwrap(), "{case}");
        let (Ok(text) | Err(text)) = answer;
        assert_eq!(plain(&text), case["text"].as_str().unwrap());
    }
}

#[test]
fn patterns_match_the_paths_that_the_reference_matches() {
    for case in golden()["globs"].as_array().unwrap() {
        let mut skill = Skill::new("s", "s");
        skill.trigger = Some(Trigger::Path(vec![case["pattern"].as_str().unwrap().to_owned()]));
        let matches = skill.rules(case["path"].as_str().unwrap()).is_some();
        assert_eq!(matches, case["matches"].as_bool().unwrap(), "{case}");
    }
}

#[test]
fn skills_in_an_agents_settings_are_read_back() {
    let golden = golden();
    let stored = Json::from(&golden["stored"]);
    let again: Vec<Value> =
        skill::read_all(stored.raw()).iter().map(|skill| shape(Path::new("/none"), skill)).collect();
    for (ours, theirs) in again.iter().zip(golden["stored"].as_array().unwrap()) {
        for key in
            ["name", "content", "description", "trigger", "is_agentskills_format", "disable_model_invocation"]
        {
            assert_eq!(ours[key], *theirs.get(key).unwrap_or(&Value::Null), "{key} {theirs}");
        }
    }
    // A description is cut when it is read, as the reference cuts it.
    let long = json!([
        {"name": "d", "content": "d", "description": "word ".repeat(300)},
        {"name": "e", "content": "e", "description": "word ".repeat(300), "source": "/x/e.md"},
        {"name": "e", "content": "twice"}, {"name": "nothing"}, 3
    ]);
    let long = skill::read_all(Json::from(&long).raw());
    assert_eq!(long.len(), 2);
    for (ours, theirs) in long.iter().zip(&golden["stored"].as_array().unwrap()[3..]) {
        assert_eq!(ours.description.as_deref(), theirs["description"].as_str());
    }
}

#[test]
fn memory_is_put_together_and_cut_as_the_reference_does_it() {
    let golden = golden();
    let (scratch, root) = folder(&golden);
    let home = scratch.path().join("home");
    let memories = golden["memories"].as_array().unwrap();
    assert_eq!(skill::memory(Some(&home), &root).as_deref(), memories[0].as_str());
    fs::create_dir_all(home.join(".openhands/memory")).unwrap();
    for case in &memories[1..] {
        fs::write(home.join(".openhands/memory/MEMORY.md"), case["own"].as_str().unwrap()).unwrap();
        fs::write(root.join(".openhands/memory/MEMORY.md"), case["project"].as_str().unwrap()).unwrap();
        assert_eq!(skill::memory(Some(&home), &root).as_deref(), case["memory"].as_str());
    }
    assert_eq!(skill::memory(None, scratch.path()), None);
}

#[tokio::test]
async fn a_conversation_is_guided_by_its_skills() {
    let stage = Stage::new([]);
    let root = fs::canonicalize(stage.scratch.path("")).unwrap().join("work");
    for (name, content) in golden()["files"].as_object().unwrap() {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content.as_str().unwrap()).unwrap();
    }
    fs::create_dir_all(root.join("src")).unwrap();
    fs::write(root.join("src/a.rs"), "fn main() {}\n").unwrap();
    let context = json!({
        "skills": [{"name": "own", "content": "Own.", "trigger": {"type": "keyword", "keywords": ["own"]}}],
        "load_project_skills": true, "load_memory": true, "disabled_skills": ["claude"],
        "user_message_suffix": "Be brief.", "system_message_suffix": "Work well.",
    });
    let agent = AgentDocument::new(
        &Json::parse(r#"{"model":"openai/gpt-4o","usage_id":"agent"}"#).unwrap(),
        &[Spec::new("file_editor")],
    )
    .with("agent_context", Some(&Json::from(&context)));
    let path = root.join("src/a.rs").to_string_lossy().into_owned();
    let model = Scripted::new(stage_lines(&path)).used_as("agent");
    let conversation =
        stage.builder().agent(agent).workspace(&root).model(Arc::new(model.clone())).open().await.unwrap();
    conversation.send_message("Own this, and git it.").await.unwrap();
    assert_eq!(conversation.run().await.unwrap(), Finished);
    conversation.send_message("git again").await.unwrap();
    assert_eq!(conversation.run().await.unwrap(), Finished);
    let events = stage.events();
    let Event::SystemPrompt(prompt) = &events[0] else { panic!("{:?}", events[0]) };
    let dynamic = &*prompt.dynamic_context.as_ref().unwrap().text;
    let sections =
        ["<REPO_CONTEXT>", "[agents]", "<MEMORY_CONTEXT>", "<SKILLS>", "<name>git</name>", "Work well."];
    let places: Vec<usize> = sections.iter().map(|section| dynamic.find(section).expect(section)).collect();
    assert!(places.is_sorted(), "{dynamic}");
    assert!(!dynamic.contains("Be Claude."));
    let messages: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            Event::Message(message) if message.common.source == Source::User => Some(message),
            _ => None,
        })
        .collect();
    // The project's skill comes first. Each skill is activated once.
    assert_eq!(messages[0].activated_skills.iter().map(|name| &**name).collect::<Vec<_>>(), ["git", "own"]);
    assert!(messages[0].extended_content[0].text.ends_with("Own.\n</EXTRA_INFO>\nBe brief."));
    assert!(messages[1].activated_skills.is_empty());
    assert_eq!(&*messages[1].extended_content[0].text, "Be brief.");
    let observations: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            Event::Observation(observation) => Some(observation),
            _ => None,
        })
        .collect();
    assert!(observations[0].extended_content[0].text.contains("matches \"src/**/*.rs\""));
    let Observation::InvokeSkill(invoked) = &observations[1].observation else { panic!("{observations:?}") };
    assert!(invoked.content[0].as_text().unwrap().starts_with("No front matter here."));
    let state = stage.base_state();
    assert_eq!(state["activated_knowledge_skills"], json!(["git", "own"]));
    assert_eq!(state["activated_path_rules"], json!(["rule"]));
    assert_eq!(state["invoked_skills"], json!(["bare"]));
    let shown: Vec<String> = model.requests()[0].tools.iter().map(|tool| tool.name.to_string()).collect();
    assert_eq!(shown, ["file_editor", "finish", "think", "invoke_skill", "terminal"]);
    conversation.close().await.unwrap();
    assert_sound(stage.host.store());
}

fn stage_lines(path: &str) -> Vec<Line> {
    let view = json!({"command": "view", "path": path}).to_string();
    let invoke =
        |id, name: &str| Line::calls("", &[(id, "invoke_skill", &json!({"name": name}).to_string())]);
    vec![
        Line::calls("", &[("c1", "file_editor", &view)]),
        invoke("c2", "bare"),
        invoke("c3", "bare"),
        invoke("c4", "none"),
        finish("c5", "done"),
        finish("c6", "done again"),
    ]
}
