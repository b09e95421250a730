//! Sends requests to a server, with limits on time and size. Errors are typed.

use std::time::Duration;

use serde_json::Value;

use super::{RemoteError, Result, Server, VERSION_MIN};
use crate::llm::Transport;

/// The usual time limit for an answer.
const QUICK: Duration = Duration::from_secs(30);

/// The time limit for an answer that waits for a model or a tool. It is that of the reference's client.
pub(crate) const SLOW: Duration = Duration::from_secs(600);

/// The maximum size of an answer, in bytes. It is enough for a page of the log that has the longest event.
const ANSWER_BYTES_MAX: usize = 96 << 20;

/// The maximum length of a server's error message that is shown, in characters.
const DETAIL_CHARACTERS_MAX: usize = 1000;

/// The name of the header with the key.
const KEY_HEADER: &str = "x-session-api-key";

/// The HTTP method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Get,
    Post,
    Patch,
}

/// The software of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Make {
    /// Annals. The log can be read as it is stored.
    Annals,
    /// The reference, or another program with the same contract.
    Reference,
}

/// A client of one server. Clones share the connections.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    server: Server,
    transport: Transport,
    make: Make,
}

impl Client {
    /// Checks that there is a server, and that its version is supported.
    ///
    /// # Errors
    /// [`RemoteError::Unreachable`], [`RemoteError::Version`] and [`RemoteError::InvalidAnswer`]. The key is not
    /// checked here, but by later requests.
    pub async fn connect(server: &Server) -> Result<Self> {
        let transport = Transport::to(server.socket()).map_err(|error| RemoteError::Unreachable {
            server: server.to_string(),
            cause: error.to_string(),
        })?;
        let mut client = Self { server: server.clone(), transport, make: Make::Reference };
        let info =
            client.ask(Method::Get, "/server_info", None, QUICK).await.map_err(|error| match error {
                RemoteError::NotFound { .. } => client.invalid_answer("it is not an agent-server"),
                other => other,
            })?;
        let info: Value =
            serde_json::from_str(&info).map_err(|_| client.invalid_answer("it is not an agent-server"))?;
        if info["title"] == "Annals" {
            client.make = Make::Annals;
        }
        let found = info["sdk_version"].as_str().or_else(|| info["version"].as_str()).unwrap_or_default();
        if parts(found) < parts(VERSION_MIN) {
            let (server, found) = (server.to_string(), cut(found).to_owned());
            return Err(RemoteError::Version { server, found, needed: VERSION_MIN });
        }
        Ok(client)
    }

    pub fn server(&self) -> &Server {
        &self.server
    }

    pub(super) fn make(&self) -> Make {
        self.make
    }

    pub async fn get(&self, path: &str) -> Result<String> {
        self.ask(Method::Get, path, None, QUICK).await
    }

    pub async fn post(&self, path: &str, body: Option<String>, patience: Duration) -> Result<String> {
        self.ask(Method::Post, path, body, patience).await
    }

    pub async fn patch(&self, path: &str, body: String) -> Result<String> {
        self.ask(Method::Patch, path, Some(body), QUICK).await
    }

    /// Makes the error for an answer that violates the contract.
    pub fn invalid_answer(&self, what: impl Into<String>) -> RemoteError {
        RemoteError::InvalidAnswer { server: self.server.to_string(), what: self.server.hide(&what.into()) }
    }

