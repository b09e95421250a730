//! The end of a conversation in this process.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Conversation, Result};
use crate::event::HookType;

impl Conversation {
    /// Ends what the conversation holds here: a run is interrupted, hooks hear of the end, tools let go of their shells
    /// and connections. What is stored stays, and can be opened again. Closing twice is closing once.
    ///
    /// # Errors
    /// What the store can meet while it writes down what hooks said; everything is ended all the same.
    pub async fn close(&self) -> Result<()> {
        self.end(None).await
    }

    /// The same where the program ends: hooks that take longer than this are not waited for.
    ///
    /// # Errors
    /// As for [`close`](Self::close).
    pub async fn close_within(&self, hooks: Duration) -> Result<()> {
        self.end(Some(hooks)).await
    }

    async fn end(&self, patience: Option<Duration>) -> Result<()> {
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
            // One that panicked has nothing more to write.
            let _written = account.await;
        }
        let Some(equipment) = local.equipment() else { return Ok(()) };
        let asked = equipment.session(HookType::SessionEnd);
        let answer = match patience {
            Some(patience) => tokio::time::timeout(patience, asked).await.unwrap_or_default(),
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
        // Each of them gives its programs a moment; the moments are the same one.
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
