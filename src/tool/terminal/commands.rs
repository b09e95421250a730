//! Splits a bash text into its commands.
//!
//! This is not a parser, but a scan that knows quotes, expansions, here-documents and the words that open and close a
//! compound command. A text that it does not understand is one command, as in the reference.

/// Splits a text at the line ends between commands. Commands that `;`, `&&`, `||`, `|` or `&` join stay together, and a
/// here-document stays together with the command after it.
///
/// A text that is not finished, or that the scan does not understand, is one command.
pub(super) fn split(text: &str) -> Vec<&str> {
    let mut scan = Scan { text: text.as_bytes(), at: 0, open: Vec::new(), starts: Vec::new(), begins: true };
    match scan.run() {
        Some(()) if !scan.starts.is_empty() => {
            let ends = scan.starts[1..].iter().copied().chain([text.len()]);
            scan.starts.iter().zip(ends).map(|(start, end)| text[*start..end].trim_end()).collect()
        }
        _ => vec![text],
    }
}

/// A compound command that is not closed yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    If,
    Loop,
    Case,
    Brace,
    Paren,
    Test,
}

struct Scan<'t> {
    text: &'t [u8],
    at: usize,
    open: Vec<Open>,
    /// The positions at which commands begin.
    starts: Vec<usize>,
    /// Whether the next word begins a command of its own.
    begins: bool,
}

