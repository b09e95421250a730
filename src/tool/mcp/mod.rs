//! Tools of servers that speak the Model Context Protocol, over pipes and over HTTP.
//!
//! [`Servers`] starts the servers of a configuration. Each has 30 seconds to connect and 30 to list its tools. If a
//! server does not start, it is a [`ServerProblem`] and the others continue. A server may change its tools while it
//! runs: see [`Servers::changes`]. A server receives only the secrets that its configuration or a call names.
//! Invariant: whatever a server does, a call ends in time and its answer is bounded.

mod address;
mod config;
mod expand;
mod limits;
mod program;
mod server;
mod simplify;
mod tool;

use std::path::Path;
use std::sync::Arc;

pub use config::{Lookup, ProblemKind, ServerConfig, ServerProblem};
use server::Server;
use tokio::sync::watch;
pub use tool::McpTool;

use super::{Tool, Toolbox};

/// The servers of one conversation.
pub struct Servers {
    /// Each server, and whether the names of its tools begin with the server's name. The number of configured servers
    /// decides that, so that tools keep their names if another server does not start.
    servers: Vec<(Arc<Server>, bool)>,
    changes: watch::Sender<u64>,
}

impl Servers {
    /// Starts the servers concurrently, in the folder of the workspace. Also returns the servers that did not start,
    /// each with the reason.
    pub async fn start(config: Vec<ServerConfig>, working_dir: &Path) -> (Self, Vec<ServerProblem>) {
        let none = Self { servers: Vec::new(), changes: watch::Sender::new(0) };
        none.with(config, working_dir).await
    }

    /// Starts more servers and adds them to these. A new server replaces one with the same name, which is closed.
    pub async fn with(&self, config: Vec<ServerConfig>, working_dir: &Path) -> (Self, Vec<ServerProblem>) {
        let changes = self.changes.clone();
        let prefixed = config.len() > 1;
        let mut starting = Vec::with_capacity(config.len());
        for config in config {
            let server = Server::new(config, working_dir.to_owned(), changes.clone());
            let start = Arc::clone(&server);
            starting.push((server, tokio::spawn(async move { start.start().await })));
        }
        let (mut servers, mut problems) = (self.servers.clone(), Vec::new());
        for (server, started) in starting {
            let failed = |_| Err((ProblemKind::Refused, "the task that starts it failed".to_owned()));
            match started.await.unwrap_or_else(failed) {
                Ok(()) => {
                    let known = servers.iter().position(|(known, _)| known.config.name == server.config.name);
                    if let Some((known, _)) = known.map(|place| servers.remove(place)) {
                        known.close().await;
                    }
                    servers.push((server, prefixed));
                }
                Err((kind, reason)) => {
                    problems.push(ServerProblem { server: server.config.name.clone(), kind, reason });
                }
            }
        }
        (Self { servers, changes }, problems)
    }

    /// Returns the current tools of the servers. If a server was configured together with others, the names of its
    /// tools begin with its own: `github_create_issue`. If two tools have the same name, only the first is returned.
    #[must_use]
    pub fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
        for (server, prefixed) in &self.servers {
            for offered in server.tools() {
                let name = match prefixed {
                    false => offered.name.to_string(),
                    true => format!("{}_{}", server.config.name, offered.name),
                };
                if tools.iter().any(|known| known.name() == name) {
                    continue;
                }
                if let Some(tool) = McpTool::new(server, &offered, name) {
                    tools.push(Arc::new(tool));
                }
            }
        }
        tools
    }

    /// Returns a receiver that is notified when the tools of a server have changed. Then call [`Servers::tools`] again.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Closes the connections and ends the servers that are programs. This takes a few seconds at most.
    pub async fn close(&self) {
        let closing: Vec<_> = self
            .servers
            .iter()
            .map(|(server, _)| {
                let server = Arc::clone(server);
                tokio::spawn(async move { server.close().await })
            })
            .collect();
        for closed in closing {
            drop(closed.await);
        }
    }
}

impl Toolbox {
    /// Replaces all tools of servers by `tools`. A tool is left out if its name is taken. Returns the names of the
    /// tools that were left out.
    pub fn replace_servers_tools(&mut self, tools: Vec<Arc<dyn Tool>>) -> Vec<String> {
        self.remove(|tool| &*tool.definition().kind == "MCPToolDefinition");
        let mut left_out = Vec::new();
        for tool in tools {
            let name = tool.name().to_owned();
            if self.add(vec![tool]).is_err() {
                left_out.push(name);
            }
        }
        left_out
    }
}
