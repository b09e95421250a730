//! Spans of the store's work, as a subscriber of the crate `tracing` sees them.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use std::time::Duration;

use annals::store::EventQuery;
use annals::{Expected, Position};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::support::events::user_message;
use crate::support::{Scratch, conversation};

type Fields = BTreeMap<String, String>;

/// A span or an event.
#[derive(Debug, Clone)]
struct Seen {
    thread: ThreadId,
    name: &'static str,
    fields: Fields,
}

#[derive(Debug, Default)]
struct Everything {
    /// The number of a span is its place here, from 1.
    spans: Vec<Seen>,
    events: Vec<Seen>,
}

/// Records what the store emits, on any thread.
#[derive(Debug, Clone, Default)]
struct Recorder(Arc<Mutex<Everything>>);

impl Recorder {
    /// Returns the spans and the events of this thread. Other tests of this program run on other threads.
    fn of_this_thread(&self) -> (Vec<Seen>, Vec<Seen>) {
        let thread = std::thread::current().id();
        let of = |all: &[Seen]| all.iter().filter(|seen| seen.thread == thread).cloned().collect();
        let all = self.0.lock().unwrap();
        (of(&all.spans), of(&all.events))
    }
}

struct Reader<'a>(&'a mut Fields);

impl Visit for Reader<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }
}

fn seen(name: &'static str) -> Seen {
    Seen { thread: std::thread::current().id(), name, fields: Fields::new() }
}

impl Subscriber for Recorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "annals::store"
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let mut span = seen(attributes.metadata().name());
        attributes.record(&mut Reader(&mut span.fields));
        let mut all = self.0.lock().unwrap();
        all.spans.push(span);
        Id::from_u64(all.spans.len() as u64)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        let mut all = self.0.lock().unwrap();
        let place = usize::try_from(span.into_u64()).unwrap() - 1;
        values.record(&mut Reader(&mut all.spans[place].fields));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut new = seen("event");
        event.record(&mut Reader(&mut new.fields));
        self.0.lock().unwrap().events.push(new);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

fn fields<const N: usize>(fields: [(&str, &str); N]) -> Fields {
    fields.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

#[test]
fn the_work_of_the_store_has_spans_with_ids_and_counts_and_without_texts() {
    let recorder = Recorder::default();
    tracing::subscriber::set_global_default(recorder.clone()).unwrap();
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let talk = conversation("talk");
    store.append(&talk, Expected::Empty, &[user_message("a", "hush"), user_message("b", "more")]).unwrap();
    store.append(&talk, Expected::Exact(7), &[user_message("c", "hush")]).unwrap_err();
    store.events(&talk, &EventQuery::default(), 10).unwrap();
    store.events(&conversation("none"), &EventQuery::default(), 10).unwrap_err();
    store.follow(Position::START).next_page(10, Duration::ZERO).unwrap();
    store.catch_up().unwrap();
    assert_eq!(store.search("hush", &Default::default(), 10, &mut |_| ()).unwrap().len(), 1);
    store.maintenance().rebuild(&["transcript"], &mut |_| ()).unwrap();
    drop(store);

    let (spans, events) = recorder.of_this_thread();
    let named = |name: &str| -> Vec<Fields> {
        spans.iter().filter(|span| span.name == name).map(|span| span.fields.clone()).collect()
    };
    let talk = "\"talk\"";
    assert_eq!(
        named("append"),
        [
            fields([("conversation", talk), ("events", "2"), ("position", "2")]),
            fields([("conversation", talk), ("events", "1"), ("error", "Conflict")]),
        ]
    );
    assert_eq!(
        named("commit"),
        [fields([("requests", "1"), ("appends", "1")]), fields([("requests", "1"), ("appends", "0")])]
    );
    assert_eq!(
        named("read_page"),
        [
            fields([("conversation", talk), ("limit", "10"), ("events", "2")]),
            fields([("conversation", "\"none\""), ("limit", "10"), ("error", "Missing")]),
        ]
    );
    assert_eq!(named("read_feed"), [fields([("events", "2")])]);
    assert_eq!(named("catch_up"), [fields([("steps", "1")])]);
    assert_eq!(named("search"), [fields([("hits", "1")])]);
    assert_eq!(named("rebuild"), [fields([("named", "1")])]);
    // The end of the writer moves the log into the file.
    assert!(named("checkpoint").iter().any(|span| span.contains_key("frames") && span.contains_key("moved")));
    assert_eq!(events.len(), spans.len(), "each span ends with one event");
    assert!(events.iter().all(|event| event.fields["duration_us"].parse::<u64>().is_ok()), "{events:?}");
    let text = format!("{spans:?} {events:?}");
    assert!(!text.contains("hush") && !text.contains("SELECT"), "{text}");
}
