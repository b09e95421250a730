//! Requests that are not to a model: secrets looked up, webhooks told. Bounded in time and size, never redirected.

use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use super::Transport;

/// A request.
#[derive(Clone)]
pub struct Plain {
    /// Where to: `http` or `https`.
    pub url: String,
    /// Names and values; the values are told to nobody else.
    pub headers: Vec<(String, String)>,
    /// What is posted; nothing is got instead.
    pub body: Option<String>,
    /// How long all of it may take.
    pub patience: Duration,
    /// The longest answer, in bytes.
    pub bytes_max: usize,
}

/// What was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlainAnswer {
    /// The HTTP status.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
}

/// Why there was no answer. It names neither the address nor a header: both may hold a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlainError {
    /// The address or a header cannot be sent.
    #[error("the request cannot be sent")]
    Request,
    /// Nobody answered, or not in time.
    #[error("there is no answer")]
    Unreachable,
    /// The answer is longer than it may be.
    #[error("the answer is too long")]
    TooLong,
}

impl Plain {
    /// A GET with half a minute's patience for an answer of at most 1 MiB.
    pub fn get(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            headers: Vec::new(),
            body: None,
            patience: Duration::from_secs(30),
            bytes_max: 1 << 20,
        }
    }

    /// A POST of JSON, likewise.
    pub fn post(url: impl Into<String>, json: String) -> Self {
        Self { body: Some(json), ..Self::get(url) }
    }
}

impl Transport {
    /// Sends a request and reads the whole answer, whatever its status.
    ///
    /// # Errors
    /// [`PlainError`].
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
