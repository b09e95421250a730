//! `annals serve`: the server, until it is told to end.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::net::TcpListener;
use tokio::runtime::Builder;

#[cfg(unix)]
use super::anew;
use super::arguments::{Extras, Serve};
use super::keys::Given;
use super::print::{Output, count, plural, tell};
use super::serving::{Table, variable};
use super::settings::home;
use super::{DONE, Place};
use crate::conversation::ConversationError;
use crate::error::{Error, Result};
use crate::ids::ConversationId;
use crate::server::{App, Config, IDLE_MAX, RUNS_MAX, WebhookSpec, private, serve};
use crate::store::{Options, Store};
use crate::transfer::{ImportOptions, ImportStatus, Importer};

/// Where it listens if nobody says.
const HOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const PORT: u16 = 8000;

pub(super) fn run(place: &Place<'_>, command: &Serve, output: &Output) -> Result<u8> {
    #[cfg(unix)]
    let typed = anew::keys(&command.api_keys, command.handed_keys)?;
    #[cfg(not(unix))]
    let typed = command.api_keys.clone();
    let table = Table::read(command.config.as_deref())?;
    let mut command = table.beneath(command);
    if !typed.is_empty() {
        command.api_keys = typed;
    }
    let (host, port) = (command.host.unwrap_or(HOST), command.port.unwrap_or(PORT));
    let extras = command.extras.unwrap_or(Extras::All);
    let given = Given::read()?;
    let session_keys: Vec<String> =
        command.api_keys.iter().filter(|key| !key.is_empty()).cloned().chain(given.session_keys()?).collect();
    if session_keys.is_empty() && !host.is_loopback() && !command.without_key {
        return Err(Error::OpenToEverybody { host });
    }
    let telemetry = command.otel_endpoint.filter(|endpoint| !endpoint.is_empty());
    if telemetry.is_some() && cfg!(not(feature = "otel")) {
        return Err(Error::NotBuilt { feature: "otel" });
    }
    let mut config = Config {
        origins: command.origins,
        hosts: command.hosts,
        lookup_origins: command.lookup_origins,
        telemetry,
        person_dir: home().filter(|_| extras != Extras::None),
        public_extensions_dir: variable("EXTENSIONS_PATH").map(PathBuf::from),
        ambient_plugins: extras.ambient_plugins(),
        ..configured(place.path, &given, session_keys)?
    };
    table.fill(&mut config)?;
    let store = place.open(&Options::default())?;
    let folders = config.conversations_dir.clone();
    if command.import_folders {
        take_in(&store, &folders)?;
    } else {
        offer(&store, &folders, output);
    }
    listen(store, config, SocketAddr::new(host, port), |store, url| {
        if output.json {
            output.value(&json!({"url": url, "database": store.path()}))
        } else {
            output.line(format!("serving {} on {url}", store.path().display()))
        }
    })
}

