//! The side that is written: rows in bounded steps, then what stands beside them, each step one transaction.

use rusqlite::Connection;

use super::super::admin::{self, ActKind, Actor, NewAct, Receipt};
use super::super::catalogue::{self, Entry, OwnNames};
use super::super::change::{self, Subject};
use super::super::{Store, arrival, attachment, base_state, log, origin};
use super::{Page, Parcel, StoredRow};
use crate::chain;
use crate::error::{Error, Result};
use crate::event::NewEvent;
use crate::ids::{ConversationId, EventId, Position, Timestamp};
use crate::state::status::Effect;

impl Store {
    /// Appends a page of a parcel's rows to `id`, which has the ones before them, and then, where `rest` says
    /// so, everything beside them. Until that is done the conversation counts as one on its way in.
    ///
    /// # Errors
    /// [`Error::Conflict`] where `id` has not the length it should have, [`Error::Corrupt`] where a row does
    /// not have the hash that follows, and what writing can meet. Nothing of the step was written then.
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

    /// Makes a conversation a sub-agent's of another one that is here.
    pub(crate) fn link_parent(&self, id: &ConversationId, parent: &ConversationId) -> Result<()> {
        self.write(|db| catalogue::set_parent(db, catalogue::key(db, id)?, parent))
    }
}

/// One step of taking a conversation over.
pub(crate) struct Step<'a> {
    /// How many events there are before it.
    pub from: u64,
    /// The rows that come next; may be none.
    pub page: &'a Page,
    /// Whether these are the last, and what stands beside them comes too.
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
    let mut position = log::head(db)?;
    for row in &page.rows {
        let sequence = entry.next();
        let hash = chain::link(id.as_str(), sequence.0, &row.id, row.digest(), entry.head_hash);
        if same_id && hash != row.hash {
            let what = format!("{id}: the hash of the event at sequence {sequence} does not follow from it");
            return Err(Error::Corrupt { what });
        }
        position = Position(position.0 + 1);
        let recorded_at = row.recorded_at;
        let spot = log::Spot { position, conversation: entry.key, sequence, recorded_at, hash };
        log::insert_row(db, &spot, row)?;
        if let Some(file) = &row.file {
            origin::name_file(db, entry.key, (position, sequence), file)?;
        }
        let event = read(row)?;
        let effect = Effect::of(event.envelope(), event.payload());
        entry.take(event.envelope(), event.payload(), hash, effect, recorded_at);
    }
    Ok(())
}

/// The event of a row, to count it and to follow its status.
fn read(row: &StoredRow) -> Result<NewEvent> {
    let id = EventId::new(&*row.id)?;
    Ok(NewEvent::keep(&*row.payload, || id)?)
}

/// Takes over everything that stands beside the events.
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
        // Its import never ended there either: whoever goes on with it finds where.
        Some(unfinished) => arrival::begin(db, key, &unfinished.source, unfinished.began_at),
        None => arrival::end(db, key),
    }
}

/// Writes down here what was taken out of a parcel there: the log of acts is what redacted events are verified
/// against. What is known already, and what is not redacted here, is not written again.
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
            let stands = receipt.part != "event" || log::is_redacted(db, key, &receipt.name)?;
            if stands && !known {
                new.push(receipt.clone());
            }
        }
        if new.is_empty() {
            continue;
        }
        let detail = serde_json::json!({
            "store": parcel.store,
            "act": act.number,
            "at": act.at.to_rfc3339(),
            "by": act.actor.user,
        });
        let told = NewAct {
            act: ActKind::Redact,
            conversation: Some(id.as_str()),
            reason: act.reason.as_deref(),
            detail,
            receipts: &new,
        };
        admin::write(db, actor, &told, now)?;
    }
    Ok(())
}
