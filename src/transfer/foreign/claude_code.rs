//! Translates Claude Code's session files: one JSON object a line, in a tree of `uuid` and `parentUuid`.
//!
//! Messages, thinking, calls and results become events. All other records (progress, snapshots of files, titles,
//! notices of the program) are kept as they are. One reply of the model is several lines with the same `message.id`,
//! one block a line. Calls of one reply that ran in parallel are branches in the file; here they are put in a row, as
//! the model saw them. Source: session files of versions 1.0 to 2.1, and public descriptions of them.

mod compaction;
mod usage;

use std::collections::{HashMap, HashSet};

use super::blocks::Blocks;
use super::failure::Failure;
use super::importer::{ForeignImporter, Lines, Records};
use super::translation::{
    About, Answer, Arriving, Call, Memory, Translation, Translator, common, is_member, refusal,
};
use super::{content, exit};
use crate::event::foreign::{ForeignFormat, ForeignUsage};
use crate::event::{
    Content, Event, InterruptEvent, Message, MessageEvent, Origin, PauseEvent, Role, Source, Text,
};
use crate::ids::EventId;
use crate::json::{Object, Raw};

const FORMAT: ForeignFormat = ForeignFormat::ClaudeCode;

pub(super) static IMPORTER: ForeignImporter = ForeignImporter {
    format: FORMAT,
    description: "Session files of Claude Code",
    records: Records::Lines(Lines { is_record, is_beginning, has_folder: true, title: |_, _| None }),
    translator: || Box::new(ClaudeCode::default()),
};

fn is_record(members: &Object<'_>) -> bool {
    let has = |member: &str| members.get(member).is_some();
    match members.text("type").as_deref() {
        // Other programs have messages with the same names around them, and other members in them.
        Some("user" | "assistant") => {
            has("uuid") && members.get("message").is_some_and(|message| message.get("content").is_some())
        }
        Some("system" | "progress" | "attachment") => has("uuid") && (has("sessionId") || has("parentUuid")),
        Some("summary") => has("leafUuid"),
        Some("file-history-snapshot") => has("messageId"),
        Some(
            "queue-operation" | "permission-mode" | "ai-title" | "custom-title" | "last-prompt" | "mode",
        ) => has("sessionId"),
        _ => false,
    }
}

fn is_beginning(text: &str) -> bool {
    text.contains("\"parentUuid\":") && text.contains("\"isSidechain\":")
}

/// The text that Claude Code writes if a person refused a call, and the text that the model gets then.
const REFUSED: &str = "User rejected tool use";
const REFUSAL: &str = "The user doesn't want to proceed with this tool use.";

/// The beginning of what Claude Code writes if a person interrupted the work.
const INTERRUPTED: &str = "[Request interrupted by user";

/// The tools that run commands.
const SHELLS: &[&str] = &["Bash", "PowerShell"];

/// The types of records without a counterpart. Others are not known.
const KNOWN: &str = "agent-color agent-name agent-setting ai-title atis-latch attachment attribution-snapshot bridge- \
    session content-replacement cost-state custom-title file-history-snapshot last-prompt mode \
    permission-mode pr-link progress queue-operation summary system tag worktree-state";

/// The beginnings of user messages that no person has typed.
const PROGRAM_PREFIXES: &[&str] = &[
    "<local-command-stdout>",
    "<local-command-stderr>",
    "<local-command-caveat>",
    "<bash-stdout>",
    "<bash-stderr>",
    "<system-reminder>",
    "<task-notification>",
    "<user-prompt-submit-hook>",
    "[SYSTEM NOTIFICATION",
    INTERRUPTED,
];

/// The flags of user messages that no person has typed.
const PROGRAM_FLAGS: &[&str] = &["isMeta", "isCompactSummary", "isVisibleInTranscriptOnly", "isSidechain"];

