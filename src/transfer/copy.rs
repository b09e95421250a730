//! Carrying conversations from one file to another: merge, split and copy.
//!
//! A conversation arrives with everything that is stored of it: payloads byte for byte, times of recording,
//! base state with its history, moves of HEAD, attachments, origin, problems. Before anything is taken the
//! source is verified, so that a chain that was tampered with is never made whole by being copied. What is
//! there already is compared by its chain: the same is left, what has grown is added to, what is another
//! story is reported and left, or comes under another id. Doing it again changes nothing, and after a crash
//! goes on where it was.

use std::cmp::Ordering;

use crate::error::Result;
use crate::ids::ConversationId;
use crate::store::{Beside, Parcel, Step, Store};

/// How much is written in one transaction.
const CHUNK_EVENTS: u64 = 1000;
const CHUNK_BYTES: u64 = 4 << 20;

/// How many findings about a damaged conversation are told.
const FINDINGS_TOLD: usize = 5;

/// How to carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CopyOptions {
    /// Bring a conversation that is there already and is another story under another id.
    pub rename: bool,
    /// Only say what would be done.
    pub dry_run: bool,
}

/// What became of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyStatus {
    /// It is new there, and all of it was carried.
    Copied,
    /// It is there already, and is the same.
    Unchanged,
    /// It was there and has grown since; what is new was added.
    Updated,
    /// It is there and goes on from what would have come; nothing was added.
    Ahead,
    /// It is there and is another story; nothing was touched.
    Conflict,
    /// It was erased there, and what is erased stays out.
    Erased,
    /// It is not as it was written; nothing of it was carried.
    Damaged,
}

impl CopyStatus {
    /// The name in JSON and on the command line.
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
        }
    }

    /// Whether everything that the source has is there now.
    #[must_use]
    pub fn is_whole(self) -> bool {
        matches!(self, Self::Copied | Self::Unchanged | Self::Updated | Self::Ahead)
    }
}

/// What became of one conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyReport {
    /// Its id in the source.
    pub id: ConversationId,
    /// Its id in the target, where that is another.
    pub renamed: Option<ConversationId>,
    /// What became of it.
    pub status: CopyStatus,
    /// How many events the source has of it.
    pub events: u64,
    /// How many of them were added.
    pub added: u64,
    /// Payload bytes that were added.
    pub added_bytes: u64,
    /// Why, where it was not carried; what else there is to know, where it was.
    pub problems: Vec<String>,
}

/// How far it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyProgress<'a> {
    /// The conversation that is carried.
    pub id: &'a ConversationId,
    /// Its number, from 0.
    pub conversation: usize,
    /// How many there are to carry.
    pub conversations: usize,
    /// Events added so far, in all of them.
    pub events: u64,
}

/// Told how far it is.
pub type OnProgress<'p> = &'p mut dyn FnMut(CopyProgress<'_>);

/// Carries conversations of one store to another.
#[derive(Debug)]
pub struct Copier<'a> {
    source: &'a Store,
    target: &'a Store,
    options: CopyOptions,
    added: u64,
}

/// What is to be done about a conversation.
enum Plan {
    /// Add the events from this one on, and what stands beside them.
    Add { from: u64 },
    /// Nothing.
    Leave(CopyStatus),
    /// Nothing, for this reason.
    Refuse(String),
    /// Nothing, under whatever id: it was erased there.
    Erased(String),
}

impl<'a> Copier<'a> {
    /// A copier from `source` to `target`, which must be two files.
    #[must_use]
    pub fn new(source: &'a Store, target: &'a Store, options: CopyOptions) -> Self {
        Self { source, target, options, added: 0 }
    }

    /// Carries the conversations `ids`; answers what became of each, in the same order. One that cannot be
    /// carried does not keep the others back. Those of sub-agents come to belong to the same conversations
    /// as before, where these are there.
    ///
    /// Memory holds a page of rows, never a conversation.
    ///
    /// # Errors
    /// [`UnknownConversation`](crate::Error::UnknownConversation), and what reading and writing can meet.
    pub fn copy(&mut self, ids: &[ConversationId], progress: OnProgress<'_>) -> Result<Vec<CopyReport>> {
        let mut reports: Vec<CopyReport> = Vec::with_capacity(ids.len());
        for (index, id) in ids.iter().enumerate() {
            let before = self.added;
            let mut tell = |added: u64| {
                progress(CopyProgress {
                    id,
                    conversation: index,
                    conversations: ids.len(),
                    events: before + added,
                });
            };
            tell(0);
            let report = self.copy_one(id, &mut tell)?;
            self.added += report.added;
            reports.push(report);
        }
        if !self.options.dry_run {
            self.link_parents(&reports)?;
        }
        Ok(reports)
    }

