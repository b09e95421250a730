//! The settings of a webhook, in the format of the reference's `OH_WEBHOOKS`.

use std::time::Duration;

use serde_json::Value;

/// The settings of a webhook: an address that events are sent to.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct WebhookSpec {
    /// The address. `/events/{id}` or `/conversations` is appended to it.
    pub base_url: String,
    /// The headers of every request.
    pub headers: Vec<(String, String)>,
    /// A batch is sent at once when so many events wait.
    pub events_max: usize,
    /// How long an event waits for more events.
    pub flush_delay: Duration,
    /// The number of retries of a request.
    pub retries: u32,
    /// The delay before a retry.
    pub retry_delay: Duration,
    /// The maximum number of events that wait for one conversation.
    pub queue_events_max: usize,
    /// The maximum number of bytes of one batch.
    pub batch_bytes_max: usize,
    /// The maximum number of bytes that wait for one conversation.
    pub queue_bytes_max: usize,
}

setters!(WebhookSpec {
    base_url,
    headers: Vec<(String, String)>,
    events_max: usize,
    flush_delay: Duration,
    retries: u32,
    retry_delay: Duration,
    queue_events_max: usize,
    batch_bytes_max: usize,
    queue_bytes_max: usize,
});

/// Why a list of webhooks was rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WebhookError {
    /// It is not a JSON list of objects.
    #[error("webhooks are a JSON list of objects")]
    Shape,
    /// A member is missing or of the wrong kind.
    #[error("webhook {number}: {member} is missing or of the wrong kind")]
    Member {
        /// The number of the webhook, from 0.
        number: usize,
        /// The member.
        member: &'static str,
    },
}

impl WebhookSpec {
    /// Makes a webhook with the reference's default settings.
    #[must_use]
    pub fn new(base_url: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            headers: Vec::new(),
            events_max: 5,
            flush_delay: Duration::from_secs(30),
            retries: 3,
            retry_delay: Duration::from_secs(5),
            queue_events_max: 1000,
            batch_bytes_max: 5 << 20,
            queue_bytes_max: 50 << 20,
        }
    }

    /// Reads a list in the format of `OH_WEBHOOKS`. Ignores unknown members.
    ///
    /// # Errors
    /// [`WebhookError`] if the list is invalid.
    pub fn parse_list(json: &str) -> Result<Vec<Self>, WebhookError> {
        let Ok(Value::Array(list)) = serde_json::from_str(json) else { return Err(WebhookError::Shape) };
        list.iter().enumerate().map(|(number, spec)| Self::read(number, spec)).collect()
    }

    fn read(number: usize, spec: &Value) -> Result<Self, WebhookError> {
        let wrong = |member| WebhookError::Member { number, member };
        let members = spec.as_object().ok_or(WebhookError::Shape)?;
        let given = |member: &str| members.get(member).filter(|value| !value.is_null());
        let count = |member: &'static str, default: usize| match given(member) {
            None => Ok(default),
            Some(value) => {
                let count = value.as_u64().and_then(|count| usize::try_from(count).ok());
                count.filter(|count| *count > 0).ok_or_else(|| wrong(member))
            }
        };
        let time = |member: &'static str, default: Duration| match given(member) {
            None => Ok(default),
            Some(value) => {
                let seconds = value.as_f64().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
                seconds.ok_or_else(|| wrong(member))
            }
        };
        let base_url = given("base_url").and_then(Value::as_str).filter(|url| !url.trim().is_empty());
        let new = Self::new(base_url.ok_or_else(|| wrong("base_url"))?.trim_end_matches('/'));
        let headers = match given("headers") {
            None => Vec::new(),
            Some(Value::Object(headers)) => headers
                .iter()
                .map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
                .collect::<Option<_>>()
                .ok_or_else(|| wrong("headers"))?,
            Some(_) => return Err(wrong("headers")),
        };
        let retries = match given("num_retries") {
            None => new.retries,
            Some(value) => value
                .as_u64()
                .and_then(|count| u32::try_from(count).ok())
                .ok_or_else(|| wrong("num_retries"))?,
        };
        Ok(Self {
            headers,
            retries,
            events_max: count("event_buffer_size", new.events_max)?,
            flush_delay: time("flush_delay", new.flush_delay)?,
            retry_delay: time("retry_delay", new.retry_delay)?,
            queue_events_max: count("max_queue_size", new.queue_events_max)?,
            batch_bytes_max: count("max_batch_bytes", new.batch_bytes_max)?,
            queue_bytes_max: count("max_queue_bytes", new.queue_bytes_max)?,
            ..new
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_settings_have_the_defaults_of_the_reference() {
        let list = WebhookSpec::parse_list(
            r#"[{"base_url":"http://a/","headers":{"X-Foo":"bar"},"flush_delay":0.5,"num_retries":0},{"base_url":"http://b"}]"#,
        )
        .unwrap();
        assert_eq!(list[1], WebhookSpec::new("http://b"));
        assert_eq!(
            list[0],
            WebhookSpec {
                headers: vec![("X-Foo".to_owned(), "bar".to_owned())],
                flush_delay: Duration::from_millis(500),
                retries: 0,
                ..WebhookSpec::new("http://a")
            }
        );
    }

    #[test]
    fn an_error_names_the_webhook_and_the_member() {
        assert_eq!(WebhookSpec::parse_list("{}"), Err(WebhookError::Shape));
        let member = |member| Err(WebhookError::Member { number: 0, member });
        assert_eq!(WebhookSpec::parse_list("[{}]"), member("base_url"));
        assert_eq!(
            WebhookSpec::parse_list(r#"[{"base_url":"http://a","event_buffer_size":0}]"#),
            member("event_buffer_size")
        );
        assert_eq!(
            WebhookSpec::parse_list(r#"[{"base_url":"http://a","flush_delay":-1}]"#),
            member("flush_delay")
        );
        assert_eq!(WebhookSpec::parse_list(r#"[{"base_url":"http://a","headers":[]}]"#), member("headers"));
    }
}
