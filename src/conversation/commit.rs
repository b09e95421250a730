//! Writing what was taken in: events, HEAD and base state in one transaction; then everybody hears of it.

use tokio::sync::MutexGuard;

use super::live::Live;
use super::{Local, Result, Snapshot, load};
use crate::error::Expected;
use crate::event::{NewEvent, kind};
use crate::ids::Version;
use crate::store::{Append, BaseStateChange, Head};

impl Local {
    /// Waits in line for the conversation. What a former holder did not commit is forgotten, and what another process
    /// wrote is read.
    pub(super) async fn lock(&self) -> Result<MutexGuard<'_, Live>> {
        let mut live = self.live.lock().await;
        if !live.is_stale {
            let id = self.id.clone();
            let mark = self.host.call(move |store| store.mark(&id)).await?;
            live.is_stale = !live.is_at(&mark);
        }
        if live.is_stale {
            load::refresh(&self.host, &self.id, &mut live).await?;
            self.show(&live);
        }
        Ok(live)
    }

    /// Writes everything that was taken in, all of it or nothing, and tells of it.
    ///
    /// Where it fails, or nobody waits for it to end, memory counts for nothing and is read anew.
    pub(super) async fn commit(&self, live: &mut Live) -> Result<()> {
        if live.is_written() {
            live.is_stale = false;
            return Ok(());
        }
        let draft = std::mem::take(&mut live.draft);
        let moved = draft.events.iter().rev().find(|event| kind::moves_head(event.kind()));
        let aside = live.leaf.clone().filter(|leaf| moved.is_some_and(|event| event.id() != leaf));
        let head = draft.head.or(aside.map(Head::At));
        let expected = Expected::Exact(live.stored);
        let base_state = (!draft.fields.is_empty())
            .then_some(BaseStateChange { expected: Some(live.version), fields: draft.fields });
        let is_changed = base_state.is_some();
        let (id, to_write) = (self.id.clone(), draft.events.clone());
        self.host
            .call(move |store| {
                let events = to_write.iter().map(|event| Ok(NewEvent::parse(event.dump())?));
                let events = events.collect::<crate::Result<Vec<_>>>()?;
                store.append_all(&id, Append { expected, events, base_state, head })
            })
            .await?;
        live.stored += draft.events.len() as u64;
        live.version = Version(live.version.0 + u64::from(is_changed));
        live.is_stale = false;
        self.show(live);
        for event in &draft.events {
            self.parts.callbacks.iter().for_each(|callback| callback(event));
        }
        Ok(())
    }

    /// Shows what there is to those who only look.
    pub(super) fn show(&self, live: &Live) {
        self.shown.send_replace(Snapshot::of(live));
    }
}

impl Snapshot {
    /// What a conversation looks like from outside.
    pub(super) fn of(live: &Live) -> Self {
        Self {
            status: live.base.status,
            event_count: live.stored,
            head: live.leaf.clone(),
            last_user_message: live.base.last_user_message.clone(),
        }
    }
}
