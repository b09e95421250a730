//! Response bodies that are sent while they are produced. Only a small part is in memory. A client that does not read
//! is disconnected.

use std::io;
use std::time::Duration;

use axum::body::Body;
use tokio::io::{AsyncWriteExt as _, DuplexStream};
use tokio_util::io::ReaderStream;

/// The number of bytes that are buffered for the client.
const BUFFER_BYTES: usize = 64 << 10;

/// How long the client may read nothing.
const PATIENCE: Duration = Duration::from_secs(30);

/// The writer of a response body.
pub(in crate::server) struct Stream(DuplexStream);

impl Stream {
    /// Makes a body and its writer. The body ends when the writer is dropped.
    pub fn new() -> (Body, Self) {
        let (reader, writer) = tokio::io::duplex(BUFFER_BYTES);
        (Body::from_stream(ReaderStream::with_capacity(reader, BUFFER_BYTES)), Self(writer))
    }

    /// Writes a piece of the body. Waits while the buffer is full.
    ///
    /// # Errors
    /// If the client closed the connection, or read nothing for 30 s.
    pub async fn write(&mut self, text: &[u8]) -> io::Result<()> {
        for piece in text.chunks(BUFFER_BYTES) {
            tokio::time::timeout(PATIENCE, self.0.write_all(piece)).await??;
        }
        Ok(())
    }
}
