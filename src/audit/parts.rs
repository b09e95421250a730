//! The parameters, columns and units that several reports have.

use super::report::{self, Column, Parameter, ParameterKind, column};

pub(super) const TIME: &str = "time as written";
pub(super) const UTC: &str = "time, UTC";
pub(super) const MS: &str = "ms";
pub(super) const TOKENS: &str = "tokens";
pub(super) const MONEY: &str = "currency of the price table";

pub(super) const CONVERSATION: Parameter = Parameter {
    name: "conversation",
    kind: ParameterKind::Conversation,
    what: "only this conversation",
    default: None,
};
pub(super) const SINCE: Parameter =
    Parameter { name: "since", kind: ParameterKind::Time, what: "only from this time on", default: None };
pub(super) const UNTIL: Parameter =
    Parameter { name: "until", kind: ParameterKind::Time, what: "only before this time", default: None };
pub(super) const LIMIT: Parameter = Parameter {
    name: report::LIMIT,
    kind: ParameterKind::Number,
    what: "at most this many rows",
    default: Some("50"),
};
pub(super) const WORKSPACE: Parameter = Parameter {
    name: "workspace",
    kind: ParameterKind::Text,
    what: "only conversations that worked in this folder or below it, or on this repository",
    default: None,
};
pub(super) const MODEL: Parameter =
    Parameter { name: "model", kind: ParameterKind::Text, what: "only this model", default: None };

pub(super) const ID: Column = column("conversation_id", "", "");
pub(super) const SEQUENCE: Column = column("sequence", "place", "of the call in its conversation");
pub(super) const STARTED: Column = column("started_at", TIME, "when it was asked for");
pub(super) const DURATION: Column = column("duration_ms", MS, "from the call to its result");
pub(super) const OUTCOME: Column =
    column("outcome", "", "ok, error, failed (a command with another exit code than 0), rejected, pending");
pub(super) const EXIT: Column = column("exit_code", "", "of a command; -1 while it ran");
pub(super) const WHAT: Column =
    column("what", "", "the command, the path, or the beginning of the arguments");
pub(super) const TITLE: Column = column("title", "", "");
pub(super) const COST: Column = column("cost", MONEY, "as the log says; empty: it says none");
pub(super) const ESTIMATE: Column =
    column("estimated_cost", MONEY, "of calls without a cost, by the built-in price table; empty: none");
pub(super) const UNPRICED: Column =
    column("tokens_without_cost", TOKENS, "sent and received, without a cost or an estimate");
pub(super) const PROMPT: Column = column("prompt_tokens", TOKENS, "sent, those read from a cache included");
pub(super) const COMPLETION: Column = column("completion_tokens", TOKENS, "received");
pub(super) const CACHE_READ: Column = column("cache_read_tokens", TOKENS, "");
pub(super) const CONVERSATIONS: Column = column("conversations", "conversations", "");
