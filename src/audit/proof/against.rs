//! Compares a store with a head that was kept elsewhere.

use super::head::{Head, Scope};
use crate::error::Result;
use crate::ids::{ConversationId, Sequence, Timestamp};
use crate::store::{Act, ChainHead, Finding, Receipt, Store};

/// Returns how the store contradicts `head`. Empty if everything in the head is still in the store, unchanged.
///
/// It compares the stored hashes of events, changes and acts. [`Store::verify`] checks that these hashes match the
/// stored data. Both together prove that nothing was changed or removed since the head was made, except by
/// [redaction](redacted_since), which the administrative log records.
///
/// # Errors
/// The errors of reading the store.
pub fn compare(store: &Store, head: &Head) -> Result<Vec<Finding>> {
    let now = store.heads(None)?;
    let at = head.at.to_rfc3339();
    let at = at.get(..19).unwrap_or(&at);
    let mut findings = Vec::new();
    if now.store_id != head.heads.store_id {
        let what =
            format!("the head is of another store ({}); this one is {}", head.heads.store_id, now.store_id);
        findings.push(Finding { conversation: None, sequence: None, what });
    }
    if head.scope == Scope::Whole && now.position < head.heads.position {
        let what = format!(
            "the log ends at position {}, at {at} UTC it had {}: it was set back",
            now.position, head.heads.position
        );
        findings.push(Finding { conversation: None, sequence: None, what });
    }
    findings.extend(compare_acts(store, head, at)?);
    if head.heads.acts.is_some() && now.changes_since != head.heads.changes_since {
        let since = |time: Option<Timestamp>| time.map_or("its creation".into(), Timestamp::to_rfc3339);
        let what = format!(
            "the file has chains of changes since {}; at {at} UTC it had them since {}: they were made again",
            since(now.changes_since),
            since(head.heads.changes_since)
        );
        findings.push(Finding { conversation: None, sequence: None, what });
    }
    for then in &head.heads.conversations {
        match compare_one(store, then, at)? {
            Some(finding) => findings.push(finding),
            None => findings.extend(compare_changes(store, then, at)?),
        }
    }
    Ok(findings)
}

/// Returns the redactions since a head was made, one note for each redacted thing, from the administrative log.
/// The chains are still valid after a redaction, because they keep the digests of the redacted data.
///
/// # Errors
/// The errors of reading the store.
pub fn redacted_since(store: &Store, head: &Head) -> Result<Vec<Finding>> {
    let mut notes = Vec::new();
    let mut after = head.heads.acts.map_or(0, |acts| acts.count);
    loop {
        let acts = store.admin_log(after, PAGE)?;
        let Some(last) = acts.last() else { return Ok(notes) };
        after = last.number;
        let is_later = |act: &&Act| head.heads.acts.is_some() || act.at > head.at;
        let is_in_scope = |act: &&Act| {
            let named = |one: &ChainHead| Some(one.conversation.as_str()) == act.conversation.as_deref();
            head.scope == Scope::Whole || head.heads.conversations.iter().any(named)
        };
        for act in acts.iter().filter(|act| act.act == "redact").filter(is_later).filter(is_in_scope) {
            notes.extend(notes_of(store, act)?);
            if notes.len() >= NOTES_MAX {
                let what = "there are more redactions; `annals admin-log` lists them".to_owned();
                notes.push(Finding { conversation: None, sequence: None, what });
                return Ok(notes);
            }
        }
    }
}

/// The number of acts that are read at a time.
const PAGE: usize = 1000;

/// After about this many notes, no more notes are made.
const NOTES_MAX: usize = 1000;

fn notes_of(store: &Store, act: &Act) -> Result<Vec<Finding>> {
    let conversation = act.conversation.as_deref().map(ConversationId::new).transpose()?;
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
    Ok(store.receipts(act.number)?.into_iter().map(note).collect())
}

fn compare_acts(store: &Store, head: &Head, at: &str) -> Result<Option<Finding>> {
    let Some(then) = head.heads.acts.filter(|acts| acts.count > 0) else { return Ok(None) };
    let what = match store.admin_log(then.count - 1, 1)?.first() {
        Some(act) if act.number == then.count && act.hash == then.hash => return Ok(None),
        Some(_) => format!(
            "the first {} acts of the administrative log are not those it had at {at} UTC: it was rewritten",
            then.count
        ),
        None => format!(
            "the administrative log had {} acts at {at} UTC, and act {} is not there: its end was cut off",
            then.count, then.count
        ),
    };
    Ok(Some(Finding { conversation: None, sequence: None, what }))
}

fn compare_changes(store: &Store, then: &ChainHead, at: &str) -> Result<Option<Finding>> {
    let conversation = &then.conversation;
    let Some(end) = then.changes.filter(|end| end.count > 0) else { return Ok(None) };
    let what = match store.change_hash_at(conversation, end.count)? {
        Some(hash) if hash == end.hash => return Ok(None),
        Some(_) => format!(
            "the first {} changes of its data other than events are not those it had at {at} UTC: they were rewritten",
            end.count
        ),
        None => format!(
            "its data other than events had {} changes at {at} UTC and has {} now: their end was cut off",
            end.count,
            store.changes_end(conversation)?.count
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
    Ok(match store.hash_at(conversation, Sequence(last))? {
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
