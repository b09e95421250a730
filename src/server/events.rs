//! Reading a conversation's events: pages, counts, one, several (`api.md` sections 4.1 to 4.4).

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use chrono::{DateTime, Local, NaiveDateTime};
use serde_json::Value;

use super::App;
use super::failure::{Failure, Problem, success};
use super::message;
use super::request::{self, Params, PathId};
use super::session::Busy;
use super::wire::{self, Nulls, Provenance};
use crate::error::Error;
use crate::event::{Content, Event, Given};
use crate::ids::{ConversationId, EventId};
use crate::store::{EventQuery, Store, StoredEvent};

/// The most events of one page.
const PAGE_MAX: u64 = 100;

/// How many events are looked through at once for a text.
const LOOK_THROUGH: usize = 500;

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/", get(batch).post(say))
        .route("/search", get(search))
        .route("/count", get(count))
        .route("/respond_to_confirmation", axum::routing::post(respond))
        .route("/{event_id}", get(one))
}

/// Which events are wanted.
struct Wanted {
    query: EventQuery,
    /// Only messages with this text somewhere, in lower case.
    body: Option<String>,
}

impl Wanted {
    fn of(params: &Params) -> Result<Self, Failure> {
        let mut query = EventQuery::default();
        // A dotted path is the class's module; its last step is the kind.
        query.kinds.extend(params.get("kind").map(|kind| kind.rsplit('.').next().unwrap_or(kind).to_owned()));
        query.sources.extend(params.get("source").map(str::to_owned));
        query.timestamp_from = time(params, "timestamp__gte")?;
        query.timestamp_before = time(params, "timestamp__lt")?;
        let order = [("TIMESTAMP", false), ("TIMESTAMP_DESC", true)];
        query.descending = params.word("sort_order", &order)?.unwrap_or_default();
        let body = params.get("body").filter(|body| !body.is_empty()).map(str::to_lowercase);
        if body.is_some() {
            // Nothing but a message has a text to look in.
            let is_possible = query.kinds.is_empty() || query.kinds == ["MessageEvent"];
            query.kinds = vec![if is_possible { "MessageEvent" } else { "" }.to_owned()];
        }
        Ok(Self { query, body })
    }

    fn fits(&self, event: &StoredEvent) -> bool {
        self.body.as_ref().is_none_or(|body| said(event).to_lowercase().contains(body))
    }

    /// The next events that fit, one more than `limit` where there are more.
    fn take(
        &self,
        store: &Store,
        conversation: &ConversationId,
        limit: usize,
    ) -> Result<Vec<StoredEvent>, Error> {
        let (mut query, mut found) = (self.query.clone(), Vec::new());
        let step = if self.body.is_some() { LOOK_THROUGH } else { limit + 1 };
        loop {
            let page = store.events(conversation, &query, step)?;
            found.extend(page.events.into_iter().filter(|event| self.fits(event)));
            found.truncate(limit + 1);
            match page.next {
                Some(next) if found.len() <= limit => {
                    let bound = if query.descending { &mut query.to } else { &mut query.from };
                    *bound = Some(next);
                }
                Some(_) | None => return Ok(found),
            }
        }
    }
}

/// A time of a query as events carry theirs: local, without a zone. One without a zone is local already.
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

/// The texts of a message: what was said, what was added to it, and its reasoning.
fn said(event: &StoredEvent) -> String {
    let Ok(Event::Message(message)) = Event::read(&event.payload, &Given::default()) else {
        return String::new();
    };
    let parts = message.llm_message.content.iter().filter_map(Content::as_text);
    let added = message.extended_content.iter().map(|part| &*part.text);
    let texts: Vec<&str> =
        parts.chain(added).chain(message.llm_message.reasoning_content.as_deref()).collect();
    texts.join(" ")
}

/// Where a conversation comes from, for [`wire::shown`].
pub(super) fn provenance(store: &Store, conversation: &ConversationId) -> Result<Provenance, Error> {
    Ok(if store.origin(conversation)?.is_some() { Provenance::Imported } else { Provenance::Own })
}

