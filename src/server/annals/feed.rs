//! `/api/annals/feed`: every event of the file as it is appended, as server-sent events.
//!
//! Each event has its position as its id. A client that reconnects sends the last id (`Last-Event-ID`) and continues
//! there, without a gap or a repetition. The server stores no client's position: a feed reads the log from its own
//! position, and the hub only notifies it of new events. The memory of each feed and of all feeds together is bounded
//! in bytes. A client that reads nothing for 30 s is disconnected; it can reconnect and continue. Source of the format:
//! the HTML standard, section 9.2.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::timeout;

use super::log::payload;
use crate::ids::Position;
use crate::server::App;
use crate::server::http::budget::{self, Admission, Charge, Read, STEP_BYTES_MAX};
use crate::server::http::caller::Caller;
use crate::server::http::failure::{Failure, Problem};
use crate::server::http::permits::Following;
use crate::server::http::request::Params;
use crate::server::http::stream::Stream;
use crate::store::{FeedEvent, Store};

/// The maximum number of events read at once.
const PAGE: usize = 100;

/// The bytes reserved for the `id:` and `data:` fields of a frame. Usually enough.
const FRAMING_BYTES: usize = 64;

/// The longest time without a write. Proxies close a connection that is silent for a minute.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Opens a feed of the events after `Last-Event-ID`, else after `after`, else from now on.
pub(super) async fn open(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    params: Params,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let news = app.hub().news();
    let after = match after(&params, &headers)? {
        Some(after) => after,
        None => app.ask(crate::store::Store::last_position).await?,
    };
    let following = app.annals().feed(after)?;
    let (body, stream) = Stream::new();
    tokio::spawn(async move {
        tokio::select! {
            // A client that is gone, or that reads nothing, can reconnect.
            _gone = follow(&app, &following, after, news, stream) => {}
            () = app.ending().cancelled() => {}
            () = app.keys().revoked(&caller) => {}
        }
        drop(following);
    });
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    Ok((headers, body).into_response())
}

fn after(params: &Params, headers: &HeaderMap) -> Result<Option<Position>, Failure> {
    let last = headers.get("last-event-id").map(|value| value.to_str().unwrap_or_default());
    let Some(text) = last.filter(|last| !last.is_empty()).or_else(|| params.get("after")) else {
        return Ok(None);
    };
    let position = text.parse::<i64>().ok().and_then(|number| u64::try_from(number).ok());
    let problem = || {
        Problem::new("int_parsing", &["query", "after"], "Input should be a position: 0 or more")
            .with_input(text)
    };
    position.map(|position| Some(Position(position))).ok_or_else(|| problem().into())
}

async fn follow(
    app: &App,
    following: &Following,
    mut after: Position,
    mut news: watch::Receiver<Position>,
    mut stream: Stream,
) -> io::Result<()> {
    // The first frame has the starting position, so that a client that is cut off before the next one can continue
    // there.
    let begin = json!({"after": after.0});
    stream.write(format!("retry: 1000\nid: {}\nevent: begin\ndata: {begin}\n\n", after.0).as_bytes()).await?;
    loop {
        // Marked before the read, so that an event committed during the read ends the wait at once.
        news.mark_unchanged();
        let from = after;
        let read = move |store: &Store, charge: &mut Charge| {
            let mut admission = Admission::new(charge, STEP_BYTES_MAX, true);
            let page =
                store.follow(from).next_page_while(PAGE, Duration::ZERO, |bytes| admission.admits(bytes))?;
            Ok(match admission.refused() {
                Some(short) if page.is_empty() => Read::Short(short),
                Some(_) | None => Read::Done(page),
            })
        };
        let page = budget::within(app.store(), &app.budgets().listeners, read).await;
        let (page, charge) = page.map_err(|_| io::Error::other("the log cannot be read now"))?;
        let is_empty = page.is_empty();
        for event in page {
            after = event.event.position;
            stream.write(frame(event).as_bytes()).await?;
            following.came_to(after);
        }
        drop(charge);
        if is_empty {
            match timeout(HEARTBEAT, news.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return Ok(()),
                Err(_) => stream.write(b": still here\n\n").await?,
            }
        }
    }
}

/// Returns an event as a frame of the stream. Its position is the frame's id.
fn frame(FeedEvent { conversation, event }: FeedEvent) -> String {
    let head = format!(
        r#"{{"position":{},"conversation":{},"sequence":{},"recorded_at":"{}","event":"#,
        event.position.0,
        Value::from(conversation.as_str()),
        event.sequence.0,
        event.recorded_at.to_rfc3339(),
    );
    let payload = payload(&event);
    let mut text = String::with_capacity(payload.len() + head.len() + FRAMING_BYTES);
    text.push_str(&format!("id: {}\ndata: {head}", event.position.0));
    // A payload may have line breaks between its members. Each of its lines becomes a `data:` line of the frame.
    for (number, line) in payload.split(['\n', '\r']).enumerate() {
        text.push_str(if number > 0 { "\ndata: " } else { "" });
        text.push_str(line);
    }
    text.push_str("}\n\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position(last: Option<&str>, query: &[(&str, &str)]) -> Result<Option<Position>, Failure> {
        let mut headers = HeaderMap::new();
        headers.extend(
            last.map(|last| ("last-event-id".parse::<header::HeaderName>().unwrap(), last.parse().unwrap())),
        );
        after(&Params::of(query), &headers)
    }

    #[test]
    fn the_last_event_id_takes_precedence_over_the_query() {
        assert_eq!(position(Some("7"), &[("after", "3")]), Ok(Some(Position(7))));
        assert_eq!(position(None, &[("after", "3")]), Ok(Some(Position(3))));
        assert_eq!(position(Some(""), &[]), Ok(None));
        for wrong in ["-1", "x", "99999999999999999999"] {
            assert!(matches!(position(None, &[("after", wrong)]), Err(Failure::Schema(_))), "{wrong}");
        }
    }
}
