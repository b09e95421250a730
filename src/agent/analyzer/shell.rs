//! A command line taken apart, as far as judging it needs: pipelines, their commands, their words.
//!
//! Quotes are taken away, what only a running shell would know is marked as unknown, and sources within the source
//! (substitutions, here-documents) are kept as text for whoever looks into them. It is no shell: what it cannot read it
//! takes for plain words, and nothing that is written in a text can make it run for long.

/// A word of a command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Word {
    /// The text, without quotes and without what is not known of it.
    pub text: String,
    /// Whether it holds something that only a running shell would know.
    pub is_unknown: bool,
    /// Whether it begins with a bare tilde.
    pub is_home: bool,
}

/// A command with what it reads and what stands within it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Command {
    pub words: Vec<Word>,
    /// What a here-document or a here-string gives it to read.
    pub input: Option<String>,
    /// Sources of the substitutions within its words.
    pub nested: Vec<String>,
}

/// Commands of which each reads what the one before prints.
pub(super) type Pipeline = Vec<Command>;

/// Words that may stand where a command begins and are none.
const KEYWORDS: &[&str] = &[
    "if", "then", "else", "elif", "fi", "do", "done", "while", "until", "!", "{", "}", "case", "esac", "time",
];

/// The pipelines of a source, in order.
pub(super) fn pipelines(source: &str) -> Vec<Pipeline> {
    let mut reader = Reader { text: source.chars().collect(), at: 0, ..Reader::default() };
    reader.read();
    reader.pipelines
}

