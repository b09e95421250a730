//! How the interface shows a conversation: the object of the REST routes, and the snapshot of the sockets.
//!
//! Both are built from stored data: the base state, the catalogue's row, and the request that created the conversation
//! ([`Meta`]). Source: `docs/reference/server.md#conversation` and `docs/reference/sockets.md#full-state`.

use serde_json::{Map, Value, json};

use super::meta::Meta;
use crate::agent::acp;
use crate::error::Result;
use crate::ids::ConversationId;
use crate::json::Raw;
use crate::secret::document::{self, Form};
use crate::state::Stats;
use crate::state::base::BaseDocument;
use crate::store::{Conversation, Store};

/// The fields of the snapshot, in order. Null values are left out.
const STATE_FIELDS: [&str; 21] = [
    "id",
    "agent",
    "workspace",
    "persistence_dir",
    "max_iterations",
    "stuck_detection",
    "execution_status",
    "confirmation_policy",
    "security_analyzer",
    "activated_knowledge_skills",
    "activated_path_rules",
    "invoked_skills",
    "blocked_actions",
    "blocked_messages",
    "last_user_message_id",
    "leaf_event_id",
    "head_is_empty",
    "stats",
    "secret_registry",
    "tags",
    "agent_state",
];

/// Whether the texts of skills are shown. They are long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) enum Skills {
    Shown,
    Hidden,
}

/// The stored data of a conversation, without its events.
pub(in crate::server) struct Stored {
    pub row: Conversation,
    pub document: Option<BaseDocument>,
    pub meta: Meta,
    /// The conversations that were started by this one.
    pub children: Vec<ConversationId>,
}

impl Stored {
    /// Reads the stored data of a conversation.
    pub fn read(store: &Store, id: &ConversationId) -> Result<Self> {
        Self::of_row(store, store.conversation(id)?)
    }

    /// Reads the stored data of a conversation whose row is already known.
    pub fn of_row(store: &Store, row: Conversation) -> Result<Self> {
        let document = store.base_state(&row.id)?.map(|state| state.document);
        Ok(Self { document, meta: Meta::read(store, &row.id)?, children: store.children(&row.id)?, row })
    }

