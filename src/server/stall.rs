//! Connections whose other side takes nothing: they are closed, whatever was being sent.
//!
//! What is sent waits in bounded buffers, but a client that stops reading keeps its connection, and everything behind
//! it, for as long as it lives. Any progress at all is enough to go on: a slow line is not a dead one.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::gate::Gate;

/// How long the other side may take nothing.
const PATIENCE: Duration = Duration::from_secs(30);

/// A connection that fails where nothing could be written for [`PATIENCE`], or where more comes than its gate lets in.
pub(super) struct Stall<S> {
    stream: S,
    gate: Gate,
    /// Until when what is being written may wait.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S> Stall<S> {
    /// Nothing is being written yet.
    pub fn new(stream: S, gate: Gate) -> Self {
        Self { stream, gate, waiting: None }
    }

    /// Passes on what came of writing; what waits too long fails.
    fn judge<T>(&mut self, context: &mut Context<'_>, came: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if came.is_ready() {
            self.waiting = None;
            return came;
        }
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(PATIENCE)));
        ready!(waiting.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Stall<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let n_bytes = (buffer.filled().len() - before) as u64;
        let refused = || io::Error::new(io::ErrorKind::ConnectionAborted, "more was said than may be");
        Poll::Ready(if self.gate.lets_in(n_bytes) { Ok(()) } else { Err(refused()) })
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Stall<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let came = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(context, came)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let came = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.judge(context, came)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let came = Pin::new(&mut self.stream).poll_flush(context);
        self.judge(context, came)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let came = Pin::new(&mut self.stream).poll_shutdown(context);
        self.judge(context, came)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_takes_nothing_is_left_and_who_takes_little_is_not() {
        let (stream, mut other) = duplex(10);
        let mut stalling = Stall::new(stream, Gate::default());
        let begun = Instant::now();
        let slow = tokio::spawn(async move {
            let mut byte = [0];
            for _ in 0..10 {
                sleep(PATIENCE * 2 / 3).await;
                other.read_exact(&mut byte).await.unwrap();
            }
            // From here on nothing is taken, and nobody hangs up.
            sleep(PATIENCE * 100).await;
            drop(other);
        });
        let failed = stalling.write_all(&[7; 100]).await.unwrap_err();
        assert_eq!(failed.kind(), io::ErrorKind::TimedOut);
        let took = begun.elapsed();
        assert!(took >= PATIENCE * 20 / 3 && took < PATIENCE * 8, "{took:?}");
        slow.abort();
    }
}
