//! What a compaction does to the history: it forgets what was before it, and may write earlier lines again.

use super::super::translation::{Arriving, Translation, common, hash};
use super::{ClaudeCode, Line};
use crate::event::{Condensation, Source};
use crate::json::{Object, Raw};

/// The record with which the history begins anew.
const BOUNDARY: &str = "compact_boundary";

impl ClaudeCode {
    /// Returns whether the file has a line already. With another parent it is not the same: the model sees the message once
    /// more, behind a compaction.
    pub(super) fn is_repeated(&mut self, arriving: &Arriving<'_>, kind: &str, members: &Object<'_>) -> bool {
        let content = match kind {
            "user" | "assistant" => members.get("message"),
            "attachment" => members.get("attachment"),
            "system" => members.get("error").or_else(|| members.get("content")),
            _ => None,
        };
        let (Some(uuid), Some(content)) = (members.text("uuid"), content) else { return false };
        let parent = members.text("parentUuid");
        let is_known = !self.contents.insert(hash(&(&*uuid, parent.as_deref(), content.text())));
        // What an older version has stored as a message stays one.
        is_known && arriving.stored.is_none_or(|stored| stored == 0)
    }

    /// Translates the boundary of a compaction: the model no longer sees what was before it, except for the part that the
    /// boundary names. `None` for another record, and without a history in this file.
    ///
    /// What is preserved stands before the summary here. The program shows it to the model behind the summary.
    pub(super) fn compaction(&mut self, line: &Line<'_>) -> Option<Translation> {
        let members = line.members;
        if members.text("subtype").as_deref() != Some(BOUNDARY) || !line.arriving.may_become(1) {
            return None;
        }
        let nearest = |uuid: Option<Raw<'_>>| self.nearest.get(&*uuid?.as_text()?)?.clone();
        let before = nearest(members.get("logicalParentUuid"))?;
        let segment = members.get("compactMetadata").and_then(|about| about.get("preservedSegment"));
        let end = |member: &str| nearest(segment.and_then(|segment| segment.get(member)));
        let mut forgotten = std::mem::take(&mut self.preserved);
        forgotten.extend(self.memory.seen_until(&before));
        if let (Some(head), Some(tail)) = (end("headUuid"), end("tailUuid")) {
            let at = |id| forgotten.iter().position(|seen| *seen == id);
            if let (Some(first), Some(last)) = (at(head), at(tail))
                && first <= last
            {
                self.preserved = forgotten.drain(first..=last).collect();
            }
        }
        let id = self.memory.id(&members.text("uuid").unwrap_or_default(), line.arriving);
        let reply = id.as_str().to_owned();
        let common = common(id, line.timestamp, Source::Environment, Some(&before));
        let forgotten = forgotten.iter().map(|id| id.as_str().into()).collect();
        let event = Condensation::new(common, forgotten, reply).into();
        Some(Translation {
            name: format!("system.{BOUNDARY}"),
            events: vec![event],
            ..Translation::default()
        })
    }
}
