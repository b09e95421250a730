//! Tools of servers that speak the Model Context Protocol, over pipes and over HTTP.
//!
//! [`Servers`] starts what a configuration names, each within 30 seconds; one that does not come up is a
//! [`ServerProblem`] and the others go on. A server may change its tools while it runs; [`Servers::changes`] tells. The
//! room knows no secrets but those that the configuration names. Its invariant: whatever a server does or does not
//! do, a call ends in time and its answer is bounded.

mod address;
mod config;
mod expand;
mod heard;
mod program;
mod server;
mod simplify;
mod tool;

use std::path::Path;
use std::sync::Arc;

pub use config::{Lookup, ProblemKind, Reach, ServerConfig, ServerProblem};
use server::Server;
use tokio::sync::watch;
pub use tool::McpTool;

use super::{Tool, Toolbox};

/// The servers of one conversation.
pub struct Servers {
    /// Each with whether the names of its tools begin with its own. It is the configuration that says so: a server that
    /// does not come up today must not give the tools of the others other names.
    servers: Vec<(Arc<Server>, bool)>,
    changes: watch::Sender<u64>,
}

impl Servers {
    /// Starts the servers, all at once, in the folder of the workspace. Those that do not come up are answered, with
    /// the reason.
    pub async fn start(config: Vec<ServerConfig>, working_dir: &Path) -> (Self, Vec<ServerProblem>) {
        let none = Self { servers: Vec::new(), changes: watch::Sender::new(0) };
        none.with(config, working_dir).await
    }

    /// These, and others beside them, in the place of those with their names, which end.
    pub async fn with(&self, config: Vec<ServerConfig>, working_dir: &Path) -> (Self, Vec<ServerProblem>) {
        let changes = self.changes.clone();
        let are_named = config.len() > 1;
        let mut starting = Vec::with_capacity(config.len());
        for config in config {
            let server = Server::new(config, working_dir.to_owned(), changes.clone());
            let start = Arc::clone(&server);
            starting.push((server, tokio::spawn(async move { start.start().await })));
        }
        let (mut servers, mut problems) = (self.servers.clone(), Vec::new());
        for (server, started) in starting {
            let broke_off = |_| Err((ProblemKind::Refused, "it broke off".to_owned()));
            match started.await.unwrap_or_else(broke_off) {
                Ok(()) => {
                    let known = servers.iter().position(|(known, _)| known.config.name == server.config.name);
                    if let Some((known, _)) = known.map(|place| servers.remove(place)) {
                        known.close().await;
                    }
                    servers.push((server, are_named));
                }
                Err((kind, reason)) => {
                    problems.push(ServerProblem { server: server.config.name.clone(), kind, reason });
                }
            }
        }
        (Self { servers, changes }, problems)
    }

    /// Whether none of them runs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    /// The tools that they have at the moment. Where more than one server is configured, a tool's name begins with its
    /// server's: `github_create_issue`. A name that is there twice is the first one's.
    #[must_use]
    pub fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
        for (server, is_named) in &self.servers {
            for offered in server.tools() {
                let name = match is_named {
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

    /// Changes whenever a server's tools do: then [`Servers::tools`] answers others.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Ends the connections, and the servers that are programs; a few seconds at most.
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
    /// Puts the tools that servers have now in the place of those they had. A tool whose name another one has is
    /// left out; its name is answered.
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