    fn field(&self, name: &str) -> Option<Raw<'_>> {
        self.document.as_ref()?.field(name).filter(|value| !value.is_null())
    }

    fn value(&self, name: &str) -> Option<Value> {
        let field = self.document.as_ref()?.current_field(name).filter(|value| !value.raw().is_null())?;
        serde_json::from_str(field.text()).ok()
    }

    fn or(&self, name: &str, default: Value) -> Value {
        self.value(name).unwrap_or(default)
    }

    /// Returns the metrics of its models, by usage id.
    pub fn stats(&self) -> Value {
        self.or("stats", json!({"usage_to_metrics": {}}))
    }

    /// Returns the agent with its secrets in the given form.
    fn agent(&self, form: Form<'_>, skills: Skills) -> Value {
        let placeholder = || json!({"llm": {"model": "unknown"}, "tools": [], "kind": "Agent"});
        let Some(agent) = self.field("agent") else { return placeholder() };
        let mut agent: Value =
            serde_json::from_str(&document::agent(agent, form)).unwrap_or_else(|_| placeholder());
        for place in ["/llm", "/condenser/llm"] {
            if let Some(llm) = agent.pointer_mut(place).and_then(Value::as_object_mut) {
                // The reference computes this member. Clients that use its schema require it.
                llm.entry("is_subscription").or_insert(json!(false));
            }
        }
        if skills == Skills::Hidden
            && let Some(skills) = agent.pointer_mut("/agent_context/skills")
        {
            *skills = json!([]);
        }
        agent
    }

    /// Returns whether its agent is a separate program that speaks the Agent Client Protocol.
    pub fn is_acp(&self) -> bool {
        let kind = self.field("agent").and_then(|agent| agent.get("kind")).and_then(Raw::as_str);
        kind.as_deref() == Some(acp::KIND)
    }

    fn secrets(&self, form: Form<'_>) -> Value {
        let Some(registry) = self.field("secret_registry") else { return json!({"secret_sources": {}}) };
        serde_json::from_str(&document::registry(registry, form))
            .unwrap_or_else(|_| json!({"secret_sources": {}}))
    }

    /// Returns the folder of the conversation's files. If none is stored, a name of the usual form is returned.
    fn persistence_dir(&self) -> Value {
        self.or("persistence_dir", json!(format!("conversations/{}", self.row.id.folder_name())))
    }

    /// Returns the object of the REST routes.
    pub fn info(&self, skills: Skills, runtime: Runtime) -> Value {
        let meta = &self.meta;
        let tags: Value = serde_json::from_str(&self.row.tags).unwrap_or_else(|_| json!({}));
        let mut registry = self.secrets(Form::Null);
        for source in registry["secret_sources"].as_object_mut().into_iter().flat_map(Map::values_mut) {
            if let Some(source) = source.as_object_mut() {
                source.entry("description").or_insert(Value::Null);
            }
        }
        json!({
            "id": self.row.id.as_str(),
            "workspace": self.or("workspace", json!({"working_dir": "", "kind": "LocalWorkspace"})),
            "persistence_dir": self.persistence_dir(),
            "max_iterations": self.or("max_iterations", json!(500)),
            "stuck_detection": self.or("stuck_detection", json!(true)),
            "execution_status": self.row.status,
            "confirmation_policy": self.or("confirmation_policy", json!({"kind": "NeverConfirm"})),
            "security_analyzer": self.or("security_analyzer", Value::Null),
            "activated_knowledge_skills": self.or("activated_knowledge_skills", json!([])),
            "invoked_skills": self.or("invoked_skills", json!([])),
            "blocked_actions": self.or("blocked_actions", json!({})),
            "blocked_messages": self.or("blocked_messages", json!({})),
            "last_user_message_id": self.or("last_user_message_id", Value::Null),
            "leaf_event_id": self.row.leaf_event_id,
            "stats": self.stats(),
            "secret_registry": registry,
            "agent_state": self.or("agent_state", json!({})),
            "hook_config": self.or("hook_config", Value::Null),
            "title": self.row.title.as_ref().filter(|_| self.row.is_titled),
            "metrics": self.metrics(),
            "created_at": meta.or("created_at", self.row.created_at.to_rfc3339().into()),
            "updated_at": self.row.updated_at.to_rfc3339(),
            "forked_from_conversation_id": self.row.forked_from,
            "forked_from_event_id": self.row.forked_at,
            "parent_conversation_id": self.row.parent,
            "sub_conversation_ids": self.children.iter().map(ConversationId::as_str).collect::<Vec<_>>(),
            "tags": tags,
            "current_model_id": null,
            "available_models": [],
            "supports_runtime_model_switch": false,
            "launched_agent_profile": meta.get("launched_agent_profile"),
            "agent": self.agent(Form::Null, skills),
            "client_tools": meta.or("client_tools", json!([])),
            "tool_module_qualnames": meta.or("tool_module_qualnames", json!({})),
            "runtime_info": runtime.to_json(),
        })
    }

    /// Returns the total metrics of all model calls, without the single calls. Null before the first call.
    fn metrics(&self) -> Value {
        let text = self.value("stats").unwrap_or_default().to_string();
        let stats = Raw::parse(&text).map(Stats::read).unwrap_or_default();
        if stats.usage_to_metrics.is_empty() {
            return Value::Null;
        }
        serde_json::to_value(stats.combined().snapshot()).unwrap_or_default()
    }

    /// Returns the snapshot of the sockets: the whole state, with stars in place of secrets.
    pub fn full_state(&self) -> Value {
        let mut state = Map::new();
        for name in STATE_FIELDS {
            let value = match name {
                "id" => Some(json!(self.row.id.as_str())),
                "agent" => Some(self.agent(Form::Redacted, Skills::Shown)),
                "workspace" => Some(self.or(name, json!({"working_dir": "", "kind": "LocalWorkspace"}))),
                "persistence_dir" => Some(self.persistence_dir()),
                "max_iterations" => Some(self.or(name, json!(500))),
                "stuck_detection" => Some(self.or(name, json!(true))),
                "execution_status" => Some(json!(self.row.status)),
                "confirmation_policy" => Some(self.or(name, json!({"kind": "NeverConfirm"}))),
                "leaf_event_id" => self.row.leaf_event_id.as_ref().map(|id| json!(id)),
                "head_is_empty" => Some(json!(self.row.head_is_empty)),
                "stats" => Some(self.or(name, json!({"usage_to_metrics": {}}))),
                "secret_registry" => Some(self.secrets(Form::Redacted)),
                "tags" => serde_json::from_str(&self.row.tags).ok(),
                "blocked_actions" | "blocked_messages" | "agent_state" => Some(self.or(name, json!({}))),
                "activated_knowledge_skills" | "activated_path_rules" | "invoked_skills" => {
                    Some(self.or(name, json!([])))
                }
                _ => self.value(name),
            };
            state.extend(value.map(|value| (name.to_owned(), value)));
        }
        state.extend(self.value("hook_config").map(|value| ("hook_config".to_owned(), value)));
        Value::Object(state)
    }
}

/// Whether the object contains the status of the conversation's runtime. Answers to its creation do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) enum Runtime {
    Included,
    Omitted,
}

impl Runtime {
    fn to_json(self) -> Value {
        match self {
            Self::Included => available(),
            Self::Omitted => Value::Null,
        }
    }
}

/// Returns the runtime status of every conversation. It is always available, because it runs in this process.
pub(in crate::server) fn available() -> Value {
    json!({"runtime_status": "available", "can_resume": true, "runtime_error": null})
}
