//! What a conversation runs with: its model, its tools, its hooks, and the agent if it is a program.

use std::sync::{Arc, PoisonError};

use tokio::sync::Mutex;

use super::Local;
use super::guide::Guide;
use crate::agent::acp::{AcpSettings, Peer};
use crate::agent::condenser::Summariser;
use crate::hook;
use crate::llm::{Model, ToolSchema};
use crate::tool::mcp::Servers;
use crate::tool::{RiskField, Tool, Toolbox};

/// The equipment that a conversation runs with.
#[derive(Clone)]
pub(in crate::conversation) struct Equipment {
    pub model: Arc<dyn Model>,
    pub toolbox: Toolbox,
    /// The tools, in the order in which the model gets them.
    pub tools: Vec<Arc<dyn Tool>>,
    /// The schemas of the tools that the model gets in a run.
    pub schemas: Vec<ToolSchema>,
    pub hooks: Option<Arc<hook::Hooks>>,
    /// The condensers, in the order in which they are tried.
    pub condensers: Vec<Summariser>,
    /// How many tools may run at once.
    pub tools_at_once: usize,
    /// The guide, which adds to what the model reads.
    pub guide: Option<Arc<dyn Guide>>,
    /// The agent, if it is a program.
    pub acp: Option<Arc<Acp>>,
    /// The servers of some of the tools.
    pub servers: Option<Arc<Servers>>,
    /// How often the servers' tools have changed so far.
    pub servers_count: u64,
    /// The pattern that tools' names must match. Tools that every agent has are exempt.
    pub filter: Option<regex::Regex>,
}

impl Equipment {
    /// Updates the tools and schemas for the model from the toolbox.
    pub fn show(&mut self) {
        self.tools = self.toolbox.iter().cloned().collect();
        self.schemas = self.toolbox.schemas(RiskField::Asked);
    }
}

impl Local {
    /// Returns the equipment. `None` if it was not made yet.
    pub(in crate::conversation) fn equipment(&self) -> Option<Arc<Equipment>> {
        self.equipment.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(in crate::conversation) fn equip(&self, equipment: Equipment) -> Arc<Equipment> {
        let equipment = Arc::new(equipment);
        *self.equipment.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&equipment));
        equipment
    }
}

/// A program and its session.
pub(in crate::conversation) struct Acp {
    pub settings: AcpSettings,
    /// The text that is added to the first message of a session.
    pub suffix: Option<String>,
    pub running: Mutex<Option<Program>>,
}

/// A program that is running.
#[derive(Clone)]
pub(in crate::conversation) struct Program {
    pub peer: Arc<Peer>,
    pub session: String,
    /// The cost of the session at the end of its last turn.
    pub cost: f64,
}

impl Acp {
    /// Ends the program.
    pub async fn close(&self) {
        if let Some(running) = self.running.lock().await.take() {
            running.peer.close().await;
        }
    }
}
