//! The check of web pages that call a server without keys.
//!
//! Without keys, any page that is opened in a browser on this machine could run commands: a browser lets every page
//! send simple requests and open sockets, and a host name that an attacker controls may point to this machine.
//! Therefore a request from a foreign page is refused, and so is a request to a host name that is neither this
//! machine's own nor configured by the operator. For pictures, scripts and other resources of a page, a browser sends
//! no origin, but it sends whether the page is a foreign one. Such a request is refused too, unless a person navigates
//! to the web page or to the interface's description. If the server has keys, no check is needed, because no page knows
//! a key.
//!
//! Every answer tells the browser not to guess its content type (`nosniff`) and not to give it to a foreign page.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::caller::Keys;
use super::cors;
use super::failure::Failure;
use crate::server::Config;

/// Refuses requests from foreign pages if the server has no keys.
pub(in crate::server) async fn check(
    State(keys): State<Arc<Keys>>,
    request: Request,
    next: Next,
) -> Response {
    if let Some(why) = refusal(&Names::of(keys.config()), &request)
        && keys.are_missing().await
    {
        return Failure::Refused(StatusCode::FORBIDDEN, why.to_owned()).into_response();
    }
    next.run(request).await
}

/// Refuses requests from foreign pages, whether the server has keys or not.
pub(in crate::server) async fn check_page(
    State(config): State<Arc<Config>>,
    request: Request,
    next: Next,
) -> Response {
    if has_foreign_origin(&Names::of(&config), request.headers()) {
        let why = "Foreign origin: the operator may allow it with --allow-origin";
        return Failure::Refused(StatusCode::FORBIDDEN, why.to_owned()).into_response();
    }
    next.run(request).await
}

fn has_foreign_origin(names: &Names<'_>, headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).map(|value: &HeaderValue| value.to_str().unwrap_or("?"));
    let (origin, host) = (text(header::ORIGIN), text(header::HOST));
    origin.is_some_and(|origin| !cors::may(names.origins, origin) && !is_this_servers(names, origin, host))
}

