//! What a store holds, told as text: everything but times and what differs from one run to the next.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use annals::store::{EventQuery, Order};
use annals::{Error, Options, Store};

/// Options under which no thread moves projections unasked, and one connection reads, so that one run is as the next.
pub fn still() -> Options {
    // A disk that fails for good is waited for as long as a lock is: where every call fails in turn, ten seconds are long.
    let busy_timeout = Duration::from_secs(3);
    Options { follow_projections: false, pool_size: 1, busy_timeout, ..Options::default() }
}

/// What a store holds.
pub fn facts(store: &Store) -> Result<String, Error> {
    let mut text = String::new();
    let mut after = None;
    loop {
        let page = store.conversations(&Default::default(), Order::Created, after.as_ref(), 1000)?;
        let mut conversations = page.conversations;
        conversations.sort_by(|one, other| one.id.cmp(&other.id));
        for row in conversations {
            let id = row.id;
            _ = writeln!(
                text,
                "{id} {:?} {} {} {} {} {:?} {} {:?} {:?} {:?} {} {}",
                row.title,
                row.status,
                row.tags,
                row.event_count,
                row.payload_bytes,
                row.leaf_event_id,
                row.head_is_empty,
                row.parent,
                row.forked_from,
                row.forked_at,
                row.head_hash,
                row.archived_at.is_some(),
            );
            if let Some(state) = store.base_state(&id)? {
                _ = writeln!(text, "  state {:?} {}", state.version, state.document.as_str());
            }
            let mut query = EventQuery::default();
            loop {
                let page = store.events(&id, &query, 1000)?;
                for event in page.events {
                    let digest = hash(&event.payload);
                    _ = writeln!(
                        text,
                        "  {} {} {} {} {digest:x}",
                        event.position.0, event.sequence.0, event.id, event.kind
                    );
                }
                match page.next {
                    Some(next) => query.from = Some(next),
                    None => break,
                }
            }
            for file in store.attachments(&id)? {
                _ = writeln!(text, "  file {} {} {}", file.path, file.bytes, file.digest);
            }
            _ = writeln!(text, "  origin {}", store.origin(&id)?.is_some());
            for problem in store.problems(&id)? {
                _ = writeln!(text, "  problem {problem:?}");
            }
            _ = writeln!(text, "  archived {:?}", store.archived(&id)?);
        }
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    for act in store.admin_log(0, 10_000)? {
        _ = writeln!(text, "act {} {} {:?} {:?}", act.number, act.act, act.conversation, act.reason);
    }
    for unfinished in store.unfinished()? {
        _ = writeln!(text, "unfinished {:?}", unfinished.conversation);
    }
    Ok(text)
}

fn hash(text: &str) -> u64 {
    // FNV-1a.
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// What the file at `path` holds, opened as a program would that comes after a crash. Before anything else it is held
/// to be sound: every chain, every projection against a rebuild, and one more append.
pub fn examine(path: &Path) -> Result<String, String> {
    let told = |doing: &'static str| move |error: Error| format!("{doing}: {error:?}");
    let store = Store::open_with(path, &still()).map_err(told("opening"))?;
    let text = facts(&store).map_err(told("reading"))?;
    assert_sound(&store)?;
    append_after(&store, "the rig looked").map_err(told("one more append"))?;
    Ok(text)
}

/// Says what is not sound.
pub fn assert_sound(store: &Store) -> Result<(), String> {
    let told = |doing: &'static str| move |error: Error| format!("{doing}: {error:?}");
    let seen = store.verify(None, &mut |_| ()).map_err(told("verifying"))?;
    if !seen.findings.is_empty() {
        return Err(format!("verify finds {:?}", seen.findings));
    }
    let seen = store.verify_projections(&mut |_| ()).map_err(told("verifying projections"))?;
    if !seen.findings.is_empty() || !seen.notes.is_empty() {
        return Err(format!("projections are not what the log says: {:?} {:?}", seen.findings, seen.notes));
    }
    Ok(())
}

/// Appends to a conversation of its own, and reads it again.
pub fn append_after(store: &Store, id: &str) -> Result<(), Error> {
    let id = annals::ConversationId::new(id)?;
    let event = crate::workload::said("after", "and on it goes");
    let place = store.append(&id, annals::Expected::Any, std::slice::from_ref(&event))?;
    let read = store.event(&id, &annals::EventId::new("after")?)?;
    assert_eq!((read.sequence, &*read.payload), (place[0].sequence, event.payload()));
    Ok(())
}

/// Whether the facts tell of an event, named as conversation and id.
pub fn has_event(facts: &str, event: &str) -> bool {
    let Some((conversation, id)) = event.split_once(' ') else { return false };
    let mut within = false;
    facts.lines().any(|line| {
        if !line.starts_with(' ') {
            within = line.split(' ').next() == Some(conversation);
        }
        within && line.starts_with("  ") && line.split(' ').nth(4) == Some(id)
    })
}
