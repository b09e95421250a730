//! HTTP requests that do not go to a model: for secrets and webhooks. They are bounded in time and size and never
//! redirected.

use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use super::Transport;

/// An HTTP request.
#[derive(Clone)]
#[non_exhaustive]
pub struct Plain {
    /// The address: `http` or `https`.
    pub url: String,
    /// Names and values. The values are treated as secrets.
    pub headers: Vec<(String, String)>,
    /// The body of a POST. Without a body, the request is a GET.
    pub body: Option<String>,
    /// The timeout of the whole request.
    pub patience: Duration,
    /// The maximum length of the answer, in bytes.
    pub bytes_max: usize,
}

setters!(Plain { url, headers: Vec<(String, String)>, body, patience: Duration, bytes_max: usize });

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlainAnswer {
    /// The HTTP status.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
}

/// Why there was no answer. It contains neither the address nor a header, because both may contain a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlainError {
    /// The address or a header is invalid.
    #[error("the request cannot be sent")]
    Request,
    /// The server did not answer, or not in time.
    #[error("there is no answer")]
    Unreachable,
    /// The answer is longer than allowed.
    #[error("the answer is too long")]
    TooLong,
}

impl Plain {
    /// Makes a GET request with a timeout of 30 seconds, for an answer of at most 1 MiB.
    pub fn get(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            headers: Vec::new(),
            body: None,
            patience: Duration::from_secs(30),
            bytes_max: 1 << 20,
        }
    }

    /// Makes a POST request of JSON with the same limits.
    pub fn post(url: impl Into<String>, json: String) -> Self {
        Self { body: Some(json), ..Self::get(url) }
    }
}

impl Transport {
    /// Sends a request and reads the whole answer, whatever its status.
    ///
    /// # Errors
    /// [`PlainError`] if there is no whole answer.
    pub async fn send(&self, plain: Plain) -> Result<PlainAnswer, PlainError> {
        let patience = plain.patience;
        tokio::time::timeout(patience, self.exchange(plain)).await.unwrap_or(Err(PlainError::Unreachable))
    }

    async fn exchange(&self, plain: Plain) -> Result<PlainAnswer, PlainError> {
        let mut headers = HeaderMap::with_capacity(plain.headers.len() + 1);
        for (name, value) in &plain.headers {
            let (Ok(name), Ok(mut value)) = (HeaderName::try_from(name), HeaderValue::from_str(value)) else {
                return Err(PlainError::Request);
            };
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let request = match plain.body {
            Some(body) => {
                headers
                    .entry(reqwest::header::CONTENT_TYPE)
                    .or_insert(HeaderValue::from_static("application/json"));
                self.client().post(&plain.url).body(body)
            }
            None => self.client().get(&plain.url),
        };
        let sent = request.headers(headers).send().await;
        let mut response =
            sent.map_err(
                |error| {
                    if error.is_builder() { PlainError::Request } else { PlainError::Unreachable }
                },
            )?;
        let (status, mut body) = (response.status().as_u16(), Vec::new());
        while let Some(piece) = response.chunk().await.map_err(|_| PlainError::Unreachable)? {
            if body.len() + piece.len() > plain.bytes_max {
                return Err(PlainError::TooLong);
            }
            body.extend_from_slice(&piece);
        }
        Ok(PlainAnswer { status, body })
    }
}
