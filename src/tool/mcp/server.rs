//! One server: its connection and its current tools.

use std::path::PathBuf;
use std::sync::{Arc, Mutex as Lock, PoisonError};
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, Implementation,
    PaginatedRequestParams, Tool,
};
use rmcp::service::{ClientInitializeError, NotificationContext, RunningService, ServiceError};
use rmcp::{ClientHandler, RoleClient, ServiceExt};
use tokio::sync::{Mutex, Notify, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::config::{ProblemKind, Reach, ServerConfig};
use super::limits::Fault;
use super::program::{self, Complaint};

/// How long a server may take to connect, and after that to list its tools.
pub(super) const START: Duration = Duration::from_secs(30);

/// The time limit of a call, unless the configuration has another.
const CALL: Duration = Duration::from_secs(300);

/// How long a server may take to end by itself.
const END: Duration = Duration::from_secs(4);

/// The maximum number of tools of one server. Further tools are ignored.
const TOOLS_MAX: usize = 1000;

/// The maximum number of pages of the list of tools that are read.
const PAGES_MAX: usize = 100;

/// One server.
pub(super) struct Server {
    pub config: ServerConfig,
    working_dir: PathBuf,
    connection: Mutex<Option<Connection>>,
    tools: Lock<Vec<Tool>>,
    /// Notified when the server reports that its tools have changed.
    stale: Arc<Notify>,
    /// The number of changes of tools, of all servers.
    changes: watch::Sender<u64>,
    closed: CancellationToken,
}

struct Connection {
    service: RunningService<RoleClient, Client>,
    group: Option<u32>,
    /// Why this program stopped reading from the server. Empty as long as it reads.
    fault: Fault,
}

/// The handler of messages from the server.
struct Client {
    stale: Arc<Notify>,
}

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        ClientConfig::new(
            ClientCapabilities::default(),
            Implementation::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")),
        )
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.stale.notify_one();
    }
}

/// Why there is no connection: the kind and the reason.
type Trouble = (ProblemKind, String);

fn refused(reason: String) -> Trouble {
    (ProblemKind::Refused, reason)
}

/// Why a call has no result.
#[derive(Debug)]
pub(super) enum CallFailure {
    /// There is no connection, and no new one could be made.
    Unconnected(String),
    /// The server did not answer within this time.
    TimedOut(Duration),
    /// The server refused the call, or the connection failed.
    Refused(String),
}

impl Server {
    pub fn new(config: ServerConfig, working_dir: PathBuf, changes: watch::Sender<u64>) -> Arc<Self> {
        Arc::new(Self {
            config,
            working_dir,
            connection: Mutex::new(None),
            tools: Lock::default(),
            stale: Arc::default(),
            changes,
            closed: CancellationToken::new(),
        })
    }

