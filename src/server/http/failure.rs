//! Failures of requests, with the reference's statuses and bodies (`docs/reference/server.md#error-bodies`).

use std::sync::Arc;

use axum::Json;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::conversation::{ConversationError, Runner};
use crate::error::{Error, ErrorClass, Expected};
use crate::llm::LlmError;

/// The `Retry-After` header of a temporary refusal, in seconds.
const RETRY_SECONDS: &str = "1";

/// A refused request, or an internal error of the server.
#[derive(Debug, Clone, PartialEq)]
pub enum Failure {
    /// The request was refused: the status and the reason.
    Refused(StatusCode, String),
    /// The writer did not know the newest state: the reason, and what it expected and what there is, for programs.
    /// Answered with 409, and with the second in the member `conflict`.
    Stale(String, Value),
    /// The request was refused temporarily: the reason. Answered with 503 and `Retry-After`.
    Later(String),
    /// The request does not match its schema: one problem for each place.
    Schema(Vec<Problem>),
    /// The conversation refers to things that do not exist. Answered with 422 and an object that names them.
    Launch(Value),
    /// The server failed. The text is sent to the client and contains no secret.
    Internal(String),
}

/// One violation of a request's schema.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Problem {
    /// The violated rule, in the reference's words: `missing`, `uuid_parsing`, `greater_than_equal`, and so on.
    pub kind: &'static str,
    /// The location: `body`, `query` or `path`, then the names of members and the indices of list items.
    pub place: Vec<Value>,
    /// The description of the problem, for people.
    pub message: String,
    /// The value that was given; null if it may be a secret.
    pub input: Value,
    /// The limits of the rule, if it has any.
    pub context: Option<Value>,
}

impl Problem {
    /// Makes a problem at a place. `message` is for people.
    pub fn new(kind: &'static str, place: &[&str], message: impl Into<String>) -> Self {
        let place = place.iter().map(|step| Value::from(*step)).collect();
        Self { kind, place, message: message.into(), input: Value::Null, context: None }
    }

    /// Adds the value that was given. It must not contain a secret.
    pub fn with_input(mut self, input: impl Into<Value>) -> Self {
        self.input = input.into();
        self
    }
}

impl Failure {
    /// 404 with a text.
    pub fn not_found(text: impl Into<String>) -> Self {
        Self::Refused(StatusCode::NOT_FOUND, text.into())
    }

    /// 400 with a text.
    pub fn bad(text: impl Into<String>) -> Self {
        Self::Refused(StatusCode::BAD_REQUEST, text.into())
    }

    /// 501 with the reason why this server does not have an operation of the reference.
    pub fn absent(why: &str) -> Self {
        Self::Refused(StatusCode::NOT_IMPLEMENTED, format!("Annals does not serve this. {why}"))
    }

    /// 409 with a text.
    pub fn conflict(text: impl Into<String>) -> Self {
        Self::Refused(StatusCode::CONFLICT, text.into())
    }

    /// 409: another process runs the conversation.
    pub fn runs_elsewhere(runner: Option<Runner>) -> Self {
        let process =
            runner.map(|runner| format!(" (process {}, since {} UTC)", runner.process, runner.since));
        let process = process.unwrap_or_default();
        Self::conflict(format!(
            "Conversation is run by another process{process}. Ask that one, or wait until it is idle."
        ))
    }

    /// 409: the conversation is already running.
    pub fn running() -> Self {
        Self::conflict("Conversation already running. Wait for completion or pause first.")
    }

    /// 429: the limit of concurrent runs is reached.
    pub fn no_capacity() -> Self {
        let text = "Conversation run limit reached. Retry the request later.";
        Self::Refused(StatusCode::TOO_MANY_REQUESTS, text.to_owned())
    }

    /// 422 with a text.
    pub fn unprocessable(text: impl Into<String>) -> Self {
        Self::Refused(StatusCode::UNPROCESSABLE_ENTITY, text.into())
    }