/// Marks every answer: a browser must not guess its content type, and must not give it to a foreign page.
pub(in crate::server) async fn mark(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let marks = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in marks {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// The origins and hosts that the operator configured.
struct Names<'a> {
    origins: &'a [String],
    hosts: &'a [String],
}

impl<'a> Names<'a> {
    fn of(config: &'a Config) -> Self {
        Self { origins: &config.origins, hosts: &config.hosts }
    }
}

/// Returns why a request is refused; `None` if it is allowed.
fn refusal(names: &Names<'_>, request: &Request) -> Option<&'static str> {
    let headers = request.headers();
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let (origin, host) = (text(header::ORIGIN), text(header::HOST));
    if host.is_some_and(|host| !is_own(names, host)) {
        return Some("Unknown host: the operator may allow it with --allow-host");
    }
    match origin {
        Some(origin) if cors::may(names.origins, origin) || is_this_servers(names, origin, host) => None,
        Some(_) => Some("Foreign origin"),
        None => (is_from_elsewhere(headers) && !is_visit(request)).then_some("Foreign site"),
    }
}

/// Returns whether the browser reports that a page of another origin caused the request.
fn is_from_elsewhere(headers: &HeaderMap) -> bool {
    let mut sites = headers.get_all("sec-fetch-site").iter();
    sites.any(|site| !matches!(site.as_bytes(), b"same-origin" | b"none"))
}

/// Returns whether a person navigates to the web page or to the interface's description, perhaps by a link. Such a
/// request changes nothing, and neither page may be shown in a frame.
fn is_visit(request: &Request) -> bool {
    let path = request.uri().path();
    let has = |name: &str, value: &str| {
        request.headers().get(name).is_some_and(|given| given.as_bytes() == value.as_bytes())
    };
    let leads_to_pages = matches!(path, "/" | "/docs") || path.starts_with("/page/");
    request.method() == Method::GET
        && leads_to_pages
        && has("sec-fetch-mode", "navigate")
        && has("sec-fetch-dest", "document")
}

/// Returns whether an origin is this server's own page: the request's host has the same name, and that name can only be
/// this server's.
fn is_this_servers(names: &Names<'_>, origin: &str, host: Option<&str>) -> bool {
    let Some((_, named)) = origin.split_once("://") else { return false };
    host.is_some_and(|host| host == named && is_own(names, host))
}

/// Returns whether a host is an IP address, this machine, or configured by the operator.
fn is_own(names: &Names<'_>, host: &str) -> bool {
    let is_origins = |origin: &String| origin.split_once("://").is_some_and(|(_, own)| own == host);
    if names.origins.iter().any(is_origins) {
        return true;
    }
    let is_port = |port: &str| {
        port.is_empty() || port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok())
    };
    if let Some(rest) = host.strip_prefix('[') {
        let Some((address, port)) = rest.split_once(']') else { return false };
        return address.parse::<Ipv6Addr>().is_ok() && is_port(port);
    }
    let (name, port) = host.find(':').map_or((host, ""), |at| host.split_at(at));
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    let is_named = || names.hosts.iter().any(|known| known.eq_ignore_ascii_case(&name) || known == host);
    let is_this_machine = name == "localhost" || name.ends_with(".localhost");
    is_port(port) && (name.parse::<Ipv4Addr>().is_ok() || is_this_machine || is_named())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> (Vec<String>, Vec<String>) {
        (vec!["https://agent.example:8443".to_owned()], vec!["team.example".to_owned()])
    }

    fn why(path: &str, headers: &[(&str, &str)]) -> Option<&'static str> {
        let (origins, hosts) = names();
        let mut request = Request::builder().uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(axum::body::Body::empty()).unwrap();
        refusal(&Names { origins: &origins, hosts: &hosts }, &request)
    }

    #[test]
    fn only_addresses_and_configured_names_are_own_hosts() {
        let (origins, hosts) = names();
        let names = Names { origins: &origins, hosts: &hosts };
        for own in [
            "localhost:8000",
            "127.0.0.1",
            "[::1]:8000",
            "[::1]",
            "a.localhost",
            "10.0.0.7:1",
            "LOCALHOST.",
            "agent.example:8443",
            "team.example",
            "TEAM.example:8000",
        ] {
            assert!(is_own(&names, own), "{own}");
        }
        for foreign in [
            "evil.example:8000",
            "localhost.evil.example",
            "agent.example",
            "",
            "127.0.0.1.evil.example",
            "[::1].evil.example",
            "[::1]:80.evil.example",
            "[::1",
            "127.0.0.1:80.evil.example",
            "localhost:evil.example",
        ] {
            assert!(!is_own(&names, foreign), "{foreign}");
        }
    }

    #[test]
    fn the_servers_own_page_may_call_under_an_address_only() {
        for (origin, host, expected) in [
            ("http://[::1]:8000", Some("[::1]:8000"), true),
            ("http://10.0.0.7:8000", Some("10.0.0.7:8000"), true),
            ("http://10.0.0.7:8000", Some("10.0.0.8:8000"), false),
            ("http://10.0.0.7:8000", Some("10.0.0.7:9000"), false),
            ("http://evil.example:8000", Some("evil.example:8000"), false),
            ("http://10.0.0.7", None, false),
            ("null", Some("null"), false),
        ] {
            let names = Names { origins: &[], hosts: &[] };
            assert_eq!(is_this_servers(&names, origin, host), expected, "{origin} {host:?}");
        }
    }

    #[test]
    fn resources_of_foreign_pages_are_refused_and_navigation_is_not() {
        let host = ("host", "127.0.0.1:8000");
        let visit = [("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
        for site in ["cross-site", "same-site", "anything"] {
            let site = ("sec-fetch-site", site);
            for path in [
                "/api/git/changes?path=/r",
                "/api/file/download?path=/x",
                "/health",
                "/",
                "/docs",
                "/openapi.json",
            ] {
                assert_eq!(why(path, &[host, site]), Some("Foreign site"), "{path}");
                let image = [host, site, ("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "image")];
                assert_eq!(why(path, &image), Some("Foreign site"), "{path}");
            }
            for path in ["/", "/docs", "/page/index.html"] {
                assert_eq!(why(path, &[host, site, visit[0], visit[1]]), None, "{path}");
                let framed = [host, site, visit[0], ("sec-fetch-dest", "iframe")];
                assert_eq!(why(path, &framed), Some("Foreign site"), "{path}");
            }
            assert_eq!(why("/api/tools", &[host, site, visit[0], visit[1]]), Some("Foreign site"));
            // A page that may read answers sends its origin.
            assert_eq!(why("/api/tools", &[host, site, ("origin", "http://localhost:3000")]), None);
            assert_eq!(why("/api/tools", &[host, site, ("origin", "https://agent.example:8443")]), None);
            assert_eq!(
                why("/api/tools", &[host, site, ("origin", "http://evil.example")]),
                Some("Foreign origin")
            );
        }
        for own in ["same-origin", "none"] {
            assert_eq!(why("/api/tools", &[host, ("sec-fetch-site", own)]), None);
        }
        assert_eq!(why("/api/tools", &[host]), None);
        assert!(why("/", &[("host", "evil.example"), visit[0], visit[1]]).is_some());
    }
}
