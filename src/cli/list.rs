//! `annals list`: which conversations there are.

use serde_json::json;

use super::arguments::List;
use super::print::{Output, count, one_line, plural, row, table, time};
use super::{DONE, Place};
use crate::error::{Error, Result};
use crate::ids::Timestamp;
use crate::store::{ConversationFilter, Store};

pub(super) fn run(place: &Place<'_>, command: &List, output: &Output) -> Result<u8> {
    let store = place.read()?;
    let filter = filter(&store, command)?;
    let after = command.after.as_deref().map(|prefix| store.resolve(prefix)).transpose()?;
    let page = store.conversations(&filter, command.order(), after.as_ref(), command.limit)?;
    let total = store.count_conversations(&filter)?;
    if output.json {
        let conversations =
            page.conversations.iter().map(crate::audit::json::conversation).collect::<Result<Vec<_>>>()?;
        output.value(&json!({
            "conversations": conversations,
            "total": total,
            "next": page.next.as_ref().map(ToString::to_string),
        }))?;
        return Ok(DONE);
    }
    let mut rows = table(&["id", "status", "events", "updated (UTC)", "title"], &[2]);
    for conversation in &page.conversations {
        rows.add_row(row([
            conversation.id.to_string(),
            one_line(&conversation.status, 24),
            count(conversation.event_count),
            time(conversation.updated_at),
            one_line(conversation.title.as_deref().unwrap_or_default(), 60),
        ]));
    }
    if !page.conversations.is_empty() {
        output.line(rows.trim_fmt())?;
    }
    let shown = page.conversations.len() as u64;
    output.remark(match page.next {
        Some(next) => {
            format!("\n{} of {}; the next ones: --after {next}", count(shown), plural(total, "conversation"))
        }
        None => format!("\n{}", plural(total, "conversation")),
    });
    Ok(DONE)
}

fn filter(store: &Store, command: &List) -> Result<ConversationFilter> {
    let parent = command.parent.as_deref().map(|prefix| store.resolve(prefix)).transpose()?;
    Ok(ConversationFilter {
        statuses: command.status.clone(),
        tags: tags(&command.tag),
        title: command.title.clone(),
        updated_from: command.since.as_deref().map(moment).transpose()?,
        updated_before: command.before.as_deref().map(moment).transpose()?,
        parent,
        ..ConversationFilter::default()
    })
}

/// Tags as a person types them: `team`, or `team=core`.
pub(super) fn tags(typed: &[String]) -> Vec<(String, Option<String>)> {
    let tag = |tag: &String| match tag.split_once('=') {
        Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
        None => (tag.clone(), None),
    };
    typed.iter().map(tag).collect()
}

/// A time as a person types it: a date, or a date and a time of day; without a zone it is UTC.
pub(super) fn moment(text: &str) -> Result<Timestamp> {
    Timestamp::parse_typed(text).ok_or_else(|| Error::NotATime { text: text.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_may_be_a_date() {
        assert_eq!(moment("2026-01-31").unwrap(), moment("2026-01-31T00:00:00Z").unwrap());
        assert_eq!(moment("2026-01-31 12:30").unwrap(), moment("2026-01-31T12:30:00Z").unwrap());
        assert!(matches!(moment("yesterday"), Err(Error::NotATime { .. })));
    }
}
