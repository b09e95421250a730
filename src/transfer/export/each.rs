//! Exports many conversations. One that cannot be written does not stop the others, and damage that does not concern a
//! conversation does not keep it from being written.

use std::collections::{HashMap, VecDeque};
use std::path::Path;

use super::{ExportReport, Exporter, Format};
use crate::error::{Error, Result};
use crate::ids::ConversationId;
use crate::partial::Leftovers;
use crate::store::{ConversationFilter, Order, Store, Stray};

/// The conversations of sub-agents, by the conversation that they belong to.
type Families = HashMap<ConversationId, Vec<ConversationId>>;

/// The conversations to export.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Selection {
    /// The conversations, without those that are written within the folder of another.
    pub conversations: Vec<ConversationId>,
    /// What could not be listed because it is damaged, in words.
    pub damage: Vec<String>,
    /// `None` if only some conversations of the file are selected.
    families: Option<Families>,
}

impl Selection {
    /// Selects some conversations of a file.
    #[must_use]
    pub fn of(conversations: Vec<ConversationId>) -> Self {
        Self { conversations, damage: Vec::new(), families: None }
    }

    /// Returns the conversations of all sub-agents below a conversation.
    fn below(&self, id: &ConversationId) -> Vec<&ConversationId> {
        let mut below: Vec<&ConversationId> = Vec::new();
        let mut parents = vec![id];
        while let Some(parent) = parents.pop() {
            let children = self.families.as_ref().and_then(|families| families.get(parent));
            for child in children.into_iter().flatten() {
                if !below.contains(&child) {
                    below.push(child);
                    parents.push(child);
                }
            }
        }
        below
    }
}

/// The progress of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExportProgress {
    /// The number of conversations that are done.
    pub conversations: u64,
    /// The number of events of the present conversation that are done.
    pub events: u64,
}

/// The result of an export of many conversations.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct ExportOutcome {
    /// The conversations that were written.
    pub reports: Vec<ExportReport>,
    /// The conversations that were not written, with the reasons.
    pub failed: Vec<(ConversationId, Error)>,
    /// What could not be listed, and what could not be written in its place, in words. Empty if nothing is damaged.
    pub damage: Vec<String>,
}

