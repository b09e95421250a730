//! Events that were made from the records of another program's log, and their provenance.
//!
//! Such an event has one more member than other events of its kind: `provenance`. It holds the format, the file, the
//! line or row, and the SHA-256 of the record. The first event of a record also holds the record itself. A record
//! without a counterpart among the kinds here becomes an event of its own kind, `FORMAT:TYPE`.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{Event, Extra, inert};
use crate::chain::Digest;
use crate::json::{Object, Out, Raw};

/// Makes [`ForeignFormat`] from the list of the formats: `Variant = "name"`, each with its doc comment.
macro_rules! formats {
    ($( $(#[$meta:meta])* $variant:ident = $name:literal ),* $(,)?) => {
        /// The log format of another program.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum ForeignFormat {
            $( $(#[$meta])* $variant, )*
        }

        impl ForeignFormat {
            /// All formats, in the order of their precedence.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            /// The name in events, SQL, JSON and on the command line.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $( Self::$variant => $name, )*
                }
            }
        }
    };
}

// A format has one line here. The compiler then asks for its importer: `src/transfer/foreign/importer.rs`.
formats! {
    /// Claude Code's session files: `~/.claude/projects/*/*.jsonl`.
    ClaudeCode = "claude-code",
    /// Codex's session files: `~/.codex/sessions/**/rollout-*.jsonl`.
    Codex = "codex",
    /// LangGraph's checkpoints in SQLite.
    LangGraph = "langgraph",
    /// The OpenAI Agents SDK's sessions in SQLite.
    OpenAiAgents = "openai-agents",
}

/// A text that names no format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a format; the formats are {}", ForeignFormat::names())]
#[non_exhaustive]
pub struct UnknownFormat {
    /// The text.
    pub text: String,
}

impl ForeignFormat {
    /// Returns the names of all formats, separated by commas.
    fn names() -> String {
        Self::ALL.map(Self::as_str).join(", ")
    }

    /// The format that a kind such as `claude-code:progress` names. `None` if it names no format.
    #[must_use]
    pub fn of_kind(kind: &str) -> Option<Self> {
        kind.split_once(':').and_then(|(format, _)| format.parse().ok())
    }
}

impl fmt::Display for ForeignFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for ForeignFormat {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        let known = Self::ALL.into_iter().find(|format| format.as_str() == text);
        known.ok_or_else(|| UnknownFormat { text: text.to_owned() })
    }
}

/// A record as an event carries it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record<'a> {
    /// A JSON value, verbatim: member `record`.
    Json(Cow<'a, str>),
    /// Text that is not JSON, or that nests too deep for an event: member `record_text`.
    Text(Cow<'a, str>),
    /// Bytes that are not text: member `record_base64`.
    Bytes(Vec<u8>),
    /// The path of the attachment that holds a record too large for an event: member `record_attachment`.
    Attached(Cow<'a, str>),
}

/// The tokens and the cost of a model call, as a record reports them.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct ForeignUsage {
    /// The model.
    pub model: String,
    /// The id of the model's reply, if the record has one.
    pub response_id: Option<String>,
    /// The tokens of the prompt, including cached ones.
    pub prompt_tokens: i64,
    /// The tokens of the reply, including thinking.
    pub completion_tokens: i64,
    /// The tokens of the prompt that were read from a cache.
    pub cache_read_tokens: i64,
    /// The tokens of the prompt that were written to a cache.
    pub cache_write_tokens: i64,
    /// Those of them that the cache keeps for an hour, at a price of their own.
    pub cache_write_1h_tokens: i64,
    /// The tokens of the reply that were thinking.
    pub reasoning_tokens: i64,
    /// Whether they are those of several calls, so that the length of each prompt is not known.
    pub is_sum: bool,
    /// The cost in US dollars, if the record has it.
    pub cost: Option<f64>,
    /// The call: the same in every copy of the record, in whatever log, and in no record of another call. `None` if that is not
    /// known.
    pub call: Option<String>,
    /// Whether the log says that the call may be a copy: of a fork's original, or in a sub-agent's history.
    pub is_copy: bool,
}

/// Where an event came from.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Provenance<'a> {
    /// The format.
    pub format: ForeignFormat,
    /// The file's name, without its folder.
    pub file: Cow<'a, str>,
    /// The table, if the file is a database.
    pub table: Option<Cow<'a, str>>,
    /// The line, from 1. If the file is a database, the row's own number in the table.
    pub place: i64,
    /// The number of this event among the events of its record, from 1.
    pub part: u64,
    /// The text between the previous record and this one. `None` if it is the usual text: one line feed, or nothing
    /// before the first record. Also `None` in all but the first event of a record.
    pub before: Option<Cow<'a, str>>,
    /// The SHA-256 of the record's bytes. For a row, the SHA-256 of the text in `record`.
    pub digest: Digest,
    /// The record. Only the first of its events has it.
    pub record: Option<Record<'a>>,
    /// The model usage that the record reports in addition to the records before it.
    pub usage: Option<ForeignUsage>,
}

