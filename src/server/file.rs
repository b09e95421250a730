//! Files of the machine that the server runs on: up, down, new folders (`api.md` section 8.2).
//!
//! Paths are absolute. Who has a session key may read and write what the server may: commands can anyway.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::multipart::MultipartRejection;
use axum::extract::{DefaultBodyLimit, Multipart, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::fs;
use tokio::io::AsyncWriteExt;
use tokio_util::io::ReaderStream;

use super::App;
use super::archive;
use super::command::named;
use super::failure::{Failure, Problem, success};
use super::private::Private;
use super::request::{Params, Steps, conversation_id};
use super::scope::Scope;
use super::zip;
use crate::error::Error;
use crate::event::json::Raw;
use crate::secret::document::{self, Form};
use crate::transfer::{Exporter, Format};
use crate::untrusted;

/// The most folders of the home folder that are shown.
const FAVORITES_MAX: usize = 50;

/// How many links of links are followed; the system's own number.
const LINKS_MAX: usize = 40;

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/upload", post(upload).layer(DefaultBodyLimit::disable()))
        .route("/download", get(download))
        .route("/create_directory", post(create_directory))
        .route("/download-trajectory/{trajectory_id}", get(trajectory))
        .route("/archive", get(archive::pack))
}

/// What is asked of the whole machine only: for pickers.
pub(super) fn discovery() -> Router<Arc<App>> {
    Router::new().route("/home", get(home)).route("/search_subdirs", get(subfolders))
}

/// How a download is named: letters that a header cannot bear are replaced.
pub(super) fn attachment(name: &str) -> String {
    let plain = |letter: char| {
        if matches!(letter, '"' | '\\') || !letter.is_ascii_graphic() { '_' } else { letter }
    };
    format!("attachment; filename=\"{}\"", name.chars().map(plain).collect::<String>())
}

/// A conversation's folder as the reference would have it, in a zip; secrets are sealed in it or stars.
async fn trajectory(State(app): State<Arc<App>>, scope: Scope, steps: Steps) -> Result<Response, Failure> {
    let id = conversation_id(steps.get("trajectory_id"), &["path", "conversation_id"])?;
    scope.check_conversation(&id)?;
    let name = id.folder_name();
    let known = name.clone();
    let packed = app.ask(move |store| {
        let within = |source| Error::Io { doing: "making a folder", path: std::env::temp_dir(), source };
        let private = Private::new().map_err(within)?;
        let report = Exporter::new(store, Format::OpenHands).export(&id, private.path(), &mut |_| ())?;
        let place = private.path().join("zip");
        let failed = |source| Error::Io { doing: "packing a conversation", path: place.clone(), source };
        let mut out = std::io::BufWriter::new(std::fs::File::create(&place).map_err(failed)?);
        hide_secrets(&report.path).map_err(failed)?;
        zip::write(&report.path, &known, &mut out).map_err(failed)?;
        std::io::Write::flush(&mut out).map_err(failed)?;
        std::fs::File::open(&place).map_err(failed)
    });
    let packed = packed.await.map_err(named);
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_DISPOSITION, attachment(&format!("{name}.zip"))),
    ];
    Ok((headers, Body::from_stream(ReaderStream::new(fs::File::from_std(packed?)))).into_response())
}

/// What the file system refuses, in a status that says whose fault it is.
fn refused(error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::NotFound => Failure::not_found("File not found"),
        io::ErrorKind::PermissionDenied => {
            Failure::Refused(StatusCode::FORBIDDEN, "Permission denied".to_owned())
        }
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            Failure::bad("A parent of the path is not a directory")
        }
        _ => Failure::internal(error.to_string()),
    }
}

async fn upload(
    State(app): State<Arc<App>>,
    scope: Scope,
    params: Params,
    parts: Result<Multipart, MultipartRejection>,
) -> Result<Json<Value>, Failure> {
    let path = scope.path(&params).await?;
    let missing = || Problem::new("missing", &["body", "file"], "Field required");
    let mut parts = parts.map_err(|_| missing())?;
    app.touch();
    let path = followed(path).await.map_err(|error| refused(&error))?;
    let old = fs::metadata(&path).await.ok();
    match &old {
        Some(old) if old.is_dir() => return Err(Failure::bad("Path is a directory")),
        Some(old) if !old.is_file() => return Err(Failure::bad("Path is not a file")),
        Some(_) | None => {}
    }
    let unreadable = |error: axum::extract::multipart::MultipartError| Failure::bad(error.body_text());
    while let Some(mut part) = parts.next_field().await.map_err(unreadable)? {
        if part.name() != Some("file") {
            continue;
        }
        let folder = path.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(folder).await.map_err(|error| refused(&error))?;
        // Written beside its place and moved there, so that nobody sees half of it.
        let beside = folder.join(format!(".{}.part", uuid::Uuid::new_v4().simple()));
        let written = async {
            let mut file = fs::File::create_new(&beside).await.map_err(|error| refused(&error))?;
            if let Some(old) = &old {
                keep_owner(&file, old);
                file.set_permissions(old.permissions()).await.map_err(|error| refused(&error))?;
            }
            let mut n_bytes = 0;
            while let Some(chunk) = part.chunk().await.map_err(unreadable)? {
                file.write_all(&chunk).await.map_err(|error| refused(&error))?;
                n_bytes += chunk.len();
            }
            file.flush().await.map_err(|error| refused(&error))?;
            fs::rename(&beside, &path).await.map_err(|error| refused(&error))?;
            Ok(n_bytes)
        };
        let written: Result<usize, Failure> = written.await;
        if written.is_err() {
            // It may not be there; the reason that counts is the first.
            let _unfinished = fs::remove_file(&beside).await;
        }
        return Ok(Json(json!({"success": true, "file_size": written?})));
    }
    Err(missing().into())
}

