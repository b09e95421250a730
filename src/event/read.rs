//! Reading what was stored, whatever it is: nothing that is JSON is refused.

use super::{DecodeError, Event, Given, upcast};

impl Event {
    /// Reads a stored payload of any age: raised to today's format, what is unfamiliar kept. What has a known
    /// kind and a shape that no version had is [`Event::Unknown`], with the reason in its `fault`.
    ///
    /// # Errors
    /// [`DecodeError`] where the text is no JSON object, or has no id and none is given.
    pub fn read(payload: &str, given: &Given<'_>) -> Result<Self, DecodeError> {
        upcast::read(payload, given).map(|raised| raised.event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_kind_of_another_shape_hides_nothing_but_itself() {
        let payload = r#"{"id":"a","kind":"ActionEvent","tool_name":7}"#;
        let event = Event::read(payload, &Given::default()).unwrap();
        let Event::Unknown(unknown) = &event else { panic!("{event:?}") };
        assert_eq!(&*unknown.kind, "ActionEvent");
        assert!(unknown.fault.is_some());
        assert_eq!(event.dump(), payload);
        assert!(Event::read("[]", &Given::default()).is_err());
    }
}
