//! The stored settings: `settings.json`, in the reference's shape. Secrets are sealed if there is a key.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::launch;
use crate::json::Raw;
use crate::secret::document::agent;
use crate::secret::{Cipher, Form};
use crate::server::App;
use crate::server::http::exposure::Exposure;
use crate::server::http::failure::Failure;
use crate::server::http::shape;
use crate::server::live::keep;

const FILE: &str = "settings.json";

/// The version of the written file. The reference's 1.58 writes the same.
const VERSION: u64 = 1;

/// The settings, with secrets in plain text.
#[derive(Debug, Clone)]
pub(in crate::server) struct Document(Map<String, Value>);

impl Document {
    /// Reads the stored settings, with defaults for missing ones.
    ///
    /// # Errors
    /// 500 if the file cannot be read.
    pub async fn load(app: &Arc<App>) -> Result<Self, Failure> {
        Ok(Self::opened(keep::read(app, FILE).await?, app.config().cipher.as_ref()))
    }

    /// Changes the stored settings. Returns the new settings.
    ///
    /// # Errors
    /// The errors of `change`; 500 if the file cannot be read or written.
    pub async fn change(
        app: &Arc<App>,
        change: impl FnOnce(&mut Self) -> Result<(), Failure> + Send + 'static,
    ) -> Result<Self, Failure> {
        let cipher = app.config().cipher.clone();
        keep::change(app, FILE, move |members| {
            let mut document = Self::opened(std::mem::take(members), cipher.as_ref());
            change(&mut document)?;
            *members = document.0.clone();
            members.insert("schema_version".to_owned(), json!(VERSION));
            if let (Some(cipher), Some(settings)) = (&cipher, members.get_mut("agent_settings")) {
                *settings = in_form(settings, Form::Stored(Some(cipher)));
            }
            Ok(document)
        })
        .await
    }

    fn opened(mut members: Map<String, Value>, cipher: Option<&Cipher>) -> Self {
        let defaults = defaults();
        for (name, value) in defaults {
            members.entry(name).or_insert(value);
        }
        if let (Some(cipher), Some(settings)) = (cipher, members.get_mut("agent_settings")) {
            *settings = in_form(settings, Form::Open(cipher));
        }
        if let Some(settings) = members.get_mut("agent_settings") {
            // Settings that cannot be migrated to this version are shown as they are.
            let mut migrated = settings.clone();
            if launch::check_settings(&mut migrated, &["agent_settings"]).is_ok() {
                *settings = migrated;
            }
        }
        if let Some(settings) = members.get_mut("conversation_settings") {
            shape::complete("ConversationSettings", settings);
        }
        Self(members)
    }

    /// Returns the response body of the route.
    pub fn to_json(&self, exposure: Exposure<'_>) -> Value {
        let settings = self.get("agent_settings");
        let shown = match exposure.form(Form::Redacted) {
            Some(form) => in_form(settings, form),
            None => settings.clone(),
        };
        json!({
            "agent_settings": shown,
            "conversation_settings": self.get("conversation_settings"),
            "llm_api_key_is_set": settings.pointer("/llm/api_key").is_some_and(|key| {
                key.as_str().is_some_and(|key| !key.trim().is_empty())
            }),
            "active_profile": self.get("active_profile"),
            "active_agent_profile_id": self.get("active_agent_profile_id"),
            "active_meta_profile": self.get("active_meta_profile"),
            "misc_settings": self.get("misc_settings"),
        })
    }

    /// Returns the profile that was activated last.
    pub fn active_profile(&self) -> Value {
        self.get("active_profile").clone()
    }

    /// Renames the active profile if its name is `old`. If `new` is `None`, no profile is active afterwards.
    ///
    /// # Errors
    /// None. It returns a `Result` so that it can be used in [`Document::change`].
    pub fn rename_active(&mut self, old: &str, new: Option<&str>) -> Result<(), Failure> {
        if self.get("active_profile").as_str() == Some(profile_name(old)) {
            self.0.insert("active_profile".to_owned(), new.map(profile_name).into());
        }
        Ok(())
    }

