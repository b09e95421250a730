//! Compares a store with a head that was kept elsewhere.
//!
//! Damage does not end the comparison: what cannot be read is a finding, and the next part of the head is compared.
//! Otherwise one damaged byte would hide what the head was kept for.

use super::head::{Head, Scope};
use crate::error::Result;
use crate::ids::{ActNumber, ConversationId, Position, Sequence, Timestamp};
use crate::store::{Act, ChainHead, Finding, Receipt, Store};

/// Returns how the store contradicts `head`. Empty if everything in the head is still in the store, unchanged.
///
/// It compares the stored hashes of events, changes and acts. [`Audit::verify`](crate::store::Audit::verify) checks
/// that these hashes match the stored data. Both together prove that nothing was changed or removed since the head was
/// made, except by [redaction](redacted_since), which the administrative log records.
///
/// # Errors
/// The errors of reading the store, except damage: what cannot be read is a finding.
pub fn compare(store: &Store, head: &Head) -> Result<Vec<Finding>> {
    let at = head.at.to_rfc3339();
    let at = at.get(..19).unwrap_or(&at);
    let mut findings = Vec::new();
    for (what, compared) in [
        ("the id of the store", compare_store(store, head)),
        ("the end of the log", compare_position(store, head, at)),
        ("the end of the administrative log", compare_acts(store, head, at)),
        ("the time since which the file has chains of changes", compare_since(store, head, at)),
    ] {
        findings.extend(borne(None, what, compared)?);
    }
    for then in &head.heads.conversations {
        let conversation = Some(&then.conversation);
        let events = borne(conversation, "what the head says of its events", compare_one(store, then, at))?;
        let is_as_it_was = events.is_none();
        findings.extend(events);
        if is_as_it_was {
            let changes = compare_changes(store, then, at);
            findings.extend(borne(conversation, "what the head says of its changes", changes)?);
        }
    }
    findings.extend(redactions(store, head)?.damage);
    Ok(findings)
}

/// Returns the redactions since a head was made, one note for each redacted thing, from the administrative log.
/// The chains are still valid after a redaction, because they keep the digests of the redacted data.
///
/// It leaves out acts that cannot be read: for [`compare`] they are findings.
///
/// # Errors
/// The errors of reading the store, except damage.
pub fn redacted_since(store: &Store, head: &Head) -> Result<Vec<Finding>> {
    Ok(redactions(store, head)?.notes)
}

/// After about this many notes, no more notes are made.
const NOTES_MAX: usize = 1000;

/// What the administrative log says of redactions.
#[derive(Default)]
struct Redactions {
    /// One note for each thing that was redacted.
    notes: Vec<Finding>,
    /// What could not be read.
    damage: Vec<Finding>,
}

fn redactions(store: &Store, head: &Head) -> Result<Redactions> {
    let mut found = Redactions::default();
    let after = head.heads.acts.map_or(ActNumber::START, |acts| ActNumber(acts.count));
    let unread = store.acts_after(after, &mut |act| {
        let is_later = head.heads.acts.is_some() || act.at > head.at;
        let is_named = |one: &ChainHead| Some(one.conversation.as_str()) == act.conversation.as_deref();
        let is_in_scope = head.scope == Scope::Whole || head.heads.conversations.iter().any(is_named);
        if act.act != "redact" || !is_later || !is_in_scope {
            return Ok(true);
        }
        match notes_of(store, act) {
            Ok(notes) => found.notes.extend(notes),
            Err(error) => {
                let what = format!("what act {} of the administrative log redacted", act.number);
                found.damage.push(Finding::of_damage(None, &what, error)?);
            }
        }
        if found.notes.len() >= NOTES_MAX {
            let what = "there are more redactions; `annals admin-log` lists them".to_owned();
            found.notes.push(Finding { conversation: None, sequence: None, what });
            return Ok(false);
        }
        Ok(true)
    })?;
    found.damage.extend(unread.into_iter().filter_map(of_the_file));
    Ok(found)
}

fn notes_of(store: &Store, act: &Act) -> Result<Vec<Finding>> {
    // The chain of acts shows that an id was changed. Here, the note only loses its place.
    let conversation = act.conversation.as_deref().and_then(|id| ConversationId::new(id).ok());
    let at = act.at.to_rfc3339();
    let by = act.actor.user.as_deref().unwrap_or(&act.actor.program);
    let reason = act.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
    let note = |receipt: Receipt| Finding {
        conversation: conversation.clone(),
        sequence: receipt.sequence.map(Sequence),
        what: format!(
            "{} {} was redacted since the head was made: act {} of {}, by {by}{reason}",
            receipt.part.replace('_', " "),
            receipt.name,
            act.number,
            at.get(..19).unwrap_or(&at)
        ),
    };
    Ok(store.audit().receipts(act.number)?.into_iter().map(note).collect())
}

