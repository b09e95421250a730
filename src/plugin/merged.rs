//! What several plugins bring together.

use super::{Plugin, Server};
use crate::agent::definition::Definition;
use crate::hook;
use crate::skill::Skill;

/// What several plugins bring together, in the order in which they were added.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Merged {
    /// Skills; of one name the last, in the place of the first.
    pub skills: Vec<Skill>,
    /// Servers; of one name the last, in the place of the first.
    pub servers: Vec<Server>,
    /// Hooks, one after the other.
    pub hooks: hook::Config,
    /// Agents; of one name the first counts.
    pub agents: Vec<Definition>,
}

impl Merged {
    /// Adds what a plugin brings.
    pub fn add(&mut self, plugin: &Plugin) {
        for skill in plugin.all_skills() {
            put(&mut self.skills, skill, |one, other| one.name == other.name);
        }
        for server in &plugin.servers {
            put(&mut self.servers, server.clone(), |one, other| one.name == other.name);
        }
        if let Some(hooks) = &plugin.hooks {
            self.hooks = std::mem::take(&mut self.hooks).and(hooks);
        }
        self.agents.extend(plugin.agents.iter().cloned());
    }

    /// Adds what others bring, after these.
    pub fn extend(&mut self, others: &Self) {
        for skill in &others.skills {
            put(&mut self.skills, skill.clone(), |one, other| one.name == other.name);
        }
        for server in &others.servers {
            put(&mut self.servers, server.clone(), |one, other| one.name == other.name);
        }
        self.hooks = std::mem::take(&mut self.hooks).and(&others.hooks);
        self.agents.extend(others.agents.iter().cloned());
    }
}

/// Puts something in the place of its like, or behind all.
fn put<T>(list: &mut Vec<T>, new: T, is_like: impl Fn(&T, &T) -> bool) {
    match list.iter_mut().find(|known| is_like(known, &new)) {
        Some(place) => *place = new,
        None => list.push(new),
    }
}
