//! What is still read of the output of a program that has exited.
//!
//! Everything that the program itself wrote can be read at once then. Another process may keep the output open, or
//! write to it without an end. So what is read after the exit is bounded in time and in bytes.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::process::ChildStdout;
use tokio_util::sync::CancellationToken;

/// How long the output is still read after the program's exit.
const OUTPUT_TIMEOUT: Duration = Duration::from_millis(500);

/// How many bytes of the standard output are still read after the program's exit. On Linux, a pipe holds 64 KiB, and at
/// most this much unless the administrator allows more.
const OUTPUT_BYTES_MAX: usize = 1 << 20;

/// Waits until the program has exited, and until the time for its output is over.
pub(super) async fn timeout(exited: &CancellationToken) {
    exited.cancelled().await;
    tokio::time::sleep(OUTPUT_TIMEOUT).await;
}

/// A program's standard output. It ends when the bytes that are left after the program's exit have been read.
pub(super) struct Output {
    stdout: ChildStdout,
    exited: CancellationToken,
    bytes_left: usize,
}

impl Output {
    pub fn new(stdout: ChildStdout, exited: CancellationToken) -> Self {
        Self { stdout, exited, bytes_left: OUTPUT_BYTES_MAX }
    }
}

impl AsyncRead for Output {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        if !self.exited.is_cancelled() {
            return Pin::new(&mut self.stdout).poll_read(context, buffer);
        }
        if self.bytes_left == 0 {
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stdout).poll_read(context, buffer);
        let count = buffer.filled().len() - before;
        self.bytes_left = self.bytes_left.saturating_sub(count);
        read
    }
}
