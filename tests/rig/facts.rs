//! The content of a store as text, without times and without anything that differs between two runs.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use annals::store::{EventQuery, Order};
use annals::{Error, Options, Store};

/// Options without the thread that moves projections and with one reading connection, so that all runs are alike.
pub fn without_projector() -> Options {
    // The store waits for a failing disk as long as for a lock. The rig lets every call fail in turn, so ten seconds
    // would be too long.
    let busy_timeout = Duration::from_secs(3);
    Options::default().follow_projections(false).pool_size(1).busy_timeout(busy_timeout)
}

/// Returns the content of a store as text.
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
                row.chain_head,
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
            _ = writeln!(text, "  archived {:?}", store.retention().archived(&id)?);
        }
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    for act in store.audit().admin_log(annals::store::ActNumber::START, 10_000)? {
        _ = writeln!(text, "act {} {} {:?} {:?}", act.number, act.act, act.conversation, act.reason);
    }
    for unfinished in store.maintenance().unfinished()? {
        _ = writeln!(text, "unfinished {:?}", unfinished.conversation);
    }
    Ok(text)
}

fn hash(text: &str) -> u64 {
    // FNV-1a.
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Opens the file at `path` like the next program after a crash, and returns its content as text. An error if the file
/// is not sound: a chain, a projection that differs from a rebuild, or one more append that fails.
pub fn examine(path: &Path) -> Result<String, String> {
    let failed = |action: &'static str| move |error: Error| format!("{action}: {error:?}");
    let store = Store::open_with(path, &without_projector()).map_err(failed("opening"))?;
    let text = facts(&store).map_err(failed("reading"))?;
    assert_sound(&store)?;
    append_after(&store, "the rig looked").map_err(failed("one more append"))?;
    Ok(text)
}

/// Returns an error that names what is not sound.
pub fn assert_sound(store: &Store) -> Result<(), String> {
    let failed = |action: &'static str| move |error: Error| format!("{action}: {error:?}");
    let seen = store.audit().verify(None, &mut |_| ()).map_err(failed("verifying"))?;
    if !seen.findings.is_empty() {
        return Err(format!("verify finds {:?}", seen.findings));
    }
    let seen = store.audit().verify_projections(&mut |_| ()).map_err(failed("verifying projections"))?;
    if !seen.findings.is_empty() || !seen.notes.is_empty() {
        return Err(format!("projections are not what the log says: {:?} {:?}", seen.findings, seen.notes));
    }
    Ok(())
}

/// Appends an event to a new conversation `id`, and reads it back.
pub fn append_after(store: &Store, id: &str) -> Result<(), Error> {
    let id = annals::ConversationId::new(id)?;
    let event = crate::workload::user_message("after", "and on it goes");
    let place = store.append(&id, annals::Expected::Any, std::slice::from_ref(&event))?;
    let read = store.event(&id, &annals::EventId::new("after")?)?;
    assert_eq!((read.sequence, &*read.payload), (place[0].sequence, event.payload()));
    Ok(())
}

/// Returns whether the text of [`facts`] has an event. `event` is the conversation and the id, separated by a space.
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
