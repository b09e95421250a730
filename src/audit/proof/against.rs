//! Holding a store against a head that was kept elsewhere.

use super::head::{Head, Scope};
use crate::error::{Error, Result};
use crate::ids::Sequence;
use crate::store::{ChainHead, Finding, Store};

/// What of `head` is not in the store any more; empty where everything is there as it was.
///
/// It compares the hashes that stand beside events. That these follow from the payloads is what
/// [`Store::verify`] says, so both together prove that nothing was changed or taken away since.
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
    for then in &head.heads.conversations {
        findings.extend(compare_one(store, then, at)?);
    }
    Ok(findings)
}

fn compare_one(store: &Store, then: &ChainHead, at: &str) -> Result<Option<Finding>> {
    let conversation = &then.conversation;
    let finding = |sequence: Option<u64>, what: String| {
        Some(Finding { conversation: Some(conversation.clone()), sequence: sequence.map(Sequence), what })
    };
    let now = match store.conversation(conversation) {
        Err(Error::UnknownConversation { .. }) => {
            return Ok(finding(None, format!("it is gone; at {at} UTC it had {} events", then.events)));
        }
        row => row?,
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
