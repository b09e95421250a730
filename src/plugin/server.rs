//! A plugin's servers of the Model Context Protocol: `.mcp.json`.
//!
//! `${NAME}` is replaced when the servers are started, not here. Only `${SKILL_ROOT}`, the plugin's folder, is replaced
//! here.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::{PluginProblem, file};
use crate::event::Json;

/// The fields that the reference's settings of a server may have.
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

/// A server of a plugin.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Server {
    /// The name.
    pub name: String,
    /// The configuration, in the form of an agent's `mcp_config`.
    pub config: Json,
    /// Whether its texts are used as they are. If so, `${NAME}` in them is no secret's name.
    pub is_literal: bool,
}

/// Reads the servers of `.mcp.json`. Each invalid entry is a problem of its own.
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

/// Converts an entry to the form of an agent's settings. Unknown fields are left out, and other programs' names for
/// transports are replaced by the reference's.
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
        return Err(format!("its {name} is invalid"));
    }
    if !server.contains_key("command") && !server.contains_key("url") {
        return Err("it has neither 'command' nor 'url'".to_owned());
    }
    // `true` is the default, so it is left out.
    if server.get("enabled") == Some(&json!(true)) {
        server.remove("enabled");
    }
    Ok(Value::Object(server))
}

/// Replaces `${SKILL_ROOT}` by the plugin's folder in a value.
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
