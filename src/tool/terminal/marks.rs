//! The marks by which the shell tells that it is at its prompt, found in what comes from the terminal.
//!
//! bash writes them itself: before each prompt the outcome of the last command ([`Piece::Prompt`]), as the prompt
//! [`Piece::Ready`], [`Piece::More`] where a command is not finished, and [`Piece::Begins`] before it runs one. Each holds a word that nobody
//! knows beforehand, so that no output is taken for one by chance.

/// Begins and ends a mark.
const EDGE: u8 = 0x1e;

/// Separates the fields of a mark.
const FIELD: u8 = 0x1f;

/// The longest mark, in bytes: a folder's name is the largest part of it.
const MARK_BYTES_MAX: usize = 16 * 1024;

/// What the shell said of a command once it was done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Outcome {
    pub exit_code: i64,
    /// The last process that it began in the background; -1 where there is none.
    pub pid: i64,
    pub username: String,
    pub hostname: String,
    pub python: String,
    pub working_dir: String,
}

/// A piece of what comes from the terminal.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'b> {
    Bytes(&'b [u8]),
    /// A command is done.
    Prompt(Outcome),
    /// The shell reads the next command.
    Ready,
    /// The shell wants the rest of a command.
    More,
    /// A command was read and runs now.
    Begins,
}

/// Finds the marks.
#[derive(Debug)]
pub(super) struct Marks {
    word: String,
    /// What may be the beginning of a mark.
    held: Vec<u8>,
}

impl Marks {
    /// Marks with this word in them.
    pub fn new(word: String) -> Self {
        Self { word, held: Vec::new() }
    }

    /// What makes bash write them: a line that is typed into a fresh shell.
    ///
    /// It is exported, so that a shell within the shell writes them too. The trace of `set -x` is kept out of the
    /// output, and `set -u` does no harm.
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

    /// Takes bytes apart.
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

    /// What stands at the beginning of the bytes, an edge.
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
    /// The bytes end too early to say.
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
    fn marks_are_found_however_the_bytes_come() {
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
    fn what_never_ends_is_no_mark() {
        let mut chunks = vec![&b"\x1ew0rd\x1f"[..]];
        let much = [b'x'; 4096];
        chunks.extend([&much[..]; 6]);
        assert!(pieces(&chunks).0.len() > MARK_BYTES_MAX);
    }
}
