//! The settings as they are kept: `settings.json`, in the reference's shape, secrets sealed where there is a key.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::event::json::Raw;
use crate::llm::Settings;
use crate::secret::document::agent;
use crate::secret::{Cipher, Form};
use crate::server::App;
use crate::server::exposure::Exposure;
use crate::server::failure::Failure;
use crate::server::keep;

const FILE: &str = "settings.json";

/// The versions of the file and of its parts that are written; the reference's of 1.58.
const VERSION: u64 = 1;
const AGENT_VERSION: u64 = 9;

/// The model where nobody chose one; the reference's.
const MODEL: &str = "gpt-5.6";

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
        Self(members)
    }

    /// The answer of the route.
    pub fn to_json(&self, exposure: Exposure<'_>) -> Value {
        let settings = self.get("agent_settings");
        let shown = match exposure.form() {
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

    /// Merges a part with what differs: objects within objects, null takes an inner entry away.
    ///
    /// # Errors
    /// 400 where what comes of it is no settings.
    pub fn merge(&mut self, part: &str, diff: &Value) -> Result<(), Failure> {
        let diff = diff.as_object().ok_or_else(|| Failure::bad(format!("{part} must be an object")))?;
        let place = self.0.entry(part).or_insert_with(|| json!({}));
        for (name, value) in diff {
            match place.as_object_mut() {
                // Of the fields themselves none can be taken away.
                Some(members) => merge_into(members.entry(name.clone()).or_insert(Value::Null), value),
                None => return Err(Failure::bad(format!("{part} is no object"))),
            }
        }
        self.check()
    }

    /// Sets a pointer; null clears it.
    pub fn point(&mut self, name: &str, value: &Value) {
        self.0.insert(name.to_owned(), value.clone());
    }

    fn check(&self) -> Result<(), Failure> {
        let settings = self.get("agent_settings");
        if let Some(llm) = settings.get("llm") {
            Settings::parse(&llm.to_string()).map_err(|error| Failure::bad(error.to_string()))?;
        }
        let conversation = self.get("conversation_settings");
        let iterations = conversation.get("max_iterations");
        if iterations.is_some_and(|number| number.as_u64().is_none_or(|number| number == 0)) {
            return Err(Failure::bad("max_iterations must be a whole number of at least 1"));
        }
        if conversation.get("confirmation_mode").is_some_and(|mode| !mode.is_boolean()) {
            return Err(Failure::bad("confirmation_mode must be true or false"));
        }
        Ok(())
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

fn defaults() -> Map<String, Value> {
    let llm: Value = serde_json::from_str(&Settings::new(MODEL).to_plain_json()).unwrap_or_default();
    let members = json!({
        "agent_settings": {
            "schema_version": AGENT_VERSION,
            "agent_kind": "openhands",
            "agent": "CodeActAgent",
            "llm": llm,
            "tools": null,
            "tool_concurrency_limit": 1,
            "mcp_config": {},
            "agent_context": {
                "skills": [], "system_message_suffix": null, "user_message_suffix": null,
                "load_user_skills": false, "load_public_skills": false, "load_project_skills": false,
                "load_memory": false, "disabled_skills": [], "secrets": null,
            },
            "condenser": {
                "condenser_kind": "llm_summarizing", "enabled": true, "max_size": 240, "keep_first": 2,
            },
        },
        "conversation_settings": {
            "schema_version": 1, "max_iterations": 500, "confirmation_mode": false, "security_analyzer": "llm",
        },
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
            json!({"a": {"url": "http://a", "headers": {"Y": "2"}}})
        );
        assert!(document.merge("conversation_settings", &json!({"max_iterations": 0})).is_err());
        assert!(document.merge("agent_settings", &json!({"llm": {"temperature": "hot"}})).is_err());
    }

    #[test]
    fn a_key_is_shown_to_whoever_asks_for_it_only() {
        let cipher = Cipher::new("key", &[]);
        let mut document = Document::opened(Map::new(), Some(&cipher));
        document.merge("agent_settings", &json!({"llm": {"api_key": "sk-123"}})).unwrap();
        let shown = |exposure| document.to_json(exposure)["agent_settings"]["llm"]["api_key"].clone();
        assert_eq!(shown(Exposure::Hidden), Value::Null);
        assert_eq!(shown(Exposure::Plain), json!("sk-123"));
        let sealed = shown(Exposure::Sealed(&cipher));
        assert_eq!(cipher.open(sealed.as_str().unwrap()).unwrap().expose(), "sk-123");
        assert_eq!(document.to_json(Exposure::Hidden)["llm_api_key_is_set"], json!(true));
    }
}
