//! Merges several plugins.

use super::{Plugin, Server};
use crate::agent::definition::Definition;
use crate::hook;
use crate::skill::Skill;

/// The skills, servers, hooks and agents of several plugins, in the order in which the plugins were added.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Merged {
    /// Skills. A later one replaces an earlier one of the same name, at the same index.
    pub skills: Vec<Skill>,
    /// Servers. A later one replaces an earlier one of the same name, at the same index.
    pub servers: Vec<Server>,
    /// The hooks of all plugins, in order.
    pub hooks: hook::Config,
    /// Agents. Of several with the same name, the first is used.
    pub agents: Vec<Definition>,
}

impl Merged {
    /// Adds the parts of a plugin.
    pub fn add(&mut self, plugin: &Plugin) {
        for skill in plugin.all_skills() {
            replace_or_push(&mut self.skills, skill, |one, other| one.name == other.name);
        }
        for server in &plugin.servers {
            replace_or_push(&mut self.servers, server.clone(), |one, other| one.name == other.name);
        }
        if let Some(hooks) = &plugin.hooks {
            self.hooks = std::mem::take(&mut self.hooks).and(hooks);
        }
        self.agents.extend(plugin.agents.iter().cloned());
    }

    /// Adds the parts of other plugins after the present ones.
    pub fn extend(&mut self, others: &Self) {
        for skill in &others.skills {
            replace_or_push(&mut self.skills, skill.clone(), |one, other| one.name == other.name);
        }
        for server in &others.servers {
            replace_or_push(&mut self.servers, server.clone(), |one, other| one.name == other.name);
        }
        self.hooks = std::mem::take(&mut self.hooks).and(&others.hooks);
        self.agents.extend(others.agents.iter().cloned());
    }
}

/// Replaces the first similar element by `new`, or appends `new` if there is none.
fn replace_or_push<T>(list: &mut Vec<T>, new: T, is_similar: impl Fn(&T, &T) -> bool) {
    match list.iter_mut().find(|known| is_similar(known, &new)) {
        Some(place) => *place = new,
        None => list.push(new),
    }
}
