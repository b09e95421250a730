//! A parser for command lines, as exact as the analyzers need: pipelines, their commands, their words.
//!
//! It removes quotes, marks words as unknown if only a running shell would know their value, and keeps nested sources
//! (substitutions, here-documents) as text for the caller. It is not a shell: syntax that it does not know is read as
//! plain words, and no input makes it run for long.

mod expansion;

/// A word of a command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Word {
    /// The text, without quotes and without its unknown parts.
    pub text: String,
    /// Whether the word has a part that only a running shell would know.
    pub is_unknown: bool,
    /// Whether the word begins with an unquoted tilde.
    pub is_home: bool,
    /// Whether a part of the word is quoted or escaped.
    pub is_quoted: bool,
}

/// A command with its input and its nested sources.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Command {
    pub words: Vec<Word>,
    /// The text of a here-document or a here-string.
    pub input: Option<String>,
    /// The sources of the substitutions within the command's words and its here-document.
    pub nested: Vec<String>,
}

/// Commands that are connected by pipes.
pub(super) type Pipeline = Vec<Command>;

/// Words that may stand in a command's place but are not commands.
const KEYWORDS: &[&str] = &[
    "if", "then", "else", "elif", "fi", "do", "done", "while", "until", "!", "{", "}", "case", "esac", "time",
];

/// Returns the pipelines of a source, in order.
pub(super) fn pipelines(source: &str) -> Vec<Pipeline> {
    let text: Vec<char> = source.chars().collect();
    let mut reader = Reader { text: &text, ..Reader::default() };
    reader.read();
    reader.pipelines
}

/// Reads a source, or the commands of one substitution within it.
#[derive(Default)]
struct Reader<'t> {
    text: &'t [char],
    at: usize,
    /// The character that ends the commands of a substitution. `None` if the end of the text ends them.
    closer: Option<char>,
    /// Whether the closer was read.
    is_closed: bool,
    /// In how many substitutions the commands are.
    depth: usize,
    /// How many characters were read in advance.
    looked: usize,
    pipelines: Vec<Pipeline>,
    pipeline: Pipeline,
    command: Command,
    word: Option<Word>,
    /// The role of the next word.
    target: Target,
    /// Whether the command has a redirection.
    is_redirected: bool,
    /// Here-documents whose bodies begin with the next line.
    awaited: Vec<Awaited>,
    /// The brackets, braces and `case` commands that are open.
    open: Vec<Open>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Target {
    #[default]
    Word,
    /// A file of a redirection. Its name is not needed.
    File,
    HereString,
    HereDocument {
        /// Whether tabs before the end marker do not count.
        ignores_tabs: bool,
    },
}

/// A here-document whose body is still to be read.
struct Awaited {
    pipeline: usize,
    command: usize,
    /// The end marker.
    end: Word,
    ignores_tabs: bool,
}

/// The operators of redirections, the longest first.
const REDIRECTIONS: [&str; 8] = ["<<<", "<<-", "<<", "<&", "<>", ">>", ">&", ">|"];

/// Something that has to be closed before the closer of a substitution counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    Bracket,
    /// The values of an array, or the alternatives of a pattern. No word in it is a keyword.
    List,
    Brace,
    /// A `case` before its `in`.
    CaseHead {
        has_subject: bool,
    },
    /// A pattern of a `case`, up to its bracket. It is fresh until its first word.
    CasePattern {
        is_fresh: bool,
    },
    /// The commands after a pattern.
    CaseBody,
}

