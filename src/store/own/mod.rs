//! Projections of a host's own: what a host gives, and what their statements may do.
//!
//! A host implements [`OwnProjection`] and gives it to [`Options`](crate::Options). The store makes its tables, applies
//! each event in the transaction of its append, and makes the tables again if they lag or differ
//! (`derived/projection/hosted/`). This room knows names, tables and statements of such a projection (`shape.rs`,
//! `guard.rs`, `rows.rs`), but no table of Annals.

pub(super) mod guard;
mod rows;
mod shape;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use crate::error::Source;
use crate::event::{PayloadError, body};
use crate::ids::{Position, Sequence};

pub use rows::{OWN_ROWS_MAX, OwnRows};
pub use shape::OWN_STATEMENTS_MAX;
pub(in crate::store) use shape::{Made, PREFIX, Shape};

/// Why a projection of a host's own does not accept an event. Any error becomes one with `?` or `into`.
pub type OwnFailure = Source;

/// The events that a row of a projection comes from. It decides what is removed with a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OwnScope {
    /// Each row comes from the events of one conversation, and its column `conversation` has the id of that one.
    ///
    /// Deleting a conversation removes its rows. Redacting it removes them too, and its events are applied again.
    /// [`OwnProjection::apply`] reads and writes only rows of the event's conversation.
    #[default]
    Conversation,
    /// A row may come from any events. Deleting or redacting any conversation empties all tables of the projection, and
    /// the whole log is applied again.
    Log,
}

impl OwnScope {
    /// Returns its name in the file.
    pub(in crate::store) fn as_str(self) -> &'static str {
        match self {
            Self::Conversation => "conversation",
            Self::Log => "log",
        }
    }
}

/// An event as a projection of a host's own sees it.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct OwnEvent<'a> {
    /// The id of its conversation.
    pub conversation: &'a str,
    /// Its place in its conversation.
    pub sequence: Sequence,
    /// Its place in the whole log.
    pub position: Position,
    /// Its id, unique within its conversation.
    pub id: &'a str,
    /// Its kind; "" if the payload has none.
    pub kind: &'a str,
    /// The event, byte for byte as it is stored. If it is redacted, without the removed parts.
    pub payload: &'a str,
}

impl OwnEvent<'_> {
    /// The event as a value of type `T`, as [`StoredEvent::body`](crate::store::StoredEvent::body) gives it.
    ///
    /// For a kind with several versions, keep the [`OwnKinds`](crate::event::OwnKinds) in the projection and call
    /// [`OwnKinds::body`](crate::event::OwnKinds::body).
    ///
    /// # Errors
    /// [`PayloadError::Body`] if the payload does not have the shape of `T`. Look at [`kind`](Self::kind) first.
    pub fn body<T: DeserializeOwned>(&self) -> Result<T, PayloadError> {
        body(self.payload)
    }
}

/// A projection of a host's own: a fold from events to rows, which is kept up to date in the transaction of each append.
///
/// ```
/// use annals::store::{OwnEvent, OwnFailure, OwnProjection, OwnProjections, OwnRows, SqlValue};
/// use annals::{ConversationId, Expected, NewEvent, Options, Store};
///
/// struct Parcels;
///
/// impl OwnProjection for Parcels {
///     fn name(&self) -> &str {
///         "shop.parcels"
///     }
///
///     fn version(&self) -> u32 {
///         1
///     }
///
///     fn statements(&self) -> &[&str] {
///         &["CREATE TABLE own_shop_parcels (conversation TEXT NOT NULL, carrier TEXT NOT NULL, parcels INTEGER NOT NULL,
///                PRIMARY KEY (conversation, carrier)) STRICT"]
///     }
///
///     fn apply(&self, rows: &OwnRows<'_>, event: &OwnEvent<'_>) -> Result<(), OwnFailure> {
///         if event.kind != "shop.shipped" {
///             return Ok(());
///         }
///         let shipped: serde_json::Value = event.body()?;
///         let carrier = shipped["carrier"].as_str().ok_or("a parcel has no carrier")?;
///         rows.execute(
///             "INSERT INTO own_shop_parcels VALUES (?1, ?2, 1) ON CONFLICT DO UPDATE SET parcels = parcels + 1",
///             &[event.conversation.into(), carrier.into()],
///         )?;
///         Ok(())
///     }
/// }
///
/// let options = Options::default().own_projections(OwnProjections::default().with(Parcels));
/// let store = Store::in_memory(&options)?;
/// let shipped = NewEvent::of("shop.shipped", &serde_json::json!({"carrier": "DHL"}))?;
/// store.append(&ConversationId::new("order-17")?, Expected::Any, &[shipped])?;
/// let parcels = store.query_own("shop.parcels", "SELECT carrier, parcels FROM own_shop_parcels", &[])?;
/// assert_eq!(parcels, [[SqlValue::from("DHL"), SqlValue::Integer(1)]]);
/// # Ok::<(), annals::Error>(())
/// ```
pub trait OwnProjection: Send + Sync {
    /// Returns its name: two words with a dot between them, such as `shop.parcels`. The first one is the host's. Each
    /// begins with a letter and has lower-case letters and digits. At most 64 bytes together.
    fn name(&self) -> &str;

