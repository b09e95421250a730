//! Reads and writes the skills in an agent's settings, as the reference's JSON objects.

use super::{Skill, Trigger};
use crate::event::Json;
use crate::json::Raw;

/// Reads the skills of a list, in its order. Skips skills without a name or without a text. Of several skills with the
/// same name, only the first is read.
#[must_use]
pub fn read_all(list: Raw<'_>) -> Vec<Skill> {
    let mut skills: Vec<Skill> = Vec::new();
    for skill in list.elements().filter_map(read) {
        if skills.iter().all(|known| known.name != skill.name) {
            skills.push(skill);
        }
    }
    skills
}

fn read(raw: Raw<'_>) -> Option<Skill> {
    let text = |name: &str| raw.get(name).and_then(Raw::as_str).map(std::borrow::Cow::into_owned);
    let is_true = |name: &str| raw.get(name).is_some_and(|flag| flag.text() == "true");
    let skill = Skill {
        trigger: raw.get("trigger").filter(|trigger| trigger.is_object()).and_then(trigger),
        source: text("source"),
        description: text("description"),
        is_agentskills_format: is_true("is_agentskills_format"),
        disable_model_invocation: is_true("disable_model_invocation"),
        mcp_tools: raw.get("mcp_tools").filter(|tools| tools.is_object()).map(Json::from),
        has_inputs: raw.get("inputs").is_some_and(|inputs| inputs.elements().next().is_some()),
        ..Skill::new(text("name")?, text("content")?)
    };
    Some(skill.checked())
}

fn trigger(raw: Raw<'_>) -> Option<Trigger> {
    let texts = |name: &str| {
        let list = raw.get(name).into_iter().flat_map(Raw::elements);
        list.filter_map(Raw::as_str).map(std::borrow::Cow::into_owned).collect()
    };
    match raw.get("type").and_then(Raw::as_str).as_deref() {
        Some("keyword") => Some(Trigger::Keyword(texts("keywords"))),
        Some("task") => Some(Trigger::Task(texts("triggers"))),
        Some("path") => Some(Trigger::Path(texts("paths"))),
        Some(_) | None => None,
    }
}

/// Returns a skill in the reference's format, for an agent's settings.
#[must_use]
pub fn written(skill: &Skill) -> serde_json::Value {
    let mut members = serde_json::Map::new();
    let mut set = |name: &str, value: serde_json::Value| {
        if !value.is_null() {
            members.insert(name.to_owned(), value);
        }
    };
    set("name", skill.name.as_str().into());
    set("content", skill.content.as_str().into());
    let trigger = match &skill.trigger {
        None => serde_json::Value::Null,
        Some(Trigger::Keyword(words)) => serde_json::json!({"type": "keyword", "keywords": words}),
        Some(Trigger::Task(words)) => serde_json::json!({"type": "task", "triggers": words}),
        Some(Trigger::Path(paths)) => serde_json::json!({"type": "path", "paths": paths}),
    };
    set("trigger", trigger);
    set("source", skill.source.clone().into());
    set("mcp_tools", skill.mcp_tools.as_ref().map_or(serde_json::Value::Null, Json::to_value));
    set("is_agentskills_format", skill.is_agentskills_format.into());
    set("description", skill.description.clone().into());
    set("disable_model_invocation", skill.disable_model_invocation.into());
    serde_json::Value::Object(members)
}
