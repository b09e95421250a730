//! Ends an import: compares the data beside the events with the stored data, and stores it if necessary.

use std::collections::{HashMap, HashSet};

use super::incoming::{Changes, Incoming};
use super::losses::{Losses, changed_file};
use super::{Importer, Intake};
use crate::error::Result;
use crate::ids::ConversationId;
use crate::store::{ArrivingFile, Attachment, Container, Origin, Problem, Store, Surroundings};
use crate::transfer::container::TornTail;
use crate::transfer::layout;
use crate::transfer::report::{ImportReport, ImportStatus};

/// What the administrative log says if changed files were accepted.
const CHANGED_FILES: &str = "changed files";

impl Importer<'_> {
    /// Stores the data beside the events, if the conversation is new or anything of it has changed and may be taken over.
    pub(super) fn settle(
        &self,
        incoming: &dyn Incoming,
        mut intake: Intake<'_>,
        mut around: Surroundings,
        mut report: ImportReport,
    ) -> Result<ImportReport> {
        let (store, id) = (self.store, intake.id);
        let is_unread = intake.tell_what_was_not_understood(&report);
        around.problems = std::mem::take(&mut intake.problems).finish();
        report.problems.clone_from(&around.problems);
        // Without an origin, no import of it has ended.
        let before = if store.contains(id)? { store.origin(id)? } else { None };
        let is_dry = self.options.dry_run;
        let Some(before) = before else {
            if !is_dry {
                store.finish_import(id, intake.footing, &around)?;
            }
            report.status = match report.problems.is_empty() {
                _ if is_unread => ImportStatus::Unread,
                true => ImportStatus::Imported,
                false => ImportStatus::Partial,
            };
            return Ok(report);
        };
        // After an interrupted import, the data beside the events may be missing even if no event is new.
        let brings_nothing = intake.counts.added == 0 && store.unfinished_source(id)?.is_none();
        let mut changed = Vec::new();
        if brings_nothing {
            if intake.counts.events < before.events {
                report.problems.push(has_fewer_events(&around.origin, intake.counts.events, before.events));
                return Ok(report);
            }
            changed = changes(store, id, incoming, &before, &around)?;
            if !changed.is_empty()
                && incoming.changes() == Changes::Added
                && !self.options.accept_changed_files
            {
                // Programs clear up beside their logs. What is gone there is kept here.
                let there: HashSet<&str> = around.files.iter().map(|file| file.path.as_str()).collect();
                let mut gone = store.attachments(id)?;
                gone.retain(|kept| !there.contains(kept.path.as_str()) && !incoming.follows(kept, None));
                let gone: HashSet<String> = gone.into_iter().map(|kept| kept.path).collect();
                changed.retain(|path| !gone.contains(path));
            }
            let has_gone_on = intake.stored.peek()?.is_some();
            if changed.is_empty() || has_gone_on {
                // The log of a sub-agent may have come first.
                if let Some(parent) = around.parent.as_ref().filter(|_| !is_dry)
                    && store.find(id)?.is_some_and(|row| row.parent.is_none())
                    && store.contains(parent)?
                {
                    store.set_parent(id, parent)?;
                }
                report.status = ImportStatus::Unchanged;
                return Ok(report);
            }
        }
        let losses = Losses::of(store, id, &around.files, &|stored, file| incoming.follows(stored, file))?;
        let is_following = self.tail == TornTail::Await;
        changed.retain(|path| !incoming.is_passing(path));
        let to_accept = match incoming.changes() {
            Changes::Refused if brings_nothing && !is_following => changed,
            Changes::Refused => losses.paths(),
            Changes::Added => losses.replaced(),
        };
        let accepts = self.options.accept_changed_files;
        if brings_nothing && !accepts && !to_accept.is_empty() {
            report.problems.extend(to_accept.into_iter().map(changed_file));
            return Ok(report);
        }
        if !accepts {
            losses.keep(&mut around);
        }
        if !is_dry {
            store.finish_import(id, intake.footing, &around)?;
        }
        if !is_dry && accepts && !to_accept.is_empty() {
            store.note_acceptance(id, CHANGED_FILES)?;
        }
        report.problems = around.problems;
        report.status = if is_unread { ImportStatus::Unread } else { ImportStatus::Updated };
        Ok(report)
    }
}

fn has_fewer_events(origin: &Origin, events: u64, before: u64) -> Problem {
    Problem {
        path: origin.folder.clone(),
        problem: format!("it has {events} events, {before} were imported from it"),
        action: "left as stored".into(),
    }
}

/// Returns the paths of the data beside the events that is not as it is stored: files that are changed, new or missing,
/// the base state, and the file of all events if the text between them is another one.
fn changes(
    store: &Store,
    id: &ConversationId,
    incoming: &dyn Incoming,
    before: &Origin,
    around: &Surroundings,
) -> Result<Vec<String>> {
    let mut changed = changed_files(store, id, incoming, &around.files)?;
    let base_state = around.base_state.as_ref().map(|document| store.without_redacted(id, document));
    if store.stored_document(id)? != base_state.transpose()? {
        changed.push(around.origin.base_state_path.clone().unwrap_or_else(|| layout::BASE_STATE.into()));
    }
    let now = store.origin_without_redacted(id, &around.origin)?;
    if let (Some(Container { file, glue }), Some(stored)) = (now.container, &before.container) {
        // A log under another name has that name from now on.
        let is_renamed = incoming.changes() == Changes::Added && file != stored.file;
        if (is_renamed || glue != stored.glue) && !changed.contains(&file) {
            changed.push(file);
        }
    }
    Ok(changed)
}

/// Returns the paths of the files that differ from the stored ones: changed, new or missing. What only accompanies the
/// writing of others may be missing.
fn changed_files(
    store: &Store,
    id: &ConversationId,
    incoming: &dyn Incoming,
    arriving: &[ArrivingFile],
) -> Result<Vec<String>> {
    let mut stored: HashMap<String, Attachment> =
        store.attachments(id)?.into_iter().map(|file| (file.path.clone(), file)).collect();
    let mut changed = Vec::new();
    for file in arriving {
        if !stored.remove(&file.path).is_some_and(|stored| stored.is_or_was(file.digest)) {
            changed.push(file.path.clone());
        }
    }
    changed.extend(stored.into_keys().filter(|path| !incoming.is_passing(path)));
    changed.sort();
    Ok(changed)
}
