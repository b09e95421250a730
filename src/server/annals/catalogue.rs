//! Conversations as the page for people lists them: what the catalogue knows, with models, tokens and cost.
//!
//! Nothing of a conversation is loaded: a page costs what it shows, its figures are those that projections keep.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use serde_json::{Value, json};

use super::ask;
use crate::audit::json as shape;
use crate::error::Result;
use crate::ids::{ConversationId, Timestamp};
use crate::server::App;
use crate::server::failure::{Failure, Problem};
use crate::server::request::Params;
use crate::store::{Conversation, ConversationFilter, Order, Store, UsageTotal};

/// The most conversations of a page, and how many where nobody says.
const PAGE_MAX: u64 = 200;
const PAGE: u64 = 50;

/// A page of conversations; the first one says how many there are.
pub(super) async fn list(
    State(app): State<Arc<App>>,
    params: Params,
) -> std::result::Result<Json<Value>, Failure> {
    let limit = params.number("limit", 1, PAGE_MAX, PAGE)? as usize;
    let orders = [
        ("updated", Order::UpdatedDescending),
        ("updated_oldest", Order::Updated),
        ("created", Order::CreatedDescending),
        ("created_oldest", Order::Created),
    ];
    let order = params.word("order", &orders)?.unwrap_or_default();
    let filter = filter(&params)?;
    let (after, parent) = (params.get("after").map(str::to_owned), params.get("parent").map(str::to_owned));
    let page = ask(&app, move |store| {
        let filter =
            ConversationFilter { parent: parent.map(|id| store.resolve(&id)).transpose()?, ..filter };
        let after = after.map(|id| store.resolve(&id)).transpose()?;
        let page = store.conversations(&filter, order, after.as_ref(), limit)?;
        let total = match after {
            Some(_) => None,
            None => Some(store.count_conversations(&filter)?),
        };
        let rows: Result<Value> = page.conversations.iter().map(|row| value(store, row)).collect();
        Ok(json!({"conversations": rows?, "total": total, "next": page.next.map(|id| id.to_string())}))
    });
    page.await.map(Json)
}

fn filter(params: &Params) -> std::result::Result<ConversationFilter, Failure> {
    let tag = |text: &str| match text.split_once('=') {
        Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
        None => (text.to_owned(), None),
    };
    let time = |name: &str| -> std::result::Result<Option<Timestamp>, Failure> {
        let Some(text) = params.get(name) else { return Ok(None) };
        let problem = || {
            Problem::new("datetime_parsing", &["query", name], "Input should be a date or a time")
                .with_input(text)
        };
        Timestamp::parse_typed(text).map(Some).ok_or_else(|| problem().into())
    };
    Ok(ConversationFilter {
        statuses: params.all("status").map(str::to_owned).collect(),
        tags: params.all("tag").map(tag).collect(),
        title: params.get("title").filter(|title| !title.is_empty()).map(str::to_owned),
        updated_from: time("updated_from")?,
        updated_before: time("updated_before")?,
        ..ConversationFilter::default()
    })
}

/// One conversation; with `counts` all that is counted of it, which costs the more the longer it is.
pub(super) async fn one(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    params: Params,
) -> std::result::Result<Json<Value>, Failure> {
    let has_counts = params.flag("counts")?;
    let found = ask(&app, move |store| {
        let row = store.conversation(&store.resolve(&id)?)?;
        let mut found = value(store, &row)?;
        found["usage"] = store.usage(Some(&row.id))?.iter().map(shape::usage).collect();
        found["sub_agents"] = store.children(&row.id)?.iter().map(ConversationId::as_str).collect();
        if !has_counts {
            return Ok(found);
        }
        let kinds = store.count_kinds(&row.id)?;
        let tools = store.tool_counts(&row.id)?;
        let tool = |tool: &crate::store::ToolCount| {
            json!({"tool": tool.tool, "calls": tool.calls, "errors": tool.errors, "rejected": tool.rejected,
                   "pending": tool.pending})
        };
        found["kinds"] = kinds.into_iter().map(|(kind, count)| (kind, json!(count))).collect();
        found["tools"] = tools.iter().map(tool).collect();
        Ok(found)
    });
    found.await.map(Json)
}

/// What the catalogue knows, and what its models took together.
fn value(store: &Store, row: &Conversation) -> Result<Value> {
    let mut value = shape::conversation(row)?;
    let usage = store.usage(Some(&row.id))?;
    let sum = |figure: fn(&UsageTotal) -> i64| usage.iter().map(figure).sum::<i64>();
    let mut models: Vec<&str> = usage.iter().map(|total| total.model.as_str()).collect();
    models.dedup();
    value["models"] = json!(models);
    value["prompt_tokens"] = json!(sum(|total| total.prompt_tokens));
    value["completion_tokens"] = json!(sum(|total| total.completion_tokens));
    value["cost"] = json!(usage.iter().map(|total| total.cost).sum::<f64>());
    value["is_titled"] = json!(row.is_titled);
    value["copy_of"] = json!(row.foreign_format);
    Ok(value)
}
