//! HTTP requests to a provider. They are bounded in time and size, and end when the caller drops them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use rustls_platform_verifier::BuilderVerifierExt;

use super::LlmError;
use super::failure::{Failure, Hidden, Refusal, TEXT_BYTES_MAX, classify, cut};
use super::public;
use super::sse::{SseEvent, SseReader};

/// The maximum length of a model's reply, in bytes, streamed or not.
pub(super) const REPLY_BYTES_MAX: usize = 32 << 20;

/// The most bytes of a refusal that are read.
const REFUSAL_BYTES_MAX: usize = 64 << 10;

/// The timeout for making a connection.
const CONNECT: Duration = Duration::from_secs(20);

/// Sends requests over connections that are kept open. Clones share the connections, so a process needs one transport.
#[derive(Debug, Clone)]
pub struct Transport {
    client: reqwest::Client,
    /// Connects only to public addresses.
    public: reqwest::Client,
}

/// One request.
pub(super) struct Post<'a> {
    pub url: &'a str,
    pub headers: &'a [(String, String)],
    pub body: String,
    /// The provider's name, for error texts.
    pub provider: &'a str,
    pub hidden: &'a Hidden,
    /// How long a stream may be silent.
    pub idle: Option<Duration>,
}

/// An answer whose body has not been read yet.
pub(super) struct Answer<'a> {
    response: reqwest::Response,
    post: Post<'a>,
}

/// Returns a TLS configuration with the certificates that the machine trusts. If there are none, it trusts no
/// certificate, and servers can still be asked without TLS.
pub(crate) fn tls() -> Result<rustls::ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = || {
        rustls::ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()
    };
    let config = match builder().and_then(BuilderVerifierExt::with_platform_verifier) {
        Ok(config) => config,
        Err(_) => builder()?.with_root_certificates(rustls::RootCertStore::empty()),
    };
    Ok(config.with_no_client_auth())
}

/// Returns whether the machine trusts any certificate.
#[cfg(feature = "cli")]
pub(crate) fn trusts_certificates() -> bool {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(BuilderVerifierExt::with_platform_verifier)
        .is_ok()
}

/// Returns the builder of a client, with what all clients have in common.
fn builder(tls: rustls::ClientConfig) -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        // Header names are case-insensitive, but some servers expect title case.
        .http1_title_case_headers()
        .user_agent(concat!("annals/", env!("CARGO_PKG_VERSION")))
        // A provider does not redirect, and a key must not be sent to another address.
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT)
}

impl Transport {
    /// Returns the HTTP client.
    pub(crate) fn client(&self) -> &reqwest::Client {
        &self.client
    }

    /// Makes a transport. It trusts the certificates that the machine trusts, and uses the proxies that the environment
    /// names (`HTTP_PROXY` and similar variables).
    ///
    /// # Errors
    /// [`LlmError::ServiceUnavailable`] if TLS cannot be set up.
    pub fn new() -> Result<Self, LlmError> {
        Self::to(None)
    }

    /// Makes a transport whose requests go to this socket of the file system, if there is one, whatever their host is.
    pub(crate) fn to(socket: Option<&Path>) -> Result<Self, LlmError> {
        let failed = |error: &dyn std::fmt::Display| LlmError::ServiceUnavailable(format!("no TLS: {error}"));
        let config = tls().map_err(|error| failed(&error))?;
        let client = match socket {
            #[cfg(unix)]
            Some(path) => builder(config.clone()).unix_socket(path).no_proxy(),
            _ => builder(config.clone()),
        };
        let client = client.build().map_err(|error| failed(&error))?;
        let public = public::only(builder(config)).build().map_err(|error| failed(&error))?;
        Ok(Self { client, public })
    }

    /// Makes a transport that takes a server of this machine for a public host of this name.
    #[cfg(test)]
    pub(super) fn with_public_host(name: &str, address: std::net::SocketAddr) -> Self {
        let builder = public::only(builder(tls().expect("TLS"))).resolve(name, address);
        Self { public: builder.build().expect("a client"), ..Self::new().expect("a transport") }
    }

    /// Sends a GET request, with a key if there is one. A redirect is returned, not followed. `None` without an answer.
    pub(super) async fn get(&self, url: &str, key: Option<&str>) -> Option<reqwest::Response> {
        let request = self.client.get(url);
        let request = match key {
            Some(key) => request.bearer_auth(key),
            None => request,
        };
        request.send().await.ok()
    }

    /// Sends a GET request to a host outside of this machine and its network. A redirect is returned, not followed.
    /// `None` without an answer, and if any address of the host is not public. No proxy is used.
    pub(super) async fn get_public(&self, url: reqwest::Url) -> Option<reqwest::Response> {
        if !public::may_be_asked(&url) {
            return None;
        }
        self.public.get(url).send().await.ok()
    }

    /// Sends a request and waits for the head of the answer.
    pub(super) async fn post<'a>(&self, mut post: Post<'a>) -> Result<Answer<'a>, Failure> {
        let mut headers = HeaderMap::with_capacity(post.headers.len());
        for (name, value) in post.headers {
            let (Ok(name), Ok(mut text)) = (HeaderName::try_from(name), HeaderValue::from_str(value)) else {
                let error = format!("the header {name:?} cannot be sent");
                return Err(Failure::last(LlmError::BadRequest(error)));
            };
            text.set_sensitive(true);
            headers.insert(name, text);
        }
        let request = self.client.post(post.url).headers(headers).body(std::mem::take(&mut post.body));
        let response = request.send().await.map_err(|error| failure(&error, &post))?;
        let mut answer = Answer { response, post };
        if answer.response.status().is_success() {
            return Ok(answer);
        }
        let status = answer.response.status().as_u16();
        let wait = retry_after(answer.response.headers());
        // If the body breaks off, the part that was read is still used to classify the refusal.
        let body = answer.body(REFUSAL_BYTES_MAX).await.unwrap_or_else(|(body, _)| body);
        let body = String::from_utf8_lossy(&body);
        let refusal = Refusal { status: Some(status), body: &body, wait, provider: answer.post.provider };
        Err(classify(refusal, answer.post.hidden))
    }
}