#[derive(Default)]
struct ClaudeCode {
    memory: Memory,
    /// For each record with a uuid: its last event, or the event that it follows if it became none.
    nearest: HashMap<String, Option<EventId>>,
    /// The events before the last compaction that the model still sees.
    preserved: Vec<EventId>,
    /// The uuids, parents and contents of all lines so far: a compaction may write earlier ones again.
    contents: HashSet<u64>,
    /// For each event that is a call or an answer: its reply, and whether it is a call.
    replies: HashMap<EventId, (Text, bool)>,
    /// The last call or answer of each reply.
    tails: HashMap<Text, EventId>,
    /// The usage that each reply has reported so far.
    reported: HashMap<String, ForeignUsage>,
    about: About,
    session: Option<String>,
    custom_title: bool,
}

impl Translator for ClaudeCode {
    fn translate(&mut self, arriving: &Arriving<'_>, record: Raw<'_>) -> Translation {
        let members = record.to_object();
        let Some(kind) = members.text("type") else {
            return Translation::broken("record", "it has no type");
        };
        if self.session.is_none() {
            self.session = members.text("sessionId").map(|id| id.into_owned());
        }
        if self.about.forked_from.is_none() {
            let original = members.get("forkedFrom").and_then(|fork| fork.get("sessionId")?.as_text());
            self.about.forked_from = original.map(|id| id.into_owned());
        }
        let timestamp = members.text("timestamp").map(|time| time.into_owned());
        let parent = self.parent(&members);
        let line =
            Line { arriving, members: &members, timestamp: timestamp.as_deref(), parent: parent.clone() };
        let message = members.get("message").filter(|message| message.is_object());
        let content = message.and_then(|message| message.get("content"));
        if self.is_repeated(arriving, &kind, &members) {
            let id = members.text("uuid").map(|uuid| self.memory.id(&uuid, arriving));
            return Translation { id, timestamp, ..Translation::unread(format!("repeated.{kind}")) };
        }
        let compaction = if kind == "system" { self.compaction(&line) } else { None };
        let mut translation = match (&*kind, message) {
            ("system", _) if compaction.is_some() => compaction.unwrap_or_default(),
            ("system", _)
                if arriving.is_apart() || members.text("subtype").as_deref() != Some("api_error") =>
            {
                Translation::unread(match members.text("subtype") {
                    Some(subtype) => format!("system.{subtype}"),
                    None => kind.clone().into_owned(),
                })
            }
            ("system", _) => {
                self.failure(&line, "system.api_error", members.get("error"), members.get("content"))
            }
            ("user" | "assistant", None) => Translation::broken(&*kind, "it has no message"),
            ("user" | "assistant", Some(_)) if content.is_none() => {
                Translation::broken(&*kind, "its message has no content")
            }
            ("user", Some(message)) => self.user(&line, message),
            ("assistant", _) if is_true(&members, "isApiErrorMessage") => {
                self.failure(&line, "assistant", members.get("error"), content)
            }
            ("assistant", Some(message)) => self.assistant(&line, message),
            ("attachment", _) if !arriving.is_apart() => self.attachment(&line),
            _ => {
                self.title(&kind, &members);
                Translation {
                    is_unknown: !KNOWN.split(' ').any(|known| known == kind),
                    ..Translation::unread(&*kind)
                }
            }
        };
        translation.timestamp = timestamp;
        let missing = members.text("parentUuid").filter(|uuid| !self.nearest.contains_key(&**uuid));
        if let Some(missing) =
            missing.filter(|_| !translation.events.is_empty() && translation.problem.is_none())
        {
            let problem =
                format!("it follows {missing}, which is not in the file: a tree of its own begins here");
            translation.problem = Some(problem);
        }
        self.memory.follow(&translation.events);
        let uuid = members.text("uuid");
        let last = translation.events.last().map(|event| event.id().clone());
        let is_failure = matches!(translation.events.last(), Some(Event::ConversationError(_)));
        if last.is_none()
            && let Some(uuid) = &uuid
        {
            translation.id = Some(self.memory.id(uuid, arriving));
        }
        // HEAD is never at a failure.
        if last.is_some() && !is_failure && !is_true(&members, "isSidechain") {
            self.about.head.clone_from(&last);
        }
        if let Some(uuid) = uuid {
            self.nearest.insert(uuid.into_owned(), last.or(parent));
        }
        translation
    }

