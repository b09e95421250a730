//! Examines the file as a whole: its structure, unfinished imports, and whether derived tables match the log.

use std::path::Path;

use super::{Comparison, Doctor, Examination, Finding, Remedy, Trouble};
use crate::error::{Error, Result};
use crate::ids::ConversationId;
use crate::store::{ConversationFilter, Order};

impl Doctor<'_> {
    pub(super) fn examine_file(&self, seen: &mut Examination) -> Result<()> {
        if self.looks_for(Trouble::Structure) {
            let wrong = self.store.check_structure()?;
            let mut remedy = None;
            if !wrong.is_empty() && self.store.only_indexes_are_wrong()? {
                remedy = Some(Remedy::Reindex);
            }
            // Only the first finding gets the remedy, because it repairs all of them.
            seen.findings.extend(
                wrong.into_iter().map(|what| Finding::new(Trouble::Structure, None, what, remedy.take())),
            );
        }
        if self.looks_for(Trouble::Guards) {
            let changed = self.store.changed_guards()?;
            if !changed.is_empty() {
                let what = changed.join("; ");
                seen.findings.push(Finding::new(Trouble::Guards, None, what, Some(Remedy::Reguard)));
            }
        }
        if self.looks_for(Trouble::StrangeTrigger) {
            for (name, table) in self.store.strange_triggers()? {
                let what = format!("the trigger {name} on {table} is not of Annals' making");
                seen.findings.push(Finding::new(Trouble::StrangeTrigger, None, what, None));
            }
        }
        for unfinished in self.store.unfinished()? {
            let is_busy = self.may_run(unfinished.began_at);
            let is_there = Path::new(&unfinished.source).exists();
            let what = format!(
                "its import from {:?} began at {}{}",
                unfinished.source,
                unfinished.began_at,
                match (is_busy, is_there) {
                    (true, _) => "; it may still be running",
                    (false, true) => "",
                    (false, false) => "; the source no longer exists",
                }
            );
            let remedy = Remedy::ImportAgain { from: unfinished.source };
            let remedy = Some(remedy).filter(|_| !is_busy && is_there);
            let conversation = Some(unfinished.conversation);
            seen.findings.push(Finding::new(Trouble::UnfinishedImport, conversation, what, remedy));
        }
        Ok(())
    }

    /// Compares derived tables with the log, conversation by conversation. Adds one finding per projection.
    pub(super) fn compare_projections(
        &self,
        conversation: Option<&ConversationId>,
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
                seen.findings.push(Finding::new(Trouble::DriftedProjection, None, what, None));
                return Ok(());
            }
        }
        let comparer = self.store.comparer()?;
        let mut drifts: Vec<(&'static str, ConversationId, u64, u64, u64)> = Vec::new();
        let mut compare = |id: &ConversationId| -> Result<()> {
            seen.compared += 1;
            for drift in comparer.compare(id)? {
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
        match (conversation, self.options.comparison) {
            (Some(id), _) => compare(id)?,
            (None, Comparison::Everything) => self.each_conversation(compare)?,
            (None, Comparison::Sample(events)) => self.sample(events, compare)?,
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
        let (mut after, mut left) = (None, events);
        loop {
            let filter = ConversationFilter::default();
            let page = self.store.conversations(&filter, Order::UpdatedDescending, after.as_ref(), 1000)?;
            for conversation in page.conversations {
                if left == 0 {
                    return Ok(());
                }
                visit(&conversation.id)?;
                left = left.saturating_sub(conversation.event_count.max(1));
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(()),
            }
        }
    }
}
