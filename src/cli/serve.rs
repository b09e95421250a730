//! `annals serve`: runs the server until the program is asked to end.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use tokio::runtime::Builder;

#[cfg(unix)]
use super::anew;
use super::backups::BackupArguments;
use super::ends;
use super::heads::HeadArguments;
use super::journal::{self, Journal, LogArguments};
use super::keys::Given;
use super::listening::{At, Bound};
use super::near;
use super::print::{Output, count, plural};
use super::serving::{Table, variable};
use super::settings::{Extras, home};
#[cfg(feature = "postgres")]
use super::shared;
use super::signals::EndSignals;
use super::{DONE, Place};
use crate::conversation::ConversationError;
use crate::error::{Error, Result, SetupError};
use crate::ids::ConversationId;
use crate::server::{App, Certificates, Config, IDLE_MAX, RUNS_MAX, WebhookSpec, private, serve};
use crate::store::{Options, Store};
use crate::transfer::{ImportOptions, ImportStatus, Importer};

/// The default host and port.
const HOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const PORT: u16 = 8000;

/// Serve the OpenHands agent-server API over the database
///
/// The real OpenHands clients work with it unchanged. It listens on this machine only, unless `--host` names
/// another address; then it requires a key: a session key, or the named keys of `annals keys server`. The reference's environment variables are read too:
/// OH_SESSION_API_KEYS and OH_PREVIOUS_SECRET_KEYS (a JSON list, or _0, _1, ..), SESSION_API_KEY, OH_SECRET_KEY,
/// OH_WEBHOOKS, OH_MAX_CONCURRENT_RUNS, OH_CONVERSATIONS_PATH, OH_PERSISTENCE_DIR, OH_WORKSPACE_PATH,
/// OH_CONVERSATION_WORKTREE_ROOT and OH_CONVERSATION_IDLE_TTL_SECONDS; so is its file
/// workspace/openhands_agent_server_config.json, or the file that OPENHANDS_AGENT_SERVER_CONFIG_PATH names. The
/// server does not start if it is given a key that it does not understand. SIGTERM, SIGINT, SIGQUIT and SIGHUP (a closed
/// terminal; with `--tls-cert` it reads the certificate again) end it: runs are paused, and the file alone is whole.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    annals serve\n  \
    SESSION_API_KEY=$KEY annals --db team.db serve --port 8000\n  \
    SESSION_API_KEY=$KEY annals serve --host 0.0.0.0\n  \
    annals serve --listen unix:/run/annals/annals.sock     behind a proxy on this machine\n  \
    SESSION_API_KEY=$KEY annals serve --host 0.0.0.0 --port 443 --tls-cert chain.pem --tls-key key.pem\n  \
    annals serve --read-only --port 8001     for auditors; `annals keys server add` gives each a key\n  \
    annals serve --config server.toml     [serve] port = 8000, api_keys = [..], max_concurrent_runs = 20, ..\n  \
    OH_CONVERSATIONS_PATH=workspace/conversations annals serve --import-folders   in the reference's place")]
