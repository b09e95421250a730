//! `set_conversation_title`: the one tool that writes, if the operator allows it.

use serde_json::{Value, json};

use super::{Call, Tool, conversation_schema};
use crate::mcp::page::in_line;
use crate::mcp::trouble::Trouble;
use crate::store::TITLE_BYTES_MAX;
use crate::visualizer::harmless;

pub(super) const TOOL: Tool = Tool {
    name: "set_conversation_title",
    title: "Name a past conversation",
    description: "Sets the title of a past conversation, so that it is found again by it: what was wanted, and what came \
                  of it, in one line. Only its title changes, never its events.",
    properties,
    required: &["conversation", "title"],
    is_paged: false,
    writes: true,
    answer,
};

fn properties() -> Value {
    json!({
        "conversation": conversation_schema(),
        "title": {"type": "string", "description": "The title, in one line of at most 200 characters."},
    })
}

/// The most characters of a title.
const TITLE_CHARS_MAX: usize = 200;

fn answer(call: &Call<'_>) -> Result<String, Trouble> {
    let id = call.conversation()?;
    let title = call.arguments.required("title")?.trim();
    if title.chars().count() > TITLE_CHARS_MAX || title.len() > TITLE_BYTES_MAX {
        return Err(Trouble::said(format!("a title has at most {TITLE_CHARS_MAX} characters")));
    }
    if title.contains('\n') || harmless(title) != title {
        return Err(Trouble::said("a title is one line without control characters"));
    }
    call.recall.set_title(&id, title)?;
    Ok(format!("The title of conversation {id} is now {}.\n", in_line(title, 400)))
}
