//! Makes text from others safe to show: it cannot control a terminal, and invisible characters become visible.
//!
//! Escape sequences (ECMA-48) are removed, because a program's coloured output is legible without them. A sequence
//! that does not end is not removed, so it cannot hide text. Other control characters, marks that change the
//! direction of writing (Unicode TR 36, 3.2) and invisible characters become visible.

use std::borrow::Cow;

/// The last of the invisible tags and selectors, which begin at U+E0000.
const INVISIBLE_LAST: char = '\u{e0fff}';

/// Returns `text` without escape sequences. Its lines end with `\n` only, and its only control characters are `\n`
/// and `\t`.
///
/// ```
/// use annals::visualizer::harmless;
///
/// assert_eq!(harmless("\u{1b}[31mred\u{1b}[0m\r\nbell\u{7}\u{202e}"), "red\nbell␇<U+202E>");
/// ```
#[must_use]
pub fn harmless(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_suspect) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut stops = Stops::default();
    let mut at = 0;
    while let Some(character) = text[at..].chars().next() {
        if let Some(end) = escape_sequence(text, at, &mut stops) {
            at = end;
            continue;
        }
        at += character.len_utf8();
        match character {
            '\n' | '\t' => out.push(character),
            // A terminal ends a line with `\r\n`, and its driver can make `\r\r\n` of that. A `\r` alone would
            // overwrite the line, so it becomes visible.
            '\r' => {
                let more = text[at..].bytes().take_while(|byte| *byte == b'\r').count();
                at += more;
                if !text[at..].starts_with('\n') {
                    out.extend(std::iter::repeat_n('\u{240d}', 1 + more));
                }
            }
            '\u{0}'..='\u{1f}' => out.push(char::from_u32(0x2400 + character as u32).unwrap_or('\u{fffd}')),
            '\u{7f}' => out.push('\u{2421}'),
            hidden if is_suspect(hidden) => {
                out.push_str(&format!("<U+{:04X}>", hidden as u32));
            }
            shown => out.push(shown),
        }
    }
    Cow::Owned(out)
}

/// Returns JSON with the same meaning, without characters that control a terminal or are invisible: they are escaped.
/// Between its strings, only white space can be such a character.
///
/// ```
/// use annals::visualizer::escaped;
///
/// assert_eq!(escaped("[\"bell\u{7}\u{9b}2J\u{202e}\"]"), r#"["bell\u0007\u009b2J\u202e"]"#);
/// ```
#[must_use]
pub fn escaped(json: &str) -> Cow<'_, str> {
    if !json.chars().any(is_suspect) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 32);
    for character in json.chars() {
        match character {
            '\r' => out.push(' '),
            hidden if is_suspect(hidden) => {
                for unit in hidden.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
            shown => out.push(shown),
        }
    }
    Cow::Owned(out)
}

/// Returns `text` in one line of at most `width` columns: harmless, with single spaces, and cut with `…`.
#[must_use]
pub fn one_line(text: &str, width: usize) -> String {
    let mut line = String::new();
    let mut used = 0;
    for word in harmless(text).split_whitespace() {
        if used > 0 {
            line.push(' ');
            used += 1;
        }
        let columns = super::layout::columns(word);
        if used + columns > width {
            line.push_str(word);
            return super::layout::cut(&line, width).into_owned();
        }
        line.push_str(word);
        used += columns;
    }
    line
}

/// Returns whether a character may not be shown as it is, or begins a sequence that may not.
fn is_suspect(character: char) -> bool {
    match character {
        '\n' | '\t' => false,
        // Marks of direction, isolates, overrides.
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        // Line and paragraph separators, spaces without width, invisible operators, annotation marks.
        '\u{2028}' | '\u{2029}' | '\u{200b}' | '\u{2060}'..='\u{2064}' | '\u{206a}'..='\u{206f}' => true,
        '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{180e}' | '\u{115f}' | '\u{1160}' | '\u{3164}' => true,
        '\u{e0000}'..=INVISIBLE_LAST => true,
        other => other.is_control(),
    }
}

/// Where strings of control characters end, remembered so that a line is not searched again for each string that begins
/// in it.
#[derive(Default)]
struct Stops {
    /// From here on, and where the next end is: of a string that a bell does not end, and of one that it ends.
    known: [Option<(usize, usize)>; 2],
}

impl Stops {
    /// The next character at or after `from` that ends a string, well or not: a terminator, an escape, or the end of the
    /// line. The end of the text if there is none.
    fn next(&mut self, text: &str, from: usize, ends_at_bell: bool) -> usize {
        let known = &mut self.known[usize::from(ends_at_bell)];
        match *known {
            Some((begin, end)) if begin <= from && from <= end => end,
            _ => {
                let ends = |character| {
                    matches!(character, '\u{9c}' | '\u{1b}' | '\n' | '\r')
                        || (ends_at_bell && character == '\u{7}')
                };
                let end = text[from..].find(ends).map_or(text.len(), |at| from + at);
                *known = Some((from, end));
                end
            }
        }
    }
}

