//! Routes for a conversation's events: pages, counts, one or several events by id (`docs/reference/server.md#events`),
//! new messages, and the confirmation of actions.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Json, Router};
use chrono::{DateTime, Local, NaiveDateTime};
use serde_json::Value;

use crate::error::Error;
use crate::event::{Content, Event, Given};
use crate::ids::{ConversationId, EventId};
use crate::server::App;
use crate::server::http::budget::{self, Admission, Charge, PAGE_BYTES_MAX, Read};
use crate::server::http::caller::Caller;
use crate::server::http::failure::{Failure, Problem, success};
use crate::server::http::json::{array, held, text};
use crate::server::http::message;
use crate::server::http::request::{self, Params, PathId};
use crate::server::http::stream::Stream;
use crate::server::live::session::Busy;
use crate::server::live::wire::{self, Nulls, Provenance, provenance};
use crate::store::{EventQuery, KeyRole, Store, StoredEvent};

/// The maximum number of events in a page.
const PAGE_MAX: u64 = 100;

/// The maximum number of events that are read at once to search them for a text, and the bytes after which a read ends.
const SCAN_EVENTS: usize = 500;
const SCAN_BYTES: usize = 4 << 20;

pub(in crate::server) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/", get(batch).post(say))
        .route("/search", get(search))
        .route("/count", get(count))
        .route("/respond_to_confirmation", axum::routing::post(respond))
        .route("/{event_id}", get(one))
}

/// The bytes reserved for a page besides its events: the names of members, and the id of the next page.
const PAGE_FRAME_BYTES: usize = 1 << 10;

/// The events that a request selects.
#[derive(Clone)]
struct Wanted {
    query: EventQuery,
    /// Selects only messages that contain this text, in lower case.
    body: Option<String>,
}

impl Wanted {
    fn of(params: &Params) -> Result<Self, Failure> {
        let mut query = EventQuery::default();
        // A dotted path is the name of a class with its module. The last part is the kind.
        query.kinds.extend(params.get("kind").map(|kind| kind.rsplit('.').next().unwrap_or(kind).to_owned()));
        query.sources.extend(params.get("source").map(str::to_owned));
        query.timestamp_from = time(params, "timestamp__gte")?;
        query.timestamp_before = time(params, "timestamp__lt")?;
        let order = [("TIMESTAMP", false), ("TIMESTAMP_DESC", true)];
        query.descending = params.word("sort_order", &order)?.unwrap_or_default();
        let body = params.get("body").filter(|body| !body.is_empty()).map(str::to_lowercase);
        if body.is_some() {
            // Only messages are searched for a text.
            let is_possible = query.kinds.is_empty() || query.kinds == ["MessageEvent"];
            query.kinds = vec![if is_possible { "MessageEvent" } else { "" }.to_owned()];
        }
        Ok(Self { query, body })
    }

    fn fits(&self, event: &StoredEvent) -> bool {
        self.body.as_ref().is_none_or(|body| message_text(event).to_lowercase().contains(body))
    }

    /// Reads the next events that fit, as many as the page and the charge have room for. Also returns the first event
    /// of the next page, if there is one.
    fn take(
        &self,
        store: &Store,
        conversation: &ConversationId,
        limit: usize,
        charge: &mut Charge,
    ) -> Result<Read<Found>, Error> {
        let (mut query, mut found, mut bytes) = (self.query.clone(), Vec::new(), 0);
        loop {
            let step = if self.body.is_some() { SCAN_EVENTS } else { limit - found.len() };
            let mut admission =
                Admission::new(charge, PAGE_BYTES_MAX.saturating_sub(bytes), found.is_empty());
            let page = store.events_while(conversation, &query, step, |bytes| admission.admits(bytes))?;
            let is_full = match admission.refused() {
                Some(short) if page.events.is_empty() && found.is_empty() => return Ok(Read::Short(short)),
                refused => refused.is_some() && page.events.is_empty(),
            };
            for event in page.events {
                if self.fits(&event) {
                    bytes += event.payload.len();
                    found.push(event);
                } else {
                    charge.shrink(event.payload.len() * budget::COPIES);
                }
            }
            if found.len() > limit {
                let next = Some(found.swap_remove(limit).id);
                found.truncate(limit);
                return Ok(Read::Done(Found { events: found, bytes, next }));
            }
            match page.next {
                Some(next) if is_full || (self.body.is_none() && found.len() == limit) => {
                    let next = Some(store.event_id(conversation, next)?);
                    return Ok(Read::Done(Found { events: found, bytes, next }));
                }
                Some(next) => {
                    let bound = if query.descending { &mut query.to } else { &mut query.from };
                    *bound = Some(next);
                }
                None => return Ok(Read::Done(Found { events: found, bytes, next: None })),
            }
        }
    }
}

