//! Writes a folder that today's SDK can open, from a conversation of any age: every event and the base state are
//! upgraded, and files get today's names. The store keeps the original data.

use std::collections::BTreeMap;
use std::io::Write as _;

use super::export::{Exporter, Target};
use super::layout;
use super::meta::META_BYTES_MAX;
use super::pages::Pages;
use crate::error::{Error, Result};
use crate::event::Given;
use crate::event::tool::catalogue::OwnTools;
use crate::event::upcast::{self, Loadable, Loss};
use crate::ids::{ConversationId, EventId, Sequence, Timestamp};
use crate::json::Raw;
use crate::state::upcast::upcast_base_state;
use crate::store::Attachment;

/// The upgrade steps that were applied, and what was lost.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct UpgradeReport {
    /// The number of events that needed no change.
    pub current: u64,
    /// The number of events and base states that went through each step, by the step's name.
    pub steps: BTreeMap<&'static str, u64>,
    /// What was lost, and how often: members that were left out, actions and observations of unknown kinds, events
    /// that are packed into another event because the SDK does not know them.
    pub losses: BTreeMap<String, u64>,
    /// How often values of kinds were kept that the SDK knows only with the classes of the agent's own tools, by kind.
    pub kept: BTreeMap<String, u64>,
}

impl UpgradeReport {
    /// Adds the counts of another report.
    pub fn add(&mut self, other: &Self) {
        self.current += other.current;
        for (step, count) in &other.steps {
            *self.steps.entry(step).or_default() += count;
        }
        for (loss, count) in &other.losses {
            *self.losses.entry(loss.clone()).or_default() += count;
        }
        for (kind, count) in &other.kept {
            *self.kept.entry(kind.clone()).or_default() += count;
        }
    }

    fn count_loss(&mut self, what: String) {
        *self.losses.entry(what).or_default() += 1;
    }
}

/// Describes a loss in a few words.
fn describe(loss: &Loss) -> String {
    match loss {
        Loss::Member { path } => format!("member {path} left out"),
        Loss::Action { kind } => format!("action {kind} became a server's tool call"),
        Loss::Observation { kind } => format!("observation {kind} became a server's answer"),
        Loss::Packed { kind } => format!("event {kind} travels within another"),
    }
}

/// What is written of a conversation, and for whom.
struct Standing<'a> {
    conversation: &'a ConversationId,
    /// The number of its events.
    until: u64,
    /// The tools that its agent has beside those of the SDK.
    own: OwnTools,
}

