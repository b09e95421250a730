//! Examines the file as a whole: its structure, unfinished imports, and whether derived tables match the log.

use std::path::Path;

use super::{Comparison, Doctor, Examination, Finding, Remedy, Trouble};
use crate::error::{Error, Result};
use crate::ids::ConversationId;
use crate::store::{ConversationFilter, NEVER_FILLED, Order, Store};

/// The way out if only derived data is damaged. SQLite cannot remove a table with damaged pages.
const ONLY_DERIVED: &str = "all damaged pages that were found belong to tables that are derived from the log: \
     `annals merge FILE --into NEW` copies every conversation into a new file, where they are made again";

const NOT_REPAIRED: &str =
    "nothing is repaired in this file, because a write to a file with damaged pages may destroy more";

impl Doctor<'_> {
    /// Examines what concerns no single conversation. Returns whether the file may be repaired: not if pages are damaged.
    pub(super) fn examine_file(&self, seen: &mut Examination) -> Result<bool> {
        let may_repair = !self.looks_for(Trouble::Structure) || self.examine_structure(seen)?;
        if self.looks_for(Trouble::Structure) {
            let filled = self.store.maintenance().was_never_filled();
            if seen.bear(None, "the row of the file", filled)? == Some(true) {
                let finding = Finding::new(Trouble::Structure, None, NEVER_FILLED.to_owned(), None);
                seen.findings.push(Finding { is_note: true, ..finding });
            }
        }
        if self.looks_for(Trouble::Structure) {
            for damaged in self.store.maintenance().damaged_logs() {
                let finding = Finding::new(Trouble::Structure, None, damaged.describe(), None);
                seen.findings.push(Finding { is_note: true, ..finding });
            }
        }
        if self.looks_for(Trouble::Guards) {
            let changed = self.store.maintenance().changed_guards();
            let changed = seen.bear(None, "the guards of the log", changed)?.unwrap_or_default();
            if !changed.is_empty() {
                let what = changed.join("; ");
                seen.findings.push(Finding::new(Trouble::Guards, None, what, Some(Remedy::Reguard)));
            }
        }
        if self.looks_for(Trouble::StrangeTrigger) {
            let triggers = self.store.maintenance().strange_triggers();
            for (name, table) in seen.bear(None, "the schema", triggers)?.unwrap_or_default() {
                let what = format!("the trigger {name} on {table} is not of Annals' making");
                seen.findings.push(Finding::new(Trouble::StrangeTrigger, None, what, None));
            }
        }
        if self.looks_for(Trouble::Lost) {
            self.examine_strays(None, seen)?;
        }
        let unfinished = self.store.maintenance().unfinished();
        for unfinished in seen.bear(None, "the list of unfinished imports", unfinished)?.unwrap_or_default() {
            let is_busy = self.may_run(unfinished.began_at);
            let is_there = !unfinished.is_fork && Path::new(&unfinished.source).exists();
            let what = format!(
                "{}{}",
                unfinished.describe(),
                match (is_busy, unfinished.is_fork, is_there) {
                    (true, _, _) => "; it may still be running",
                    (false, true, _) => unfinished.way_out(),
                    (false, false, true) => "",
                    (false, false, false) => "; the source no longer exists",
                }
            );
            let remedy = Remedy::ImportAgain { from: unfinished.source };
            let remedy = Some(remedy).filter(|_| !is_busy && is_there);
            let conversation = Some(unfinished.conversation);
            seen.findings.push(Finding::new(Trouble::UnfinishedImport, conversation, what, remedy));
        }
        Ok(may_repair)
    }

    /// Adds the events that belong to no conversation of the catalogue: of all conversations, or of this one.
    pub(super) fn examine_strays(
        &self,
        conversation: Option<&ConversationId>,
        seen: &mut Examination,
    ) -> Result<()> {
        let strays = self.store.strays(conversation.map(ConversationId::as_str));
        for stray in seen.bear(None, "the list of events", strays)?.unwrap_or_default() {
            if conversation.is_none_or(|id| stray.id.as_ref() == Some(id)) {
                let remedy = stray.id.as_ref().map(|_| Remedy::BringBack);
                let what = stray.describe();
                seen.findings.push(Finding::new(Trouble::Lost, stray.id, what, remedy));
            }
        }
        Ok(())
    }

    /// Makes the engine check pages, indexes and references. If only derived data is damaged, the last finding says how
    /// to get a file without the damage. Returns whether the file may be repaired.
    fn examine_structure(&self, seen: &mut Examination) -> Result<bool> {
        let structure = self.store.examine_structure();
        let Some(structure) = seen.bear(None, "the structure of the file", structure)? else {
            return Ok(false);
        };
        let mut remedy = None;
        if !structure.wrong.is_empty() {
            let only_indexes = self.store.only_indexes_are_wrong();
            if seen.bear(None, "the structure of the file", only_indexes)? == Some(true) {
                remedy = Some(Remedy::Reindex);
            }
        }
        // Only the first finding gets the remedy, because it repairs all of them.
        seen.findings.extend(
            structure
                .wrong
                .into_iter()
                .map(|what| Finding::new(Trouble::Structure, None, what, remedy.take())),
        );
        if structure.has_damaged_pages {
            seen.add_damage(None, NOT_REPAIRED.into());
        }
        if structure.only_derived {
            seen.add_damage(None, ONLY_DERIVED.into());
        }
        Ok(!structure.has_damaged_pages)
    }

    /// Compares derived tables with the log, conversation by conversation: those of `all`, or a sample of them. Adds one
    /// finding per projection.
    pub(super) fn compare_projections(
        &self,
        conversation: Option<&ConversationId>,
        all: &[ConversationId],
        seen: &mut Examination,
    ) -> Result<()> {
        if !self.looks_for(Trouble::DriftedProjection) {
            return Ok(());
        }
        match self.store.catch_up() {
            Ok(()) => {}
            Err(error @ Error::Busy { .. }) => return Err(error),
            Err(error) => {
                let what = format!("derived tables cannot follow the log: {error}");
                // A rebuild does not help if pages are damaged.
                let is_damaged = matches!(error, Error::Corrupt { .. });
                let trouble = if is_damaged { Trouble::Structure } else { Trouble::DriftedProjection };
                seen.findings.push(Finding::new(trouble, None, what, None));
                return Ok(());
            }
        }
        let comparer = self.store.comparer();
        let Some(comparer) = seen.bear(None, "the derived tables", comparer)? else { return Ok(()) };
        let mut drifts: Vec<(&'static str, ConversationId, u64, u64, u64)> = Vec::new();
        let mut damaged: Option<(Error, u64)> = None;
        let mut compare = |id: &ConversationId| -> Result<()> {
            let found = match comparer.compare(id) {
                // It was deleted meanwhile.
                Err(Error::UnknownConversation { .. }) if conversation.is_none() => return Ok(()),
                Err(error) if Store::is_damage(&error) => {
                    damaged.get_or_insert((error, 0)).1 += 1;
                    return Ok(());
                }
                found => found?,
            };
            seen.compared += 1;
            for drift in found {
                let known = drifts.iter_mut().find(|(name, ..)| *name == drift.projection);
                match known {
                    Some((_, _, count, too_many, missing)) => {
                        *count += 1;
                        *too_many += drift.too_many;
                        *missing += drift.missing;
                    }
                    None => drifts.push((drift.projection, id.clone(), 1, drift.too_many, drift.missing)),
                }
            }
            Ok(())
        };
        let compared = match (conversation, self.options.comparison) {
            (Some(id), _) => compare(id),
            (None, Comparison::Everything) => all.iter().try_for_each(compare),
            (None, Comparison::Sample(events)) => self.sample(events, compare),
        };
        seen.bear(None, "the list of conversations", compared)?;
        if let Some((error, conversations)) = damaged {
            let what = format!(
                "the derived tables of {conversations} conversations cannot be compared with the log: {error}"
            );
            seen.add_damage(None, what);
        }
        for (projection, first, conversations, too_many, missing) in drifts {
            let what = format!(
                "{projection}: {too_many} rows that do not follow from the log, {missing} that are missing, \
                 in {conversations} of the compared conversations"
            );
            let remedy = Some(Remedy::Rebuild { projection });
            seen.findings.push(Finding::new(Trouble::DriftedProjection, Some(first), what, remedy));
        }
        Ok(())
    }

    /// Visits the conversations that were last active, until they have `events` events in total.
    fn sample(&self, events: u64, mut visit: impl FnMut(&ConversationId) -> Result<()>) -> Result<()> {
        let mut left = events;
        for conversation in self.store.iter(&ConversationFilter::default(), Order::UpdatedDescending) {
            if left == 0 {
                return Ok(());
            }
            let conversation = conversation?;
            visit(&conversation.id)?;
            left = left.saturating_sub(conversation.event_count.max(1));
        }
        Ok(())
    }
}
