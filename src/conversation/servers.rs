//! The servers of the Model Context Protocol that an agent's `mcp_config` names.
//!
//! They come up with the conversation's first message or run, each within 30 seconds; one that does not is told of by
//! an event, and the others go on, as in the reference. What `${NAME}` stands for is put in here only: nothing that is
//! stored holds it. Source: `runtime.md` section 8.3.

use std::sync::Arc;

use super::equip::Equipment;
use super::live::{Live, common};
use super::{ConversationError, Local, Result};
use crate::agent::AgentDocument;
use crate::event::json::Raw;
use crate::event::{ConversationErrorEvent, Source};
use crate::tool::mcp::{ServerConfig, ServerProblem, Servers};
use crate::tool::{Tool, Toolbox};

impl Local {
    /// Starts the servers of this configuration. Secrets are asked for only where the configuration names them.
    pub(super) async fn start_servers(&self, config: String) -> Result<(Servers, Vec<ServerProblem>)> {
        let secrets = self.secrets.clone();
        // A secret may have to be fetched, which blocks.
        let read = tokio::task::spawn_blocking(move || {
            let value = |name: &str| secrets.value(name).map(|secret| secret.expose().to_owned());
            match Raw::parse(&config) {
                Ok(config) => ServerConfig::read_all(config, &value),
                Err(_) => (Vec::new(), Vec::new()),
            }
        });
        let read = read.await.map_err(|_| ConversationError::Abandoned { what: "reading mcp_config" })?;
        let (configs, mut problems) = read;
        let (servers, failed) = Servers::start(configs, &self.working_dir).await;
        problems.extend(failed);
        Ok((servers, problems))
    }

    /// Says which servers there are none of. What they said of it may hold a secret: it is masked.
    pub(super) fn push_problems(&self, live: &mut Live, problems: Vec<ServerProblem>) {
        for problem in problems {
            let detail = self.secrets.mask_known().apply(&problem.to_string()).into_owned();
            live.push_aside(ConversationErrorEvent::new(
                common(Source::Environment),
                problem.kind.code(),
                detail,
            ));
        }
    }

    /// What it runs with, with the tools that its servers have now. `None` where they are the same.
    pub(super) fn kept_up(&self, equipment: &Equipment) -> Option<Arc<Equipment>> {
        let servers = equipment.servers.as_ref()?;
        let count = *servers.changes().borrow();
        if count == equipment.servers_count {
            return None;
        }
        let mut equipment = Equipment { servers_count: count, ..equipment.clone() };
        equipment.toolbox.replace_servers_tools(offered(servers, &equipment.filter));
        equipment.show();
        Some(self.equip(equipment))
    }
}

impl Equipment {
    /// Takes in the servers and their tools. A tool whose name another one has is left out.
    pub fn with_servers(mut self, servers: Servers) -> Self {
        self.servers_count = *servers.changes().borrow();
        self.toolbox.replace_servers_tools(offered(&servers, &self.filter));
        self.servers = Some(Arc::new(servers));
        self.show();
        self
    }
}

/// The tools that servers have and that the agent's settings let through.
fn offered(servers: &Servers, filter: &Option<regex::Regex>) -> Vec<Arc<dyn Tool>> {
    let passes = |tool: &Arc<dyn Tool>| filter.as_ref().is_none_or(|filter| filter.is_match(tool.name()));
    servers.tools().into_iter().filter(passes).collect()
}

/// The servers that an agent's settings name, where there are any.
pub(super) fn configured(agent: &AgentDocument) -> Option<String> {
    let config = agent.member("mcp_config").filter(|config| config.is_object())?;
    config.members().next()?;
    Some(config.text().to_owned())
}

/// Removes the tools that the agent's settings do not let through.
pub(super) fn filtered(toolbox: &mut Toolbox, filter: &Option<regex::Regex>) {
    if let Some(filter) = filter {
        toolbox.remove(|tool| !filter.is_match(tool.name()));
    }
}
