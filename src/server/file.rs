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
use super::failure::{Failure, Problem, success};
use super::request::Params;

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/upload", post(upload).layer(DefaultBodyLimit::disable()))
        .route("/download", get(download))
        .route("/create_directory", post(create_directory))
        .route("/home", get(home))
        .route("/search_subdirs", get(subfolders))
}

/// The path of a query: absolute.
fn path(params: &Params) -> Result<PathBuf, Failure> {
    let path = PathBuf::from(params.required("path")?);
    if path.is_absolute() { Ok(path) } else { Err(Failure::bad("Path must be absolute")) }
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
    params: Params,
    parts: Result<Multipart, MultipartRejection>,
) -> Result<Json<Value>, Failure> {
    let path = path(&params)?;
    let missing = || Problem::new("missing", &["body", "file"], "Field required");
    let mut parts = parts.map_err(|_| missing())?;
    app.touch();
    if fs::metadata(&path).await.is_ok_and(|found| found.is_dir()) {
        return Err(Failure::bad("Path is a directory"));
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
            let mut file = fs::File::create(&beside).await.map_err(|error| refused(&error))?;
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

async fn download(State(app): State<Arc<App>>, params: Params) -> Result<Response, Failure> {
    let path = path(&params)?;
    app.touch();
    let found = fs::metadata(&path).await.map_err(|error| refused(&error))?;
    if !found.is_file() {
        return Err(Failure::bad("Path is not a file"));
    }
    let file = fs::File::open(&path).await.map_err(|error| refused(&error))?;
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let name: String = name
        .chars()
        .map(|letter| if matches!(letter, '"' | '\\') || !letter.is_ascii_graphic() { '_' } else { letter })
        .collect();
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_LENGTH, found.len().to_string()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\"")),
    ];
    Ok((headers, Body::from_stream(ReaderStream::new(file))).into_response())
}

async fn create_directory(State(app): State<Arc<App>>, params: Params) -> Result<Json<Value>, Failure> {
    let path = path(&params)?;
    app.touch();
    fs::create_dir_all(&path).await.map_err(|error| refused(&error))?;
    Ok(success())
}

async fn home(State(app): State<Arc<App>>) -> Json<Value> {
    Json(json!({"home": app.config().home_dir.as_deref().unwrap_or(Path::new("/"))}))
}

/// The folders in a folder, by name: for pickers.
async fn subfolders(params: Params) -> Result<Json<Value>, Failure> {
    let path = path(&params)?;
    let limit = params.number("limit", 1, 100, 100)? as usize;
    let mut entries = fs::read_dir(&path).await.map_err(|error| refused(&error))?;
    let mut names = Vec::new();
    while let Some(entry) = entries.next_entry().await.map_err(|error| refused(&error))? {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') && fs::metadata(entry.path()).await.is_ok_and(|found| found.is_dir()) {
            names.push(name);
        }
    }
    names.sort();
    let from = params
        .get("page_id")
        .and_then(|first| names.iter().position(|name| name == first))
        .unwrap_or_default();
    let next = names.get(from + limit).cloned();
    let items: Vec<Value> =
        names[from..].iter().take(limit).map(|name| json!({"name": name, "path": path.join(name)})).collect();
    Ok(Json(json!({"items": items, "next_page_id": next})))
}
