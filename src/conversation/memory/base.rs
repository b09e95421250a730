//! The base state of a conversation in memory: the fields of the reference's `base_state.json`, as values.
//!
//! Applying a change returns the field's new JSON. Clients receive another JSON if the field contains secrets or long
//! lists. Source: `docs/reference/files.md#base-state` and `docs/reference/runtime.md#state-updates`.

use crate::agent::{AgentDocument, Analyzer, Policy};
use crate::conversation::error::{ConversationError, Result};
use crate::event::{Json, Text};
use crate::ids::{ConversationId, EventId};
use crate::json::Raw;
use crate::secret::document::{self, Form};
use crate::secret::{Cipher, Registry};
use crate::state::base::{BaseDocument, FieldChange, quoted};
use crate::state::upcast::has_old_stats;
use crate::state::{ExecutionStatus, Metrics, ModelCall, Stats};

/// The values of the fields.
#[derive(Debug, Clone)]
pub(in crate::conversation) struct Base {
    /// The agent, with its secrets decrypted.
    pub agent: AgentDocument,
    pub workspace: Json,
    pub persistence_dir: Option<Text>,
    pub max_iterations: u64,
    pub stuck_detection: bool,
    pub status: ExecutionStatus,
    pub policy: Policy,
    pub analyzer: Option<Analyzer>,
    pub knowledge_skills: Vec<Text>,
    pub path_rules: Vec<Text>,
    pub invoked_skills: Vec<Text>,
    /// The ids of blocked actions, each with the reason. `blocked_messages` is the same for messages.
    pub blocked_actions: Vec<(Text, Text)>,
    pub blocked_messages: Vec<(Text, Text)>,
    pub last_user_message: Option<EventId>,
    pub stats: Stats,
    /// Whether the stored stats have an old name for the metrics.
    pub has_old_stats: bool,
    pub tags: Vec<(String, String)>,
    pub agent_state: Json,
    pub hook_config: Option<Json>,
}

/// A new value of a field.
#[derive(Debug, Clone)]
pub(in crate::conversation) enum Change {
    Agent(AgentDocument),
    Status(ExecutionStatus),
    Policy(Policy),
    Analyzer(Option<Analyzer>),
    KnowledgeSkills(Vec<Text>),
    /// A skill was invoked by its name.
    InvokedSkill(Text),
    PathRules(Vec<Text>),
    BlockAction(Text, Text),
    UnblockAction(Text),
    BlockMessage(Text, Text),
    UnblockMessage(Text),
    LastUserMessage(EventId),
    /// The total cost of a task so far, with its usage id.
    Delegated(String, Box<Metrics>),
    /// A model call.
    Spent(Box<ModelCall>),
    Tags(Vec<(String, String)>),
    AgentState(Json),
    HookConfig(Option<Json>),
    /// The secrets have changed. Their values are in the registry.
    Secrets,
}

/// The result of a change of a field.
#[derive(Debug, Clone)]
pub(in crate::conversation) struct Written {
    /// The new value in the base state.
    pub field: FieldChange,
    /// The new value for clients. `None` if clients are not notified.
    pub announced: Option<Json>,
}

/// The cipher and the registry that write the secrets of a document.
#[derive(Debug, Clone)]
pub(in crate::conversation) struct Sealing {
    pub cipher: Option<Cipher>,
    pub registry: Registry,
}

impl Sealing {
    /// Returns whether a field's value differs from the stored value. Sealing a secret again yields another token,
    /// which is no difference.
    pub fn is_new(&self, stored: Option<&BaseDocument>, change: &FieldChange) -> bool {
        let old = stored.and_then(|document| document.field(&change.field));
        match (old, change.value.as_deref()) {
            (Some(old), Some(new)) if ["agent", "secret_registry"].contains(&&*change.field) => {
                !document::is_same(old, new, self.cipher.as_ref())
            }
            (old, new) => old.map(Raw::text) != new,
        }
    }
}

impl Base {
    /// Returns the base state of a new conversation.
    pub fn new(agent: AgentDocument, workspace: Json) -> Self {
        Self {
            agent,
            workspace,
            persistence_dir: None,
            max_iterations: 500,
            stuck_detection: true,
            status: ExecutionStatus::Idle,
            policy: Policy::Never,
            analyzer: None,
            knowledge_skills: Vec::new(),
            path_rules: Vec::new(),
            invoked_skills: Vec::new(),
            blocked_actions: Vec::new(),
            blocked_messages: Vec::new(),
            last_user_message: None,
            stats: Stats::default(),
            has_old_stats: false,
            tags: Vec::new(),
            agent_state: Json::empty_object(),
            hook_config: None,
        }
    }

