//! Holding a store against a head that was kept elsewhere.

use super::head::{Head, Scope};
use crate::error::Result;
use crate::ids::{ConversationId, Sequence, Timestamp};
use crate::store::{Act, ChainHead, Finding, Receipt, Store};

/// What of `head` is not in the store any more; empty where everything is there as it was.
///
/// It compares the hashes that stand beside events, changes and acts. That these follow from what is stored is what
/// [`Store::verify`] says, so both together prove that nothing was changed or taken away since but by
/// [redaction](redacted_since), which the administrative log tells.
///
/// # Errors
/// What reading can meet.
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
        let since = |time: Option<Timestamp>| time.map_or("the file was made".into(), Timestamp::to_rfc3339);
        let what = format!(
            "the chains of changes hold since {}; at {at} UTC they did since {}: they were made again",
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

/// What was redacted since a head was made, one note for each thing, as the administrative log tells it: the chains hold
/// nevertheless, because they keep the digests of what went.
///
/// # Errors
/// What reading can meet.
pub fn redacted_since(store: &Store, head: &Head) -> Result<Vec<Finding>> {
    let mut notes = Vec::new();
    let mut after = head.heads.acts.map_or(0, |acts| acts.count);
    loop {
        let acts = store.admin_log(after, PAGE)?;
        let Some(last) = acts.last() else { return Ok(notes) };
        after = last.number;
        let is_later = |act: &&Act| head.heads.acts.is_some() || act.at > head.at;
        let is_told = |act: &&Act| {
            let named = |one: &ChainHead| Some(one.conversation.as_str()) == act.conversation.as_deref();
            head.scope == Scope::Whole || head.heads.conversations.iter().any(named)
        };
        for act in acts.iter().filter(|act| act.act == "redact").filter(is_later).filter(is_told) {
            notes.extend(notes_of(store, act)?);
            if notes.len() >= NOTES_MAX {
                let what = "more was redacted since; `annals admin-log` tells it".to_owned();
                notes.push(Finding { conversation: None, sequence: None, what });
                return Ok(notes);
            }
        }
    }
}

/// So many acts are read at a time.
const PAGE: usize = 1000;

/// At about so many notes the rest is not told.
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
            "the first {} changes of what stands beside its events are not those it had at {at} UTC: they were rewritten",
            end.count
        ),
        None => format!(
            "there were {} changes of what stands beside its events at {at} UTC, there are {}: their end was cut off",
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
