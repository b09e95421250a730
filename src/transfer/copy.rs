//! Copies conversations from one file to another: merge, split and copy.
//!
//! A conversation is copied with everything that is stored of it: payloads byte for byte, recording times, base state
//! with its history, moves of HEAD, attachments, origin, problems. The source is verified before anything is copied,
//! so that a copy never hides that a chain was tampered with. If the target already has the conversation, the chains
//! are compared: an equal conversation is left, a shorter one is extended, and a different one is reported and left,
//! or the copy gets another id. Repeating a copy changes nothing. After a crash, it continues where it stopped.

use std::cmp::Ordering;

use crate::error::{Error, Result};
use crate::ids::ConversationId;
use crate::store::{Beside, Parcel, Step, Store};

/// The limits of one transaction.
const CHUNK_EVENTS: u64 = 1000;
const CHUNK_BYTES: u64 = 4 << 20;

/// The number of findings about a damaged conversation that are reported.
const FINDINGS_MAX: usize = 5;

/// The options of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CopyOptions {
    /// Whether to copy a conversation under another id if the target has a different one under its id.
    pub rename: bool,
    /// Whether to only report what would be done.
    pub dry_run: bool,
}

setters!(CopyOptions { rename: bool, dry_run: bool });

/// The result for a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyStatus {
    /// The conversation is new in the target. All of it was copied.
    Copied,
    /// The target already has the same conversation.
    Unchanged,
    /// The target had an earlier state of the conversation. The new part was added.
    Updated,
    /// The target has a later state of the conversation. Nothing was added.
    Ahead,
    /// The target has a different conversation. Nothing was changed.
    Conflict,
    /// The conversation was erased in the target. Erased conversations are not copied again.
    Erased,
    /// The conversation was damaged after it was written. Nothing of it was copied.
    Damaged,
    /// The source does not have the conversation, or not any more. If it was deleted during the copy, the target may have a
    /// part of it.
    Gone,
}

impl CopyStatus {
    /// Returns the name in JSON and on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Copied => "copied",
            Self::Unchanged => "unchanged",
            Self::Updated => "updated",
            Self::Ahead => "ahead",
            Self::Conflict => "conflict",
            Self::Erased => "erased",
            Self::Damaged => "damaged",
            Self::Gone => "gone",
        }
    }

    /// Returns whether the target has everything that the source has.
    #[must_use]
    pub fn is_whole(self) -> bool {
        matches!(self, Self::Copied | Self::Unchanged | Self::Updated | Self::Ahead)
    }
}

/// The report of one conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CopyReport {
    /// Its id in the source.
    pub id: ConversationId,
    /// Its id in the target, if that is different.
    pub renamed: Option<ConversationId>,
    /// The result.
    pub status: CopyStatus,
    /// The number of its events in the source.
    pub events: u64,
    /// The number of events that were added.
    pub added: u64,
    /// The number of payload bytes that were added.
    pub added_bytes: u64,
    /// The reasons why it was not copied. If it was copied, other remarks.
    pub problems: Vec<String>,
}

/// The progress of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CopyProgress<'a> {
    /// The conversation that is being copied.
    pub id: &'a ConversationId,
    /// Its number, from 0.
    pub conversation: usize,
    /// The number of conversations to copy.
    pub conversations: usize,
    /// The number of events added so far, in all conversations.
    pub events: u64,
}

/// The callback that receives the progress.
pub type OnProgress<'p> = &'p mut dyn FnMut(CopyProgress<'_>);

/// Copies conversations from one store to another.
#[derive(Debug)]
pub struct Copier<'a> {
    source: &'a Store,
    target: &'a Store,
    options: CopyOptions,
    added: u64,
}

/// The plan for a conversation.
enum Plan {
    /// Add the events from this one on, and the data beside them.
    Add { from: u64 },
    /// Add nothing.
    Leave(CopyStatus),
    /// Add nothing, for this reason.
    Refuse(String),
    /// Add nothing, not even under another id: the conversation was erased in the target.
    Erased(String),
}

impl<'a> Copier<'a> {
    /// Makes a copier from `source` to `target`, which must be two files.
    #[must_use]
    pub fn new(source: &'a Store, target: &'a Store, options: CopyOptions) -> Self {
        Self { source, target, options, added: 0 }
    }

