//! A workspace as one file: its files, or what was changed in its repository (`api.md` section 8.2).

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use tokio::process::Command;
use tokio_util::io::ReaderStream;

use super::App;
use super::failure::Failure;
use super::file::attachment;
use super::git;
use super::private::Private;
use super::request::Params;
use super::scope::Scope;
use crate::secret::environment;

/// How long packing may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// What is left out unless somebody wants it: what programs make anew. The reference's list.
const GENERATED: [&str; 13] = [
    ".git",
    "node_modules",
    ".venv",
    "venv",
    "__pycache__",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    "dist",
    "build",
    ".next",
    "target",
    "*.pyc",
];

/// What is never given away: places within `.git` where addresses with tokens stand.
const CREDENTIALS: [&str; 6] =
    ["config", "config.worktree", "credentials", ".git-credentials", "FETCH_HEAD", "logs"];

/// How it is packed.
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
    let mut excluded: Vec<String> = Vec::new();
    if has_defaults {
        excluded.extend(GENERATED.map(str::to_owned));
    }
    excluded.extend(params.all("exclude").map(|pattern| pattern.trim_end_matches('/').to_owned()));
    let base = params.get("base_ref");
    if base.is_some_and(|base| base.starts_with('-')) {
        return Err(Failure::bad("base_ref must not start with '-'"));
    }
    match tokio::fs::metadata(&folder).await {
        Err(_) => return Err(Failure::not_found("Directory not found")),
        Ok(found) if !found.is_dir() => return Err(Failure::bad("Path is not a directory")),
        Ok(_) => {}
    }
    let folder = tokio::fs::canonicalize(&folder).await.unwrap_or(folder);
    let name = folder.file_name().map_or_else(|| "root".into(), |name| name.to_string_lossy().into_owned());
    let mut headers = git::described(&folder).await;
    let mut response = match format {
        Format::Delta => {
            let delta = git::delta(&folder, base, &excluded).await?;
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
            (head, tar(&folder, &excluded).await?).into_response()
        }
    };
    for (name, value) in headers {
        // A header holds no other letters; what has them is left out.
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().insert(HeaderName::from_static(name), value);
        }
    }
    Ok(response)
}

/// The files of a folder, packed by the system's `tar` into a file that nobody else sees, and read from there.
async fn tar(folder: &Path, excluded: &[String]) -> Result<Body, Failure> {
    let failed = |error: std::io::Error| Failure::internal(format!("the archive cannot be made: {error}"));
    let (parent, name) = match (folder.parent(), folder.file_name()) {
        (Some(parent), Some(name)) => (parent, PathBuf::from(name)),
        _ => return Err(Failure::bad("the root of the file system is too much for one archive")),
    };
    let private = Private::new().map_err(failed)?;
    let place = private.path().join("tar.gz");
    let mut command = Command::new("tar");
    environment::clear(command.as_std_mut(), environment::Reach::Here);
    command.arg("-czf").arg(&place).arg("-C").arg(parent);
    command.args(CREDENTIALS.map(|name| format!("--exclude=.git/{name}")));
    command.args(CREDENTIALS.map(|name| format!("--exclude=.git/*/{name}")));
    command.args(excluded.iter().map(|pattern| format!("--exclude={pattern}")));
    command.arg("--").arg(name).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let packed = tokio::time::timeout(PATIENCE, command.kill_on_drop(true).output()).await;
    let opened = match packed {
        Err(_) => Err(Failure::internal("the archive took too long")),
        Ok(Err(error)) => Err(failed(error)),
        // 1 says that something changed while it was read.
        Ok(Ok(output)) if matches!(output.status.code(), Some(0 | 1)) => {
            tokio::fs::File::open(&place).await.map_err(failed)
        }
        Ok(Ok(output)) => {
            let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            Err(Failure::internal(format!("the archive cannot be made: {words}")))
        }
    };
    Ok(Body::from_stream(ReaderStream::new(opened?)))
}
