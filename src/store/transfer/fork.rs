//! The first and the last step of a fork within a file. The events between them are appended as any others.
//!
//! The fork names its source from the first step on, and counts as unfinished until the last one: a fork that was
//! interrupted is known as that.

use crate::error::{Error, Result};
use crate::ids::{ConversationId, EventId, Timestamp};
use crate::state::base::FieldChange;
use crate::store::Store;
use crate::store::table::arrival;
use crate::store::table::base_state::{self, BaseStateChange};
use crate::store::table::catalogue::{self, Entry};
use crate::store::write::append::{self, Leaf};

impl Store {
    /// Makes a conversation without events that is a fork of `from`. If only a branch will be copied, `at` is its last
    /// event.
    ///
    /// # Errors
    /// [`Error::ConversationExists`], and any write error.
    pub(crate) fn begin_fork(
        &self,
        fork: &ConversationId,
        from: &ConversationId,
        at: Option<&EventId>,
    ) -> Result<()> {
        self.write(|db| {
            if catalogue::find(db, fork)?.is_some() {
                return Err(Error::ConversationExists { conversation: fork.clone() });
            }
            let now = Timestamp::now();
            let entry = Entry::create(db, fork, now)?;
            catalogue::set_fork(db, entry.key, from.as_str(), at.map(EventId::as_str))?;
            arrival::begin(db, entry.key, from.as_str(), now)
        })
    }

    /// Gives a fork its base state and moves its HEAD. Then it is whole.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`] if it was deleted meanwhile, [`Error::Conflict`] if it does not have this number of
    /// events, and any write error.
    pub(crate) fn end_fork(
        &self,
        fork: &ConversationId,
        events: u64,
        leaf: Option<&Leaf>,
        fields: Vec<FieldChange>,
    ) -> Result<()> {
        self.write(|db| {
            let now = Timestamp::now();
            let entry = Entry::load(db, fork)?
                .ok_or_else(|| Error::UnknownConversation { conversation: fork.to_string() })?;
            if entry.event_count != events {
                let (conversation, expected) = (fork.clone(), crate::error::Expected::Exact(events));
                return Err(Error::Conflict { conversation, expected, actual: entry.event_count });
            }
            if let Some(leaf) = leaf {
                append::set_leaf(db, fork, &entry, leaf, now)?;
            }
            base_state::change(db, fork, &entry, &BaseStateChange { expected: None, fields }, now)?;
            arrival::end(db, entry.key)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::{Doctor, DoctorOptions, Trouble};
    use crate::error::Expected;
    use crate::event::NewEvent;
    use crate::store::Options;

    #[test]
    fn a_fork_that_was_interrupted_is_known_as_that_at_every_step() {
        let store = Store::in_memory(&Options::default()).unwrap();
        let [from, fork] = ["from", "fork"].map(|id| ConversationId::new(id).unwrap());
        let message = r#"{"id":"a","kind":"MessageEvent","source":"user","timestamp":"2026-01-01T00:00:00",
            "llm_message":{"role":"user","content":[{"type":"text","text":"Hello"}]}}"#;
        let events = [NewEvent::parse(message).unwrap()];
        store.append(&from, Expected::Empty, &events).unwrap();
        let at = EventId::new("a").unwrap();
        for step in 0..3 {
            store.begin_fork(&fork, &from, Some(&at)).unwrap();
            assert!(matches!(store.begin_fork(&fork, &from, None), Err(Error::ConversationExists { .. })));
            if step > 0 {
                store.append(&fork, Expected::Exact(0), &events).unwrap();
            }
            if step == 2 {
                let wrong = store.end_fork(&fork, 2, None, Vec::new());
                assert!(matches!(wrong, Err(Error::Conflict { actual: 1, .. })));
                store.end_fork(&fork, 1, Some(&Leaf::At(at.clone())), Vec::new()).unwrap();
            }
            let seen = store.audit().verify(None, &mut |_| ()).unwrap();
            assert_eq!(seen.findings, [], "{step}");
            let doctor = Doctor::new(&store, DoctorOptions::default().quiet_for_us(0));
            let found = doctor.examine(None, &mut |_| ()).unwrap().findings;
            let row = store.conversation(&fork).unwrap();
            assert_eq!(row.forked_from.as_deref(), Some("from"));
            if step == 2 {
                assert!(seen.notes.is_empty() && found.is_empty(), "{:?} {found:?}", seen.notes);
                continue;
            }
            let note = &seen.notes[0].what;
            assert!(
                note.starts_with("its fork of \"from\" began at ") && note.contains("`annals delete`"),
                "{note}"
            );
            let [unfinished] = &found[..] else { panic!("{found:?}") };
            assert_eq!((unfinished.trouble, &unfinished.remedy), (Trouble::UnfinishedImport, &None));
            assert!(unfinished.what.ends_with("the conversation can be forked again"), "{}", unfinished.what);
            assert_eq!(store.unfinished_source(&fork).unwrap(), None);
            store.retention().delete(&fork).unwrap();
        }
    }
}
