//! Events as the interface shows them: what every client of SDK 1.58 can parse.
//!
//! What a client cannot parse makes it refuse a whole page (`api.md` section 14, 6), so an event of another age or
//! origin is shown as the nearest that it can. The log keeps what was written, and `/api/annals/` shows that.

use std::borrow::Cow;

use crate::event::upcast::loadable;
use crate::event::{DecodeError, Event, Given};
use crate::ids::Sequence;
use crate::store::StoredEvent;

/// Whether members that are null are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Nulls {
    /// Left out: in pages and on sockets.
    Omitted,
    /// Written: where one event is asked for.
    Written,
}

/// Whether a conversation was written by today's server, whose events need no second look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Provenance {
    /// Appended here.
    Own,
    /// Brought in from somewhere.
    Imported,
}

/// The event as JSON text.
///
/// # Errors
/// [`DecodeError`] where the stored payload is no event at all; such a one is passed over.
pub(super) fn shown(
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

/// The place of an event, and its JSON text: the one that was stored where it needs no second look.
///
/// # Errors
/// As [`shown`].
pub(super) fn into_shown(
    event: StoredEvent,
    provenance: Provenance,
    nulls: Nulls,
) -> Result<(Sequence, String), DecodeError> {
    let other = match shown(&event, provenance, nulls)? {
        Cow::Borrowed(_) => None,
        Cow::Owned(text) => Some(text),
    };
    Ok((event.sequence, other.unwrap_or(event.payload)))
}
