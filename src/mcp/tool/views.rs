//! `describe_views`: the views that SQL may name, with their columns.

use serde_json::{Value, json};

use super::{Call, Tool};
use crate::mcp::page::Page;
use crate::mcp::trouble::Trouble;
use crate::store::{SqlView, VIEWS};

pub(super) const TOOL: Tool = Tool {
    name: "describe_views",
    title: "Describe the views for SQL",
    description: "Describes the views that query_sql may name: what a row is, and the columns.",
    properties,
    required: &[],
    is_paged: true,
    writes: false,
    answer,
};

fn properties() -> Value {
    json!({
        "views": {
            "type": "array", "items": {"type": "string"},
            "description": "Only these views, such as tool_calls, transcript, commands; all by default.",
        },
    })
}

fn answer(call: &Call<'_>) -> Result<String, Trouble> {
    let names: Vec<&str> = VIEWS.iter().map(|view| view.name).collect();
    let wanted = call.arguments.words("views", &names)?;
    let views: Vec<&SqlView> = VIEWS
        .iter()
        .filter(|view| wanted.is_empty() || wanted.iter().any(|name| name == view.name))
        .collect();
    let first = call.place::<1>()?.map_or(0, |[place]| usize::try_from(place).unwrap_or(usize::MAX));
    let mut page = Page::new(call.tokens, "Views for query_sql. conversation_id and sequence join them.");
    for (index, view) in views.iter().enumerate().skip(first) {
        let item = format!("{}: a row is {}.\n  {}\n", view.name, view.row, view.columns.join(", "));
        if !page.push(&item) {
            return Ok(call.end(page, Some(&[index as u64]), ""));
        }
    }
    Ok(call.end(page, None, "That is all."))
}
