//! `annals serve`: the server, until it is told to end.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::net::TcpListener;
use tokio::runtime::Builder;

use super::arguments::Serve;
use super::print::Output;
use super::{DONE, Place};
use crate::conversation::ConversationError;
use crate::error::{Error, Result};
use crate::secret::Cipher;
use crate::server::{App, Config, IDLE_MAX, RUNS_MAX, WebhookSpec, serve};
use crate::store::Options;

pub(super) fn run(place: &Place<'_>, command: &Serve, output: &Output) -> Result<u8> {
    let session_keys = session_keys(&command.api_keys);
    if session_keys.is_empty() && !command.host.is_loopback() && !command.without_key {
        return Err(Error::OpenToEverybody { host: command.host });
    }
    let config = Config {
        origins: command.origins.clone(),
        conversations_dir: conversations_dir(place.path),
        cipher: cipher(&session_keys),
        runs_max: std::env::var("OH_MAX_CONCURRENT_RUNS")
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(RUNS_MAX),
        idle_max: idle_max(),
        settings_dir: settings_dir(place.path),
        webhooks: webhooks()?,
        lookup_origins: command.lookup_origins.clone(),
        session_keys,
        workspace_dir: std::env::var_os("OH_WORKSPACE_PATH").map(PathBuf::from),
        home_dir: std::env::var_os("HOME").map(PathBuf::from),
    };
    let store = place.open(&Options::default())?;
    let asked = SocketAddr::new(command.host, command.port);
    let failed = |source| Error::Serve { address: asked, source };
    let runtime = Builder::new_multi_thread().enable_all().build().map_err(failed)?;
    runtime.block_on(async {
        let listener = TcpListener::bind(asked).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let url = format!("http://{address}");
        if output.json {
            output.value(&json!({"url": url, "database": store.path()}))?;
        } else {
            output.line(format!("serving {} on {url}", store.path().display()))?;
        }
        let app = App::new(store, config).map_err(|error| match error {
            ConversationError::Store(error) => error,
            other => failed(std::io::Error::other(other.to_string())),
        })?;
        serve(listener, Arc::new(app), told_to_end()).await.map_err(failed)
    })?;
    Ok(DONE)
}

/// The keys of the arguments and of the environment; empty ones count for nothing.
fn session_keys(given: &[String]) -> Vec<String> {
    let numbered = (0..).map_while(|number| std::env::var(format!("OH_SESSION_API_KEYS_{number}")).ok());
    let single = std::env::var("SESSION_API_KEY").ok();
    given.iter().cloned().chain(numbered).chain(single).filter(|key| !key.is_empty()).collect()
}

/// The folder for what tools keep: the reference's variable, or one beside the database.
fn conversations_dir(database: &Path) -> PathBuf {
    let beside = || database.parent().unwrap_or(Path::new("")).join("conversations");
    std::env::var_os("OH_CONVERSATIONS_PATH").map_or_else(beside, PathBuf::from)
}

/// The folder for settings: the reference's variable, or one beside that of conversations.
fn settings_dir(database: &Path) -> PathBuf {
    let beside = || conversations_dir(database).parent().unwrap_or(Path::new("")).join(".openhands");
    std::env::var_os("OH_PERSISTENCE_DIR").map_or_else(beside, PathBuf::from)
}

/// Who is told what happens.
fn webhooks() -> Result<Vec<WebhookSpec>> {
    let Ok(text) = std::env::var("OH_WEBHOOKS") else { return Ok(Vec::new()) };
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    WebhookSpec::parse_list(&text)
        .map_err(|error| Error::Setting { name: "OH_WEBHOOKS", reason: error.to_string() })
}

/// How long a conversation stays open that nobody uses: the reference's variable, in seconds.
fn idle_max() -> Option<Duration> {
    let Ok(text) = std::env::var("OH_CONVERSATION_IDLE_TTL_SECONDS") else { return Some(IDLE_MAX) };
    let seconds: Option<f64> = text.trim().parse().ok();
    seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
}

/// What seals secrets: the key of the environment, else the first session key, as the reference does.
fn cipher(session_keys: &[String]) -> Option<Cipher> {
    let key = std::env::var("OH_SECRET_KEY").ok().filter(|key| !key.is_empty());
    let key = key.or_else(|| session_keys.first().cloned())?;
    let previous = std::env::var("OH_PREVIOUS_SECRET_KEYS").unwrap_or_default();
    let previous: Vec<&str> = previous.split(',').map(str::trim).collect();
    Some(Cipher::new(&key, &previous))
}

/// Ends when the program is told to: Ctrl-C, or SIGTERM.
async fn told_to_end() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut term) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = term.recv() => {}
            }
            return;
        }
    }
    let _ = tokio::signal::ctrl_c().await;
}
