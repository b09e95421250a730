//! What happened: one event is one JSON text, kept exactly as it came.
//!
//! This room reads events and never changes them. It does not know where they are kept. Its
//! invariant: whatever it says of an event was read from that event's own payload.

pub mod envelope;
pub mod json;
pub mod kind;
pub mod new_event;
pub mod terms;
pub mod transcript;

pub use envelope::{Envelope, PayloadError};
pub use new_event::{NewEvent, PAYLOAD_BYTES_MAX};
