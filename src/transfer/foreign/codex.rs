//! Translates Codex's session files: `{"timestamp", "type", "payload"}` a line, or the bare items of versions before
//! September 2025.
//!
//! Items of the model's history become events. `event_msg` lines repeat them for a screen and are kept as they are.
//! Two other records change the history: the `event_msg` of type `thread_rolled_back` takes turns back, and `compacted`
//! forgets it, and has a `replacement_history`. Source: the protocol's types in openai/codex
//! (`codex-rs/protocol/src`), session files of 2025 and 2026.

use std::borrow::Cow;
use std::path::Path;

use super::failure::Failure;
use super::importer::{ForeignImporter, Lines, Records};
use super::responses::{self, Item};
use super::translation::{About, Arriving, Memory, Translation, Translator, common, place_id};
use crate::chain::Digest;
use crate::event::foreign::{ForeignFormat, ForeignUsage};
use crate::event::{Condensation, Content, Event, InterruptEvent, Source};
use crate::ids::EventId;
use crate::json::{Object, Raw};
use crate::untrusted;

pub(super) static IMPORTER: ForeignImporter = ForeignImporter {
    format: ForeignFormat::Codex,
    description: "Session files of Codex",
    records: Records::Lines(Lines { is_record, is_beginning, has_folder: false, title }),
    translator: || Box::new(Codex::default()),
};

fn is_record(members: &Object<'_>) -> bool {
    let has = |member: &str| members.get(member).is_some();
    match members.text("type").as_deref() {
        Some("session_meta" | "response_item" | "event_msg" | "turn_context" | "compacted") => {
            members.get("payload").is_some_and(Raw::is_object) && has("timestamp")
        }
        // Before September 2025, the first line was the description of the session.
        None => has("id") && has("timestamp") && has("instructions"),
        Some(_) => false,
    }
}

fn is_beginning(text: &str) -> bool {
    text.contains("\"type\":\"session_meta\"") || text.contains("\"type\":\"response_item\"")
}

/// The folders of session files. The list of names is beside them.
const FOLDERS: &[&str] = &["sessions", "archived_sessions"];

/// The list of the names of threads: `{"id", "thread_name", "updated_at"}` a line, the newest last.
const NAMES: &str = "session_index.jsonl";

/// The largest list of names that is read, in bytes.
const NAMES_BYTES_MAX: u64 = 64 << 20;

/// Returns the name that a person or Codex gave a thread later.
fn title(path: &Path, id: &str) -> Option<String> {
    let is_of_sessions = |folder: &&Path| {
        folder.file_name().and_then(|name| name.to_str()).is_some_and(|name| FOLDERS.contains(&name))
    };
    let names = path.ancestors().find(is_of_sessions)?.with_file_name(NAMES);
    let text = untrusted::read_text(&names, NAMES_BYTES_MAX).ok()?;
    text.lines().rev().filter(|line| line.contains(id)).find_map(|line| {
        let entry = Raw::parse(line).ok().filter(|entry| entry.is_object())?.to_object();
        let name = entry.text("thread_name").filter(|name| !name.trim().is_empty())?;
        (entry.text("id")? == id).then(|| name.into_owned())
    })
}

/// The beginnings of user messages that Codex itself has written.
const PROGRAM_PREFIXES: &[&str] = &[
    "<environment_context>",
    "<user_instructions>",
    "<INSTRUCTIONS>",
    "# AGENTS.md instructions",
    "<turn_aborted>",
    "<user_shell_command>",
    "<subagent_notification>",
    "<skill>",
];

/// The types of lines without a counterpart. Others are not known.
const KNOWN: &[&str] = &["event_msg", "token_usage_record", "turn_context", "world_state"];

