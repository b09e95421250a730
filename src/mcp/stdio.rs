//! The protocol through standard input and output: one JSON message a line.
//!
//! A thread reads the lines. A line that is too long or no JSON is answered with an error of JSON-RPC, and the next one
//! is read. Nothing else is written to standard output. The end of the input ends the server, when what was asked is
//! answered.

use std::io::{self, BufRead, Write as _};

use rmcp::model::{ClientJsonRpcMessage, ErrorData, RequestId, ServerJsonRpcMessage};
use rmcp::service::{RoleServer, RxJsonRpcMessage, TxJsonRpcMessage, serve_directly_with_ct};
use rmcp::transport::Transport;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::recall::Recall;

/// The longest message, in bytes: 4 MiB.
const LINE_BYTES_MAX: usize = 4 << 20;

/// The number of messages that are read ahead.
const AHEAD: usize = 16;

/// Serves until the input ends, `ending` is cancelled, or the output is closed.
///
/// # Errors
/// The system has no thread for the input.
pub(crate) async fn serve_stdio(recall: Recall, ending: CancellationToken) -> io::Result<()> {
    let (sender, messages) = mpsc::channel(AHEAD);
    let reader = std::thread::Builder::new().name("annals-mcp-input".into());
    // The thread ends with the process: nothing can end a wait for standard input.
    reader.spawn(move || read_all(&mut io::stdin().lock(), &sender))?;
    let transport = Stdio { messages, ending: ending.clone() };
    // Without a handshake first: a request before `initialize` is answered, too.
    let running = serve_directly_with_ct(recall, transport, None, ending);
    // It ends without an error, or the runtime is closing.
    let _ended = running.waiting().await;
    Ok(())
}

struct Stdio {
    messages: mpsc::Receiver<ClientJsonRpcMessage>,
    /// Cancelled when the output is closed.
    ending: CancellationToken,
}

impl Transport<RoleServer> for Stdio {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let ending = self.ending.clone();
        async move {
            let written = tokio::task::spawn_blocking(move || write(&item)).await;
            let written = written.unwrap_or_else(|error| Err(io::Error::other(error)));
            if written.is_err() {
                ending.cancel();
            }
            written
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        self.messages.recv().await
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.messages.close();
        Ok(())
    }
}

/// Writes a message as one line.
fn write(message: &ServerJsonRpcMessage) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    let mut out = io::stdout().lock();
    out.write_all(&line)?;
    out.flush()
}

/// Reads messages until the input ends, or its receiver is gone.
fn read_all(input: &mut impl BufRead, messages: &mpsc::Sender<ClientJsonRpcMessage>) {
    let mut line = Vec::new();
    while let Ok(read) = read_line(input, &mut line) {
        let refusal = match read {
            Line::End => return,
            Line::TooLong => {
                let text = format!("a message has at most {LINE_BYTES_MAX} bytes");
                Some(ServerJsonRpcMessage::error(ErrorData::invalid_request(text, None), None))
            }
            Line::Whole => match message(&line) {
                Ok(Some(message)) => match messages.blocking_send(message) {
                    Ok(()) => None,
                    Err(_) => return,
                },
                Ok(None) => None,
                Err(refusal) => Some(*refusal),
            },
        };
        if refusal.is_some_and(|refusal| write(&refusal).is_err()) {
            return;
        }
    }
}

enum Line {
    Whole,
    TooLong,
    End,
}

/// Reads a line without its end. A longer one than [`LINE_BYTES_MAX`] is read past and not kept.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<Line> {
    line.clear();
    let mut is_too_long = false;
    loop {
        let available = match input.fill_buf() {
            Ok(available) => available,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if available.is_empty() {
            // What stands behind the last line end is no message.
            return Ok(Line::End);
        }
        let end = memchr::memchr(b'\n', available);
        let part = &available[..end.unwrap_or(available.len())];
        is_too_long |= line.len() + part.len() > LINE_BYTES_MAX;
        if is_too_long {
            *line = Vec::new();
        } else {
            line.extend_from_slice(part);
        }
        let taken = part.len() + usize::from(end.is_some());
        input.consume(taken);
        if end.is_some() {
            return Ok(if is_too_long { Line::TooLong } else { Line::Whole });
        }
    }
}

/// Reads a message. `None` for what needs no answer: an empty line, and a notification of an unknown form.
fn message(line: &[u8]) -> Result<Option<ClientJsonRpcMessage>, Box<ServerJsonRpcMessage>> {
    let line = line.trim_ascii();
    if line.is_empty() {
        return Ok(None);
    }
    let refuse = |error: ErrorData, id| Err(Box::new(ServerJsonRpcMessage::error(error, id)));
    let value: Value = match serde_json::from_slice(line) {
        Ok(value) => value,
        Err(error) => {
            // The error names a place, and never the text.
            let text = format!("the line is not JSON: {error}");
            return refuse(ErrorData::parse_error(text, None), None);
        }
    };
    let id = value.get("id").and_then(|id| RequestId::deserialize(id).ok());
    let is_request = value.get("id").is_some() || value.get("method").is_none();
    match ClientJsonRpcMessage::deserialize(value) {
        Ok(message) => Ok(Some(message)),
        Err(_) if !is_request => Ok(None),
        Err(_) => refuse(ErrorData::invalid_request("this is no request of the protocol", None), id),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(line: &str) -> Value {
        let refusal = message(line.as_bytes()).expect_err(line);
        serde_json::to_value(*refusal).unwrap()
    }

    #[test]
    fn what_is_no_message_gets_the_error_that_json_rpc_has_for_it() {
        for (line, code) in
            [("{", -32_700), ("[1", -32_700), ("7", -32_600), ("[]", -32_600), ("{}", -32_600)]
        {
            assert_eq!(refused(line)["error"]["code"], code, "{line}");
        }
        let answered = refused(r#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":7}"#);
        assert_eq!(
            (&answered["id"], &answered["error"]["code"]),
            (&5.into(), &(-32_600).into()),
            "{answered}"
        );
        let deep = "[".repeat(100_000);
        assert_eq!(refused(&deep)["error"]["code"], -32_700);
    }

    #[test]
    fn what_needs_no_answer_gets_none() {
        for line in ["", "  ", r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":7}"#] {
            assert!(matches!(message(line.as_bytes()), Ok(None)), "{line}");
        }
        let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        assert!(matches!(message(ping.as_bytes()), Ok(Some(_))));
    }

    #[test]
    fn a_line_that_is_too_long_is_passed_and_not_kept() {
        let long = "x".repeat(LINE_BYTES_MAX + 1);
        let text = format!("one\n{long}\nthree\r\n\nunfinished");
        let mut input = io::BufReader::with_capacity(1 << 16, text.as_bytes());
        let mut line = Vec::new();
        let mut read = Vec::new();
        loop {
            match read_line(&mut input, &mut line).unwrap() {
                Line::Whole => read.push(String::from_utf8(line.clone()).unwrap()),
                Line::TooLong => read.push("too long".into()),
                Line::End => break,
            }
        }
        assert_eq!(read, ["one", "too long", "three\r", ""]);
        assert!(line.capacity() <= LINE_BYTES_MAX * 2);
    }
}