/// How a server of this machine is set up over `database`, as far as the environment says.
///
/// The first of `session_keys` seals what has to be kept secret where the environment has no key for it.
///
/// # Errors
/// [`Error::Setting`] for keys and webhooks that cannot be read.
pub(super) fn configured(database: &Path, given: &Given, session_keys: Vec<String>) -> Result<Config> {
    let folder = |name: &str| given.member(name).and_then(|value| value.as_str()).map(PathBuf::from);
    let runs = given.member("max_concurrent_runs").and_then(|runs| runs.as_u64()?.try_into().ok());
    let idle = given.member("conversation_idle_ttl_seconds").and_then(|seconds| seconds.as_f64());
    let webhooks = match given.member("webhooks") {
        Some(listed) => WebhookSpec::parse_list(&listed.to_string())
            .map_err(|error| Error::Setting { place: "webhooks".into(), reason: error.to_string() })?,
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

/// How long threads that block may take once all else has ended.
const LAST: Duration = Duration::from_millis(500);

/// Serves until the program is told to end; `said` hears of the address as soon as requests are taken there.
///
/// # Errors
/// [`Error::Serve`] where nobody can listen there, and what `said` fails with.
pub(super) fn listen(
    store: Store,
    config: Config,
    asked: SocketAddr,
    said: impl FnOnce(&Store, &str) -> Result<()>,
) -> Result<u8> {
    let failed = |source| Error::Serve { address: asked, source };
    // The last to go: what all else has left behind goes with it.
    #[cfg(target_os = "linux")]
    let _sweeper = super::sweep::Sweeper::start();
    close_environment().map_err(failed)?;
    let runtime = Builder::new_multi_thread().enable_all().build().map_err(failed)?;
    let served = runtime.block_on(async {
        let listener = TcpListener::bind(asked).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        // Before anybody hears that it serves.
        let told = told_to_end().map_err(failed)?;
        said(&store, &format!("http://{address}"))?;
        // It ends with the runtime.
        let _watching = tokio::spawn(super::watch_log::watch(store.clone()));
        let app = App::new(store, config).map_err(|error| match error {
            ConversationError::Store(error) => error,
            other => failed(std::io::Error::other(other.to_string())),
        })?;
        serve(listener, Arc::new(app), told).await.map_err(failed)
    });
    // A thread that waits for a disk or a program that never answers does not keep the process.
    runtime.shutdown_timeout(LAST);
    private::remove(private::beginning());
    served.map(|()| DONE)
}

/// Closes what this process was started with to the programs that it starts: without it an agent reads the server's keys
/// in `/proc/PID/environ`, unless it runs as root. There is no file of the memory of a crash either.
#[cfg(target_os = "linux")]
fn close_environment() -> std::io::Result<()> {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

#[cfg(not(target_os = "linux"))]
fn close_environment() -> std::io::Result<()> {
    Ok(())
}

/// How many folders are looked at for what could be taken in.
const OFFERED_MAX: usize = 10_000;

/// Says that there are conversation folders that the database has not; a stand-in for the reference shows none of them.
fn offer(store: &Store, folders: &Path, output: &Output) {
    let Ok(entries) = std::fs::read_dir(folders) else { return };
    let unknown = entries
        .flatten()
        .take(OFFERED_MAX)
        .filter(|entry| entry.path().join("base_state.json").is_file())
        .filter_map(|entry| ConversationId::new(entry.file_name().to_str()?).ok())
        .filter(|id| matches!(store.conversation(id), Err(Error::UnknownConversation { .. })))
        .count() as u64;
    if unknown > 0 {
        output.remark(format!(
            "{} under {} not in the database: --import-folders takes them in",
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

/// Takes in the conversation folders; what is in the database already is left, and what differs is told of.
fn take_in(store: &Store, folders: &Path) -> Result<()> {
    if !folders.exists() {
        return Ok(());
    }
    let reports = Importer::new(store, ImportOptions::default()).import(folders, &mut |_| ())?;
    let added: u64 = reports.iter().map(|report| report.added).sum();
    tell(format_args!(
        "annals: {} under {}: {} taken in",
        plural(reports.len() as u64, "conversation"),
        folders.display(),
        plural(added, "new event"),
    ));
    for report in &reports {
        if matches!(report.status, ImportStatus::Conflict | ImportStatus::Failed | ImportStatus::Partial) {
            let why = report.problems.first().map_or("", |problem| &problem.problem);
            tell(format_args!("annals: {}: {}: {why}", report.path.display(), report.status.as_str()));
        }
    }
    Ok(())
}

/// The folder for what tools keep: the reference's variable, or one beside the database.
fn conversations_dir(database: &Path) -> PathBuf {
    let beside = || database.parent().unwrap_or(Path::new("")).join("conversations");
    variable("OH_CONVERSATIONS_PATH").map_or_else(beside, PathBuf::from)
}

/// The folder for settings: the reference's variable, or one beside that of conversations.
fn settings_dir(database: &Path) -> PathBuf {
    let beside = || conversations_dir(database).parent().unwrap_or(Path::new("")).join(".openhands");
    variable("OH_PERSISTENCE_DIR").map_or_else(beside, PathBuf::from)
}

/// Who is told what happens.
fn webhooks() -> Result<Vec<WebhookSpec>> {
    let Ok(text) = std::env::var("OH_WEBHOOKS") else { return Ok(Vec::new()) };
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    WebhookSpec::parse_list(&text)
        .map_err(|error| Error::Setting { place: "OH_WEBHOOKS".into(), reason: error.to_string() })
}

/// How long a conversation stays open that nobody uses: the reference's variable, in seconds.
fn idle_max() -> Option<Duration> {
    match variable("OH_CONVERSATION_IDLE_TTL_SECONDS") {
        Some(_) => seconds("OH_CONVERSATION_IDLE_TTL_SECONDS"),
        None => Some(IDLE_MAX),
    }
}

/// A variable that holds a number of seconds; `None` where it holds none.
fn seconds(name: &str) -> Option<Duration> {
    let seconds: Option<f64> = std::env::var(name).ok()?.trim().parse().ok();
    seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
}

/// Ends when the program is told to: Ctrl-C, or SIGTERM. They are heeded from the moment this is called.
#[cfg(unix)]
fn told_to_end() -> std::io::Result<impl Future<Output = ()> + Send + 'static> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut term, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = term.recv() => {}
        }
    })
}

/// Ends when the program is told to: Ctrl-C.
#[cfg(not(unix))]
fn told_to_end() -> std::io::Result<impl Future<Output = ()> + Send + 'static> {
    Ok(async {
        // Where it cannot be told, it is ended from outside.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    })
}
