//! Tasks of sub-agents: their definitions, their runs and their results.

use std::fs;

use annals::ConversationId;
use annals::ExecutionStatus::{Finished, Paused};
use annals::agent::{AgentDocument, Policy};
use annals::agent::{Condensing, Definition, Definitions};
use annals::event::{Event, Json, Observation};
use annals::llm::scripted::{Gate, Line};
use annals::tool::Spec;
use serde_json::{Value, json};

use crate::support::stage::{Stage, agent, events, finish};
use crate::support::{altered, assert_sound};

fn golden() -> Value {
    serde_json::from_str(include_str!("../golden/agents/project.json")).unwrap()
}

fn shape(root: &str, definition: &Definition) -> Value {
    let mode = definition.permission_mode.as_ref().map(|policy| match policy {
        Policy::Always => "always_confirm",
        Policy::Never => "never_confirm",
        Policy::Risky { .. } => "confirm_risky",
        Policy::Unfamiliar(_) => panic!("{policy:?}"),
    });
    let servers: Vec<String> = definition
        .mcp_config
        .iter()
        .flat_map(|servers| servers.raw().members().map(|(name, _)| name.into_owned()).collect::<Vec<_>>())
        .collect();
    let mut shape = json!({
        "name": definition.name, "description": definition.description, "model": definition.model,
        "tools": definition.tools, "skills": definition.skills, "system_prompt": definition.system_prompt,
        "source": definition.source.as_ref().map(|source| source.replace(root, "{W}")),
        "when_to_use_examples": definition.when_to_use_examples, "hooks": definition.hooks.is_some(),
        "mcp_config": servers, "metadata": definition.metadata,
        "condenser": match &definition.condenser {
            Condensing::Default => Value::Null,
            Condensing::Never => "NoOpCondenser".into(),
            Condensing::As(condenser) => condenser.to_value()["kind"].clone(),
        },
    });
    let mut set = |name: &str, value: Value| {
        if !value.is_null() {
            shape[name] = value;
        }
    };
    set("color", json!(definition.color));
    set("permission_mode", json!(mode));
    set("max_iteration_per_run", json!(definition.max_iteration_per_run));
    set("max_budget_per_run", json!(definition.max_budget_per_run));
    shape
}

#[test]
fn agents_of_files_are_those_that_the_reference_reads() {
    let golden = golden();
    let scratch = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(scratch.path()).unwrap();
    for (name, content) in golden["files"].as_object().unwrap() {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content.as_str().unwrap()).unwrap();
    }
    let mut definitions = Definitions::default();
    let problems = definitions.fill_from_files(&root, None);
    let shapes: Vec<Value> =
        definitions.iter().map(|definition| shape(root.to_str().unwrap(), definition)).collect();
    assert_eq!(Value::from(shapes), golden["definitions"]);
    assert_eq!(definitions.listed(), golden["listed"].as_str().unwrap());
    let wrong: Vec<&str> =
        problems.iter().map(|problem| problem.source_path.rsplit('/').next().unwrap()).collect();
    assert_eq!(
        wrong,
        ["wrong-budget.md", "wrong-condenser.md", "wrong-mode.md", "wrong-steps.md", "wrong-yaml.md"]
    );
    for (name, error) in golden["unknown"].as_object().unwrap() {
        // The rest of the reference's text is advice to a programmer. It also names an old name as it was given.
        let ours = definitions.get(name).unwrap_err();
        assert!(error.as_str().unwrap().starts_with(&ours), "{ours} {error}");
    }
    // The definition of a file can be sent in a request too.
    for definition in definitions.iter() {
        let mut sent = shape(root.to_str().unwrap(), definition);
        sent["hooks"] = Value::Null;
        sent["mcp_config"] = Value::Null;
        sent["condenser"] = Value::Null;
        let again = Definition::from_raw(Json::from(&sent).raw()).unwrap();
        assert_eq!(again.system_prompt, definition.system_prompt);
        assert_eq!(
            (again.permission_mode, again.metadata),
            (definition.permission_mode.clone(), definition.metadata.clone())
        );
    }
    let builtin = Definitions::builtin();
    assert_eq!(builtin.get("default").unwrap().name, "general-purpose");
    assert_eq!(builtin.get("").unwrap().name, "general-purpose");
    assert_eq!(builtin.get("bash").unwrap().name, "bash-runner");
}

fn delegating_agent() -> AgentDocument {
    let llm = agent().llm().map(Json::from).unwrap();
    AgentDocument::new(&llm, &[Spec::new("task_tool_set")])
}

