//! Finds the marks of the shell in the bytes from the terminal. They report the state of the shell.
//!
//! bash writes the marks itself: [`Piece::Prompt`] with the outcome of the last command before each prompt,
//! [`Piece::Ready`] as the prompt, [`Piece::More`] if a command is not finished, and [`Piece::Begins`] before it runs a
//! command. Each mark contains a random word, so that no output is mistaken for a mark.

/// The byte at the beginning and the end of a mark.
const EDGE: u8 = 0x1e;

/// The byte between the fields of a mark.
const FIELD: u8 = 0x1f;

/// The longest mark, in bytes. The path of the working directory is the longest part of it.
const MARK_BYTES_MAX: usize = 16 * 1024;

/// The state that the shell reports after a command has ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Outcome {
    pub exit_code: i64,
    /// The last process that the shell started in the background, or -1 if there is none.
    pub pid: i64,
    pub username: String,
    pub hostname: String,
    pub python: String,
    pub working_dir: String,
}

/// A piece of the bytes from the terminal.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'b> {
    Bytes(&'b [u8]),
    /// A command has ended.
    Prompt(Outcome),
    /// The shell is ready for the next command.
    Ready,
    /// The shell waits for the rest of a command.
    More,
    /// The shell has read a command and runs it now.
    Begins,
}

/// Finds the marks.
#[derive(Debug)]
pub(super) struct Marks {
    word: String,
    /// Bytes that may be the beginning of a mark.
    held: Vec<u8>,
}

impl Marks {
    /// Makes a finder of marks that contain this word.
    pub fn new(word: String) -> Self {
        Self { word, held: Vec::new() }
    }

    /// Returns the line that makes bash write the marks. It is typed into a new shell.
    ///
    /// The setting is exported, so that a shell started in this shell writes marks too. `set -x` adds no trace of it to
    /// the output, and `set -u` does not break it.
    pub fn set_up(&self) -> String {
        let word = &self.word;
        let command = format!(
            "{{ _annals=$?;PS1='\\u\\037\\h';printf '\\036{word}\\037%s\\037%s\\037%s\\037%s\\037%s\\036' \"$_annals\" \
             \"${{!-}}\" \"${{PS1@P}}\" \"$(command -v python)\" \"$PWD\" >/dev/tty;PS1='\\036{word}+\\036';\
             PS2='\\036{word}>\\036';PS0='\\036{word}<\\036'; }} 2>/dev/null"
        );
        format!(
            " set +H; set +o history; unset HISTFILE PROMPT_COMMAND; bind 'set enable-bracketed-paste on'; export \
             PROMPT_COMMAND='{}'\n",
            command.replace('\'', "'\\''")
        )
    }

    /// Splits bytes into pieces and gives each piece to `take`.
    pub fn feed(&mut self, bytes: &[u8], mut take: impl FnMut(Piece<'_>)) {
        let joined;
        let mut rest = bytes;
        if !self.held.is_empty() {
            joined = [std::mem::take(&mut self.held), bytes.to_vec()].concat();
            rest = &joined;
        }
        while let Some(edge) = memchr::memchr(EDGE, rest) {
            let (before, from) = rest.split_at(edge);
            if !before.is_empty() {
                take(Piece::Bytes(before));
            }
            match self.mark(from) {
                Found::Mark(piece, length) => {
                    take(piece);
                    rest = &from[length..];
                }
                Found::Maybe => {
                    self.held = from.to_vec();
                    return;
                }
                Found::Nothing => {
                    take(Piece::Bytes(&from[..1]));
                    rest = &from[1..];
                }
            }
        }
        if !rest.is_empty() {
            take(Piece::Bytes(rest));
        }
    }

    /// Returns the mark at the beginning of the bytes. Their first byte is [`EDGE`].
    fn mark(&self, bytes: &[u8]) -> Found {
        let word = self.word.as_bytes();
        let inner = &bytes[1..];
        let Some(after) = inner.strip_prefix(word) else {
            return if word.starts_with(inner) { Found::Maybe } else { Found::Nothing };
        };
        let Some(&kind) = after.first() else { return Found::Maybe };
        if ![b'+', b'>', b'<', FIELD].contains(&kind) {
            return Found::Nothing;
        }
        let Some(end) = memchr::memchr(EDGE, after) else {
            return if bytes.len() > MARK_BYTES_MAX { Found::Nothing } else { Found::Maybe };
        };
        let piece = match kind {
            b'+' => Piece::Ready,
            b'>' => Piece::More,
            b'<' => Piece::Begins,
            _ => Piece::Prompt(outcome(&String::from_utf8_lossy(&after[1..end]))),
        };
        Found::Mark(piece, 1 + word.len() + end + 1)
    }
}

enum Found {
    Mark(Piece<'static>, usize),
    /// The bytes end before this can be decided.
    Maybe,
    Nothing,
}

fn outcome(fields: &str) -> Outcome {
    let mut fields = fields.splitn(6, char::from(FIELD));
    let mut next = || fields.next().unwrap_or_default();
    Outcome {
        exit_code: next().parse().unwrap_or(-1),
        pid: next().parse().unwrap_or(-1),
        username: next().to_owned(),
        hostname: next().to_owned(),
        python: next().to_owned(),
        working_dir: next().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(chunks: &[&[u8]]) -> (Vec<u8>, Vec<String>) {
        let mut marks = Marks::new("w0rd".to_owned());
        let (mut bytes, mut found) = (Vec::new(), Vec::new());
        for chunk in chunks {
            marks.feed(chunk, |piece| match piece {
                Piece::Bytes(more) => bytes.extend_from_slice(more),
                mark => found.push(format!("{mark:?} at {}", bytes.len())),
            });
        }
        (bytes, found)
    }

    #[test]
    fn marks_are_found_even_if_they_are_split() {
        let text = b"out\x1e\x1ew0r\x1ew0rd\x1f130\x1f77\x1fme\x1fhost\x1f/bin/py\x1f/a b\x1e\x1ew0rd+\x1ex\x1ew0rd>\x1e\x1ew0rd?";
        let whole = pieces(&[text]);
        assert_eq!(whole.0, b"out\x1e\x1ew0rx\x1ew0rd?");
        assert_eq!(whole.1.len(), 3);
        assert!(
            whole.1[0].starts_with("Prompt(Outcome { exit_code: 130, pid: 77, username: \"me\""),
            "{:?}",
            whole.1
        );
        assert!(whole.1[0].ends_with("python: \"/bin/py\", working_dir: \"/a b\" }) at 8"), "{:?}", whole.1);
        assert_eq!(whole.1[1..], ["Ready at 8", "More at 9"]);
        for cut in 0..=text.len() {
            assert_eq!(pieces(&[&text[..cut], &text[cut..]]), whole, "{cut}");
        }
    }

    #[test]
    fn a_mark_without_an_end_is_output() {
        let mut chunks = vec![&b"\x1ew0rd\x1f"[..]];
        let much = [b'x'; 4096];
        chunks.extend([&much[..]; 6]);
        assert!(pieces(&chunks).0.len() > MARK_BYTES_MAX);
    }
}
