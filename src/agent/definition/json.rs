//! Agents in the JSON of requests and stored states: the reference's objects (`agent_definitions`).

use super::{Condensing, Definition, permission};
use crate::event::Json;
use crate::json::Raw;

impl Definition {
    /// Reads the reference's object.
    ///
    /// # Errors
    /// A message that says what is wrong.
    pub fn from_raw(raw: Raw<'_>) -> Result<Self, String> {
        let get = |name: &str| raw.get(name).filter(|value| !value.is_null());
        let text = |name: &str| get(name).and_then(Raw::as_str).map(std::borrow::Cow::into_owned);
        let texts = |name: &str| -> Vec<String> {
            let list = get(name).into_iter().flat_map(Raw::elements);
            list.filter_map(Raw::as_str).map(std::borrow::Cow::into_owned).collect()
        };
        let definition = Self {
            name: text("name").ok_or("an agent's definition needs a name")?,
            description: text("description").unwrap_or_default(),
            model: text("model").unwrap_or_else(|| "inherit".to_owned()),
            color: text("color"),
            tools: texts("tools"),
            skills: texts("skills"),
            system_prompt: text("system_prompt").unwrap_or_default(),
            source: text("source"),
            when_to_use_examples: texts("when_to_use_examples"),
            hooks: get("hooks").map(Json::from),
            permission_mode: text("permission_mode").map(|mode| permission(&mode)).transpose()?,
            max_iteration_per_run: get("max_iteration_per_run")
                .and_then(Raw::as_i64)
                .map(|steps| u64::try_from(steps).unwrap_or(0)),
            max_budget_per_run: get("max_budget_per_run").and_then(Raw::as_f64),
            mcp_config: get("mcp_config").map(Json::from),
            profile_store_dir: text("profile_store_dir"),
            condenser: match get("condenser") {
                None => Condensing::Default,
                Some(condenser) if text_of(condenser, "kind").as_deref() == Some("NoOpCondenser") => {
                    Condensing::Never
                }
                Some(condenser) => Condensing::As(Json::from(condenser)),
            },
            metadata: match get("metadata").map(|metadata| Json::from(metadata).to_value()) {
                Some(serde_json::Value::Object(metadata)) => metadata,
                Some(_) | None => serde_json::Map::new(),
            },
        };
        definition.checked()
    }
}

fn text_of(raw: Raw<'_>, name: &str) -> Option<String> {
    raw.get(name).and_then(Raw::as_str).map(std::borrow::Cow::into_owned)
}