pub(super) struct Arguments {
    /// The settings file; its table `serve` gives the settings that are not given here. By default it is
    /// annals/config.toml in the folder for programs' settings
    #[arg(long, value_name = "FILE", env = "ANNALS_CONFIG")]
    pub config: Option<PathBuf>,
    /// The address to listen on [default: 127.0.0.1]
    #[arg(long, env = "ANNALS_HOST")]
    pub host: Option<IpAddr>,
    /// The port to listen on; 0 takes a free port and prints it [default: 8000]
    #[arg(long, short, env = "PORT")]
    pub port: Option<u16>,
    /// Where to listen instead of an address and a port: unix:PATH, a socket for the server's user and group; systemd,
    /// the socket that its unit hands over; or ADDRESS:PORT
    #[arg(long, value_name = "PLACE", env = "ANNALS_LISTEN", conflicts_with_all = ["host", "port"])]
    pub listen: Option<At>,
    /// Serve over TLS with this chain of certificates, as PEM, the server's own first. SIGHUP reads it and its key again
    #[arg(long, value_name = "FILE", env = "ANNALS_TLS_CERT")]
    pub tls_cert: Option<PathBuf>,
    /// The private key of the certificate, as PEM
    #[arg(long, value_name = "FILE", env = "ANNALS_TLS_KEY")]
    pub tls_key: Option<PathBuf>,
    /// A session key that clients must send; may be given several times. The variable SESSION_API_KEY or `api_keys` in
    /// the settings file is safer: every user of the machine can see a typed key until the program has restarted itself
    /// without it
    #[arg(long = "api-key", value_name = "KEY")]
    pub api_keys: Vec<String>,
    /// The descriptor of the pipe that hands typed keys to the restarted program
    #[cfg(unix)]
    #[arg(long, hide = true)]
    pub handed_keys: Option<u32>,
    /// An origin whose pages may call the server from a browser; may be given several times
    #[arg(long = "allow-origin", value_name = "ORIGIN")]
    pub origins: Vec<String>,
    /// A host name that requests may use besides addresses and localhost, like agents.example; may be given several
    /// times. Without a session key, requests to other names are refused
    #[arg(long = "allow-host", value_name = "HOST")]
    pub hosts: Vec<String>,
    /// An origin where secrets may be looked up, like https://vault.example:8200; may be given several times.
    /// Without this option, they may be looked up at any origin that the server reaches
    #[arg(long = "lookup-origin", value_name = "ORIGIN")]
    pub lookup_origins: Vec<String>,
    /// An OpenTelemetry collector that receives turns, replies and tool calls, like http://localhost:4318, without the
    /// text of the conversation. Needs a build with the feature `otel`
    #[cfg_attr(feature = "otel", arg(env = "OTEL_EXPORTER_OTLP_ENDPOINT"))]
    #[arg(long, value_name = "URL")]
    pub otel_endpoint: Option<String>,
    /// What files may add to agents, whatever clients request: skills and agents of the operator's folder, the
    /// operator's plugins, and the plugins of workspaces, whose hooks and servers are commands that are run
    /// [default: all]
    #[arg(long, value_enum, env = "ANNALS_EXTRAS")]
    pub extras: Option<Extras>,
    /// First import the conversation folders under OH_CONVERSATIONS_PATH (by default `conversations` beside the
    /// database); events that are already in the database stay unchanged
    #[arg(long)]
    pub import_folders: bool,
    /// Change nothing and run nothing, for auditors: the database is opened for reading only, and requests that would
    /// change something are refused. Another server may write to the database meanwhile
    #[arg(long, conflicts_with = "import_folders")]
    pub read_only: bool,
    /// Listen on other addresses than this machine's without a key: everyone who reaches the server may run commands
    #[arg(long)]
    pub without_key: bool,
    /// With a shared log: the address under which its other servers reach this one, like http://10.0.0.7:8000. They pass
    /// on what they are asked about conversations that are open here [default: where it listens, if that is an address]
    #[cfg(feature = "postgres")]
    #[arg(long, value_name = "URL", env = "ANNALS_ADVERTISE")]
    pub advertise: Option<String>,
    /// With a shared log: what requests see [default: file]
    #[cfg(feature = "postgres")]
    #[arg(long, value_enum, env = "ANNALS_CONSISTENCY")]
    pub consistency: Option<shared::Sees>,
    #[command(flatten)]
    pub backup: BackupArguments,
    #[command(flatten)]
    pub heads: HeadArguments,
    #[command(flatten)]
    pub log: LogArguments,
}

