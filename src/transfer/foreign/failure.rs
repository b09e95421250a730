//! Failures of a provider, as programs record them: each becomes the event of a failed run.

use crate::event::{Common, ConversationErrorEvent, ErrorClassification, Event};
use crate::json::Raw;

/// The code of a failure whose record gives none.
const UNNAMED: &str = "APIError";

/// A failure.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    /// The provider's name for it, or a status of HTTP.
    pub code: Option<String>,
    /// The status of HTTP.
    pub status: Option<i64>,
    /// What went wrong, in words.
    pub detail: String,
}

impl Failure {
    /// Returns the failure in a record's `error`: a text, or an object that may contain the provider's own error.
    /// `None` if it tells nothing.
    pub(super) fn read(error: Raw<'_>) -> Option<Self> {
        if let Some(text) = error.as_str() {
            return Some(Self { code: Some(text.into_owned()), ..Self::default() });
        }
        // The innermost error is the provider's.
        let layers: Vec<Raw<'_>> =
            std::iter::successors(Some(error), |outer| outer.get("error").or_else(|| outer.get("cause")))
                .take(4)
                .collect();
        let text = |member: &str| {
            layers
                .iter()
                .rev()
                .find_map(|layer| layer.get(member).and_then(Raw::as_text).map(|t| t.into_owned()))
        };
        let status = layers.iter().find_map(|layer| {
            ["status", "http_status_code"].iter().find_map(|member| layer.get(member).and_then(Raw::as_i64))
        });
        let code = text("type").filter(|kind| kind != "error").or_else(|| text("code"));
        let failure = Self { code, status, detail: text("message").unwrap_or_default() };
        (failure != Self::default()).then_some(failure)
    }

    /// Returns its event.
    pub(super) fn into_event(self, common: Common) -> Event {
        let status = self.status.map(|status| status.to_string());
        let code = self.code.or_else(|| status.clone()).unwrap_or_else(|| UNNAMED.to_owned());
        let words = format!(
            "{}; error code: {}; {}",
            code.replace('_', " "),
            status.unwrap_or_default(),
            self.detail
        );
        let mut event = ConversationErrorEvent::new(common, code, self.detail);
        event.classification = Some(ErrorClassification::classify(UNNAMED, &words));
        event.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Source;
    use crate::ids::EventId;

    #[test]
    fn a_failure_has_the_code_of_the_provider_and_a_class() {
        for (error, code, detail, class) in [
            (
                r#"{"status":429,"headers":{},"error":{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}}"#,
                "rate_limit_error",
                "slow down",
                "rate_limit",
            ),
            (r#"{"status":529,"message":"Overloaded"}"#, "529", "Overloaded", "transient"),
            (
                r#"{"cause":{"code":"FailedToOpenSocket","path":"https://mill.test"}}"#,
                "FailedToOpenSocket",
                "",
                "transient",
            ),
            (r#""rate_limit""#, "rate_limit", "", "rate_limit"),
        ] {
            let failure = Failure::read(Raw::parse(error).unwrap()).unwrap();
            let common = Common::new(EventId::mint(), "", Source::Environment);
            let Event::ConversationError(event) = failure.into_event(common) else { panic!("{error}") };
            let found = event.classification.as_ref().unwrap().kind.as_str();
            assert_eq!((&*event.code, &*event.detail, found), (code, detail, class), "{error}");
        }
        assert_eq!(Failure::read(Raw::parse("{}").unwrap()), None);
    }
}