    /// Reads a stored document. A missing field has its value of a new conversation. `None` if there is no agent.
    ///
    /// # Errors
    /// [`ConversationError::IdMismatch`] if the document has another id. An error if the policy, the analyzer or the
    /// agent is invalid.
    pub fn read(
        document: &BaseDocument,
        id: &ConversationId,
        cipher: Option<&Cipher>,
    ) -> Result<Option<Self>> {
        let field = |name: &str| document.field(name).filter(|value| !value.is_null());
        if let Some(persisted) = document.text("id")
            && ConversationId::new(&persisted).ok().as_ref() != Some(id)
        {
            let (given, persisted) = (id.clone(), persisted.into_owned());
            return Err(ConversationError::IdMismatch { given, persisted });
        }
        let Some(agent) = field("agent").filter(|agent| agent.is_object()) else { return Ok(None) };
        let agent = match cipher {
            Some(cipher) => AgentDocument::parse(&document::agent(agent, Form::Open(cipher)))?,
            None => AgentDocument::parse(agent.text())?,
        };
        let workspace = field("workspace").map_or_else(Json::empty_object, Json::from);
        let last_user_message = document.text("last_user_message_id");
        Ok(Some(Self {
            persistence_dir: document.text("persistence_dir").map(|text| (&*text).into()),
            max_iterations: field("max_iterations")
                .and_then(Raw::as_i64)
                .and_then(|number| u64::try_from(number).ok())
                .unwrap_or(500),
            stuck_detection: field("stuck_detection").is_none_or(|flag| flag.text() == "true"),
            status: document.status().and_then(|status| status.parse().ok()).unwrap_or_default(),
            policy: field("confirmation_policy").map_or(Ok(Policy::Never), Policy::read)?,
            analyzer: field("security_analyzer").map(Analyzer::read).transpose()?,
            knowledge_skills: texts(field("activated_knowledge_skills")),
            path_rules: texts(field("activated_path_rules")),
            invoked_skills: texts(field("invoked_skills")),
            blocked_actions: pairs(field("blocked_actions")),
            blocked_messages: pairs(field("blocked_messages")),
            last_user_message: last_user_message.and_then(|id| EventId::new(id).ok()),
            stats: field("stats").map(Stats::read).unwrap_or_default(),
            has_old_stats: field("stats").is_some_and(has_old_stats),
            tags: pairs(field("tags"))
                .iter()
                .map(|(key, value)| (key.to_string(), value.to_string()))
                .collect(),
            agent_state: field("agent_state").map_or_else(Json::empty_object, Json::from),
            hook_config: field("hook_config").map(Json::from),
            ..Self::new(agent, workspace)
        }))
    }

    /// Returns every field as the reference writes it for a new conversation.
    pub fn written(&self, id: &ConversationId, sealing: &Sealing) -> Vec<FieldChange> {
        let text = |text: &str| Some(quoted(text));
        let fields = [
            ("id", text(id.as_str())),
            ("agent", Some(self.sealed_agent(sealing))),
            ("workspace", Some(self.workspace.text().to_owned())),
            ("persistence_dir", self.persistence_dir.as_deref().and_then(text)),
            ("max_iterations", Some(self.max_iterations.to_string())),
            ("stuck_detection", Some(self.stuck_detection.to_string())),
            ("execution_status", text(self.status.as_str())),
            ("confirmation_policy", Some(self.policy.to_json())),
            ("security_analyzer", self.analyzer.as_ref().map(Analyzer::to_json)),
            ("activated_knowledge_skills", Some(list(&self.knowledge_skills))),
            ("activated_path_rules", Some(list(&self.path_rules))),
            ("invoked_skills", Some(list(&self.invoked_skills))),
            ("blocked_actions", Some(object(&self.blocked_actions))),
            ("blocked_messages", Some(object(&self.blocked_messages))),
            ("last_user_message_id", self.last_user_message.as_ref().and_then(|id| text(id.as_str()))),
            ("stats", Some(self.stats_json())),
            ("secret_registry", Some(sealing.registry.to_json(sealing.cipher.as_ref()))),
            ("tags", Some(object(&self.tags))),
            ("agent_state", Some(self.agent_state.text().to_owned())),
            ("hook_config", self.hook_config.as_ref().map(|config| config.text().to_owned())),
        ];
        let present = fields.into_iter().filter_map(|(field, value)| Some((field, value?)));
        present.map(|(field, value)| FieldChange { field: field.to_owned(), value: Some(value) }).collect()
    }