/// Returns the end of the escape sequence that begins at `at`. `None` if there is none, or if it does not end.
fn escape_sequence(text: &str, at: usize, stops: &mut Stops) -> Option<usize> {
    let mut characters = text[at..].char_indices().map(|(offset, character)| (at + offset, character));
    let (_, first) = characters.next()?;
    let kind = match first {
        '\u{1b}' => characters.next()?.1,
        '\u{9b}' => '[',
        '\u{9d}' => ']',
        '\u{90}' | '\u{98}' | '\u{9e}' | '\u{9f}' => 'P',
        _ => return None,
    };
    let end = |(at, character): (usize, char)| at + character.len_utf8();
    match kind {
        '[' => {
            let last = characters.find(|(_, character)| !matches!(character, '\u{20}'..='\u{3f}'))?;
            matches!(last.1, '\u{40}'..='\u{7e}').then(|| end(last))
        }
        // A string, up to its terminator. If it continues on the next line, it is not a sequence.
        ']' | 'P' | 'X' | '^' | '_' => {
            let from = characters.next().map_or(text.len(), |(at, _)| at);
            let stop = stops.next(text, from, kind == ']');
            let rest = &text[stop..];
            match rest.chars().next()? {
                '\u{1b}' => rest.starts_with("\u{1b}\\").then_some(stop + 2),
                '\n' | '\r' => None,
                terminator => Some(stop + terminator.len_utf8()),
            }
        }
        '\u{20}'..='\u{2f}' => {
            let last = characters.find(|(_, character)| !matches!(character, '\u{20}'..='\u{2f}'))?;
            matches!(last.1, '\u{30}'..='\u{7e}').then(|| end(last))
        }
        '\u{30}'..='\u{7e}' => Some(at + first.len_utf8() + kind.len_utf8()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_prints_for_a_terminal_is_legible() {
        for (text, shown) in [
            ("plain\n\ttext", "plain\n\ttext"),
            ("\u{1b}[1;31merror\u{1b}[0m: no", "error: no"),
            ("\u{1b}]8;;https://a.b\u{7}link\u{1b}]8;;\u{1b}\\!", "link!"),
            ("\u{1b}(B\u{1b}=\u{1b}7\u{1b}#8x", "x"),
            ("\u{9b}2Jx\u{9d}0;title\u{9c}y", "xy"),
            ("\u{1b}P1$r0m\u{1b}\\x", "x"),
            ("a\r\nb\r\r\nc\rd", "a\nb\nc␍d"),
        ] {
            assert_eq!(harmless(text), shown, "{text:?}");
        }
    }

    /// Each of these texts would take minutes if the rest of the line was searched again for every character.
    #[test]
    fn a_hostile_text_takes_time_in_proportion_to_its_length() {
        const COUNT: usize = 1_000_000;
        for (unit, shown) in
            [("\r", "\u{240d}"), ("\u{9d}", "<U+009D>"), ("\u{90}", "<U+0090>"), ("\u{1b}]", "\u{241b}]")]
        {
            let text = unit.repeat(COUNT);
            assert_eq!(harmless(&text).len(), shown.len() * COUNT);
        }
    }

    #[test]
    fn nothing_hides_behind_a_sequence_that_does_not_end() {
        for (text, shown) in [
            ("\u{1b}", "␛"),
            ("\u{1b}[31", "␛[31"),
            ("\u{1b}[31\u{1b}[0mx", "␛[31x"),
            ("\u{1b}]0;title", "␛]0;title"),
            ("\u{1b}]0;a\nb\u{7}", "␛]0;a\nb␇"),
            ("\u{1b}Psecret", "␛Psecret"),
            ("\u{1b}é", "␛é"),
        ] {
            assert_eq!(harmless(text), shown, "{text:?}");
        }
    }

    #[test]
    fn what_is_meant_to_stay_unseen_is_seen() {
        assert_eq!(harmless("a\u{0}\u{8}\u{7f}"), "a␀␈␡");
        assert_eq!(harmless("x\u{202e}fdp.exe"), "x<U+202E>fdp.exe");
        assert_eq!(harmless("a\u{200b}b\u{e0041}"), "a<U+200B>b<U+E0041>");
        assert_eq!(harmless("\u{80}\u{9c}"), "<U+0080><U+009C>");
        // A terminal does not end a line at these characters, so a reader should not see a line end either.
        assert_eq!(harmless("a\u{85}b\u{2028}c"), "a<U+0085>b<U+2028>c");
        // The character without width stays, because it joins two pictures into one picture of a family.
        assert_eq!(harmless("👨\u{200d}👩"), "👨\u{200d}👩");
    }

    #[test]
    fn one_line_is_one_line() {
        assert_eq!(one_line(" a\n\tb  c\u{1b}[1m ", 80), "a b c");
        assert_eq!(one_line("abcdef", 4), "abc…");
        assert_eq!(one_line("abcd", 4), "abcd");
        assert_eq!(one_line("ab cd", 4), "ab …");
        assert_eq!(one_line("日本語", 5), "日本…");
        assert_eq!(one_line("", 4), "");
    }

    #[test]
    fn escaped_json_says_the_same_and_drives_nothing() {
        let every: String =
            (0..0x11_0000).filter_map(char::from_u32).filter(|letter| is_suspect(*letter)).collect();
        let text = format!("{every}\u{9b}2J\u{1b}]0;title\u{7}\tplain\n\u{e9}");
        let json = serde_json::json!({"text": text}).to_string();
        let shown = escaped(&json);
        assert!(!shown.chars().any(is_suspect));
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap()["text"], text);
        assert_eq!(escaped("{\r\n \"a\": 1}"), "{ \n \"a\": 1}");
    }
}
