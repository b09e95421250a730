//! Server-sent events, assembled from the pieces of a network stream.
//!
//! Source: the WHATWG's `text/event-stream`, as far as model servers use it: `event`, `data`, comments.
//! Why not a crate: this is small, and it bounds an event, however the server cuts or stretches it.

/// The maximum length of an event, in bytes. No event of a model is longer.
pub(super) const EVENT_BYTES_MAX: usize = 16 << 20;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct SseEvent {
    /// Its name; empty if it has none.
    pub name: String,
    /// Its lines of data, joined.
    pub data: String,
}

/// The error for an event or a line that is longer than [`EVENT_BYTES_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooLong;

/// Reads events from pieces of any length.
#[derive(Debug, Default)]
pub(super) struct SseReader {
    line: Vec<u8>,
    after_return: bool,
    name: String,
    data: Option<String>,
}

impl SseReader {
    /// Takes a piece and passes the events that it completes to `show`.
    pub fn feed(&mut self, piece: &[u8], mut show: impl FnMut(SseEvent)) -> Result<(), TooLong> {
        for &byte in piece {
            // A carriage return and a line feed together end one line.
            if std::mem::take(&mut self.after_return) && byte == b'\n' {
                continue;
            }
            match byte {
                b'\r' | b'\n' => {
                    self.after_return = byte == b'\r';
                    let line = std::mem::take(&mut self.line);
                    if let Some(event) = self.take_line(&String::from_utf8_lossy(&line)) {
                        show(event);
                    }
                }
                byte => self.line.push(byte),
            }
            if self.line.len() + self.data.as_ref().map_or(0, String::len) > EVENT_BYTES_MAX {
                return Err(TooLong);
            }
        }
        Ok(())
    }

    /// Returns the event that the end of the stream cut off, if it has data. A last line without an end counts, too.
    pub fn finish(mut self) -> Option<SseEvent> {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.take_line(&String::from_utf8_lossy(&line));
        }
        self.take_line("")
    }

    fn take_line(&mut self, line: &str) -> Option<SseEvent> {
        if line.is_empty() {
            let name = std::mem::take(&mut self.name);
            return self.data.take().map(|data| SseEvent { name, data });
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field.trim_start_matches('\u{feff}') {
            "event" => value.clone_into(&mut self.name),
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                missing => *missing = Some(value.to_owned()),
            },
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, length: usize) -> Vec<(String, String)> {
        let mut reader = SseReader::default();
        let mut events = Vec::new();
        for piece in text.as_bytes().chunks(length) {
            reader.feed(piece, |event| events.push((event.name, event.data))).unwrap();
        }
        events.extend(reader.finish().map(|event| (event.name, event.data)));
        events
    }

    #[test]
    fn events_are_the_same_however_they_are_cut() {
        let text = "\u{feff}: hello\r\nevent: one\r\ndata: {\"a\":\r\ndata: \"é\"}\r\n\r\ndata:x\n\n\n\rdata\r\rid: 7\ndata: last";
        let expected = [("one", "{\"a\":\n\"é\"}"), ("", "x"), ("", ""), ("", "last")];
        let expected: Vec<_> = expected.map(|(name, data)| (name.to_owned(), data.to_owned())).into();
        for length in 1..text.len() {
            assert_eq!(read(text, length), expected, "pieces of {length}");
        }
    }

    #[test]
    fn an_event_without_end_is_refused() {
        let mut reader = SseReader::default();
        let piece = vec![b'x'; 1 << 20];
        let pieces = (0..17).map(|_| reader.feed(&piece, |_| {})).filter(Result::is_err).count();
        assert!(pieces >= 1);
    }
}