/// The events of a page.
struct Found {
    events: Vec<StoredEvent>,
    /// The bytes of their payloads.
    bytes: usize,
    /// The first event of the next page.
    next: Option<EventId>,
}

/// Reads a time of the query in the form of the events' timestamps: local time, without a zone. A time without a zone
/// is taken as local time.
fn time(params: &Params, name: &str) -> Result<Option<String>, Failure> {
    let Some(text) = params.get(name) else { return Ok(None) };
    let zoned = DateTime::parse_from_rfc3339(&text.replace(' ', "+"));
    let naive = match zoned {
        Ok(zoned) => zoned.with_timezone(&Local).naive_local(),
        Err(_) => {
            let formats = ["%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M"];
            let parsed = formats.iter().find_map(|format| NaiveDateTime::parse_from_str(text, format).ok());
            let day = || NaiveDateTime::parse_from_str(&format!("{text}T00:00:00"), formats[0]).ok();
            parsed.or_else(day).ok_or_else(|| {
                let message = "Input should be a valid datetime or date";
                Problem::new("datetime_from_date_parsing", &["query", name], message).with_input(text)
            })?
        }
    };
    Ok(Some(naive.format("%Y-%m-%dT%H:%M:%S%.6f").to_string()))
}

/// Returns the texts of a message: its content, its extended content and its reasoning. Empty for other events.
fn message_text(event: &StoredEvent) -> String {
    let Ok(Event::Message(message)) = Event::read(&event.payload, &Given::default()) else {
        return String::new();
    };
    let parts = message.llm_message.content.iter().filter_map(Content::as_text);
    let added = message.extended_content.iter().map(|part| &*part.text);
    let texts: Vec<&str> =
        parts.chain(added).chain(message.llm_message.reasoning_content.as_deref()).collect();
    texts.join(" ")
}

/// Replaces the text of a 404 by one that names the unknown conversation.
fn named(conversation: &ConversationId) -> impl Fn(Failure) -> Failure {
    let text = format!("Conversation not found: {conversation}");
    move |failure| match failure {
        Failure::Refused(StatusCode::NOT_FOUND, _) => Failure::not_found(text.clone()),
        other => other,
    }
}

