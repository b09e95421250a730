//! How a server is set up. Where each value comes from is the command line's business.

use std::path::PathBuf;
use std::time::Duration;

use super::webhook::WebhookSpec;
use crate::plugin::AmbientPlugins;
use crate::secret::Cipher;

/// How many conversations may run at once where nobody says; the reference's number.
pub const RUNS_MAX: usize = 10;

/// How long a conversation stays open that nobody uses; the reference's 20 minutes.
pub const IDLE_MAX: Duration = Duration::from_secs(20 * 60);

/// How a server is set up.
#[derive(Clone)]
pub struct Config {
    /// Who has one of these may do everything. Empty: anybody may.
    pub session_keys: Vec<String>,
    /// Origins that a browser may call from besides those of this machine.
    pub origins: Vec<String>,
    /// Names that it may be asked under besides addresses and `localhost`, where there are no keys.
    pub hosts: Vec<String>,
    /// Where tools keep what belongs to a conversation: a folder each.
    pub conversations_dir: PathBuf,
    /// Where worktrees of conversations are kept. Without one: `/tmp/conversation-worktrees`, the reference's place, or
    /// where that is another user's, the same with this user's number behind it.
    pub worktrees_dir: Option<PathBuf>,
    /// What seals secrets on the disk; without it they are kept in memory only.
    pub cipher: Option<Cipher>,
    /// How many conversations may run at once.
    pub runs_max: usize,
    /// Where commands run that name no folder: the server's own where it is none.
    pub workspace_dir: Option<PathBuf>,
    /// Where settings, stored secrets and profiles are kept, in the reference's files.
    pub settings_dir: PathBuf,
    /// Who is told what happens.
    pub webhooks: Vec<WebhookSpec>,
    /// A collector of OpenTelemetry that is told of turns, replies and tool calls: `http://localhost:4318`. Needs the
    /// feature `otel`.
    pub telemetry: Option<String>,
    /// Where secrets may be looked up: origins like `https://vault.example:8200`. Empty: anywhere.
    pub lookup_origins: Vec<String>,
    /// How long a conversation stays open that nobody uses; for ever where there is none.
    pub idle_max: Option<Duration>,
    /// After how long without use the machine that the server is on is taken down, as clients are told; the server itself
    /// does nothing about it.
    pub runtime_idle_timeout: Option<Duration>,
    /// The home folder of whoever runs the server.
    pub home_dir: Option<PathBuf>,
    /// The folder whose skills, memory, agents and plugins conversations have; without it they have none.
    pub person_dir: Option<PathBuf>,
    /// A copy of the public repository of skills and plugins; nothing of it is fetched by itself.
    pub public_extensions_dir: Option<PathBuf>,
    /// Which plugins conversations have without being given them.
    pub ambient_plugins: AmbientPlugins,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            session_keys: Vec::new(),
            origins: Vec::new(),
            hosts: Vec::new(),
            conversations_dir: PathBuf::from("conversations"),
            worktrees_dir: None,
            cipher: None,
            runs_max: RUNS_MAX,
            workspace_dir: None,
            settings_dir: PathBuf::from(".openhands"),
            webhooks: Vec::new(),
            telemetry: None,
            lookup_origins: Vec::new(),
            idle_max: Some(IDLE_MAX),
            runtime_idle_timeout: None,
            home_dir: None,
            person_dir: None,
            public_extensions_dir: None,
            ambient_plugins: AmbientPlugins::None,
        }
    }
}