impl Reader<'_> {
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
                ';' => {
                    self.end_pipeline();
                    if matches!(self.peek(0), Some(';' | '&')) && self.open.last() == Some(&Open::CaseBody) {
                        self.turn(Open::CasePattern { is_fresh: true });
                    }
                }
                '(' => self.open_bracket(),
                ')' => {
                    self.end_pipeline();
                    if self.close_bracket() {
                        self.is_closed = true;
                        return;
                    }
                }
                '}' if self.is_block_end() => {
                    self.is_closed = true;
                    return;
                }
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
                    let source = self.commands(')');
                    self.substitute(source);
                }
                '<' | '>' => {
                    self.at -= 1;
                    self.redirect();
                }
                // A shell does not separate words at a carriage return.
                '#' if self.word.is_none() && self.text.get(self.at.wrapping_sub(2)) != Some(&'\r') => {
                    while self.peek(0).is_some_and(|c| c != '\n') {
                        self.at += 1;
                    }
                }
                other => self.word_part(other),
            }
        }
        self.end_pipeline();
    }

    /// Reads an opening bracket: of a subshell, of a pattern of a `case`, or of an arithmetic command.
    fn open_bracket(&mut self) {
        let begins = self.word.is_none();
        if begins && matches!(self.open.last(), Some(Open::CasePattern { .. })) {
            self.turn(Open::CasePattern { is_fresh: false });
        } else {
            if begins && self.peek(0) == Some('(') && self.is_arithmetic() {
                // Some shells read two subshells here, so the text counts as a source of commands too. It is read by
                // itself, because `<<` and `#` mean something else in an expression.
                let begin = self.at + 1;
                self.arithmetic();
                self.word = None;
                let end = self.at.saturating_sub(2).max(begin).min(self.text.len());
                self.command.nested.push(self.text[begin.min(end)..end].iter().collect());
            } else if begins || self.peek(0) == Some(')') {
                self.open.push(Open::Bracket);
            } else {
                self.open.push(Open::List);
            }
        }
        self.end_pipeline();
    }

    /// Closes what a closing bracket closes. Returns whether it ends the commands of this substitution.
    fn close_bracket(&mut self) -> bool {
        // A brace that is still open is an error of the source.
        while self.open.last() == Some(&Open::Brace) {
            self.open.pop();
        }
        match self.open.last() {
            Some(Open::Bracket | Open::List) => {
                self.open.pop();
            }
            Some(Open::CasePattern { .. }) => self.turn(Open::CaseBody),
            Some(Open::Brace | Open::CaseHead { .. } | Open::CaseBody) => {}
            None => return self.closer == Some(')'),
        }
        false
    }

    fn is_block_end(&self) -> bool {
        let begins = self.word.is_none() && self.command.words.is_empty();
        self.closer == Some('}') && self.open.is_empty() && begins
    }

    /// Replaces the innermost of what is open.
    fn turn(&mut self, open: Open) {
        self.open.pop();
        self.open.push(open);
    }

    /// Reads a character of a word, or a quoted, escaped or expanded part that begins with it.
    fn word_part(&mut self, character: char) {
        match character {
            '\'' => {
                self.word.get_or_insert_default().is_quoted = true;
                while let Some(quoted) = self.peek(0) {
                    self.at += 1;
                    if quoted == '\'' {
                        break;
                    }
                    self.push(quoted);
                }
            }
            '"' => {
                self.word.get_or_insert_default().is_quoted = true;
                while let Some(quoted) = self.peek(0) {
                    self.at += 1;
                    match quoted {
                        '"' => break,
                        '\\' if matches!(self.peek(0), Some('"' | '\\' | '$' | '`' | '\n')) => self.escaped(),
                        '$' | '`' => self.expand(quoted, true),
                        other => self.push(other),
                    }
                }
            }
            '\\' => self.escaped(),
            '$' | '`' => self.expand(character, false),
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
                self.word.get_or_insert_default().is_quoted = true;
            }
        }
    }

    fn redirect(&mut self) {
        // A number or a variable in braces before the sign is the file descriptor, not a word.
        let is_descriptor = |word: &Word| {
            let name = word.text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
            let is_name =
                |name: &str| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
            name.is_some_and(is_name)
                || (!word.text.is_empty() && word.text.chars().all(|c| c.is_ascii_digit()))
        };
        if self.word.as_ref().is_some_and(|word| is_descriptor(word) && !word.is_quoted && !word.is_unknown) {
            self.word = None;
        }
        self.end_word();
        self.is_redirected = true;
        let stands_here =
            |sign: &&&str| sign.chars().enumerate().all(|(ahead, c)| self.peek(ahead) == Some(c));
        let sign = REDIRECTIONS.iter().find(stands_here).copied();
        // Every other sign is a single character.
        self.at += sign.map_or(1, str::len);
        self.target = match sign {
            Some("<<<") => Target::HereString,
            Some("<<") => Target::HereDocument { ignores_tabs: false },
            Some("<<-") => Target::HereDocument { ignores_tabs: true },
            Some(_) | None => Target::File,
        };
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        match std::mem::take(&mut self.target) {
            Target::Word => {
                if !self.is_syntax(&word) {
                    self.command.words.push(word);
                }
            }
            Target::File => {}
            Target::HereString => self.command.input = Some(word.text),
            // If a marker has an expansion, shells do not agree on the end: the lines are read as commands.
            Target::HereDocument { .. } if word.is_unknown => {}
            Target::HereDocument { ignores_tabs } => {
                let (pipeline, command) = (self.pipelines.len(), self.pipeline.len());
                self.awaited.push(Awaited { pipeline, command, end: word, ignores_tabs });
            }
        }
    }

    /// Returns whether a word belongs to the syntax and not to a command. Follows what it opens or closes.
    fn is_syntax(&mut self, word: &Word) -> bool {
        let text = if word.is_quoted || word.is_unknown { "" } else { word.text.as_str() };
        let begins = self.command.words.is_empty() && !self.is_redirected;
        match (self.open.last().copied(), text) {
            (Some(Open::CaseHead { has_subject: true }), "in") => {
                self.turn(Open::CasePattern { is_fresh: true });
            }
            (Some(Open::CaseHead { .. }), _) => {
                self.turn(Open::CaseHead { has_subject: true });
                return false;
            }
            (Some(Open::CasePattern { is_fresh: true }), "esac") => {
                self.open.pop();
            }
            (Some(Open::CasePattern { .. }), _) => {
                self.turn(Open::CasePattern { is_fresh: false });
                return false;
            }
            (Some(Open::CaseBody), "esac") | (Some(Open::Brace), "}") if begins => {
                self.open.pop();
            }
            (Some(Open::List), _) => return false,
            (_, "case") if begins => self.open.push(Open::CaseHead { has_subject: false }),
            (_, "{") if begins => self.open.push(Open::Brace),
            (_, other) => return begins && KEYWORDS.contains(&other),
        }
        true
    }

    fn end_command(&mut self) {
        self.end_word();
        self.target = Target::Word;
        self.is_redirected = false;
        self.pipeline.push(std::mem::take(&mut self.command));
    }

    fn end_pipeline(&mut self) {
        self.end_command();
        let pipeline = std::mem::take(&mut self.pipeline);
        let is_empty = |command: &Command| {
            command.words.is_empty() && command.nested.is_empty() && command.input.is_none()
        };
        // A pipeline with a pending here-document is kept, because the here-document refers to its index.
        let is_awaited = self.awaited.iter().any(|awaited| awaited.pipeline == self.pipelines.len());
        if is_awaited || !pipeline.iter().all(is_empty) {
            self.pipelines.push(pipeline);
        }
    }

    /// Reads the bodies of the here-documents that the last line began.
    fn here_documents(&mut self) {
        for Awaited { pipeline, command, end, ignores_tabs } in std::mem::take(&mut self.awaited) {
            let mut body = String::new();
            while self.at < self.text.len() {
                let rest = &self.text[self.at..];
                let length = rest.iter().position(|c| *c == '\n').unwrap_or(rest.len());
                let line: String = rest[..length].iter().collect();
                let content = if ignores_tabs { line.trim_start_matches('\t') } else { &line };
                // Within a substitution, its closer may stand right behind the marker.
                if self.closer == Some(')')
                    && content.strip_prefix(&*end.text).is_some_and(|rest| rest.starts_with(')'))
                {
                    let tabs = line.len() - content.len();
                    self.at += tabs + end.text.chars().count();
                    break;
                }
                self.at += (length + 1).min(rest.len());
                if content == end.text {
                    break;
                }
                body.push_str(&line);
                body.push('\n');
            }
            // A shell expands the body unless the marker is quoted.
            let nested = if end.is_quoted { Vec::new() } else { self.substitutions(&body) };
            if let Some(command) = self.pipelines.get_mut(pipeline).and_then(|found| found.get_mut(command)) {
                command.input = Some(body);
                command.nested.extend(nested);
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
    fn a_line_is_parsed_as_by_a_shell() {
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

    fn nested(source: &str) -> Vec<String> {
        pipelines(source).into_iter().flatten().flat_map(|command| command.nested).collect()
    }

    #[test]
    fn substitutions_within_expansions_are_kept() {
        // A shell runs `rm a` in each of them.
        for source in [
            "echo ${x:-$(rm a)} b",
            "echo ${x:=$(rm a)} b",
            "echo ${x:+$(rm a)} b",
            "echo ${x?$(rm a)} b",
            "echo ${x#$(rm a)} b",
            "echo ${x[$(rm a)]} b",
            "echo ${x:-`rm a`} b",
            "echo ${x:-<(rm a)} b",
            "echo ${x:-${y:-$(rm a)}} b",
            "echo ${x:-\"}\"$(rm a)} b",
            "echo ${x:-'}'$(rm a)} b",
            "echo ${x:-\\}$(rm a)} b",
            "echo ${x:-\"'$(rm a)'\"} b",
            "echo \"${x:-'$(rm a)'}\" b",
            "echo \"${x:-'}$(rm a)'}\" b",
            "echo \"${x:-\"'$(rm a)'\"}\" b",
            "echo ${x:-$(( '$(rm a)' ))} b",
            "echo $(( $(rm a) )) b",
            "echo $(( ($(rm a)) + 1 )) b",
            "echo $(( '$(rm a)' )) b",
            "echo $(( # $(rm a)\n)) b",
            "echo $((1<<x\n$(rm a)\nx\n)) b",
            "echo $(( ${x:-`rm a`} )) b",
            "cat <<E\n'$(rm a)'\nE\necho b",
            "cat <<E\n${x:-$(rm a)}\nE\necho b",
            "echo ${ rm a;} b",
            "echo \"${| rm a;}\" b",
        ] {
            let found: Vec<String> =
                nested(source).iter().map(|nested| nested.trim().replace(';', "")).collect();
            assert_eq!(found, ["rm a"], "{source}");
            let last = pipelines(source).pop().unwrap().pop().unwrap().words.pop().unwrap();
            assert_eq!(last.text, "b", "{source}");
        }
        for source in
            ["echo ${x:='$(rm a)'}", "cat <<'E'\n$(rm a)\nE", "cat <<E\n\\$(rm a)\nE", "echo $'$(rm a)'"]
        {
            assert_eq!(nested(source), [""; 0], "{source}");
        }
        // Shells do not agree on the meaning, so both are kept.
        assert_eq!(nested("(( '$(rm a)' ))"), ["rm a", " '$(rm a)' "]);
        assert_eq!(nested("((rm a))"), ["rm a"]);
    }

    /// Each of these runs `rm a` in bash, and something in it looks like a comment, a here-document or a quote.
    #[test]
    fn nothing_hides_a_command_that_follows() {
        for source in [
            "(( y = 1 << x ))\nrm a",
            "for ((i=1;i<1<<1;i++)); do true; done\nrm a",
            "(( # )); rm a",
            "(( # ))\nrm a",
            "x=( case ); rm a",
            "x=( in do ) ; rm a",
            "echo a >-&rm a",
            "echo a\r#; rm a",
            "cat <<E\nx\n\tE\nE\nrm a",
            "cat <<-E\nx\n\tE\nrm a",
            "cat <<$x\n$x\nrm a",
            "{fd}>/dev/null rm a",
            "2>/dev/null rm a",
        ] {
            let last = words(source).pop().unwrap().pop().unwrap();
            assert_eq!(last, ["rm", "a"], "{source}");
        }
        for source in [
            "echo \"$(cat <<E\nx\nE)\"; rm a",
            "echo \"$(echo $(( a[')'] )))\"; rm a",
            "echo \"$(x=( case ))\"; rm a",
        ] {
            let last = words(source).pop().unwrap().pop().unwrap();
            assert_eq!(last, ["rm", "a"], "{source}");
        }
    }

    #[test]
    fn a_substitution_ends_where_a_shell_ends_it() {
        for (source, inner) in [
            ("\"$(echo \")\"; rm a)\"", "echo \")\"; rm a"),
            ("\"$(echo \"$(echo \")\"; rm a)\")\"", "echo \"$(echo \")\"; rm a)\""),
            ("\"$(true # )\nrm a)\"", "true # )\nrm a"),
            ("\"$(cat <<'E'\nit's )\nE\n)\"", "cat <<'E'\nit's )\nE\n"),
            ("$((echo a; rm a) | cat)", "(echo a; rm a) | cat"),
            ("\"$(case x in x) rm a;; (esac) b;; esac)\"", "case x in x) rm a;; (esac) b;; esac"),
            ("\"$(case x in esac)\"", "case x in esac"),
            ("\"$(echo case)\"", "echo case"),
            ("\"$(>f case)\"", ">f case"),
            ("`echo \\`rm a\\``", "echo `rm a`"),
        ] {
            let source = format!("echo {source} ; c");
            assert_eq!(nested(&source), [inner], "{source}");
            assert_eq!(words(&source).last().unwrap(), &[["c"]], "{source}");
        }
        assert_eq!(words("echo $'\\'' ; c ; echo ''").len(), 3);
        assert_eq!(words("\"r\\\nm\" a"), [[["rm", "a"]]]);
    }

    #[test]
    fn a_word_before_a_redirection_is_kept_unless_it_is_a_number() {
        assert_eq!(words("sudo -u \"\">f rm a"), [[["sudo", "-u", "", "rm", "a"]]]);
        assert_eq!(words("\"2\">f rm"), [[["2", "rm"]]]);
        assert_eq!(words("$x>f rm"), [[["", "rm"]]]);
        assert_eq!(words("rm 2>f a 22<g"), [[["rm", "a"]]]);
    }

    #[test]
    fn no_source_takes_long() {
        const CHARACTERS: usize = 30_000;
        for piece in [
            "$(",
            "${",
            "$((",
            "((",
            "`",
            "${x:-",
            "\"$(",
            "$(( '",
            "$((#'\n) )",
            "<(",
            "case x in ",
            "<<E\n$(",
        ] {
            let begun = std::time::Instant::now();
            let found = pipelines(&piece.repeat(CHARACTERS / piece.len()));
            let kept: usize =
                found.iter().flatten().flat_map(|command| &command.nested).map(String::len).sum();
            assert!(kept <= 4 * CHARACTERS, "{piece}: {kept}");
            assert!(begun.elapsed().as_secs() < 20, "{piece}: {:?}", begun.elapsed());
        }
    }
}
