//! The server's settings in the settings file: its table `serve`.
//!
//! The command line overrides the environment, which overrides the file, which overrides the defaults.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use figment::Figment;
use figment::providers::{Format as _, Toml};
use serde::Deserialize;

use super::backups::Backup;
use super::heads::Heads;
use super::journal::{Detail, Format};
use super::listening::At;
use super::settings::{self, Extras};
#[cfg(feature = "postgres")]
use super::shared::Sees;
use crate::error::{Error, Result, SetupError};
use crate::server::{Config, WebhookSpec};

/// The name of the table.
const TABLE: &str = "serve";

/// Returns the value of an environment variable. `None` if it is not set, or empty.
pub(super) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// The table `serve`. Every member is optional. Unknown members are rejected.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Table {
    pub host: Option<IpAddr>,
    pub port: Option<u16>,
    pub listen: Option<At>,
    pub tls_cert: Option<PathBuf>,
    pub tls_key: Option<PathBuf>,
    pub api_keys: Vec<String>,
    pub allow_origins: Vec<String>,
    pub allow_hosts: Vec<String>,
    pub lookup_origins: Vec<String>,
    pub otel_endpoint: Option<String>,
    pub extras: Option<Extras>,
    pub import_folders: bool,
    pub without_key: bool,
    pub log_format: Option<Format>,
    pub log_level: Option<Detail>,
    pub log_requests: bool,
    pub backup: Backup,
    pub heads: Heads,
    #[cfg(feature = "postgres")]
    pub advertise: Option<String>,
    #[cfg(feature = "postgres")]
    pub consistency: Option<Sees>,
    max_concurrent_runs: Option<usize>,
    idle_seconds: Option<f64>,
    conversations_dir: Option<PathBuf>,
    settings_dir: Option<PathBuf>,
    workspace_dir: Option<PathBuf>,
    worktrees_dir: Option<PathBuf>,
    webhooks: Option<serde_json::Value>,
    #[serde(skip)]
    file: PathBuf,
}

impl Table {
    /// Reads the table from the file `named`, or else from the user's own file. Empty if there is no table.
    ///
    /// # Errors
    /// [`SetupError::Setting`] if the file is missing or cannot be read, or if the table is invalid.
    pub(super) fn read(named: Option<&Path>) -> Result<Self> {
        let wrong = |file: &Path, reason: String| {
            Error::Setup(SetupError::Setting { place: file.display().to_string(), reason })
        };
        let found = settings::file(named).map_err(|reason| wrong(named.unwrap_or(Path::new("")), reason))?;
        let Some(file) = found.filter(|file| file.is_file()) else { return Ok(Self::default()) };
        let figment = Figment::from(Toml::file_exact(&file));
        let invalid = |error| wrong(&file, settings::message(error));
        // Reports also a file that cannot be read at all, and not only an invalid table.
        figment.extract::<figment::value::Dict>().map_err(invalid)?;
        if figment.find_value(TABLE).is_err() {
            return Ok(Self::default());
        }
        let table: Self = figment.extract_inner(TABLE).map_err(invalid)?;
        Ok(Self { file, ..table })
    }

    /// Fills in the settings that the environment does not set.
    ///
    /// # Errors
    /// [`SetupError::Setting`] if `idle_seconds` is no valid duration, or if webhooks cannot be read.
    pub(super) fn fill(&self, config: &mut Config) -> Result<()> {
        let unset = |name: &str| variable(name).is_none();
        let wrong = |reason: String| {
            Error::Setup(SetupError::Setting { place: self.file.display().to_string(), reason })
        };
        if let Some(runs) = self.max_concurrent_runs.filter(|_| unset("OH_MAX_CONCURRENT_RUNS")) {
            config.runs_max = runs;
        }
        if let Some(seconds) = self.idle_seconds.filter(|_| unset("OH_CONVERSATION_IDLE_TTL_SECONDS")) {
            let idle = Duration::try_from_secs_f64(seconds);
            config.idle_max = Some(idle.map_err(|error| wrong(format!("serve.idle_seconds: {error}")))?);
        }
        if let Some(folder) = self.conversations_dir.as_ref().filter(|_| unset("OH_CONVERSATIONS_PATH")) {
            config.conversations_dir.clone_from(folder);
        }
        if let Some(folder) = self.settings_dir.as_ref().filter(|_| unset("OH_PERSISTENCE_DIR")) {
            config.settings_dir.clone_from(folder);
        }
        if let Some(folder) = self.workspace_dir.as_ref().filter(|_| unset("OH_WORKSPACE_PATH")) {
            config.workspace_dir = Some(folder.clone());
        }
        if let Some(folder) = self.worktrees_dir.as_ref().filter(|_| unset("OH_CONVERSATION_WORKTREE_ROOT")) {
            config.worktrees_dir = Some(folder.clone());
        }
        if let Some(webhooks) = self.webhooks.as_ref().filter(|_| unset("OH_WEBHOOKS")) {
            let specs = WebhookSpec::parse_list(&webhooks.to_string());
            config.webhooks = specs.map_err(|error| wrong(format!("serve.webhooks: {error}")))?;
        }
        Ok(())
    }
}
