//! What happened before, read from the log a step at a time.

use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::ids::{ConversationId, Sequence};
use crate::server::App;
use crate::server::budget::{self, Charge, Door, Read, STEP_BYTES_MAX};
use crate::server::events::provenance;
use crate::server::failure::Failure;
use crate::server::wire::{self, Nulls};
use crate::store::{EventQuery, Store};

/// How many events are read at once.
const STEP: usize = 200;

/// Some events as clients read them; they are charged until this is dropped.
pub(super) struct Past {
    pub events: Vec<(Sequence, Utf8Bytes)>,
    /// Where to go on.
    pub next: Option<Sequence>,
    charge: Charge,
}

impl Past {
    /// A step of what `query` asks for: one event at least, unless there is none.
    ///
    /// # Errors
    /// What reading can meet; 503 where others take all the room there is.
    pub async fn read(app: &App, id: &ConversationId, query: EventQuery) -> Result<Self, Failure> {
        let id = id.clone();
        let read = move |store: &Store, charge: &mut Charge| {
            let mut door = Door::new(charge, STEP_BYTES_MAX, true);
            let page = store.events_while(&id, &query, STEP, |bytes| door.admits(bytes))?;
            if let (Some(short), true) = (door.refused(), page.events.is_empty()) {
                return Ok(Read::Short(short));
            }
            let provenance = provenance(store, &id)?;
            let shown = page.events.into_iter().filter_map(|event| {
                let text = wire::into_shown(event, provenance, Nulls::Omitted);
                text.ok().map(|(sequence, text)| (sequence, text.into()))
            });
            Ok(Read::Done((shown.collect(), page.next)))
        };
        let ((events, next), mut charge) = budget::within(app, &app.budgets().listeners, read).await?;
        let events: Vec<(Sequence, Utf8Bytes)> = events;
        charge.settle(events.iter().map(|(_, text)| text.len()).sum());
        Ok(Self { events, next, charge })
    }

    /// The events one by one; what was sent is let go of, what all take is charged to the end.
    pub fn into_parts(self) -> (impl Iterator<Item = (Sequence, Utf8Bytes)>, Charge) {
        (self.events.into_iter(), self.charge)
    }
}
