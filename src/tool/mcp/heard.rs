//! What a server's program writes, as far as it is listened to: no line without end, and no endless noise.
//!
//! What is no message is passed over, as many servers print a greeting; a server that prints without end would keep this
//! program busy for as long as it is there, so it is no longer listened to, and says why.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

/// The longest line, in bytes: the most that one message may be.
pub(super) const LINE_BYTES_MAX: usize = 16 << 20;

/// How much of one connection may be no message, in bytes.
pub(super) const NOISE_BYTES_MAX: usize = 8 << 20;

/// Why a server is no longer listened to. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Fault(Arc<OnceLock<&'static str>>);

impl Fault {
    /// The reason, or else this one.
    pub fn or(&self, other: String) -> String {
        self.0.get().map_or(other, |&fault| fault.to_owned())
    }
}

/// A reader that fails where what is read has no bound.
pub(super) struct Heard<R> {
    inner: R,
    fault: Fault,
    /// The bytes of the line that is under way.
    line: usize,
    /// Whether that line may be a message.
    is_message: bool,
    noise: usize,
}

impl<R> Heard<R> {
    pub fn new(inner: R, fault: Fault) -> Self {
        Self { inner, fault, line: 0, is_message: false, noise: 0 }
    }

    /// Takes note of what was read.
    fn hear(&mut self, bytes: &[u8]) -> Result<(), &'static str> {
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

impl<R: AsyncRead + Unpin> AsyncRead for Heard<R> {
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
        match self.hear(&buffer.filled()[before..]) {
            Ok(()) => Poll::Ready(Ok(())),
            Err(fault) => {
                // The first reason is the one that counts; what was read last is not.
                let _known = self.fault.0.set(fault);
                buffer.set_filled(before);
                Poll::Ready(Err(io::Error::other(fault)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(pieces: &[&[u8]]) -> Result<(), &'static str> {
        let mut heard = Heard::new(tokio::io::empty(), Fault::default());
        pieces.iter().try_for_each(|piece| heard.hear(piece))
    }

    #[test]
    fn messages_may_be_many_and_noise_may_not() {
        let message = [b"{".as_slice(), &vec![b'a'; 1 << 20], b"\n"].concat();
        assert_eq!(heard(&[message.as_slice(); 100]), Ok(()));
        let noise = [vec![b'y'; 1 << 20], b"\n".to_vec()].concat();
        assert_eq!(heard(&[noise.as_slice(); 7]), Ok(()));
        assert!(heard(&[noise.as_slice(); 9]).unwrap_err().contains("no message"));
    }

    #[test]
    fn a_line_ends_some_time_however_it_is_cut() {
        let piece = [b'{'; 1 << 16];
        let half = vec![piece.as_slice(); (LINE_BYTES_MAX >> 16) / 2];
        let mut lines = half.clone();
        lines.push(b"\n");
        lines.extend(half);
        assert_eq!(heard(&lines), Ok(()));
        lines.extend(vec![piece.as_slice(); LINE_BYTES_MAX >> 16]);
        assert!(heard(&lines).unwrap_err().contains("a line"));
    }
}