    /// Copies the conversations `ids`. Returns their reports in the same order.
    ///
    /// A conversation that cannot be copied, or that is deleted meanwhile, does not stop the others. The conversation of a sub-agent belongs to the
    /// same conversation as before, if the target has it. Memory holds a page of rows, never a conversation.
    ///
    /// # Errors
    /// Errors of reading and writing.
    pub fn copy(&mut self, ids: &[ConversationId], progress: OnProgress<'_>) -> Result<Vec<CopyReport>> {
        let mut reports: Vec<CopyReport> = Vec::with_capacity(ids.len());
        for (index, id) in ids.iter().enumerate() {
            let before = self.added;
            let mut on_added = |added: u64| {
                progress(CopyProgress {
                    id,
                    conversation: index,
                    conversations: ids.len(),
                    events: before + added,
                });
            };
            on_added(0);
            let report = match self.copy_one(id, &mut on_added) {
                Ok(report) => report,
                // Whatever else it looked like, it was deleted meanwhile.
                Err(_) if !self.source.contains(id)? => self.gone(id)?,
                Err(error) => return Err(error),
            };
            self.added += report.added;
            reports.push(report);
        }
        if !self.options.dry_run {
            self.link_parents(&reports)?;
        }
        Ok(reports)
    }

    /// Returns the report of a conversation that the source does not have any more.
    fn gone(&self, id: &ConversationId) -> Result<CopyReport> {
        let unfinished =
            if self.options.dry_run { Vec::new() } else { self.target.maintenance().unfinished()? };
        let is_there = unfinished.iter().any(|unfinished| unfinished.conversation == *id);
        let problem = match is_there {
            true => {
                "it was deleted in the source while it was copied; a part of it is in the target, marked as unfinished: \
                     `annals delete` removes it there"
            }
            false => "it is not in the source any more; nothing of it was copied now",
        };
        Ok(CopyReport {
            id: id.clone(),
            renamed: None,
            status: CopyStatus::Gone,
            events: 0,
            added: 0,
            added_bytes: 0,
            problems: vec![problem.to_owned()],
        })
    }

    /// Deletes the conversation of `report` in the source, if the target has it. Returns whether it was deleted.
    ///
    /// For this, its chain and everything beside it must verify in the target, and the source must not have got new
    /// events since the copy.
    ///
    /// # Errors
    /// [`ReadOnly`](crate::Error::ReadOnly), and errors of reading and writing.
    pub fn remove(&mut self, report: &CopyReport) -> Result<bool> {
        if !report.status.is_whole() {
            return Ok(false);
        }
        let parcel = self.source.parcel(&report.id)?;
        let target_id = report.renamed.as_ref().unwrap_or(&report.id);
        let has_all = match self.plan(target_id, &parcel)? {
            Plan::Leave(CopyStatus::Unchanged) => self.target.is_named_as(target_id, &parcel)?,
            Plan::Leave(status) => status.is_whole(),
            Plan::Add { .. } | Plan::Refuse(_) | Plan::Erased(_) => false,
        };
        if !has_all || !self.target.audit().verify(Some(target_id), &mut |_| ())?.findings.is_empty() {
            return Ok(false);
        }
        self.source.delete_carried(&parcel)
    }

