//! Keeps redacted text out of the store: if an import brings the same text again, it is replaced by the redacted one or
//! left out.
//!
//! The administrative log has the digest of every text that a redaction changed. For events, the digest is also in
//! their own row (`table/log.rs`). For attachments, it is looked up when they are listed.

use rusqlite::Connection;

use super::import::Surroundings;
use crate::chain::Digest;
use crate::error::Result;
use crate::ids::{ConversationId, Timestamp};
use crate::json::Raw;
use crate::redact::REDACTED;
use crate::state::BaseDocument;
use crate::store::Store;
use crate::store::table::admin::{self, ActKind};
use crate::store::table::kept::Part;
use crate::store::table::origin::{self, Origin};
use crate::store::table::{base_state, catalogue};

/// Returns the data that an import brings beside the events, without the text that was redacted in this store.
pub(super) fn surroundings(
    db: &Connection,
    id: &ConversationId,
    key: i64,
    around: &Surroundings,
) -> Result<Surroundings> {
    let mut around = around.clone();
    if let Some(document) = &around.base_state {
        around.base_state = Some(self::document(db, id, key, document)?);
    }
    if let Some(title) = &around.title
        && was_taken_out(db, id, Part::Title, "", title)?
    {
        around.title = None;
    }
    if let Some(tags) = &around.tags
        && was_taken_out(db, id, Part::Tags, "", tags)?
    {
        around.tags = None;
    }
    for problem in &mut around.problems {
        if was_taken_out(db, id, Part::Problem, &problem.path, &problem.problem)? {
            REDACTED.clone_into(&mut problem.problem);
        }
    }
    if let Some(stored) = origin::load(db, key)? {
        glue(db, id, &mut around.origin, &stored)?;
    }
    Ok(around)
}

/// Does the same for the origin of the events and for the text between them in the imported file.
fn glue(db: &Connection, id: &ConversationId, origin: &mut Origin, stored: &Origin) -> Result<()> {
    if was_taken_out(db, id, Part::Origin, "source", &origin.source)? {
        origin.source.clone_from(&stored.source);
    }
    let new = origin.container.as_mut().and_then(|container| container.glue.as_mut());
    let old = stored.container.as_ref().and_then(|container| container.glue.as_ref());
    let (Some(new), Some(old)) = (new, old) else { return Ok(()) };
    for (name, text, redacted) in [
        ("prefix", &mut new.prefix, &old.prefix),
        ("separator", &mut new.separator, &old.separator),
        ("suffix", &mut new.suffix, &old.suffix),
    ] {
        if was_taken_out(db, id, Part::Origin, name, text)? {
            text.clone_from(redacted);
        }
    }
    Ok(())
}

/// Returns `document`. If a field has its value from before a redaction, the stored value replaces it.
fn document(db: &Connection, id: &ConversationId, key: i64, document: &BaseDocument) -> Result<BaseDocument> {
    let text = document.as_str();
    let Some(stored) = base_state::stored_document(db, key)? else { return Ok(document.clone()) };
    let Ok(whole) = Raw::parse(text) else { return Ok(document.clone()) };
    let mut new = String::with_capacity(text.len());
    let mut from = 0;
    for (field, value) in whole.members() {
        let Some(redacted) = stored.field(&field) else { continue };
        if was_taken_out(db, id, Part::BaseState, &field, value.text())? {
            let at = value.offset_in(text);
            new.push_str(&text[from..at]);
            new.push_str(redacted.text());
            from = at + value.text().len();
        }
    }
    if from == 0 {
        return Ok(document.clone());
    }
    new.push_str(&text[from..]);
    Ok(BaseDocument::parse(new)?)
}

/// Returns whether this part had exactly this text before a redaction changed it.
fn was_taken_out(db: &Connection, id: &ConversationId, part: Part, name: &str, text: &str) -> Result<bool> {
    let changes = admin::changes(db, id.as_str(), part.as_str(), name)?;
    if changes.is_empty() {
        return Ok(false);
    }
    let digest = Digest::of(text.as_bytes());
    Ok(changes.iter().any(|(old, _)| *old == Some(digest)))
}

impl Store {
    /// Returns the base state that an import brings, without the text that was redacted in this store.
    pub(crate) fn without_redacted(
        &self,
        conversation: &ConversationId,
        base_state: &BaseDocument,
    ) -> Result<BaseDocument> {
        self.snapshot(|db| document(db, conversation, catalogue::key(db, conversation)?, base_state))
    }

    /// Returns the origin that an import brings, without the text that was redacted in this store.
    pub(crate) fn origin_without_redacted(
        &self,
        conversation: &ConversationId,
        origin: &Origin,
    ) -> Result<Origin> {
        let mut origin = origin.clone();
        self.snapshot(|db| {
            let stored = origin::load(db, catalogue::key(db, conversation)?)?;
            stored.map_or(Ok(()), |stored| glue(db, conversation, &mut origin, &stored))
        })?;
        Ok(origin)
    }

    /// Returns the time of the last redaction in a conversation with this id. `None` if there was none.
    pub(crate) fn redacted_at(&self, conversation: &ConversationId) -> Result<Option<Timestamp>> {
        self.read(|db| admin::last(db, conversation.as_str(), ActKind::Redact))
    }
}