    fn about(&self, file_stem: &str) -> About {
        let mut about = self.about.clone();
        about.id = Some(file_stem.to_owned());
        if file_stem.starts_with("agent-") {
            about.parent.clone_from(&self.session);
            // All of it is a side chain of the session that started the sub-agent.
            about.head = None;
        }
        about
    }

    fn memory(&mut self) -> &mut Memory {
        &mut self.memory
    }
}

/// A line that is being read.
struct Line<'a> {
    arriving: &'a Arriving<'a>,
    members: &'a Object<'a>,
    timestamp: Option<&'a str>,
    /// The event that the line's first event follows.
    parent: Option<EventId>,
}

impl ClaudeCode {
    /// Returns the event that a line follows. `None` if it names no parent, or one that is not in the file.
    fn parent(&self, members: &Object<'_>) -> Option<EventId> {
        let uuid = members.text("parentUuid")?;
        let nearest = self.nearest.get(&*uuid)?.clone()?;
        // A line that follows one call of a reply follows all its calls and their answers.
        match self.replies.get(&nearest) {
            Some((reply, _)) => self.tails.get(reply).cloned().or(Some(nearest)),
            None => Some(nearest),
        }
    }

    fn title(&mut self, kind: &str, members: &Object<'_>) {
        let title = match kind {
            "custom-title" => members.text("customTitle"),
            "ai-title" if !self.custom_title => members.text("aiTitle"),
            // A summary may belong to the conversation of another file.
            "summary" if !self.custom_title => members
                .text("leafUuid")
                .filter(|leaf| self.nearest.contains_key(&**leaf))
                .and_then(|_| members.text("summary")),
            _ => None,
        };
        if let Some(title) = title {
            self.custom_title |= kind == "custom-title";
            self.about.title = Some(title.into_owned());
        }
    }

    fn user(&mut self, line: &Line<'_>, message: Raw<'_>) -> Translation {
        let uuid = line.members.text("uuid").unwrap_or_default();
        let body = message.get("content");
        let (answers, rest): (Vec<Raw<'_>>, Vec<Raw<'_>>) = body
            .filter(|body| body.is_array())
            .map(|body| {
                body.elements().partition(|part| content::kind(*part).as_deref() == Some("tool_result"))
            })
            .unwrap_or_default();
        let mut translation = Translation { name: "user".into(), ..Translation::default() };
        let mut parent = line.parent.clone();
        for answer in &answers {
            let Some(call) = answer.get("tool_use_id").and_then(Raw::as_text) else {
                translation.problem = Some("a result names no call".into());
                continue;
            };
            let Some((action, _)) = self.memory.called(&call) else {
                translation.problem =
                    Some(format!("a result answers the call {call}, which is not in the file"));
                continue;
            };
            let reply = self.replies.get(action).map(|(reply, _)| reply.clone());
            let id = self.event_id(&translation, &uuid, line.arriving);
            let common = common(id.clone(), line.timestamp, Source::Environment, parent.as_ref());
            let Some(event) = self.answer(line.members, common, &call, *answer) else { continue };
            if let Some(reply) = reply {
                self.replies.insert(id.clone(), (reply.clone(), false));
                self.tails.insert(reply, id.clone());
            }
            translation.events.push(event);
            parent = Some(id);
        }
        let parts = if body.is_some_and(Raw::is_array) {
            rest.iter().map(|part| content::part(*part)).collect()
        } else {
            content::parts(body)
        };
        if !parts.is_empty() {
            let id = self.event_id(&translation, &uuid, line.arriving);
            let source =
                if is_from_program(line.members, &parts) { Source::Environment } else { Source::User };
            let common = common(id, line.timestamp, source, parent.as_ref());
            let is_interrupted = first_text(&parts).starts_with(INTERRUPTED);
            translation.events.push(MessageEvent::new(common, Message::new(Role::User, parts)).into());
            if is_interrupted && line.arriving.may_become(translation.events.len() as u64 + 1) {
                self.stop(&mut translation, line, Source::User);
            }
        }
        translation
    }