impl<'a> Provenance<'a> {
    /// Reads the provenance of an event. `None` if it has none, or no valid one.
    #[must_use]
    pub fn of(event: &Object<'a>) -> Option<Self> {
        let members = event.get("provenance").filter(|value| value.is_object())?.to_object();
        let text = |member: &str| members.get(member).and_then(Raw::as_str);
        let place = members.get("line").or_else(|| members.get("row")).and_then(Raw::as_i64)?;
        let record = match (members.get("record"), text("record_text"), text("record_attachment")) {
            (Some(json), _, _) => Some(Record::Json(Cow::Borrowed(json.text()))),
            (_, Some(text), _) => Some(Record::Text(text)),
            (_, _, Some(path)) => Some(Record::Attached(path)),
            _ => text("record_base64").and_then(|text| base64_decode(&text)).map(Record::Bytes),
        };
        Some(Self {
            format: text("format")?.parse().ok()?,
            file: text("file")?,
            table: text("table"),
            place,
            part: members.get("part").and_then(Raw::as_i64).map_or(1, i64::unsigned_abs),
            before: text("before"),
            digest: Digest::from_hex(&text("sha256")?)?,
            record,
            usage: members.get("usage").map(|usage| ForeignUsage::read(usage, &members)),
        })
    }

    /// Adds the member `provenance` to an event without one. `event` is a JSON object with no white space after it.
    pub(crate) fn write_into(&self, event: &str) -> String {
        let mut out = Out::default();
        out.raw(event.strip_suffix('}').unwrap_or(event));
        out.key("provenance");
        out.open("{");
        out.constant("format", self.format.as_str());
        out.constant("file", &self.file);
        if let Some(table) = &self.table {
            out.constant("table", table);
        }
        out.key(if self.table.is_some() { "row" } else { "line" });
        out.raw(&self.place.to_string());
        if self.part > 1 {
            out.key("part");
            out.raw(&self.part.to_string());
        }
        if let Some(before) = &self.before {
            out.constant("before", before);
        }
        out.constant("sha256", &self.digest.to_hex());
        if let Some(usage) = &self.usage {
            out.key("usage");
            usage.write(&mut out);
        }
        match &self.record {
            Some(Record::Json(json)) => {
                out.key("record");
                out.raw(json);
            }
            Some(Record::Text(text)) => out.constant("record_text", text),
            Some(Record::Bytes(bytes)) => out.constant("record_base64", &base64_encode(bytes)),
            Some(Record::Attached(path)) => out.constant("record_attachment", path),
            None => {}
        }
        out.close("}");
        out.close("}");
        out.finish()
    }
}

