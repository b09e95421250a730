//! The portable layout of agent-plugins.org, version 1.0.0. It has a manifest with a fixed set of fields at the root.
//! Its servers start in the plugin's own folder or in its data folder, and the variables in their texts name only these
//! two. Plugins that several programs share have this layout, so whatever loads a plugin may meet it.
//!
//! The texts of a portable plugin are not expanded as in the reference's layout: `${NAME}` in them is no secret's name.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::manifest::{FILE, Manifest};
use super::source::cache_name;
use super::{PluginError, PluginProblem, Server, file};
use crate::event::Json;

/// The folder of a portable plugin for its parts that only OpenHands knows. Also the name of the manifest's extension.
pub(super) const NAMESPACE: &str = "dev.openhands";

const MANIFEST_SCHEMA: &str = "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json";
const SERVERS_SCHEMA: &str = "https://agent-plugins.org/schemas/1.0.0/mcp.schema.json";

/// The fields that a manifest may have.
const KNOWN: &[&str] = &[
    "$schema",
    "name",
    "version",
    "description",
    "author",
    "homepage",
    "repository",
    "license",
    "keywords",
    "extensions",
];

/// The headers that only the client itself may set.
const OWN_HEADERS: &[&str] = &[
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    "keep-alive",
    "last-event-id",
    "mcp-protocol-version",
    "mcp-session-id",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Returns whether the folder has the portable layout, valid or not. True if the `plugin.json` at its root has a
/// `$schema`, is no readable JSON object, or lies outside of the folder. A JSON object without `$schema` belongs to
/// another program.
pub(super) fn is_one(folder: &Path) -> bool {
    let path = folder.join(FILE);
    if !path.is_file() {
        return false;
    }
    // A file outside of the folder is not read, not even for this. The manifest is then refused.
    if !file::lies_within(&path, folder) {
        return true;
    }
    match file::object(&path) {
        Ok(members) => members.contains_key("$schema"),
        Err(_) => true,
    }
}

/// Reads the manifest. Fields that the standard says to ignore become problems. Any other error is returned.
pub(super) fn manifest(folder: &Path, problems: &mut Vec<PluginProblem>) -> Result<Manifest, PluginError> {
    let path = folder.join(FILE);
    let wrong = |reason: String| PluginError::Manifest { path: path.clone(), reason };
    if !file::lies_within(&path, folder) {
        return Err(wrong("it resolves outside the plugin root".to_owned()));
    }
    let mut members = file::object(&path).map_err(wrong)?;
    let mut ignored = |reason: &str| {
        problems.push(PluginProblem { path: file::slashed(&path), reason: reason.to_owned() });
    };
    if members.get("$schema").and_then(Value::as_str) != Some(MANIFEST_SCHEMA) {
        return Err(wrong(format!("Unsupported or missing $schema. Supported: {MANIFEST_SCHEMA}")));
    }
    members.retain(|name, _| {
        let is_known = KNOWN.contains(&name.as_str());
        if !is_known {
            ignored(&format!("unknown field {name:?} is ignored"));
        }
        is_known
    });
    if members.get("extensions").is_some_and(|extensions| !extensions.is_object()) {
        ignored("extensions is no object and is ignored");
        members.remove("extensions");
    }
    check(&members).map_err(wrong)?;
    let own = members.get("extensions").and_then(|extensions| extensions.get(NAMESPACE));
    let entry = match own.and_then(|own| own.get("entry_command")) {
        None | Some(Value::Null) => None,
        Some(Value::String(command)) => Some(command.clone()).filter(|command| !command.is_empty()),
        Some(_) => {
            ignored("entry_command is no text and is ignored");
            None
        }
    };
    let manifest = Manifest::of(members).map_err(wrong)?;
    Manifest { entry_command: entry, ..manifest }.checked(&path)
}

/// Checks the members against the standard's schema.
fn check(members: &Map<String, Value>) -> Result<(), String> {
    let name = members.get("name").and_then(Value::as_str).ok_or("name is missing or no text")?;
    let is_edge =
        |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let is_inner = |byte: u8| is_edge(Some(byte)) || byte == b'.' || byte == b'-';
    let is_name = name.len() <= 64
        && is_edge(name.bytes().next())
        && is_edge(name.bytes().last())
        && name.bytes().all(is_inner)
        && !name.contains("--")
        && !name.contains("..");
    if !is_name {
        return Err(format!("{name:?} is no name of a portable plugin"));
    }
    for text in ["version", "description", "homepage", "repository", "license"] {
        file::member(members, text)?;
    }
    match members.get("author") {
        None => {}
        Some(Value::Object(author)) => {
            let is_known = |(name, value): (&String, &Value)| {
                matches!(name.as_str(), "name" | "email" | "url") && value.is_string()
            };
            if !author.iter().all(is_known) {
                return Err("author may hold name, email and url, each a text".to_owned());
            }
        }
        Some(_) => return Err("author is no object".to_owned()),
    }
    let is_texts = |value: &Value| value.as_array().is_some_and(|texts| texts.iter().all(Value::is_string));
    if members.get("keywords").is_some_and(|keywords| !is_texts(keywords)) {
        return Err("keywords is no list of texts".to_owned());
    }
    let extensions = members.get("extensions").and_then(Value::as_object).into_iter().flatten();
    for (name, extension) in extensions {
        if !extension.is_object() {
            return Err(format!("the extension {name:?} is no object"));
        }
    }
    Ok(())
}

/// Reads the servers of `mcp.json`. `data_root` has a data folder for each plugin.
pub(super) fn servers(
    folder: &Path,
    data_root: Option<&Path>,
    problems: &mut Vec<PluginProblem>,
) -> Vec<Server> {
    let path = folder.join("mcp.json");
    if !path.is_file() || !file::lies_within(&path, folder) {
        return Vec::new();
    }
    let mut problem = |reason: String| problems.push(PluginProblem { path: file::slashed(&path), reason });
    let entries = match entries(&path) {
        Ok(entries) => entries,
        Err(reason) => {
            problem(reason);
            return Vec::new();
        }
    };
    let root = Root { folder, data: data_root.map(|root| root.join(cache_name(&file::slashed(folder)))) };
    let mut servers = Vec::new();
    for (name, entry) in &entries {
        match root.server(entry) {
            Ok(config) => {
                servers.push(Server { name: name.clone(), config: Json::from(&config), is_literal: true });
            }
            Err(reason) => problem(format!("MCP server {name:?}: {reason}")),
        }
    }
    servers
}

fn entries(path: &Path) -> Result<Map<String, Value>, String> {
    let mut document = file::object(path)?;
    if document.get("$schema").and_then(Value::as_str) != Some(SERVERS_SCHEMA) {
        return Err(format!("Unsupported or missing $schema. Supported: {SERVERS_SCHEMA}"));
    }
    let entries = match document.remove("mcpServers") {
        Some(Value::Object(entries)) => entries,
        Some(_) | None => return Err("mcpServers is missing or no object".to_owned()),
    };
    match document.keys().find(|name| *name != "$schema") {
        Some(name) => Err(format!("unknown field {name:?}")),
        None => Ok(entries),
    }
}

/// The two folders that a server may refer to.
struct Root<'a> {
    folder: &'a Path,
    data: Option<PathBuf>,
}

