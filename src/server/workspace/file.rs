//! Files of the machine that the server runs on: upload, download and new folders
//! (`docs/reference/workspace.md#files`).
//!
//! Paths are absolute. A client with a session key may read and write every file that the server may. It could do the
//! same with commands.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::multipart::MultipartRejection;
use axum::extract::{DefaultBodyLimit, Multipart, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::fs;
use tokio::io::AsyncWriteExt;
use tokio_util::io::ReaderStream;

use super::archive;
use super::private::Private;
use super::scope::Scope;
use super::zip;
use crate::error::Error;
use crate::json::Raw;
use crate::secret::document::{self, Form};
use crate::server::App;
use crate::server::http::TRUNCATED;
use crate::server::http::failure::{Failure, Problem, named, success};
use crate::server::http::request::{Params, Steps, conversation_id};
use crate::store::Store;
use crate::transfer::{Exporter, Format};
use crate::untrusted::{self, ENTRIES_MAX};

/// The maximum number of folders of the home folder that are shown.
const FAVORITES_MAX: usize = 50;

/// The maximum length of a chain of links that is followed; the operating system's own limit.
const LINKS_MAX: usize = 40;

pub(in crate::server) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/upload", post(upload).layer(DefaultBodyLimit::disable()))
        .route("/download", get(download))
        .route("/create_directory", post(create_directory))
        .route("/download-trajectory/{trajectory_id}", get(trajectory))
        .route("/archive", get(archive::pack))
}

/// The routes of folder pickers. They exist for the whole machine only, not for one conversation.
pub(in crate::server) fn discovery() -> Router<Arc<App>> {
    Router::new().route("/home", get(home)).route("/search_subdirs", get(subfolders))
}

/// Returns the `Content-Disposition` of a download. Characters that a header cannot contain are replaced.
pub(super) fn attachment(name: &str) -> String {
    let plain = |letter: char| {
        if matches!(letter, '"' | '\\') || !letter.is_ascii_graphic() { '_' } else { letter }
    };
    format!("attachment; filename=\"{}\"", name.chars().map(plain).collect::<String>())
}

/// Sends a conversation's folder as a zip, in the reference's format. Its secrets are replaced by stars.
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
        let mut out = std::io::BufWriter::new(untrusted::create(&place).map_err(failed)?);
        hide_secrets(&report.path).map_err(failed)?;
        zip::write(&report.path, &known, &mut out).map_err(failed)?;
        std::io::Write::flush(&mut out).map_err(failed)?;
        untrusted::open_named(&place).map_err(failed)
    });
    let packed = packed.await.map_err(named);
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_DISPOSITION, attachment(&format!("{name}.zip"))),
    ];
    Ok((headers, Body::from_stream(ReaderStream::new(fs::File::from_std(packed?)))).into_response())
}

/// Maps an error of the file system to a status: 4xx if the request caused the error, otherwise 500.
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
        Some(old) if untrusted::is_held(old) => return Err(in_use()),
        Some(_) | None => {}
    }
    let unreadable = |error: axum::extract::multipart::MultipartError| Failure::bad(error.body_text());
    while let Some(mut part) = parts.next_field().await.map_err(unreadable)? {
        if part.name() != Some("file") {
            continue;
        }
        let folder = path.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(folder).await.map_err(|error| refused(&error))?;
        // Written to a temporary file and renamed, so that no reader sees an incomplete file.
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
            // The temporary file may not exist. The client gets the first error.
            let _unfinished = fs::remove_file(&beside).await;
        }
        return Ok(Json(json!({"success": true, "file_size": written?})));
    }
    Err(missing().into())
}

/// Follows a chain of links to its end. The file at the end may not exist yet.
async fn followed(path: PathBuf) -> io::Result<PathBuf> {
    let mut path = path;
    for _ in 0..LINKS_MAX {
        match fs::read_link(&path).await {
            Ok(target) => path = path.parent().unwrap_or(Path::new("/")).join(target),
            // The path is not a link, or it does not exist.
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("too many links"))
}

/// Gives a file the owner of the file that it replaces, if the server may do so.
#[cfg(unix)]
fn keep_owner(file: &fs::File, old: &std::fs::Metadata) {
    use std::os::unix::fs::MetadataExt as _;
    let owner = (rustix::process::Uid::from_raw(old.uid()), rustix::process::Gid::from_raw(old.gid()));
    // Only root may do so. Any other server already owns the old file, or the folder is shared with another user.
    let _not_root = rustix::fs::fchown(file, Some(owner.0), Some(owner.1));
}

#[cfg(not(unix))]
fn keep_owner(_: &fs::File, _: &std::fs::Metadata) {}

async fn download(State(app): State<Arc<App>>, scope: Scope, params: Params) -> Result<Response, Failure> {
    let path = scope.path(&params).await?;
    app.touch();
    let (file, found) = match opened(&path).await {
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => copied(&app, &path).await?,
        opened => opened.map_err(|error| match error.kind() {
            io::ErrorKind::IsADirectory | io::ErrorKind::InvalidInput => Failure::bad("Path is not a file"),
            _ => refused(&error),
        })?,
    };
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_LENGTH, found.len().to_string()),
        (header::CONTENT_DISPOSITION, attachment(&name)),
    ];
    Ok((headers, Body::from_stream(ReaderStream::new(file))).into_response())
}

/// Why a file of an open database is neither sent nor replaced.
fn in_use() -> Failure {
    let what = "Path belongs to a database in use: download the database itself, which sends a copy of it";
    Failure::Refused(StatusCode::CONFLICT, what.to_owned())
}

