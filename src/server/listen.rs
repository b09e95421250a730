//! Listening: connections that are bounded in number, in the length of their headers, and in how long they may take.
//!
//! A connection that says nothing, or a letter a second, is closed; so that whoever opens many of them does not keep
//! others out for long.

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
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;

use super::budget::Pressure;
use super::gate::Gate;
use super::stall::Stall;

/// The most connections at once; further ones wait to be taken.
const CONNECTIONS_MAX: usize = 20_000;

/// How long the head of a request may take, also the next one on a connection that is kept.
const HEAD_PATIENCE: Duration = Duration::from_secs(30);

/// How long a body may pause.
const BODY_PATIENCE: Duration = Duration::from_secs(30);

/// How much of a body that nobody wanted is taken, so that its connection can be kept: 64 KiB, where they come at once.
const UNREAD_BYTES_MAX: usize = 64 << 10;
const UNREAD_PATIENCE: Duration = Duration::from_millis(200);

/// How much of a head is looked at before it is given up, in bytes. What comes with one read may be as much again.
const HEAD_BYTES_MAX: usize = 32 << 10;

/// The most headers of a request.
const HEADERS_MAX: usize = 100;

/// How long requests under way may take to end once the server is to end.
const FAREWELL: Duration = Duration::from_millis(2500);

/// How long is waited after a connection could not be taken: there are too many files open.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves `router` on `listener` until `ending` is told; requests under way are answered then, for a while.
pub(super) async fn run(
    listener: TcpListener,
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
                let stream = Stall::new(stream, Gate::default(), pressure.clone());
                connections.spawn(connection(stream, permit, router.clone(), ending.clone()));
            }
            // Of one connection, or of all of them for a moment.
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
        // Those that are over leave nothing behind.
        while connections.try_join_next().is_some() {}
    }
    drop(listener);
    let all = async { while connections.join_next().await.is_some() {} };
    let _late = tokio::time::timeout(FAREWELL, all).await;
}

async fn take(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> io::Result<(TcpStream, OwnedSemaphorePermit)> {
    let permit = Arc::clone(room).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    // Answers are whole when they are written: none of them waits for more.
    stream.set_nodelay(true)?;
    Ok((stream, permit))
}

/// One connection, to its end; sockets that come of it are counted by themselves.
async fn connection(
    stream: Stall<TcpStream>,
    permit: OwnedSemaphorePermit,
    router: Router,
    ending: CancellationToken,
) {
    let known = stream.gate().clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let unread = Unread::default();
        let mut request = request.map(|body| Patient::body(body, unread.clone()));
        request.extensions_mut().insert(known.clone());
        let answered = TowerToHyperService::new(router.clone()).call(request);
        async move {
            let mut response = answered.await?;
            // What is left of a refused request stands before the next one: a client has to know that there is none.
            if !unread.is_taken().await {
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
    // A connection that breaks has nobody to tell.
    tokio::select! {
        _broken = served.as_mut() => {}
        () = ending.cancelled() => {
            served.as_mut().graceful_shutdown();
            let _broken = served.await;
        }
    }
    drop(permit);
}

/// What is left of a body that nobody wanted to the end.
#[derive(Clone, Default)]
struct Unread(Arc<Mutex<Option<Incoming>>>);

impl Unread {
    fn rest(&self) -> MutexGuard<'_, Option<Incoming>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what is left, where it is little and comes at once; whether nothing is left then.
    async fn is_taken(&self) -> bool {
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

/// A body that may not pause for long.
struct Patient {
    inner: Option<Incoming>,
    deadline: Pin<Box<Sleep>>,
    unread: Unread,
}

impl Patient {
    fn body(inner: Incoming, unread: Unread) -> Body {
        if inner.is_end_stream() {
            return Body::empty();
        }
        Body::new(Self { inner: Some(inner), deadline: Box::pin(tokio::time::sleep(BODY_PATIENCE)), unread })
    }
}

impl Drop for Patient {
    fn drop(&mut self) {
        *self.unread.rest() = self.inner.take().filter(|inner| !inner.is_end_stream());
    }
}

impl HttpBody for Patient {
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