    /// Returns the reason as one text.
    pub fn message(&self) -> String {
        match self {
            Self::Refused(_, text) | Self::Stale(text, _) | Self::Later(text) | Self::Internal(text) => {
                text.clone()
            }
            Self::Launch(detail) => detail["message"].as_str().unwrap_or_default().to_owned(),
            Self::Schema(problems) => {
                let texts = problems.iter().map(|problem| {
                    let steps = problem.place.iter();
                    let steps =
                        steps.map(|step| step.as_str().map_or_else(|| step.to_string(), str::to_owned));
                    format!("{}: {}", steps.collect::<Vec<_>>().join("."), problem.message)
                });
                texts.collect::<Vec<_>>().join("; ")
            }
        }
    }

    /// 500 with a text.
    pub fn internal(text: impl Into<String>) -> Self {
        Self::Internal(text.into())
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self::Schema(vec![problem])
    }
}

impl From<Error> for Failure {
    /// Maps the library's errors to statuses. No other code does this.
    fn from(error: Error) -> Self {
        match &error {
            Error::UnknownConversation { .. } | Error::UnknownEvent { .. } => {
                return Self::not_found("Not Found");
            }
            Error::Conflict { expected, actual, .. } => {
                let expected = match expected {
                    Expected::Any => json!("any"),
                    Expected::Empty => json!("empty"),
                    Expected::Exists => json!("exists"),
                    Expected::Exact(count) => json!(count),
                };
                return Self::Stale(error.to_string(), json!({"expected": expected, "found": actual}));
            }
            Error::VersionConflict { expected, actual, .. } => {
                let numbers = json!({"expected_version": expected.0, "found_version": actual.0});
                return Self::Stale(error.to_string(), numbers);
            }
            Error::DuplicateEvent { event, sequence, .. } => {
                let place = json!({"event": event.as_str(), "sequence": sequence});
                return Self::Stale(error.to_string(), place);
            }
            Error::QueryRefused { what, hint: Some(hint) } => {
                return Self::unprocessable(format!("{what}; {hint}"));
            }
            _ => {}
        }
        let status = match error.class() {
            ErrorClass::Missing => StatusCode::NOT_FOUND,
            ErrorClass::Conflict => StatusCode::CONFLICT,
            ErrorClass::Invalid => StatusCode::UNPROCESSABLE_ENTITY,
            ErrorClass::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            ErrorClass::Busy => return Self::Later(error.to_string()),
            ErrorClass::Cancelled => StatusCode::SERVICE_UNAVAILABLE,
            ErrorClass::Full => StatusCode::INSUFFICIENT_STORAGE,
            ErrorClass::Unusable | ErrorClass::Failed => return Self::Internal(error.to_string()),
        };
        Self::Refused(status, error.to_string())
    }
}

