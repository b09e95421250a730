//! Packs a workspace into one file: an archive of its files, or the changes in its repository
//! (`docs/reference/workspace.md#archive`), for `GET /api/file/archive`: clients of the reference save and move the work
//! of a remote conversation with it.

mod root;
mod rules;
#[cfg(unix)]
mod tarball;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use tokio_util::io::ReaderStream;

use super::file::attachment;
use super::git;
use super::private::Private;
use super::scope::Scope;
use crate::server::App;
use crate::server::http::failure::Failure;
use crate::server::http::request::Params;
use crate::untrusted;

/// The maximum time for packing.
const PATIENCE: Duration = Duration::from_secs(300);

/// The format of the packed file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Delta,
    Tar,
}

pub(super) async fn pack(
    State(app): State<Arc<App>>,
    scope: Scope,
    params: Params,
) -> Result<Response, Failure> {
    let folder = scope.path(&params).await?;
    app.touch();
    let format = [("git-delta", Format::Delta), ("tar.gz", Format::Tar)];
    let format = params.word("format", &format)?.unwrap_or(Format::Delta);
    let has_defaults = params.get("use_default_excludes").is_none() || params.flag("use_default_excludes")?;
    let mut patterns: Vec<String> = Vec::new();
    if has_defaults {
        patterns.extend(rules::GENERATED.map(str::to_owned));
    }
    patterns.extend(params.all("exclude").map(str::to_owned));
    let base = params.get("base_ref");
    if base.is_some_and(|base| base.starts_with('-')) {
        return Err(Failure::bad("base_ref must not start with '-'"));
    }
    match tokio::fs::metadata(&folder).await {
        Err(_) => return Err(Failure::not_found("Directory not found")),
        Ok(found) if !found.is_dir() => return Err(Failure::bad("Path is not a directory")),
        Ok(_) => {}
    }
    let requested = tokio::fs::canonicalize(&folder).await.unwrap_or(folder);
    let look = move || {
        let folder = root::of(&requested);
        let is_repository = root::is_repository(&folder);
        (folder, is_repository)
    };
    let looked = tokio::task::spawn_blocking(look).await;
    let (folder, is_repository) =
        looked.map_err(|_| Failure::internal("looking for the repository failed"))?;
    let name = folder.file_name().map_or_else(|| "root".into(), |name| name.to_string_lossy().into_owned());
    let mut headers = if is_repository { git::described(&folder).await } else { Vec::new() };
    let mut response = match format {
        Format::Delta => {
            let delta = git::delta(&folder, base, &patterns).await?;
            if let Some(commit) = delta.base {
                headers.push(("x-archive-base-commit", commit));
                headers.push(("x-archive-base-ref", base.unwrap_or("auto").to_owned()));
            }
            let head = [
                (header::CONTENT_TYPE, "text/x-patch".to_owned()),
                (header::CONTENT_DISPOSITION, attachment(&format!("{name}.patch"))),
            ];
            (head, delta.patch).into_response()
        }
        Format::Tar => {
            let head = [
                (header::CONTENT_TYPE, "application/gzip".to_owned()),
                (header::CONTENT_DISPOSITION, attachment(&format!("{name}.tar.gz"))),
            ];
            (head, tar(folder, patterns).await?).into_response()
        }
    };
    for (name, value) in headers {
        // A value with characters that a header cannot contain is left out.
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().insert(HeaderName::from_static(name), value);
        }
    }
    Ok(response)
}

/// Packs the files of a folder into a private temporary file, and returns a body that reads it.
#[cfg(unix)]
async fn tar(folder: PathBuf, patterns: Vec<String>) -> Result<Body, Failure> {
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Ends packing if the caller no longer waits for it.
    struct CancelOnDrop(Arc<AtomicBool>);

    impl Drop for CancelOnDrop {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    let Some(name) = folder.file_name().map(ToOwned::to_owned) else {
        return Err(Failure::bad("the root of the file system cannot be packed"));
    };
    let guard = CancelOnDrop(Arc::default());
    let until = tarball::Until { deadline: Instant::now() + PATIENCE, gone: guard.0.clone() };
    let packed = tokio::task::spawn_blocking(move || {
        let private = Private::new()?;
        let path = private.path().join("tar.gz");
        let mut out = std::io::BufWriter::new(untrusted::create(&path)?);
        tarball::write(&folder, &name, &patterns, &until, &mut out)?;
        untrusted::open_named(&path)
    });
    match packed.await {
        Ok(Ok(file)) => Ok(Body::from_stream(ReaderStream::new(tokio::fs::File::from_std(file)))),
        Ok(Err(error)) if error.kind() == std::io::ErrorKind::InvalidInput => {
            Err(Failure::bad(error.to_string()))
        }
        Ok(Err(error)) => Err(Failure::internal(format!("the archive cannot be made: {error}"))),
        Err(_) => Err(Failure::internal("the archive cannot be made")),
    }
}

#[cfg(not(unix))]
async fn tar(_: PathBuf, _: Vec<String>) -> Result<Body, Failure> {
    Err(Failure::bad("folders cannot be packed on this operating system"))
}
