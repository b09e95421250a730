//! Lists conversations for the web page: the catalogue's data, with models, tokens and cost.
//!
//! No conversation is loaded: the figures come from projections, so the cost of a page depends only on its length.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use serde_json::{Value, json};

use super::ask;
use crate::audit::json as shape;
use crate::conversation::{Host, Obstacle};
use crate::error::Result;
use crate::ids::{ConversationId, Timestamp};
use crate::server::App;
use crate::server::http::failure::{Failure, Problem};
use crate::server::http::request::Params;
use crate::store::{Conversation, ConversationFilter, Order, Store, UsageTotal};

/// The maximum number of conversations in a page, and the default.
const PAGE_MAX: u64 = 200;
const PAGE: u64 = 50;

/// Returns a page of conversations. The first page also has their total number.
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
    let host = app.sessions().opening.host.clone();
    let page = ask(&app, move |store| {
        let filter =
            ConversationFilter { parent: parent.map(|id| store.resolve(&id)).transpose()?, ..filter };
        let after = after.map(|id| store.resolve(&id)).transpose()?;
        let page = store.conversations(&filter, order, after.as_ref(), limit)?;
        let total = match after {
            Some(_) => None,
            None => Some(store.count_conversations(&filter)?),
        };
        let rows: Result<Value> = page.conversations.iter().map(|row| value(store, row, &host)).collect();
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
        Timestamp::parse_relative(text, Timestamp::now()).map(Some).ok_or_else(|| problem().into())
    };
    let text = |name: &str| params.get(name).filter(|text| !text.is_empty()).map(str::to_owned);
    Ok(ConversationFilter {
        statuses: params.all("status").map(str::to_owned).collect(),
        tags: params.all("tag").map(tag).collect(),
        title: text("title"),
        updated_from: time("updated_from")?,
        updated_before: time("updated_before")?,
        workspace: text("workspace"),
        source: text("source"),
        model: text("model"),
        started_by: text("started_by"),
        ..ConversationFilter::default()
    })
}

/// Returns one conversation. With `counts` also the numbers of events by kind and of calls by tool, whose cost grows
/// with the conversation's length.
pub(super) async fn one(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    params: Params,
) -> std::result::Result<Json<Value>, Failure> {
    let has_counts = params.flag("counts")?;
    let host = app.sessions().opening.host.clone();
    let found = ask(&app, move |store| {
        let row = store.conversation(&store.resolve(&id)?)?;
        let mut found = value(store, &row, &host)?;
        found["cannot_run"] = json!(cannot_run(store, &row.id)?);
        found["usage"] = store.usage(Some(&row.id))?.iter().map(shape::usage).collect();
        found["sub_agents"] = store.children(&row.id)?.iter().map(ConversationId::as_str).collect();
        found["with_sub_agents"] = store.usage_with_sub_agents(&row.id)?.map_or(Value::Null, |family| {
            let mut sums = json!({"sub_agents": family.sub_agents});
            add_sums(&mut sums, &family.usage);
            sums
        });
        if !has_counts {
            return Ok(found);
        }
        let kinds = store.count_kinds(&row.id)?;
        let tools = store.tool_counts(&row.id)?;
        let tool = |tool: &crate::store::ToolCount| {
            json!({"tool": tool.tool, "calls": tool.calls, "errors": tool.errors, "failed": tool.failed,
                   "rejected": tool.rejected, "pending": tool.pending})
        };
        found["kinds"] = kinds.into_iter().map(|(kind, count)| (kind, json!(count))).collect();
        found["tools"] = tools.iter().map(tool).collect();
        Ok(found)
    });
    found.await.map(Json)
}

/// Returns why a conversation cannot be run by this server, in a sentence that says the way out. `None` if nothing is
/// known to be missing.
fn cannot_run(store: &Store, id: &ConversationId) -> Result<Option<String>> {
    let obstacles = Obstacle::all(store, id)?;
    if !obstacles.is_empty() {
        let (what, options) = (Obstacle::describe(&obstacles), Obstacle::options(&obstacles));
        let way = if options.is_empty() {
            String::new()
        } else {
            format!("; `annals resume {id} {options}` gives what is missing")
        };
        return Ok(Some(format!("This conversation cannot go on here: {what}{way}.")));
    }
    // The routes of the reference take such ids only.
    let is_uuid = uuid::Uuid::try_parse(id.as_str()).is_ok();
    Ok((!is_uuid).then(|| {
        format!(
            "This conversation cannot go on here: its id is no UUID; `annals resume {id}` can go on with it."
        )
    }))
}

/// Returns a conversation's data from the catalogue, with the total usage of all its models. `is_last_known` says that the
/// status is only the last one known: the conversation was imported, and no process runs it.
fn value(store: &Store, row: &Conversation, host: &Host) -> Result<Value> {
    let mut value = shape::conversation(row)?;
    value["is_last_known"] = json!(row.was_imported_alive() && !host.is_run(&row.id));
    shape::add_facts(&mut value, &store.facts(&row.id)?);
    let usage = store.usage(Some(&row.id))?;
    value["models"] = json!(models(&usage));
    add_sums(&mut value, &usage);
    value["is_titled"] = json!(row.is_titled);
    value["copy_of"] = json!(row.foreign_format);
    Ok(value)
}

/// Adds the sums over all models.
fn add_sums(value: &mut Value, usage: &[UsageTotal]) {
    let sum = |figure: fn(&UsageTotal) -> i64| usage.iter().map(figure).sum::<i64>();
    value["prompt_tokens"] = json!(sum(|total| total.prompt_tokens));
    value["completion_tokens"] = json!(sum(|total| total.completion_tokens));
    // An unknown cost is null, and a known one is not mixed with an estimate.
    let money = |figure: fn(&UsageTotal) -> Option<f64>| {
        usage.iter().filter_map(figure).reduce(|one, other| one + other)
    };
    value["cost"] = json!(money(|total| total.cost));
    value["estimated_cost"] = json!(money(|total| total.estimated_cost));
    value["tokens_without_cost"] = json!(sum(|total| total.tokens_without_cost));
}

/// Returns the names of the models, each once, in the order of their first occurrence. The totals are ordered by use,
/// so one model may have several.
fn models(usage: &[UsageTotal]) -> Vec<&str> {
    let mut models: Vec<&str> = Vec::new();
    for total in usage {
        if !models.contains(&total.model.as_str()) {
            models.push(&total.model);
        }
    }
    models
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_with_several_uses_is_listed_once() {
        let total = |usage_id: &str, model: &str| UsageTotal {
            usage_id: usage_id.to_owned(),
            model: model.to_owned(),
            prompt_tokens: 0,
            completion_tokens: 0,
            cache_read_tokens: 0,
            cache_write_tokens: 0,
            reasoning_tokens: 0,
            cost: None,
            estimated_cost: None,
            tokens_without_cost: 0,
            latency_seconds: None,
            calls: 0,
        };
        let usage = [total("agent", "large"), total("agent", "small"), total("condenser", "large")];
        assert_eq!(models(&usage), ["large", "small"]);
    }
}
