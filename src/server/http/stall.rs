//! Closes connections whose client does not read, whatever is being sent.
//!
//! Sent data waits in bounded buffers. But a client that stops reading would hold its connection, and everything behind
//! it, for as long as it lives. A slow client is allowed: it may read a few KiB a second for as long as it wants. A
//! client that reads less is treated as one that does not read, because it holds memory that other clients could use.
//! If other clients wait for memory, a client that does not read is disconnected sooner.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use super::budget::Pressure;
use super::gate::Gate;

/// How long sent data may wait, in total, until the client has taken [`TAKEN_BYTES_MIN`] of it.
const TIMEOUT: Duration = Duration::from_secs(30);

/// How long it may wait at a time if other clients wait for memory.
const TIMEOUT_UNDER_PRESSURE: Duration = Duration::from_secs(5);

/// The number of bytes that a client must take within [`TIMEOUT`]: 128 KiB, about 4 KiB a second.
const TAKEN_BYTES_MIN: usize = 128 << 10;

/// A connection that fails if too little could be written in [`TIMEOUT`], or if it receives more than its gate allows.
pub(super) struct Stall<S> {
    stream: S,
    gate: Gate,
    pressure: Pressure,
    /// The timer of the current wait and its beginning, if a write waits.
    waiting: Option<(Pin<Box<Sleep>>, Instant)>,
    /// How long writes may still wait. Starts at [`TIMEOUT`].
    left: Duration,
    /// The number of bytes that the client has taken since `left` was [`TIMEOUT`].
    taken: usize,
}

impl<S> Stall<S> {
    /// Makes a connection on which no write waits yet.
    pub fn new(stream: S, gate: Gate, pressure: Pressure) -> Self {
        Self { stream, gate, pressure, waiting: None, left: TIMEOUT, taken: 0 }
    }

    /// Returns the result of a write, or an error if it has waited too long. Only time in which a write waits counts.
    fn check<T>(
        &mut self,
        context: &mut Context<'_>,
        result: Poll<io::Result<T>>,
        taken: impl Fn(&T) -> usize,
    ) -> Poll<io::Result<T>> {
        if let Poll::Ready(written) = &result {
            if let Some((_, since)) = self.waiting.take() {
                self.left = self.left.saturating_sub(since.elapsed());
            }
            self.taken += written.as_ref().map_or(0, taken);
            if self.taken >= TAKEN_BYTES_MIN {
                (self.left, self.taken) = (TIMEOUT, 0);
            }
            return result;
        }
        let left = self.left;
        let start = || (Box::pin(sleep(left.min(TIMEOUT_UNDER_PRESSURE))), Instant::now());
        let (waiting, since) = self.waiting.get_or_insert_with(start);
        loop {
            ready!(waiting.as_mut().poll(context));
            if self.pressure.is_felt() || since.elapsed() >= left {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            let now = Instant::now();
            waiting.as_mut().reset((now + TIMEOUT_UNDER_PRESSURE).min(*since + left));
        }
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
        let refused =
            || io::Error::new(io::ErrorKind::ConnectionAborted, "more bytes were received than allowed");
        Poll::Ready(if self.gate.lets_in(n_bytes) { Ok(()) } else { Err(refused()) })
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Stall<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.check(context, result, |n_bytes| *n_bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.check(context, result, |n_bytes| *n_bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_flush(context);
        self.check(context, result, |()| 0)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_shutdown(context);
        self.check(context, result, |()| 0)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
    use tokio::time::Instant;

    use super::*;

    /// Writes to a client that takes `step` bytes every 20 s, `times` times, and then nothing. Returns how long the
    /// connection lasted.
    async fn lasts(step: usize, times: u32) -> Duration {
        let (stream, mut other) = duplex(10);
        let mut stalling = Stall::new(stream, Gate::default(), Pressure::default());
        let begun = Instant::now();
        let slow = tokio::spawn(async move {
            let mut taken = vec![0; step];
            for _ in 0..times {
                sleep(TIMEOUT * 2 / 3).await;
                other.read_exact(&mut taken).await.unwrap();
            }
            // From here on the client takes nothing, and does not close the connection.
            sleep(TIMEOUT * 100).await;
            drop(other);
        });
        let failed = stalling.write_all(&vec![7; step * times as usize + 100]).await.unwrap_err();
        assert_eq!(failed.kind(), io::ErrorKind::TimedOut);
        slow.abort();
        begun.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_client_that_takes_too_little_is_disconnected() {
        let took = lasts(TAKEN_BYTES_MIN, 10).await;
        assert!(took >= TIMEOUT * 20 / 3 && took < TIMEOUT * 8, "{took:?}");
        let took = lasts(1, 10).await;
        assert_eq!(took, TIMEOUT, "single bytes do not extend the time");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_is_disconnected_sooner_under_pressure() {
        let (stream, _other) = duplex(10);
        let pressure = Pressure::default();
        let mut stalling = Stall::new(stream, Gate::default(), pressure.clone());
        let begun = Instant::now();
        let (written, _waiting) = tokio::join!(stalling.write_all(&[7; 100]), async {
            sleep(TIMEOUT / 2 + Duration::from_secs(1)).await;
            pressure.add()
        });
        assert_eq!(written.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(begun.elapsed() < TIMEOUT, "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn time_in_which_nothing_waits_does_not_count() {
        let (stream, mut other) = duplex(10);
        let mut stream = Stall::new(stream, Gate::default(), Pressure::default());
        for _ in 0..10 {
            stream.write_all(b"hello").await.unwrap();
            other.read_exact(&mut [0; 5]).await.unwrap();
            sleep(TIMEOUT * 2).await;
        }
    }
}