impl Arguments {
    /// Returns these arguments, completed with the values of the settings file.
    fn completed(&self, table: &Table) -> Self {
        let or = |typed: &Vec<String>, own: &Vec<String>| if typed.is_empty() { own } else { typed }.clone();
        Self {
            config: self.config.clone(),
            host: self.host.or(table.host),
            port: self.port.or(table.port),
            listen: self.listen.clone().or_else(|| {
                let is_typed = self.host.is_some() || self.port.is_some();
                table.listen.clone().filter(|_| !is_typed)
            }),
            tls_cert: self.tls_cert.clone().or_else(|| table.tls_cert.clone()),
            tls_key: self.tls_key.clone().or_else(|| table.tls_key.clone()),
            api_keys: or(&self.api_keys, &table.api_keys),
            #[cfg(unix)]
            handed_keys: self.handed_keys,
            origins: or(&self.origins, &table.allow_origins),
            hosts: or(&self.hosts, &table.allow_hosts),
            lookup_origins: or(&self.lookup_origins, &table.lookup_origins),
            otel_endpoint: self.otel_endpoint.clone().or_else(|| table.otel_endpoint.clone()),
            extras: self.extras.or(table.extras),
            import_folders: !self.read_only && (self.import_folders || table.import_folders),
            read_only: self.read_only,
            without_key: self.without_key || table.without_key,
            #[cfg(feature = "postgres")]
            advertise: self.advertise.clone().or_else(|| table.advertise.clone()),
            #[cfg(feature = "postgres")]
            consistency: self.consistency.or(table.consistency),
            backup: self.backup.completed(&table.backup),
            heads: self.heads.completed(&table.heads),
            log: LogArguments {
                log_format: self.log.log_format.or(table.log_format),
                log_level: self.log.log_level.or(table.log_level),
                log_requests: self.log.log_requests || table.log_requests,
            },
        }
    }
}

pub(super) fn run(place: &Place<'_>, command: &Arguments, output: &Output) -> Result<u8> {
    #[cfg(unix)]
    let typed = anew::keys(&command.api_keys, command.handed_keys)?;
    #[cfg(not(unix))]
    let typed = command.api_keys.clone();
    let table = Table::read(command.config.as_deref())?;
    let mut command = command.completed(&table);
    if !typed.is_empty() {
        command.api_keys = typed;
    }
    let at = command.listen.clone().unwrap_or_else(|| {
        At::Tcp(SocketAddr::new(command.host.unwrap_or(HOST), command.port.unwrap_or(PORT)))
    });
    let certificates = certificates(command.tls_cert.take(), command.tls_key.take())?;
    let extras = command.extras.unwrap_or(Extras::All);
    let given = Given::read()?;
    let session_keys: Vec<String> =
        command.api_keys.iter().filter(|key| !key.is_empty()).cloned().chain(given.session_keys()?).collect();
    let needs_key = session_keys.is_empty() && !command.without_key;
    let refuse_exposure = |host: IpAddr| match needs_key && !host.is_loopback() && !has_named_keys(place)? {
        true => Err(Error::Setup(SetupError::OpenToEverybody { host })),
        false => Ok(()),
    };
    if let At::Tcp(address) = &at {
        refuse_exposure(address.ip())?;
    }
    let telemetry = command.otel_endpoint.filter(|endpoint| !endpoint.is_empty());
    if telemetry.is_some() && cfg!(not(feature = "otel")) {
        return Err(Error::Setup(SetupError::NotBuilt { feature: "otel" }));
    }
    let mut config = Config {
        origins: command.origins,
        hosts: command.hosts,
        lookup_origins: command.lookup_origins,
        telemetry,
        backups: command.backup.schedule()?,
        heads: command.heads.schedule()?,
        person_dir: home().filter(|_| extras != Extras::None),
        public_extensions_dir: variable("EXTENSIONS_PATH").map(PathBuf::from),
        ambient_plugins: extras.ambient_plugins(),
        #[cfg(feature = "postgres")]
        advertise: shared::advertised(command.advertise)?,
        #[cfg(feature = "postgres")]
        consistency: command.consistency.map_or_else(Default::default, Into::into),
        ..configured(place.path, &given, session_keys)?
    };
    table.fill(&mut config)?;
    let is_new = !place.path.exists();
    let _journal = Journal::start(command.log)?;
    let store = if command.read_only { place.read_only()? } else { place.open(&Options::default())? };
    let workspace = config.workspace_dir.as_deref().unwrap_or(Path::new("."));
    near::warn(&store, is_new.then_some(workspace))?;
    let folders = config.conversations_dir.clone();
    if command.import_folders {
        import_folders(&store, &folders)?;
    } else if !command.read_only {
        offer_import(&store, &folders);
    }
    let bound = bind(&at)?;
    if let Some(address) = bound.reached_from_elsewhere().map_err(|source| not_served(&at, source))? {
        refuse_exposure(address.ip())?;
    }
    listen(store, config, (&at, bound, certificates), |store, url| {
        if output.json {
            output.value(&json!({"url": url, "database": store.path(), "read_only": store.is_read_only()}))
        } else {
            let how = if store.is_read_only() { ", for reading only," } else { "" };
            output.line(format!("serving {}{how} on {url}", store.path().display()))
        }
    })
}

