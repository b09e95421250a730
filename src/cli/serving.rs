//! What a server is set up with besides what is typed: the table `serve` of the file of settings.
//!
//! What is typed counts most, then the environment, then the file, then the defaults.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use figment::Figment;
use figment::providers::{Format as _, Toml};
use serde::Deserialize;

use super::arguments::{Extras, Serve};
use super::settings;
use crate::error::{Error, Result};
use crate::server::{Config, WebhookSpec};

/// The table's name.
const TABLE: &str = "serve";

/// What a variable of the environment holds; `None` where it is not set, or empty.
pub(super) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// The table. Every member may be left out; an unknown one is refused.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Table {
    host: Option<IpAddr>,
    port: Option<u16>,
    api_keys: Vec<String>,
    allow_origins: Vec<String>,
    allow_hosts: Vec<String>,
    lookup_origins: Vec<String>,
    otel_endpoint: Option<String>,
    extras: Option<Extras>,
    import_folders: bool,
    without_key: bool,
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
    /// Reads it from the file that was named, or the person's own; empty where there is none.
    ///
    /// # Errors
    /// [`Error::Setting`].
    pub(super) fn read(named: Option<&Path>) -> Result<Self> {
        let wrong =
            |file: &Path, reason: String| Error::Setting { place: file.display().to_string(), reason };
        let found = settings::file(named).map_err(|reason| wrong(named.unwrap_or(Path::new("")), reason))?;
        let Some(file) = found.filter(|file| file.is_file()) else { return Ok(Self::default()) };
        let figment = Figment::from(Toml::file_exact(&file));
        let told = |error| wrong(&file, settings::told(error));
        // A file that cannot be read at all is told of too, and not only a table that is wrong.
        figment.extract::<figment::value::Dict>().map_err(told)?;
        if figment.find_value(TABLE).is_err() {
            return Ok(Self::default());
        }
        let table: Self = figment.extract_inner(TABLE).map_err(told)?;
        Ok(Self { file, ..table })
    }

    /// What was typed, and where nothing was, what stands here.
    pub(super) fn beneath(&self, typed: &Serve) -> Serve {
        let or = |typed: &Vec<String>, own: &Vec<String>| if typed.is_empty() { own } else { typed }.clone();
        Serve {
            config: typed.config.clone(),
            host: typed.host.or(self.host),
            port: typed.port.or(self.port),
            api_keys: or(&typed.api_keys, &self.api_keys),
            #[cfg(unix)]
            handed_keys: typed.handed_keys,
            origins: or(&typed.origins, &self.allow_origins),
            hosts: or(&typed.hosts, &self.allow_hosts),
            lookup_origins: or(&typed.lookup_origins, &self.lookup_origins),
            otel_endpoint: typed.otel_endpoint.clone().or_else(|| self.otel_endpoint.clone()),
            extras: typed.extras.or(self.extras),
            import_folders: typed.import_folders || self.import_folders,
            without_key: typed.without_key || self.without_key,
        }
    }

    /// Sets what the environment does not say.
    ///
    /// # Errors
    /// [`Error::Setting`] for webhooks that cannot be read.
    pub(super) fn fill(&self, config: &mut Config) -> Result<()> {
        let unset = |name: &str| variable(name).is_none();
        let wrong = |reason: String| Error::Setting { place: self.file.display().to_string(), reason };
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