impl Root<'_> {
    /// Converts an entry to the form of an agent's settings.
    fn server(&self, entry: &Value) -> Result<Value, String> {
        let entry = entry.as_object().ok_or("it is not an object")?;
        let known: &[&str] = match entry.get("type").and_then(Value::as_str) {
            Some("stdio") => &["type", "command", "args", "env", "cwd"],
            Some("streamable-http" | "sse") => &["type", "url", "headers"],
            Some(_) | None => return Err("its type is none of stdio, streamable-http and sse".to_owned()),
        };
        if let Some(name) = entry.keys().find(|name| !known.contains(&name.as_str())) {
            return Err(format!("unknown field {name:?}"));
        }
        match entry.get("type").and_then(Value::as_str) {
            Some("stdio") => self.program(entry),
            Some("streamable-http") => address(entry),
            Some(_) | None => Err("unsupported transport 'sse'".to_owned()),
        }
    }

    fn program(&self, entry: &Map<String, Value>) -> Result<Value, String> {
        let command = filled(entry, "command")?;
        let data = self.data.as_deref().ok_or("there is no folder for its data")?;
        let args = match entry.get("args") {
            None => Vec::new(),
            Some(Value::Array(args)) => args
                .iter()
                .map(|arg| arg.as_str().map(|arg| self.expanded(arg, data)).ok_or("its args are no texts"))
                .collect::<Result<Vec<_>, _>>()?,
            Some(_) => return Err("its args are no list".to_owned()),
        };
        let mut env = Map::new();
        for (name, value) in texts(entry, "env")? {
            if name == "PLUGIN_ROOT" || name == "PLUGIN_DATA" {
                return Err(format!("its env may not set {name}"));
            }
            env.insert(name, self.expanded(&value, data).into());
        }
        env.insert("PLUGIN_ROOT".to_owned(), file::slashed(self.folder).into());
        env.insert("PLUGIN_DATA".to_owned(), file::slashed(data).into());
        let command = match command.strip_prefix("./") {
            Some(inner) => file::slashed(&contained(&self.folder.join(inner), self.folder, "command")?),
            None if command.contains(['/', '\\']) => {
                return Err(
                    "its command is neither a program's name nor a path that begins with './'".to_owned()
                );
            }
            None => command,
        };
        let cwd = match file::member(entry, "cwd")? {
            None => self.folder.to_owned(),
            Some(cwd) => self.cwd(&cwd, data)?,
        };
        fs::create_dir_all(data).map_err(|error| format!("cannot create PLUGIN_DATA: {error}"))?;
        Ok(json!({
            "transport": "stdio", "command": command, "args": args, "env": env, "cwd": file::slashed(&cwd),
        }))
    }

    fn cwd(&self, cwd: &str, data: &Path) -> Result<PathBuf, String> {
        let is_of = |variable: &str| {
            cwd.strip_prefix(variable).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        if let Some(inner) = cwd.strip_prefix("./") {
            return contained(&self.folder.join(self.expanded(inner, data)), self.folder, "cwd");
        }
        if is_of("${PLUGIN_DATA}") {
            fs::create_dir_all(data).map_err(|error| format!("cannot create PLUGIN_DATA: {error}"))?;
            return contained(Path::new(&self.expanded(cwd, data)), data, "cwd");
        }
        if is_of("${PLUGIN_ROOT}") {
            return contained(Path::new(&self.expanded(cwd, data)), self.folder, "cwd");
        }
        Err("its cwd begins with neither './' nor ${PLUGIN_ROOT} nor ${PLUGIN_DATA}".to_owned())
    }

    /// Replaces the variables of both folders once. The replacement texts are not expanded again.
    fn expanded(&self, text: &str, data: &Path) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find("${PLUGIN_") {
            out.push_str(&rest[..at]);
            let (value, length) = if rest[at..].starts_with("${PLUGIN_ROOT}") {
                (file::slashed(self.folder), "${PLUGIN_ROOT}".len())
            } else if rest[at..].starts_with("${PLUGIN_DATA}") {
                (file::slashed(data), "${PLUGIN_DATA}".len())
            } else {
                ("${".to_owned(), 2)
            };
            out.push_str(&value);
            rest = &rest[at + length..];
        }
        out.push_str(rest);
        out
    }
}

