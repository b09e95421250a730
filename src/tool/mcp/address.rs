//! Servers at an address, spoken to over streamable HTTP.

use std::collections::HashMap;
use std::time::Duration;

use reqwest::header::{HeaderName, HeaderValue};
use reqwest::redirect::{Attempt, Policy};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;

use crate::llm::tls;

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(20);

/// How often a server may send elsewhere before it is given up.
const REDIRECTS_MAX: usize = 5;

/// The way to a server. It is not taken before the server is spoken to.
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
        .redirect(Policy::custom(within))
        .connect_timeout(CONNECT)
        .build()
        .map_err(|error| no_tls(&error))?;
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

/// A server may send to another path of its own. What is sent along may be a key: it goes nowhere else.
fn within(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let asked = attempt.previous().first();
    let is_its_own = asked.is_some_and(|asked| asked.origin() == attempt.url().origin());
    if is_its_own && attempt.previous().len() <= REDIRECTS_MAX { attempt.follow() } else { attempt.stop() }
}
