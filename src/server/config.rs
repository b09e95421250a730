//! The configuration of a server. The command line decides where each value comes from.

use std::path::PathBuf;
use std::time::Duration;

use super::schedule::{BackupSchedule, HeadSchedule};
use super::webhook::WebhookSpec;
use crate::plugin::AmbientPlugins;
use crate::secret::Cipher;

/// The default for [`Config::runs_max`], the same as the reference's.
pub const RUNS_MAX: usize = 10;

/// The default for [`Config::idle_max`]: 20 minutes, as in the reference.
pub const IDLE_MAX: Duration = Duration::from_secs(20 * 60);

/// What a reader of a server on a shared log sees. A file that is on its own always has everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Consistency {
    /// What this machine's file has. Other machines' writes come some milliseconds later.
    #[default]
    File,
    /// Everything that any machine had written when the request came: each request first asks the log.
    Log,
}

/// The configuration of a server.
#[derive(Clone)]
#[non_exhaustive]
pub struct Config {
    /// The session keys. A client with one of them may do everything. If empty, every client may.
    pub session_keys: Vec<String>,
    /// The origins from which browsers may call, besides those of this machine.
    pub origins: Vec<String>,
    /// The host names that requests may use, besides addresses and `localhost`. Checked only if there are no session
    /// keys.
    pub hosts: Vec<String>,
    /// The folder for tools' files: one subfolder for each conversation.
    pub conversations_dir: PathBuf,
    /// The folder for the worktrees of conversations. The default is `/tmp/conversation-worktrees`, as in the
    /// reference; if that belongs to another user, the same path followed by this user's id.
    pub worktrees_dir: Option<PathBuf>,
    /// The cipher that seals secrets on disk. Without it, secrets are kept in memory only.
    pub cipher: Option<Cipher>,
    /// The maximum number of conversations that run at once.
    pub runs_max: usize,
    /// The folder for commands that name no folder. The default is the server's own.
    pub workspace_dir: Option<PathBuf>,
    /// The folder for settings, stored secrets and profiles, in the reference's files.
    pub settings_dir: PathBuf,
    /// The webhooks that are notified of events.
    pub webhooks: Vec<WebhookSpec>,
    /// The backups that the server takes. `None` for none.
    pub backups: Option<BackupSchedule>,
    /// The signed heads that the server writes. `None` for none.
    pub heads: Option<HeadSchedule>,
    /// The OpenTelemetry collector that receives turns, replies and tool calls, for example `http://localhost:4318`.
    /// Needs the feature `otel`.
    pub telemetry: Option<String>,
    /// The origins from which secrets may be looked up, for example `https://vault.example:8200`. If empty, all may be
    /// used.
    pub lookup_origins: Vec<String>,
    /// How long an unused conversation stays open. `None` for no limit.
    pub idle_max: Option<Duration>,
    /// The time without use after which the machine of the server is taken down. It is only reported to clients; the
    /// server itself does not act on it.
    pub runtime_idle_timeout: Option<Duration>,
    /// The home folder of the user who runs the server.
    pub home_dir: Option<PathBuf>,
    /// The folder with the skills, memory, agents and plugins of the user, for all conversations. Without it they have
    /// none.
    pub person_dir: Option<PathBuf>,
    /// A copy of the public repository of skills and plugins. Nothing in it is fetched automatically.
    pub public_extensions_dir: Option<PathBuf>,
    /// Which plugins conversations have without a request for them.
    pub ambient_plugins: AmbientPlugins,
    /// The address under which other servers on the same shared log reach this one, such as `http://10.0.0.7:8000`. With
    /// it, they pass what they are asked about the conversations that are open here. `None`: each answers alone.
    pub advertise: Option<String>,
    /// What readers see if the store shares a log with other machines.
    pub consistency: Consistency,
}

setters!(Config {
    session_keys: Vec<String>,
    origins: Vec<String>,
    hosts: Vec<String>,
    conversations_dir: PathBuf,
    worktrees_dir?: PathBuf,
    cipher?: Cipher,
    runs_max: usize,
    workspace_dir?: PathBuf,
    settings_dir: PathBuf,
    webhooks: Vec<WebhookSpec>,
    backups?: BackupSchedule,
    heads?: HeadSchedule,
    telemetry?: String,
    lookup_origins: Vec<String>,
    idle_max?: Duration,
    runtime_idle_timeout?: Duration,
    home_dir?: PathBuf,
    person_dir?: PathBuf,
    public_extensions_dir?: PathBuf,
    ambient_plugins: AmbientPlugins,
    advertise?: String,
    consistency: Consistency,
});

impl Config {
    /// Returns the folder of the named settings of models.
    pub(super) fn profiles_dir(&self) -> PathBuf {
        self.settings_dir.join("profiles")
    }
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
            backups: None,
            heads: None,
            telemetry: None,
            lookup_origins: Vec::new(),
            idle_max: Some(IDLE_MAX),
            runtime_idle_timeout: None,
            home_dir: None,
            person_dir: None,
            public_extensions_dir: None,
            ambient_plugins: AmbientPlugins::None,
            advertise: None,
            consistency: Consistency::File,
        }
    }
}