    /// Activates a profile and makes its model the agent's model.
    ///
    /// # Errors
    /// None. It returns a `Result` so that it can be used in [`Document::change`].
    pub fn activate(&mut self, profile: &str, llm: Value) -> Result<(), Failure> {
        self.0.insert("active_profile".to_owned(), profile_name(profile).into());
        if let Some(settings) = self.0.get_mut("agent_settings").and_then(Value::as_object_mut) {
            settings.insert("llm".to_owned(), llm);
        }
        Ok(())
    }

    /// Merges a diff into a part of the settings. Objects are merged recursively; null removes a member. If the kind of
    /// agent changes, the old agent settings are dropped first. If the kind of condenser changes, its old settings are.
    ///
    /// # Errors
    /// 422 if the resulting settings are invalid.
    pub fn merge(&mut self, part: &str, diff: &Value) -> Result<(), Failure> {
        let place = self.0.entry(part).or_insert_with(|| json!({}));
        let changes_kind = |place: &Value, diff: &Value, name: &str| {
            diff.get(name).is_some_and(|kind| !kind.is_null() && place.get(name) != Some(kind))
        };
        match part {
            "agent_settings" => {
                if changes_kind(place, diff, "agent_kind") {
                    *place = json!({});
                }
                if let (Some(before), Some(chosen)) = (place.get_mut("condenser"), diff.get("condenser"))
                    && changes_kind(before, chosen, "condenser_kind")
                {
                    let enabled = before.get("enabled").cloned().unwrap_or(Value::Bool(true));
                    *before = json!({ "enabled": enabled });
                }
                merge_into(place, diff);
                blank_keys(place);
                launch::check_settings(place, &["body", "agent_settings_diff"]).map_err(invalid)
            }
            "conversation_settings" => {
                // The top-level fields cannot be removed.
                for (name, value) in diff.as_object().into_iter().flatten() {
                    if let Some(members) = place.as_object_mut() {
                        merge_into(members.entry(name.clone()).or_insert(Value::Null), value);
                    }
                }
                shape::complete("ConversationSettings", place);
                shape::check("ConversationSettings", place, &["body", "conversation_settings_diff"])
                    .map_err(invalid)
            }
            _ => {
                merge_into(place, diff);
                Ok(())
            }
        }
    }

    /// Sets a pointer, such as `active_profile`. Null clears it.
    pub fn point(&mut self, name: &str, value: &Value) {
        self.0.insert(name.to_owned(), value.clone());
    }

    /// Returns the value of a pointer; `None` if it is not set.
    pub fn pointer(&self, name: &str) -> Option<&str> {
        self.get(name).as_str()
    }

    /// Returns the agent settings, with secrets in plain text.
    pub fn agent_settings(&self) -> &Value {
        self.get("agent_settings")
    }

    /// Returns the conversation settings.
    pub fn conversation_settings(&self) -> &Value {
        self.get("conversation_settings")
    }

    /// Resets the agent settings to the defaults. Keeps the MCP servers.
    pub fn reset_agent(&mut self) {
        let servers = self.agent_settings().get("mcp_config").cloned().unwrap_or_else(|| json!({}));
        let mut fresh = shape::default("OpenHandsAgentSettings");
        fresh["mcp_config"] = servers;
        self.0.insert("agent_settings".to_owned(), fresh);
    }

    fn get(&self, name: &str) -> &Value {
        self.0.get(name).unwrap_or(&Value::Null)
    }
}

/// Returns the name of a profile. Like the reference, it also accepts the name of the profile's file.
fn profile_name(profile: &str) -> &str {
    profile.strip_suffix(".json").unwrap_or(profile)
}

