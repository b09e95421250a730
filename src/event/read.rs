//! Reads stored payloads. Every JSON object with a valid id can be read.

use super::{DecodeError, Event, Given, upcast};

impl Event {
    /// Reads a stored payload of any version. Raises it to today's format and keeps unknown names.
    ///
    /// A payload of a known kind with a shape that no version had becomes [`Event::Unknown`], with the reason in its
    /// `fault`.
    ///
    /// # Errors
    /// [`DecodeError`] if the text is not a JSON object, if its id is invalid, or if it has no id and none is given.
    pub fn read(payload: &str, given: &Given<'_>) -> Result<Self, DecodeError> {
        upcast::read(payload, given).map(|raised| raised.event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_kind_of_another_shape_becomes_unknown() {
        let payload = r#"{"id":"a","kind":"ActionEvent","tool_name":7}"#;
        let event = Event::read(payload, &Given::default()).unwrap();
        let Event::Unknown(unknown) = &event else { panic!("{event:?}") };
        assert_eq!(&*unknown.kind, "ActionEvent");
        assert!(unknown.fault.is_some());
        assert_eq!(event.dump(), payload);
        assert!(Event::read("[]", &Given::default()).is_err());
    }
}
