//! Waits for several tasks together.

use tokio::task::JoinSet;

/// Waits until all tasks have ended. A task that panicked, or was cancelled with the runtime, does not end the wait for
/// the others.
pub(super) async fn ended(mut tasks: JoinSet<()>) {
    while tasks.join_next().await.is_some() {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_cancelled_task_does_not_end_the_wait() {
        let mut tasks = JoinSet::new();
        tasks.spawn(std::future::pending()).abort();
        tasks.spawn(std::future::ready(()));
        ended(tasks).await;
    }
}