impl Event {
    /// The format and the model usage of the record that the event was made from, if it reports any.
    #[must_use]
    pub fn foreign_usage(&self) -> Option<(ForeignFormat, ForeignUsage)> {
        let provenance = match self {
            Self::Message(event) => of_extra(&event.extra),
            Self::Action(event) => of_extra(&event.extra),
            Self::Observation(event) => of_extra(&event.extra),
            Self::UserReject(event) => of_extra(&event.extra),
            Self::Unknown(event) if ForeignFormat::of_kind(&event.kind).is_some() => {
                event.payload.raw().get("provenance")
            }
            Self::AgentError(_)
            | Self::SystemPrompt(_)
            | Self::Condensation(_)
            | Self::CondensationRequest(_)
            | Self::CondensationSummary(_)
            | Self::StateUpdate(_)
            | Self::ConversationError(_)
            | Self::Pause(_)
            | Self::Interrupt(_)
            | inert!()
            | Self::Unknown(_) => None,
        }?;
        ForeignUsage::of(provenance)
    }
}

fn of_extra(extra: &Extra) -> Option<Raw<'_>> {
    extra.iter().find(|(name, _)| *name == "provenance").map(|(_, json)| json.raw())
}

impl ForeignUsage {
    /// Reads the format and the usage from a provenance.
    pub(crate) fn of(provenance: Raw<'_>) -> Option<(ForeignFormat, Self)> {
        let members = provenance.to_object();
        Some((members.text("format")?.parse().ok()?, Self::read(members.get("usage")?, &members)))
    }

    /// Reads the usage in a provenance. Claude Code's records say themselves whether they are copies. A call without an identity has that of its reply: its id, and that of the request, or
    /// else the record's time, because some gateways give every reply the same id.
    fn read(raw: Raw<'_>, provenance: &Object<'_>) -> Self {
        let members = raw.to_object();
        let record = provenance.get("record").filter(|record| record.is_object()).map(Raw::to_object);
        let is_true = |flag: Option<Raw<'_>>| flag.is_some_and(|flag| flag.text() == "true");
        let of_record = |member: &str| record.as_ref().and_then(|record| record.get(member));
        let of_reply = || {
            let reply = members.text("response_id")?;
            let of_record = |member: &str| of_record(member).and_then(Raw::as_text);
            let request = of_record("requestId").or_else(|| of_record("timestamp")).unwrap_or_default();
            Some(format!("{reply} {request}"))
        };
        let count = |member: &str| members.get(member).and_then(Raw::as_i64).unwrap_or(0);
        Self {
            model: members.text("model").map(Cow::into_owned).unwrap_or_default(),
            response_id: members.text("response_id").map(Cow::into_owned),
            prompt_tokens: count("prompt_tokens"),
            completion_tokens: count("completion_tokens"),
            cache_read_tokens: count("cache_read_tokens"),
            cache_write_tokens: count("cache_write_tokens"),
            cache_write_1h_tokens: count("cache_write_1h_tokens"),
            is_sum: is_true(members.get("is_sum")),
            reasoning_tokens: count("reasoning_tokens"),
            cost: members.get("cost").and_then(Raw::as_f64),
            call: members.text("call").map(Cow::into_owned).or_else(of_reply),
            is_copy: is_true(members.get("is_copy"))
                || is_true(of_record("isSidechain"))
                || of_record("forkedFrom").is_some_and(Raw::is_object),
        }
    }

    fn write(&self, out: &mut Out) {
        out.open("{");
        out.constant("model", &self.model);
        if let Some(id) = &self.response_id {
            out.constant("response_id", id);
        }
        for (name, count) in [
            ("prompt_tokens", self.prompt_tokens),
            ("completion_tokens", self.completion_tokens),
            ("cache_read_tokens", self.cache_read_tokens),
            ("cache_write_tokens", self.cache_write_tokens),
            ("reasoning_tokens", self.reasoning_tokens),
        ] {
            out.key(name);
            out.raw(&count.to_string());
        }
        if self.cache_write_1h_tokens > 0 {
            out.key("cache_write_1h_tokens");
            out.raw(&self.cache_write_1h_tokens.to_string());
        }
        if self.is_sum {
            out.key("is_sum");
            out.raw("true");
        }
        if let Some(cost) = self.cost.filter(|cost| cost.is_finite()) {
            out.key("cost");
            out.float(cost);
        }
        if let Some(call) = &self.call {
            out.constant("call", call);
        }
        if self.is_copy {
            out.key("is_copy");
            out.raw("true");
        }
        out.close("}");
    }

