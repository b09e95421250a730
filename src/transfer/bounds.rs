//! Finds what is kept in base states and events and may not be seen in SQL as it is: a text that is too long, which the
//! catalogue does not show or of which projections show only the beginning, and a member that is named twice.

use std::borrow::Cow;

use crate::event::foreign::ForeignUsage;
use crate::event::new_event::NAMED_TWICE;
use crate::event::{NewEvent, kind};
use crate::ids::EVENT_ID_BYTES_MAX;
use crate::json::{self, Object, Raw};
use crate::state::BaseDocument;
use crate::state::upcast::usages;
use crate::store::{COPY_BYTES_MAX, Problem, STATUS_BYTES_MAX, StoredEvent, TAGS_BYTES_MAX};

/// The members of events that projections copy into columns, as a payload has them. Other copied members have a bound
/// already when an event is made.
const COPIED: [&str; 10] = [
    "\"correlation_id\"",
    "\"causation_id\"",
    "\"security_risk\"",
    "\"tool_kind\"",
    "\"path\"",
    "\"file_path\"",
    "\"notebook_path\"",
    "\"task_list\"",
    "\"usage_to_metrics\"",
    "\"provenance\"",
];

/// Returns a problem for each part of a base state that is too long or ambiguous. `path` is its file.
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
            document.status().map_or(0, |status| status.len()),
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
    if let Some(at) = json::scan_names(document.as_str(), |_, _| ()).ok().and_then(|notes| notes.repeated) {
        add(named_twice(at), &kept_as_it_is());
    }
    let count = document.usages().map_or(0, long_texts_of_usages);
    if count > 0 {
        let problem = format!("{count} names in its stats have more than {COPY_BYTES_MAX} bytes");
        add(problem, "kept in the base state; the usage shows their beginnings");
    }
    problems
}

/// Says that an object has two members of the same name.
fn named_twice(at: usize) -> String {
    format!("a member is named that its object has already, at byte {at}")
}

fn kept_as_it_is() -> String {
    format!("kept as it is; {NAMED_TWICE}")
}

/// Returns a problem for each way in which SQL shows an event otherwise than it is. `path` is its place.
pub(super) fn of_event(path: &str, event: &NewEvent) -> impl Iterator<Item = Problem> + use<> {
    of_payload(path, &event.envelope().kind, event.payload(), event.repeated())
}

/// Returns a problem for each way in which SQL shows a stored event otherwise than it is. `path` is its place.
pub(super) fn of_stored(path: &str, event: &StoredEvent) -> impl Iterator<Item = Problem> + use<> {
    let repeated = json::scan_names(&event.payload, |_, _| ()).ok().and_then(|notes| notes.repeated);
    of_payload(path, &event.kind, &event.payload, repeated)
}

fn of_payload(
    path: &str,
    kind: &str,
    payload: &str,
    repeated: Option<usize>,
) -> impl Iterator<Item = Problem> + use<> {
    let twice = repeated.map(|at| {
        let action = kept_as_it_is();
        Problem { path: path.to_owned(), problem: named_twice(at), action }
    });
    twice.into_iter().chain(long_of_event(path, kind, payload))
}

/// Returns a problem if projections do not show a text of an event whole. `path` is its place.
///
/// It looks where the projections do: at the members that they copy from events of this kind.
fn long_of_event(path: &str, kind: &str, payload: &str) -> Option<Problem> {
    // A text is not longer than the payload that it is in. Most payloads are shorter or have none of the members.
    if payload.len() <= COPY_BYTES_MAX || !COPIED.iter().any(|member| payload.contains(member)) {
        return None;
    }
    let members = Object::of(payload);
    let mut is_path_left_out = false;
    let mut count = match kind::canonical(kind) {
        kind::STATE_UPDATE => long_texts_of_update(&members),
        kind::OBSERVATION => long_texts_of_tasks(&members),
        kind => {
            let arguments = arguments_of_call(kind, &members);
            is_path_left_out = arguments.is_some_and(has_long_path);
            arguments.map_or(0, |_| long_texts_of_call(&members)) + usize::from(is_path_left_out)
        }
    };
    if kind::canonical(kind) != kind::STATE_UPDATE
        && let Some((_, usage)) = members.get("provenance").and_then(ForeignUsage::of)
    {
        let texts = [Some(&usage.model), usage.response_id.as_ref()];
        count += texts.into_iter().flatten().filter(|text| text.len() > COPY_BYTES_MAX).count();
    }
    let ids = ["correlation_id", "causation_id"].map(|name| members.get(name));
    count += ids.into_iter().filter(|id| is_long(*id)).count();
    let action = match is_path_left_out {
        true => "kept in the event; derived tables show the beginnings of texts, and no such path",
        false => "kept in the event; derived tables show their beginnings",
    };
    (count > 0).then(|| Problem {
        path: path.to_owned(),
        problem: format!("{count} of its texts have more than {COPY_BYTES_MAX} bytes"),
        action: action.into(),
    })
}

/// Returns the arguments of a tool call. `None` if events of this kind are no calls. Null if the call has none.
fn arguments_of_call<'a>(kind: &str, members: &Object<'a>) -> Option<Raw<'a>> {
    let name = match kind {
        kind::ACTION => "action",
        kind::ACP_TOOL_CALL => "raw_input",
        // OpenHands V0.
        kind if kind.starts_with("action:") && members.text("source").as_deref() == Some("agent") => "args",
        _ => return None,
    };
    Some(members.get(name).unwrap_or(Raw::checked("null")))
}

fn long_texts_of_call(members: &Object<'_>) -> usize {
    // The kind of tool is shown only if the call names no tool.
    let is_named = members.text("tool_name").is_some();
    usize::from(is_long(members.get("security_risk")))
        + usize::from(!is_named && is_long(members.get("tool_kind")))
}

/// Returns whether the path that the arguments of a call name is long.
fn has_long_path(arguments: Raw<'_>) -> bool {
    let mut paths = ["path", "file_path", "notebook_path"].into_iter().filter_map(|name| arguments.get(name));
    paths.find_map(Raw::as_text).is_some_and(|path| path.len() > COPY_BYTES_MAX)
}

fn long_texts_of_tasks(members: &Object<'_>) -> usize {
    let list = members.get("observation").and_then(|observation| observation.get("task_list"));
    let tasks = list.filter(|list| list.is_array()).into_iter().flat_map(Raw::elements);
    let texts = tasks.flat_map(|task| ["title", "notes", "status"].map(|name| task.get(name)));
    texts.filter(|text| is_long(*text)).count()
}

/// Returns the number of long usage ids and names of models in the cumulative figures of a state update.
fn long_texts_of_update(members: &Object<'_>) -> usize {
    let value = members.get("value");
    let stats = match members.text("key").as_deref() {
        Some("stats") => value,
        Some("full_state") => value.and_then(|value| value.get("stats")),
        _ => None,
    };
    let usages = stats.and_then(usages);
    let count = |(id, metrics): (Cow<'_, str>, Raw<'_>)| {
        usize::from(id.len() > COPY_BYTES_MAX) + usize::from(is_long(metrics.get("model_name")))
    };
    usages.into_iter().flat_map(Raw::members).map(count).sum()
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
