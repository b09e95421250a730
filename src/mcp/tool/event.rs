//! `get_event`: one event whole.

use serde_json::{Value, json};

use super::read::floor;
use super::{Call, Tool, conversation_schema};
use crate::event::transcript::Line;
use crate::json::Object;
use crate::mcp::page::{name, shown};
use crate::mcp::trouble::Trouble;
use crate::visualizer::escaped;

pub(super) const TOOL: Tool = Tool {
    name: "get_event",
    title: "Read one event of a past conversation",
    description: "Reads one event of a past conversation in full, over several pages if it is long: its text, or \
                  with form \"payload\" the whole JSON as it is stored, with the arguments of a tool call.",
    properties,
    required: &["conversation", "event"],
    is_paged: true,
    writes: false,
    answer,
};

const FORMS: [&str; 2] = ["text", "payload"];

fn properties() -> Value {
    json!({
        "conversation": conversation_schema(),
        "event": {
            "type": "string",
            "description": "The event: its sequence (12), its id, or the beginning of its id.",
        },
        "form": {
            "type": "string", "enum": FORMS,
            "description": "text (the default), or payload for the stored JSON.",
        },
    })
}

fn answer(call: &Call<'_>) -> Result<String, Trouble> {
    let id = call.conversation()?;
    let named = match call.arguments.value("event") {
        Some(Value::Number(number)) => number.to_string(),
        _ => call.arguments.required("event")?.to_owned(),
    };
    let sequence = call.event(&id, &named)?;
    let event = call.store.event(&id, &call.store.event_id(&id, sequence)?)?;
    let mask = call.mask(&id)?;
    let is_payload = call.arguments.words("form", &FORMS)?.first().is_some_and(|form| form == "payload");
    let text = if is_payload {
        escaped(&mask.payload(&event.payload)).into_owned()
    } else {
        let text = Line::read(&event.kind, &Object::of(&event.payload)).to_text();
        shown(&mask.text(&text)).into_owned()
    };
    let mut head = format!(
        "Event #{} {} of conversation {}",
        sequence.0,
        name(event.id.as_str(), 200),
        name(id.as_str(), 200)
    );
    let about = [
        ("kind", Some(event.kind.as_str())),
        ("source", event.source.as_deref()),
        ("tool", event.tool_name.as_deref()),
        ("time", event.timestamp.as_deref()),
        ("parent", event.parent_id.as_deref()),
        ("answers", event.action_id.as_deref()),
    ];
    for (what, value) in about {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            head.push_str(&format!("\n{what} {}", name(value, 120)));
        }
    }
    if event.redacted_digest.is_some() {
        head.push_str("\nA person has redacted it: parts of its text were taken out.");
    }
    let from =
        call.place::<1>()?.map_or(0, |[offset]| floor(&text, usize::try_from(offset).unwrap_or(usize::MAX)));
    let mut page = call.page(&head)?;
    if text.is_empty() {
        return Ok(call.end(page, None, "It has no text; form \"payload\" shows all of it."));
    }
    let heading = match from {
        0 => format!("{} bytes:", text.len()),
        from => format!("From byte {from} of {} on:", text.len()),
    };
    match page.quote(&heading, &text, from, "") {
        Some(taken) if taken < text.len() => Ok(call.end(page, Some(&[taken as u64]), "")),
        _ => Ok(call.end(page, None, "That is the end of the event.")),
    }
}