async fn search(
    State(app): State<Arc<App>>,
    PathId(id): PathId,
    params: Params,
) -> Result<Response, Failure> {
    let wanted = Wanted::of(&params)?;
    let limit = params.number("limit", 1, PAGE_MAX, PAGE_MAX)? as usize;
    let page_id = params.get("page_id").map(str::to_owned);
    let conversation = id.clone();
    let read = move |store: &Store, charge: &mut Charge| {
        // With an unknown cursor, the page begins with the first event.
        let cursor = page_id.as_ref().and_then(|page_id| EventId::new(page_id.clone()).ok());
        let mut wanted = wanted.clone();
        match cursor.map(|cursor| store.sequence(&conversation, &cursor)).transpose() {
            Ok(Some(first)) if wanted.query.descending => wanted.query.to = Some(first),
            Ok(Some(first)) => wanted.query.from = Some(first),
            Ok(None) | Err(Error::UnknownEvent { .. }) => {}
            Err(error) => return Err(error),
        }
        let found = match wanted.take(store, &conversation, limit, charge)? {
            Read::Done(found) => found,
            Read::Short(bytes) => return Ok(Read::Short(bytes)),
        };
        let provenance = provenance(store, &conversation)?;
        let mut text = String::with_capacity(found.bytes + found.events.len() + PAGE_FRAME_BYTES);
        text.push_str(r#"{"items":["#);
        let begin = text.len();
        // Each event is dropped as soon as it is written.
        for event in found.events {
            if let Ok(shown) = wire::shown(&event, provenance, Nulls::Omitted) {
                text.push_str(if text.len() > begin { "," } else { "" });
                text.push_str(&shown);
            }
        }
        let next = found.next.map_or(Value::Null, |id| Value::from(id.as_str()));
        text.push_str(&format!(r#"],"next_page_id":{next}}}"#));
        Ok(Read::Done(text))
    };
    let (page, charge) = budget::within(app.store(), &app.budgets().pages, read).await.map_err(named(&id))?;
    Ok(held(charge.hold(page)))
}

async fn count(State(app): State<Arc<App>>, PathId(id): PathId, params: Params) -> Result<Response, Failure> {
    let wanted = Wanted::of(&params)?;
    let conversation = id.clone();
    let bytes = if wanted.body.is_some() { SCAN_BYTES } else { 0 };
    let charge = app.budgets().pages.take(bytes).await?;
    let count = app.ask(move |store| {
        let _charge = charge;
        if wanted.body.is_none() {
            return store.count_events(&conversation, &wanted.query);
        }
        let mut count = 0;
        let mut query = EventQuery { descending: false, ..wanted.query.clone() };
        loop {
            let mut total = 0;
            let page = store.events_while(&conversation, &query, SCAN_EVENTS, |bytes| {
                let is_first = total == 0;
                total += bytes;
                is_first || total <= SCAN_BYTES
            })?;
            count += page.events.iter().filter(|event| wanted.fits(event)).count() as u64;
            match page.next {
                Some(next) => query.from = Some(next),
                None => return Ok(count),
            }
        }
    });
    count.await.map(|count| text(count.to_string())).map_err(named(&id))
}

async fn one(
    State(app): State<Arc<App>>,
    PathId(id): PathId,
    Path((_, event_id)): Path<(String, String)>,
) -> Result<Response, Failure> {
    let conversation = id.clone();
    let read = move |store: &Store, charge: &mut Charge| {
        let Some(text) = read(store, &conversation, &event_id)? else { return Ok(Read::Done(None)) };
        let bytes = text.len() * budget::COPIES;
        Ok(if charge.grow(bytes) { Read::Done(Some(text)) } else { Read::Short(bytes) })
    };
    let (found, charge) =
        budget::within(app.store(), &app.budgets().pages, read).await.map_err(named(&id))?;
    found.map(|text| held(charge.hold(text))).ok_or_else(|| Failure::not_found("Not Found"))
}

async fn batch(State(app): State<Arc<App>>, PathId(id): PathId, body: Bytes) -> Result<Response, Failure> {
    let ids = match request::json(&body)? {
        Some(Value::Array(ids)) => ids,
        Some(_) => return Err(Problem::new("list_type", &["body"], "Input should be a valid list").into()),
        None => return Err(Problem::new("missing", &["body"], "Field required").into()),
    };
    let mut named_ids = Vec::with_capacity(ids.len());
    for (place, id) in ids.iter().enumerate() {
        let Some(id) = id.as_str() else {
            let place = place.to_string();
            let problem = Problem::new("string_type", &["body", &place], "Input should be a valid string");
            return Err(problem.into());
        };
        named_ids.push(id.to_owned());
    }
    several(app, &id, named_ids).await.map_err(named(&id))
}

/// Responds with the events with these ids, and `null` for unknown ids. If they are large together, they are sent one
/// by one.
async fn several(app: Arc<App>, id: &ConversationId, ids: Vec<String>) -> Result<Response, Failure> {
    let (conversation, all) = (id.clone(), ids.clone());
    let read = move |store: &Store, charge: &mut Charge| {
        // If there are no ids, only this checks that the conversation exists.
        store.conversation(&conversation)?;
        let mut texts: Vec<String> = Vec::with_capacity(all.len());
        let mut admission = Admission::new(charge, PAGE_BYTES_MAX, true);
        for id in &all {
            let text = read(store, &conversation, id)?.unwrap_or_else(|| "null".to_owned());
            if !admission.admits(text.len()) {
                return match admission.refused() {
                    Some(short) if texts.is_empty() => Ok(Read::Short(short)),
                    // The events are too large together: each is sent as soon as it is read.
                    Some(_) | None => Ok(Read::Done(None)),
                };
            }
            texts.push(text);
        }
        Ok(Read::Done(Some(array(texts.into_iter()))))
    };
    match budget::within(app.store(), &app.budgets().pages, read).await? {
        (Some(whole), charge) => Ok(held(charge.hold(whole))),
        (None, charge) => {
            drop(charge);
            let (body, stream) = Stream::new();
            let conversation = id.clone();
            // Errors are ignored. A client that is gone needs no response; a response that is cut off is invalid JSON.
            tokio::spawn(async move { drop(one_by_one(&app, conversation, ids, stream).await) });
            Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
        }
    }
}

async fn one_by_one(
    app: &App,
    conversation: ConversationId,
    ids: Vec<String>,
    mut stream: Stream,
) -> std::io::Result<()> {
    let mut before = "[";
    for id in ids {
        let conversation = conversation.clone();
        let read = move |store: &Store, charge: &mut Charge| {
            let text = read(store, &conversation, &id)?.unwrap_or_else(|| "null".to_owned());
            let bytes = text.len() * budget::COPIES;
            Ok(if charge.grow(bytes) { Read::Done(text) } else { Read::Short(bytes) })
        };
        let result = budget::within(app.store(), &app.budgets().pages, read).await;
        let (text, _charge) = result.map_err(|_| std::io::Error::other("the log cannot be read now"))?;
        stream.write(before.as_bytes()).await?;
        stream.write(text.as_bytes()).await?;
        before = ",";
    }
    stream.write(b"]").await
}

/// Adds a message of the user. With `run`, the agent continues.
async fn say(State(app): State<Arc<App>>, PathId(id): PathId, body: Bytes) -> Result<Json<Value>, Failure> {
    let value = Value::Object(request::object(&body)?);
    let message = message::parse(&value, &[])?;
    let runs = value.get("run") == Some(&Value::Bool(true));
    app.touch();
    let session = app.sessions().open(&app, &id).await.map_err(named(&id))?;
    session.say(&app, message).await?;
    if runs {
        session.start(&app, Busy::FollowUp).map_err(|failure| match failure {
            Failure::Refused(StatusCode::TOO_MANY_REQUESTS, _) => Failure::Refused(
                StatusCode::TOO_MANY_REQUESTS,
                "Conversation run limit reached. The message is saved; retry with /run later.".to_owned(),
            ),
            other => other,
        })?;
    }
    Ok(success())
}

/// Accepts or rejects the pending actions.
async fn respond(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    PathId(id): PathId,
    body: Bytes,
) -> Result<Json<Value>, Failure> {
    let members = request::object(&body)?;
    let accepts = match members.get("accept") {
        Some(Value::Bool(accepts)) => *accepts,
        Some(_) => {
            let message = "Input should be a valid boolean";
            return Err(Problem::new("bool_type", &["body", "accept"], message).into());
        }
        None => return Err(Problem::new("missing", &["body", "accept"], "Field required").into()),
    };
    let reason = request::text(&members, "reason")?.unwrap_or("User rejected the action.").to_owned();
    let session = app.sessions().open(&app, &id).await.map_err(named(&id))?;
    if accepts {
        let waits = session.waits_for_answer(&app).await?;
        // Without a waiting action this is a run, which takes more than the right to answer.
        if !waits && !caller.may(KeyRole::Write) {
            return Err(Failure::conflict("No action waits for an answer."));
        }
        match session.start_by(&app, Busy::Refuse, caller.user()) {
            Err(Failure::Refused(StatusCode::CONFLICT, _) | Failure::Stale(..)) | Ok(()) => {}
            Err(other) => return Err(other),
        }
    } else {
        session.conversation.reject_by(&reason, caller.user()).await?;
    }
    Ok(success())
}

/// Returns one event as JSON, with nulls. `None` if there is no event with that id.
fn read(store: &Store, conversation: &ConversationId, id: &str) -> Result<Option<String>, Error> {
    let Ok(id) = EventId::new(id.to_owned()) else {
        store.conversation(conversation)?;
        return Ok(None);
    };
    match store.event(conversation, &id) {
        Ok(event) => {
            let shown = wire::shown(&event, Provenance::Imported, Nulls::Written);
            Ok(shown.ok().map(std::borrow::Cow::into_owned))
        }
        Err(Error::UnknownEvent { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
