//! Servers of the Model Context Protocol that a plugin brings: `.mcp.json`.
//!
//! What `${NAME}` stands for is put in when the servers are started, not here: only `${SKILL_ROOT}`, the plugin's folder,
//! is known already.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::{PluginProblem, file};
use crate::event::Json;

/// What the reference's settings of a server may hold.
const KNOWN: &[&str] = &[
    "url",
    "transport",
    "command",
    "args",
    "env",
    "cwd",
    "description",
    "icon",
    "timeout",
    "sse_read_timeout",
    "keep_alive",
    "headers",
    "auth",
    "enabled",
];

/// A server that a plugin brings.
#[derive(Debug, Clone, PartialEq)]
pub struct Server {
    /// Its name.
    pub name: String,
    /// How it is reached, as an agent's `mcp_config` has it.
    pub config: Json,
    /// Whether its texts stand for themselves: no `${NAME}` in them is a secret's.
    pub is_literal: bool,
}

/// The servers of `.mcp.json`; an entry that is none is a problem of its own.
pub(super) fn read_all(folder: &Path, problems: &mut Vec<PluginProblem>) -> Vec<Server> {
    let path = folder.join(".mcp.json");
    if !path.exists() || !file::lies_within(&path, folder) {
        return Vec::new();
    }
    let mut problem = |reason: String| problems.push(PluginProblem { path: file::slashed(&path), reason });
    let members = match file::object(&path) {
        Ok(members) => members,
        Err(reason) => {
            problem(reason);
            return Vec::new();
        }
    };
    let Some(Value::Object(entries)) = members.get("mcpServers") else {
        if members.contains_key("mcpServers") {
            problem("mcpServers is not an object".to_owned());
        }
        return Vec::new();
    };
    let root = file::slashed(folder);
    let mut servers = Vec::new();
    for (name, entry) in entries {
        match read(&rooted(entry, &root)) {
            Ok(config) => {
                let name = name.replace("${SKILL_ROOT}", &root);
                servers.push(Server { name, config: Json::from(&config), is_literal: false });
            }
            Err(reason) => problem(format!("MCP server {name:?}: {reason}")),
        }
    }
    servers
}

/// An entry as an agent's settings hold it: what nobody knows is left out, other programs' words are the reference's.
fn read(entry: &Value) -> Result<Value, String> {
    let entry = entry.as_object().ok_or("it is not an object")?;
    let mut server: Map<String, Value> = Map::new();
    let transport = entry.get("transport").or_else(|| entry.get("type")).filter(|value| !value.is_null());
    for (name, value) in entry {
        if KNOWN.contains(&name.as_str()) && name != "transport" && !value.is_null() {
            server.insert(name.clone(), value.clone());
        }
    }
    if let Some(transport) = transport {
        let transport = match transport.as_str() {
            Some("shttp") => "http",
            Some(known @ ("stdio" | "http" | "streamable-http" | "sse")) => known,
            Some(_) | None => return Err("its transport is unknown".to_owned()),
        };
        server.insert("transport".to_owned(), transport.into());
    }
    let is_text =
        |name: &str| server.get(name).is_none_or(|value| value.as_str().is_some_and(|text| !text.is_empty()));
    let is_any_text = |name: &str| server.get(name).is_none_or(Value::is_string);
    let is_texts = |name: &str| match server.get(name) {
        None => true,
        Some(Value::Array(texts)) => texts.iter().all(Value::is_string),
        Some(Value::Object(texts)) => name != "args" && texts.values().all(Value::is_string),
        Some(_) => false,
    };
    let checks = [
        ("url", is_text("url")),
        ("command", is_text("command")),
        ("cwd", is_any_text("cwd")),
        ("description", is_any_text("description")),
        ("args", is_texts("args")),
        ("env", is_texts("env") && !server.get("env").is_some_and(Value::is_array)),
        ("headers", is_texts("headers") && !server.get("headers").is_some_and(Value::is_array)),
        ("timeout", server.get("timeout").is_none_or(Value::is_number)),
        ("auth", server.get("auth").is_none_or(Value::is_object)),
        ("enabled", server.get("enabled").is_none_or(Value::is_boolean)),
    ];
    if let Some((name, _)) = checks.iter().find(|(_, is_fine)| !is_fine) {
        return Err(format!("its {name} is not what it should be"));
    }
    if !server.contains_key("command") && !server.contains_key("url") {
        return Err("it has neither 'command' nor 'url'".to_owned());
    }
    // What holds anyway is not written.
    if server.get("enabled") == Some(&json!(true)) {
        server.remove("enabled");
    }
    Ok(Value::Object(server))
}

/// A value with the plugin's folder put in.
fn rooted(value: &Value, root: &str) -> Value {
    let text = |text: &str| text.replace("${SKILL_ROOT}", root);
    match value {
        Value::String(known) => Value::String(text(known)),
        Value::Array(list) => list.iter().map(|value| rooted(value, root)).collect(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| (text(name), rooted(value, root))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}