impl<'t> Scan<'t> {
    /// Scans the whole text. `None` if it is not finished or not understood.
    fn run(&mut self) -> Option<()> {
        // Whether the next word may be a command's name, and so may open or close a compound command.
        let mut command = true;
        // Whether the same command continues after a line end: after an operator or the head of a function.
        let mut goes_on = false;
        let mut names_function = false;
        let mut here: Vec<(Vec<u8>, bool)> = Vec::new();
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' | b'\r' => self.at += 1,
                b'\\' if self.next() == Some(b'\n') => self.at += 2,
                b'#' => self.pass_line(),
                b'\n' => {
                    self.at += 1;
                    let documents = !here.is_empty();
                    for (delimiter, tabs) in here.drain(..) {
                        self.document(&delimiter, tabs)?;
                    }
                    command = true;
                    self.begins |= self.open.is_empty() && !goes_on && !documents;
                }
                b';' | b'&' | b'|' => {
                    let and_or = self.operator(byte);
                    goes_on = and_or;
                    command = true;
                }
                b'<' | b'>' if self.next() == Some(b'(') => {
                    self.begin_word();
                    self.at += 1;
                    self.brackets()?;
                    (command, goes_on) = (false, false);
                }
                b'<' | b'>' => {
                    self.begin_word();
                    if let Some(document) = self.redirection()? {
                        here.push(document);
                    }
                    goes_on = false;
                }
                b'(' => {
                    self.begin_word();
                    if self.next() == Some(b'(') && command {
                        self.brackets()?;
                        (command, goes_on) = (false, false);
                    } else {
                        self.at += 1;
                        self.open.push(Open::Paren);
                        (command, goes_on) = (true, false);
                    }
                }
                b')' => {
                    self.at += 1;
                    match self.open.last() {
                        Some(Open::Paren) => {
                            let head = self.text[..self.at].ends_with(b"()");
                            self.open.pop();
                            // `name()`: the body may begin on the next line.
                            (command, goes_on) = (head, head);
                        }
                        Some(Open::Case) => command = true,
                        _ => return None,
                    }
                }
                _ => {
                    self.begin_word();
                    let (word, plain) = self.word()?;
                    // `function name`: the body may begin on the next line.
                    goes_on = std::mem::take(&mut names_function);
                    names_function = command && word == b"function";
                    command = if goes_on {
                        true
                    } else if plain && (command || self.open.last() == Some(&Open::Test)) {
                        self.keyword(&word)?
                    } else {
                        // `for x in a; do`, `case x in`: the words in between are not commands.
                        false
                    };
                }
            }
        }
        (self.open.is_empty() && here.is_empty() && !goes_on).then_some(())
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn next(&self) -> Option<u8> {
        self.text.get(self.at + 1).copied()
    }

    /// Records the beginning of a command, if the next word begins one.
    fn begin_word(&mut self) {
        if std::mem::take(&mut self.begins) {
            self.starts.push(self.at);
        }
    }

    fn pass_line(&mut self) {
        while self.peek().is_some_and(|byte| byte != b'\n') {
            self.at += 1;
        }
    }

    /// Skips an operator. Returns whether a command must follow it.
    fn operator(&mut self, byte: u8) -> bool {
        let twice = self.next() == Some(byte);
        self.at += 1 + usize::from(twice);
        if byte == b';' || byte == b'&' && !twice {
            // `;;`, `;&` and `;;&` end a branch of a case.
            self.at += usize::from(byte == b';' && self.peek() == Some(b'&'));
            return false;
        }
        self.at += usize::from(byte == b'|' && !twice && self.peek() == Some(b'&'));
        true
    }

    /// Skips the operator of a redirection. For a here-document, returns its delimiter and whether tabs are stripped.
    fn redirection(&mut self) -> Option<Option<(Vec<u8>, bool)>> {
        let here = self.text[self.at..].starts_with(b"<<") && !self.text[self.at..].starts_with(b"<<<");
        while self.peek().is_some_and(|byte| matches!(byte, b'<' | b'>' | b'&' | b'|')) {
            self.at += 1;
        }
        if !here {
            return Some(None);
        }
        let tabs = self.peek() == Some(b'-');
        self.at += usize::from(tabs);
        while self.peek().is_some_and(|byte| matches!(byte, b' ' | b'\t')) {
            self.at += 1;
        }
        let start = self.at;
        self.word()?;
        let delimiter: Vec<u8> =
            self.text[start..self.at].iter().copied().filter(|byte| !b"'\"\\".contains(byte)).collect();
        (!delimiter.is_empty()).then_some(Some((delimiter, tabs)))
    }

    /// Skips the text of a here-document.
    fn document(&mut self, delimiter: &[u8], tabs: bool) -> Option<()> {
        while self.at < self.text.len() {
            let start = self.at;
            self.pass_line();
            let mut line = &self.text[start..self.at];
            self.at = (self.at + 1).min(self.text.len());
            while tabs && line.first() == Some(&b'\t') {
                line = &line[1..];
            }
            if line == delimiter {
                return Some(());
            }
        }
        None
    }

    /// Skips a word. Returns it, and whether it is plain: nothing in it is quoted or expanded.
    fn word(&mut self) -> Option<(Vec<u8>, bool)> {
        let start = self.at;
        let mut plain = true;
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' | b';' | b'&' | b'|' | b'<' | b'>' | b')' => break,
                // `name=(..)` and `@(..)` belong to the word; `name(` begins a function.
                b'(' if self.at > start && b"=@?*+!".contains(&self.text[self.at - 1]) => {
                    plain = false;
                    self.brackets()?;
                }
                b'(' => break,
                b'\\' => {
                    plain = false;
                    self.at = (self.at + 2).min(self.text.len());
                }
                b'\'' | b'"' | b'`' | b'$' => {
                    plain = false;
                    self.quoted()?;
                }
                _ => self.at += 1,
            }
        }
        Some((self.text[start..self.at].to_vec(), plain))
    }

    /// Skips a quotation or an expansion.
    fn quoted(&mut self) -> Option<()> {
        let byte = self.peek()?;
        self.at += 1;
        match byte {
            b'\'' => self.until(b'\'', false),
            b'`' => self.until(b'`', true),
            b'"' => loop {
                match self.peek()? {
                    b'"' => {
                        self.at += 1;
                        return Some(());
                    }
                    b'\\' => self.at = (self.at + 2).min(self.text.len()),
                    b'`' | b'$' => self.quoted()?,
                    _ => self.at += 1,
                }
            },
            _ => match self.peek() {
                Some(b'(') => self.brackets(),
                Some(b'{') => self.braces(),
                Some(b'\'') => {
                    self.at += 1;
                    self.until(b'\'', true)
                }
                _ => Some(()),
            },
        }
    }

    fn until(&mut self, end: u8, escapes: bool) -> Option<()> {
        loop {
            let byte = self.peek()?;
            self.at += 1;
            if byte == end {
                return Some(());
            }
            if byte == b'\\' && escapes {
                self.at = (self.at + 1).min(self.text.len());
            }
        }
    }

    /// Skips `( .. )` with its content: a substitution, arithmetic or an array.
    fn brackets(&mut self) -> Option<()> {
        self.at += 1;
        // Only a `)` that is not quoted and closes no inner `(` ends it.
        let inner = balanced(&self.text[self.at..])?;
        self.at += inner + 1;
        Some(())
    }

    /// Skips `{ .. }` of a parameter expansion.
    fn braces(&mut self) -> Option<()> {
        self.at += 1;
        loop {
            match self.peek()? {
                b'}' => {
                    self.at += 1;
                    return Some(());
                }
                b'\\' => self.at = (self.at + 2).min(self.text.len()),
                b'\'' | b'"' | b'`' | b'$' => self.quoted()?,
                _ => self.at += 1,
            }
        }
    }

    /// Opens or closes a compound command, if the word does so. Returns whether a command may follow the word.
    fn keyword(&mut self, word: &[u8]) -> Option<bool> {
        let in_test = self.open.last() == Some(&Open::Test);
        let closes = match word {
            b"fi" => Some(Open::If),
            b"done" => Some(Open::Loop),
            b"esac" => Some(Open::Case),
            b"}" => Some(Open::Brace),
            b"]]" if in_test => Some(Open::Test),
            _ => None,
        };
        if in_test || closes.is_some() {
            return match closes {
                Some(open) => (self.open.pop() == Some(open)).then_some(false),
                None => Some(false),
            };
        }
        match word {
            b"if" => self.open.push(Open::If),
            b"while" | b"until" => self.open.push(Open::Loop),
            b"{" => self.open.push(Open::Brace),
            b"for" | b"select" | b"case" | b"[[" => {
                self.open.push(match word {
                    b"case" => Open::Case,
                    b"[[" => Open::Test,
                    _ => Open::Loop,
                });
                return Some(false);
            }
            b"then" | b"do" | b"else" | b"elif" | b"time" | b"!" | b"coproc" => {}
            _ => return Some(false),
        }
        Some(true)
    }
}