/// The refusal of these routes where there is no such conversation: it names it.
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
    let mut wanted = Wanted::of(&params)?;
    let limit = params.number("limit", 1, PAGE_MAX, PAGE_MAX)? as usize;
    let page_id = params.get("page_id").map(str::to_owned);
    let conversation = id.clone();
    let body = app.ask(move |store| {
        // An unknown cursor begins at the beginning.
        let cursor = page_id.and_then(|page_id| EventId::new(page_id).ok());
        match cursor.map(|cursor| store.event(&conversation, &cursor)).transpose() {
            Ok(Some(first)) if wanted.query.descending => wanted.query.to = Some(first.sequence),
            Ok(Some(first)) => wanted.query.from = Some(first.sequence),
            Ok(None) | Err(Error::UnknownEvent { .. }) => {}
            Err(error) => return Err(error),
        }
        let mut found = wanted.take(store, &conversation, limit)?;
        let next = if found.len() > limit { found.pop() } else { None };
        let provenance = provenance(store, &conversation)?;
        let items = found.iter().filter_map(|event| wire::shown(event, provenance, Nulls::Omitted).ok());
        let next = next.map_or(Value::Null, |event| Value::from(event.id.as_str()));
        Ok(format!(r#"{{"items":{},"next_page_id":{next}}}"#, array(items)))
    });
    body.await.map(text).map_err(named(&id))
}

async fn count(State(app): State<Arc<App>>, PathId(id): PathId, params: Params) -> Result<Response, Failure> {
    let wanted = Wanted::of(&params)?;
    let conversation = id.clone();
    let count = app.ask(move |store| {
        if wanted.body.is_none() {
            return store.count_events(&conversation, &wanted.query);
        }
        let mut count = 0;
        let mut query = EventQuery { descending: false, ..wanted.query.clone() };
        loop {
            let page = store.events(&conversation, &query, LOOK_THROUGH)?;
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
    let found = app.ask(move |store| read(store, &conversation, &event_id)).await.map_err(named(&id))?;
    found.map(text).ok_or_else(|| Failure::not_found("Not Found"))
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
    let (ids, conversation) = (named_ids, id.clone());
    let events = app.ask(move |store| {
        let events: Result<Vec<_>, Error> = ids.iter().map(|id| read(store, &conversation, id)).collect();
        // Without a single id nobody has asked yet whether there is such a conversation.
        store.conversation(&conversation)?;
        Ok(array(events?.into_iter().map(|event| event.unwrap_or_else(|| "null".to_owned()))))
    });
    events.await.map(text).map_err(named(&id))
}

/// A person says something; with `run` the agent goes on.
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

/// A person lets actions happen, or does not.
async fn respond(
    State(app): State<Arc<App>>,
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
        match session.start(&app, Busy::Refuse) {
            Err(Failure::Refused(StatusCode::CONFLICT, _)) | Ok(()) => {}
            Err(other) => return Err(other),
        }
    } else {
        session.conversation.reject_pending_actions(&reason).await?;
    }
    Ok(success())
}

/// One event with its nulls; `None` where there is none of that id.
fn read(store: &Store, conversation: &ConversationId, id: &str) -> Result<Option<String>, Error> {
    let Ok(id) = EventId::new(id.to_owned()) else {
        store.conversation(conversation)?;
        return Ok(None);
    };
    match store.event(conversation, &id) {
        Ok(event) => Ok(wire::shown(&event, Provenance::Imported, Nulls::Written).ok()),
        Err(Error::UnknownEvent { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// JSON texts as one array.
pub(super) fn array(items: impl Iterator<Item = String>) -> String {
    let mut text = String::from("[");
    for item in items {
        if text.len() > 1 {
            text.push(',');
        }
        text.push_str(&item);
    }
    text.push(']');
    text
}

/// A JSON text as an answer.
pub(super) fn text(json: String) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], json).into_response()
}
