//! Several tasks that are waited for together.

use tokio::task::JoinSet;

/// Waits until all have ended, however each did: one that panicked, or was cancelled with the runtime, keeps nothing of the
/// others from being waited for.
pub(in crate::server) async fn ended(mut tasks: JoinSet<()>) {
    while tasks.join_next().await.is_some() {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_that_is_cancelled_is_no_failure_of_all() {
        let mut tasks = JoinSet::new();
        tasks.spawn(std::future::pending()).abort();
        tasks.spawn(std::future::ready(()));
        ended(tasks).await;
    }
}