fn in_form(settings: &Value, form: Form<'_>) -> Value {
    let text = settings.to_string();
    let shown = Raw::parse(&text).map(|raw| agent(raw, form));
    // The text was made from a value, so it is valid JSON.
    shown.ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

fn merge_into(place: &mut Value, diff: &Value) {
    match (place, diff) {
        (Value::Object(members), Value::Object(diff)) => {
            for (name, value) in diff {
                if value.is_null() {
                    members.remove(name);
                } else {
                    merge_into(members.entry(name.clone()).or_insert(Value::Null), value);
                }
            }
        }
        (place, diff) => *place = diff.clone(),
    }
}

/// Replaces blank keys by null.
fn blank_keys(settings: &mut Value) {
    for name in ["api_key", "aws_access_key_id", "aws_secret_access_key", "aws_session_token"] {
        if let Some(key) = settings.pointer_mut(&format!("/llm/{name}"))
            && key.as_str().is_some_and(|key| key.trim().is_empty())
        {
            *key = Value::Null;
        }
    }
}

/// Returns an error without details, as the reference does: the details could contain a secret.
fn invalid(_: Failure) -> Failure {
    Failure::unprocessable("Settings validation failed")
}

fn defaults() -> Map<String, Value> {
    let members = json!({
        "agent_settings": shape::default("OpenHandsAgentSettings"),
        "conversation_settings": shape::default("ConversationSettings"),
        "active_profile": null,
        "active_agent_profile_id": null,
        "active_meta_profile": null,
        "misc_settings": {},
    });
    match members {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_is_merged_and_null_removes_a_member() {
        let mut document = Document::opened(Map::new(), None);
        let diff = json!({"mcp_config": {"a": {"url": "http://a", "headers": {"X": "1", "Y": "2"}}}});
        document.merge("agent_settings", &diff).unwrap();
        let diff = json!({"mcp_config": {"a": {"headers": {"X": null}}}});
        document.merge("agent_settings", &diff).unwrap();
        assert_eq!(
            document.get("agent_settings")["mcp_config"],
            json!({"a": {"url": "http://a", "headers": {"Y": "2"}, "enabled": true}})
        );
        assert!(document.merge("conversation_settings", &json!({"max_iterations": 0})).is_err());
        assert!(document.merge("agent_settings", &json!({"llm": {"temperature": "hot"}})).is_err());
    }

    #[test]
    fn a_change_of_kind_drops_the_old_settings() {
        let mut document = Document::opened(Map::new(), None);
        document.merge("agent_settings", &json!({"condenser": {"max_size": 300}})).unwrap();
        document.merge("agent_settings", &json!({"condenser": {"condenser_kind": "no_op"}})).unwrap();
        let condenser = |document: &Document| document.agent_settings()["condenser"].clone();
        assert_eq!(condenser(&document), json!({"condenser_kind": "no_op", "enabled": true}));
        document
            .merge("agent_settings", &json!({"condenser": {"condenser_kind": "llm_summarizing"}}))
            .unwrap();
        assert_eq!(condenser(&document)["max_size"], json!(240));
        document.merge("agent_settings", &json!({"agent_kind": "acp", "acp_server": "codex"})).unwrap();
        assert_eq!(document.agent_settings()["agent_kind"], json!("acp"));
        assert!(document.agent_settings().get("llm").is_none());
    }

    #[test]
    fn a_key_is_shown_only_on_request() {
        let cipher = Cipher::new("key", &[]);
        let mut document = Document::opened(Map::new(), Some(&cipher));
        document.merge("agent_settings", &json!({"llm": {"api_key": "sk-123"}})).unwrap();
        let shown = |exposure| document.to_json(exposure)["agent_settings"]["llm"]["api_key"].clone();
        assert_eq!(shown(Exposure::Hidden), json!("**********"));
        assert_eq!(shown(Exposure::Plain), json!("sk-123"));
        let sealed = shown(Exposure::Sealed(&cipher));
        assert_eq!(cipher.open(sealed.as_str().unwrap()).unwrap().expose(), "sk-123");
        assert_eq!(document.to_json(Exposure::Hidden)["llm_api_key_is_set"], json!(true));
    }
}