    /// Adds the event that says that the work stopped: a person interrupted it, or the program ended the turn.
    fn stop(&mut self, translation: &mut Translation, line: &Line<'_>, source: Source) {
        let Some(last) = translation.events.last().map(|event| event.id().clone()) else { return };
        let id = self.event_id(translation, "", line.arriving);
        let common = common(id, line.timestamp, source.clone(), Some(&last));
        translation.events.push(match source {
            Source::User => InterruptEvent::new(common).into(),
            _ => PauseEvent::new(common).into(),
        });
    }

    /// Translates a failure of the provider. `words` are the text that a person has seen.
    fn failure(
        &mut self,
        line: &Line<'_>,
        name: &str,
        error: Option<Raw<'_>>,
        words: Option<Raw<'_>>,
    ) -> Translation {
        let mut failure = error.and_then(Failure::read).unwrap_or_default();
        failure.status = failure.status.or_else(|| line.members.get("apiErrorStatus").and_then(Raw::as_i64));
        if failure.detail.is_empty() {
            failure.detail = first_text(&content::parts(words)).to_owned();
        }
        let id = self.memory.id(&line.members.text("uuid").unwrap_or_default(), line.arriving);
        let event = failure.into_event(common(id, line.timestamp, Source::Environment, line.parent.as_ref()));
        Translation { name: name.into(), events: vec![event], ..Translation::default() }
    }

    /// Translates an attachment: what a person typed beside the work, or something without a counterpart.
    fn attachment(&mut self, line: &Line<'_>) -> Translation {
        let attachment = line.members.get("attachment");
        let of = |member: &str| attachment.and_then(|attachment| attachment.get(member));
        let equals =
            |member: &str, word: &str| of(member).and_then(Raw::as_str).is_none_or(|text| text == word);
        let parts = content::parts(of("prompt"));
        let is_queued = of("type").and_then(Raw::as_str).is_some_and(|kind| kind == "queued_command");
        if !is_queued || parts.iter().all(|part| part.as_text().is_some_and(|text| text.trim().is_empty())) {
            return Translation::unread("attachment");
        }
        let is_human = of("origin").and_then(|origin| origin.get("kind")).and_then(Raw::as_str);
        let is_typed = equals("commandMode", "prompt")
            && is_human.is_none_or(|kind| kind == "human")
            && !is_from_program(line.members, &parts);
        let source = if is_typed { Source::User } else { Source::Environment };
        let id = self.memory.id(&line.members.text("uuid").unwrap_or_default(), line.arriving);
        let common = common(id, line.timestamp, source, line.parent.as_ref());
        let event = MessageEvent::new(common, Message::new(Role::User, parts)).into();
        Translation { name: "attachment".into(), events: vec![event], ..Translation::default() }
    }

    /// Returns the id for the next event of a line.
    fn event_id(&mut self, translation: &Translation, uuid: &str, place: &Arriving<'_>) -> EventId {
        match translation.events.first() {
            Some(first) => self.memory.part(first.id(), translation.events.len() + 1, place),
            None => self.memory.id(uuid, place),
        }
    }

    fn answer(
        &self,
        members: &Object<'_>,
        common: crate::event::Common,
        call: &str,
        result: Raw<'_>,
    ) -> Option<Event> {
        let content = content::parts(result.get("content"));
        let is_error = result.get("is_error").is_some_and(|flag| flag.text() == "true");
        let texts: Vec<&str> = content.iter().filter_map(Content::as_text).collect();
        let is_shell = self.memory.called(call).is_some_and(|(_, tool)| SHELLS.contains(&&**tool));
        let exit_code =
            texts.first().filter(|_| is_error && is_shell).and_then(|text| exit::of_claude_code(text));
        let equals = |member: &str, word: &str| {
            members.get(member).and_then(Raw::as_str).is_some_and(|text| text == word)
        };
        let begins = |with: &str| is_error && texts.first().is_some_and(|text| text.starts_with(with));
        // An interruption is an act of a person, as a refusal is, and no error of the tool.
        let refused = equals("toolUseResult", REFUSED)
            || equals("toolDenialKind", "user-rejected")
            || equals("toolDenialKind", "interrupted")
            || begins(REFUSAL)
            || begins(INTERRUPTED);
        let reason = refused.then(|| texts.join("\n"));
        let event = self.memory.answer(FORMAT, common, call, &Answer { content, is_error, exit_code })?;
        let Some(reason) = reason else { return Some(event.into()) };
        Some(refusal(event, reason))
    }

