//! What the store returns, as frozen Python objects.

use std::borrow::Cow;
use std::collections::BTreeMap;

use annals::event::json::Raw;
use annals::store;
use pyo3::prelude::*;
use pyo3::types::PyString;

/// Defines a frozen class with read-only fields, a constructor from the store's value, and a short `repr`.
macro_rules! value {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $of:ty),* $(,)? } repr $shown:ident) => {
        $(#[$doc])*
        #[pyclass(frozen, get_all, module = "annals")]
        #[derive(Clone)]
        pub(crate) struct $name { $(pub(crate) $field: $of),* }

        #[pymethods]
        impl $name {
            fn __repr__(&self) -> String {
                format!(concat!("<", stringify!($name), " {}>"), self.$shown)
            }
        }
    };
}

value! {
    /// A row of the catalogue.
    Conversation {
        id: String, title: Option<String>, status: String, event_count: u64, payload_bytes: u64,
        created_at: String, updated_at: String, tags: BTreeMap<String, String>, leaf_event_id: Option<String>, parent: Option<String>,
        forked_from: Option<String>, is_imported: bool, is_archived: bool, chain_head: String,
    } repr id
}

impl From<store::Conversation> for Conversation {
    fn from(row: store::Conversation) -> Self {
        Self {
            id: row.id.to_string(),
            title: row.title,
            status: row.status,
            event_count: row.event_count,
            payload_bytes: row.payload_bytes,
            created_at: row.created_at.to_rfc3339(),
            updated_at: row.updated_at.to_rfc3339(),
            tags: tags(&row.tags),
            leaf_event_id: row.leaf_event_id,
            parent: row.parent,
            forked_from: row.forked_from,
            is_imported: row.is_imported,
            is_archived: row.archived_at.is_some(),
            chain_head: row.chain_head.to_hex(),
        }
    }
}

/// Returns the catalogue's tags, a JSON object. A value that is no text is its JSON.
fn tags(object: &str) -> BTreeMap<String, String> {
    let Ok(object) = Raw::parse(object) else { return BTreeMap::new() };
    let text = |value: Raw<'_>| value.as_str().map_or_else(|| value.text().to_owned(), Cow::into_owned);
    object.members().map(|(name, value)| (name.into_owned(), text(value))).collect()
}

/// An event of the log.
#[pyclass(frozen, get_all, module = "annals")]
#[derive(Clone)]
pub(crate) struct Event {
    conversation: String,
    sequence: u64,
    position: u64,
    id: String,
    kind: String,
    source: Option<String>,
    timestamp: Option<String>,
    recorded_at: String,
    parent_id: Option<String>,
    tool_name: Option<String>,
    tool_call_id: Option<String>,
    is_redacted: bool,
    json: String,
}

impl Event {
    pub(crate) fn new(conversation: &annals::ConversationId, event: annals::StoredEvent) -> Self {
        Self {
            conversation: conversation.to_string(),
            sequence: event.sequence.0,
            position: event.position.0,
            id: event.id.to_string(),
            kind: event.kind,
            source: event.source,
            timestamp: event.timestamp,
            recorded_at: event.recorded_at.to_rfc3339(),
            parent_id: event.parent_id,
            tool_name: event.tool_name,
            tool_call_id: event.tool_call_id,
            is_redacted: event.redacted_digest.is_some(),
            json: event.payload,
        }
    }
}

#[pymethods]
impl Event {
    /// The payload as Python objects. It is parsed at each access.
    #[getter]
    fn payload<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("json")?.call_method1("loads", (PyString::new(py, &self.json),))
    }

    fn __repr__(&self) -> String {
        format!("<Event {} {} {}>", self.sequence, self.kind, self.id)
    }
}

value! {
    /// Where an appended event was stored.
    Appended { sequence: u64, position: u64, known: bool } repr sequence
}

impl From<store::Appended> for Appended {
    fn from(event: store::Appended) -> Self {
        Self { sequence: event.sequence.0, position: event.position.0, known: event.known }
    }
}

value! {
    /// A line of a transcript.
    Line {
        sequence: u64, event_id: String, role: String, kind: String, tool: Option<String>,
        timestamp: Option<String>, text: String,
    } repr sequence
}

impl From<store::TranscriptLine> for Line {
    fn from(line: store::TranscriptLine) -> Self {
        Self {
            sequence: line.sequence.0,
            event_id: line.event_id,
            role: line.role.as_str().to_owned(),
            kind: line.kind,
            tool: line.tool,
            timestamp: line.timestamp,
            text: line.text,
        }
    }
}

