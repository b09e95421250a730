//! The rows of one usage id of a base state, which lists its calls.

use std::borrow::Cow;
use std::collections::HashMap;

use rusqlite::Connection;

use super::figures::Figures;
use super::{Cost, Entry, insert};
use crate::error::Result;
use crate::ids::Timestamp;
use crate::json::{Object, Raw};
use crate::price::Calls;
use crate::state::bill::{CallCost, costs_of_calls, is_priced};

fn model_of<'a>(entry: &Raw<'a>) -> Cow<'a, str> {
    entry.get("model").and_then(Raw::as_text).unwrap_or_default()
}

/// Writes one row per call, and one row for the rest of the totals.
pub(super) fn renew_usage(
    db: &Connection,
    conversation: i64,
    usage_id: &str,
    metrics: &Object<'_>,
) -> Result<()> {
    let list =
        |member| metrics.get(member).map(|list| list.elements().collect::<Vec<_>>()).unwrap_or_default();
    let (calls, costs, latencies) = (list("token_usages"), list("costs"), list("response_latencies"));
    let default_model = metrics.text("model_name").unwrap_or_default();
    let latency_by_call: HashMap<_, _> = latencies
        .iter()
        .filter_map(|entry| Some((entry.get("response_id")?.as_text()?, entry.get("latency")?.as_f64()?)))
        .collect();
    let amount = |cost: &Raw<'_>| cost.get("cost").and_then(Raw::as_f64).unwrap_or(0.0);
    let models: Vec<_> = calls.iter().map(model_of).collect();
    let models: Vec<&str> = models.iter().map(|model| &**model).collect();
    let payers: Vec<_> = costs.iter().map(model_of).collect();
    let amounts: Vec<(&str, f64)> =
        payers.iter().zip(&costs).map(|(model, cost)| (&**model, amount(cost))).collect();
    let accumulated = Figures::accumulated(metrics);
    let is_priced = is_priced(&amounts, accumulated.cost);
    let of_calls = costs_of_calls(&models, &amounts, accumulated.cost);
    let mut is_of_call = vec![false; costs.len()];
    let mut explained = Figures::default();
    for (index, call) in calls.iter().enumerate() {
        let response = call.get("response_id").and_then(Raw::as_text);
        let mut figures = Figures::tokens(*call);
        let (listed, cost) = match of_calls[index] {
            CallCost::Listed(index) => {
                is_of_call[index] = true;
                figures.cost = amounts[index].1;
                (costs.get(index), if is_priced { Cost::Known } else { Cost::Unknown(Calls::One) })
            }
            CallCost::Unknown => (None, Cost::Unknown(Calls::One)),
            CallCost::InSum => (None, Cost::InSum),
        };
        explained = explained.plus(figures);
        let entry = Entry {
            usage_id,
            model: &call.get("model").and_then(Raw::as_text).unwrap_or_else(|| default_model.clone()),
            response_id: response.as_deref(),
            call: None,
            is_copy: false,
            position: None,
            at: listed.and_then(|cost| cost.get("timestamp")).and_then(time),
            figures,
            cost,
            latency: response.as_ref().and_then(|response| latency_by_call.get(response).copied()),
        };
        insert(db, conversation, &entry)?;
    }
    let in_sum = costs.iter().zip(is_of_call).filter(|(_, is_of_call)| is_priced && !is_of_call);
    for (cost, _) in in_sum {
        let figures = Figures { cost: amount(cost), ..Figures::default() };
        explained = explained.plus(figures);
        let entry = Entry {
            usage_id,
            model: &cost.get("model").and_then(Raw::as_text).unwrap_or_else(|| default_model.clone()),
            response_id: None,
            call: None,
            is_copy: false,
            position: None,
            at: cost.get("timestamp").and_then(time),
            figures,
            cost: Cost::Known,
            latency: None,
        };
        insert(db, conversation, &entry)?;
    }
    let rest = accumulated.less(explained);
    if rest.is_zero() && !calls.is_empty() {
        return Ok(());
    }
    let is_nothing = calls.is_empty() && rest.priced().all() == 0;
    let entry = Entry {
        usage_id,
        model: &default_model,
        response_id: None,
        call: None,
        is_copy: false,
        position: None,
        at: None,
        figures: rest,
        cost: if is_priced || is_nothing { Cost::Known } else { Cost::Unknown(Calls::Several) },
        latency: None,
    };
    insert(db, conversation, &entry)
}

/// Reads the time of a cost. The reference writes it as seconds since 1970.
fn time(seconds: Raw<'_>) -> Option<Timestamp> {
    seconds.as_f64().map(|seconds| Timestamp((seconds * 1e6) as i64))
}
