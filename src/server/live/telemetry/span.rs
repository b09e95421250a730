//! Makes the spans that end with an event.
//!
//! A trace is a turn: a user's message and everything that follows from it. The ids of spans are made from the ids of
//! events. A span can therefore be exported before its parent has ended, and the same log gives the same ids.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use sha2::{Digest as _, Sha256};

use crate::error::Result;
use crate::ids::{ConversationId, EventId, Sequence, Timestamp};
use crate::store::{EventQuery, FeedEvent, ReplyUsage, Store, StoredEvent};

/// The maximum number of conversations whose turn is in memory. Other turns are looked up in the log again.
const TURNS_MAX: usize = 4096;

/// The newest turn of each conversation.
#[derive(Default)]
pub(super) struct Spans(HashMap<ConversationId, Turn>);

/// A user's message, and what followed from it so far.
#[derive(Clone)]
struct Turn {
    /// The id of the user's message.
    begun_by: String,
    begun: Timestamp,
    /// The last reply that has a span. Several events may come from one reply.
    reply: Option<String>,
    is_over: bool,
}

impl Spans {
    /// Returns the spans that end with this event. There are none for imported conversations, because these took place
    /// elsewhere.
    pub fn of(&mut self, store: &Store, event: &FeedEvent) -> Vec<SpanData> {
        let (conversation, event) = (&event.conversation, &event.event);
        if !matches!(store.origin(conversation), Ok(None)) {
            return Vec::new();
        }
        let mut made = Vec::new();
        if event.kind == "MessageEvent" && event.source.as_deref() == Some("user") {
            if let Some(turn) = self.0.get(conversation).filter(|turn| !turn.is_over) {
                made.push(turn.span(conversation, event.recorded_at, Status::Unset));
            }
            self.begin(conversation, event);
            return made;
        }
        let Some(turn) = self.turn(store, conversation, event.sequence) else { return made };
        if let Some(reply) =
            event.llm_response_id.as_ref().filter(|reply| turn.reply.as_ref() != Some(*reply))
        {
            turn.reply = Some(reply.clone());
            if let Ok(Some(usage)) = store.usage_of_reply(conversation, reply) {
                made.push(turn.reply_span(conversation, event, reply, &usage));
            }
        }
        if let Some(Ok(action)) = action(store, conversation, event) {
            made.push(turn.tool_span(conversation, &action, event));
        }
        if let Some(status) = end(event)
            && !turn.is_over
        {
            turn.is_over = true;
            made.push(turn.span(conversation, event.recorded_at, status));
        }
        made
    }

    fn begin(&mut self, conversation: &ConversationId, message: &StoredEvent) {
        if self.0.len() >= TURNS_MAX {
            self.0.retain(|_, turn| !turn.is_over);
        }
        if self.0.len() >= TURNS_MAX {
            self.0.clear();
        }
        let turn = Turn {
            begun_by: message.id.as_str().to_owned(),
            begun: message.recorded_at,
            reply: None,
            is_over: false,
        };
        self.0.insert(conversation.clone(), turn);
    }

    /// Returns the newest turn. If it is not in memory, it is looked up in the log.
    fn turn(&mut self, store: &Store, conversation: &ConversationId, at: Sequence) -> Option<&mut Turn> {
        if !self.0.contains_key(conversation) {
            let query = EventQuery {
                kinds: vec!["MessageEvent".to_owned()],
                sources: vec!["user".to_owned()],
                to: Some(at),
                descending: true,
                ..EventQuery::default()
            };
            let page = store.events(conversation, &query, 1).ok()?;
            self.begin(conversation, page.events.first()?);
        }
        self.0.get_mut(conversation)
    }
}

/// Returns the action that an event is the result of. `None` if the event is no result.
fn action(store: &Store, conversation: &ConversationId, event: &StoredEvent) -> Option<Result<StoredEvent>> {
    let is_result =
        matches!(event.kind.as_str(), "ObservationEvent" | "AgentErrorEvent" | "UserRejectObservation");
    let id = event.action_id.as_deref().filter(|_| is_result)?;
    Some(EventId::new(id).map_err(Into::into).and_then(|id| store.event(conversation, &id)))
}

/// Returns the status of a turn that an event ends. `None` if the event does not end a turn.
fn end(event: &StoredEvent) -> Option<Status> {
    match event.kind.as_str() {
        "MessageEvent" => Some(Status::Ok),
        "ObservationEvent" if event.tool_name.as_deref() == Some("finish") => Some(Status::Ok),
        "PauseEvent" | "InterruptEvent" => Some(Status::Unset),
        "ConversationErrorEvent" => Some(Status::error(event.kind.clone())),
        _ => None,
    }
}

impl Turn {
    fn trace(&self) -> TraceId {
        TraceId::from_bytes(first(&["turn", &self.begun_by]))
    }

    fn root(&self) -> SpanId {
        SpanId::from_bytes(first(&["root", &self.begun_by]))
    }

