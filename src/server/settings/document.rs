//! The settings as they are kept: `settings.json`, in the reference's shape, secrets sealed where there is a key.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::event::json::Raw;
use crate::secret::document::agent;
use crate::secret::{Cipher, Form};
use crate::server::App;
use crate::server::exposure::Exposure;
use crate::server::failure::Failure;
use crate::server::keep;
use crate::server::launch;
use crate::server::shape;

const FILE: &str = "settings.json";

/// The version of the file that is written; the reference's of 1.58.
const VERSION: u64 = 1;
/// The settings, secrets as they are.
#[derive(Debug, Clone)]
pub(in crate::server) struct Document(Map<String, Value>);

impl Document {
    /// What is kept, or what holds where nothing is.
    ///
    /// # Errors
    /// 500 where the file cannot be read.
    pub async fn load(app: &Arc<App>) -> Result<Self, Failure> {
        Ok(Self::opened(keep::read(app, FILE).await?, app.config().cipher.as_ref()))
    }

    /// Changes what is kept; what it is then.
    ///
    /// # Errors
    /// What `change` refuses, and 500 where the file cannot be read or written.
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
            // What cannot be raised to this version is shown as it is.
            let mut raised = settings.clone();
            if launch::check_settings(&mut raised, &["agent_settings"]).is_ok() {
                *settings = raised;
            }
        }
        if let Some(settings) = members.get_mut("conversation_settings") {
            shape::complete("ConversationSettings", settings);
        }
        Self(members)
    }

    /// The answer of the route.
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

    /// The profile that was activated last.
    pub fn active_profile(&self) -> Value {
        self.get("active_profile").clone()
    }

    /// Another name for the active profile, where it is that one; none where it is gone.
    ///
    /// # Errors
    /// None; the shape is that of a change.
    pub fn rename_active(&mut self, old: &str, new: Option<&str>) -> Result<(), Failure> {
        if self.get("active_profile").as_str() == Some(own_name(old)) {
            self.0.insert("active_profile".to_owned(), new.map(own_name).into());
        }
        Ok(())
    }

    /// Lets a profile's model be the agent's.
    ///
    /// # Errors
    /// None; the shape is that of a change.
    pub fn activate(&mut self, profile: &str, llm: Value) -> Result<(), Failure> {
        self.0.insert("active_profile".to_owned(), own_name(profile).into());
        if let Some(settings) = self.0.get_mut("agent_settings").and_then(Value::as_object_mut) {
            settings.insert("llm".to_owned(), llm);
        }
        Ok(())
    }

    /// Merges a part with what differs: objects within objects, null takes an entry away. Settings of another kind of
    /// agent begin afresh, and so do those of another kind of condenser.
    ///
    /// # Errors
    /// 422 where what comes of it is no settings.
    pub fn merge(&mut self, part: &str, diff: &Value) -> Result<(), Failure> {
        let place = self.0.entry(part).or_insert_with(|| json!({}));
        let turns = |place: &Value, diff: &Value, name: &str| {
            diff.get(name).is_some_and(|kind| !kind.is_null() && place.get(name) != Some(kind))
        };
        match part {
            "agent_settings" => {
                if turns(place, diff, "agent_kind") {
                    *place = json!({});
                }
                if let (Some(before), Some(chosen)) = (place.get_mut("condenser"), diff.get("condenser"))
                    && turns(before, chosen, "condenser_kind")
                {
                    let enabled = before.get("enabled").cloned().unwrap_or(Value::Bool(true));
                    *before = json!({ "enabled": enabled });
                }
                merge_into(place, diff);
                blank_keys(place);
                launch::check_settings(place, &["body", "agent_settings_diff"]).map_err(invalid)
            }
            "conversation_settings" => {
                // Of the fields themselves none can be taken away.
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

    /// Sets a pointer; null clears it.
    pub fn point(&mut self, name: &str, value: &Value) {
        self.0.insert(name.to_owned(), value.clone());
    }

    /// What a pointer points at.
    pub fn pointer(&self, name: &str) -> Option<&str> {
        self.get(name).as_str()
    }

    /// The settings of agents, secrets as they are.
    pub fn agent_settings(&self) -> &Value {
        self.get("agent_settings")
    }

    /// The settings of conversations.
    pub fn conversation_settings(&self) -> &Value {
        self.get("conversation_settings")
    }

    /// Settings of agents as they are where nobody chose any, with the servers that are there.
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

/// The reference lets a profile be called by its file.
fn own_name(profile: &str) -> &str {
    profile.strip_suffix(".json").unwrap_or(profile)
}

fn in_form(settings: &Value, form: Form<'_>) -> Value {
    let text = settings.to_string();
    let shown = Raw::parse(&text).map(|raw| agent(raw, form));
    // What was a value a moment ago is JSON.
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

/// Blank keys are none.
fn blank_keys(settings: &mut Value) {
    for name in ["api_key", "aws_access_key_id", "aws_secret_access_key", "aws_session_token"] {
        if let Some(key) = settings.pointer_mut(&format!("/llm/{name}"))
            && key.as_str().is_some_and(|key| key.trim().is_empty())
        {
            *key = Value::Null;
        }
    }
}

/// The reference does not say what is wrong: it could be a secret.
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
    fn what_differs_is_merged_and_null_takes_away_within() {
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
    fn another_kind_begins_afresh() {
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
    fn a_key_is_shown_to_whoever_asks_for_it_only() {
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