/// Returns the failure that an event tells.
fn failure(event: &Object<'_>) -> Failure {
    let info = event.get("codex_error_info").filter(|info| !info.is_null());
    let text = |text: Option<Cow<'_, str>>| text.map(Cow::into_owned);
    // Either a name, or a name with a status.
    let (name, details) = match info.filter(|info| info.is_object()).and_then(|info| info.members().next()) {
        Some((name, details)) => (Some(name.into_owned()), Failure::read(details)),
        None => (text(info.and_then(Raw::as_text)), None),
    };
    Failure {
        code: name,
        status: details.and_then(|details| details.status),
        detail: text(event.text("message")).unwrap_or_default(),
    }
}

#[derive(Default)]
struct Codex {
    memory: Memory,
    about: About,
    /// The last event of the history.
    last: Option<EventId>,
    /// For each turn that a person began: the event that it follows.
    turns: Vec<Option<EventId>>,
    model: String,
    /// The session's usage so far.
    total: ForeignUsage,
    /// The thread in which the records began that are being read: a fork's file repeats those of its original.
    root: String,
    /// The last call or text of the model.
    said: String,
    /// The last failure that a record reports.
    failure: Option<Failure>,
    /// The event of the last failure, and where HEAD stays.
    failed: Option<(EventId, Option<EventId>)>,
}

impl Translator for Codex {
    fn translate(&mut self, arriving: &Arriving<'_>, record: Raw<'_>) -> Translation {
        let members = record.to_object();
        let timestamp = members.text("timestamp").map(|time| time.into_owned());
        let payload = members.get("payload").filter(|payload| payload.is_object());
        let mut translation = match (members.text("type").as_deref(), payload) {
            (Some("response_item"), Some(item)) => {
                let mut translation = self.item(arriving, item.to_object(), timestamp.as_deref(), 1);
                translation.name = format!("response_item.{}", translation.name);
                translation
            }
            (Some("event_msg"), Some(event)) if !arriving.is_apart() => {
                let event = event.to_object();
                let act = self.act(arriving, &event, timestamp.as_deref());
                let mut translation = self.event(&event);
                translation.events.extend(act);
                self.memory.follow(&translation.events);
                translation
            }
            (Some("session_meta"), Some(meta)) => {
                self.meta(&meta.to_object());
                Translation::unread("session_meta")
            }
            (Some("event_msg"), Some(event)) => self.event(&event.to_object()),
            (Some("compacted"), Some(compacted)) => self.compacted(arriving, compacted, timestamp.as_deref()),
            (Some("turn_context"), Some(context)) => {
                if let Some(model) = context.get("model").and_then(Raw::as_text) {
                    self.model = model.into_owned();
                }
                Translation::unread("turn_context")
            }
            (Some(kind), Some(_)) => {
                Translation { is_unknown: !KNOWN.contains(&kind), ..Translation::unread(kind) }
            }
            // Before September 2025, a line was the item itself, and the first line described the session.
            (Some(_), None) => self.item(arriving, members, timestamp.as_deref(), 1),
            (None, _) if members.get("id").is_some() && members.get("timestamp").is_some() => {
                self.meta(&members);
                Translation::unread("session_meta")
            }
            (None, _) if members.get("role").is_some() => {
                self.item(arriving, members, timestamp.as_deref(), 1)
            }
            (None, _) if members.get("record_type").is_some() => Translation::unread("state"),
            (None, _) => Translation::broken("record", "it has no type"),
        };
        translation.timestamp = timestamp;
        translation
    }

    fn about(&self, name: &str) -> About {
        let mut about = self.about.clone();
        // rollout-2026-01-31T12-00-00-<uuid>
        let in_name = || name.get(name.len().checked_sub(36)?..).map(str::to_owned);
        about.id = about.id.or_else(in_name).or_else(|| Some(name.to_owned()));
        about.head = self.head();
        about
    }

    fn memory(&mut self) -> &mut Memory {
        &mut self.memory
    }
}

