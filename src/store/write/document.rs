//! A whole base state as one change: for programs that keep it as a document, such as the SDK's `base_state.json`.

use super::append::{Append, Leaf};
use crate::error::{Error, Expected, Result};
use crate::ids::{ConversationId, EventId, Version};
use crate::json::Object;
use crate::state::base::{BaseDocument, FieldChange};
use crate::store::Store;
use crate::store::table::base_state::{BaseStateChange, HEAD_FIELDS, changed_fields};

impl Store {
    /// Stores a whole base state. Each field that differs from the stored one is changed, all as one version, and HEAD
    /// moves to where the document has it. Returns the version of the base state.
    ///
    /// Nothing is written if the document says what the store already has. A conversation that does not exist is
    /// created. A document with neither a `leaf_event_id` nor `"head_is_empty": true` leaves HEAD where it is.
    ///
    /// ```
    /// use annals::state::BaseDocument;
    /// use annals::{ConversationId, Options, Store, Version};
    ///
    /// let store = Store::in_memory(&Options::default())?;
    /// let talk = ConversationId::new("talk")?;
    /// let document = BaseDocument::parse(r#"{"execution_status": "idle", "max_iterations": 500}"#)?;
    /// assert_eq!(store.put_base_state(&talk, &document)?, Version(1));
    /// assert_eq!(store.put_base_state(&talk, &document)?, Version(1));
    /// # Ok::<(), annals::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::UnknownEvent`] if HEAD is at an event that is not in the log, and any write error.
    pub fn put_base_state(&self, conversation: &ConversationId, document: &BaseDocument) -> Result<Version> {
        loop {
            match self.try_put(conversation, document) {
                // Another writer changed the base state in the meantime.
                Err(Error::VersionConflict { .. }) => {}
                other => return other,
            }
        }
    }

    fn try_put(&self, conversation: &ConversationId, document: &BaseDocument) -> Result<Version> {
        let row = self.find(conversation)?;
        let stored = if row.is_some() { self.base_state(conversation)? } else { None };
        let before = stored.as_ref().map_or("{}", |stored| stored.document.as_str());
        let (old, new) = (Object::of(before), Object::of(document.as_str()));
        let fields: Vec<FieldChange> = changed_fields(&old, &new)
            .into_iter()
            .filter(|(field, _)| !HEAD_FIELDS.contains(field))
            .map(|(field, value)| match value {
                Some(value) => FieldChange::set(field, value.text()),
                None => Ok(FieldChange::remove(field)),
            })
            .collect::<std::result::Result<_, _>>()?;
        let (at, is_empty) = row.map_or((None, false), |row| (row.leaf_event_id, row.head_is_empty));
        let leaf = moved_leaf(at.as_deref(), is_empty, document)?;
        // A conversation without a base state gets an empty one, of version 0.
        let version = stored.as_ref().map_or(Version(0), |stored| stored.version);
        if stored.is_some() && fields.is_empty() && leaf.is_none() {
            return Ok(version);
        }
        let next = Version(version.0 + u64::from(!fields.is_empty()));
        let base_state = Some(BaseStateChange { expected: Some(version), fields });
        let append = Append { expected: Expected::Any, events: Vec::new(), base_state, leaf };
        self.append_all(conversation, append)?;
        Ok(next)
    }
}

/// Returns where the document has HEAD, if that is not where the catalogue has it: at the event `at`, or before all events.
fn moved_leaf(at: Option<&str>, is_empty: bool, document: &BaseDocument) -> Result<Option<Leaf>> {
    let (leaf, before_all) = document.leaf();
    Ok(match leaf {
        Some(leaf) if at == Some(&*leaf) => None,
        Some(leaf) => Some(Leaf::At(EventId::new(leaf)?)),
        None if before_all && !is_empty => Some(Leaf::Empty),
        None => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::NewEvent;
    use crate::store::Options;

    fn document(text: &str) -> BaseDocument {
        BaseDocument::parse(text).unwrap()
    }

    #[test]
    fn only_what_differs_is_a_change() {
        let store = Store::in_memory(&Options::default()).unwrap();
        let talk = ConversationId::new("talk").unwrap();
        let put = |text: &str| store.put_base_state(&talk, &document(text)).unwrap();
        let stored = || store.base_state(&talk).unwrap().unwrap().document.into_string();
        assert_eq!(put(r#"{"id":"talk","agent":{"kind":"Agent"},"head_is_empty":false}"#), Version(1));
        let event = NewEvent::parse(r#"{"id":"a","kind":"MessageEvent","source":"user"}"#).unwrap();
        store.append(&talk, Expected::Exact(0), &[event]).unwrap();
        // The append has moved HEAD. A document that says so changes nothing.
        let text = r#"{"id":"talk","agent":{"kind":"Agent"},"leaf_event_id":"a","head_is_empty":false}"#;
        let mark = store.mark(&talk).unwrap();
        assert_eq!((put(text), store.mark(&talk).unwrap()), (Version(1), mark));
        assert_eq!(
            put(r#"{"id":"talk","agent":{"kind":"Other"},"leaf_event_id":"a","tags":{"a":"b"}}"#),
            Version(2)
        );
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&stored()).unwrap(),
            serde_json::json!({"id":"talk","agent":{"kind":"Other"},"leaf_event_id":"a","tags":{"a":"b"},
                "head_is_empty":false})
        );
        assert_eq!(store.conversation(&talk).unwrap().tags, r#"{"a":"b"}"#);
        // HEAD alone is no version of the base state.
        assert_eq!(
            put(r#"{"id":"talk","agent":{"kind":"Other"},"head_is_empty":true,"tags":{"a":"b"}}"#),
            Version(2)
        );
        assert!(store.conversation(&talk).unwrap().head_is_empty);
        let lost = store.put_base_state(&talk, &document(r#"{"leaf_event_id":"b"}"#)).unwrap_err();
        assert!(matches!(lost, Error::UnknownEvent { .. }), "{lost:?}");
        assert_eq!(store.audit().verify(None, &mut |_| ()).unwrap().findings, []);
    }
}
