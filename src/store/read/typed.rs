//! Values of the host's: a stored event is read as one, and a new event is made of one.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::feed::FeedEvent;
use crate::event::{NewEvent, PayloadError, body};
use crate::store::Store;
use crate::store::table::log::StoredEvent;

impl Store {
    /// Makes an event of the host's own `kind` as [`NewEvent::of`] does, of the newest version that
    /// [`Options::own_kinds`](crate::Options::own_kinds) names for the kind. Nothing is stored.
    ///
    /// # Errors
    /// As [`OwnKinds::event`](crate::event::OwnKinds::event).
    pub fn new_event(&self, kind: &str, value: &impl Serialize) -> Result<NewEvent, PayloadError> {
        self.0.options.own_kinds.event(kind, value)
    }

    /// Returns the event as a value of type `T`. A payload of an older version is raised first by the upcasters in
    /// [`Options::own_kinds`](crate::Options::own_kinds). The file is neither read nor changed.
    ///
    /// # Errors
    /// As [`OwnKinds::body`](crate::event::OwnKinds::body).
    pub fn body<T: DeserializeOwned>(&self, event: &StoredEvent) -> Result<T, PayloadError> {
        self.0.options.own_kinds.body(&event.kind, &event.payload)
    }
}

impl StoredEvent {
    /// The event as a value of type `T`, which has the members of the payload that it names; see
    /// [`NewEvent::of`](crate::NewEvent::of) for the way in.
    ///
    /// The payload is read as it is stored. [`Store::body`] raises older versions first.
    ///
    /// # Errors
    /// [`PayloadError::Body`] if the payload does not have the shape of `T`. Look at [`kind`](Self::kind) first.
    pub fn body<T: DeserializeOwned>(&self) -> Result<T, PayloadError> {
        body(&self.payload)
    }
}

impl FeedEvent {
    /// The event as a value of type `T`, as [`StoredEvent::body`] gives it.
    ///
    /// # Errors
    /// [`PayloadError::Body`] if the payload does not have the shape of `T`.
    pub fn body<T: DeserializeOwned>(&self) -> Result<T, PayloadError> {
        self.event.body()
    }
}
