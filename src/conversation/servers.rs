//! The servers of the Model Context Protocol that an agent's `mcp_config` names.
//!
//! They come up with the conversation's first message or run, each within 30 seconds; one that does not is told of by
//! an event, and the others go on, as in the reference. What `${NAME}` stands for is put in here only: nothing that is
//! stored holds it. Source: `runtime.md` section 8.3.

use std::sync::Arc;

use super::equip::Equipment;
use super::live::{Live, common};
use super::{ConversationError, Local, Result};
use crate::event::{ConversationErrorEvent, Source};
use crate::plugin::Server;
use crate::tool::mcp::{Lookup, ServerConfig, ServerProblem, Servers};
use crate::tool::{Tool, Toolbox};

impl Local {
    /// Starts these servers. Secrets are asked for only where their settings name them.
    pub(super) async fn start_servers(&self, servers: Vec<Server>) -> Result<(Servers, Vec<ServerProblem>)> {
        let (configs, mut problems) = self.read_servers(servers).await?;
        let (servers, failed) = Servers::start(configs, &self.working_dir).await;
        problems.extend(failed);
        Ok((servers, problems))
    }

    /// Starts servers beside those that are there, in the place of those with their names.
    pub(super) async fn more_servers(
        &self,
        equipment: &mut Equipment,
        servers: Vec<Server>,
    ) -> Result<Vec<ServerProblem>> {
        let (configs, mut problems) = self.read_servers(servers).await?;
        let (started, failed) = match &equipment.servers {
            Some(known) => known.with(configs, &self.working_dir).await,
            None => Servers::start(configs, &self.working_dir).await,
        };
        problems.extend(failed);
        *equipment = equipment.clone().with_servers(started);
        Ok(problems)
    }

    async fn read_servers(&self, servers: Vec<Server>) -> Result<(Vec<ServerConfig>, Vec<ServerProblem>)> {
        let (secrets, lender) = (self.secrets.clone(), self.parts.lender.clone());
        // A secret may have to be fetched, which blocks.
        let read = tokio::task::spawn_blocking(move || {
            let value = |name: &str| {
                let own = secrets.value(name);
                let secret = own.or_else(|| lender.as_ref().and_then(|lender| lender.value(name)));
                secret.map(|secret| secret.expose().to_owned())
            };
            let (mut configs, mut problems) = (Vec::new(), Vec::new());
            for server in servers {
                let value: Option<Lookup<'_>> = if server.is_literal { None } else { Some(&value) };
                match ServerConfig::read_one(&server.name, server.config.raw(), value) {
                    Some(Ok(config)) => configs.push(config),
                    Some(Err(problem)) => problems.push(problem),
                    None => {}
                }
            }
            (configs, problems)
        });
        read.await.map_err(|_| ConversationError::Abandoned { what: "reading mcp_config" })
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

/// Removes the tools that the agent's settings do not let through.
pub(super) fn filtered(toolbox: &mut Toolbox, filter: &Option<regex::Regex>) {
    if let Some(filter) = filter {
        toolbox.remove(|tool| !filter.is_match(tool.name()));
    }
}
