//! The page at `/`: what a browser is sent, and what other clients are sent.

use std::collections::BTreeSet;

use annals::server::Config;
use annals::{Options, Store};
use reqwest::header::{HeaderMap, HeaderValue};
use serde_json::{Value, json};

use crate::support::conversation;
use crate::support::events::{answered, user_message};
use crate::support::served::Served;

/// The `accept` header that Chromium sends for a page.
const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8";

/// The maximum size in bytes of all files that the page may load, as they are sent to a browser.
const BYTES_MAX: usize = 150_000;

async fn serve(keys: &[&str]) -> Served {
    let store = Store::in_memory(&Options::default()).unwrap();
    let session_keys = keys.iter().map(|key| (*key).to_owned()).collect();
    Served::with(&store, Config::default().session_keys(session_keys)).await
}

struct Sent {
    status: u16,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Sent {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

async fn get(server: &Served, path: &str, headers: &[(&'static str, &str)]) -> Sent {
    let headers = headers.iter().map(|(name, value)| {
        (reqwest::header::HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
    });
    let request = server.client.get(format!("{}{path}", server.url)).headers(headers.collect());
    let response = request.send().await.unwrap();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    Sent { status, headers, body: response.bytes().await.unwrap().to_vec() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_gets_the_page_and_other_clients_get_the_server_info() {
    let server = serve(&["secret"]).await;
    let page = get(&server, "/", &[("accept", BROWSER)]).await;
    assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"));
    assert!(page.text().starts_with("<!doctype html>"));
    assert_eq!(page.headers.get_all("vary").iter().collect::<Vec<_>>(), ["accept-encoding", "accept"]);
    // The `accept` headers of the Python client and curl, of a client of JSON, and of a client without preferences.
    for accept in ["*/*", "application/json", ""] {
        let info = get(&server, "/", &[("accept", accept)]).await;
        assert_eq!((info.status, info.header("content-type")), (200, "application/json"), "{accept}");
        let info: Value = serde_json::from_slice(&info.body).unwrap();
        assert_eq!(info["title"], "Annals");
    }
    // The page holds no data. Routes with data require the key.
    assert_eq!(get(&server, "/api/annals/conversations", &[]).await.status, 401);
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_policy_allows_the_pages_own_files_and_nothing_else() {
    let server = serve(&[]).await;
    for path in ["/", "/page/main.js", "/page/style/base.css", "/page/vendor/preact.mjs"] {
        let sent = get(&server, path, &[("accept", BROWSER)]).await;
        assert_eq!(sent.status, 200, "{path}");
        let policy = sent.header("content-security-policy");
        for rule in [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "connect-src 'self'",
            "img-src 'self' data: blob:",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
        ] {
            assert!(policy.split("; ").any(|part| part == rule), "{path}: {rule} is not in {policy}");
        }
        assert!(!policy.contains("unsafe") && !policy.contains('*') && !policy.contains("http"), "{policy}");
        assert_eq!(sent.header("x-content-type-options"), "nosniff");
        assert_eq!(sent.header("referrer-policy"), "no-referrer");
    }
    for (path, status) in
        [("/page/nothing.js", 404), ("/page/../Cargo.toml", 404), ("/page/vendor/README.md", 404)]
    {
        assert_eq!(get(&server, path, &[]).await.status, status, "{path}");
    }
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_in_the_browsers_cache_are_not_sent_again() {
    let server = serve(&[]).await;
    for path in ["/", "/page/main.js"] {
        let first = get(&server, path, &[("accept", BROWSER)]).await;
        let tag = first.header("etag");
        assert!(tag.starts_with('"') && tag.len() == 34, "{path}: {tag}");
        assert_eq!(first.header("cache-control"), "no-cache");
        for known in [tag.to_owned(), format!("W/{tag}"), format!("\"other\", {tag}"), "*".to_owned()] {
            let again = get(&server, path, &[("accept", BROWSER), ("if-none-match", &known)]).await;
            assert_eq!(
                (again.status, again.body.len(), again.header("etag")),
                (304, 0, tag),
                "{path}: {known}"
            );
        }
        let other = get(&server, path, &[("accept", BROWSER), ("if-none-match", "\"other\"")]).await;
        assert_eq!((other.status, other.body.len()), (200, first.body.len()));
    }
    server.end().await;
}

/// The names in a text: each is between one of the marks and the next quotation mark.
fn named<'t>(text: &'t str, marks: &[&str]) -> Vec<&'t str> {
    let behind = marks.iter().flat_map(|mark| text.split(mark).skip(1));
    behind.filter_map(|rest| rest.split(['"', '\'', '`']).next()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn all_files_that_the_page_names_exist_and_are_small() {
    let server = serve(&[]).await;
    let page = get(&server, "/", &[("accept", BROWSER)]).await;
    // The page itself has no inline script and no inline style.
    let text = page.text();
    assert!(!text.contains("<style") && !text.contains(" style=") && !text.contains("javascript:"));
    assert!(text.split("<script").skip(1).all(|tag| tag.split('>').next().unwrap().contains(" src=")));
    assert!(text.split("<script").skip(1).all(|tag| tag.split_once('>').unwrap().1.starts_with("</script>")));

    let base = url(&server.url, "/");
    let mut open: Vec<String> = named(text, &["src=\"", "href=\"page/"])
        .iter()
        .map(|path| {
            let path = path.strip_prefix("page/").unwrap_or(path);
            url(&base, &format!("page/{path}"))
        })
        .collect();
    let (mut seen, mut bytes) = (BTreeSet::new(), page.body.len());
    while let Some(address) = open.pop() {
        if !seen.insert(address.clone()) {
            continue;
        }
        let path = address.strip_prefix(&server.url).unwrap();
        let sent = get(&server, path, &[]).await;
        assert_eq!(sent.status, 200, "{path}");
        let small = get(&server, path, &[("accept-encoding", "gzip, deflate, br, zstd")]).await;
        assert_eq!((small.header("content-encoding"), small.header("vary")), ("zstd", "accept-encoding"));
        assert_ne!(small.header("etag"), sent.header("etag"));
        bytes += small.body.len();
        let imported = named(sent.text(), &["from '", "from\"", "import '", "import('"]);
        open.extend(imported.iter().filter(|name| name.starts_with('.')).map(|name| url(&address, name)));
        // Style sheets that a view loads.
        open.extend(
            named(sent.text(), &["useSheet('"])
                .iter()
                .map(|name| url(&base, &format!("page/style/{name}.css"))),
        );
    }
    assert!(seen.len() > 40, "only {} files were found", seen.len());
    assert!(bytes < BYTES_MAX, "{bytes} bytes");
    server.end().await;
}

/// The address of `name` relative to `base`.
fn url(base: &str, name: &str) -> String {
    reqwest::Url::parse(base).unwrap().join(name).unwrap().to_string()
}

const FIRST: &str = "0af3c9d2-8d4b-4f0e-9a5e-51c11b1f2a01";
const SECOND: &str = "1bf3c9d2-8d4b-4f0e-9a5e-51c11b1f2a02";

#[tokio::test(flavor = "multi_thread")]
async fn conversations_are_listed_by_page_with_their_usage() {
    let store = Store::in_memory(&Options::default()).unwrap();
    store
        .append(&conversation(FIRST), annals::Expected::Empty, &[user_message("a0", "Count the files")])
        .unwrap();
    let talk = [user_message("b0", "Mend the mill"), answered("b1", "It runs again")];
    store.append(&conversation(SECOND), annals::Expected::Empty, &talk).unwrap();
    let server = Served::start(&store).await;
    let list = "/api/annals/conversations";

    let page = server.json(&format!("{list}?limit=1&order=created_oldest")).await;
    assert_eq!((page["total"].clone(), page["conversations"][0]["id"].clone()), (json!(2), json!(FIRST)));
    let next = page["next"].as_str().unwrap();
    let rest = server.json(&format!("{list}?limit=1&order=created_oldest&after={next}")).await;
    assert_eq!((rest["total"].clone(), rest["next"].clone()), (Value::Null, Value::Null));
    let row = &rest["conversations"][0];
    assert_eq!(
        (row["id"].clone(), row["title"].clone(), row["event_count"].clone(), row["is_titled"].clone()),
        (json!(SECOND), json!("Mend the mill"), json!(2), json!(false))
    );
    assert_eq!(
        (row["models"].clone(), row["prompt_tokens"].clone(), row["copy_of"].clone()),
        (json!([]), json!(0), Value::Null)
    );

    assert_eq!(server.json(&format!("{list}?title=mill")).await["total"], 1);
    assert_eq!(server.json(&format!("{list}?status=running&status=paused")).await["total"], 0);
    assert_eq!(server.json(&format!("{list}?tag=team=core")).await["total"], 0);
    let one = server.json(&format!("{list}/1bf3c9?counts=true")).await;
    assert_eq!((one["kinds"].clone(), one["sub_agents"].clone()), (json!({"MessageEvent": 2}), json!([])));
    for (path, status) in [
        (format!("{list}?limit=0"), 422),
        (format!("{list}?order=colour"), 422),
        (format!("{list}?updated_from=soon"), 422),
        (format!("{list}?after=zzz"), 404),
        (format!("{list}/zzz"), 404),
    ] {
        assert_eq!(server.get(&path).await.status, status, "{path}");
    }
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_texts_are_cut_on_request() {
    let store = Store::in_memory(&Options::default()).unwrap();
    store
        .append(&conversation(FIRST), annals::Expected::Empty, &[user_message("a0", &"ä".repeat(5000))])
        .unwrap();
    let server = Served::start(&store).await;
    let events = format!("/api/annals/conversations/{FIRST}/events");
    let cut = server.json(&format!("{events}?texts=100")).await;
    let text = cut["events"][0]["event"]["llm_message"]["content"][0]["text"].as_str().unwrap();
    assert_eq!(text, "ä".repeat(100));
    assert_eq!(cut["events"][0]["cut"], json!({"/llm_message/content/0/text": 5000}));
    let whole = server.json(&events).await;
    assert_eq!(whole["events"][0]["cut"], Value::Null);
    assert_eq!(server.get(&format!("{events}?texts=1")).await.status, 422);
    server.end().await;
}