    /// Applies a change. `None` if it changes nothing.
    pub fn apply(&mut self, change: Change, sealing: &Sealing) -> Option<Written> {
        match change {
            Change::Agent(agent) => {
                replace(&mut self.agent, agent)?;
                let announced = document::agent(self.agent.json().raw(), Form::Redacted);
                let field = FieldChange { field: "agent".into(), value: Some(self.sealed_agent(sealing)) };
                Some(Written { field, announced: Json::parse(&announced).ok() })
            }
            Change::Status(status) => {
                replace(&mut self.status, status)?;
                written("execution_status", Some(quoted(status.as_str())))
            }
            Change::Policy(policy) => {
                replace(&mut self.policy, policy)?;
                written("confirmation_policy", Some(self.policy.to_json()))
            }
            Change::Analyzer(analyzer) => {
                replace(&mut self.analyzer, analyzer)?;
                written("security_analyzer", self.analyzer.as_ref().map(Analyzer::to_json))
            }
            Change::InvokedSkill(skill) => {
                if self.invoked_skills.contains(&skill) {
                    return None;
                }
                self.invoked_skills.push(skill);
                written("invoked_skills", Some(list(&self.invoked_skills)))
            }
            Change::KnowledgeSkills(skills) => {
                replace(&mut self.knowledge_skills, skills)?;
                written("activated_knowledge_skills", Some(list(&self.knowledge_skills)))
            }
            Change::PathRules(rules) => {
                replace(&mut self.path_rules, rules)?;
                written("activated_path_rules", Some(list(&self.path_rules)))
            }
            Change::BlockAction(id, reason) => {
                put(&mut self.blocked_actions, id, reason);
                written("blocked_actions", Some(object(&self.blocked_actions)))
            }
            Change::UnblockAction(id) => {
                take(&mut self.blocked_actions, &id)?;
                written("blocked_actions", Some(object(&self.blocked_actions)))
            }
            Change::BlockMessage(id, reason) => {
                put(&mut self.blocked_messages, id, reason);
                written("blocked_messages", Some(object(&self.blocked_messages)))
            }
            Change::UnblockMessage(id) => {
                take(&mut self.blocked_messages, &id)?;
                written("blocked_messages", Some(object(&self.blocked_messages)))
            }
            Change::LastUserMessage(id) => {
                replace(&mut self.last_user_message, Some(id.clone()))?;
                written("last_user_message_id", Some(quoted(id.as_str())))
            }
            Change::Spent(call) => {
                let new = self.stats.record(&call);
                // The stored name of old stats cannot be extended, so the whole is written once under the current name.
                let field = if std::mem::take(&mut self.has_old_stats) {
                    FieldChange::set("stats", self.stats_json()).ok()?
                } else {
                    FieldChange::extend("stats", serde_json::to_string(&new).ok()?).ok()?
                };
                let announced = serde_json::to_string(&self.stats.snapshot()).ok();
                Some(Written {
                    field,
                    announced: announced.and_then(|announced| Json::parse(&announced).ok()),
                })
            }
            Change::Delegated(usage, metrics) => {
                let known = self.stats.usage_to_metrics.iter_mut().find(|(known, _)| *known == usage);
                match known {
                    Some(place) => place.1 = *metrics,
                    None => self.stats.usage_to_metrics.push((usage, *metrics)),
                }
                self.has_old_stats = false;
                let field = FieldChange::set("stats", self.stats_json()).ok()?;
                let announced = serde_json::to_string(&self.stats.snapshot()).ok();
                Some(Written {
                    field,
                    announced: announced.and_then(|announced| Json::parse(&announced).ok()),
                })
            }
            Change::Tags(tags) => {
                replace(&mut self.tags, tags)?;
                written("tags", Some(object(&self.tags)))
            }
            Change::AgentState(state) => {
                replace(&mut self.agent_state, state)?;
                written("agent_state", Some(self.agent_state.text().to_owned()))
            }
            Change::HookConfig(config) => {
                replace(&mut self.hook_config, config)?;
                written("hook_config", self.hook_config.as_ref().map(|config| config.text().to_owned()))
            }
            Change::Secrets => {
                let value = Some(sealing.registry.to_json(sealing.cipher.as_ref()));
                Some(Written {
                    field: FieldChange { field: "secret_registry".into(), value },
                    announced: None,
                })
            }
        }
    }

    /// Returns why a hook blocked the action of this id. `None` if the action is not blocked.
    pub fn blocked_action(&self, id: &str) -> Option<&Text> {
        self.blocked_actions.iter().find(|(blocked, _)| **blocked == *id).map(|(_, reason)| reason)
    }

