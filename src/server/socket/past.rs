//! Past events, read from the log page by page.

use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::ids::{ConversationId, Sequence};
use crate::server::App;
use crate::server::http::budget::{self, Admission, Charge, Read, STEP_BYTES_MAX};
use crate::server::http::failure::Failure;
use crate::server::live::wire::{self, Nulls, provenance};
use crate::store::{EventQuery, Store};

/// The maximum number of events of one page.
const PAGE: usize = 200;

/// A page of past events in the clients' format. Their memory is charged until this is dropped.
pub(super) struct Past {
    pub events: Vec<(Sequence, Utf8Bytes)>,
    /// Where the next page begins. `None` if this is the last page.
    pub next: Option<Sequence>,
    charge: Charge,
}

impl Past {
    /// Reads one page of the events that `query` finds: at least one event, unless there is none. Events that cannot be
    /// shown are skipped.
    ///
    /// # Errors
    /// The errors of reading; 503 if other clients hold the memory for too long.
    pub async fn read(app: &App, id: &ConversationId, query: EventQuery) -> Result<Self, Failure> {
        let id = id.clone();
        let read = move |store: &Store, charge: &mut Charge| {
            let mut admission = Admission::new(charge, STEP_BYTES_MAX, true);
            let page = store.events_while(&id, &query, PAGE, |bytes| admission.admits(bytes))?;
            if let (Some(short), true) = (admission.refused(), page.events.is_empty()) {
                return Ok(Read::Short(short));
            }
            let provenance = provenance(store, &id)?;
            let shown = page.events.into_iter().filter_map(|event| {
                let text = wire::into_shown(event, provenance, Nulls::Omitted);
                text.ok().map(|(sequence, text)| (sequence, text.into()))
            });
            Ok(Read::Done((shown.collect(), page.next)))
        };
        let ((events, next), mut charge) =
            budget::within(app.store(), &app.budgets().listeners, read).await?;
        let events: Vec<(Sequence, Utf8Bytes)> = events;
        charge.settle(events.iter().map(|(_, text)| text.len()).sum());
        Ok(Self { events, next, charge })
    }

    /// Returns the events one by one, and the charge for all of them. An event that was sent can be freed before the
    /// charge is dropped.
    pub fn into_parts(self) -> (impl Iterator<Item = (Sequence, Utf8Bytes)>, Charge) {
        (self.events.into_iter(), self.charge)
    }
}