    /// Returns the span of the whole turn.
    fn span(&self, conversation: &ConversationId, ended: Timestamp, status: Status) -> SpanData {
        let mut span = self.child(conversation, "", "invoke_agent", time(self.begun), time(ended));
        span.span_context = self.context(self.root());
        span.parent_span_id = SpanId::INVALID;
        span.attributes.push(KeyValue::new("gen_ai.operation.name", "invoke_agent"));
        span.status = status;
        span
    }

    /// Returns the span of a model's reply. It ends when the reply was recorded, and is as long as the reply's latency.
    fn reply_span(
        &self,
        conversation: &ConversationId,
        event: &StoredEvent,
        reply: &str,
        usage: &ReplyUsage,
    ) -> SpanData {
        let ended = time(event.recorded_at);
        let took = usage.latency.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let begun = ended.checked_sub(took.unwrap_or_default()).unwrap_or(ended);
        let mut span = self.child(conversation, reply, format!("chat {}", usage.model), begun, ended);
        span.span_kind = SpanKind::Client;
        let provider = usage.model.split_once('/').map_or("openai", |(provider, _)| provider).to_owned();
        let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        span.attributes.extend([
            KeyValue::new("gen_ai.operation.name", "chat"),
            KeyValue::new("gen_ai.provider.name", provider),
            KeyValue::new("gen_ai.request.model", usage.model.clone()),
            KeyValue::new("gen_ai.response.id", reply.to_owned()),
            KeyValue::new("gen_ai.usage.input_tokens", count(usage.prompt_tokens)),
            KeyValue::new("gen_ai.usage.output_tokens", count(usage.completion_tokens)),
            KeyValue::new("annals.usage.cache_read_tokens", count(usage.cache_read_tokens)),
            KeyValue::new("annals.usage.id", usage.usage_id.clone()),
        ]);
        // An unknown cost has no attribute.
        let cost = usage.cost.map(|cost| KeyValue::new("annals.usage.cost", cost));
        let estimate = usage.estimated_cost.map(|cost| KeyValue::new("annals.usage.estimated_cost", cost));
        span.attributes.extend(cost.into_iter().chain(estimate));
        span
    }

    /// Returns the span of a tool call, from its action to its result.
    fn tool_span(
        &self,
        conversation: &ConversationId,
        action: &StoredEvent,
        result: &StoredEvent,
    ) -> SpanData {
        let tool = action.tool_name.clone().unwrap_or_else(|| "unknown".to_owned());
        let (begun, ended) = (time(action.recorded_at), time(result.recorded_at));
        let mut span =
            self.child(conversation, action.id.as_str(), format!("execute_tool {tool}"), begun, ended);
        span.attributes.extend([
            KeyValue::new("gen_ai.operation.name", "execute_tool"),
            KeyValue::new("gen_ai.tool.name", tool),
            KeyValue::new("annals.event.id", action.id.as_str().to_owned()),
        ]);
        if let Some(call) = &action.tool_call_id {
            span.attributes.push(KeyValue::new("gen_ai.tool.call.id", call.clone()));
        }
        if result.kind != "ObservationEvent" {
            span.attributes.push(KeyValue::new("error.type", result.kind.clone()));
            span.status = Status::error(result.kind.clone());
        }
        span
    }

    /// Returns the span of a part of the turn. `seed` distinguishes it from the other parts.
    fn child(
        &self,
        conversation: &ConversationId,
        seed: &str,
        name: impl Into<std::borrow::Cow<'static, str>>,
        start_time: SystemTime,
        end_time: SystemTime,
    ) -> SpanData {
        SpanData {
            span_context: self.context(SpanId::from_bytes(first(&["part", &self.begun_by, seed]))),
            parent_span_id: self.root(),
            parent_span_is_remote: false,
            span_kind: SpanKind::Internal,
            name: name.into(),
            start_time,
            end_time: end_time.max(start_time),
            attributes: vec![KeyValue::new("gen_ai.conversation.id", conversation.as_str().to_owned())],
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: Status::Unset,
            instrumentation_scope: InstrumentationScope::builder("annals")
                .with_version(env!("CARGO_PKG_VERSION"))
                .build(),
        }
    }

    fn context(&self, span: SpanId) -> SpanContext {
        SpanContext::new(self.trace(), span, TraceFlags::SAMPLED, false, TraceState::NONE)
    }
}

/// Returns the first bytes of the digest of these texts. The texts contain no zero byte, so a zero byte separates them.
fn first<const N: usize>(texts: &[&str]) -> [u8; N] {
    let mut digest = Sha256::new();
    for text in texts {
        digest.update(text.as_bytes());
        digest.update([0]);
    }
    let digest = digest.finalize();
    std::array::from_fn(|place| digest[place])
}

fn time(timestamp: Timestamp) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_micros(u64::try_from(timestamp.0).unwrap_or(0))
}