fn helper() -> Definition {
    altered!(Definition::default(), {
        name: "helper".to_owned(),
        description: "Helps.".to_owned(),
        tools: vec!["think".to_owned()],
        system_prompt: "You help.".to_owned(),
    })
}

fn plain() -> Definition {
    altered!(helper(), { tools: Vec::new() })
}

fn task(id: &str, arguments: Value) -> Line {
    Line::calls("", &[(id, "task", &arguments.to_string())])
}

/// The answers of the tasks: id, agent, status, text, and whether it is an error.
fn answers(stage: &Stage) -> Vec<(String, String, String, String, bool)> {
    let events = stage.events();
    let answers = events.iter().filter_map(|event| match event {
        Event::Observation(event) => match &event.observation {
            Observation::Task(task) => Some((
                task.task_id.to_string(),
                task.subagent.to_string(),
                task.status.to_string(),
                task.content[0].as_text().unwrap().to_owned(),
                task.is_error,
            )),
            _ => None,
        },
        _ => None,
    });
    answers.collect()
}

#[tokio::test]
async fn a_task_is_a_conversation_of_its_own_and_can_be_resumed() {
    let stage = Stage::new([
        task("c1", json!({"prompt": "Count.", "subagent_type": "helper", "description": "count it"})),
        finish("s1", "It is 3.").tokens(10, 5).cost(0.5),
        task("c2", json!({"prompt": "And now?", "subagent_type": "helper", "resume": "task_00000001"})),
        Line::text("It is 4.").tokens(10, 5).cost(0.25),
        task("c3", json!({"prompt": "x", "subagent_type": "helper", "resume": "task_00000009"})),
        task("c4", json!({"prompt": "x", "subagent_type": "nobody"})),
        finish("c5", "done"),
    ]);
    let open = || {
        stage
            .builder()
            .agent(delegating_agent())
            .definitions([plain()])
            .secret("TOKEN", annals::secret::Source::given("t0k3n"))
    };
    let conversation = open().open().await.unwrap();
    conversation.send_message("Go.").await.unwrap();
    assert_eq!(conversation.run().await.unwrap(), Finished);
    let outcomes = answers(&stage);
    let answer = |task: &str, status: &str, text: &str, is_error| {
        (task.to_owned(), "helper".to_owned(), status.to_owned(), text.to_owned(), is_error)
    };
    assert_eq!(outcomes[0], answer("task_00000001", "completed", "It is 3.", false));
    assert_eq!(outcomes[1], answer("task_00000001", "completed", "It is 4.", false));
    assert_eq!(
        outcomes[2],
        answer("unknown", "error", "Failed to execute task: Task 'task_00000009' not found.", true)
    );
    assert!(
        outcomes[3]
            .3
            .starts_with("Failed to execute task: Unknown agent 'nobody'. Available types: bash-runner, ")
    );
    // The parent has the task's cost, and counts it once even if the task is resumed.
    let stats = &stage.base_state()["stats"]["usage_to_metrics"]["task:task_00000001"];
    assert_eq!(
        (&stats["accumulated_cost"], &stats["accumulated_token_usage"]["prompt_tokens"]),
        (&json!(0.75), &json!(20))
    );
    // The child is a complete conversation of its own below its parent.
    let child = stage.id.of_part("task_00000001");
    let row = stage.host.store().conversation(&child).unwrap();
    assert_eq!(row.parent.as_deref(), Some(stage.id.as_str()));
    let inner = events(&stage.host, &child);
    let kinds = crate::support::stage::kinds(&inner);
    assert_eq!(
        kinds,
        [
            "SystemPromptEvent",
            "MessageEvent user",
            "ActionEvent",
            "ObservationEvent",
            "MessageEvent user",
            "MessageEvent agent"
        ]
    );
    let Event::SystemPrompt(prompt) = &inner[0] else { panic!("{:?}", inner[0]) };
    let dynamic = &*prompt.dynamic_context.as_ref().unwrap().text;
    assert!(dynamic.contains("You help.") && !dynamic.contains("TOKEN"), "{dynamic}");
    let state = stage.host.store().base_state(&child).unwrap().unwrap();
    let state: Value = serde_json::from_str(state.document.as_str()).unwrap();
    assert_eq!(state["agent"]["llm"]["stream"], false);
    assert_eq!(state["agent"]["condenser"]["llm"]["usage_id"], "condenser");
    // The tool's description lists the agents for the model.
    let requests = stage.model.requests();
    let shown = requests[0].tools.iter().find(|tool| &*tool.name == "task").unwrap();
    assert!(shown.description.contains("- **helper**: Helps.\n"), "{}", shown.description);
    conversation.close().await.unwrap();
    // After a restart, the same task is resumed, and new tasks get new numbers.
    stage
        .model
        .push(task("c6", json!({"prompt": "Still?", "subagent_type": "helper", "resume": "task_00000001"})));
    stage.model.push(finish("s2", "Still 4."));
    stage.model.push(task("c7", json!({"prompt": "Another.", "subagent_type": "helper"})));
    stage.model.push(finish("s3", "Another."));
    stage.model.push(finish("c8", "done"));
    let conversation = open().open().await.unwrap();
    conversation.send_message("Again.").await.unwrap();
    assert_eq!(conversation.run().await.unwrap(), Finished);
    let outcomes = answers(&stage);
    assert_eq!(outcomes[4], answer("task_00000001", "completed", "Still 4.", false));
    assert_eq!(outcomes[5], answer("task_00000002", "completed", "Another.", false));
    conversation.close().await.unwrap();
    assert_sound(stage.host.store());
}