/// Opens a consistent copy of the server's database, which SQLite makes while it is in use. Its other files, and other
/// databases, are refused.
async fn copied(app: &Arc<App>, path: &Path) -> Result<(fs::File, std::fs::Metadata), Failure> {
    let path = path.to_owned();
    let copy = move |store: &Store| {
        let is_same = std::fs::canonicalize(store.path()).ok() == std::fs::canonicalize(&path).ok();
        if store.is_in_memory() || !is_same {
            return Ok(None);
        }
        let within = |source| Error::Io { doing: "making a folder", path: std::env::temp_dir(), source };
        let private = Private::new().map_err(within)?;
        let place = private.path().join("annals.db");
        store.backup().to_new_file(&place)?;
        let failed = |source| Error::Io { doing: "reading a copy", path: place.clone(), source };
        let file = untrusted::open_named(&place).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        Ok(Some((file, metadata)))
    };
    let (file, metadata) = app.ask(copy).await?.ok_or_else(in_use)?;
    Ok((fs::File::from_std(file), metadata))
}

/// Opens a regular file, on a thread that may block.
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

/// Returns the home folder, the folders in it, and the roots of the file systems.
async fn home(State(app): State<Arc<App>>, params: Params) -> Result<Response, Failure> {
    let home = app.config().home_dir.as_deref().unwrap_or(Path::new("/"));
    let hidden = params.flag("include_hidden")?;
    // A home that cannot be read has no favourites.
    let folders = folders(home, hidden, ENTRIES_MAX).await.unwrap_or_default();
    let favorites: Vec<Value> = folders
        .names
        .iter()
        .take(FAVORITES_MAX)
        .map(|name| json!({"label": name, "path": home.join(name)}))
        .collect();
    let locations = json!([{"label": "/", "path": "/"}]);
    let answer = json!({"home": home, "favorites": favorites, "locations": locations});
    Ok(folders.signed(Json(answer).into_response()))
}

/// The folders in a folder.
#[derive(Debug, Default, PartialEq, Eq)]
struct Folders {
    /// Their names, sorted without regard to case.
    names: Vec<String>,
    /// Whether the folder has more entries than were read, so that folders may be missing.
    is_cut: bool,
}

impl Folders {
    /// Returns the response, with a header if folders may be missing. The reference's answer has no place for it.
    fn signed(&self, mut response: Response) -> Response {
        if self.is_cut {
            response.headers_mut().insert(TRUNCATED, HeaderValue::from_static("entries"));
        }
        response
    }
}

/// Returns the folders in a folder. Links are left out. At most `entries_max` entries of any kind are read; the system
/// decides which ones come first.
async fn folders(folder: &Path, hidden: bool, entries_max: usize) -> io::Result<Folders> {
    let mut entries = fs::read_dir(folder).await?;
    let (mut names, mut entries_left, mut is_cut) = (Vec::new(), entries_max, false);
    while let Some(entry) = entries.next_entry().await? {
        if entries_left == 0 {
            is_cut = true;
            break;
        }
        entries_left -= 1;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_shown = hidden || !name.starts_with('.');
        if is_shown && entry.file_type().await.is_ok_and(|kind| kind.is_dir()) {
            names.push(name);
        }
    }
    names.sort_by_key(|name| (name.to_lowercase(), name.clone()));
    Ok(Folders { names, is_cut })
}

/// Returns a page of the folders in a folder, sorted by name, for folder pickers.
async fn subfolders(scope: Scope, params: Params) -> Result<Response, Failure> {
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
    let folders = folders(&path, hidden, ENTRIES_MAX).await.map_err(|error| refused(&error))?;
    let names = &folders.names;
    let from = params
        .get("page_id")
        .and_then(|first| names.iter().position(|name| name == first))
        .unwrap_or_default();
    let next = names.get(from + limit).cloned();
    let items: Vec<Value> =
        names[from..].iter().take(limit).map(|name| json!({"name": name, "path": path.join(name)})).collect();
    Ok(folders.signed(Json(json!({"items": items, "next_page_id": next})).into_response()))
}

/// Replaces every secret in a conversation's folder by stars, whether it is sealed or not.
fn hide_secrets(folder: &Path) -> io::Result<()> {
    for name in ["base_state.json", "meta.json"] {
        let path = folder.join(name);
        let Ok(text) = untrusted::open_named(&path).and_then(std::io::read_to_string) else { continue };
        if let Ok(document) = Raw::parse(&text) {
            untrusted::write(&path, document::agent(document, Form::Redacted).as_bytes())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_list_of_folders_is_bounded_and_says_so() {
        let scratch = tempfile::tempdir().unwrap();
        for name in ["b", "A", ".c", "d"] {
            std::fs::create_dir(scratch.path().join(name)).unwrap();
        }
        std::fs::write(scratch.path().join("file"), "").unwrap();
        let header = |folders: &Folders| folders.signed(().into_response()).headers().get(TRUNCATED).cloned();
        // All entries count: hidden folders and files, too.
        for (entries_max, is_cut) in [(0, true), (1, true), (4, true), (5, false), (6, false)] {
            let found = folders(scratch.path(), true, entries_max).await.unwrap();
            assert_eq!(found.is_cut, is_cut, "{entries_max}");
            assert_eq!(header(&found), is_cut.then(|| HeaderValue::from_static("entries")), "{entries_max}");
            assert!(found.names.len() <= entries_max && found.names.len() + 1 >= entries_max.min(5));
            assert!(found.names.is_sorted_by_key(|name| name.to_lowercase()), "{found:?}");
        }
        let shown = folders(scratch.path(), false, 5).await.unwrap();
        assert_eq!(shown, Folders { names: ["A", "b", "d"].map(str::to_owned).to_vec(), is_cut: false });
    }
}