    /// Returns whether a hook blocked the message of this id.
    pub fn is_message_blocked(&self, id: &str) -> bool {
        self.blocked_messages.iter().any(|(blocked, _)| **blocked == *id)
    }

    fn sealed_agent(&self, sealing: &Sealing) -> String {
        document::agent(self.agent.json().raw(), Form::Stored(sealing.cipher.as_ref()))
    }

    fn stats_json(&self) -> String {
        serde_json::to_string(&self.stats).unwrap_or_else(|_| r#"{"usage_to_metrics":{}}"#.to_owned())
    }
}

/// Replaces a value. `None` if both values are equal.
fn replace<T: PartialEq>(place: &mut T, value: T) -> Option<()> {
    if *place == value {
        return None;
    }
    *place = value;
    Some(())
}

fn written(field: &str, value: Option<String>) -> Option<Written> {
    let announced =
        value.as_deref().map_or_else(|| Json::parse("null").ok(), |value| Json::parse(value).ok());
    Some(Written { field: FieldChange { field: field.to_owned(), value }, announced })
}

fn put(pairs: &mut Vec<(Text, Text)>, key: Text, value: Text) {
    match pairs.iter_mut().find(|(known, _)| *known == key) {
        Some(pair) => pair.1 = value,
        None => pairs.push((key, value)),
    }
}

fn take(pairs: &mut Vec<(Text, Text)>, key: &str) -> Option<Text> {
    let place = pairs.iter().position(|(known, _)| **known == *key)?;
    Some(pairs.remove(place).1)
}

fn texts(raw: Option<Raw<'_>>) -> Vec<Text> {
    raw.into_iter().flat_map(Raw::elements).filter_map(Raw::as_str).map(|text| (&*text).into()).collect()
}

fn pairs(raw: Option<Raw<'_>>) -> Vec<(Text, Text)> {
    let members = raw.into_iter().flat_map(Raw::members);
    members.filter_map(|(key, value)| Some(((&*key).into(), (&*value.as_str()?).into()))).collect()
}

fn list(texts: &[Text]) -> String {
    format!("[{}]", texts.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(","))
}

fn object<T: AsRef<str>>(pairs: &[(T, T)]) -> String {
    let members =
        pairs.iter().map(|(key, value)| format!("{}:{}", quoted(key.as_ref()), quoted(value.as_ref())));
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealing() -> Sealing {
        Sealing { cipher: None, registry: Registry::default() }
    }

    fn base() -> Base {
        let agent = r#"{"llm":{"model":"m","api_key":"k"},"tools":[],"kind":"Agent"}"#;
        Base::new(AgentDocument::parse(agent).unwrap(), Json::parse(r#"{"working_dir":"/w"}"#).unwrap())
    }

    #[test]
    fn a_new_document_has_the_fields_of_the_reference_in_its_order() {
        let id = ConversationId::new("my-task-123").unwrap();
        let fields = base().written(&id, &sealing());
        let document = BaseDocument::parse("{}").unwrap().with(&fields).with_leaf(None, false).into_owned();
        let keys: Vec<String> =
            Raw::parse(document.as_str()).unwrap().members().map(|(key, _)| key.into_owned()).collect();
        let known: Vec<&str> = crate::state::base::FIELDS
            .iter()
            .copied()
            .filter(|field| keys.iter().any(|key| key == field))
            .collect();
        assert_eq!(keys, known);
        assert!(document.as_str().contains(r#""api_key":"**********""#));
        let again = Base::read(&document, &id, None).unwrap().unwrap();
        assert_eq!(again.written(&id, &sealing()), fields);
        let other = ConversationId::new("other").unwrap();
        assert!(matches!(Base::read(&document, &other, None), Err(ConversationError::IdMismatch { .. })));
    }

    #[test]
    fn a_change_that_changes_nothing_writes_nothing() {
        let (mut base, sealing) = (base(), sealing());
        let running = || Change::Status(ExecutionStatus::Running);
        let written = base.apply(running(), &sealing).unwrap();
        assert_eq!(
            (written.field.field.as_str(), written.field.value.as_deref()),
            ("execution_status", Some("\"running\""))
        );
        assert!(base.apply(running(), &sealing).is_none());
        assert!(base.apply(Change::UnblockAction("a".into()), &sealing).is_none());
        base.apply(Change::BlockAction("a".into(), "no".into()), &sealing).unwrap();
        assert_eq!(base.blocked_action("a").map(|reason| &**reason), Some("no"));
        let written = base.apply(Change::UnblockAction("a".into()), &sealing).unwrap();
        assert_eq!(written.field.value.as_deref(), Some("{}"));
    }
}