/// Returns the finding of a comparison. If the comparison met damage, the finding is that `what` cannot be read.
fn borne(
    conversation: Option<&ConversationId>,
    what: &str,
    compared: Result<Option<Finding>>,
) -> Result<Option<Finding>> {
    match compared {
        Ok(finding) => Ok(finding),
        Err(error) => Finding::of_damage(conversation, what, error).map(Some),
    }
}

fn of_the_file(what: String) -> Option<Finding> {
    Some(Finding { conversation: None, sequence: None, what })
}

fn compare_store(store: &Store, head: &Head) -> Result<Option<Finding>> {
    let (then, now) = (&head.heads.store_id, store.store_id()?);
    if *then == now {
        return Ok(None);
    }
    Ok(of_the_file(format!("the head is of another store ({then}); this one is {now}")))
}

fn compare_position(store: &Store, head: &Head, at: &str) -> Result<Option<Finding>> {
    let (then, now): (Position, Position) = (head.heads.position, store.last_position()?);
    if head.scope != Scope::Whole || now >= then {
        return Ok(None);
    }
    Ok(of_the_file(format!("the log ends at position {now}, at {at} UTC it had {then}: it was set back")))
}

fn compare_acts(store: &Store, head: &Head, at: &str) -> Result<Option<Finding>> {
    let Some(then) = head.heads.acts.filter(|acts| acts.count > 0) else { return Ok(None) };
    Ok(match store.audit().admin_log(ActNumber(then.count - 1), 1)?.first() {
        Some(act) if act.number.0 == then.count && act.hash == then.hash => None,
        Some(_) => of_the_file(format!(
            "the first {} acts of the administrative log are not those it had at {at} UTC: it was rewritten",
            then.count
        )),
        None => of_the_file(format!(
            "the administrative log had {} acts at {at} UTC, and act {} is not there: its end was cut off",
            then.count, then.count
        )),
    })
}

fn compare_since(store: &Store, head: &Head, at: &str) -> Result<Option<Finding>> {
    let (then, now) = (head.heads.changes_since, store.changes_since()?);
    if head.heads.acts.is_none() || then == now {
        return Ok(None);
    }
    let since = |time: Option<Timestamp>| time.map_or("its creation".into(), Timestamp::to_rfc3339);
    Ok(of_the_file(format!(
        "the file has chains of changes since {}; at {at} UTC it had them since {}: they were made again",
        since(now),
        since(then)
    )))
}

fn compare_changes(store: &Store, then: &ChainHead, at: &str) -> Result<Option<Finding>> {
    let conversation = &then.conversation;
    let Some(end) = then.changes.filter(|end| end.count > 0) else { return Ok(None) };
    let what = match store.audit().change_hash_at(conversation, end.count)? {
        Some(hash) if hash == end.hash => return Ok(None),
        Some(_) => format!(
            "the first {} changes of its data other than events are not those it had at {at} UTC: they were rewritten",
            end.count
        ),
        None => format!(
            "its data other than events had {} changes at {at} UTC and has {} now: their end was cut off",
            end.count,
            store.audit().changes_end(conversation)?.count
        ),
    };
    Ok(Some(Finding { conversation: Some(conversation.clone()), sequence: None, what }))
}

fn compare_one(store: &Store, then: &ChainHead, at: &str) -> Result<Option<Finding>> {
    let conversation = &then.conversation;
    let finding = |sequence: Option<u64>, what: String| {
        Some(Finding { conversation: Some(conversation.clone()), sequence: sequence.map(Sequence), what })
    };
    let Some(now) = store.find(conversation)? else {
        return Ok(finding(None, format!("it is gone; at {at} UTC it had {} events", then.events)));
    };
    let Some(last) = then.events.checked_sub(1) else { return Ok(None) };
    Ok(match store.audit().hash_at(conversation, Sequence(last))? {
        Some(hash) if hash == then.hash => None,
        Some(_) => finding(
            Some(last),
            format!(
                "its first {} events are not those it had at {at} UTC: its history was rewritten",
                then.events
            ),
        ),
        None => finding(
            None,
            format!(
                "it ends after {} events; at {at} UTC it had {}: its end was cut off",
                now.event_count, then.events
            ),
        ),
    })
}