    /// Returns its version. Raise it if the same log would give other rows: tables of another version are made again.
    fn version(&self) -> u32;

    /// Returns the events that its rows come from. Default [`OwnScope::Conversation`].
    fn scope(&self) -> OwnScope {
        OwnScope::Conversation
    }

    /// Returns the statements that make its tables and their indexes, at most [`OWN_STATEMENTS_MAX`]: one `CREATE TABLE` or
    /// `CREATE INDEX` each.
    ///
    /// The tables and indexes of `shop.parcels` are called `own_shop_parcels`, or begin with `own_shop_parcels_`. They
    /// refer to no other table. The same version always returns the same statements; if they differ from those that made
    /// the tables, the tables are made again.
    fn statements(&self) -> &[&str];

    /// Applies one event. Called for every event, in the order of the log, in the transaction that appends it.
    ///
    /// An error refuses the append that the event belongs to, with
    /// [`OwnProjectionError::Refused`](crate::error::OwnProjectionError::Refused): nothing of the append is stored. A panic counts
    /// as an error.
    ///
    /// It depends only on the events and the rows, not on a clock, on chance, or on what it was called with before. It may
    /// be called several times for one event: after a transaction that was not committed, and whenever the tables are
    /// made again. It must not append or otherwise write to the store, which would fail with
    /// [`Error::WithinCall`](crate::Error::WithinCall), and should be quick: other appends wait.
    ///
    /// # Errors
    /// Any error of the host's own, or an error of [`OwnRows`].
    fn apply(&self, rows: &OwnRows<'_>, event: &OwnEvent<'_>) -> Result<(), OwnFailure>;
}

/// The projections of the host's own, for [`Options::own_projections`](crate::Options::own_projections). Cloning is cheap.
#[derive(Clone, Default)]
pub struct OwnProjections(Arc<BTreeMap<String, Arc<dyn OwnProjection>>>);

impl OwnProjections {
    /// Adds a projection. It replaces a projection of the same name.
    #[must_use]
    pub fn with(mut self, projection: impl OwnProjection + 'static) -> Self {
        let projection: Arc<dyn OwnProjection> = Arc::new(projection);
        Arc::make_mut(&mut self.0).insert(projection.name().to_owned(), projection);
        self
    }

    /// Returns whether it has no projection.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns each projection, in the order of the names.
    pub(in crate::store) fn each(&self) -> impl Iterator<Item = &Arc<dyn OwnProjection>> {
        self.0.values()
    }
}

/// Equal are only clones: a projection is code, and two values of it cannot be compared.
impl PartialEq for OwnProjections {
    fn eq(&self, other: &Self) -> bool {
        self.0.len() == other.0.len()
            && self.each().zip(other.each()).all(|(ours, theirs)| Arc::ptr_eq(ours, theirs))
    }
}

impl Eq for OwnProjections {}

impl fmt::Debug for OwnProjections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let versions = self.each().map(|projection| (projection.name(), projection.version()));
        f.debug_map().entries(versions).finish()
    }
}