    fn copy_one(&self, id: &ConversationId, on_added: &mut dyn FnMut(u64)) -> Result<CopyReport> {
        let parcel = self.source.parcel(id)?;
        let mut report = CopyReport {
            id: id.clone(),
            renamed: None,
            status: CopyStatus::Unchanged,
            events: parcel.events(),
            added: 0,
            added_bytes: 0,
            problems: Vec::new(),
        };
        let mut target_id = id.clone();
        let mut plan = self.plan(&target_id, &parcel)?;
        let mut number = 1;
        while let (Plan::Refuse(why), true) = (&plan, self.options.rename) {
            report.problems = vec![why.clone()];
            target_id = self.other_id(id, number)?;
            report.renamed = Some(target_id.clone());
            plan = self.plan(&target_id, &parcel)?;
            number += 1;
        }
        if let Plan::Leave(_) | Plan::Add { from: 1.. } = plan {
            report.problems.extend(self.unredacted_in_target(&target_id, &parcel)?);
        }
        match plan {
            Plan::Leave(status) => {
                report.status = status;
                if status == CopyStatus::Unchanged {
                    report.problems.extend(self.name_difference(&target_id, &parcel)?);
                }
            }
            Plan::Refuse(why) => {
                report.status = CopyStatus::Conflict;
                report.problems = vec![why];
            }
            Plan::Erased(why) => {
                report.status = CopyStatus::Erased;
                report.problems = vec![why];
            }
            Plan::Add { from } => {
                let verified = self.source.audit().verify(Some(id), &mut |_| ())?;
                if !verified.findings.is_empty() {
                    let findings = verified.findings.iter().take(FINDINGS_MAX);
                    report.problems.extend(findings.map(|finding| match finding.sequence {
                        Some(sequence) => format!("event {sequence}: {}", finding.what),
                        None => finding.what.clone(),
                    }));
                    return Ok(CopyReport { status: CopyStatus::Damaged, renamed: None, ..report });
                }
                let exists = from > 0 || self.target.contains(&target_id)?;
                report.status = if exists { CopyStatus::Updated } else { CopyStatus::Copied };
                self.add(&target_id, &parcel, from, &mut report, on_added)?;
                if exists && !self.options.dry_run {
                    report.problems.extend(self.name_difference(&target_id, &parcel)?);
                }
            }
        }
        Ok(report)
    }

    /// Returns a remark if the title or the origin of the fork differs in the target. The target keeps its own.
    fn name_difference(&self, target_id: &ConversationId, parcel: &Parcel) -> Result<Option<String>> {
        let same = self.target.is_named_as(target_id, parcel)?;
        Ok((!same)
            .then(|| "it has another title in the target, or is a fork of another conversation there".into()))
    }

    /// Returns a remark if events are redacted in the source but complete in the target. A copy redacts nothing.
    fn unredacted_in_target(&self, target_id: &ConversationId, parcel: &Parcel) -> Result<Option<String>> {
        let redacted = self.source.redacted(&parcel.id, parcel.events())?;
        if redacted.is_empty() {
            return Ok(None);
        }
        let stored = self.target.conversation(target_id)?.event_count;
        let in_target = self.target.redacted(target_id, stored)?;
        let full: Vec<u64> =
            redacted.into_iter().filter(|at| *at < stored && !in_target.contains(at)).collect();
        Ok(full.first().map(|first| {
            format!(
                "{} of its events (the first at sequence {first}) are redacted in the source, but not in the target",
                full.len()
            )
        }))
    }

    /// Plans what to do about a parcel that is to have the id `target_id` in the target.
    fn plan(&self, target_id: &ConversationId, parcel: &Parcel) -> Result<Plan> {
        if !self.target.contains(target_id)? {
            return Ok(match self.target.retention().erased_at(target_id)? {
                Some(at) => Plan::Erased(format!("it was erased in the target at {at}")),
                None => Plan::Add { from: 0 },
            });
        }
        let stored = self.target.conversation(target_id)?;
        let common = stored.event_count.min(parcel.events());
        if let Some(why) = self.first_difference(target_id, parcel, common)? {
            return Ok(Plan::Refuse(why));
        }
        let beside = self.target.compare_beside(target_id, self.source, parcel)?;
        // After an interrupted copy, any of the data beside the events may be missing.
        let is_interrupted = !parcel.is_unfinished()
            && self
                .target
                .maintenance()
                .unfinished()?
                .iter()
                .any(|unfinished| unfinished.conversation == *target_id);
        let refuse = |why: &str| Ok(Plan::Refuse(why.to_owned()));
        match (stored.event_count.cmp(&parcel.events()), beside) {
            (_, Beside::States) => refuse("the base states, or the moves of HEAD, have diverged"),
            (Ordering::Less, Beside::Older) => {
                refuse("the target has a later base state, the source has later events")
            }
            (Ordering::Less, _) | (Ordering::Equal, Beside::Newer) => {
                Ok(Plan::Add { from: stored.event_count })
            }
            (Ordering::Equal, _) if is_interrupted => Ok(Plan::Add { from: stored.event_count }),
            (Ordering::Equal, Beside::Files) => refuse("the files beside the events are not the same"),
            (Ordering::Equal, Beside::Same) => Ok(Plan::Leave(CopyStatus::Unchanged)),
            (Ordering::Equal, Beside::Older) => Ok(Plan::Leave(CopyStatus::Ahead)),
            (Ordering::Greater, Beside::Newer) => {
                refuse("the source has a later base state, the target has later events")
            }
            (Ordering::Greater, _) => Ok(Plan::Leave(CopyStatus::Ahead)),
        }
    }