impl Codex {
    fn meta(&mut self, meta: &Object<'_>) {
        let text = |member: &str| meta.text(member).map(|text| text.into_owned());
        if let Some(root) = text("forked_from_id").or_else(|| text("id")).or_else(|| text("session_id")) {
            self.root = root;
        }
        // A fork has its own `session_meta` first. The lines of the original follow, including its `session_meta`.
        if self.about.id.is_none() {
            self.about.id = text("id").or_else(|| text("session_id"));
            self.about.forked_from = text("forked_from_id");
            self.about.parent = meta
                .get("source")
                .and_then(|source| source.get("subagent")?.get("thread_spawn")?.get("parent_thread_id"))
                .and_then(Raw::as_text)
                .map(|id| id.into_owned());
        }
    }

    /// Returns the last event of the history that is no failure. HEAD is never at a failure.
    fn head(&self) -> Option<EventId> {
        match &self.failed {
            Some((failed, before)) if self.last.as_ref() == Some(failed) => before.clone(),
            _ => self.last.clone(),
        }
    }

    /// Translates one item of the history. It is the `part`-th event of its record.
    fn item(
        &mut self,
        arriving: &Arriving<'_>,
        members: Object<'_>,
        timestamp: Option<&str>,
        part: usize,
    ) -> Translation {
        let place = place_id(arriving);
        let wanted_id = if part == 1 { place.as_str().to_owned() } else { format!("{place}#{part}") };
        let item = Item {
            arriving,
            members,
            wanted_id: &wanted_id,
            timestamp,
            parent: self.last.as_ref(),
            machinery: PROGRAM_PREFIXES,
        };
        let translation = responses::translate(&mut self.memory, &item);
        for event in &translation.events {
            match event {
                Event::Message(message) if message.common.source == Source::User => {
                    self.turns.push(self.last.clone());
                }
                Event::Message(message) => {
                    let texts = message.llm_message.content.iter().filter_map(Content::as_text);
                    self.said = Digest::of(texts.collect::<String>().as_bytes()).to_hex();
                }
                Event::Action(action) => self.said = action.tool_call.id.to_string(),
                _ => {}
            }
            self.last = Some(event.id().clone());
        }
        self.memory.follow(&translation.events);
        translation
    }

    fn event(&mut self, event: &Object<'_>) -> Translation {
        let kind = event.text("type").unwrap_or_default();
        let mut translation = Translation::unread(format!("event_msg.{kind}"));
        match &*kind {
            "token_count" => translation.usage.extend(self.usage(event).map(|usage| (0, usage))),
            "thread_rolled_back" => {
                let turns = event.get("num_turns").and_then(Raw::as_i64).unwrap_or(0);
                for _ in 0..turns.clamp(0, self.turns.len() as i64) {
                    self.last = self.turns.pop().flatten();
                }
            }
            "thread_name_updated" => {
                let name = event.text("thread_name").or_else(|| event.text("name"));
                self.about.title = name.map(|name| name.into_owned()).or(self.about.title.take());
            }
            _ => {}
        }
        translation
    }

    /// Returns the event of what a person or the provider did beside the history: the work was interrupted, or it failed.
    fn act(&mut self, arriving: &Arriving<'_>, event: &Object<'_>, timestamp: Option<&str>) -> Option<Event> {
        let kind = event.text("type")?;
        let (failure, source) = match &*kind {
            "turn_aborted" | "task_aborted" => {
                let reason = event.text("reason");
                // A turn that another one has replaced goes on.
                (None, reason.is_none_or(|reason| reason == "interrupted").then_some(Source::User)?)
            }
            "error" | "stream_error" => (Some(failure(event)), Source::Environment),
            "task_complete" | "turn_complete" => {
                let error = event.get("error").filter(|error| error.is_object())?.to_object();
                (Some(failure(&error)), Source::Environment)
            }
            _ => return None,
        };
        // The end of a turn repeats why it failed.
        if failure.is_some() && std::mem::replace(&mut self.failure, failure.clone()) == failure {
            return None;
        }
        let id = self.memory.id(place_id(arriving).as_str(), arriving);
        let common = common(id, timestamp, source, self.last.as_ref());
        let head = self.head();
        self.last = Some(common.id.clone());
        Some(match failure {
            Some(failure) => {
                self.failed = Some((common.id.clone(), head));
                failure.into_event(common)
            }
            None => InterruptEvent::new(common).into(),
        })
    }

