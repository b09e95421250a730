//! The servers of the Model Context Protocol that an agent's `mcp_config` names.
//!
//! They come up with the conversation's first message or run, each within 30 seconds; one that does not is told of by
//! an event, and the others go on, as in the reference. What `${NAME}` stands for is put in here only: nothing that is
//! stored holds it. Source: `runtime.md` section 8.3.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use super::equip::Equipment;
use super::live::{Live, common};
use super::{Local, Result};
use crate::event::{ConversationErrorEvent, Source};
use crate::plugin::Server;
use crate::tool::mcp::{Lookup, ServerConfig, ServerProblem, Servers};
use crate::tool::{Tool, Toolbox};

/// Servers as they were read, and those that could not be.
type Read = (Vec<ServerConfig>, Vec<ServerProblem>);

impl Local {
    /// Starts these servers. Secrets are asked for only where their settings name them.
    pub(super) async fn start_servers(&self, servers: Vec<Server>) -> Result<(Servers, Vec<ServerProblem>)> {
        let (configs, mut problems) = self.read_servers(servers).await;
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
        let (configs, mut problems) = self.read_servers(servers).await;
        let (started, failed) = match &equipment.servers {
            Some(known) => known.with(configs, &self.working_dir).await,
            None => Servers::start(configs, &self.working_dir).await,
        };
        problems.extend(failed);
        *equipment = equipment.clone().with_servers(started);
        Ok(problems)
    }

    async fn read_servers(&self, servers: Vec<Server>) -> Read {
        // Which secrets are named is seen in reading; it is read again until all that it names are had.
        let mut values: HashMap<String, Option<String>> = HashMap::new();
        loop {
            let (read, lacking) = read_with(&servers, &values);
            if lacking.is_empty() {
                return read;
            }
            for name in lacking {
                let value = self.lent_value(&name).await;
                values.insert(name, value);
            }
        }
    }

    /// A secret's value: the conversation's own, else that of the one above.
    async fn lent_value(&self, name: &str) -> Option<String> {
        let mut value = self.secrets.value(name).await;
        if let (None, Some(lender)) = (&value, &self.parts.lender) {
            value = lender.value(name).await;
        }
        value.map(|secret| secret.expose().to_owned())
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

/// The servers of a list, with the names of secrets whose values are not among `values` yet.
fn read_with(servers: &[Server], values: &HashMap<String, Option<String>>) -> (Read, Vec<String>) {
    let lacking = RefCell::new(Vec::new());
    let value = |name: &str| match values.get(name) {
        Some(value) => value.clone(),
        None => {
            lacking.borrow_mut().push(name.to_owned());
            None
        }
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
    ((configs, problems), lacking.into_inner())
}
