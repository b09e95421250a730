//! Repairs findings: one remedy, one transaction, one receipt.

use std::path::Path;

use super::{Doctor, Finding, Remedy, Trouble};
use crate::error::{Error, Expected, Result};
use crate::event::{
    AgentErrorEvent, Common, ConversationErrorEvent, ErrorClassification, Event, MessageToolCall,
};
use crate::event::{NewEvent, Source};
use crate::ids::{ConversationId, EventId, ROOT, Timestamp};
use crate::state::base::FieldChange;
use crate::store::{
    Append, BaseStateChange, HEADER_BYTES, Leaf, Mending, Options, RebuildProgress, Repair, Store, is_annals,
};
use crate::transfer::{Copier, CopyOptions, CopyReport, ImportOptions, ImportStatus, Importer};
use crate::untrusted;

/// The answer to a call that a crash interrupted. It has the reference's words, so that a model reads the same text
/// after every kind of repair.
///
/// Source: `docs/reference/runtime.md#after-a-crash`.
const INTERRUPTED: &str = "A restart occurred while this tool was in progress. This may indicate a fatal memory \
     error or system crash. The tool execution was interrupted and did not complete.";

/// The code of the placeholder for a lost event.
const LOST: &str = "EventLost";

impl Doctor<'_> {
    /// Repairs a finding that has a remedy, and returns the receipt.
    ///
    /// The conversation must not have changed since the examination, except by other repairs.
    ///
    /// # Errors
    /// [`Error::Conflict`] if an event was appended meanwhile, [`Error::NoRemedy`] if the finding has no remedy or the
    /// remedy did not help, and the errors of writing. Nothing is changed in these cases.
    pub fn repair(&self, finding: &Finding) -> Result<Repair> {
        self.repair_telling(finding, &mut |_| ())
    }

    /// Like [`Doctor::repair`]. `progress` receives the progress of rebuilding derived tables.
    ///
    /// # Errors
    /// As [`Doctor::repair`].
    pub fn repair_telling(
        &self,
        finding: &Finding,
        progress: &mut dyn FnMut(RebuildProgress),
    ) -> Result<Repair> {
        let none = || Error::NoRemedy { finding: finding.trouble.as_str() };
        let remedy = finding.remedy.as_ref().ok_or_else(none)?;
        let why = Mending {
            finding: finding.trouble.as_str(),
            found: finding.what.clone(),
            done: remedy.describe(),
        };
        match remedy {
            Remedy::Rebuild { projection } => {
                self.store.maintenance().rebuild(&[projection], progress)?;
                return self.store.maintenance().note_repair(None, &why);
            }
            Remedy::Reindex => return self.store.remake_indexes(&why),
            Remedy::Reguard => return self.store.maintenance().mend_guards(&why)?.ok_or_else(none),
            _ => {}
        }
        let id = finding.conversation.as_ref().ok_or_else(none)?;
        match remedy {
            Remedy::Rebuild { .. } | Remedy::Reindex | Remedy::Reguard => Err(none()),
            Remedy::Recatalogue => self.store.maintenance().remake_catalogue(id)?.ok_or_else(none),
            Remedy::BringBack => self.store.maintenance().bring_back(id)?.ok_or_else(none),
            Remedy::ImportAgain { from } => self.import_again(id, from, &why),
            Remedy::MoveHead { to } => {
                let head = match to {
                    Some(to) => Leaf::At(EventId::new(&**to)?),
                    None => Leaf::Empty,
                };
                self.mend(id, Vec::new(), Some(head), None, &why)
            }
            Remedy::StandIn { id: lost, parent } => {
                let event = stand_in(lost, parent.as_deref())?;
                // The placeholder is not a tip of a branch, so HEAD does not move.
                let head =
                    self.store.conversation(id)?.leaf_event_id.map(EventId::new).transpose()?.map(Leaf::At);
                let head = match head {
                    Some(head) => head,
                    None => self.implied_head(id)?,
                };
                self.mend(id, vec![event], Some(head), None, &why)
            }
            Remedy::Answer { action, call, tool } => {
                let event = answer(self.leaf(id)?.as_deref(), action, call, tool)?;
                self.mend(id, vec![event], None, None, &why)
            }
            Remedy::Stop => {
                let fields = vec![FieldChange::set("execution_status", "\"error\"")?];
                self.mend(id, Vec::new(), None, Some(BaseStateChange { expected: None, fields }), &why)
            }
        }
    }

    fn mend(
        &self,
        id: &ConversationId,
        events: Vec<NewEvent>,
        leaf: Option<Leaf>,
        base_state: Option<BaseStateChange>,
        why: &Mending,
    ) -> Result<Repair> {
        let expected = Expected::Exact(self.store.conversation(id)?.event_count);
        self.store.maintenance().mend(id, Append { expected, events, base_state, leaf }, why)
    }

    /// Returns the last event of the live branch.
    fn leaf(&self, id: &ConversationId) -> Result<Option<String>> {
        let row = self.store.conversation(id)?;
        if row.leaf_event_id.is_some() || row.head_is_empty {
            return Ok(row.leaf_event_id);
        }
        Ok(self.store.tree(id)?.resolve_leaf(None, false))
    }

    /// Returns the implied HEAD of a conversation in which HEAD was never set.
    fn implied_head(&self, id: &ConversationId) -> Result<Leaf> {
        Ok(match self.leaf(id)? {
            Some(leaf) => Leaf::At(EventId::new(leaf)?),
            None => Leaf::Empty,
        })
    }

    fn import_again(&self, id: &ConversationId, from: &str, why: &Mending) -> Result<Repair> {
        let path = Path::new(from);
        let is_done =
            if holds_annals(path) { self.copy_again(id, path)? } else { self.read_again(id, path)? };
        if is_done {
            return self.store.maintenance().note_repair(Some(id), why);
        }
        Err(Error::NoRemedy { finding: Trouble::UnfinishedImport.as_str() })
    }

    /// Continues an import from a folder or a file of events. Returns whether it is complete.
    fn read_again(&self, id: &ConversationId, path: &Path) -> Result<bool> {
        let options = ImportOptions { id: Some(id.clone()), ..ImportOptions::default() };
        let reports = Importer::new(self.store, options).import(path, &mut |_| ())?;
        let is_done = |status| !matches!(status, ImportStatus::Conflict | ImportStatus::Failed);
        Ok(reports.iter().any(|report| report.id.as_ref() == Some(id) && is_done(report.status)))
    }

    /// Continues a copy from another Annals file. Returns whether it is complete. A conversation that was copied under
    /// another id is named by its original id, a tilde and a mark.
    fn copy_again(&self, id: &ConversationId, path: &Path) -> Result<bool> {
        let options = Options { read_only: true, ..Options::default() };
        let source = Store::open_with(path, &options)?;
        let (original, rename) = match (source.conversation(id), id.as_str().rsplit_once('~')) {
            (Err(Error::UnknownConversation { .. }), Some((name, _))) => (ConversationId::new(name)?, true),
            (found, _) => (found?.id, false),
        };
        let options = CopyOptions { rename, ..CopyOptions::default() };
        let reports = Copier::new(&source, self.store, options).copy(&[original], &mut |_| ())?;
        let new_id = |report: &CopyReport| report.renamed.clone().unwrap_or_else(|| report.id.clone());
        Ok(reports.iter().any(|report| report.status.is_whole() && new_id(report) == *id))
    }
}