/// Where a path leads once links are followed, also one to a file that is yet to be.
async fn followed(path: PathBuf) -> io::Result<PathBuf> {
    let mut path = path;
    for _ in 0..LINKS_MAX {
        match fs::read_link(&path).await {
            Ok(target) => path = path.parent().unwrap_or(Path::new("/")).join(target),
            // It is none, or not there.
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("too many links"))
}

/// Gives a file that takes another's place that one's owner, where the server may.
#[cfg(unix)]
fn keep_owner(file: &fs::File, old: &std::fs::Metadata) {
    use std::os::unix::fs::MetadataExt as _;
    let owner = (rustix::process::Uid::from_raw(old.uid()), rustix::process::Gid::from_raw(old.gid()));
    // Only a server that runs as root may; any other one owns what it can replace, or the folder is shared.
    let _its_own = rustix::fs::fchown(file, Some(owner.0), Some(owner.1));
}

#[cfg(not(unix))]
fn keep_owner(_: &fs::File, _: &std::fs::Metadata) {}

async fn download(State(app): State<Arc<App>>, scope: Scope, params: Params) -> Result<Response, Failure> {
    let path = scope.path(&params).await?;
    app.touch();
    let (file, found) = opened(&path).await.map_err(|error| match error.kind() {
        io::ErrorKind::IsADirectory | io::ErrorKind::InvalidInput => Failure::bad("Path is not a file"),
        _ => refused(&error),
    })?;
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_LENGTH, found.len().to_string()),
        (header::CONTENT_DISPOSITION, attachment(&name)),
    ];
    Ok((headers, Body::from_stream(ReaderStream::new(file))).into_response())
}

/// A regular file, opened on a thread that may block.
pub(super) async fn opened(path: &Path) -> io::Result<(fs::File, std::fs::Metadata)> {
    let path = path.to_owned();
    let opened = tokio::task::spawn_blocking(move || untrusted::open(&path)).await;
    let (file, metadata) = opened.map_err(io::Error::other)??;
    Ok((fs::File::from_std(file), metadata))
}

async fn create_directory(
    State(app): State<Arc<App>>,
    scope: Scope,
    params: Params,
) -> Result<Json<Value>, Failure> {
    let path = scope.path(&params).await?;
    app.touch();
    fs::create_dir_all(&path).await.map_err(|error| refused(&error))?;
    Ok(success())
}

/// The home folder, the folders in it, and where file systems begin.
async fn home(State(app): State<Arc<App>>, params: Params) -> Result<Json<Value>, Failure> {
    let home = app.config().home_dir.as_deref().unwrap_or(Path::new("/"));
    let hidden = params.flag("include_hidden")?;
    // A home that cannot be read has no favourites.
    let names = folders(home, hidden).await.unwrap_or_default();
    let favorites: Vec<Value> = names
        .into_iter()
        .take(FAVORITES_MAX)
        .map(|name| json!({"label": name, "path": home.join(name)}))
        .collect();
    let locations = json!([{"label": "/", "path": "/"}]);
    Ok(Json(json!({"home": home, "favorites": favorites, "locations": locations})))
}

/// The names of the folders in a folder, links left out, without regard to case.
async fn folders(folder: &Path, hidden: bool) -> io::Result<Vec<String>> {
    let mut entries = fs::read_dir(folder).await?;
    let mut names = Vec::new();
    while let Some(entry) = entries.next_entry().await? {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_shown = hidden || !name.starts_with('.');
        if is_shown && entry.file_type().await.is_ok_and(|kind| kind.is_dir()) {
            names.push(name);
        }
    }
    names.sort_by_key(|name| (name.to_lowercase(), name.clone()));
    Ok(names)
}

/// The folders in a folder, by name: for pickers.
async fn subfolders(scope: Scope, params: Params) -> Result<Json<Value>, Failure> {
    let path = scope.path(&params).await?;
    let limit = params.number("limit", 1, 100, 100)? as usize;
    match fs::metadata(&path).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(Failure::not_found("Directory not found"));
        }
        Ok(found) if !found.is_dir() => return Err(Failure::bad("Path is not a directory")),
        Ok(_) | Err(_) => {}
    }
    let hidden = params.flag("include_hidden")?;
    let names = folders(&path, hidden).await.map_err(|error| refused(&error))?;
    let from = params
        .get("page_id")
        .and_then(|first| names.iter().position(|name| name == first))
        .unwrap_or_default();
    let next = names.get(from + limit).cloned();
    let items: Vec<Value> =
        names[from..].iter().take(limit).map(|name| json!({"name": name, "path": path.join(name)})).collect();
    Ok(Json(json!({"items": items, "next_page_id": next})))
}

/// Puts stars in the place of every secret in a conversation's folder, sealed or not.
fn hide_secrets(folder: &Path) -> io::Result<()> {
    for name in ["base_state.json", "meta.json"] {
        let path = folder.join(name);
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        if let Ok(document) = Raw::parse(&text) {
            std::fs::write(&path, document::agent(document, Form::Redacted))?;
        }
    }
    Ok(())
}
