//! Which pages in a browser may call where nobody needs a key.
//!
//! Without a key every page that somebody opens on this machine could have commands run: a browser lets any page send
//! simple requests and open sockets, and a name that an attacker controls may lead here too. So a request that a page
//! elsewhere sends is refused, and one to a name that is not this machine's. With a key there is nothing to guard: no page
//! knows it.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::App;
use super::cors;
use super::failure::Failure;

/// Refuses what a page elsewhere sends to a server without keys.
pub(super) async fn check(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    if app.config().session_keys.is_empty() && !is_welcome(&app, request.headers()) {
        return Failure::Refused(StatusCode::FORBIDDEN, "Foreign origin".to_owned()).into_response();
    }
    next.run(request).await
}

fn is_welcome(app: &App, headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let origin = text(header::ORIGIN);
    let origins = &app.config().origins;
    let host = text(header::HOST);
    if origin.is_some_and(|origin| !cors::may(origins, origin) && !is_this_servers(origins, origin, host)) {
        return false;
    }
    // A server that was opened to other machines on purpose has names that only its operator knows.
    !app.config().is_local || host.is_none_or(|host| is_own(origins, host))
}

/// Whether an origin is the page that this server shows itself: it was asked under that name, and nobody else can have it.
fn is_this_servers(origins: &[String], origin: &str, host: Option<&str>) -> bool {
    let Some((_, named)) = origin.split_once("://") else { return false };
    host.is_some_and(|host| host == named && is_own(origins, host))
}

/// Whether a host is an address, this machine, or one that the operator named.
fn is_own(origins: &[String], host: &str) -> bool {
    let is_named =
        || origins.iter().any(|origin| origin.split_once("://").is_some_and(|(_, own)| own == host));
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    name.parse::<IpAddr>().is_ok() || name == "localhost" || name.ends_with(".localhost") || is_named()
}

#[cfg(test)]
mod tests {
    use super::{is_own, is_this_servers};

    #[test]
    fn a_name_that_anybody_may_have_is_not_this_machines() {
        let origins = ["https://agent.example:8443".to_owned()];
        for own in ["localhost:8000", "127.0.0.1", "[::1]:8000", "a.localhost", "10.0.0.7:1", "LOCALHOST."] {
            assert!(is_own(&origins, own), "{own}");
        }
        assert!(is_own(&origins, "agent.example:8443"));
        for foreign in
            ["evil.example:8000", "localhost.evil.example", "agent.example", "", "127.0.0.1.evil.example"]
        {
            assert!(!is_own(&origins, foreign), "{foreign}");
        }
    }
    #[test]
    fn the_servers_own_page_may_call_under_an_address_and_no_other_name() {
        for (origin, host, expected) in [
            ("http://[::1]:8000", Some("[::1]:8000"), true),
            ("http://10.0.0.7:8000", Some("10.0.0.7:8000"), true),
            ("http://10.0.0.7:8000", Some("10.0.0.8:8000"), false),
            ("http://10.0.0.7:8000", Some("10.0.0.7:9000"), false),
            ("http://evil.example:8000", Some("evil.example:8000"), false),
            ("http://10.0.0.7", None, false),
            ("null", Some("null"), false),
        ] {
            assert_eq!(is_this_servers(&[], origin, host), expected, "{origin} {host:?}");
        }
    }
}
