//! Finds the texts of base states and events that the catalogue does not show, or of which projections show only the
//! beginning, because they are too long. The base states and the events keep them.

use crate::event::NewEvent;
use crate::ids::EVENT_ID_BYTES_MAX;
use crate::json::{Object, Raw};
use crate::state::BaseDocument;
use crate::store::{COPY_BYTES_MAX, Problem, STATUS_BYTES_MAX, TAGS_BYTES_MAX};

/// The members of events that projections copy into columns, as a payload has them. Other copied members have a bound
/// already when an event is made.
const COPIED: [&str; 5] =
    ["\"security_risk\"", "\"tool_kind\"", "\"task_list\"", "\"usage_to_metrics\"", "\"provenance\""];

/// Returns a problem for each part of a base state that is too long. `path` is its file.
pub(super) fn of_base_state(path: &str, document: &BaseDocument) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut add = |problem: String, action: &str| {
        problems.push(Problem { path: path.to_owned(), problem, action: action.into() });
    };
    let members = Object::of(document.as_str());
    let length = |field: &str| members.text(field).map_or(0, |text| text.len());
    let tags = members.get("tags").filter(|tags| tags.is_object());
    for (field, bytes, max, action) in [
        (
            "execution_status",
            length("execution_status"),
            STATUS_BYTES_MAX,
            "kept in the base state; the catalogue shows idle",
        ),
        (
            "leaf_event_id",
            length("leaf_event_id"),
            EVENT_ID_BYTES_MAX,
            "kept in the base state; HEAD is not set",
        ),
        (
            "tags",
            tags.map_or(0, |tags| tags.text().len()),
            TAGS_BYTES_MAX,
            "kept in the base state; the catalogue shows none",
        ),
    ] {
        if bytes > max {
            add(format!("its {field} has {bytes} bytes, at most {max} are accepted"), action);
        }
    }
    let usages = members.get("stats").and_then(|stats| stats.get("usage_to_metrics"));
    let count = usages.map_or(0, long_texts_of_usages);
    if count > 0 {
        let problem = format!("{count} names in its stats have more than {COPY_BYTES_MAX} bytes");
        add(problem, "kept in the base state; the usage shows their beginnings");
    }
    problems
}

/// Returns a problem if projections show only the beginning of a text of an event. `path` is its place.
pub(super) fn of_event(path: &str, event: &NewEvent) -> Option<Problem> {
    let payload = event.payload();
    // A text is not longer than the payload that it is in. Most payloads are shorter or have none of the members.
    if payload.len() <= COPY_BYTES_MAX || !COPIED.iter().any(|member| payload.contains(member)) {
        return None;
    }
    let members = Object::of(payload);
    let mut count =
        ["security_risk", "tool_kind"].into_iter().filter(|name| is_long(members.get(name))).count();
    if let Some(tasks) = members.get("observation").and_then(|observation| observation.get("task_list")) {
        let texts = tasks.elements().flat_map(|task| ["title", "notes", "status"].map(|name| task.get(name)));
        count += texts.filter(|text| is_long(*text)).count();
    }
    if let Some(value) = members.get("value") {
        let usages = value.get("stats").unwrap_or(value).get("usage_to_metrics");
        count += usages.map_or(0, long_texts_of_usages);
    }
    if let Some(usage) = members.get("provenance").and_then(|provenance| provenance.get("usage")) {
        count += ["model", "response_id"].into_iter().filter(|name| is_long(usage.get(name))).count();
    }
    (count > 0).then(|| Problem {
        path: path.to_owned(),
        problem: format!("{count} of its texts have more than {COPY_BYTES_MAX} bytes"),
        action: "kept in the event; derived tables show their beginnings".into(),
    })
}

/// Returns the number of long usage ids, names of models and ids of replies in the figures of all models.
fn long_texts_of_usages(usages: Raw<'_>) -> usize {
    let of_metrics = |metrics: Raw<'_>| {
        let calls = ["token_usages", "costs"].into_iter().filter_map(|list| metrics.get(list));
        let texts = calls
            .flat_map(Raw::elements)
            .flat_map(|call| ["model", "response_id"].map(|name| call.get(name)))
            .chain([metrics.get("model_name")]);
        texts.filter(|text| is_long(*text)).count()
    };
    usages.members().map(|(id, metrics)| usize::from(id.len() > COPY_BYTES_MAX) + of_metrics(metrics)).sum()
}

fn is_long(text: Option<Raw<'_>>) -> bool {
    text.and_then(Raw::as_str).is_some_and(|text| text.len() > COPY_BYTES_MAX)
}
