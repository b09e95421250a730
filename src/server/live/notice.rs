//! What the server reports to its operator while it runs, as events of the crate `tracing`.
//!
//! A program with a subscriber receives them; `annals serve` prints them (`docs/operating.md`). They hold names, numbers
//! and the texts of errors, never the content of a conversation, a key or the query of a URL.

use std::time::Duration;

use tracing::{error, info, warn};

use super::heads::Signed;
use crate::error::Error;
use crate::ids::ConversationId;
use crate::llm::{LlmError, Retry};
use crate::message;
use crate::state::ExecutionStatus;
use crate::store::{BackupResult, Store};

/// The target of all events but those of requests.
const TARGET: &str = "annals::server";
/// The target of the events of requests: one for each answered request.
const REQUESTS: &str = "annals::requests";

/// The maximum number of characters of a text. The middle of longer ones is cut.
const CHARACTERS_MAX: usize = 1000;

/// The server takes requests.
pub(in crate::server) fn started(store: &Store) {
    let path = store.path();
    info!(
        target: TARGET,
        version = env!("CARGO_PKG_VERSION"),
        process = std::process::id(),
        database = &*path.to_string_lossy(),
        "started"
    );
}

/// The server is about to end, and what still runs is paused.
pub(in crate::server) fn ending(running: usize) {
    info!(target: TARGET, running, "ending");
}

/// The server has ended.
pub(in crate::server) fn ended(took: Duration) {
    info!(target: TARGET, seconds = rounded(took), "ended");
}

/// A run ended. `reason` is the error that ended it.
pub(super) fn run_ended(
    conversation: &ConversationId,
    status: ExecutionStatus,
    took: Duration,
    reason: Option<&str>,
) {
    let (conversation, seconds, state) = (conversation.as_str(), rounded(took), status.as_str());
    let reason = reason.map(clip);
    match status {
        ExecutionStatus::Error | ExecutionStatus::Stuck => {
            warn!(target: TARGET, conversation, status = state, seconds, reason = reason.as_deref(), "run ended");
        }
        _ => {
            info!(target: TARGET, conversation, status = state, seconds, reason = reason.as_deref(), "run ended")
        }
    }
}

/// A call of a model failed, and is tried again.
pub(super) fn model_retried(conversation: &ConversationId, model: &str, retry: &Retry<'_>) {
    warn!(
        target: TARGET,
        conversation = conversation.as_str(),
        model,
        attempt = retry.attempt,
        attempts_max = retry.attempts_max,
        wait_seconds = rounded(retry.wait),
        code = retry.error.code(),
        reason = &*clip(&retry.error.to_string()),
        "model call is tried again"
    );
}

/// A run keeps what it has, and waits until another process unlocks the file.
pub(super) fn run_waits(conversation: &ConversationId, reason: &Error) {
    warn!(target: TARGET, conversation = conversation.as_str(), reason = %reason, "run waits for the file");
}

/// A call of a model failed.
pub(super) fn model_failed(conversation: Option<&ConversationId>, model: &str, failure: &LlmError) {
    error!(
        target: TARGET,
        conversation = conversation.map(ConversationId::as_str),
        model,
        code = failure.code(),
        reason = &*clip(&failure.to_string()),
        "model call failed"
    );
}

/// A webhook did not accept a request, however often it was tried. `address` has no credentials.
pub(super) fn webhook_failed(address: &str, tries: u32, reason: &str) {
    warn!(target: TARGET, address, tries, reason = &*clip(reason), "webhook failed");
}

/// A webhook that had failed accepts requests again.
pub(super) fn webhook_recovered(address: &str) {
    info!(target: TARGET, address, "webhook accepts requests again");
}

/// A backup was taken.
pub(super) fn backed_up(taken: &BackupResult) {
    info!(
        target: TARGET,
        file = &*taken.path.to_string_lossy(),
        full = taken.is_full,
        events = taken.events,
        position = taken.to.0,
        bytes = taken.bytes,
        pruned = taken.pruned,
        "backup taken"
    );
}

/// A backup failed. The next one is tried when it is due.
pub(super) fn backup_failed(reason: &str) {
    error!(target: TARGET, reason = &*clip(reason), "backup failed");
}

/// The file differs from its shared log, or is ahead of it. Nothing is answered until it is made anew.
#[cfg(feature = "postgres")]
pub(super) fn replica_stopped(reason: &str) {
    error!(target: TARGET, reason = &*clip(reason), "replica stopped");
}

/// The file cannot follow its shared log for now.
#[cfg(feature = "postgres")]
pub(super) fn replica_behind(reason: &str) {
    warn!(target: TARGET, reason = &*clip(reason), "replica does not follow");
}

/// The file follows its shared log.
#[cfg(feature = "postgres")]
pub(super) fn replica_follows(entry: u64) {
    info!(target: TARGET, entry, "replica follows");
}

/// The file differed from its shared log and was made anew.
#[cfg(feature = "postgres")]
pub(super) fn replica_rebuilt(reason: &str, copy: &std::path::Path) {
    warn!(target: TARGET, reason = &*clip(reason), copy = &*copy.to_string_lossy(), "replica made anew");
}

/// A signed head was written.
pub(super) fn signed(signed: &Signed) {
    info!(
        target: TARGET,
        file = &*signed.path.to_string_lossy(),
        conversations = signed.conversations,
        position = signed.position.0,
        key = &*signed.key.to_string(),
        "head signed"
    );
}

/// A head could not be signed or written. The next one is tried when it is due.
pub(super) fn signing_failed(reason: &str) {
    error!(target: TARGET, reason = &*clip(reason), "head failed");
}

/// Something that a request found cannot be used.
pub(super) fn left_out(problem: &str) {
    warn!(target: TARGET, problem, "left out");
}

/// A request was answered.
pub(in crate::server) fn answered(method: &str, path: &str, status: u16, took: Duration, key: Option<&str>) {
    info!(target: REQUESTS, method, path = &*clip(path), status, seconds = rounded(took), key, "answered");
}

/// A request failed by a fault of the server.
pub(in crate::server) fn failed(method: &str, path: &str, status: u16, reason: Option<&str>) {
    let (path, reason) = (&*clip(path), reason.map(clip));
    error!(target: TARGET, method, path, status, reason = reason.as_deref(), "request failed");
}

/// Returns seconds, to the microsecond.
fn rounded(took: Duration) -> f64 {
    took.as_micros() as f64 / 1e6
}

fn clip(text: &str) -> std::borrow::Cow<'_, str> {
    message::clip(text, CHARACTERS_MAX, " ... ")
}