    /// Returns the current tools of the server.
    pub fn tools(&self) -> Vec<Tool> {
        self.tools.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Connects and reads the list of tools. From then on a task updates the list when it changes.
    pub async fn start(self: &Arc<Self>) -> Result<(), Trouble> {
        {
            let mut connection = self.connection.lock().await;
            *connection = Some(self.connect().await?);
        }
        let listed = timeout(START, self.list()).await;
        let listed = listed.unwrap_or_else(|_| {
            let reason = format!("it did not list its tools within {} seconds", START.as_secs());
            Err((ProblemKind::TimedOut, reason))
        });
        if let Err(trouble) = listed {
            self.close().await;
            return Err(trouble);
        }
        tokio::spawn(keep_up(Arc::clone(self)));
        Ok(())
    }

    async fn connect(&self) -> Result<Connection, Trouble> {
        let client = Client { stale: Arc::clone(&self.stale) };
        let late = || format!("it did not answer within {} seconds", START.as_secs());
        match &self.config.reach {
            reach @ Reach::Program { .. } => {
                let program::Program { transport, complaint, fault, group } =
                    program::start(reach, &self.working_dir).map_err(refused)?;
                let served = timeout(START, client.serve(transport)).await;
                let service = match served {
                    Ok(Ok(service)) => service,
                    Ok(Err(error)) => {
                        crate::program::kill(group);
                        let reason = fault.or(reason_of(error));
                        return Err(refused(with_complaint(reason, &complaint).await));
                    }
                    Err(_) => {
                        crate::program::kill(group);
                        return Err((ProblemKind::TimedOut, with_complaint(late(), &complaint).await));
                    }
                };
                Ok(Connection { service, group, fault })
            }
            Reach::Address { url, headers } => {
                let transport = super::address::transport(url, headers).map_err(refused)?;
                let served = timeout(START, client.serve(transport)).await;
                let service = served
                    .map_err(|_| (ProblemKind::TimedOut, late()))?
                    .map_err(|error| refused(reason_of(error)))?;
                Ok(Connection { service, group: None, fault: Fault::default() })
            }
        }
    }

    /// Reads the list of tools.
    async fn list(&self) -> Result<(), Trouble> {
        let peer = match &*self.connection.lock().await {
            Some(connection) => connection.service.peer().clone(),
            None => return Err(refused("it is not connected".to_owned())),
        };
        let (mut tools, mut cursor) = (Vec::new(), None);
        for _ in 0..PAGES_MAX {
            let params = PaginatedRequestParams::default().with_cursor(cursor);
            let page = peer.list_tools(Some(params)).await.map_err(|error| refused(error.to_string()))?;
            tools.extend(page.tools);
            cursor = page.next_cursor;
            if cursor.is_none() || tools.len() >= TOOLS_MAX {
                break;
            }
        }
        tools.truncate(TOOLS_MAX);
        let changed = {
            let mut known = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
            let changed = *known != tools;
            *known = tools;
            changed
        };
        if changed {
            self.changes.send_modify(|count| *count += 1);
        }
        Ok(())
    }

    /// Calls a tool. If the connection was lost, it tries once to connect again.
    pub async fn call(&self, params: CallToolRequestParams) -> Result<CallToolResult, CallFailure> {
        let (peer, fault) = self.peer().await.map_err(CallFailure::Unconnected)?;
        let limit = self.config.timeout.unwrap_or(CALL);
        // If the time is over, the request is also cancelled at the server.
        match timeout(limit, peer.call_tool_once(params)).await {
            Err(_) => Err(CallFailure::TimedOut(limit)),
            Ok(Ok(rmcp::model::CallToolResponse::Complete(result))) => Ok(result),
            Ok(Ok(_)) => {
                Err(CallFailure::Refused("the server asks for more than a tool can answer".to_owned()))
            }
            Ok(Err(ServiceError::McpError(error))) => Err(CallFailure::Refused(error.message.into_owned())),
            Ok(Err(error)) => Err(CallFailure::Refused(fault.or(error.to_string()))),
        }
    }

    async fn peer(&self) -> Result<(rmcp::Peer<RoleClient>, Fault), String> {
        if self.closed.is_cancelled() {
            return Err("The client has been closed and cannot be reconnected.".to_owned());
        }
        let mut connection = self.connection.lock().await;
        if let Some(connection) = &*connection
            && !connection.service.is_closed()
            && !connection.service.peer().is_transport_closed()
        {
            return Ok((connection.service.peer().clone(), connection.fault.clone()));
        }
        if let Some(lost) = connection.take() {
            lost.end().await;
        }
        match self.connect().await {
            Ok(made) => {
                let made = connection.insert(made);
                Ok((made.service.peer().clone(), made.fault.clone()))
            }
            Err((_, reason)) => Err(format!("Reconnection attempt failed: {reason}")),
        }
    }

    /// Ends the connection. If the server is a program, ends it too.
    pub async fn close(&self) {
        self.closed.cancel();
        if let Some(connection) = self.connection.lock().await.take() {
            connection.end().await;
        }
    }
}

impl Connection {
    async fn end(mut self) {
        // Closing its input asks a program to end. Then its remaining processes are killed.
        drop(self.service.close_with_timeout(END).await);
        crate::program::kill(self.group);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        crate::program::kill(self.group);
    }
}

/// Reads the list of tools again whenever the server reports a change.
async fn keep_up(server: Arc<Server>) {
    loop {
        tokio::select! {
            () = server.closed.cancelled() => return,
            () = server.stale.notified() => {}
        }
        // If the server does not answer in time, the old list stays until the next report of a change.
        drop(timeout(START, server.list()).await);
    }
}

/// Returns why the connection failed, without the names of Rust's types.
fn reason_of(error: ClientInitializeError) -> String {
    match error {
        ClientInitializeError::TransportError { error, .. } => error.error.to_string(),
        other => other.to_string(),
    }
}

/// Returns the reason, followed by the end of the program's standard error.
async fn with_complaint(reason: String, complaint: &Complaint) -> String {
    match complaint.text().await {
        Some(text) => format!("{reason}: {text}"),
        None => reason,
    }
}