impl From<ConversationError> for Failure {
    fn from(error: ConversationError) -> Self {
        match error {
            ConversationError::Store(error) => error.into(),
            ConversationError::Running { .. } => Self::running(),
            ConversationError::UnknownEvent { .. } => Self::not_found(error.to_string()),
            ConversationError::NoAgent
            // The model's settings or the request to the model are invalid.
            | ConversationError::Model(LlmError::BadRequest(_))
            | ConversationError::Agent(_)
            | ConversationError::Policy(_)
            | ConversationError::Analyzer(_)
            | ConversationError::Tag { .. }
            | ConversationError::Limit { .. }
            | ConversationError::Workspace { .. } => Self::unprocessable(error.to_string()),
            ConversationError::NoCondenser { .. } => Self::conflict(error.to_string()),
            ConversationError::Plugin(error) if error.is_unknown() => Self::not_found(error.to_string()),
            ConversationError::Plugin(_) | ConversationError::NoMarketplace { .. } => Self::bad(error.to_string()),
            ConversationError::Closed { .. } => Self::bad("inactive_service"),
            ConversationError::Run { .. }
            | ConversationError::IdMismatch { .. }
            | ConversationError::Unprompted { .. }
            | ConversationError::UnknownTool { .. }
            | ConversationError::Tool(_)
            | ConversationError::Model(_)
            | ConversationError::Condense(_)
            | ConversationError::NoGoal
            | ConversationError::NoUserMessage
            | ConversationError::Acp(_)
            | ConversationError::Claim { .. }
            | ConversationError::Remote(_)
            | ConversationError::Abandoned { .. } => Self::internal(error.to_string()),
        }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        match self {
            Self::Refused(status, text) => (status, Json(json!({ "detail": text }))).into_response(),
            Self::Stale(text, conflict) => {
                let body = json!({"detail": text, "conflict": conflict});
                (StatusCode::CONFLICT, Json(body)).into_response()
            }
            Self::Later(text) => {
                let headers = [(header::RETRY_AFTER, RETRY_SECONDS)];
                (StatusCode::SERVICE_UNAVAILABLE, headers, Json(json!({ "detail": text }))).into_response()
            }
            Self::Schema(problems) => {
                let detail: Vec<Value> = problems
                    .into_iter()
                    .map(|problem| {
                        let Problem { kind, place, message, input, context } = problem;
                        let mut object = json!({"type": kind, "loc": place, "msg": message, "input": input});
                        if let Some(context) = context {
                            object["ctx"] = context;
                        }
                        object
                    })
                    .collect();
                (StatusCode::UNPROCESSABLE_ENTITY, Json(json!({ "detail": detail }))).into_response()
            }
            Self::Launch(detail) => {
                (StatusCode::UNPROCESSABLE_ENTITY, Json(json!({ "detail": detail }))).into_response()
            }
            Self::Internal(text) => {
                let error_id = Uuid::new_v4().simple().to_string();
                let body =
                    json!({"detail": "Internal Server Error", "exception": &text, "error_id": error_id});
                let mut response = (StatusCode::INTERNAL_SERVER_ERROR, Json(body)).into_response();
                response.extensions_mut().insert(Reason(text.into()));
                response
            }
        }
    }
}

/// Why the server failed. An answer with status 500 has it among its extensions.
#[derive(Debug, Clone)]
pub(in crate::server) struct Reason(pub Arc<str>);

/// Answers a request that matches no route.
pub(in crate::server) async fn not_found() -> Failure {
    Failure::not_found("Not Found")
}

/// Answers a request whose route does not support its method.
pub(in crate::server) async fn method_not_allowed() -> Failure {
    Failure::Refused(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed".to_owned())
}

/// `{"success": true}`, the answer of most commands.
pub(in crate::server) fn success() -> Json<Value> {
    Json(json!({ "success": true }))
}

/// Replaces the text of a 404 by the one that some routes use for an unknown conversation.
pub(in crate::server) fn named(failure: Failure) -> Failure {
    named_as("Conversation not found")(failure)
}

/// Replaces the text of a 404.
pub(in crate::server) fn named_as(text: &'static str) -> impl Fn(Failure) -> Failure {
    move |failure| match failure {
        Failure::Refused(StatusCode::NOT_FOUND, _) => Failure::not_found(text),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::ConversationId;

    #[test]
    fn damage_is_no_fault_of_the_client_and_a_busy_store_asks_to_wait() {
        let id = || ConversationId::new("\n").unwrap_err();
        for (error, status, waits) in [
            (Error::from(id()), 422, false),
            (Error::damaged("the id of a conversation")(id()), 500, false),
            (Error::Busy { waited_ms: 0, holder: None }, 503, true),
            (Error::NoReader, 503, true),
            (Error::Overloaded { waiting: 1, bytes: 1 }, 503, true),
            (Error::QueryCancelled, 503, false),
            (Error::Closed, 503, false),
            (Error::NoRoom { path: "/x".into(), needed: 2, free: 1 }, 507, false),
        ] {
            let text = error.to_string();
            let response = Failure::from(error).into_response();
            let has_wait = response.headers().contains_key(header::RETRY_AFTER);
            assert_eq!((response.status().as_u16(), has_wait), (status, waits), "{text}");
        }
    }
}
