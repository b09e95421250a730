//! Compares a file with the model through all reading functions of the store.

use annals::store::{ConversationFilter, EventQuery, Order, SearchFilter, StoredEvent};
use annals::{Sequence, Store, Timestamp};
use serde_json::Value;

use super::call::id;
use super::fold::{self, Call, Seen};
use super::model::{Event, File, State, Talk};

/// The result of a comparison. The error describes the difference.
pub type Checked = Result<(), String>;

/// Returns an error that names `what` unless `actual` equals `expected`.
pub fn same<T: PartialEq + std::fmt::Debug>(what: &str, actual: T, expected: T) -> Checked {
    if actual == expected { Ok(()) } else { Err(format!("{what}: {actual:?}\n  not: {expected:?}")) }
}

/// Returns a function that describes the error of a call that should not have failed.
pub fn failed(what: &str) -> impl FnOnce(annals::Error) -> String + '_ {
    move |error| format!("{what}: {error:?}")
}

/// Compares all conversations whose names begin with `prefix`. If the model knows the whole file, compares the head of
/// the log and the counts, too.
pub fn compare(store: &Store, file: &File, prefix: &str) -> Checked {
    let mut names = Vec::new();
    let mut after = None;
    loop {
        let page = store
            .conversations(&ConversationFilter::default(), Order::Created, after.as_ref(), 3)
            .map_err(failed("listing"))?;
        names.extend(page.conversations.into_iter().map(|one| one.id.to_string()));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    names.retain(|name| name.starts_with(prefix));
    names.sort();
    same("the conversations", names.iter().collect::<Vec<_>>(), file.talks.keys().collect())?;
    for (name, talk) in &file.talks {
        compare_talk(store, name, talk, file.is_alone).map_err(|what| format!("{name}: {what}"))?;
    }
    if file.is_alone {
        same("the head", store.last_position().map_err(failed("the head"))?.0, file.head)?;
        let figures = store.statistics().map_err(failed("counting"))?;
        let events: usize = file.talks.values().map(|talk| talk.events.len()).sum();
        same("the counts", (figures.conversations, figures.events), (names.len() as u64, events as u64))?;
    }
    Ok(())
}

/// Compares one conversation. If the model does not have it, the store must not have it either.
pub fn look(store: &Store, file: &File, name: &str) -> Checked {
    let found = match file.talks.get(name) {
        Some(talk) => compare_talk(store, name, talk, file.is_alone),
        None => match store.conversation(&id(name)) {
            Err(annals::Error::UnknownConversation { .. }) => Ok(()),
            other => Err(format!("it should not exist: {other:?}")),
        },
    };
    found.map_err(|what| format!("{name}: {what}"))
}

fn compare_talk(store: &Store, name: &str, talk: &Talk, positions: bool) -> Checked {
    let stored = compare_events(store, name, talk, positions)?;
    let seen: Vec<Seen> = stored.iter().map(|event| Seen::read(event.id.as_str(), &event.payload)).collect();
    compare_row(store, name, talk, &stored, &seen)?;
    compare_state(store, name, talk)?;
    compare_attachments(store, name, talk)?;
    compare_transcript(store, name, &seen)?;
    compare_calls(store, name, &seen)?;
    compare_figures(store, name, talk, &seen)?;
    let tree = store.tree(&id(name)).map_err(failed("the tree"))?;
    let leaf = tree.resolve_leaf(talk.leaf.as_deref(), talk.head_is_empty);
    let branch = tree.branch(leaf.as_deref()).map_err(|error| format!("the branch: {error:?}"))?;
    same("the live branch", branch, talk.live_branch())
}

fn compare_events(
    store: &Store,
    name: &str,
    talk: &Talk,
    positions: bool,
) -> Result<Vec<StoredEvent>, String> {
    let mut query = EventQuery::default();
    let mut stored = Vec::new();
    loop {
        let page = store.events(&id(name), &query, 5).map_err(failed("reading events"))?;
        stored.extend(page.events);
        match page.next {
            Some(next) => query.from = Some(next),
            None => break,
        }
    }
    let ids: Vec<&str> = stored.iter().map(|event| event.id.as_str()).collect();
    same("the events", ids, talk.events.iter().map(Event::id).collect())?;
    for (sequence, (stored, event)) in stored.iter().zip(&talk.events).enumerate() {
        same("a sequence", stored.sequence.0, sequence as u64)?;
        if positions {
            same("a position", stored.position.0, event.position)?;
        }
        compare_payload(stored, event)?;
    }
    if stored.windows(2).any(|pair| pair[0].position >= pair[1].position) {
        return Err("positions do not ascend".into());
    }
    Ok(stored)
}

/// Compares a payload with the appended payload, or checks what redaction left of it.
pub fn compare_payload(stored: &StoredEvent, event: &Event) -> Checked {
    if !event.is_redacted {
        return same("a payload", stored.payload.as_str(), event.event.payload());
    }
    let (old, new) = (Seen::read(event.id(), event.event.payload()), Seen::read(event.id(), &stored.payload));
    same("the kind of a redacted event", new.kind(), old.kind())?;
    same("the parent of a redacted event", &new.body["parent_id"], &old.body["parent_id"])?;
    let words = old.words();
    match words.split_whitespace().find(|word| stored.payload.contains(*word)) {
        Some(word) => Err(format!("{word:?} should have been taken out of {}", stored.payload)),
        None => Ok(()),
    }
}

fn compare_row(store: &Store, name: &str, talk: &Talk, stored: &[StoredEvent], seen: &[Seen]) -> Checked {
    let row = store.conversation(&id(name)).map_err(failed("its row"))?;
    same("event_count", row.event_count, talk.events.len() as u64)?;
    let bytes: usize = stored.iter().map(|event| event.payload.len()).sum();
    same("payload_bytes", row.payload_bytes, bytes as u64)?;
    same("HEAD", (row.leaf_event_id.clone(), row.head_is_empty), (talk.leaf.clone(), talk.head_is_empty))?;
    same("the status", &row.status, &talk.status)?;
    same("is_titled", row.is_titled, talk.title.is_some())?;
    same("the title", row.title, talk.title.clone().or_else(|| fold::first_message(seen)))?;
    let tags: Value = serde_json::from_str(&row.tags).map_err(|error| error.to_string())?;
    same("the tags", tags, talk.tags())?;
    same("the parent", row.parent, talk.parent.clone())?;
    same(
        "the fork",
        (row.forked_from, row.forked_at),
        talk.fork.clone().map_or((None, None), |(from, at)| (Some(from), at)),
    )?;
    same("archived", row.archived_at.is_some(), talk.archived.is_some())?;
    let archived = store.retention().archived(&id(name)).map_err(failed("what is archived"))?;
    same("archived events", archived.events, talk.archived.unwrap_or(0) as u64)?;
    let time = |event: Option<&Event>| event.and_then(|event| event.event.envelope().timestamp.clone());
    let (first, last) = (time(talk.events.first()), time(talk.events.last()));
    same("the times, as written", (&row.first_timestamp, &row.last_timestamp), (&first, &last))?;
    if let (Some(first), Some(last)) = (first, last) {
        let times = (Timestamp::parse(&first), Timestamp::parse(&last));
        same("the times", (Some(row.created_at), Some(row.updated_at)), times)?;
    }
    let mut kinds = store.count_kinds(&id(name)).map_err(failed("counting kinds"))?;
    kinds.sort();
    let mut expected = std::collections::BTreeMap::new();
    seen.iter().for_each(|event| *expected.entry(event.kind().to_owned()).or_insert(0) += 1);
    same("the kinds", kinds, expected.into_iter().collect())?;
    let children = store.children(&id(name)).map_err(failed("its sub-agents"))?;
    match talk.parent.as_ref() {
        Some(parent) if children.iter().any(|child| child.as_str() == parent) => {
            Err("a parent is its own child's child".into())
        }
        _ => Ok(()),
    }
}

fn compare_state(store: &Store, name: &str, talk: &Talk) -> Checked {
    let present = store.base_state(&id(name)).map_err(failed("its base state"))?;
    let (Some(present), Some(state)) = (&present, &talk.state) else {
        return same("whether there is a base state", present.is_some(), talk.state.is_some());
    };
    same("the version", present.version.0, state.version)?;
    same("HEAD in the base state", present.document.leaf(), (talk.leaf.clone(), talk.head_is_empty))?;
    same("the base state", read_fields(present.document.as_str())?, fields(&state.fields))?;
    for length in 0..=talk.events.len() {
        // A change after `length` events belongs to the state as of sequence `length - 1`.
        let Some(sequence) = length.checked_sub(1) else { continue };
        let (version, then) = state_at(state, length);
        let past =
            store.base_state_at(&id(name), Sequence(sequence as u64)).map_err(failed("a past base state"))?;
        let past = past.ok_or("a past base state is missing")?;
        same("a past version", past.version.0, version)?;
        same("a past base state", read_fields(past.document.as_str())?, then)?;
    }
    Ok(())
}

fn fields(fields: &std::collections::BTreeMap<String, Value>) -> Value {
    Value::Object(fields.clone().into_iter().collect())
}

/// Returns the fields of a document without those of HEAD.
fn read_fields(document: &str) -> Result<Value, String> {
    let mut value: Value = serde_json::from_str(document).map_err(|error| format!("{error}: {document}"))?;
    if let Some(fields) = value.as_object_mut() {
        fields.remove("leaf_event_id");
        fields.remove("head_is_empty");
    }
    Ok(value)
}

/// Returns the version and the fields at the time when the conversation had `length` events.
fn state_at(state: &State, length: usize) -> (u64, Value) {
    let count = state.history.iter().take_while(|(events, _)| *events <= length).count();
    let then = count.checked_sub(1).map(|last| fields(&state.history[last].1));
    (count as u64, then.unwrap_or_else(|| Value::Object(Default::default())))
}

fn compare_attachments(store: &Store, name: &str, talk: &Talk) -> Checked {
    let attachments = store.attachments(&id(name)).map_err(failed("its attachments"))?;
    let paths: Vec<&String> = attachments.iter().map(|attachment| &attachment.path).collect();
    same("the attachments", paths, talk.attachments.keys().collect())?;
    for (path, content) in &talk.attachments {
        let mut stored = Vec::new();
        store.read_attachment(&id(name), path, &mut stored).map_err(failed("reading an attachment"))?;
        if stored != *content {
            return Err(format!("the attachment {path} has another content"));
        }
    }
    Ok(())
}

fn compare_transcript(store: &Store, name: &str, seen: &[Seen]) -> Checked {
    let lines = store.transcript(&id(name), Sequence(0), 1000).map_err(failed("the transcript"))?;
    same("the transcript's length", lines.len(), seen.len())?;
    for (sequence, (line, event)) in lines.into_iter().zip(seen).enumerate() {
        same(
            "a line's place",
            (line.sequence.0, line.event_id.as_str()),
            (sequence as u64, event.id.as_str()),
        )?;
        same("a line", (line.role.as_str().to_owned(), line.tool, line.text), event.line())?;
    }
    Ok(())
}

fn compare_calls(store: &Store, name: &str, seen: &[Seen]) -> Checked {
    let calls = store.tool_calls(&id(name), Sequence(0), 1000).map_err(failed("the tool calls"))?;
    let call = |call: annals::store::ToolCall| Call {
        sequence: call.sequence.0,
        action: call.action_id,
        tool: call.tool,
        call: call.tool_call_id,
        command: call.command,
        path: call.path,
        outcome: call.outcome.as_str().to_owned(),
        exit_code: call.exit_code,
        result: call.result_id,
    };
    same("the tool calls", calls.into_iter().map(call).collect(), fold::calls(seen))
}

fn compare_figures(store: &Store, name: &str, talk: &Talk, seen: &[Seen]) -> Checked {
    let tasks = store.tasks(&id(name)).map_err(failed("the tasks"))?;
    let tasks: Vec<[String; 3]> =
        tasks.into_iter().map(|task| [task.title, task.notes, task.status.as_str().to_owned()]).collect();
    same("the tasks", tasks, fold::tasks(seen))?;
    let stats = talk.state.as_ref().and_then(|state| state.fields.get("stats"));
    let usage = store.usage(Some(&id(name))).map_err(failed("the usage"))?;
    let usage: Vec<_> =
        usage.iter().map(|one| (one.prompt_tokens, one.completion_tokens, one.cost.unwrap_or(0.0))).collect();
    same("the usage", usage, fold::usage(seen, stats).into_iter().collect())
}

/// Compares the hits of a search in one conversation or in all.
pub fn search(store: &Store, file: &File, word: &str, talk: Option<&String>) -> Checked {
    let filter = SearchFilter::default().conversation(talk.map(|talk| id(talk)));
    let hits = match (store.search(word, &filter, 1000, &mut |_| ()), talk) {
        (Ok(hits), _) => hits,
        (Err(annals::Error::UnknownConversation { .. }), Some(talk)) if !file.talks.contains_key(talk) => {
            return Ok(());
        }
        (Err(error), _) => return Err(format!("searching: {error:?}")),
    };
    let mut expected = Vec::new();
    for (name, known) in file.talks.iter().filter(|(name, _)| talk.is_none_or(|talk| talk == *name)) {
        for (sequence, event) in known.events.iter().enumerate().filter(|(_, event)| !event.is_redacted) {
            let words = Seen::read(event.id(), event.event.payload()).words();
            if words.split(|c: char| !c.is_alphanumeric()).any(|one| one == word) {
                expected.push((event.position, name.clone(), sequence as u64));
            }
        }
    }
    expected.sort_by_key(|one| std::cmp::Reverse((one.0, one.2)));
    let places = expected.into_iter().map(|(_, name, sequence)| (name, sequence)).collect();
    let hits: Vec<_> = hits.into_iter().map(|hit| (hit.conversation.to_string(), hit.sequence.0)).collect();
    same(&format!("what has the word {word}"), hits, places)
}

/// Checks that the whole file is sound, and that its projections match the log.
pub fn sound(store: &Store) -> Checked {
    let seen = store.audit().verify(None, &mut |_| ()).map_err(failed("verifying"))?;
    same("what verifying finds", seen.findings, Vec::new())?;
    let seen = store.audit().verify_projections(&mut |_| ()).map_err(failed("verifying projections"))?;
    same("what verifying projections finds", seen.findings, Vec::new())?;
    same("the structure", store.maintenance().check_structure().map_err(failed("the structure"))?, Vec::new())
}
