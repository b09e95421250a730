//! Mending: one remedy, one transaction, one receipt.

use std::io::Read as _;
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
    APPLICATION_ID, Append, BaseStateChange, Head, Mending, Options, RebuildProgress, Repair, Store,
};
use crate::transfer::{Copier, CopyOptions, CopyReport, ImportOptions, ImportStatus, Importer};
use crate::untrusted;

/// What the model is told of a call that a crash cut short: the reference's own words, so that a model
/// meets one wording whoever mended it.
///
/// Source: `runtime.md` section 2.5.
const INTERRUPTED: &str = "A restart occurred while this tool was in progress. This may indicate a fatal memory \
     error or system crash. The tool execution was interrupted and did not complete.";

/// The code of the event that stands where a lost one stood.
const LOST: &str = "EventLost";

impl Doctor<'_> {
    /// Mends a finding that has a remedy, and answers the receipt.
    ///
    /// The conversation must be as it was examined, or as earlier repairs left it.
    ///
    /// # Errors
    /// [`Error::Conflict`] where someone appended meanwhile, [`Error::NoRemedy`] where the finding has none
    /// or the remedy did not help, and what writing can meet. Nothing was changed then.
    pub fn repair(&self, finding: &Finding) -> Result<Repair> {
        self.repair_telling(finding, &mut |_| ())
    }

    /// As [`Doctor::repair`]; `progress` is told how far it is where derived tables are made again.
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
                self.store.rebuild(&[projection], progress)?;
                return self.store.note_repair(None, &why);
            }
            Remedy::Reindex => return self.store.remake_indexes(&why),
            Remedy::Reguard => return self.store.mend_guards(&why)?.ok_or_else(none),
            _ => {}
        }
        let id = finding.conversation.as_ref().ok_or_else(none)?;
        match remedy {
            Remedy::Rebuild { .. } | Remedy::Reindex | Remedy::Reguard => Err(none()),
            Remedy::Recatalogue => self.store.remake_catalogue(id)?.ok_or_else(none),
            Remedy::ImportAgain { from } => self.import_again(id, from, &why),
            Remedy::MoveHead { to } => {
                let head = match to {
                    Some(to) => Head::At(EventId::new(&**to)?),
                    None => Head::Empty,
                };
                self.mend(id, Vec::new(), Some(head), None, &why)
            }
            Remedy::StandIn { id: lost, parent } => {
                let event = stand_in(lost, parent.as_deref())?;
                // It is no tip: HEAD stays where it is.
                let head =
                    self.store.conversation(id)?.leaf_event_id.map(EventId::new).transpose()?.map(Head::At);
                let head = match head {
                    Some(head) => head,
                    None => self.resting_head(id)?,
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
        head: Option<Head>,
        base_state: Option<BaseStateChange>,
        why: &Mending,
    ) -> Result<Repair> {
        let expected = Expected::Exact(self.store.conversation(id)?.event_count);
        self.store.mend(id, Append { expected, events, base_state, head }, why)
    }

    /// The last event of the live branch.
    fn leaf(&self, id: &ConversationId) -> Result<Option<String>> {
        let row = self.store.conversation(id)?;
        if row.leaf_event_id.is_some() || row.head_is_empty {
            return Ok(row.leaf_event_id);
        }
        Ok(self.store.tree(id)?.resolve_leaf(None, false))
    }

    /// Where HEAD rests in a conversation that never set it.
    fn resting_head(&self, id: &ConversationId) -> Result<Head> {
        Ok(match self.leaf(id)? {
            Some(leaf) => Head::At(EventId::new(leaf)?),
            None => Head::Empty,
        })
    }

    fn import_again(&self, id: &ConversationId, from: &str, why: &Mending) -> Result<Repair> {
        let path = Path::new(from);
        let is_done = if is_annals(path) { self.copy_again(id, path)? } else { self.read_again(id, path)? };
        if is_done {
            return self.store.note_repair(Some(id), why);
        }
        Err(Error::NoRemedy { finding: Trouble::UnfinishedImport.as_str() })
    }

    /// Goes on with an import from a folder or a file of events.
    fn read_again(&self, id: &ConversationId, path: &Path) -> Result<bool> {
        let options = ImportOptions { id: Some(id.clone()), ..ImportOptions::default() };
        let reports = Importer::new(self.store, options).import(path, &mut |_| ())?;
        let is_done = |status| !matches!(status, ImportStatus::Conflict | ImportStatus::Failed);
        Ok(reports.iter().any(|report| report.id.as_ref() == Some(id) && is_done(report.status)))
    }

    /// Goes on with a copy from another Annals file; one that came under another id is called as it was there
    /// and a mark behind a tilde.
    fn copy_again(&self, id: &ConversationId, path: &Path) -> Result<bool> {
        let options = Options { read_only: true, ..Options::default() };
        let source = Store::open_with(path, &options)?;
        let (there, rename) = match (source.conversation(id), id.as_str().rsplit_once('~')) {
            (Err(Error::UnknownConversation { .. }), Some((there, _))) => (ConversationId::new(there)?, true),
            (found, _) => (found?.id, false),
        };
        let options = CopyOptions { rename, ..CopyOptions::default() };
        let reports = Copier::new(&source, self.store, options).copy(&[there], &mut |_| ())?;
        let came_as = |report: &CopyReport| report.renamed.clone().unwrap_or_else(|| report.id.clone());
        Ok(reports.iter().any(|report| report.status.is_whole() && came_as(report) == *id))
    }
}

/// Whether a file is an Annals database, by its first bytes; other programs' are imported.
fn is_annals(path: &Path) -> bool {
    let mut first = [0; 72];
    untrusted::open(path).and_then(|(mut file, _)| file.read_exact(&mut first)).is_ok()
        && first.starts_with(b"SQLite format 3\0")
        && first.ends_with(&APPLICATION_ID.to_be_bytes())
}

/// The event that stands where `lost` stood: the model never sees it, and a run's failures look like it.
fn stand_in(lost: &str, parent: Option<&str>) -> Result<NewEvent> {
    let detail = "The event that stood here is not in the log. Annals put this one in its place, so that what \
                  follows it has a way to the beginning again.";
    let mut event =
        ConversationErrorEvent::new(common(EventId::new(lost)?, Source::Environment, parent), LOST, detail);
    event.classification = Some(ErrorClassification::INTERNAL);
    Ok(NewEvent::parse(Event::from(event).dump())?)
}

/// The error that answers a call which a crash cut short.
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
