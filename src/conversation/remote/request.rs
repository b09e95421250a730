//! The request that creates a conversation at a server (`docs/reference/server.md#creating`).

use serde_json::{Map, Value, json};

use super::unsupported;
use crate::agent::AgentDocument;
use crate::conversation::error::Result;
use crate::conversation::open::Builder;
use crate::json::Raw;
use crate::remote::Server;
use crate::secret::{Form, Source, StoredSecret, document};

impl Builder {
    /// Rejects settings that cannot be sent to a server.
    pub(super) fn check_remote(&self) -> Result<()> {
        let parts = &self.parts;
        let given = [
            (self.host.is_some(), "keeping events in a store of this process (Server::mirror keeps a copy)"),
            (self.keep_dir.is_some(), "a persistence directory"),
            (parts.model.is_some() || parts.models.is_some(), "a model of this process"),
            (!parts.tools.is_empty(), "a tool of this process"),
            (parts.guide.is_some(), "a guide of this process"),
            (parts.max_budget.is_some(), "a budget"),
            (parts.definitions.iter().next().is_some(), "definitions of agents"),
        ];
        match given.into_iter().find(|(is_given, _)| *is_given) {
            Some((_, what)) => unsupported(what),
            None => Ok(()),
        }
    }

    /// Returns the body of the request.
    pub(super) fn remote_body(&self, agent: &AgentDocument, server: &Server) -> Result<String> {
        let agent = match &self.cipher {
            Some(cipher) => document::agent(agent.json().raw(), Form::Open(cipher)),
            None => agent.json().text().to_owned(),
        };
        let mut body = Map::new();
        let mut set = |name: &str, value: Value| body.insert(name.to_owned(), value);
        set("workspace", json!({"working_dir": server.folder(), "kind": "LocalWorkspace"}));
        set("max_iterations", json!(self.max_iterations));
        set("stuck_detection", json!(self.parts.thresholds.is_some()));
        set("secrets", secrets(&self.secrets)?);
        // No model is asked for a title, because the program did not request one.
        set("autotitle", json!(false));
        let plugins = self.parts.plugins.iter();
        let plugins = plugins.map(
            |plugin| json!({"source": plugin.source, "ref": plugin.reference, "repo_path": plugin.repo_path}),
        );
        if !self.parts.plugins.is_empty() {
            set("plugins", plugins.collect());
        }
        set("tags", self.tags.iter().map(|(key, value)| (key.clone(), json!(value))).collect());
        if let Some(id) = &self.id {
            set("conversation_id", json!(id.as_str()));
        }
        // JSON texts are sent unchanged, to keep the format of numbers and the order of members.
        let mut texts = vec![("agent", agent)];
        texts.extend(self.policy.as_ref().map(|policy| ("confirmation_policy", policy.to_json())));
        texts.extend(self.analyzer.as_ref().map(|analyzer| ("security_analyzer", analyzer.to_json())));
        texts.extend(self.parts.hooks.as_ref().map(|hooks| ("hook_config", hooks.to_json())));
        let rest = Value::Object(body).to_string();
        let texts: String = texts.iter().map(|(name, text)| format!("\"{name}\":{text},")).collect();
        Ok(format!("{{{texts}{}", &rest[1..]))
    }
}

/// Returns the JSON object of secret sources by name, with their values.
pub(super) fn secrets(secrets: &[(String, Source)]) -> Result<Value> {
    let mut sent = Map::new();
    for (name, source) in secrets {
        sent.insert(name.clone(), self::source(source)?);
    }
    Ok(Value::Object(sent))
}

fn source(source: &Source) -> Result<Value> {
    let mut sent = Map::new();
    if let Some(description) = source.description() {
        sent.insert("description".to_owned(), json!(description));
    }
    match source {
        Source::Static { value, .. } => {
            sent.insert("kind".to_owned(), json!("StaticSecret"));
            sent.insert("value".to_owned(), open(value)?);
        }
        Source::Lookup { url, headers, .. } => {
            let headers: Result<Map<_, _>> =
                headers.iter().map(|(name, value)| Ok((name.clone(), open(value)?))).collect();
            sent.insert("kind".to_owned(), json!("LookupSecret"));
            sent.insert("url".to_owned(), json!(url));
            sent.insert("headers".to_owned(), Value::Object(headers?));
        }
    }
    Ok(Value::Object(sent))
}

fn open(value: &StoredSecret) -> Result<Value> {
    match value {
        StoredSecret::Open(secret) => Ok(json!(secret.expose())),
        StoredSecret::Sealed(_) => unsupported("a secret that is sealed with an unknown key"),
        StoredSecret::Lost => Ok(Value::Null),
    }
}

/// Parses the text of a server's answer. `None` if it is not JSON.
pub(super) fn parsed(text: &str) -> Option<Raw<'_>> {
    Raw::parse(text).ok()
}