    /// Builds a request with the key, without sending it.
    pub(super) fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let (client, url) = (self.transport.client(), self.server.url(path));
        let request = match method {
            Method::Get => client.get(url),
            Method::Post => client.post(url),
            Method::Patch => client.patch(url),
        };
        match self.server.secret().map(|key| reqwest::header::HeaderValue::from_str(key.expose())) {
            Some(Ok(mut key)) => {
                key.set_sensitive(true);
                request.header(KEY_HEADER, key)
            }
            // A key that is no valid header value is wrong. With an empty key, the server rejects the request.
            Some(Err(_)) => request.header(KEY_HEADER, ""),
            None => request,
        }
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<String>,
        patience: Duration,
    ) -> Result<String> {
        let mut request = self.request(method, path).timeout(patience);
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body);
        }
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        let status = response.status();
        let text = self.read(response).await?;
        if status.is_success() { Ok(text) } else { Err(self.refusal(status.as_u16(), &text)) }
    }

    async fn read(&self, mut response: reqwest::Response) -> Result<String> {
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(|error| self.unreachable(&error))? {
            if body.len() + piece.len() > ANSWER_BYTES_MAX {
                return Err(self.invalid_answer(format!("more than {ANSWER_BYTES_MAX} bytes")));
            }
            body.extend_from_slice(&piece);
        }
        String::from_utf8(body).map_err(|_| self.invalid_answer("text that is not UTF-8"))
    }

    /// Makes the error for a missing answer, with all its causes and without the address.
    pub(super) fn unreachable(&self, error: &reqwest::Error) -> RemoteError {
        let mut cause = if error.is_timeout() { "no answer in time" } else { "no connection" }.to_owned();
        let mut next: Option<&dyn std::error::Error> = std::error::Error::source(error);
        while let Some(error) = next {
            cause.push_str(": ");
            cause.push_str(&error.to_string());
            next = error.source();
        }
        let cause = self.server.hide(cut(&cause));
        RemoteError::Unreachable { server: self.server.to_string(), cause }
    }

    /// Makes the error for a status other than success.
    pub(super) fn refusal(&self, status: u16, body: &str) -> RemoteError {
        let server = self.server.to_string();
        let detail = detail(body).unwrap_or_else(|| format!("status {status}"));
        let detail = self.server.hide(cut(&detail));
        match status {
            401 | 403 => RemoteError::Key { server },
            404 => RemoteError::NotFound { server, detail },
            429 | 503 => RemoteError::Busy { server, detail },
            500.. => RemoteError::Failed { server, status, detail },
            _ => RemoteError::Refused { server, status, detail },
        }
    }
}

/// Returns the message in the body of an error response: `detail`, or the place and text of each problem, and the
/// exception. The data that was sent is left out.
fn detail(body: &str) -> Option<String> {
    let body: Value = serde_json::from_str(body).ok()?;
    let message = match body.get("detail")? {
        Value::String(text) => text.clone(),
        Value::Array(problems) => {
            let problem = |problem: &Value| {
                let place = problem["loc"].as_array().into_iter().flatten();
                let place: Vec<String> =
                    place.map(|part| part.as_str().map_or_else(|| part.to_string(), str::to_owned)).collect();
                format!("{}: {}", place.join("."), problem["msg"].as_str().unwrap_or_default())
            };
            problems.iter().map(problem).collect::<Vec<_>>().join("; ")
        }
        _ => return None,
    };
    Some(match body["exception"].as_str() {
        Some(exception) if exception != message => format!("{message}: {exception}"),
        Some(_) | None => message,
    })
}

fn cut(text: &str) -> &str {
    text.char_indices().nth(DETAIL_CHARACTERS_MAX).map_or(text, |(end, _)| &text[..end])
}

/// Returns the first two numbers of a version.
fn parts(version: &str) -> (u64, u64) {
    let mut numbers = version.split('.').map(|part| part.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_detail_of_an_error_does_not_repeat_the_input() {
        let body =
            r#"{"detail":[{"type":"x","loc":["body","secrets",0],"msg":"Field required","input":"hush"}]}"#;
        assert_eq!(detail(body).unwrap(), "body.secrets.0: Field required");
        let body = r#"{"detail":"Internal Server Error","exception":"it broke"}"#;
        assert_eq!(detail(body).unwrap(), "Internal Server Error: it broke");
        assert_eq!((detail("<html>"), detail("{}")), (None, None));
    }

    #[test]
    fn versions_compare_by_number() {
        assert!(parts("1.58.0") >= parts(VERSION_MIN) && parts("1.100") > parts(VERSION_MIN));
        assert!(parts("2.0") > parts(VERSION_MIN) && parts("1.9.9") < parts(VERSION_MIN));
        assert!(parts("") < parts(VERSION_MIN) && parts("unknown") < parts(VERSION_MIN));
    }
}
