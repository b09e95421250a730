//! Tools return the same observations as the real SDK's tools, and leave the same workspace.

use std::fs::{self, File};
use std::future::ready;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use annals::event::Json;
use annals::event::json::Raw;
use annals::tool::{
    Context, InvokeSkill, Making, Registry, RiskField, SkillSource, Spec, Tool, ToolError, Toolbox, run,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use tempfile::TempDir;

use crate::support::golden;

/// The time limit of a command that ends, in seconds. It ends long before, also on a busy machine.
const END_SECONDS: u64 = 600;

/// A workspace with tools in it.
struct Bench {
    folder: TempDir,
    toolbox: Toolbox,
    context: Context,
}

impl Bench {
    fn new(has_vision: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let working_dir = fs::canonicalize(folder.path()).unwrap().join("work");
        fs::create_dir(&working_dir).unwrap();
        let registry = Registry::builtin();
        let making = Making::new(working_dir.clone()).has_vision(has_vision);
        let mut toolbox = Toolbox::default();
        for name in registry.names() {
            let mut spec = Spec::new(name);
            if name == "terminal" {
                // The SDK's answers name this limit. Only commands that stay silent for good reach it.
                spec.params = Json::parse(r#"{"no_change_timeout_seconds":1}"#).unwrap();
            }
            toolbox.add(registry.make(&spec, &making).unwrap()).unwrap();
        }
        let context = Context::new(working_dir).keep_dir(folder.path().join("keep"));
        Self { folder, toolbox, context }
    }

    fn work(&self) -> &Path {
        &self.context.working_dir
    }

    fn fill(&self, files: &Map<String, Value>) {
        for (name, content) in files {
            let path = self.work().join(name);
            if name.ends_with('/') {
                fs::create_dir_all(path).unwrap();
            } else {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, STANDARD.decode(content.as_str().unwrap()).unwrap()).unwrap();
            }
        }
    }

    /// The files of the workspace, by name.
    fn files(&self) -> Map<String, Value> {
        let mut found = Map::new();
        let mut folders = vec![self.work().to_owned()];
        while let Some(folder) = folders.pop() {
            for path in golden::list(&folder) {
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let name = path.strip_prefix(self.work()).unwrap().to_str().unwrap().to_owned();
                    found.insert(name, STANDARD.encode(fs::read(&path).unwrap()).into());
                }
            }
        }
        found
    }

    fn tool(&self, name: &str) -> &Arc<dyn Tool> {
        self.toolbox.get(name).unwrap_or_else(|| panic!("no tool {name}"))
    }

    /// Returns the arguments of a step. A command that ends in the SDK's answer has a time limit instead of the tool's
    /// limit of silence. So the step waits for the end of the command, however long it is silent on a busy machine.
    fn arguments(&self, step: &Value) -> String {
        let arguments = step["arguments"].as_str().unwrap().replace("{W}", self.work().to_str().unwrap());
        let ends = step["observation"]["metadata"]["exit_code"].as_i64().is_some_and(|code| code >= 0);
        match serde_json::from_str(&arguments) {
            Ok(Value::Object(mut members)) if step["tool"] == "terminal" && ends => {
                members.entry("timeout").or_insert_with(|| END_SECONDS.into());
                Value::Object(members).to_string()
            }
            Ok(_) | Err(_) => arguments,
        }
    }

    /// Runs one step. Returns its tool, its arguments and its result.
    async fn step(&self, step: &Value) -> Value {
        let tool = self.tool(step["tool"].as_str().unwrap());
        let arguments = self.arguments(step);
        let mut result = Map::new();
        result.insert("tool".to_owned(), step["tool"].clone());
        result.insert("arguments".to_owned(), step["arguments"].clone());
        let outcome = match tool.action(Raw::parse(&arguments).unwrap()) {
            Ok(action) => run(&**tool, &action, &self.context).await,
            Err(error) => Err(error),
        };
        let (key, value) = match outcome {
            Ok(observation) => ("observation", plain(observation.to_json().to_value())),
            Err(ToolError::Arguments(text)) => ("error", text.into()),
            Err(error) => ("failure", error.to_string().into()),
        };
        let shown = value.to_string().replace(self.work().to_str().unwrap(), "{W}");
        result.insert(key.to_owned(), serde_json::from_str(&shown).unwrap());
        Value::Object(result)
    }
}

