//! Writes a draft: events, HEAD and base state in one transaction. Then the callbacks receive the events.

use std::time::Duration;

use tokio::sync::MutexGuard;

use super::Local;
use crate::conversation::claim;
use crate::conversation::error::{ConversationError, Result};
use crate::conversation::memory::{Change, Draft, Live, Snapshot, load, rebase};
use crate::error::Expected;
use crate::event::{Event, NewEvent, kind};
use crate::ids::Version;
use crate::state::ExecutionStatus;
use crate::store::{Append, BaseStateChange, Leaf, acting};

/// How often to check whether tools of another process are still running.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// The pause before a run tries again to write while another process has the lock. Each try waits for it as well.
const LOCK_INTERVAL: Duration = Duration::from_millis(20);

/// How often a draft is rebased onto the writes of other processes before the commit fails.
pub(in crate::conversation) const REBASES_MAX: usize = 16;

impl Local {
    /// Locks the conversation. Callers get the lock in order. Changes that a former holder did not commit are dropped,
    /// and the writes of other processes are read.
    pub(in crate::conversation) async fn lock(&self) -> Result<MutexGuard<'_, Live>> {
        let mut live = self.live.lock().await;
        if !live.is_stale {
            let id = self.id.clone();
            let mark = self.host.call(move |store| store.mark(&id)).await?;
            live.is_stale = !live.is_at(&mark);
        }
        if live.is_stale {
            self.refresh(&mut live).await?;
        }
        Ok(live)
    }

    /// Locks the conversation while no tool runs in another process. An answer must directly follow its call.
    pub(in crate::conversation) async fn lock_between(&self) -> Result<MutexGuard<'_, Live>> {
        loop {
            let live = self.lock().await?;
            let is_at_work =
                live.base.status == ExecutionStatus::Running && !live.branch.pending().is_empty();
            if !is_at_work || !self.runs_elsewhere() {
                return Ok(live);
            }
            drop(live);
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    }

    /// Returns whether another process runs the conversation.
    pub(in crate::conversation) fn runs_elsewhere(&self) -> bool {
        self.running().is_none() && claim::is_taken(self.host.store(), &self.id)
    }

    /// Writes the whole draft or nothing, and then notifies the callbacks.
    ///
    /// If it fails, or if its future is dropped, the memory is stale and is read again before it is used. The draft of
    /// a run is rebased onto the events that another process wrote meanwhile.
    ///
    /// # Errors
    /// A conflict, if another process wrote first and this process does not run the conversation.
    pub(in crate::conversation) async fn commit(&self, live: &mut Live) -> Result<()> {
        if live.is_written() {
            live.is_stale = false;
            return Ok(());
        }
        let (mut rebased, mut waits) = (0, false);
        while rebased < REBASES_MAX {
            let leaf = live.leaf.clone();
            let draft = std::mem::take(&mut live.draft);
            match self.write(live, &draft).await {
                // The reply of the model is paid for. It is kept until the lock is free, or until the run is cancelled.
                Err(error) if error.is_locked() && self.running().is_some() => {
                    live.draft = draft;
                    if let (false, ConversationError::Store(reason), Some(on_wait)) =
                        (waits, &error, &self.parts.on_wait)
                    {
                        on_wait(reason);
                    }
                    waits = true;
                    if self.is_cancelled_within(LOCK_INTERVAL).await {
                        live.is_stale = true;
                        return Err(error);
                    }
                }
                Err(error) if error.is_conflict() && self.running().is_some() => {
                    rebased += 1;
                    self.refresh(live).await?;
                    if !rebase(live, draft, leaf) {
                        live.is_stale = true;
                        return Err(error);
                    }
                }
                outcome => return outcome,
            }
        }
        live.is_stale = true;
        Err(ConversationError::Abandoned { what: "writing after other processes" })
    }

    /// Waits, and returns whether the run was cancelled meanwhile, or has ended.
    async fn is_cancelled_within(&self, time: Duration) -> bool {
        match self.running() {
            Some(running) => tokio::time::timeout(time, running.cancel.cancelled()).await.is_ok(),
            None => true,
        }
    }

    /// Stores the secrets if they have changed. The same values sealed again are no change.
    pub(in crate::conversation) async fn save_secrets(&self, live: &mut Live) -> Result<()> {
        if self.secrets.is_unsaved() {
            live.set(Change::Secrets);
            self.commit(live).await?;
            self.secrets.note_saved();
        }
        Ok(())
    }

    async fn write(&self, live: &mut Live, draft: &Draft) -> Result<()> {
        self.expect_objections(live);
        let moved = draft.events.iter().rev().find(|event| kind::moves_head(event.kind()));
        let aside = live.leaf.clone().filter(|leaf| moved.is_some_and(|event| event.id() != leaf));
        let leaf = draft.leaf.clone().or(aside.map(Leaf::At));
        let expected = Expected::Exact(live.stored);
        let base_state = (!draft.fields.is_empty())
            .then(|| BaseStateChange { expected: Some(live.version), fields: draft.fields.clone() });
        let is_changed = base_state.is_some();
        let (id, to_write, by) = (self.id.clone(), draft.events.clone(), draft.by.clone());
        self.host
            .call(move |store| {
                let events = to_write.iter().map(|event| Ok(NewEvent::parse(event.dump())?));
                let events = events.collect::<crate::Result<Vec<_>>>()?;
                let append = Append { expected, events, base_state, leaf };
                acting(by.as_deref(), || store.append_all(&id, append))
            })
            .await?;
        live.stored += draft.events.len() as u64;
        live.version = Version(live.version.0 + u64::from(is_changed));
        live.is_stale = false;
        self.announce(live, &draft.events);
        Ok(())
    }

    /// Reads everything again.
    async fn refresh(&self, live: &mut Live) -> Result<()> {
        let unannounced = load::refresh(&self.host, &self.id, live).await?;
        self.announce(live, &unannounced);
        Ok(())
    }

    /// Publishes the snapshot, and passes stored events to the callbacks.
    fn announce(&self, live: &mut Live, events: &[Event]) {
        live.announced = live.stored;
        self.show(live);
        for event in events {
            self.parts.callbacks.iter().for_each(|callback| callback(event));
        }
    }

    /// Publishes the snapshot.
    pub(in crate::conversation) fn show(&self, live: &Live) {
        self.shown.send_replace(Snapshot::of(live));
    }
}
