//! What a server on a shared log promises: which entries an answer has, and that it answers nothing while its file differs
//! from the log.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use tokio::sync::Mutex;

use super::metrics::{Kind, Text};
use super::{App, homes, notice};
use crate::server::config::Consistency;
use crate::server::http::failure::Failure;
use crate::store::{Replica, ReplicaStatus};

/// The header of an answer: it has what was written up to this entry of the shared log, its own write included.
const ENTRY: HeaderName = HeaderName::from_static("annals-entry");

/// The header of a request: the answer must have this entry.
const AS_OF: HeaderName = HeaderName::from_static("annals-as-of");

/// How often the task looks whether something has changed that the operator should know.
const LOOK: Duration = Duration::from_secs(1);

/// Asks for the end of the log, for several requests at once.
#[derive(Debug, Default)]
pub(in crate::server) struct Asking {
    /// When the last question that was answered began.
    last: Mutex<Option<Instant>>,
}

impl Asking {
    /// Brings the file up to the end of the log. An answer to a question that began after this was called is enough.
    async fn ask(&self, app: &App) -> Result<(), Failure> {
        let called = Instant::now();
        let mut last = self.last.lock().await;
        if last.is_some_and(|begun| begun >= called) {
            return Ok(());
        }
        let begun = Instant::now();
        app.ask(|store| store.replica().map_or(Ok(0), |replica| replica.refresh())).await.map_err(later)?;
        *last = Some(begun);
        Ok(())
    }
}

/// Answers a request from a file that has what the request needs, and says which entry it has.
pub(in crate::server) async fn answer(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let Some(replica) = app.store().replica() else { return next.run(request).await };
    let request = match homes::route(&app, request).await {
        Err(request) => request,
        Ok(answered) => return answered.into_response(),
    };
    if let Err(failure) = prepare(&app, &replica, request.headers()).await {
        return failure.into_response();
    }
    let before = replica.status().entry;
    let is_read = request.method().is_safe();
    let mut response = next.run(request).await;
    let entry = if is_read { before } else { replica.status().entry };
    if let Ok(value) = HeaderValue::from_str(&entry.to_string()) {
        response.headers_mut().insert(ENTRY, value);
    }
    response
}

async fn prepare(app: &App, replica: &Replica<'_>, headers: &HeaderMap) -> Result<(), Failure> {
    if replica.status().is_stopped {
        return Err(Failure::Later(stopped(&replica.status())));
    }
    let wanted = match headers.get(AS_OF).map(|value| value.to_str().ok().and_then(|text| text.parse().ok()))
    {
        None => 0,
        Some(Some(entry)) => entry,
        Some(None) => return Err(Failure::bad(format!("{AS_OF} must be the number of an entry"))),
    };
    if app.config().consistency == Consistency::Log || wanted > replica.status().entry {
        app.asking().ask(app).await?;
    }
    // An entry that another server has named is in the log.
    match replica.status().entry {
        entry if entry >= wanted => Ok(()),
        entry => Err(Failure::bad(format!("the shared log has {entry} entries, and {AS_OF} names {wanted}"))),
    }
}

/// A file that cannot be brought up to the log now may be later.
fn later(failure: Failure) -> Failure {
    match failure {
        Failure::Internal(text) => Failure::Later(text),
        failure => failure,
    }
}

/// Returns why nothing is answered. Never content of a conversation.
fn stopped(status: &ReplicaStatus) -> String {
    format!(
        "the file of this server differs from its shared log: {}",
        status.trouble.as_deref().unwrap_or("it is stopped")
    )
}

/// Reports what keeps the file from its log, and what was done about it, until the server ends.
pub(in crate::server) async fn watch(app: Arc<App>) {
    let Some(replica) = app.store().replica() else { return };
    let mut known = ReplicaStatus::default();
    loop {
        let status = replica.status();
        if status.trouble != known.trouble {
            match &status.trouble {
                Some(trouble) if status.is_stopped => notice::replica_stopped(trouble),
                Some(trouble) => notice::replica_behind(trouble),
                None => notice::replica_follows(status.entry),
            }
        }
        if let Some(rebuilt) = status.rebuilt.as_ref().filter(|_| status.rebuilt != known.rebuilt) {
            notice::replica_rebuilt(&rebuilt.why, &rebuilt.copy);
            // What is open may remember what the file was.
            app.sessions().release(&app, Duration::ZERO).await;
        }
        known = status;
        tokio::select! {
            () = app.ending().cancelled() => return,
            () = tokio::time::sleep(LOOK) => {}
        }
    }
}

/// Writes where the replica stands. Nothing for a file that is on its own.
pub(in crate::server) fn write(app: &App, text: &mut Text) {
    let Some(status) = app.store().replica().map(|replica| replica.status()) else { return };
    let mut one = |name, kind, what, value| text.one(name, kind, what, value);
    one("annals_shared_entry", Kind::Counter, "The last entry of the shared log in the file.", status.entry);
    one(
        "annals_shared_log_entry",
        Kind::Counter,
        "The last entry of the shared log, as far as this process knows.",
        status.log_entry,
    );
    one(
        "annals_shared_trouble",
        Kind::Gauge,
        "1 while the file cannot follow the shared log.",
        u64::from(status.trouble.is_some()),
    );
    one(
        "annals_shared_stopped",
        Kind::Gauge,
        "1 while the file differs from the shared log, or is ahead of it, and nothing is answered.",
        u64::from(status.is_stopped),
    );
}

/// Returns why the server is not ready.
pub(in crate::server) fn obstacle(app: &App) -> Option<String> {
    let status = app.store().replica()?.status();
    status.is_stopped.then(|| "the file differs from its shared log".to_owned())
}
