//! Events in the clients' format, which every client of SDK 1.58 can parse.
//!
//! A client rejects a whole page if it cannot parse one event (`docs/reference/client.md#what-it-can-parse`). An event
//! of another version or origin is therefore shown as the most similar event that the client can parse. The log keeps
//! the original event; `/api/annals/` shows it.

use std::borrow::Cow;

use crate::error::Error;
use crate::event::upcast::loadable;
use crate::event::{DecodeError, Event, Given};
use crate::ids::{ConversationId, Sequence};
use crate::store::{Store, StoredEvent};

/// Whether members that are null are included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) enum Nulls {
    /// They are left out: in pages and on sockets.
    Omitted,
    /// They are included: if a client requests a single event.
    Written,
}

/// Whether a conversation was written by this server. Its own events need no conversion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) enum Provenance {
    /// It was written by this server.
    Own,
    /// It was imported.
    Imported,
}

/// Returns the event as JSON text in the clients' format.
///
/// # Errors
/// [`DecodeError`] if the stored payload is not an event. The caller skips it.
pub(in crate::server) fn shown(
    event: &StoredEvent,
    provenance: Provenance,
    nulls: Nulls,
) -> Result<Cow<'_, str>, DecodeError> {
    if provenance == Provenance::Own && nulls == Nulls::Omitted {
        return Ok(Cow::Borrowed(&event.payload));
    }
    let given = Given { id: Some(&event.id), ..Given::default() };
    let (event, _) = loadable(&Event::read(&event.payload, &given)?);
    Ok(match nulls {
        Nulls::Omitted => event.dump().into(),
        Nulls::Written => event.dump_with_nulls().into(),
    })
}

/// Returns the sequence of an event, and its JSON text. The stored text is not copied if it needs no conversion.
///
/// # Errors
/// The errors of [`shown`].
pub(in crate::server) fn into_shown(
    event: StoredEvent,
    provenance: Provenance,
    nulls: Nulls,
) -> Result<(Sequence, String), DecodeError> {
    let converted = match shown(&event, provenance, nulls)? {
        Cow::Borrowed(_) => None,
        Cow::Owned(text) => Some(text),
    };
    Ok((event.sequence, converted.unwrap_or(event.payload)))
}

/// Returns the origin of a conversation, for [`shown`].
pub(in crate::server) fn provenance(
    store: &Store,
    conversation: &ConversationId,
) -> Result<Provenance, Error> {
    Ok(if store.origin(conversation)?.is_some() { Provenance::Imported } else { Provenance::Own })
}
