//! The connection to a server at an address, over streamable HTTP.

use std::collections::HashMap;
use std::time::Duration;

use reqwest::header::{HeaderName, HeaderValue};
use reqwest::redirect::{Attempt, Policy};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;

use crate::llm::tls;

/// The time limit for making a connection.
const CONNECT: Duration = Duration::from_secs(20);

/// The maximum number of redirects that are followed.
const REDIRECTS_MAX: usize = 5;

/// Makes the transport to a server. It connects with the first message.
pub(super) fn transport(
    url: &str,
    headers: &[(String, String)],
) -> Result<StreamableHttpClientTransport<reqwest::Client>, String> {
    let mut custom = HashMap::with_capacity(headers.len());
    for (name, value) in headers {
        let (Ok(header), Ok(mut text)) = (HeaderName::try_from(name), HeaderValue::from_str(value)) else {
            return Err(format!("the header {name:?} cannot be sent"));
        };
        text.set_sensitive(true);
        custom.insert(header, text);
    }
    let config = StreamableHttpClientTransportConfig::with_uri(url).custom_headers(custom);
    let no_tls = |error: &dyn std::fmt::Display| format!("no TLS: {error}");
    let client = reqwest::Client::builder()
        .tls_backend_preconfigured(tls().map_err(|error| no_tls(&error))?)
        .user_agent(concat!("annals/", env!("CARGO_PKG_VERSION")))
        .redirect(Policy::custom(within_origin))
        .connect_timeout(CONNECT)
        .build()
        .map_err(|error| no_tls(&error))?;
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

/// Follows only redirects within the same origin. The headers may contain a key, which no other server may receive.
fn within_origin(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let first = attempt.previous().first();
    let is_its_own = first.is_some_and(|first| first.origin() == attempt.url().origin());
    if is_its_own && attempt.previous().len() <= REDIRECTS_MAX { attempt.follow() } else { attempt.stop() }
}
