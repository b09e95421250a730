//! Asks the store, for handlers that must not block.

use super::failure::Failure;
use crate::error::Result;
use crate::store::Store;

/// Runs `work` on the store, on a thread that may block.
pub(in crate::server) async fn ask<T: Send + 'static>(
    store: &Store,
    work: impl FnOnce(&Store) -> Result<T> + Send + 'static,
) -> std::result::Result<T, Failure> {
    let store = store.clone();
    let answer = tokio::task::spawn_blocking(move || work(&store)).await;
    Ok(answer.map_err(|_| Failure::internal("a worker ended unexpectedly"))??)
}