    /// Returns the figures that these have beyond `other`, none below 0. All else is as here.
    pub(crate) fn less(&self, other: &Self) -> Self {
        let less = |own: i64, other: i64| (own - other).max(0);
        Self {
            prompt_tokens: less(self.prompt_tokens, other.prompt_tokens),
            completion_tokens: less(self.completion_tokens, other.completion_tokens),
            cache_read_tokens: less(self.cache_read_tokens, other.cache_read_tokens),
            cache_write_tokens: less(self.cache_write_tokens, other.cache_write_tokens),
            cache_write_1h_tokens: less(self.cache_write_1h_tokens, other.cache_write_1h_tokens),
            reasoning_tokens: less(self.reasoning_tokens, other.reasoning_tokens),
            ..self.clone()
        }
    }

    /// Returns the sums of the figures of both. The cost is that of the first that has one; all else is as here.
    pub(crate) fn plus(&self, other: &Self) -> Self {
        Self {
            prompt_tokens: self.prompt_tokens.saturating_add(other.prompt_tokens),
            completion_tokens: self.completion_tokens.saturating_add(other.completion_tokens),
            cache_read_tokens: self.cache_read_tokens.saturating_add(other.cache_read_tokens),
            cache_write_tokens: self.cache_write_tokens.saturating_add(other.cache_write_tokens),
            cache_write_1h_tokens: self.cache_write_1h_tokens.saturating_add(other.cache_write_1h_tokens),
            reasoning_tokens: self.reasoning_tokens.saturating_add(other.reasoning_tokens),
            cost: self.cost.or(other.cost),
            ..self.clone()
        }
    }

    /// Whether all counts are zero and there is no cost.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        let counts =
            [self.prompt_tokens, self.completion_tokens, self.cache_read_tokens, self.cache_write_tokens];
        counts.iter().chain([&self.reasoning_tokens]).all(|count| *count == 0)
            && self.cost.is_none_or(|cost| cost == 0.0)
    }
}

/// Encodes bytes as base64 text (RFC 4648, section 4, with padding).
#[must_use]
pub fn base64_encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Decodes base64 text. `None` if the text is not valid base64.
#[must_use]
pub fn base64_decode(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provenance_is_read_as_it_was_written() {
        let digest = Digest::of(b"{\"a\": 1}");
        for record in [
            Some(Record::Json(Cow::Borrowed("{\"a\": 1}"))),
            Some(Record::Text(Cow::Borrowed("{\"a\": \n"))),
            Some(Record::Bytes(vec![0xff, 0, 7])),
            Some(Record::Attached(Cow::Borrowed("a.jsonl.line-7"))),
            None,
        ] {
            let provenance = Provenance {
                format: ForeignFormat::Codex,
                file: Cow::Borrowed("a.jsonl"),
                table: None,
                place: 7,
                part: 2,
                before: Some(Cow::Borrowed("\r\n")),
                digest,
                record,
                usage: Some(ForeignUsage {
                    model: "m".into(),
                    prompt_tokens: 3,
                    cache_write_1h_tokens: 2,
                    is_sum: true,
                    cost: Some(0.5),
                    call: Some("thread 3+0".into()),
                    ..Default::default()
                }),
            };
            let event = provenance.write_into(r#"{"id":"e"}"#);
            assert_eq!(Provenance::of(&Object::of(&event)), Some(provenance), "{event}");
        }
        assert_eq!(Provenance::of(&Object::of(r#"{"provenance":{"format":"codex"}}"#)), None);
        assert_eq!(ForeignFormat::of_kind("codex:turn_context"), Some(ForeignFormat::Codex));
        assert_eq!(ForeignFormat::of_kind("action:run"), None);
        assert_eq!(
            "odd".parse::<ForeignFormat>().unwrap_err().to_string(),
            "\"odd\" is not a format; the formats are claude-code, codex, langgraph, openai-agents"
        );
    }
}
