//! Connections whose other side takes nothing: they are closed, whatever was being sent.
//!
//! What is sent waits in bounded buffers, but a client that stops reading keeps its connection, and everything behind
//! it, for as long as it lives. A slow line is not a dead one: it may take some KiB a second for as long as it wants. Less
//! than that is as good as nothing, and keeps what others could have. Where others wait for the memory that is bound by what
//! is being sent, whoever takes nothing is left sooner.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use super::budget::Pressure;
use super::gate::Gate;

/// How long what is sent may wait until the other side has taken [`TAKEN_BYTES_MIN`] of it.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long it may wait where others wait for memory.
const PATIENCE_UNDER_PRESSURE: Duration = Duration::from_secs(5);

/// How much that is: 128 KiB, four a second.
const TAKEN_BYTES_MIN: usize = 128 << 10;

/// A connection that fails where too little could be written in [`PATIENCE`], or where more comes than its gate lets in.
pub(super) struct Stall<S> {
    stream: S,
    gate: Gate,
    pressure: Pressure,
    /// Until when what is being written may wait, and since when it does.
    waiting: Option<(Pin<Box<Sleep>>, Instant)>,
    /// How long may still be waited, and what was taken since that was [`PATIENCE`].
    left: Duration,
    taken: usize,
}

impl<S> Stall<S> {
    /// Nothing is being written yet.
    pub fn new(stream: S, gate: Gate, pressure: Pressure) -> Self {
        Self { stream, gate, pressure, waiting: None, left: PATIENCE, taken: 0 }
    }

    /// What bounds what comes in.
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Passes on what came of writing; what waits too long fails. Only the time counts in which something waits.
    fn judge<T>(
        &mut self,
        context: &mut Context<'_>,
        came: Poll<io::Result<T>>,
        taken: impl Fn(&T) -> usize,
    ) -> Poll<io::Result<T>> {
        if let Poll::Ready(written) = &came {
            if let Some((_, since)) = self.waiting.take() {
                self.left = self.left.saturating_sub(since.elapsed());
            }
            self.taken += written.as_ref().map_or(0, taken);
            if self.taken >= TAKEN_BYTES_MIN {
                (self.left, self.taken) = (PATIENCE, 0);
            }
            return came;
        }
        let left = self.left;
        let begin = || (Box::pin(sleep(left.min(PATIENCE_UNDER_PRESSURE))), Instant::now());
        let (waiting, since) = self.waiting.get_or_insert_with(begin);
        loop {
            ready!(waiting.as_mut().poll(context));
            if self.pressure.is_felt() || since.elapsed() >= left {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            let now = Instant::now();
            waiting.as_mut().reset((now + PATIENCE_UNDER_PRESSURE).min(*since + left));
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
        self.judge(context, came, |n_bytes| *n_bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let came = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.judge(context, came, |n_bytes| *n_bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let came = Pin::new(&mut self.stream).poll_flush(context);
        self.judge(context, came, |()| 0)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let came = Pin::new(&mut self.stream).poll_shutdown(context);
        self.judge(context, came, |()| 0)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
    use tokio::time::Instant;

    use super::*;

    /// Writes to somebody who takes `step` bytes every 20 s, `times` times, and then nothing; how long it went on.
    async fn lasts(step: usize, times: u32) -> Duration {
        let (stream, mut other) = duplex(10);
        let mut stalling = Stall::new(stream, Gate::default(), Pressure::default());
        let begun = Instant::now();
        let slow = tokio::spawn(async move {
            let mut taken = vec![0; step];
            for _ in 0..times {
                sleep(PATIENCE * 2 / 3).await;
                other.read_exact(&mut taken).await.unwrap();
            }
            // From here on nothing is taken, and nobody hangs up.
            sleep(PATIENCE * 100).await;
            drop(other);
        });
        let failed = stalling.write_all(&vec![7; step * times as usize + 100]).await.unwrap_err();
        assert_eq!(failed.kind(), io::ErrorKind::TimedOut);
        slow.abort();
        begun.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn who_takes_nothing_is_left_and_who_takes_enough_is_not() {
        let took = lasts(TAKEN_BYTES_MIN, 10).await;
        assert!(took >= PATIENCE * 20 / 3 && took < PATIENCE * 8, "{took:?}");
        let took = lasts(1, 10).await;
        assert_eq!(took, PATIENCE, "a byte now and then is as good as nothing");
    }

    #[tokio::test(start_paused = true)]
    async fn where_others_wait_for_memory_who_takes_nothing_is_left_sooner() {
        let (stream, _other) = duplex(10);
        let pressure = Pressure::default();
        let mut stalling = Stall::new(stream, Gate::default(), pressure.clone());
        let begun = Instant::now();
        let (written, _waiting) = tokio::join!(stalling.write_all(&[7; 100]), async {
            sleep(PATIENCE / 2 + Duration::from_secs(1)).await;
            pressure.add()
        });
        assert_eq!(written.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn time_in_which_nothing_waits_does_not_count() {
        let (stream, mut other) = duplex(10);
        let mut stream = Stall::new(stream, Gate::default(), Pressure::default());
        for _ in 0..10 {
            stream.write_all(b"hello").await.unwrap();
            other.read_exact(&mut [0; 5]).await.unwrap();
            sleep(PATIENCE * 2).await;
        }
    }
}