/// Returns whether the file at a path is an Annals database, by its first bytes. Any other file is imported.
fn holds_annals(path: &Path) -> bool {
    untrusted::beginning(path, HEADER_BYTES).is_ok_and(|first| is_annals(&first))
}

/// Returns the placeholder for the event `lost`. It is a conversation error, like a failed run, so the model never sees
/// it.
fn stand_in(lost: &str, parent: Option<&str>) -> Result<NewEvent> {
    let detail = "The event that belongs here is not in the log. Annals added this placeholder, so that the events \
                  after it have a path to a root event again.";
    let mut event =
        ConversationErrorEvent::new(common(EventId::new(lost)?, Source::Environment, parent), LOST, detail);
    event.classification = Some(ErrorClassification::INTERNAL);
    Ok(NewEvent::parse(Event::from(event).dump())?)
}

/// Returns the error that answers a call which a crash interrupted.
fn answer(leaf: Option<&str>, action: &str, call: &str, tool: &str) -> Result<NewEvent> {
    let parent = leaf.or(Some(action));
    let call = MessageToolCall::new(call, tool, "");
    let mut event = AgentErrorEvent::new(common(EventId::mint(), Source::Agent, parent), &call, INTERRUPTED);
    event.classification = ErrorClassification::INTERNAL;
    Ok(NewEvent::parse(Event::from(event).dump())?)
}

fn common(id: EventId, source: Source, parent: Option<&str>) -> Common {
    let mut common = Common::new(id, Timestamp::now().to_local(), source);
    common.parent_id = Some(parent.unwrap_or(ROOT).into());
    common
}
