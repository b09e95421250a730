//! The log itself: appends events unchanged, and reads them as they are stored.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::response::Response;
use serde_json::{Value, json};

use super::shorten::shorten;
use super::{ask, named};
use crate::error::{Error, Expected, Result};
use crate::event::{NewEvent, PAYLOAD_BYTES_MAX};
use crate::ids::{ConversationId, EventId, Sequence};
use crate::json::Raw;
use crate::server::App;
use crate::server::http::budget::{self, Admission, Charge, PAGE_BYTES_MAX, Read};
use crate::server::http::failure::{Failure, Problem};
use crate::server::http::json::{array, held};
use crate::server::http::request::Params;
use crate::store::{Append, Appended, EventQuery, Store, StoredEvent};

/// The largest body of an append, in bytes: enough for the largest event and some more.
pub(super) const APPEND_BYTES_MAX: usize = PAYLOAD_BYTES_MAX + (1 << 20);

/// The largest body that is parsed on the request's own task, which takes microseconds. A larger one is parsed on a
/// thread that may block.
const INLINE_BYTES_MAX: usize = 64 << 10;

/// The maximum number of events in a page.
const PAGE_MAX: u64 = 1000;

/// The default number of events in a page.
const PAGE: u64 = 100;

/// Appends one event, or an array of events, all or none. `expected` is the caller's condition on the length.
pub(super) async fn append(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    params: Params,
    body: Bytes,
) -> std::result::Result<Json<Value>, Failure> {
    let expected = expected(&params)?;
    app.touch();
    // The id is not resolved from a prefix, because the conversation may be new.
    let conversation = ConversationId::new(&id).map_err(Error::from)?;
    let events = if body.len() <= INLINE_BYTES_MAX {
        events(&body)?
    } else {
        ask(&app, move |_| Ok(events(&body))).await??
    };
    let ids: Vec<EventId> = events.iter().map(|event| event.id().clone()).collect();
    let append = Append { expected, events, base_state: None, leaf: None };
    let places = app.append(&conversation, append).await.map_err(named)?;
    let place = |(id, place): (&EventId, &Appended)| {
        json!({
            "id": id.as_str(),
            "sequence": place.sequence.0,
            "position": place.position.0,
            "known": place.known,
        })
    };
    Ok(Json(json!({"appended": ids.iter().zip(&places).map(place).collect::<Value>()})))
}

fn expected(params: &Params) -> std::result::Result<Expected, Failure> {
    match params.get("expected") {
        None | Some("any") => Ok(Expected::Any),
        Some("empty") => Ok(Expected::Empty),
        Some("exists") => Ok(Expected::Exists),
        Some(text) => text.parse().map(Expected::Exact).map_err(|_| {
            let message = "Input should be 'any', 'empty', 'exists' or a number of events";
            Problem::new("enum", &["query", "expected"], message).with_input(text).into()
        }),
    }
}

/// Parses the events of a body. Each keeps its original bytes.
fn events(body: &Bytes) -> std::result::Result<Vec<NewEvent>, Failure> {
    let invalid = |message: String| Failure::from(Problem::new("json_invalid", &["body"], message));
    let text = std::str::from_utf8(body).map_err(|_| invalid("it is not UTF-8".to_owned()))?;
    let whole = Raw::parse(text.trim()).map_err(|fault| invalid(fault.to_string()))?;
    let event = |(place, raw): (usize, Raw<'_>)| {
        let place = place.to_string();
        let problem = |message: String| Problem::new("value_error", &["body", &place], message);
        NewEvent::parse(raw.text()).map_err(|error| problem(format!("Value error, {error}")).into())
    };
    if whole.is_array() {
        whole.elements().enumerate().map(event).collect()
    } else {
        Ok(vec![event((0, whole))?])
    }
}

/// Returns a page of the log as it is stored.
pub(super) async fn page(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    params: Params,
) -> std::result::Result<Response, Failure> {
    let sequence = |name: &str| -> std::result::Result<Option<Sequence>, Failure> {
        let number = params.get(name).map(|_| params.number(name, 0, i64::MAX as u64, 0)).transpose()?;
        Ok(number.map(Sequence))
    };
    let limit = params.number("limit", 1, PAGE_MAX, PAGE)? as usize;
    let texts =
        params.get("texts").map(|_| params.number("texts", 100, PAYLOAD_BYTES_MAX as u64, 0)).transpose()?;
    let texts = texts.map(|characters| characters as usize);
    let query = EventQuery {
        from: sequence("from")?,
        to: sequence("to")?,
        kinds: params.all("kind").map(str::to_owned).collect(),
        sources: params.all("source").map(str::to_owned).collect(),
        tool: params.get("tool").map(str::to_owned),
        descending: params.flag("descending")?,
        ..EventQuery::default()
    };
    let read = move |store: &Store, charge: &mut Charge| {
        // An unknown conversation is named in the failure.
        Ok(match read_page(store, &id, &query, limit, texts, charge) {
            Ok(Read::Done(page)) => Read::Done(Ok(page)),
            Ok(Read::Short(bytes)) => Read::Short(bytes),
            Err(error) => Read::Done(Err(named(error))),
        })
    };
    let (page, charge) = budget::within(app.store(), &app.budgets().pages, read).await?;
    Ok(held(charge.hold(page?)))
}

/// Reads the page as JSON text. The page ends early if the charge or the page has no room for more.
fn read_page(
    store: &Store,
    id: &str,
    query: &EventQuery,
    limit: usize,
    texts: Option<usize>,
    charge: &mut Charge,
) -> Result<Read<String>> {
    let id = store.resolve(id)?;
    let mut admission = Admission::new(charge, PAGE_BYTES_MAX, true);
    let page = store.events_while(&id, query, limit, |bytes| admission.admits(bytes))?;
    if let (Some(short), true) = (admission.refused(), page.events.is_empty()) {
        return Ok(Read::Short(short));
    }
    let next = page.next.map_or(Value::Null, |next| json!(next.0));
    let mut text = array(page.events.into_iter().map(|event| stored(&event, texts)));
    text.insert_str(0, r#"{"events":"#);
    text.push_str(&format!(r#","next":{next}}}"#));
    Ok(Read::Done(text))
}

/// Returns a stored event with its sequence and position. The payload is byte for byte the stored one, unless `texts`
/// limits the characters of each text.
fn stored(event: &StoredEvent, texts: Option<usize>) -> String {
    let (payload, cut) = match texts {
        Some(characters) => shorten(payload(event), characters),
        None => (payload(event), None),
    };
    let cut = cut.map(|cut| format!(r#""cut":{cut},"#)).unwrap_or_default();
    format!(
        r#"{{"position":{},"sequence":{},"recorded_at":"{}","redacted":{},{cut}"event":{payload}}}"#,
        event.position.0,
        event.sequence.0,
        event.recorded_at.to_rfc3339(),
        event.redacted_digest.is_some(),
    )
}

/// Returns the payload as JSON. An imported payload that is not strict JSON (it may contain NaN) becomes a JSON string
/// of its text.
pub(super) fn payload(event: &StoredEvent) -> std::borrow::Cow<'_, str> {
    match serde_json::from_str::<serde::de::IgnoredAny>(&event.payload) {
        Ok(_) => (&*event.payload).into(),
        Err(_) => Value::from(&*event.payload).to_string().into(),
    }
}