value! {
    /// An event that a search found.
    Hit {
        conversation: String, sequence: u64, position: u64, event_id: String, kind: String,
        timestamp: Option<String>, snippet: String, marks: Vec<(usize, usize)>,
    } repr event_id
}

impl From<store::Hit> for Hit {
    fn from(hit: store::Hit) -> Self {
        // The store counts bytes, and Python counts characters.
        let chars = |bytes: usize| hit.snippet.get(..bytes).map_or(0, |before| before.chars().count());
        let marks = hit.marks.iter().map(|mark| (chars(mark.start), chars(mark.end))).collect();
        Self {
            conversation: hit.conversation.to_string(),
            sequence: hit.sequence.0,
            position: hit.position.0,
            event_id: hit.event_id,
            kind: hit.kind,
            timestamp: hit.timestamp,
            marks,
            snippet: hit.snippet,
        }
    }
}

value! {
    /// What the calls of one model used. A cost that is unknown is `None`.
    Usage {
        model: String, usage_id: String, calls: u64, prompt_tokens: i64, completion_tokens: i64,
        cache_read_tokens: i64, cache_write_tokens: i64, reasoning_tokens: i64, cost: Option<f64>,
        estimated_cost: Option<f64>, latency_seconds: Option<f64>,
    } repr model
}

impl From<store::UsageTotal> for Usage {
    fn from(total: store::UsageTotal) -> Self {
        Self {
            model: total.model,
            usage_id: total.usage_id,
            calls: total.calls,
            prompt_tokens: total.prompt_tokens,
            completion_tokens: total.completion_tokens,
            cache_read_tokens: total.cache_read_tokens,
            cache_write_tokens: total.cache_write_tokens,
            reasoning_tokens: total.reasoning_tokens,
            cost: total.cost,
            estimated_cost: total.estimated_cost,
            latency_seconds: total.latency_seconds,
        }
    }
}

value! {
    /// A file that is stored beside the events.
    Attachment { path: String, bytes: u64, sha256: String } repr path
}

impl From<store::Attachment> for Attachment {
    fn from(file: store::Attachment) -> Self {
        Self { path: file.path, bytes: file.bytes, sha256: file.digest.to_hex() }
    }
}

value! {
    /// One thing that a verification found.
    Finding { conversation: Option<String>, sequence: Option<u64>, what: String } repr what
}

impl From<store::Finding> for Finding {
    fn from(finding: store::Finding) -> Self {
        Self {
            conversation: finding.conversation.map(|id| id.to_string()),
            sequence: finding.sequence.map(|sequence| sequence.0),
            what: finding.what,
        }
    }
}

/// What a verification checked and found.
#[pyclass(frozen, get_all, module = "annals")]
pub(crate) struct Verification {
    conversations: u64,
    events: u64,
    payload_bytes: u64,
    attachments: u64,
    redacted: u64,
    findings: Vec<Finding>,
    notes: Vec<Finding>,
}

impl From<store::Verification> for Verification {
    fn from(seen: store::Verification) -> Self {
        Self {
            conversations: seen.conversations,
            events: seen.events,
            payload_bytes: seen.payload_bytes,
            attachments: seen.attachments,
            redacted: seen.redacted,
            findings: seen.findings.into_iter().map(Finding::from).collect(),
            notes: seen.notes.into_iter().map(Finding::from).collect(),
        }
    }
}

#[pymethods]
impl Verification {
    /// Whether nothing was found.
    #[getter]
    fn is_sound(&self) -> bool {
        self.findings.is_empty()
    }

    fn __repr__(&self) -> String {
        format!("<Verification of {} events: {} findings>", self.events, self.findings.len())
    }
}

/// What an import did with one conversation.
#[pyclass(frozen, get_all, module = "annals")]
pub(crate) struct Imported {
    path: String,
    id: Option<String>,
    format: String,
    status: String,
    events: u64,
    added: u64,
    problems: Vec<(String, String, String)>,
}

impl From<annals::transfer::ImportReport> for Imported {
    fn from(report: annals::transfer::ImportReport) -> Self {
        let problems = report.problems.into_iter().map(|one| (one.path, one.problem, one.action));
        Self {
            path: report.path.to_string_lossy().into_owned(),
            id: report.id.map(|id| id.to_string()),
            format: report.format.to_owned(),
            status: report.status.as_str().to_owned(),
            events: report.events,
            added: report.added,
            problems: problems.collect(),
        }
    }
}

#[pymethods]
impl Imported {
    fn __repr__(&self) -> String {
        format!("<Imported {} {}: {} of {} events new>", self.path, self.status, self.added, self.events)
    }
}