    /// Deletes in the source what `report` says has arrived, once the target has proven to have it: its chain
    /// and everything beside it verify there, and the source has not gone on since. Answers whether it was
    /// deleted.
    ///
    /// # Errors
    /// [`ReadOnly`](crate::Error::ReadOnly), and what reading and writing can meet.
    pub fn remove(&mut self, report: &CopyReport) -> Result<bool> {
        if !report.status.is_whole() {
            return Ok(false);
        }
        let parcel = self.source.parcel(&report.id)?;
        let there = report.renamed.as_ref().unwrap_or(&report.id);
        let has_all = match self.plan(there, &parcel)? {
            Plan::Leave(CopyStatus::Unchanged) => self.target.is_named_as(there, &parcel)?,
            Plan::Leave(status) => status.is_whole(),
            Plan::Add { .. } | Plan::Refuse(_) | Plan::Erased(_) => false,
        };
        if !has_all || !self.target.verify(Some(there), &mut |_| ())?.findings.is_empty() {
            return Ok(false);
        }
        self.source.delete_carried(&parcel)
    }

    fn copy_one(&self, id: &ConversationId, tell: &mut dyn FnMut(u64)) -> Result<CopyReport> {
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
        let mut here = id.clone();
        let mut plan = self.plan(&here, &parcel)?;
        let mut number = 1;
        while let (Plan::Refuse(why), true) = (&plan, self.options.rename) {
            report.problems = vec![why.clone()];
            here = self.other_id(id, number)?;
            report.renamed = Some(here.clone());
            plan = self.plan(&here, &parcel)?;
            number += 1;
        }
        if let Plan::Leave(_) | Plan::Add { from: 1.. } = plan {
            report.problems.extend(self.in_full_here(&here, &parcel)?);
        }
        match plan {
            Plan::Leave(status) => {
                report.status = status;
                if status == CopyStatus::Unchanged {
                    report.problems.extend(self.named_otherwise(&here, &parcel)?);
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
                let seen = self.source.verify(Some(id), &mut |_| ())?;
                if !seen.findings.is_empty() {
                    let told = seen.findings.iter().take(FINDINGS_TOLD);
                    report.problems.extend(told.map(|finding| match finding.sequence {
                        Some(sequence) => format!("event {sequence}: {}", finding.what),
                        None => finding.what.clone(),
                    }));
                    return Ok(CopyReport { status: CopyStatus::Damaged, renamed: None, ..report });
                }
                let exists = from > 0 || self.target.contains(&here)?;
                report.status = if exists { CopyStatus::Updated } else { CopyStatus::Copied };
                self.add(&here, &parcel, from, &mut report, tell)?;
                if exists && !self.options.dry_run {
                    report.problems.extend(self.named_otherwise(&here, &parcel)?);
                }
            }
        }
        Ok(report)
    }

    /// Says where someone has named it otherwise in the target, which stays.
    fn named_otherwise(&self, here: &ConversationId, parcel: &Parcel) -> Result<Option<String>> {
        let same = self.target.is_named_as(here, parcel)?;
        Ok((!same).then(|| "it has another title there, or is told to be a fork of another".into()))
    }

    /// Says where events are redacted in the source and stand in full here: a copy takes nothing out.
    fn in_full_here(&self, here: &ConversationId, parcel: &Parcel) -> Result<Option<String>> {
        let there = self.source.redacted(&parcel.id, parcel.events())?;
        if there.is_empty() {
            return Ok(None);
        }
        let stored = self.target.conversation(here)?.event_count;
        let mine = self.target.redacted(here, stored)?;
        let full: Vec<u64> = there.into_iter().filter(|at| *at < stored && !mine.contains(at)).collect();
        Ok(full.first().map(|first| {
            format!(
                "{} of its events (the first at sequence {first}) are redacted there and stand in full here",
                full.len()
            )
        }))
    }

    /// What is to be done about a parcel that should be `here`.
    fn plan(&self, here: &ConversationId, parcel: &Parcel) -> Result<Plan> {
        if !self.target.contains(here)? {
            return Ok(match self.target.erased_at(here)? {
                Some(at) => Plan::Erased(format!("it was erased there at {at}")),
                None => Plan::Add { from: 0 },
            });
        }
        let stored = self.target.conversation(here)?;
        let common = stored.event_count.min(parcel.events());
        if let Some(why) = self.first_difference(here, parcel, common)? {
            return Ok(Plan::Refuse(why));
        }
        let beside = self.target.compare_beside(here, self.source, parcel)?;
        // A copy that was cut short may lack anything beside the events.
        let torn = !parcel.is_unfinished()
            && self.target.unfinished()?.iter().any(|unfinished| unfinished.conversation == *here);
        let refuse = |why: &str| Ok(Plan::Refuse(why.to_owned()));
        match (stored.event_count.cmp(&parcel.events()), beside) {
            (_, Beside::States) => refuse("the base states, or the moves of HEAD, have gone different ways"),
            (Ordering::Less, Beside::Older) => refuse("the base state there has gone on, the events here"),
            (Ordering::Less, _) | (Ordering::Equal, Beside::Newer) => {
                Ok(Plan::Add { from: stored.event_count })
            }
            (Ordering::Equal, _) if torn => Ok(Plan::Add { from: stored.event_count }),
            (Ordering::Equal, Beside::Files) => refuse("the files beside the events are not the same"),
            (Ordering::Equal, Beside::Same) => Ok(Plan::Leave(CopyStatus::Unchanged)),
            (Ordering::Equal, Beside::Older) => Ok(Plan::Leave(CopyStatus::Ahead)),
            (Ordering::Greater, Beside::Newer) => refuse("the base state here has gone on, the events there"),
            (Ordering::Greater, _) => Ok(Plan::Leave(CopyStatus::Ahead)),
        }
    }

    /// Why the first `common` events here are not those of the parcel; `None` where they are.
    ///
    /// Under one id the link of the chain at the last one says it all; under another the events are compared.
    fn first_difference(
        &self,
        here: &ConversationId,
        parcel: &Parcel,
        common: u64,
    ) -> Result<Option<String>> {
        let Some(last) = common.checked_sub(1) else { return Ok(None) };
        if *here != parcel.id {
            let same = self.target.has_same_events(here, self.source, parcel, common)?;
            return Ok((!same).then(|| "the events are not the same".into()));
        }
        let differs = |at: u64| -> Result<bool> {
            Ok(self.target.link_at(here, at)? != self.source.link_at(&parcel.id, at)?)
        };
        if !differs(last)? {
            return Ok(None);
        }
        // Once two chains part they never meet again: the first difference is found by halving.
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
        here: &ConversationId,
        parcel: &Parcel,
        from: u64,
        report: &mut CopyReport,
        tell: &mut dyn FnMut(u64),
    ) -> Result<()> {
        if self.options.dry_run {
            report.added = parcel.events() - from;
            return Ok(());
        }
        let mut next = from;
        loop {
            let page = self.source.rows(parcel, next, CHUNK_EVENTS, CHUNK_BYTES)?;
            let rest = next + page.len() == parcel.events();
            self.target.carry(here, self.source, parcel, &Step { from: next, page: &page, rest })?;
            next += page.len();
            report.added += page.len();
            report.added_bytes += page.bytes();
            tell(report.added);
            if rest {
                break;
            }
        }
        let arrived = self.target.conversation(here)?;
        if *here == parcel.id && arrived.head_hash != parcel.head_hash() {
            let what = format!("{here}: it did not arrive as it was sent");
            return Err(crate::Error::Corrupt { what });
        }
        Ok(())
    }

    /// The id under which a conversation of this source comes when its own is taken: the same whenever it is
    /// asked for, so that doing it again finds it.
    fn other_id(&self, id: &ConversationId, number: u32) -> Result<ConversationId> {
        let store = self.source.store_id()?;
        let file: String = store.chars().filter(char::is_ascii_hexdigit).take(8).collect();
        let count = if number > 1 { format!("-{number}") } else { String::new() };
        Ok(ConversationId::new(&format!("{id}~{file}{count}"))?)
    }

    /// Lets sub-agents' conversations belong to the ones they belonged to, now that all are there.
    fn link_parents(&self, reports: &[CopyReport]) -> Result<()> {
        let there = |id: &ConversationId| {
            let report = reports.iter().find(|report| report.id == *id);
            report.and_then(|report| report.renamed.clone()).unwrap_or_else(|| id.clone())
        };
        for report in reports.iter().filter(|report| report.added > 0 || report.status == CopyStatus::Copied)
        {
            let Some(parent) = self.source.conversation(&report.id)?.parent else { continue };
            let (child, parent) = (there(&report.id), there(&ConversationId::new(&parent)?));
            if self.target.contains(&parent)? {
                self.target.link_parent(&child, &parent)?;
            }
        }
        Ok(())
    }
}
