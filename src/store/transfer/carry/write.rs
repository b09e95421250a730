//! Writes the target of a copy: rows in bounded steps, then the data beside them. Each step is one transaction.

use rusqlite::Connection;

use super::{Page, Parcel};
use crate::chain;
use crate::error::{Error, Result};
use crate::event::NewEvent;
use crate::ids::{ConversationId, EventId, Position, Timestamp};
use crate::state::status::Effect;
use crate::store::Store;
use crate::store::options::Actor;
use crate::store::table::admin::{self, ActKind, NewAct, Receipt};
use crate::store::table::catalogue::{self, Entry, OwnNames};
use crate::store::table::change::{self, Subject};
use crate::store::table::row::StoredRow;
use crate::store::table::{arrival, attachment, base_state, log, origin};

impl Store {
    /// Appends a page of a parcel's rows to `id`, which has the rows before them. If `rest` is set, copies the data
    /// beside the events, too. Until then the conversation counts as unfinished.
    ///
    /// # Errors
    /// [`Error::Conflict`] if `id` does not have the expected length, [`Error::Corrupt`] if a row's hash does not
    /// follow from the row before it, and any error of writing the file. After an error nothing of the step is written.
    pub(crate) fn carry(
        &self,
        id: &ConversationId,
        source: &Self,
        parcel: &Parcel,
        step: &Step<'_>,
    ) -> Result<()> {
        self.write(|db| {
            let now = Timestamp::now();
            let mut entry = match Entry::load_to_append(db, id)? {
                Some(entry) => entry,
                None => Entry::create(db, id, now)?,
            };
            if entry.event_count != step.from {
                return Err(Error::Conflict {
                    conversation: id.clone(),
                    expected: crate::error::Expected::Exact(step.from),
                    actual: entry.event_count,
                });
            }
            arrival::begin(db, entry.key, &source.path().to_string_lossy(), now)?;
            if step.page.len() > 0 {
                append(db, id, &mut entry, parcel, step.page)?;
                entry.save(db, now)?;
            }
            if step.rest {
                source.read(|from| {
                    change::replaced(db, entry.key, Subject::ALL, || finish(db, &entry, from, parcel, now))
                })?;
            }
            note_redactions(db, &self.0.options.actor, (id, entry.key), parcel, now)?;
            Ok(())
        })
    }

    /// Makes `parent`, which is stored here, the parent of a conversation.
    pub(crate) fn link_parent(&self, id: &ConversationId, parent: &ConversationId) -> Result<()> {
        self.write(|db| catalogue::set_parent(db, catalogue::key(db, id)?, parent))
    }
}

/// One step of copying a conversation.
pub(crate) struct Step<'a> {
    /// The number of events before this step.
    pub from: u64,
    /// The next rows. It may be empty.
    pub page: &'a Page,
    /// True if these rows are the last, so that the data beside them is copied, too.
    pub rest: bool,
}

fn append(
    db: &Connection,
    id: &ConversationId,
    entry: &mut Entry,
    parcel: &Parcel,
    page: &Page,
) -> Result<()> {
    let same_id = *id == parcel.id;
    let mut position = log::last_position(db)?;
    for row in &page.rows {
        let sequence = entry.next();
        let hash = chain::link(id.as_str(), sequence.0, &row.id, row.digest(), entry.chain_head);
        if same_id && hash != row.hash {
            let what = format!("{id}: the hash of the event at sequence {sequence} does not follow from it");
            return Err(Error::Corrupt { what });
        }
        position = Position(position.0 + 1);
        let recorded_at = row.recorded_at;
        let event_place = log::EventPlace { position, conversation: entry.key, sequence, recorded_at, hash };
        log::insert_row(db, &event_place, row)?;
        if let Some(file) = &row.file {
            origin::name_file(db, entry.key, (position, sequence), file)?;
        }
        let event = read(row)?;
        let effect = Effect::of(event.envelope(), event.payload());
        entry.take(event.envelope(), event.payload(), hash, effect, recorded_at);
    }
    Ok(())
}

/// Returns the event of a row, to count it and to apply its effect on the status.
fn read(row: &StoredRow) -> Result<NewEvent> {
    let id = EventId::new(&*row.id)?;
    Ok(NewEvent::parse_lenient(&*row.payload, || id)?)
}

/// Copies all data beside the events.
fn finish(db: &Connection, entry: &Entry, from: &Connection, parcel: &Parcel, now: Timestamp) -> Result<()> {
    let key = entry.key;
    base_state::carry::carry((db, key), (from, parcel.key, &parcel.state))?;
    attachment::carry((db, key), from, &parcel.attachments)?;
    origin::save_problems(db, key, &parcel.problems, now)?;
    if let Some(origin) = &parcel.origin {
        origin::save(db, key, origin, now)?;
    }
    let is_own = |subject| change::is_own((db, key), (from, parcel.key), subject);
    let own = OwnNames { title: is_own(Subject::Title)?, fork: is_own(Subject::Fork)? };
    catalogue::adopt(db, key, &parcel.whole, own)?;
    if let Some(parent) = &parcel.parent {
        catalogue::set_parent(db, key, parent)?;
    }
    match &parcel.unfinished {
        // Its import did not end in the source either. The row names the import's source, to continue it from there.
        Some(unfinished) => arrival::begin(db, key, &unfinished.source, unfinished.began_at),
        None => arrival::end(db, key),
    }
}

/// Records the redactions of a parcel here, because redacted events are verified against the administrative log.
///
/// A receipt is skipped if it is recorded already, or if its event is not redacted here.
fn note_redactions(
    db: &Connection,
    actor: &Actor,
    (id, key): (&ConversationId, i64),
    parcel: &Parcel,
    now: Timestamp,
) -> Result<()> {
    for (act, receipts) in &parcel.redactions {
        let mut new: Vec<Receipt> = Vec::new();
        for receipt in receipts {
            let known = admin::changes(db, id.as_str(), &receipt.part, &receipt.name)?
                .contains(&(receipt.digest, receipt.new_digest));
            let applies = receipt.part != "event" || log::is_redacted(db, key, &receipt.name)?;
            if applies && !known {
                new.push(receipt.clone());
            }
        }
        if new.is_empty() {
            continue;
        }
        let detail = serde_json::json!({
            "store": parcel.store,
            "act": act.number.0,
            "at": act.at.to_rfc3339(),
            "by": act.actor.user,
        });
        let new_act = NewAct {
            act: ActKind::Redact,
            conversation: Some(id.as_str()),
            reason: act.reason.as_deref(),
            detail,
            receipts: &new,
        };
        admin::write(db, actor, &new_act, now)?;
    }
    Ok(())
}
