//! `annals serve`: the server, until it is told to end.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::json;
use tokio::net::TcpListener;
use tokio::runtime::Builder;

use super::arguments::Serve;
use super::print::Output;
use super::{DONE, Place};
use crate::error::{Error, Result};
use crate::server::{App, Config, serve};
use crate::store::Options;

pub(super) fn run(place: &Place<'_>, command: &Serve, output: &Output) -> Result<u8> {
    let session_keys = session_keys(&command.api_keys);
    if session_keys.is_empty() && !command.host.is_loopback() && !command.without_key {
        return Err(Error::OpenToEverybody { host: command.host });
    }
    let config = Config {
        session_keys,
        origins: command.origins.clone(),
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
            output.line(&format!("serving {} on {url}", store.path().display()))?;
        }
        serve(listener, Arc::new(App::new(store, config)), told_to_end()).await.map_err(failed)
    })?;
    Ok(DONE)
}

/// The keys of the arguments and of the environment; empty ones count for nothing.
fn session_keys(given: &[String]) -> Vec<String> {
    let numbered = (0..).map_while(|number| std::env::var(format!("OH_SESSION_API_KEYS_{number}")).ok());
    let single = std::env::var("SESSION_API_KEY").ok();
    given.iter().cloned().chain(numbered).chain(single).filter(|key| !key.is_empty()).collect()
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