impl Exporter<'_> {
    /// Writes the upgraded folder of a conversation at `prefix` within the target, and those of its sub-agents below
    /// it. Returns the number of the conversation's own events.
    pub(super) fn write_upgraded(
        &self,
        conversation: &ConversationId,
        target: &mut Target,
        prefix: &str,
        report: &mut UpgradeReport,
        progress: &mut dyn FnMut(u64),
    ) -> Result<u64> {
        // The base state is that of the last event that is written, also if another process appends meanwhile.
        let (until, base_state) = self.store.standing(conversation)?;
        let mut standing = Standing { conversation, until, own: OwnTools::default() };
        if let Some(state) = base_state {
            let document = raised_base_state(state.document.into_string(), report)?;
            standing.own = own_tools(Raw::checked(&document));
            let stand_in = |id: &str| self.stand_in(&standing, id);
            let document = upcast::renamed_in_base_state(&document, &stand_in)?.unwrap_or(document);
            target.write(&format!("{prefix}{}", layout::BASE_STATE), document.as_bytes())?;
        }
        let events = self.write_raised_events(&standing, target, prefix, report, progress)?;
        let root = self
            .store
            .origin(conversation)?
            .and_then(|origin| origin.events_directory.strip_suffix(layout::EVENTS).map(str::to_owned))
            .unwrap_or_default();
        for attachment in self.store.attachments(conversation)? {
            let path = attachment.path.strip_prefix(&root).unwrap_or(&attachment.path);
            let name = path.rsplit('/').next().unwrap_or(path);
            if path.ends_with('/') || layout::is_bookkeeping(name) {
                continue;
            }
            if path == layout::LEASE && self.is_leased(conversation, &attachment)? {
                report.count_loss("lease of a server that has the conversation open left out".into());
                continue;
            }
            // A torn event, or a torn base state.
            let in_the_way = path.starts_with(layout::EVENTS) || path == layout::BASE_STATE;
            let path = format!("{prefix}{}{path}", if in_the_way { layout::SET_ASIDE } else { "" });
            let mut file = target.create(&path)?;
            target.bytes += self.store.read_attachment(conversation, &attachment.path, &mut file)?;
            file.flush().map_err(Error::io("writing", &path))?;
        }
        for child in self.children(conversation)? {
            let prefix = format!("{prefix}{}{}/", layout::SUBAGENTS, child.folder_name());
            self.write_upgraded(&child, target, &prefix, report, progress)?;
        }
        Ok(events)
    }

    fn write_raised_events(
        &self,
        standing: &Standing<'_>,
        target: &mut Target,
        prefix: &str,
        report: &mut UpgradeReport,
        progress: &mut dyn FnMut(u64),
    ) -> Result<u64> {
        target.folder(&format!("{prefix}{}", layout::EVENTS))?;
        let Standing { conversation, until, own } = standing;
        let stand_in = |id: &str| self.stand_in(standing, id);
        let mut events = 0;
        let mut pages = Pages::new(self.store, conversation, Some(Sequence(0)));
        while let Some(stored) = pages.next()?.filter(|stored| stored.sequence.0 < *until) {
            let given = Given { id: Some(&stored.id), timestamp: None };
            let raised = upcast::read_beside(&stored.payload, &given, own)
                .map_err(|source| Error::Undecodable { sequence: stored.sequence, source })?;
            let Loadable { event, losses, kept } = upcast::loadable_beside(&raised.event, own);
            let is_of_today = raised.steps.is_empty() && losses.is_empty() && is_complete(&stored.payload);
            report.current += u64::from(is_of_today);
            for step in &raised.steps {
                *report.steps.entry(step.as_str()).or_default() += 1;
            }
            losses.iter().for_each(|loss| report.count_loss(describe(loss)));
            kept.into_iter().for_each(|kind| *report.kept.entry(kind).or_default() += 1);
            let mut text = if is_of_today { stored.payload } else { event.dump() };
            let id = stand_in(stored.id.as_str())?;
            if id.is_some() {
                report.count_loss("id that the loader does not recognise became a stand-in".into());
            }
            if let Some(renamed) = upcast::renamed(&text, &stand_in)? {
                text = renamed;
            }
            let name = layout::event_file(events, id.as_deref().unwrap_or(stored.id.as_str()));
            target.write(&format!("{prefix}{}{name}", layout::EVENTS), text.as_bytes())?;
            events += 1;
            progress(events);
        }
        Ok(events)
    }

    /// Returns whether a stored lease has not expired. Another server would wait for it in the exported folder.
    fn is_leased(&self, conversation: &ConversationId, lease: &Attachment) -> Result<bool> {
        if lease.bytes > META_BYTES_MAX {
            return Ok(false);
        }
        let mut text = Vec::new();
        self.store.read_attachment(conversation, &lease.path, &mut text)?;
        Ok(String::from_utf8(text).is_ok_and(|lease| layout::lease_end(&lease, Timestamp::now()).is_some()))
    }

    /// Returns the id under which the reference's loader finds an event, made from the event's own id. `None` if it
    /// recognises that one, and for a text that names none of the exported events: the mark of an event without a
    /// parent, or the id of a summary, which the reference makes when it reads.
    ///
    /// The loader skips a file if it does not recognise the id in the file's name, and then it does not find the event by
    /// the ids in others.
    fn stand_in(&self, standing: &Standing<'_>, id: &str) -> Result<Option<String>> {
        let Ok(event) = EventId::new(id) else { return Ok(None) };
        if layout::is_recognised(&layout::event_file(0, id)) {
            return Ok(None);
        }
        match self.store.sequence(standing.conversation, &event) {
            Ok(Sequence(place)) if place < standing.until => {
                Ok(Some(uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_OID, id.as_bytes()).to_string()))
            }
            Ok(_) | Err(Error::UnknownEvent { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Whether a payload says itself what the store can add: the event's id and time.
fn is_complete(payload: &str) -> bool {
    Raw::parse(payload).is_ok_and(|event| ["id", "timestamp"].iter().all(|name| event.get(name).is_some()))
}

/// Returns a stored base state in today's format.
fn raised_base_state(stored: String, report: &mut UpgradeReport) -> Result<String> {
    let Some(raised) = upcast_base_state(&stored)? else { return Ok(stored) };
    for step in &raised.steps {
        *report.steps.entry(step.as_str()).or_default() += 1;
    }
    for tool in &raised.left_out {
        report.count_loss(format!("tool {tool} of the agent left out"));
    }
    Ok(raised.document)
}

/// Returns the tools that the agent of a base state has beside those of the SDK.
fn own_tools(base_state: Raw<'_>) -> OwnTools {
    let tools = base_state.get("agent").and_then(|agent| agent.get("tools"));
    let tools = tools.into_iter().flat_map(Raw::elements);
    OwnTools::among(tools.filter_map(|tool| tool.get("name").and_then(Raw::as_text)))
}