/// Returns the path without `..` and links. It must lie in `root`, and need not exist.
fn contained(path: &Path, root: &Path, field: &str) -> Result<PathBuf, String> {
    let escapes = || format!("its {field} leads out of its folder");
    let root = fs::canonicalize(root).map_err(|_| escapes())?;
    let mut resolved = PathBuf::new();
    for part in path.components() {
        resolved.push(part);
        match part {
            std::path::Component::ParentDir => {
                resolved.pop();
                resolved.pop();
            }
            std::path::Component::CurDir => drop(resolved.pop()),
            _ => {}
        }
        if let Ok(real) = fs::canonicalize(&resolved) {
            resolved = real;
        }
    }
    if resolved.starts_with(&root) { Ok(resolved) } else { Err(escapes()) }
}

/// Checks and converts a server that is reached by a URL.
fn address(entry: &Map<String, Value>) -> Result<Value, String> {
    let url = filled(entry, "url")?;
    let host = host(&url).ok_or("its url is no absolute http(s) URL")?;
    let authority = url.split("//").nth(1).and_then(|rest| rest.split(['/', '?', '#']).next());
    if authority.is_some_and(|authority| authority.contains('@')) {
        return Err("its url must not contain user information".to_owned());
    }
    if url.contains('#') {
        return Err("its url must not contain a fragment".to_owned());
    }
    let is_loopback =
        host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    if url.starts_with("http:") && !is_loopback {
        return Err(format!("its url must use https: {host} is remote"));
    }
    let mut headers = Map::new();
    let mut seen: Vec<String> = Vec::new();
    for (name, value) in texts(entry, "headers")? {
        let is_token = !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte));
        if !is_token {
            return Err(format!("header name {name:?} is not a valid HTTP token"));
        }
        let lower = name.to_ascii_lowercase();
        if seen.contains(&lower) {
            return Err(format!("header {name:?} is declared more than once"));
        }
        if !value
            .chars()
            .all(|letter| letter == ' ' || letter == '\t' || ('\u{21}'..='\u{7e}').contains(&letter))
        {
            return Err(format!("header {name:?} has a value that is not a field value"));
        }
        if !OWN_HEADERS.contains(&lower.as_str()) {
            headers.insert(name, value.into());
        }
        seen.push(lower);
    }
    let mut server = json!({"url": url, "transport": "streamable-http"});
    if !headers.is_empty() {
        server["headers"] = headers.into();
    }
    Ok(server)
}

/// Returns the host of an absolute `http` or `https` URL, without the port.
fn host(url: &str) -> Option<&str> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"))?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let authority = authority.rsplit('@').next()?;
    let host = match authority.strip_prefix('[') {
        Some(inner) => inner.split(']').next()?,
        None => authority.split(':').next()?,
    };
    (!host.is_empty()).then_some(host)
}

/// Returns a member that must be a text and not empty.
fn filled(entry: &Map<String, Value>, name: &str) -> Result<String, String> {
    let text = file::member(entry, name)?.filter(|text| !text.is_empty());
    text.ok_or_else(|| format!("its {name} is missing"))
}

/// Returns the members of an object that may hold only texts. Empty if the object is missing.
fn texts(entry: &Map<String, Value>, name: &str) -> Result<Vec<(String, String)>, String> {
    let wrong = || format!("its {name} is no object of texts");
    match entry.get(name) {
        None => Ok(Vec::new()),
        Some(Value::Object(members)) => {
            let pairs = members.iter().map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
            pairs.collect::<Option<_>>().ok_or_else(wrong)
        }
        Some(_) => Err(wrong()),
    }
}
