//! The servers of the Model Context Protocol that an agent's `mcp_config` names.
//!
//! They are started with the conversation's first message or run, each within 30 seconds. A server that does not start
//! is reported by an event, and the others are used, as in the reference. `${NAME}` is replaced by its value only here,
//! so the value is never stored. Source: `docs/reference/extensions.md#mcp-servers`.

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

/// The settings of servers, and the problems of invalid settings.
type Read = (Vec<ServerConfig>, Vec<ServerProblem>);

impl Local {
    /// Starts these servers. Only the secrets that their settings name are resolved.
    pub(super) async fn start_servers(&self, servers: Vec<Server>) -> Result<(Servers, Vec<ServerProblem>)> {
        let (configs, mut problems) = self.read_servers(servers).await;
        let (servers, failed) = Servers::start(configs, &self.working_dir).await;
        problems.extend(failed);
        Ok((servers, problems))
    }

    /// Starts further servers. A server replaces an existing one of the same name.
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
        // Reading reports the secrets that it needs. It is repeated until all of them are known.
        let mut values: HashMap<String, Option<String>> = HashMap::new();
        loop {
            let (read, missing) = read_with(&servers, &values);
            if missing.is_empty() {
                return read;
            }
            for name in missing {
                let value = self.lent_value(&name).await;
                values.insert(name, value);
            }
        }
    }

    /// Returns a secret's value: from this conversation, or else from its parent.
    async fn lent_value(&self, name: &str) -> Option<String> {
        let mut value = self.secrets.value(name).await;
        if let (None, Some(lender)) = (&value, &self.parts.lender) {
            value = lender.value(name).await;
        }
        value.map(|secret| secret.expose().to_owned())
    }

    /// Adds an event for every server that failed. The detail is masked, because a server's message may contain a
    /// secret.
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

    /// Updates the equipment with the current tools of the servers. `None` if they have not changed.
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
    /// Adds the servers and their tools. A tool is left out if its name is in use.
    pub fn with_servers(mut self, servers: Servers) -> Self {
        self.servers_count = *servers.changes().borrow();
        self.toolbox.replace_servers_tools(offered(&servers, &self.filter));
        self.servers = Some(Arc::new(servers));
        self.show();
        self
    }
}

/// Returns the servers' tools that pass the filter of the agent's settings.
fn offered(servers: &Servers, filter: &Option<regex::Regex>) -> Vec<Arc<dyn Tool>> {
    let passes = |tool: &Arc<dyn Tool>| filter.as_ref().is_none_or(|filter| filter.is_match(tool.name()));
    servers.tools().into_iter().filter(passes).collect()
}

/// Removes the tools that do not pass the filter of the agent's settings.
pub(super) fn filtered(toolbox: &mut Toolbox, filter: &Option<regex::Regex>) {
    if let Some(filter) = filter {
        toolbox.remove(|tool| !filter.is_match(tool.name()));
    }
}

/// Reads the settings of `servers`. Also returns the names of needed secrets that `values` does not contain.
fn read_with(servers: &[Server], values: &HashMap<String, Option<String>>) -> (Read, Vec<String>) {
    let missing = RefCell::new(Vec::new());
    let value = |name: &str| match values.get(name) {
        Some(value) => value.clone(),
        None => {
            missing.borrow_mut().push(name.to_owned());
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
    ((configs, problems), missing.into_inner())
}
