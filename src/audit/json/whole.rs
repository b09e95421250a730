//! Statistics, findings, search hits and administrative acts as JSON.

use serde_json::{Value, json};

use crate::chain::Digest;
use crate::error::{Error, Result};
use crate::ids::Timestamp;
#[cfg(feature = "cli")]
use crate::store::FamilyUsage;
use crate::store::{
    Act, Conversation, ConversationFacts, Finding, Hit, Receipt, Share, Statistics, UsageTotal, Verification,
};

/// Returns the result of a verification: its figures and findings, and whether the file is sound.
#[must_use]
pub fn verification(seen: &Verification) -> Value {
    json!({
        "sound": seen.findings.is_empty(),
        "conversations": seen.conversations,
        "events": seen.events,
        "payload_bytes": seen.payload_bytes,
        "redacted": seen.redacted,
        "attachments": seen.attachments,
        "changes": seen.changes,
        "changes_since": seen.changes_since.map(Timestamp::to_rfc3339),
        "damaged": seen.damaged,
        "findings": findings(&seen.findings),
        "notes": findings(&seen.notes),
    })
}

/// Returns findings, each with its place and its text.
#[must_use]
pub fn findings(findings: &[Finding]) -> Value {
    let value = |finding: &Finding| {
        json!({
            "conversation": finding.conversation.as_ref().map(ToString::to_string),
            "sequence": finding.sequence.map(|sequence| sequence.0),
            "what": finding.what,
        })
    };
    findings.iter().map(value).collect()
}

/// Returns a conversation's entry in the catalogue: the shape of `list` and of the head of `show`.
///
/// # Errors
/// [`Error::Corrupt`] if the conversation's tags are not JSON.
pub fn conversation(conversation: &Conversation) -> Result<Value> {
    let tags: Value = serde_json::from_str(&conversation.tags)
        .map_err(|_| Error::Corrupt { what: format!("the tags of {}", conversation.id) })?;
    Ok(json!({
        "id": conversation.id.as_str(),
        "title": conversation.title,
        "status": conversation.status,
        "tags": tags,
        "event_count": conversation.event_count,
        "payload_bytes": conversation.payload_bytes,
        "created_at": conversation.created_at.to_rfc3339(),
        "updated_at": conversation.updated_at.to_rfc3339(),
        "first_timestamp": conversation.first_timestamp,
        "last_timestamp": conversation.last_timestamp,
        "leaf_event_id": conversation.leaf_event_id,
        "head_is_empty": conversation.head_is_empty,
        "parent": conversation.parent,
        "forked_from": conversation.forked_from,
        "forked_at": conversation.forked_at,
        "head_hash": conversation.chain_head.to_hex(),
        "archived_at": conversation.archived_at.map(Timestamp::to_rfc3339),
    }))
}

/// Adds the facts of a conversation to its value.
pub(crate) fn add_facts(value: &mut Value, facts: &ConversationFacts) {
    value["workspace"] = json!(facts.workspace);
    value["source"] = json!(facts.source);
    value["model"] = json!(facts.model);
    value["started_by"] = json!(facts.started_by);
}

/// Returns a page of at most `limit` hits, and the start of the next page: `{"hits":[...],"next":position|null}`.
#[must_use]
pub fn hits(hits: &[Hit], limit: usize) -> Value {
    let next = (hits.len() == limit).then(|| hits.last().map(|hit| hit.position.0)).flatten();
    let hit = |hit: &Hit| {
        let marks: Vec<[usize; 2]> = hit.marks.iter().map(|mark| [mark.start, mark.end]).collect();
        json!({
            "conversation": hit.conversation.as_str(),
            "position": hit.position.0,
            "sequence": hit.sequence.0,
            "event_id": hit.event_id,
            "kind": hit.kind,
            "timestamp": hit.timestamp,
            "snippet": hit.snippet,
            "marks": marks,
        })
    };
    json!({"hits": hits.iter().map(hit).collect::<Value>(), "next": next})
}

/// Returns the statistics of the whole file, with the usage of its models.
#[must_use]
pub fn statistics(statistics: &Statistics, usage_totals: &[UsageTotal]) -> Value {
    let object = |pairs: &[(String, u64)]| -> Value {
        pairs.iter().map(|(name, number)| (name.clone(), json!(number))).collect()
    };
    let moment = |time: Option<i64>| time.map(|time| Timestamp(time).to_rfc3339());
    json!({
        "conversations": statistics.conversations,
        "events": statistics.events,
        "payload_bytes": statistics.payload_bytes,
        "attachments": statistics.attachments,
        "attachment_bytes": statistics.attachment_bytes,
        "content_bytes": statistics.content_bytes,
        "archived_conversations": statistics.archived_conversations,
        "archived_payload_bytes": statistics.archived_payload_bytes,
        "archived_bytes": statistics.archived_bytes,
        "file_bytes": statistics.file_bytes,
        "free_bytes": statistics.free_bytes,
        "first_created_at": moment(statistics.first_created_at),
        "last_updated_at": moment(statistics.last_updated_at),
        "statuses": object(&statistics.statuses),
        "kinds": object(&statistics.kinds),
        "tools": object(&statistics.tools),
        "usage": usage_totals.iter().map(usage).collect::<Value>(),
    })
}

/// Returns the tokens, cost and latency of one usage id of one model.
#[must_use]
pub fn usage(usage: &UsageTotal) -> Value {
    json!({
        "usage_id": usage.usage_id,
        "model": usage.model,
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "cost": usage.cost,
        "estimated_cost": usage.estimated_cost,
        "tokens_without_cost": usage.tokens_without_cost,
        "latency_seconds": usage.latency_seconds,
        "calls": usage.calls,
    })
}

/// Returns the tokens and cost of a conversation together with its sub-agents: `{"sub_agents":3,"usage":[...]}`. `null` without
/// sub-agents.
#[cfg(feature = "cli")]
#[must_use]
pub fn family_usage(family: Option<&FamilyUsage>) -> Value {
    family.map_or(Value::Null, |family| {
        json!({"sub_agents": family.sub_agents, "usage": family.usage.iter().map(usage).collect::<Value>()})
    })
}

/// Returns figures that are grouped and added up: `{"rows":[...]}`.
#[must_use]
pub fn shares(shares: &[Share]) -> Value {
    let row = |share: &Share| {
        json!({
            "name": share.name,
            "title": share.title,
            "conversations": share.conversations,
            "events": share.events,
            "payload_bytes": share.payload_bytes,
            "attachment_bytes": share.attachment_bytes,
            "archived_bytes": share.archived_bytes,
            "stored_bytes": share.stored_bytes,
        })
    };
    json!({"rows": shares.iter().map(row).collect::<Value>()})
}

/// Returns an administrative act.
#[must_use]
pub fn act(act: &Act) -> Value {
    json!({
        "number": act.number.0,
        "at": act.at.to_rfc3339(),
        "act": act.act,
        "conversation": act.conversation,
        "reason": act.reason,
        "os_user": act.actor.user,
        "host": act.actor.host,
        "program": act.actor.program,
        "detail": serde_json::from_str::<Value>(&act.detail).unwrap_or_default(),
        "receipt_count": act.receipts,
        "hash": act.hash.to_hex(),
    })
}

/// Returns the receipt of one thing that an act removed or changed.
#[must_use]
pub fn receipt(receipt: &Receipt) -> Value {
    json!({
        "part": receipt.part,
        "name": receipt.name,
        "sequence": receipt.sequence,
        "sha256_before": receipt.digest.map(Digest::to_hex),
        "sha256_after": receipt.new_digest.map(Digest::to_hex),
    })
}
