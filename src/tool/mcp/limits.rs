//! Limits what is read from a server's program: no endless line and no endless text that is no message.
//!
//! Text that is no message is skipped, because many servers print a greeting. A server that prints without end would
//! keep this program busy. Reading from it then stops, and the reason is kept.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

/// The longest line, in bytes. It is the limit of one message.
pub(super) const LINE_BYTES_MAX: usize = 16 << 20;

/// The limit of all text in one connection that is no message, in bytes.
pub(super) const NOISE_BYTES_MAX: usize = 8 << 20;

/// Why this program stopped reading from a server. Clones share the reason.
#[derive(Debug, Clone, Default)]
pub(super) struct Fault(Arc<OnceLock<&'static str>>);

impl Fault {
    /// Returns the reason, or `other` if there is none.
    pub fn or(&self, other: String) -> String {
        self.0.get().map_or(other, |&fault| fault.to_owned())
    }
}

/// A reader that fails if the input exceeds a limit.
pub(super) struct BoundedReader<R> {
    inner: R,
    fault: Fault,
    /// The number of bytes of the current line that were read.
    line: usize,
    /// Whether the current line may be a message.
    is_message: bool,
    noise: usize,
}

impl<R> BoundedReader<R> {
    pub fn new(inner: R, fault: Fault) -> Self {
        Self { inner, fault, line: 0, is_message: false, noise: 0 }
    }

    /// Counts the bytes that were read. Fails if a limit is exceeded.
    fn count(&mut self, bytes: &[u8]) -> Result<(), &'static str> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.line == 0 {
                self.is_message = piece.first() == Some(&b'{');
            }
            self.line += piece.len();
            if !self.is_message {
                self.noise += piece.len();
            }
            if self.line > LINE_BYTES_MAX {
                return Err("it wrote a line of more than 16 MiB, and was ended");
            }
            if self.noise > NOISE_BYTES_MAX {
                return Err("it wrote more than 8 MiB that are no message, and was ended");
            }
            if piece.ends_with(b"\n") {
                self.line = 0;
            }
        }
        Ok(())
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for BoundedReader<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.fault.0.get().is_some() {
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
        match self.count(&buffer.filled()[before..]) {
            Ok(()) => Poll::Ready(Ok(())),
            Err(fault) => {
                // Only the first reason is kept. The bytes that were read last are dropped.
                let _already_set = self.fault.0.set(fault);
                buffer.set_filled(before);
                Poll::Ready(Err(io::Error::other(fault)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pieces: &[&[u8]]) -> Result<(), &'static str> {
        let mut reader = BoundedReader::new(tokio::io::empty(), Fault::default());
        pieces.iter().try_for_each(|piece| reader.count(piece))
    }

    #[test]
    fn messages_are_unlimited_and_other_text_is_limited() {
        let message = [b"{".as_slice(), &vec![b'a'; 1 << 20], b"\n"].concat();
        assert_eq!(read(&[message.as_slice(); 100]), Ok(()));
        let noise = [vec![b'y'; 1 << 20], b"\n".to_vec()].concat();
        assert_eq!(read(&[noise.as_slice(); 7]), Ok(()));
        assert!(read(&[noise.as_slice(); 9]).unwrap_err().contains("no message"));
    }

    #[test]
    fn the_length_of_a_line_is_limited_across_reads() {
        let piece = [b'{'; 1 << 16];
        let half = vec![piece.as_slice(); (LINE_BYTES_MAX >> 16) / 2];
        let mut lines = half.clone();
        lines.push(b"\n");
        lines.extend(half);
        assert_eq!(read(&lines), Ok(()));
        lines.extend(vec![piece.as_slice(); LINE_BYTES_MAX >> 16]);
        assert!(read(&lines).unwrap_err().contains("a line"));
    }
}
