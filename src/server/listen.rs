//! Listening: connections that are bounded in number, in the length of their headers, and in how long they may take.
//!
//! A connection that says nothing, or a letter a second, is closed; so that whoever opens many of them does not keep
//! others out for long.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::Request;
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
        let mut request = request.map(Patient::body);
        request.extensions_mut().insert(known.clone());
        TowerToHyperService::new(router.clone()).call(request)
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

/// A body that may not pause for long.
struct Patient {
    inner: Incoming,
    deadline: Pin<Box<Sleep>>,
}

impl Patient {
    fn body(inner: Incoming) -> Body {
        if inner.is_end_stream() {
            return Body::empty();
        }
        Body::new(Self { inner, deadline: Box::pin(tokio::time::sleep(BODY_PATIENCE)) })
    }
}

impl HttpBody for Patient {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(context) {
            self.deadline.as_mut().reset(Instant::now() + BODY_PATIENCE);
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        ready!(self.deadline.as_mut().poll(context));
        let late = io::Error::new(io::ErrorKind::TimedOut, "the body of the request took too long");
        Poll::Ready(Some(Err(late.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