    /// Returns the usage of the session since its last report. It is computed from the sums, because the figures of a
    /// call may be reported twice.
    fn usage(&mut self, event: &Object<'_>) -> Option<ForeignUsage> {
        let info = event.get("info")?;
        let last = info.get("last_token_usage").map(figures);
        let now = figures(info.get("total_token_usage")?);
        let mut before = std::mem::replace(&mut self.total, now.clone());
        // A fork whose file does not repeat the reports of its original goes on from their sum.
        if before.is_nothing()
            && self.about.forked_from.is_some()
            && let Some(last) = &last
        {
            before = now.less(last);
        }
        // If the sums have decreased, they were reset.
        let was_reset =
            now.prompt_tokens < before.prompt_tokens || now.completion_tokens < before.completion_tokens;
        let before = if was_reset { ForeignUsage::default() } else { before };
        let step = now.less(&before);
        if step.is_nothing() {
            return None;
        }
        // A copy has new times. It repeats the sums and what the model said.
        let call = format!("{} {}+{} {}", self.root, now.prompt_tokens, now.completion_tokens, self.said);
        Some(ForeignUsage {
            model: self.model.clone(),
            // The sum has grown by more than the last call.
            is_sum: last.is_some_and(|last| last.prompt_tokens < step.prompt_tokens),
            call: Some(call),
            is_copy: self.about.id.as_ref().is_some_and(|own| *own != self.root),
            ..step
        })
    }

    /// Translates a history that replaces the previous one, which the model no longer sees.
    fn compacted(
        &mut self,
        arriving: &Arriving<'_>,
        compacted: Raw<'_>,
        timestamp: Option<&str>,
    ) -> Translation {
        let mut whole = Translation::unread("compacted");
        let Some(history) = compacted.get("replacement_history").filter(|history| history.is_array()) else {
            return whole; // the record does not contain what the model saw from here on
        };
        let (last, turns) = (self.last.take(), std::mem::take(&mut self.turns));
        for item in history.elements().filter(|item| item.is_object()) {
            let part = whole.events.len() + 1;
            let translation = self.item(arriving, item.to_object(), timestamp, part);
            whole.problem = whole.problem.or(translation.problem);
            whole.events.extend(translation.events);
        }
        let count = whole.events.len();
        let Some(first) = whole.events.first_mut() else {
            (self.last, self.turns) = (last, turns);
            return whole;
        };
        // An older version began a new tree with it.
        if let Some(last) = last.filter(|_| arriving.may_become(count as u64 + 1)) {
            let id = self.memory.part(first.id(), count + 1, arriving);
            *first = first.clone().with_parent(id.as_str());
            let forgotten = self.memory.seen_until(&last).iter().map(|id| id.as_str().into()).collect();
            let reply = id.as_str().to_owned();
            let common = common(id, timestamp, Source::Environment, Some(&last));
            whole.events.insert(0, Condensation::new(common, forgotten, reply).into());
        }
        self.memory.follow(&whole.events);
        whole
    }
}

/// Reads the figures of a call or of a sum.
fn figures(usage: Raw<'_>) -> ForeignUsage {
    let count = |member: &str| usage.get(member).and_then(Raw::as_i64).unwrap_or(0).max(0);
    ForeignUsage {
        prompt_tokens: count("input_tokens"),
        completion_tokens: count("output_tokens"),
        cache_read_tokens: count("cached_input_tokens"),
        cache_write_tokens: count("cache_write_input_tokens"),
        reasoning_tokens: count("reasoning_output_tokens"),
        ..ForeignUsage::default()
    }
}
