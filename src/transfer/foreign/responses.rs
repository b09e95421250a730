//! Translates items of OpenAI's Responses interface, as Codex and the OpenAI Agents SDK keep them: messages, reasoning,
//! calls of functions and other tools, and their outputs. Each record is one item.

use super::translation::{Answer, Arriving, Call, Memory, Translation, common, is_member, refusal};
use super::{content, exit};
use crate::event::foreign::ForeignFormat;
use crate::event::{Content, Event, Extra, Message, MessageEvent, Origin, ReasoningItem, Role, Source, Text};
use crate::ids::EventId;
use crate::json::{Object, Raw};

/// An item and its context.
pub(super) struct Item<'a> {
    pub arriving: &'a Arriving<'a>,
    pub members: Object<'a>,
    /// The preferred id of the event.
    pub wanted_id: &'a str,
    pub timestamp: Option<&'a str>,
    /// The event that it follows.
    pub parent: Option<&'a EventId>,
    /// The beginnings of user messages that no person has typed.
    pub machinery: &'a [&'a str],
}

/// Returns the item's type. It is `message` if the item has only a role.
pub(super) fn kind<'a>(members: &Object<'a>) -> Option<std::borrow::Cow<'a, str>> {
    members.text("type").or_else(|| members.get("role").map(|_| "message".into()))
}

/// Translates an item. An item without a counterpart becomes no event.
pub(super) fn translate(memory: &mut Memory, item: &Item<'_>) -> Translation {
    let Some(kind) = kind(&item.members) else { return Translation::broken("record", "it has no type") };
    let event = match &*kind {
        "message" => message(memory, item),
        "reasoning" => Ok(Some(reasoning(memory, item))),
        "function_call" | "custom_tool_call" | "local_shell_call" => call(memory, item, &kind),
        "function_call_output" | "custom_tool_call_output" | "local_shell_call_output" => {
            output(memory, item)
        }
        _ => Ok(None),
    };
    match event {
        Ok(None) if !is_known(&kind) => Translation::unknown(kind.into_owned()),
        Ok(event) => Translation {
            name: kind.into_owned(),
            events: event.into_iter().collect(),
            ..Translation::default()
        },
        Err(problem) => Translation::broken(kind.into_owned(), problem),
    }
}

/// Returns whether an item is of a type without a counterpart: hosted tools, compacted histories, references.
fn is_known(kind: &str) -> bool {
    let ends = ["_call", "_output", "_request", "_response", "_list_tools", "_summary", "_trigger"];
    ends.iter().any(|end| kind.ends_with(end))
        || ["message", "compaction", "context_compaction", "ghost_snapshot", "item_reference", "other"]
            .contains(&kind)
}

type Translated = Result<Option<Event>, String>;

fn message(memory: &mut Memory, item: &Item<'_>) -> Translated {
    let role = item.members.text("role").ok_or("a message has no role")?;
    let content = item.members.get("content").ok_or("a message has no content")?;
    let parts = content::parts(Some(content));
    let (role, source) = match &*role {
        "assistant" => (Role::Assistant, Source::Agent),
        "user" => {
            let first = parts.iter().find_map(Content::as_text).unwrap_or_default();
            let is_from_program = item.machinery.iter().any(|mark| first.trim_start().starts_with(mark));
            (Role::User, if is_from_program { Source::Environment } else { Source::User })
        }
        // Instructions from the program that uses the model.
        "system" | "developer" => (Role::System, Source::Environment),
        _ => return Ok(None),
    };
    let id = memory.id(item.wanted_id, item.arriving);
    let common = common(id, item.timestamp, source, item.parent);
    Ok(Some(MessageEvent::new(common, Message::new(role, parts)).into()))
}