impl Exporter<'_> {
    /// Selects every conversation that can be found, whatever is damaged: the oldest first.
    ///
    /// The conversations of sub-agents are left out if the format writes them within the folder of their parent.
    ///
    /// # Errors
    /// Any read error, except damage.
    pub fn select_all(&self) -> Result<Selection> {
        let listing = self.store.every_conversation()?;
        let mut damage = listing.damage;
        damage.extend(listing.nameless);
        match self.store.strays(None) {
            Err(error) if Store::is_damage(&error) => {}
            strays => damage.extend(strays?.iter().map(Stray::describe)),
        }
        let mut conversations = listing.conversations;
        let ranks = self.ranks()?;
        conversations.sort_by_key(|(key, id)| (ranks.get(id).copied().unwrap_or(usize::MAX), *key));
        let names: HashMap<i64, &ConversationId> = conversations.iter().map(|(key, id)| (*key, id)).collect();
        let mut parents = HashMap::new();
        let mut families = Families::new();
        for (key, id) in &conversations {
            let parent = match self.store.parent_key(*key) {
                // It is then written on its own, as far as it can be read.
                Err(error) if Store::is_damage(&error) => None,
                parent => parent?,
            };
            if let Some((parent, name)) = parent.and_then(|parent| names.get_key_value(&parent)) {
                parents.insert(*key, *parent);
                families.entry((*name).clone()).or_default().push(id.clone());
            }
        }
        let nests = self.format != Format::Jsonl;
        let selected = conversations.iter().filter(|(key, _)| !(nests && is_nested(&parents, *key)));
        let conversations = selected.map(|(_, id)| id.clone()).collect();
        Ok(Selection { conversations, damage, families: nests.then_some(families) })
    }

    /// Returns the conversations that are written within the folder of another.
    fn below<'s>(&self, selection: &'s Selection, id: &ConversationId) -> Vec<&'s ConversationId> {
        if self.is_apart { Vec::new() } else { selection.below(id) }
    }

    /// Returns what the log names of a conversation and the file does not have, in words.
    fn lacking(&self, id: &ConversationId) -> Result<Vec<String>> {
        let lacking = self.store.lacking(id).and_then(|mut gone| {
            gone.extend(self.store.lacking_events(id)?);
            Ok(gone)
        });
        match lacking {
            // Damage there does not concern what was written: `verify` names it.
            Err(error) if Store::is_damage(&error) => Ok(Vec::new()),
            Err(Error::UnknownConversation { .. }) => Ok(Vec::new()), // it was deleted meanwhile
            lacking => lacking,
        }
    }

    /// Returns the place of each conversation in the catalogue's order of creation, up to the first damage.
    fn ranks(&self) -> Result<HashMap<ConversationId, usize>> {
        let mut ranks = HashMap::new();
        for conversation in self.store.iter(&ConversationFilter::default(), Order::Created) {
            let conversation = match conversation {
                Err(Error::UnknownConversation { .. }) => return Ok(ranks), // it was deleted meanwhile
                Err(error) if Store::is_damage(&error) => return Ok(ranks),
                conversation => conversation?,
            };
            let rank = ranks.len();
            ranks.insert(conversation.id, rank);
        }
        Ok(ranks)
    }

    /// Exports each selected conversation into the folder `to`, as [`Exporter::export`] does.
    ///
    /// A conversation that cannot be written is reported, and the others are written. If all conversations are selected
    /// and damage keeps one from being written with those of its sub-agents, each of them is written on its own.
    ///
    /// # Errors
    /// Any error that is not of a single conversation, such as [`Error::Io`] or [`Error::Busy`].
    pub fn export_each(
        &self,
        selection: &Selection,
        to: &Path,
        progress: &mut dyn FnMut(ExportProgress),
    ) -> Result<ExportOutcome> {
        let mut outcome = ExportOutcome { damage: selection.damage.clone(), ..ExportOutcome::default() };
        // Parents that form a circle have no folder that can hold the others.
        let mut waiting: VecDeque<(&ConversationId, bool)> =
            selection.conversations.iter().map(|id| (id, selection.below(id).contains(&id))).collect();
        let mut conversations = 0;
        let leftovers = Leftovers::of(to);
        while let Some((id, is_apart)) = waiting.pop_front() {
            let exporter = Exporter { store: self.store, format: self.format, is_apart };
            let exported = exporter.export_beside(&leftovers, id, to, &mut |events| {
                progress(ExportProgress { conversations, events });
            });
            match exported {
                Ok(report) => {
                    for id in std::iter::once(id).chain(exporter.below(selection, id)) {
                        let gone = self.lacking(id)?;
                        outcome.damage.extend(gone.into_iter().map(|gone| format!("{id}: {gone}")));
                    }
                    outcome.reports.push(report);
                }
                Err(error) if !is_apart && selection.families.is_some() && Store::is_damage(&error) => {
                    let family = selection.below(id);
                    if !family.is_empty() {
                        outcome.damage.push(format!(
                            "{id} and the conversations of its sub-agents are written on their own: {error}"
                        ));
                    }
                    family.into_iter().rev().for_each(|child| waiting.push_front((child, true)));
                    waiting.push_front((id, true));
                    continue;
                }
                Err(error) if concerns_one(&error) => outcome.failed.push((id.clone(), error)),
                Err(error) => return Err(error),
            }
            conversations += 1;
            progress(ExportProgress { conversations, events: 0 });
        }
        Ok(outcome)
    }
}

/// Returns whether other conversations may be written although one could not be for this reason.
fn concerns_one(error: &Error) -> bool {
    matches!(
        error,
        Error::WouldOverwrite { .. }
            | Error::UnknownConversation { .. }
            | Error::Undecodable { .. }
            | Error::Storage { .. }
    ) || Store::is_damage(error)
}

/// Returns whether a conversation is of a sub-agent, so that it is written within the folder of another.
fn is_nested(parents: &HashMap<i64, i64>, key: i64) -> bool {
    let mut at = key;
    for _ in 0..=parents.len() {
        match parents.get(&at) {
            Some(parent) => at = *parent,
            None => return at != key,
        }
    }
    false // the parents form a circle
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_that_form_a_circle_hold_no_conversation() {
        let parents = HashMap::from([(2, 1), (3, 2), (4, 5), (5, 4), (6, 4), (7, 7)]);
        let nested: Vec<i64> = (1..=8).filter(|key| is_nested(&parents, *key)).collect();
        assert_eq!(nested, [2, 3]);
    }

    #[test]
    fn a_selection_knows_all_conversations_below_one() {
        let [a, b, c] = ["a", "b", "c"].map(|id| ConversationId::new(id).unwrap());
        let below = |families: Families| {
            let selection = Selection { families: Some(families), ..Selection::of(vec![a.clone()]) };
            selection.below(&a).into_iter().cloned().collect::<Vec<_>>()
        };
        let line = Families::from([(a.clone(), vec![b.clone()]), (b.clone(), vec![c.clone()])]);
        assert_eq!(below(line), [b.clone(), c.clone()]);
        let circle = Families::from([(a.clone(), vec![b.clone()]), (b.clone(), vec![a.clone()])]);
        assert_eq!(below(circle), [b.clone(), a.clone()]);
        assert_eq!(Selection::of(vec![a.clone()]).below(&a), Vec::<&ConversationId>::new());
    }
}