    /// Returns how the first `common` events in the target differ from those of the parcel. `None` if they are equal.
    ///
    /// If the ids are equal, the chain's link at the last event decides. Otherwise the events are compared.
    fn first_difference(
        &self,
        target_id: &ConversationId,
        parcel: &Parcel,
        common: u64,
    ) -> Result<Option<String>> {
        let Some(last) = common.checked_sub(1) else { return Ok(None) };
        if *target_id != parcel.id {
            let same = self.target.has_same_events(target_id, self.source, parcel, common)?;
            return Ok((!same).then(|| "the events are not the same".into()));
        }
        let differs = |at: u64| -> Result<bool> {
            Ok(self.target.link_at(target_id, at)? != self.source.link_at(&parcel.id, at)?)
        };
        if !differs(last)? {
            return Ok(None);
        }
        // After the first difference all links differ, so a binary search finds it.
        let (mut same_below, mut differs_at) = (0, last);
        while same_below < differs_at {
            let middle = same_below + (differs_at - same_below) / 2;
            if differs(middle)? {
                differs_at = middle;
            } else {
                same_below = middle + 1;
            }
        }
        Ok(Some(format!("the events are not the same from sequence {differs_at} on")))
    }

    fn add(
        &self,
        target_id: &ConversationId,
        parcel: &Parcel,
        from: u64,
        report: &mut CopyReport,
        on_added: &mut dyn FnMut(u64),
    ) -> Result<()> {
        if self.options.dry_run {
            report.added = parcel.events() - from;
            return Ok(());
        }
        let mut next = from;
        loop {
            let page = self.source.rows(parcel, next, CHUNK_EVENTS, CHUNK_BYTES)?;
            let rest = next + page.len() == parcel.events();
            self.target.carry(target_id, self.source, parcel, &Step { from: next, page: &page, rest })?;
            next += page.len();
            report.added += page.len();
            report.added_bytes += page.bytes();
            on_added(report.added);
            if rest {
                break;
            }
        }
        let arrived = self.target.conversation(target_id)?;
        if *target_id == parcel.id && arrived.chain_head != parcel.chain_head() {
            let what = format!("{target_id}: it did not arrive as it was sent");
            return Err(crate::Error::Corrupt { what });
        }
        Ok(())
    }

    /// Returns the id for a conversation of this source whose own id is taken in the target. The result is always the
    /// same, so that a repeated copy finds the conversation.
    fn other_id(&self, id: &ConversationId, number: u32) -> Result<ConversationId> {
        let store = self.source.store_id()?;
        let file: String = store.chars().filter(char::is_ascii_hexdigit).take(8).collect();
        let count = if number > 1 { format!("-{number}") } else { String::new() };
        Ok(ConversationId::new(&format!("{id}~{file}{count}"))?)
    }

    /// Links the conversations of sub-agents to their parents, after all have been copied.
    fn link_parents(&self, reports: &[CopyReport]) -> Result<()> {
        let target_id = |id: &ConversationId| {
            let report = reports.iter().find(|report| report.id == *id);
            report.and_then(|report| report.renamed.clone()).unwrap_or_else(|| id.clone())
        };
        for report in reports.iter().filter(|report| report.added > 0 || report.status == CopyStatus::Copied)
        {
            let parent = match self.source.conversation(&report.id) {
                Err(Error::UnknownConversation { .. }) => continue, // it was deleted meanwhile
                row => row?.parent,
            };
            let Some(parent) = parent else { continue };
            let (child, parent) = (target_id(&report.id), target_id(&ConversationId::new(&parent)?));
            if self.target.contains(&parent)? {
                self.target.link_parent(&child, &parent)?;
            }
        }
        Ok(())
    }
}
