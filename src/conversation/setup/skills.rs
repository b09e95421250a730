//! The skills of a conversation: from its agent's settings, its project, the user's files and plugins.
//!
//! The agent's `agent_context` decides which files are read. Source: `docs/reference/extensions.md#skills`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::agent::AgentDocument;
use crate::agent::prompt::{self, Surroundings};
use crate::conversation::error::{ConversationError, Result};
use crate::conversation::local::{Called, Guide, Local};
use crate::event::{Content, Message, Text, TextContent};
use crate::json::Raw;
use crate::plugin::skills_of_person;
use crate::skill::{self, Shelf, Skill};
use crate::tool::{InvokeSkill, SkillSource, Tool};

/// The guide of a conversation that reads from a shelf of skills.
pub(super) struct Guided {
    pub shelf: Arc<Shelf>,
    /// The name of the agent's model. Files for the models of other vendors are left out.
    model: String,
    suffix: String,
    /// The files and folders that could not be used.
    pub left_out: Vec<String>,
}

impl Guide for Guided {
    fn surroundings(&self) -> Surroundings {
        Surroundings {
            repository: self.shelf.repository(&self.model),
            memory: self.shelf.remembered(),
            skills: self.shelf.listed(),
            suffix: self.suffix.clone(),
            ..Surroundings::default()
        }
    }

    fn for_message(&self, message: &Message, activated: &[Text]) -> Option<Called> {
        let texts: Vec<&str> = message.content.iter().filter_map(Content::as_text).collect();
        let activated: Vec<&str> = activated.iter().map(|name| &**name).collect();
        let called = self.shelf.for_message(&texts.join("\n"), &activated)?;
        let names = called.names.iter().map(|name| name.as_str().into()).collect();
        Some(Called { content: TextContent::new(called.text), names })
    }

    fn for_path(&self, path: &Path, activated: &[Text]) -> Option<Called> {
        let activated: Vec<&str> = activated.iter().map(|name| &**name).collect();
        let rules = self.shelf.for_path(&path.to_string_lossy().replace('\\', "/"), &activated);
        let (names, texts): (Vec<Text>, Vec<String>) =
            rules.into_iter().map(|(name, text)| (name.as_str().into(), text)).unzip();
        (!names.is_empty()).then(|| Called { content: TextContent::new(texts.join("\n")), names })
    }
}

impl Local {
    /// Reads the skills that the agent's settings ask for, and adds `more`. `None` if the settings have no
    /// `agent_context` and `more` is empty.
    pub(super) async fn shelf(&self, agent: &AgentDocument, more: Vec<Skill>) -> Result<Option<Arc<Guided>>> {
        let Some(context) = agent.member("agent_context").filter(|context| context.is_object()) else {
            if more.is_empty() {
                return Ok(None);
            }
            let shelf = Shelf { skills: more, ..Shelf::default() };
            return Ok(Some(Arc::new(guided(agent, shelf))));
        };
        let is = |name: &str| context.get(name).is_some_and(|flag| flag.text() == "true");
        let (from_user, from_project, from_memory) =
            (is("load_user_skills"), is("load_project_skills"), is("load_memory"));
        let mut shelf = Shelf {
            skills: context.get("skills").map(skill::read_all).unwrap_or_default(),
            user_message_suffix: text(context, "user_message_suffix"),
            memory: String::new(),
        };
        let disabled = context.get("disabled_skills").into_iter().flat_map(Raw::elements);
        let disabled: Vec<String> =
            disabled.filter_map(Raw::as_str).map(std::borrow::Cow::into_owned).collect();
        let (home, working_dir) = (self.parts.home.clone(), self.working_dir.clone());
        let read = tokio::task::spawn_blocking(move || {
            read(from_user, from_project, from_memory, home, &working_dir)
        });
        let read = read.await.map_err(|_| ConversationError::Abandoned { what: "reading skills" })?;
        shelf.fill(read.own);
        // A plugin's skill replaces one of the same name. The project's skills replace all others and come first.
        for skill in more {
            match shelf.skills.iter_mut().find(|known| known.name == skill.name) {
                Some(place) => *place = skill,
                None => shelf.skills.push(skill),
            }
        }
        shelf.overrule(read.project);
        shelf.disable(&disabled);
        shelf.memory = read.memory;
        Ok(Some(Arc::new(Guided { left_out: read.left_out, ..guided(agent, shelf) })))
    }

    /// Returns the tool that invokes skills by name.
    pub(super) fn invoke_skill(&self, shelf: &Arc<Shelf>) -> Arc<dyn Tool> {
        let (shelf, working_dir) = (Arc::clone(shelf), self.working_dir.clone());
        let source: SkillSource = Arc::new(move |name, _| {
            let (shelf, working_dir) = (Arc::clone(&shelf), working_dir.clone());
            Box::pin(async move { shelf.invoke(name, &working_dir).await })
        });
        Arc::new(InvokeSkill::new(source))
    }
}

/// The skills and the memory that were read from files, and what could not be used.
struct Read {
    own: Vec<Skill>,
    project: Vec<Skill>,
    memory: String,
    left_out: Vec<String>,
}

fn read(own: bool, project: bool, memory: bool, home: Option<PathBuf>, working_dir: &Path) -> Read {
    let own = home.as_deref().filter(|_| own).map(skills_of_person).unwrap_or_default();
    let project = if project { skill::project(working_dir) } else { skill::Folder::default() };
    let memory = if memory { skill::memory(home.as_deref(), working_dir) } else { None };
    let left_out = own.problems.iter().chain(&project.problems).map(ToString::to_string).collect();
    Read { own: own.skills, project: project.skills, memory: memory.unwrap_or_default(), left_out }
}

fn guided(agent: &AgentDocument, shelf: Shelf) -> Guided {
    let model = agent.llm().and_then(|llm| llm.get("model")).and_then(Raw::as_str);
    Guided {
        shelf: Arc::new(shelf),
        model: model.map(std::borrow::Cow::into_owned).unwrap_or_default(),
        suffix: prompt::suffix(agent),
        left_out: Vec::new(),
    }
}

fn text(context: Raw<'_>, name: &str) -> String {
    context.get(name).and_then(Raw::as_str).map(std::borrow::Cow::into_owned).unwrap_or_default()
}
