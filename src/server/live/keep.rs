//! The server's own small JSON files. They are replaced as a whole, under a lock, and only their owner can read them.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::App;
use crate::server::http::failure::Failure;
use crate::untrusted;

/// The maximum size of a settings file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// The error for a file with unexpected content. The file is not changed, because its author may still need it.
const UNREADABLE: &str = "a settings file cannot be read; it is left as it is";

/// Reads the members of a file. There are none if the file does not exist.
pub(in crate::server) async fn read(
    app: &Arc<App>,
    name: &'static str,
) -> Result<Map<String, Value>, Failure> {
    let path = app.config().settings_dir.join(name);
    blocking(move || load(&path)).await
}

/// Changes the members of a file. If `change` fails, the file is not changed.
pub(in crate::server) async fn change<T: Send + 'static>(
    app: &Arc<App>,
    name: &'static str,
    change: impl FnOnce(&mut Map<String, Value>) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let file = name.rsplit('/').next().unwrap_or(name);
    change_under(app, name, format!(".{file}.lock"), change).await
}

/// Changes the members of a file under a lock file of the given name, in the same folder.
pub(in crate::server) async fn change_under<T: Send + 'static>(
    app: &Arc<App>,
    name: &'static str,
    lock: String,
    change: impl FnOnce(&mut Map<String, Value>) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let path = app.config().settings_dir.join(name);
    blocking(move || {
        let folder = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder).map_err(failed)?;
        // The reference uses the same lock.
        let lock = untrusted::open_to_lock(&folder.join(lock)).map_err(failed)?;
        lock.lock().map_err(failed)?;
        let mut members = load(&path)?;
        let value = change(&mut members)?;
        let text =
            serde_json::to_string_pretty(&members).map_err(|error| Failure::internal(error.to_string()))?;
        write(&path, &text).map_err(failed)?;
        Ok(value)
    })
    .await
}

pub(in crate::server) fn load(path: &Path) -> Result<Map<String, Value>, Failure> {
    match untrusted::read(path, FILE_BYTES_MAX) {
        Ok(text) => serde_json::from_slice(&text).map_err(|_| Failure::internal(UNREADABLE)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Map::new()),
        Err(error) => Err(failed(error)),
    }
}

/// Replaces a file atomically.
pub(in crate::server) fn write(path: &Path, text: &str) -> io::Result<()> {
    let beside = path.with_extension(format!("{}.tmp", uuid::Uuid::new_v4().simple()));
    let written = untrusted::create_private(&beside)
        .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        // The temporary file may not exist. The caller gets the first error.
        let _unfinished = fs::remove_file(&beside);
    }
    written
}

/// Converts an error of the file system. The path is left out, because clients have no use for it.
pub(in crate::server) fn failed(error: io::Error) -> Failure {
    Failure::internal(format!("a settings file cannot be used: {}", error.kind()))
}

pub(in crate::server) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Failure::internal("a worker ended unexpectedly"))?
}
