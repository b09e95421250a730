//! Passes a request to another server, and its answer back: bodies as they come, and sockets as well.

use std::io;
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::extract::{OriginalUri, Request};
use axum::http::{HeaderName, HeaderValue, StatusCode, Uri, header};
use axum::response::Response;
use hyper::client::conn::http1;
use hyper::upgrade;
use hyper_util::rt::TokioIo;
use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;

use super::failure::Failure;

/// The header of a request that another server has passed on. It is answered here, whatever the log says.
pub(in crate::server) const FORWARDED: HeaderName = HeaderName::from_static("annals-forwarded");

/// How long another server is waited for: it is near, and a machine that has died says nothing.
const CONNECT_MAX: Duration = Duration::from_secs(2);

/// Returns the path and the query as the client sent them, whatever a route has taken off them.
pub(in crate::server) fn original(request: &Request) -> Uri {
    let whole = request.extensions().get::<OriginalUri>();
    whole.map_or_else(|| request.uri().clone(), |OriginalUri(uri)| uri.clone())
}

/// Connects to the server at `address`: `http://HOST:PORT`.
///
/// # Errors
/// If it cannot be reached. Then no request was passed to it.
pub(in crate::server) async fn connect(address: &str) -> io::Result<TcpStream> {
    let host = address.strip_prefix("http://").unwrap_or(address).trim_end_matches('/');
    let connecting = tokio::time::timeout(CONNECT_MAX, TcpStream::connect(host));
    let stream = connecting.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Returns the request once more, to be answered here if the other server does not. `None` if it has a body, or asks for
/// another protocol: these are there only once.
pub(in crate::server) fn again(request: &Request) -> Option<Request> {
    if !request.body().is_end_stream() || request.headers().contains_key(header::UPGRADE) {
        return None;
    }
    let mut again = Request::new(Body::empty());
    *again.method_mut() = request.method().clone();
    *again.uri_mut() = request.uri().clone();
    *again.version_mut() = request.version();
    *again.headers_mut() = request.headers().clone();
    *again.extensions_mut() = request.extensions().clone();
    Some(again)
}

/// Passes a request on, and returns the answer.
///
/// # Errors
/// 502 if the connection is lost. The other server may have done what it was asked then.
pub(in crate::server) async fn forward(stream: TcpStream, mut request: Request) -> Result<Response, Failure> {
    let lost = |error: hyper::Error| {
        Failure::Refused(
            StatusCode::BAD_GATEWAY,
            format!("the server of this conversation did not answer: {error}"),
        )
    };
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(lost)?;
    tokio::spawn(connection.with_upgrades());
    let client = upgrade::on(&mut request);
    // As the client sent it, without a host. What a route has taken off it is put back.
    let whole = original(&request);
    let path = whole.path_and_query().map_or("/", |path| path.as_str());
    *request.uri_mut() = path.parse::<Uri>().map_err(|_| Failure::bad("the path cannot be passed on"))?;
    request.headers_mut().insert(FORWARDED, HeaderValue::from_static("1"));
    let mut response = sender.send_request(request).await.map_err(lost)?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let there = upgrade::on(&mut response);
        tokio::spawn(async move {
            if let (Ok(here), Ok(there)) = (client.await, there.await) {
                // It ends when one of them closes.
                let _closed = copy_bidirectional(&mut TokioIo::new(here), &mut TokioIo::new(there)).await;
            }
        });
    } else {
        // It says how the bytes between two servers are divided. Those to the client are divided anew.
        response.headers_mut().remove(header::TRANSFER_ENCODING);
        response.headers_mut().remove(header::CONNECTION);
    }
    Ok(response.map(Body::new))
}
