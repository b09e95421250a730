//! The two ids by which a host finds events that belong together, also over several conversations.
//!
//! They are members of the payload, so that they are stored, chained, exported and redacted with the event. The store
//! keeps an index of them.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::json::Object;

/// The correlation id and the causation id of an event. Each is a text that the host chooses.
///
/// A host gives them to an event as the members `correlation_id` and `causation_id` of its value, by hand or with this
/// struct:
///
/// ```
/// use annals::event::{Correlation, NewEvent};
///
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct Shipped {
///     order: u64,
///     #[serde(flatten)]
///     correlation: Correlation,
/// }
///
/// let correlation = Correlation::default().correlation_id("order-17".to_owned());
/// let event = NewEvent::of("shop.shipped", &Shipped { order: 17, correlation: correlation.clone() })?;
/// assert_eq!(Correlation::read(event.payload()), correlation);
/// # Ok::<(), annals::event::PayloadError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Correlation {
    /// What all events of one piece of work share, such as the id of a request or of an order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// What the event follows from: the id of an event, or of a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub causation_id: Option<String>,
}

setters!(Correlation { correlation_id?: String, causation_id?: String });

impl Correlation {
    /// Reads both ids from the payload of an event of any kind. An id that is empty, or not a text, is absent.
    #[must_use]
    pub fn read(payload: &str) -> Self {
        Self::of(&Object::of(payload))
    }

    /// Reads both ids from the members of a payload.
    pub(crate) fn of(payload: &Object<'_>) -> Self {
        let id = |name| payload.text(name).map(Cow::into_owned);
        Self { correlation_id: id("correlation_id"), causation_id: id("causation_id") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_texts_at_the_top_are_ids() {
        for (payload, correlation_id, causation_id) in [
            (r#"{"correlation_id":"a","causation_id":"b"}"#, Some("a"), Some("b")),
            (r#"{"causation_id":"caf\u00e9"}"#, None, Some("caf\u{e9}")),
            (r#"{"correlation_id":"a","correlation_id":"b"}"#, Some("b"), None),
            (r#"{"correlation_id":"","causation_id":null}"#, None, None),
            (r#"{"correlation_id":7,"causation_id":["b"]}"#, None, None),
            (r#"{"value":{"correlation_id":"a"}}"#, None, None),
            ("{}", None, None),
            ("[]", None, None),
        ] {
            let wanted = Correlation {
                correlation_id: correlation_id.map(str::to_owned),
                causation_id: causation_id.map(str::to_owned),
            };
            assert_eq!(Correlation::read(payload), wanted, "{payload}");
        }
    }
}
