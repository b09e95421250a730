//! Shows the files of a conversation's workspace in a browser (`docs/reference/workspace.md#workspace-in-a-browser`).
//!
//! A page cannot send a header with everything that it loads. The session key may therefore also come in a cookie. The
//! files were made by an agent, so the browser must not treat them as pages of this server: they are shown in a
//! sandbox.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use tokio_util::io::ReaderStream;

use super::scope::lies_within;
use crate::server::App;
use crate::server::http::auth;
use crate::server::http::failure::Failure;
use crate::server::http::request::{PathId, Steps};
use crate::server::live::info::Stored;
use crate::server::live::plan::Plan;

const COOKIE: &str = "oh_workspace_session_key";
const COOKIE_PATH: &str = "/api/conversations";

/// How long a browser keeps the cookie, in seconds: eight hours.
const COOKIE_SECONDS: u32 = 8 * 3600;

/// Returns the routes that need a key in a header.
pub(in crate::server) fn keys() -> Router<Arc<App>> {
    Router::new().route("/workspace-session", post(begin).delete(end))
}

/// Returns the routes that also accept the key in the cookie.
pub(in crate::server) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/{conversation_id}/workspace", get(file))
        .route("/{conversation_id}/workspace/", get(file))
        .route("/{conversation_id}/workspace/{*file_path}", get(file))
}

/// Authorizes a request by a key in a header or in the cookie.
pub(in crate::server) async fn check(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    let given: Vec<String> =
        [auth::key(headers), cookie(headers)].into_iter().flatten().map(str::to_owned).collect();
    auth::pass(app.keys(), &given, request, next).await
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    let all = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut pairs = all.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == COOKIE).map(|(_, value)| value)
}

async fn begin(headers: HeaderMap) -> Result<Response, Failure> {
    set(&headers, auth::key(&headers).unwrap_or_default(), COOKIE_SECONDS)
}

async fn end(headers: HeaderMap) -> Result<Response, Failure> {
    set(&headers, "", 0)
}

/// Sets the cookie. In a frame within another site's page, browsers accept it only over TLS or from this machine.
fn set(headers: &HeaderMap, value: &str, seconds: u32) -> Result<Response, Failure> {
    let first = |name: HeaderName| {
        let value = headers.get(name).and_then(|value| value.to_str().ok());
        value.and_then(|value| value.split(',').next()).map(|value| value.trim().to_lowercase())
    };
    let host = first(header::HOST).unwrap_or_default();
    let is_here = ["localhost", "127.0.0.1", "[::1]"]
        .iter()
        .any(|own| host.strip_prefix(own).is_some_and(|rest| rest.is_empty() || rest.starts_with(':')));
    let is_secure =
        is_here || first(HeaderName::from_static("x-forwarded-proto")).as_deref() == Some("https");
    let attributes = if is_secure { "; Secure; Partitioned" } else { "" };
    let text = format!(
        "{COOKIE}={value}; Path={COOKIE_PATH}; Max-Age={seconds}; HttpOnly; SameSite=None{attributes}"
    );
    let cookie = HeaderValue::from_str(&text)
        .map_err(|_| Failure::bad("the session key contains characters that are not allowed in a cookie"))?;
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response())
}

async fn file(State(app): State<Arc<App>>, PathId(id): PathId, steps: Steps) -> Result<Response, Failure> {
    let known = id.clone();
    let folder = app.ask(move |store| Ok(Plan::resumed(&Stored::read(store, &known)?).working_dir));
    let unknown = |failure| match failure {
        Failure::Refused(StatusCode::NOT_FOUND, _) => {
            Failure::not_found(format!("Conversation not found: {id}"))
        }
        other => other,
    };
    let root = tokio::fs::canonicalize(folder.await.map_err(unknown)?).await;
    let root = root.map_err(|_| Failure::not_found("Workspace directory does not exist"))?;
    let mut path = root.join(steps.get("file_path"));
    if !lies_within(&path, &root).await {
        return Err(Failure::bad("Path is outside the workspace"));
    }
    if is_folder(&path).await {
        path.push("index.html");
        // The file may be a link to a file outside the workspace.
        if !lies_within(&path, &root).await || !is_file(&path).await {
            return Err(Failure::not_found("No index.html in directory"));
        }
    }
    if !is_file(&path).await {
        return Err(Failure::not_found("File not found"));
    }
    show(&path).await
}

async fn is_folder(path: &PathBuf) -> bool {
    tokio::fs::metadata(path).await.is_ok_and(|found| found.is_dir())
}

async fn is_file(path: &PathBuf) -> bool {
    tokio::fs::metadata(path).await.is_ok_and(|found| found.is_file())
}

async fn show(path: &Path) -> Result<Response, Failure> {
    let failed =
        |error: std::io::Error| Failure::internal(format!("the file cannot be read: {}", error.kind()));
    let (file, metadata) = super::file::opened(path).await.map_err(failed)?;
    let length = metadata.len();
    let headers = [
        (header::CONTENT_TYPE, kind(path).to_owned()),
        (header::CONTENT_LENGTH, length.to_string()),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (header::CONTENT_SECURITY_POLICY, "sandbox allow-scripts allow-forms allow-popups".to_owned()),
        (header::REFERRER_POLICY, "no-referrer".to_owned()),
    ];
    Ok((headers, Body::from_stream(ReaderStream::new(file))).into_response())
}

/// Returns the content type of a file, by its extension.
fn kind(path: &Path) -> &'static str {
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase()).unwrap_or_default();
    match ending.as_str() {
        "html" | "htm" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "json" | "map" => "application/json",
        "txt" | "md" | "log" | "csv" => "text/plain; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "ico" => "image/x-icon",
        "pdf" => "application/pdf",
        "wasm" => "application/wasm",
        "woff2" => "font/woff2",
        _ => "application/octet-stream",
    }
}