#[tokio::test]
async fn a_task_that_stops_early_reports_why() {
    let stage = Stage::new([
        task("c1", json!({"prompt": "Think.", "subagent_type": "brief"})),
        Line::calls("", &[("s1", "think", r#"{"thought":"hm"}"#)]),
        task("c2", json!({"prompt": "Think.", "subagent_type": "broken"})),
        task("c3", json!({"prompt": "Ask.", "subagent_type": "asking"})),
        Line::calls("", &[("s2", "think", r#"{"thought":"a"}"#), ("s3", "think", r#"{"thought":"b"}"#)]),
        finish("s4", "Consented."),
        finish("c4", "done"),
    ]);
    let brief = altered!(plain(), { name: "brief".into(), max_iteration_per_run: Some(1) });
    let broken = altered!(plain(), { name: "broken".into(), tools: vec!["nothing".into()] });
    let asking = altered!(plain(), { name: "asking".into(), permission_mode: Some(Policy::Always) });
    let conversation =
        stage.builder().agent(delegating_agent()).definitions([brief, broken, asking]).open().await.unwrap();
    conversation.send_message("Go.").await.unwrap();
    assert_eq!(conversation.run().await.unwrap(), Finished);
    let outcomes = answers(&stage);
    assert_eq!((&*outcomes[0].2, &*outcomes[0].3), ("error", "Agent reached maximum iterations limit (1)."));
    assert!(
        outcomes[1].4 && outcomes[1].3.contains("ToolDefinition 'nothing' is not registered"),
        "{outcomes:?}"
    );
    // No person can be asked within a task. So waiting actions are executed, as in the reference.
    assert_eq!((&*outcomes[2].2, &*outcomes[2].3), ("completed", "Consented."));
    conversation.close().await.unwrap();
}

#[tokio::test]
async fn an_interruption_reaches_the_task_and_the_task_can_be_resumed() {
    let gate = Gate::new();
    let stage = Stage::new([
        task("c1", json!({"prompt": "Wait.", "subagent_type": "helper"})),
        finish("s1", "late").gate(&gate),
        task("c2", json!({"prompt": "Now?", "subagent_type": "helper", "resume": "task_00000001"})),
        finish("s2", "Now."),
        finish("c3", "done"),
    ]);
    let conversation = stage.builder().agent(delegating_agent()).definitions([plain()]).open().await.unwrap();
    conversation.send_message("Go.").await.unwrap();
    let running = tokio::spawn({
        let conversation = conversation.clone();
        async move { conversation.run().await }
    });
    let child: ConversationId = stage.id.of_part("task_00000001");
    while stage.model.requests().len() < 2 {
        tokio::task::yield_now().await;
    }
    conversation.interrupt().await.unwrap();
    assert_eq!(running.await.unwrap().unwrap(), Paused);
    assert_eq!(
        crate::support::stage::errors(&stage.events()),
        ["Tool call interrupted before completion. The conversation was paused."]
    );
    let kinds = crate::support::stage::kinds(&events(&stage.host, &child));
    assert_eq!(kinds.last().map(String::as_str), Some("InterruptEvent"));
    gate.open();
    assert_eq!(conversation.run().await.unwrap(), Finished);
    assert_eq!(answers(&stage)[0].3, "Now.");
    conversation.close().await.unwrap();
    assert_sound(stage.host.store());
}
