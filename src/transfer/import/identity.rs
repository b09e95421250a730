//! Chooses the id of a conversation that is imported.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::incoming::{Incoming, Names, Others};
use crate::error::Result;
use crate::ids::ConversationId;
use crate::store::{Problem, Store};
use crate::transfer::report::ImportOptions;

/// Returns the id that the caller gave, or the id under which this source was imported before, or the conversation's
/// own id. If another conversation has that id, returns the first of its other ids that is free.
///
/// An interrupted import is found again, so that it goes on in the same conversation.
pub(super) fn choose(
    store: &Store,
    options: &ImportOptions,
    planned: &Planned,
    incoming: &dyn Incoming,
    problems: &mut Vec<Problem>,
) -> Result<ConversationId> {
    if let Some(id) = &options.id {
        return Ok(id.clone());
    }
    let Names { folder, own, others, declared_in } = incoming.names()?;
    let mut known = Vec::new();
    for id in store.conversations_of_folder(&folder)? {
        if incoming.is_of(store, &id)? {
            known.push(id);
        }
    }
    let preferred = [&own, &others.first].into_iter().flatten().find(|id| known.contains(id)).cloned();
    if let Some(id) = preferred.or_else(|| known.into_iter().next()) {
        return Ok(id);
    }
    let Some(own) = own else { return Ok(ConversationId::mint()) };
    if store.contains(&own)? {
        if incoming.claims(store, &own)? {
            return Ok(own);
        }
    } else if !planned.is_of_another(&own) {
        return Ok(own);
    }
    let other = first_free(store, planned, incoming, others)?;
    if let Some(path) = declared_in {
        problems.push(Problem {
            path: path.into(),
            problem: format!("another folder was imported as {own}"),
            action: format!("kept as {other}"),
        });
    }
    Ok(other)
}

/// Returns the first id that no other conversation has.
fn first_free(
    store: &Store,
    planned: &Planned,
    incoming: &dyn Incoming,
    others: Others,
) -> Result<ConversationId> {
    let Others { mut first, stem } = others;
    let mut number = 2;
    loop {
        let id = match first.take() {
            Some(first) => first,
            None => {
                let id = ConversationId::new(&format!("{stem}~{number}"))?;
                number += 1;
                id
            }
        };
        if store.contains(&id)? {
            if incoming.is_of(store, &id)? {
                return Ok(id);
            }
        } else if !planned.is_of_another(&id) {
            return Ok(id);
        }
    }
}

/// The conversations that an import which writes nothing would have made so far, with their places.
#[derive(Debug, Default)]
pub(super) struct Planned {
    places: HashMap<ConversationId, PathBuf>,
    /// The place of the conversation that is imported now.
    place: PathBuf,
}

impl Planned {
    /// Begins with the next conversation.
    pub(super) fn begin(&mut self, place: &Path) {
        place.clone_into(&mut self.place);
    }

    /// Adds the present conversation.
    pub(super) fn add(&mut self, id: &ConversationId) {
        self.places.entry(id.clone()).or_insert_with(|| self.place.clone());
    }

    fn is_of_another(&self, id: &ConversationId) -> bool {
        self.places.get(id).is_some_and(|place| *place != self.place)
    }
}