/// Reads the certificates, if they are given.
fn certificates(chain: Option<PathBuf>, key: Option<PathBuf>) -> Result<Option<Certificates>> {
    let wrong =
        |place: &str, reason: String| Error::Setup(SetupError::Setting { place: place.to_owned(), reason });
    match (chain, key) {
        (None, None) => Ok(None),
        (Some(chain), Some(key)) => {
            Certificates::read(chain, key).map(Some).map_err(|error| wrong("TLS", error.to_string()))
        }
        (Some(_), None) => Err(wrong("TLS", "--tls-cert needs --tls-key".to_owned())),
        (None, Some(_)) => Err(wrong("TLS", "--tls-key needs --tls-cert".to_owned())),
    }
}

/// Begins to listen.
///
/// # Errors
/// [`SetupError::Serve`].
pub(super) fn bind(at: &At) -> Result<Bound> {
    at.bind().map_err(|source| not_served(at, source))
}

fn not_served(at: &At, source: std::io::Error) -> Error {
    Error::Setup(SetupError::Serve { address: at.to_string(), source })
}

/// Returns whether the database has named keys, also revoked ones: then every request needs a key.
fn has_named_keys(place: &Place<'_>) -> Result<bool> {
    Ok(place.path.exists() && !place.read()?.maintenance().server_keys()?.is_empty())
}

/// Returns the configuration of a server over `database`, as far as the environment defines it.
///
/// The first of `session_keys` seals secrets if the environment has no key for them.
///
/// # Errors
/// [`SetupError::Setting`] if keys or webhooks cannot be read.
pub(super) fn configured(database: &Path, given: &Given, session_keys: Vec<String>) -> Result<Config> {
    let folder = |name: &str| given.member(name).and_then(|value| value.as_str()).map(PathBuf::from);
    let runs = given.member("max_concurrent_runs").and_then(|runs| runs.as_u64()?.try_into().ok());
    let idle = given.member("conversation_idle_ttl_seconds").and_then(|seconds| seconds.as_f64());
    let webhooks = match given.member("webhooks") {
        Some(listed) => WebhookSpec::parse_list(&listed.to_string()).map_err(|error| {
            Error::Setup(SetupError::Setting { place: "webhooks".into(), reason: error.to_string() })
        })?,
        None => webhooks()?,
    };
    Ok(Config {
        conversations_dir: folder("conversations_path").unwrap_or_else(|| conversations_dir(database)),
        worktrees_dir: variable("OH_CONVERSATION_WORKTREE_ROOT")
            .map(PathBuf::from)
            .or_else(|| folder("conversation_worktree_root")),
        cipher: given.cipher(&session_keys)?,
        runs_max: std::env::var("OH_MAX_CONCURRENT_RUNS")
            .ok()
            .and_then(|text| text.parse().ok())
            .or(runs)
            .unwrap_or(RUNS_MAX),
        idle_max: idle.and_then(|idle| Duration::try_from_secs_f64(idle).ok()).or_else(idle_max),
        runtime_idle_timeout: seconds("OH_RUNTIME_IDLE_TIMEOUT_SECONDS"),
        settings_dir: settings_dir(database),
        webhooks,
        session_keys,
        workspace_dir: variable("OH_WORKSPACE_PATH").map(PathBuf::from).or_else(|| folder("workspace_path")),
        home_dir: home(),
        ..Config::default()
    })
}