impl Answer<'_> {
    /// Returns the text of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.response.headers().get(name)?.to_str().ok()
    }

    /// Returns whether the body is a stream of events.
    pub fn is_stream(&self) -> bool {
        self.header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream"))
    }

    /// Returns the whole body, which must be JSON. An error that arrives with a success status is a failure, too.
    pub async fn json(mut self) -> Result<String, Failure> {
        let body = match self.body(REPLY_BYTES_MAX).await {
            Ok(body) => body,
            Err((_, failure)) => return Err(failure),
        };
        let text = String::from_utf8_lossy(&body).into_owned();
        match serde_json::from_str(&text) {
            Ok(value) => refused(value, self.post.provider, self.post.hidden).map(|_| text),
            Err(_) => {
                let text = self.post.hidden.hide(cut(&text, 500));
                let error = format!("{} answered something that is not JSON: {text}", self.post.provider);
                Err(Failure::passing(LlmError::ServiceUnavailable(error)))
            }
        }
    }

    /// Passes the events of the body to `show`, one after the other. Ends at the end of the body, or when `show`
    /// returns that the reply is complete.
    pub async fn events(
        mut self,
        mut show: impl FnMut(SseEvent) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        let mut reader = SseReader::default();
        let mut length = 0;
        while let Some(piece) = self.chunk().await? {
            length += piece.len();
            let mut outcome = Ok(false);
            let fed = reader.feed(&piece, |event| {
                if matches!(outcome, Ok(false)) {
                    outcome = show(event);
                }
            });
            if outcome? {
                return Ok(());
            }
            if fed.is_err() || length > REPLY_BYTES_MAX {
                return Err(self.too_long());
            }
        }
        match reader.finish() {
            Some(event) => show(event).map(|_| ()),
            None => Ok(()),
        }
    }

    /// Reads the body. If it fails or is too long, returns the part that was read and the failure.
    async fn body(&mut self, bytes_max: usize) -> Result<Vec<u8>, (Vec<u8>, Failure)> {
        let mut body = Vec::new();
        loop {
            match self.chunk().await {
                Ok(Some(piece)) => body.extend_from_slice(&piece),
                Ok(None) => return Ok(body),
                Err(failure) => return Err((body, failure)),
            }
            if body.len() > bytes_max {
                body.truncate(bytes_max);
                return Err((body, self.too_long()));
            }
        }
    }

    async fn chunk(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        let read = self.response.chunk();
        let read = match self.post.idle {
            None => read.await,
            Some(idle) => match tokio::time::timeout(idle, read).await {
                Ok(read) => read,
                Err(_) => {
                    let error = format!("LLM stream idle timeout after {} seconds", idle.as_secs_f64());
                    return Err(Failure::passing(LlmError::Timeout(error)));
                }
            },
        };
        let piece = read.map_err(|error| failure(&error, &self.post))?;
        Ok(piece.map(|piece| piece.to_vec()))
    }

    fn too_long(&self) -> Failure {
        let error = format!("{} answered more than {REPLY_BYTES_MAX} bytes", self.post.provider);
        Failure::last(LlmError::ServiceUnavailable(error))
    }
}

/// Returns the value, unless it is an error instead of a reply.
pub(super) fn refused(
    value: serde_json::Value,
    provider: &str,
    hidden: &Hidden,
) -> Result<serde_json::Value, Failure> {
    let first = value.get(0).unwrap_or(&value);
    if first.get("error").is_none_or(serde_json::Value::is_null) {
        return Ok(value);
    }
    let body = value.to_string();
    Err(classify(Refusal { status: None, body: &body, wait: None, provider }, hidden))
}

/// Returns how long to wait before the next attempt. OpenAI gives milliseconds, others give seconds. Dates are ignored.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<f64>().ok();
    let seconds = number("retry-after-ms").map(|ms| ms / 1000.0).or_else(|| number("retry-after"))?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// Describes why there is no answer, with all causes. The address is left out, because it may contain a key.
fn failure(error: &reqwest::Error, post: &Post<'_>) -> Failure {
    let mut text = String::new();
    let mut cause: Option<&dyn std::error::Error> = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    let text = post.hidden.hide(cut(&text, TEXT_BYTES_MAX));
    if error.is_builder() {
        return Failure::last(LlmError::BadRequest(format!("{} has no usable address{text}", post.provider)));
    }
    let (what, timeout) = match error {
        error if error.is_timeout() => ("did not answer in time", true),
        error if error.is_connect() => ("cannot be reached", false),
        error if error.is_body() || error.is_decode() => ("broke off its answer", false),
        _ => ("did not answer", false),
    };
    let text = format!("Connection error: {} {what}{text}", post.provider);
    Failure::passing(if timeout { LlmError::Timeout(text) } else { LlmError::ServiceUnavailable(text) })
}
