//! Accepts and serves connections. Their number, the length of their headers and their duration are limited.
//!
//! A connection on which nothing arrives, or only a character per second, is closed. A client that opens many such
//! connections therefore cannot keep other clients out for long.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderValue, Request, header};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;

use super::budget::Pressure;
use super::gate::Gate;
use super::listener::{Listener, Stream};
use super::stall::Stall;

/// The maximum number of concurrent connections. Further connections wait to be accepted.
const CONNECTIONS_MAX: usize = 20_000;

/// How long the head of a request may take. This includes the wait for the next request on a kept connection.
const HEAD_PATIENCE: Duration = Duration::from_secs(30);

/// The maximum pause within a body.
const BODY_PATIENCE: Duration = Duration::from_secs(30);

/// The maximum size of the unread rest of a body that is read so that the connection can be kept (64 KiB), and how long
/// this may take.
const UNREAD_BYTES_MAX: usize = 64 << 10;
const UNREAD_PATIENCE: Duration = Duration::from_millis(200);

/// The size in bytes above which a head is rejected. A single read may exceed it by as much again.
const HEAD_BYTES_MAX: usize = 32 << 10;

/// The maximum number of headers of a request.
const HEADERS_MAX: usize = 100;

/// How long running requests may take to end after the shutdown has begun.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(2500);

/// How long to wait after a connection could not be accepted, usually because too many files are open.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves `router` on `listener` until `ending` is cancelled. Running requests then have some time to end.
pub(in crate::server) async fn run(
    listener: Listener,
    router: Router,
    pressure: Pressure,
    ending: CancellationToken,
) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        let taken = tokio::select! {
            () = ending.cancelled() => break,
            taken = take(&listener, &room) => taken,
        };
        match taken {
            Ok((stream, permit)) => {
                let gate = Gate::default();
                let stream = Stall::new(stream, gate.clone(), pressure.clone());
                let (router, ending) = (router.clone(), ending.clone());
                match listener.certificates.clone() {
                    None => connections.spawn(connection(stream, gate, permit, router, ending)),
                    Some(certificates) => connections.spawn(async move {
                        // A client that speaks no TLS, or too slowly, is disconnected.
                        if let Ok(stream) = certificates.accept(stream).await {
                            connection(stream, gate, permit, router, ending).await;
                        }
                    }),
                };
            }
            // The error is one connection's, or a temporary one of all connections.
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
        // Removes the connections that have ended.
        while connections.try_join_next().is_some() {}
    }
    drop(listener);
    let all = async { while connections.join_next().await.is_some() {} };
    let _late = tokio::time::timeout(SHUTDOWN_TIMEOUT, all).await;
}

async fn take(listener: &Listener, room: &Arc<Semaphore>) -> io::Result<(Stream, OwnedSemaphorePermit)> {
    let permit = Arc::clone(room).acquire_owned().await.map_err(io::Error::other)?;
    Ok((listener.accept().await?, permit))
}

/// Serves one connection to its end. WebSockets that start on it are counted separately.
async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    known: Gate,
    permit: OwnedSemaphorePermit,
    router: Router,
    ending: CancellationToken,
) {
    let service = service_fn(move |request: Request<Incoming>| {
        let unread = Unread::default();
        let mut request = request.map(|body| TimedBody::body(body, unread.clone()));
        request.extensions_mut().insert(known.clone());
        let answered = TowerToHyperService::new(router.clone()).call(request);
        async move {
            let mut response = answered.await?;
            // The unread rest of a body would precede the next request. The client has to know that the connection
            // ends.
            if !unread.drain().await {
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, Infallible>(response)
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_PATIENCE)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    tokio::pin!(served);
    // If the connection breaks, there is no client to notify.
    tokio::select! {
        _broken = served.as_mut() => {}
        () = ending.cancelled() => {
            served.as_mut().graceful_shutdown();
            let _broken = served.await;
        }
    }
    drop(permit);
}

/// The rest of a body that was not read to its end.
#[derive(Clone, Default)]
struct Unread(Arc<Mutex<Option<Incoming>>>);

impl Unread {
    fn rest(&self) -> MutexGuard<'_, Option<Incoming>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the rest if it is short and arrives quickly. Returns whether nothing is left.
    async fn drain(&self) -> bool {
        let Some(mut rest) = self.rest().take() else { return true };
        let mut n_bytes = 0;
        let taken = async {
            while n_bytes <= UNREAD_BYTES_MAX {
                match poll_fn(|context| Pin::new(&mut rest).poll_frame(context)).await {
                    Some(Ok(frame)) => n_bytes += frame.data_ref().map_or(0, Bytes::len),
                    Some(Err(_)) => return false,
                    None => return true,
                }
            }
            false
        };
        tokio::time::timeout(UNREAD_PATIENCE, taken).await.unwrap_or(false)
    }
}

/// A body that fails if it pauses for too long.
struct TimedBody {
    inner: Option<Incoming>,
    deadline: Pin<Box<Sleep>>,
    unread: Unread,
}

impl TimedBody {
    fn body(inner: Incoming, unread: Unread) -> Body {
        if inner.is_end_stream() {
            return Body::empty();
        }
        Body::new(Self { inner: Some(inner), deadline: Box::pin(tokio::time::sleep(BODY_PATIENCE)), unread })
    }
}

impl Drop for TimedBody {
    fn drop(&mut self) {
        *self.unread.rest() = self.inner.take().filter(|inner| !inner.is_end_stream());
    }
}

impl HttpBody for TimedBody {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
        let Some(inner) = &mut self.inner else { return Poll::Ready(None) };
        if let Poll::Ready(frame) = Pin::new(inner).poll_frame(context) {
            if frame.is_none() {
                self.inner = None;
            }
            self.deadline.as_mut().reset(Instant::now() + BODY_PATIENCE);
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        ready!(self.deadline.as_mut().poll(context));
        let late = io::Error::new(io::ErrorKind::TimedOut, "the body of the request took too long");
        Poll::Ready(Some(Err(late.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.as_ref().map_or_else(|| SizeHint::with_exact(0), HttpBody::size_hint)
    }
}
