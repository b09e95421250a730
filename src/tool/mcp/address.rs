//! Servers at an address, spoken to over streamable HTTP.

use std::collections::HashMap;

use reqwest::header::{HeaderName, HeaderValue};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;

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
    Ok(StreamableHttpClientTransport::with_client(reqwest::Client::new(), config))
}