/// Returns the position of the `)` that closes a `(` before this text. `None` if there is none.
fn balanced(text: &[u8]) -> Option<usize> {
    let mut scan = Scan { text, at: 0, open: Vec::new(), starts: Vec::new(), begins: false };
    let mut depth = 0;
    loop {
        match scan.peek()? {
            b')' if depth == 0 => return Some(scan.at),
            b')' => {
                depth -= 1;
                scan.at += 1;
            }
            b'(' => {
                depth += 1;
                scan.at += 1;
            }
            b'\\' => scan.at = (scan.at + 2).min(text.len()),
            b'\'' | b'"' | b'`' | b'$' => scan.quoted()?,
            b'#' if scan.at > 0 && text[scan.at - 1].is_ascii_whitespace() => scan.pass_line(),
            _ => scan.at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected commands are from the reference's `split_bash_commands`.
    #[test]
    fn commands_are_split_where_the_reference_splits_them() {
        let cases = include_str!("../../../tests/golden/tools/split.json");
        let cases: serde_json::Value = serde_json::from_str(cases).unwrap();
        for case in cases["cases"].as_array().unwrap() {
            let text = case["text"].as_str().unwrap();
            let expected: Vec<&str> =
                case["commands"].as_array().unwrap().iter().map(|part| part.as_str().unwrap()).collect();
            assert_eq!(split(text), expected, "{text:?}");
        }
    }

    #[test]
    fn strange_texts_do_not_break_the_scan() {
        for text in
            ["", "\\", "$(", "((", "`", "<<", "<<'", "case", "a=(", "${", "\"$(\"", "[[ ]]\nx", "é\n)"]
        {
            assert!(!split(text).is_empty(), "{text:?}");
        }
    }
}
