//! Reading a stored event as a value of the host's.

use serde::de::DeserializeOwned;

use super::feed::FeedEvent;
use crate::event::{PayloadError, body};
use crate::store::table::log::StoredEvent;

impl StoredEvent {
    /// The event as a value of type `T`, which has the members of the payload that it names; see
    /// [`NewEvent::of`](crate::NewEvent::of) for the way in.
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