/// An observation without the fields that depend on the machine or the time. The generator of the cases removes the
/// same fields.
fn plain(mut observation: Value) -> Value {
    if let Some(Value::Object(metadata)) = observation.get_mut("metadata") {
        for key in ["pid", "hostname", "username", "py_interpreter_path"] {
            metadata.remove(key);
        }
        observation.as_object_mut().unwrap().remove("full_output_save_dir");
    }
    observation
}

fn case(name: &str) -> Value {
    golden::read(&golden::folder("tools").join(format!("{name}.json")))
}

/// Runs a case. Compares the result of every step, and the workspace at the end.
async fn assert_case(name: &str) {
    let case = case(name);
    let bench = Bench::new(case["vision"] == true);
    bench.fill(case["files"].as_object().unwrap());
    for (name, time) in case["times"].as_object().into_iter().flatten() {
        let time = UNIX_EPOCH + Duration::from_secs(time.as_u64().unwrap());
        File::options().write(true).open(bench.work().join(name)).unwrap().set_modified(time).unwrap();
    }
    for (number, step) in case["steps"].as_array().unwrap().iter().enumerate() {
        let answer = bench.step(step).await;
        if step.get("ours").is_none() {
            assert_eq!(answer, *step, "{name}, step {number}");
        }
    }
    assert_eq!(Value::Object(bench.files()), case["after"], "{name}: the workspace");
    let kept: PathBuf = bench.folder.path().join("keep/TASKS.json");
    let kept = fs::read_to_string(kept).map_or(Value::Null, Value::from);
    assert_eq!(kept, case.get("kept").cloned().unwrap_or(Value::Null), "{name}: the task list");
}

#[tokio::test]
async fn invalid_arguments_are_reported_as_the_sdk_reports_them() {
    assert_case("words").await;
}

#[tokio::test]
async fn commands_are_answered_as_the_sdk_answers_them() {
    assert_case("terminal").await;
}

#[tokio::test]
async fn files_are_found_as_the_sdk_finds_them() {
    assert_case("searches").await;
}

#[tokio::test]
async fn the_task_list_equals_the_sdks() {
    assert_case("tasks").await;
}

#[tokio::test]
async fn files_are_shown_as_the_sdk_shows_them() {
    assert_case("editor-view").await;
}

#[tokio::test]
async fn files_are_changed_as_the_sdk_changes_them() {
    assert_case("editor-change").await;
    assert_case("editor-encodings").await;
}

/// A JSON value without its descriptions.
fn bare(value: &Value) -> Value {
    match value {
        Value::Object(members) => members
            .iter()
            .filter(|(key, value)| *key != "description" || !value.is_string())
            .map(|(key, value)| (key.clone(), bare(value)))
            .collect(),
        Value::Array(elements) => elements.iter().map(bare).collect(),
        plain => plain.clone(),
    }
}

#[test]
fn names_and_arguments_equal_the_sdks() {
    let mut bench = Bench::new(false);
    let no_skills: SkillSource = Arc::new(|name, _| Box::pin(ready(Err(InvokeSkill::unknown(name, &[])))));
    bench.toolbox.add(vec![Arc::new(InvokeSkill::new(no_skills))]).unwrap();
    let schemas = bench.toolbox.schemas(RiskField::Asked);
    for tool in case("schemas")["tools"].as_array().unwrap() {
        let name = tool["definition"]["kind"].as_str().unwrap();
        let Some(ours) = bench.toolbox.iter().find(|ours| *ours.definition().kind == *name) else { continue };
        assert_eq!(bare(&ours.definition().to_json().to_value()), tool["definition"], "{name}");
        let schema = schemas.iter().find(|schema| *schema.name == *ours.name()).unwrap();
        assert_eq!(bare(&schema.parameters.to_value()), tool["parameters"], "{name}");
        let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        let order = schema.parameters.raw().get("properties").unwrap();
        let order: Vec<String> = order.members().map(|(key, _)| key.into_owned()).collect();
        let mut sorted = order.clone();
        sorted.sort();
        assert_eq!(sorted, keys(&tool["parameters"]["properties"]), "{name}");
        assert_eq!(
            order.contains(&"security_risk".to_owned()),
            order[0] == "security_risk",
            "{name}: {order:?}"
        );
        assert!(!schema.description.is_empty());
    }
}