#[derive(Default)]
struct Reader {
    text: Vec<char>,
    at: usize,
    pipelines: Vec<Pipeline>,
    pipeline: Pipeline,
    command: Command,
    word: Option<Word>,
    /// What the next word is for, where it is not a word of the command.
    target: Target,
    /// Here-documents whose bodies begin with the next line: by pipeline and command, and how they end.
    awaited: Vec<(usize, usize, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Target {
    #[default]
    Word,
    /// A file that is read or written: it does not matter which.
    File,
    HereString,
    HereDocument,
}

impl Reader {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.text.get(self.at + ahead).copied()
    }

    fn read(&mut self) {
        while let Some(character) = self.peek(0) {
            self.at += 1;
            match character {
                ' ' | '\t' | '\r' => self.end_word(),
                '\n' => {
                    self.end_pipeline();
                    self.here_documents();
                }
                ';' | '(' | ')' => self.end_pipeline(),
                '&' if self.peek(0) == Some('>') => self.redirect(),
                '&' => {
                    self.at += usize::from(self.peek(0) == Some('&'));
                    self.end_pipeline();
                }
                '|' if self.peek(0) == Some('|') => {
                    self.at += 1;
                    self.end_pipeline();
                }
                '|' => {
                    self.at += usize::from(self.peek(0) == Some('&'));
                    self.end_command();
                }
                '<' | '>' if self.peek(0) == Some('(') => {
                    self.at += 1;
                    let source = self.until_closed();
                    self.substitute(source);
                }
                '<' | '>' => {
                    self.at -= 1;
                    self.redirect();
                }
                '#' if self.word.is_none() => {
                    while self.peek(0).is_some_and(|c| c != '\n') {
                        self.at += 1;
                    }
                }
                other => self.part(other),
            }
        }
        self.end_pipeline();
    }

    /// A character of a word, and what belongs to it.
    fn part(&mut self, character: char) {
        match character {
            '\'' => {
                while let Some(quoted) = self.peek(0) {
                    self.at += 1;
                    if quoted == '\'' {
                        break;
                    }
                    self.push(quoted);
                }
                self.word.get_or_insert_default();
            }
            '"' => {
                self.word.get_or_insert_default();
                while let Some(quoted) = self.peek(0) {
                    self.at += 1;
                    match quoted {
                        '"' => break,
                        '\\' if matches!(self.peek(0), Some('"' | '\\' | '$' | '`')) => self.escaped(),
                        '$' | '`' => self.expand(quoted),
                        other => self.push(other),
                    }
                }
            }
            '\\' => self.escaped(),
            '$' | '`' => self.expand(character),
            '~' if self.word.is_none() => {
                self.push('~');
                self.word.get_or_insert_default().is_home = true;
            }
            other => self.push(other),
        }
    }

    fn push(&mut self, character: char) {
        self.word.get_or_insert_default().text.push(character);
    }

    fn escaped(&mut self) {
        if let Some(next) = self.peek(0) {
            self.at += 1;
            if next != '\n' {
                self.push(next);
            }
        }
    }

    /// What follows a dollar or a backquote: unknown, and perhaps a source of its own.
    fn expand(&mut self, character: char) {
        if character == '`' {
            let mut source = String::new();
            while let Some(next) = self.peek(0) {
                self.at += 1;
                if next == '`' {
                    break;
                }
                source.push(next);
            }
            return self.substitute(source);
        }
        match self.peek(0) {
            Some('(') => {
                self.at += 1;
                let source = self.until_closed();
                self.substitute(source);
            }
            Some('\'' | '"') => {}
            Some('{') => {
                while self.peek(0).is_some_and(|c| c != '}') {
                    self.at += 1;
                }
                self.at += 1;
                self.word.get_or_insert_default().is_unknown = true;
            }
            Some(next) if next.is_alphanumeric() || "_@*#?$!-".contains(next) => {
                self.at += 1;
                if next.is_alphabetic() || next == '_' {
                    while self.peek(0).is_some_and(|c| c.is_alphanumeric() || c == '_') {
                        self.at += 1;
                    }
                }
                self.word.get_or_insert_default().is_unknown = true;
            }
            Some(_) | None => self.push('$'),
        }
    }

    /// The source up to the bracket that closes the one just read.
    fn until_closed(&mut self) -> String {
        let (mut depth, mut quote, mut source) = (1, None, String::new());
        while let Some(next) = self.peek(0) {
            self.at += 1;
            match (next, quote) {
                ('\\', None | Some('"')) => {
                    source.push(next);
                    if let Some(escaped) = self.peek(0) {
                        self.at += 1;
                        source.push(escaped);
                    }
                    continue;
                }
                ('\'' | '"', None) => quote = Some(next),
                (next, Some(open)) if next == open => quote = None,
                ('(', None) => depth += 1,
                (')', None) => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                break;
            }
            source.push(next);
        }
        source
    }

    fn substitute(&mut self, source: String) {
        self.word.get_or_insert_default().is_unknown = true;
        self.command.nested.push(source);
    }

    fn redirect(&mut self) {
        // A number before it says which stream, and is no word.
        if self.word.as_ref().is_some_and(|word| word.text.chars().all(|c| c.is_ascii_digit())) {
            self.word = None;
        }
        self.end_word();
        let begin = self.at;
        while matches!(self.peek(0), Some('<' | '>' | '|' | '&' | '-')) && self.at < begin + 3 {
            self.at += 1;
        }
        let sign: String = self.text[begin..self.at].iter().collect();
        self.target = match sign.as_str() {
            "<<<" => Target::HereString,
            "<<" | "<<-" => Target::HereDocument,
            _ => Target::File,
        };
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        match std::mem::take(&mut self.target) {
            Target::Word => {
                let begins = self.command.words.is_empty();
                if !(begins && KEYWORDS.contains(&word.text.as_str()) && !word.is_unknown) {
                    self.command.words.push(word);
                }
            }
            Target::File => {}
            Target::HereString => self.command.input = Some(word.text),
            Target::HereDocument => {
                self.awaited.push((self.pipelines.len(), self.pipeline.len(), word.text));
            }
        }
    }

    fn end_command(&mut self) {
        self.end_word();
        self.target = Target::Word;
        self.pipeline.push(std::mem::take(&mut self.command));
    }

    fn end_pipeline(&mut self) {
        self.end_command();
        let pipeline = std::mem::take(&mut self.pipeline);
        let is_empty = |command: &Command| {
            command.words.is_empty() && command.nested.is_empty() && command.input.is_none()
        };
        // One that a here-document waits for stays, so that its place stays.
        let is_awaited = self.awaited.iter().any(|(place, ..)| *place == self.pipelines.len());
        if is_awaited || !pipeline.iter().all(is_empty) {
            self.pipelines.push(pipeline);
        }
    }

    /// Reads the bodies of the here-documents that the last line began.
    fn here_documents(&mut self) {
        for (pipeline, command, end) in std::mem::take(&mut self.awaited) {
            let mut body = String::new();
            while self.at < self.text.len() {
                let rest = &self.text[self.at..];
                let length = rest.iter().position(|c| *c == '\n').unwrap_or(rest.len());
                let line: String = rest[..length].iter().collect();
                self.at += (length + 1).min(rest.len());
                if line.trim_start_matches('\t') == end {
                    break;
                }
                body.push_str(&line);
                body.push('\n');
            }
            if let Some(command) = self.pipelines.get_mut(pipeline).and_then(|found| found.get_mut(command)) {
                command.input = Some(body);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(source: &str) -> Vec<Vec<Vec<String>>> {
        let command = |command: &Command| command.words.iter().map(|word| word.text.clone()).collect();
        pipelines(source).iter().map(|pipeline| pipeline.iter().map(command).collect()).collect()
    }

    #[test]
    fn a_line_is_taken_apart_as_a_shell_would() {
        assert_eq!(
            words("a 'b c' | d\\ e && f > g 2>&1; h"),
            [vec![vec!["a", "b c"], vec!["d e"]], vec![vec!["f"]], vec![vec!["h"]]]
        );
        assert_eq!(words("if true; then rm x; fi"), [[["true"].to_vec()], [["rm", "x"].to_vec()]]);
        let read = pipelines("cat <<E | sh\nrm x\nE\necho \"$(a; b)\" $X `c` ~/y <(d)");
        assert_eq!(read[0][0].input.as_deref(), Some("rm x\n"));
        assert_eq!(read[1][0].nested, ["a; b", "c", "d"]);
        let unknown: Vec<bool> = read[1][0].words.iter().map(|word| word.is_unknown).collect();
        assert_eq!(unknown, [false, true, true, true, false, true]);
        assert!(read[1][0].words[4].is_home);
        assert_eq!(pipelines("sh <<< 'x y'")[0][0].input.as_deref(), Some("x y"));
        assert!(pipelines(" # nothing").is_empty());
    }
}