/// How long blocking threads may still run after everything else has ended.
pub(super) const THREADS_WAIT: Duration = Duration::from_millis(500);

/// Serves until the program is asked to end. Calls `on_listening` with the address as soon as it takes connections.
///
/// # Errors
/// [`SetupError::Serve`] if the server cannot serve. An error of `on_listening`.
pub(super) fn listen(
    store: Store,
    config: Config,
    (at, bound, certificates): (&At, Bound, Option<Certificates>),
    on_listening: impl FnOnce(&Store, &str) -> Result<()>,
) -> Result<u8> {
    let failed = |source| not_served(at, source);
    // It is dropped last, so that it ends the programs that everything else has left behind.
    #[cfg(target_os = "linux")]
    let _sweeper = super::sweep::Sweeper::start();
    close_environment().map_err(failed)?;
    let runtime = Builder::new_multi_thread().enable_all().build().map_err(failed)?;
    let served = runtime.block_on(async {
        let url = bound.url(certificates.is_some()).map_err(failed)?;
        #[cfg(unix)]
        let other = certificates.is_some().then(tokio::signal::unix::SignalKind::hangup);
        #[cfg(unix)]
        let _reloading = match &certificates {
            Some(certificates) => Some(tokio::spawn(reload(certificates.clone()).map_err(failed)?)),
            None => None,
        };
        let (listener, _file) = bound.into_listener(certificates).map_err(failed)?;
        // Signals are handled before a client can learn the address.
        #[cfg(unix)]
        let end = EndSignals::caught_but(other);
        #[cfg(not(unix))]
        let end = EndSignals::caught();
        let mut end = end.map_err(failed)?;
        on_listening(&store, &url)?;
        #[cfg(feature = "postgres")]
        let config = shared::advertising(config, &url);
        // This task ends with the runtime.
        let _watching = tokio::spawn(super::watch_log::watch(store.clone()));
        let app = App::new(store, config).map_err(|error| match error {
            ConversationError::Store(error) => error,
            other => failed(std::io::Error::other(other.to_string())),
        })?;
        let app = Arc::new(app);
        let served = serve(listener, Arc::clone(&app), async move { end.next().await }).await.map_err(failed);
        if let Some(undelivered) = app.undelivered() {
            journal::undelivered(&undelivered.to_string());
        }
        served
    });
    // Whatever still has a handle of the store, such as a request that hangs, does not keep the file open.
    ends::close();
    // The process does not wait for a thread that is blocked by a disk or by a program that never answers.
    runtime.shutdown_timeout(THREADS_WAIT);
    private::remove(private::beginning());
    served.map(|()| DONE)
}

/// Reads the certificates again at every SIGHUP.
#[cfg(unix)]
fn reload(certificates: Certificates) -> std::io::Result<impl Future<Output = ()> + Send + 'static> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut hangup = signal(SignalKind::hangup())?;
    ends::takes_over(&[SignalKind::hangup().as_raw_value()]);
    Ok(async move {
        while hangup.recv().await.is_some() {
            let own = certificates.clone();
            match tokio::task::spawn_blocking(move || own.reload()).await {
                Ok(Ok(())) => journal::certificates("the certificates were read again"),
                Ok(Err(error)) => journal::certificates_stay(&error.to_string()),
                Err(_) => {}
            }
        }
    })
}

