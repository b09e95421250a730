//! Closes a conversation in this process.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::conversation::error::Result;
use crate::conversation::local::Conversation;
use crate::event::HookType;

impl Conversation {
    /// Closes the conversation in this process: interrupts a run, calls the hooks for the end of the session, and
    /// closes the shells and connections of tools. The stored conversation can be opened again. A second call does
    /// nothing.
    ///
    /// # Errors
    /// The errors of the store while the events of hooks are stored. Everything is closed nevertheless.
    pub async fn close(&self) -> Result<()> {
        self.end(None).await
    }

    /// Closes the conversation when the program ends. Does not wait for hooks that take longer than `hooks`.
    ///
    /// # Errors
    /// As [`close`](Self::close).
    pub async fn close_within(&self, hooks: Duration) -> Result<()> {
        self.end(Some(hooks)).await
    }

    async fn end(&self, limit: Option<Duration>) -> Result<()> {
        let local = &self.0;
        if local.is_closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        if let Some(running) = local.running() {
            running.cancel.cancel();
            running.ended.cancelled().await;
        }
        let accounts = std::mem::take(&mut *local.accounts.lock().unwrap_or_else(PoisonError::into_inner));
        for account in accounts {
            // A task that panicked has nothing more to store.
            let _ignored = account.await;
        }
        let Some(equipment) = local.equipment() else { return Ok(()) };
        let asked = equipment.session(HookType::SessionEnd);
        let answer = match limit {
            Some(limit) => tokio::time::timeout(limit, asked).await.unwrap_or_default(),
            None => asked.await,
        };
        let written = async {
            let mut live = local.lock().await?;
            live.push_hooks(answer.events);
            local.commit(&mut live).await
        }
        .await;
        if let Some(hooks) = &equipment.hooks {
            hooks.close();
        }
        // Each of them gives its programs some time to end. They are closed together, so that these times overlap.
        let acp = async {
            if let Some(acp) = &equipment.acp {
                acp.close().await;
            }
        };
        let servers = async {
            if let Some(servers) = &equipment.servers {
                servers.close().await;
            }
        };
        tokio::join!(equipment.toolbox.close(), acp, servers);
        written
    }
}