/// Translates reasoning: a message of the model without text.
fn reasoning(memory: &mut Memory, item: &Item<'_>) -> Event {
    let texts = |member: &str| {
        let list = item.members.get(member).filter(|list| list.is_array())?;
        let text = |part: Raw<'_>| part.get("text").and_then(Raw::as_str).map(|text| Text::from(&*text));
        Some(list.elements().filter_map(text).collect::<Vec<_>>())
    };
    let text = |member: &str| item.members.text(member).map(|text| Text::from(&*text));
    let id = memory.id(item.wanted_id, item.arriving);
    let mut message = Message::new(Role::Assistant, Vec::new());
    message.responses_reasoning_item = Some(ReasoningItem {
        id: text("id"),
        summary: texts("summary").unwrap_or_default(),
        content: texts("content"),
        encrypted_content: text("encrypted_content"),
        status: text("status"),
        extra: Extra::NONE,
    });
    MessageEvent::new(common(id, item.timestamp, Source::Agent, item.parent), message).into()
}

fn call(memory: &mut Memory, item: &Item<'_>, kind: &str) -> Translated {
    let members = &item.members;
    // A call of the local shell may have only the item's id.
    let id = members.text("call_id").or_else(|| members.text("id")).filter(|id| is_member(id));
    let Some(call_id) = id else { return Err("a call has no call_id".into()) };
    let named = members.text("name").filter(|name| is_member(name));
    let name = match (kind, &named) {
        ("local_shell_call", _) => "local_shell",
        (_, Some(name)) => name,
        (_, None) => return Err("a call has no name".into()),
    };
    let argument = match kind {
        "function_call" => "arguments",
        "custom_tool_call" => "input",
        _ => "action",
    };
    let Some(given) = members.get(argument) else { return Err(format!("a call has no {argument}")) };
    // A string is the arguments, verbatim. The action of a shell is an object.
    let arguments = given.as_str().unwrap_or_else(|| given.text().into());
    let parsed = Raw::parse(&arguments).ok();
    let id = memory.id(item.wanted_id, item.arriving);
    let common = common(id, item.timestamp, Source::Agent, item.parent);
    let call = Call {
        id: &call_id,
        name,
        arguments: &arguments,
        origin: Origin::Responses,
        reply: None,
        action: parsed,
    };
    let mut event = memory.call(item.arriving.format, common, &call);
    event.tool_call.responses_item_id =
        members.text("id").filter(|id| *id != call_id).map(|id| (&*id).into());
    Ok(Some(event.into()))
}

fn output(memory: &mut Memory, item: &Item<'_>) -> Translated {
    let Some(call_id) = item.members.text("call_id").or_else(|| item.members.text("id")) else {
        return Err("an output names no call".into());
    };
    if memory.called(&call_id).is_none() {
        return Err(format!("an output answers the call {call_id}, which is not in the file"));
    }
    let answer = read_output(item.members.get("output"));
    let id = memory.id(item.wanted_id, item.arriving);
    let common = common(id, item.timestamp, Source::Environment, item.parent);
    let text = answer.content.iter().find_map(Content::as_text).unwrap_or_default();
    let is_refused = item.arriving.format == ForeignFormat::Codex
        && (text == "aborted" || REFUSALS.iter().any(|refusal| text.starts_with(refusal)));
    let reason = is_refused.then(|| text.to_owned());
    let event = memory.answer(item.arriving.format, common, &call_id, &answer);
    Ok(event.map(|event| match reason {
        Some(reason) => refusal(event, reason),
        None => event.into(),
    }))
}

/// How Codex begins the output of a call that a person refused or interrupted.
const REFUSALS: &[&str] = &[
    "aborted by user",
    "command aborted by user",
    "exec command rejected by user",
    "patch rejected by user",
    "rejected by user",
    "user rejected",
];

/// Reads an output: text, parts, or an object with `content` and `success`. The text may tell the exit code.
fn read_output(output: Option<Raw<'_>>) -> Answer {
    let Some(output) = output else { return Answer::default() };
    if output.is_object() && output.get("type").is_none() && output.get("content").is_some() {
        let is_error = output.get("success").is_some_and(|flag| flag.text() == "false");
        return answer(content::parts(output.get("content")), is_error);
    }
    answer(content::parts(Some(output)), false)
}

fn answer(content: Vec<Content>, is_error: bool) -> Answer {
    let exit_code = content.iter().find_map(Content::as_text).and_then(exit::of_codex);
    Answer { content, is_error, exit_code }
}