/// Hides the environment of this process from the programs that it starts.
///
/// Otherwise an agent could read the server's keys in `/proc/PID/environ`. An agent that runs as root still can. This
/// also disables core dumps.
#[cfg(target_os = "linux")]
fn close_environment() -> std::io::Result<()> {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

#[cfg(not(target_os = "linux"))]
fn close_environment() -> std::io::Result<()> {
    Ok(())
}

/// The maximum number of folders that are checked for conversations to import.
const FOLDERS_CHECKED_MAX: usize = 10_000;

/// Tells the user about conversation folders that are not in the database, because the server does not show them.
fn offer_import(store: &Store, folders: &Path) {
    let Ok(entries) = std::fs::read_dir(folders) else { return };
    let unknown = entries
        .flatten()
        .take(FOLDERS_CHECKED_MAX)
        .filter(|entry| entry.path().join("base_state.json").is_file())
        .filter_map(|entry| ConversationId::new(entry.file_name().to_str()?).ok())
        .filter(|id| matches!(store.conversation(id), Err(Error::UnknownConversation { .. })))
        .count() as u64;
    if unknown > 0 {
        journal::folders(&format!(
            "{} under {} not in the database: --import-folders imports them",
            if unknown == 1 {
                "1 conversation folder".into()
            } else {
                format!("{} conversation folders", count(unknown))
            },
            if unknown == 1 {
                format!("{} is", folders.display())
            } else {
                format!("{} are", folders.display())
            },
        ));
    }
}

/// Imports the conversation folders. Events that are already in the database stay unchanged. Conflicts are reported.
fn import_folders(store: &Store, folders: &Path) -> Result<()> {
    if !folders.exists() {
        return Ok(());
    }
    let reports = Importer::new(store, ImportOptions::default()).import(folders, &mut |_| ())?;
    let added: u64 = reports.iter().map(|report| report.added).sum();
    journal::folders(&format!(
        "{} under {}: {} imported",
        plural(reports.len() as u64, "conversation"),
        folders.display(),
        plural(added, "new event"),
    ));
    for report in &reports {
        if matches!(report.status, ImportStatus::Conflict | ImportStatus::Failed | ImportStatus::Partial) {
            let why = report.problems.first().map_or("", |problem| &problem.problem);
            journal::folders(&format!("{}: {}: {why}", report.path.display(), report.status.as_str()));
        }
    }
    Ok(())
}

/// Returns the folder for the files that tools keep: from the reference's variable, or else beside the database.
fn conversations_dir(database: &Path) -> PathBuf {
    let beside = || database.parent().unwrap_or(Path::new("")).join("conversations");
    variable("OH_CONVERSATIONS_PATH").map_or_else(beside, PathBuf::from)
}

/// Returns the folder for settings: from the reference's variable, or else beside the conversations folder.
fn settings_dir(database: &Path) -> PathBuf {
    let beside = || conversations_dir(database).parent().unwrap_or(Path::new("")).join(".openhands");
    variable("OH_PERSISTENCE_DIR").map_or_else(beside, PathBuf::from)
}

/// Returns the webhooks of the environment.
fn webhooks() -> Result<Vec<WebhookSpec>> {
    let Ok(text) = std::env::var("OH_WEBHOOKS") else { return Ok(Vec::new()) };
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    WebhookSpec::parse_list(&text).map_err(|error| {
        Error::Setup(SetupError::Setting { place: "OH_WEBHOOKS".into(), reason: error.to_string() })
    })
}

/// Returns how long an unused conversation stays open. The reference's variable holds it in seconds. `None`: no limit.
fn idle_max() -> Option<Duration> {
    match variable("OH_CONVERSATION_IDLE_TTL_SECONDS") {
        Some(_) => seconds("OH_CONVERSATION_IDLE_TTL_SECONDS"),
        None => Some(IDLE_MAX),
    }
}

/// Returns the duration in a variable that holds seconds. `None` if the variable is not set or holds no valid number.
fn seconds(name: &str) -> Option<Duration> {
    let seconds: Option<f64> = std::env::var(name).ok()?.trim().parse().ok();
    seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
}