    fn assistant(&mut self, line: &Line<'_>, message: Raw<'_>) -> Translation {
        let uuid = line.members.text("uuid").unwrap_or_default();
        let message = message.to_object();
        let reply = message.text("id").or_else(|| line.members.text("requestId"));
        let reply = reply.filter(|id| is_member(id)).map(|id| id.into_owned());
        let mut blocks = Blocks::default();
        match message.get("content") {
            Some(list) if list.is_array() => list.elements().for_each(|block| blocks.take(block)),
            other => blocks.content = content::parts(other),
        }
        let mut translation = Translation { name: "assistant".into(), ..Translation::default() };
        // What the program says instead of a reply ends the turn.
        let synthetic = message.text("model").as_deref() == Some("<synthetic>");
        let source = if synthetic { Source::Environment } else { Source::Agent };
        let mut parent = line.parent.clone();
        // A reply has one thought, that of its first call. Text before a later call becomes a message.
        let continues_reply = parent
            .as_ref()
            .and_then(|parent| self.replies.get(parent))
            .is_some_and(|(known, is_call)| *is_call && reply.as_deref() == Some(&**known));
        let has_content = !blocks.content.is_empty() || !blocks.thinking.is_empty();
        let thought = blocks.thought();
        if has_content && (blocks.calls.is_empty() || continues_reply || thought.is_none()) {
            let id = self.event_id(&translation, &uuid, line.arriving);
            let common = common(id.clone(), line.timestamp, source.clone(), parent.as_ref());
            let mut llm_message = Message::new(Role::Assistant, std::mem::take(&mut blocks.content));
            llm_message.thinking_blocks = std::mem::take(&mut blocks.thinking);
            let mut event = MessageEvent::new(common, llm_message);
            event.llm_response_id = reply.as_deref().map(Text::from);
            translation.events.push(event.into());
            parent = Some(id);
        }
        let mut thought = thought.filter(|_| !continues_reply);
        for call in &blocks.calls {
            let id = self.event_id(&translation, &uuid, line.arriving);
            let common = common(id.clone(), line.timestamp, Source::Agent, parent.as_ref());
            let (name, call_id) = (&call.name, &call.id);
            let mut event = self.memory.call(
                FORMAT,
                common,
                &Call {
                    id: call_id,
                    name,
                    arguments: call.input.text(),
                    origin: Origin::Completion,
                    reply: reply.as_deref(),
                    action: Some(call.input),
                },
            );
            if let Some(thought) = thought.take() {
                event.thought = thought;
                event.thinking_blocks = std::mem::take(&mut blocks.thinking);
            }
            if let Some(reply) = reply.as_deref().map(Text::from) {
                self.replies.insert(id.clone(), (reply.clone(), true));
                self.tails.insert(reply, id.clone());
            }
            translation.events.push(event.into());
            parent = Some(id);
        }
        if blocks.broken {
            translation.problem = Some("a call has no id, name or input".into());
        }
        if synthetic && !translation.events.is_empty() {
            if line.arriving.may_become(translation.events.len() as u64 + 1) {
                self.stop(&mut translation, line, Source::Environment);
            }
        } else {
            translation.usage.extend(self.usage(line.members, &message).map(|usage| (0, usage)));
        }
        translation
    }
}

fn is_true(members: &Object<'_>, member: &str) -> bool {
    members.get(member).is_some_and(|flag| flag.text() == "true")
}

/// Returns whether a message in the user's role was written by Claude Code itself.
fn is_from_program(members: &Object<'_>, parts: &[Content]) -> bool {
    let first = first_text(parts);
    PROGRAM_FLAGS.iter().any(|flag| is_true(members, flag))
        || PROGRAM_PREFIXES.iter().any(|mark| first.starts_with(mark))
}

fn first_text(parts: &[Content]) -> &str {
    parts.iter().find_map(Content::as_text).unwrap_or_default()
}
