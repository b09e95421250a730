//! Answers that are sent while they are made: little of them is ever in memory, and who does not take them is left.

use std::io;
use std::time::Duration;

use axum::body::Body;
use tokio::io::{AsyncWriteExt as _, DuplexStream};
use tokio_util::io::ReaderStream;

/// How many bytes wait for the other side.
const BUFFER_BYTES: usize = 64 << 10;

/// How long the other side may take nothing at all.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where an answer is written to.
pub(in crate::server) struct Stream(DuplexStream);

impl Stream {
    /// A body, and where what it holds is written to. It ends when this is dropped.
    pub fn new() -> (Body, Self) {
        let (taken, written) = tokio::io::duplex(BUFFER_BYTES);
        (Body::from_stream(ReaderStream::with_capacity(taken, BUFFER_BYTES)), Self(written))
    }

    /// Writes a piece of the answer; waits while the other side is behind.
    ///
    /// # Errors
    /// The other side hung up, or took nothing for 30 s.
    pub async fn write(&mut self, text: &[u8]) -> io::Result<()> {
        for piece in text.chunks(BUFFER_BYTES) {
            tokio::time::timeout(PATIENCE, self.0.write_all(piece)).await??;
        }
        Ok(())
    }
}
