//! Text that others wrote, made fit to be shown: it cannot drive a terminal, and what is written to be
//! invisible is seen.
//!
//! Escape sequences (ECMA-48) are taken out, because a program's coloured output is legible without
//! them. One that does not end is no sequence, so nothing can be hidden behind it. Other control
//! characters, marks that turn the direction of writing (Unicode TR 36, 3.2) and invisible characters
//! become visible.

use std::borrow::Cow;

/// The last character of the tags and selectors that nobody sees, from U+E0000 on.
const INVISIBLE_LAST: char = '\u{e0fff}';

/// `text` without escape sequences, its lines ended by `\n` alone; of the control characters only `\n` and
/// `\t` are left.
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
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        if let Some(bytes) = escape_sequence(rest) {
            rest = &rest[bytes..];
            continue;
        }
        rest = &rest[character.len_utf8()..];
        match character {
            '\n' | '\t' => out.push(character),
            // A terminal's line ending; two are what its driver makes of one. Alone it would write over the
            // line, and is seen.
            '\r' if rest.trim_start_matches('\r').starts_with('\n') => rest = rest.trim_start_matches('\r'),
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

/// JSON that says the same, with nothing in it that drives a terminal or is not seen: such characters are escaped. Between
/// its strings only white space can be one.
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

/// `text` in one line of at most `width` columns: harmless, with single spaces, cut with `…`.
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

/// Whether a character may not be shown as it is, or begins what may not.
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

/// How many bytes the escape sequence has that `text` begins with; `None` where it begins with none that
/// ends.
fn escape_sequence(text: &str) -> Option<usize> {
    let mut characters = text.char_indices();
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
        // A string, up to its terminator; one that runs over the line is none.
        ']' | 'P' | 'X' | '^' | '_' => loop {
            let next = characters.next()?;
            match next.1 {
                '\u{7}' if kind == ']' => return Some(end(next)),
                '\u{9c}' => return Some(end(next)),
                '\u{1b}' => return characters.next().filter(|(_, last)| *last == '\\').map(end),
                '\n' | '\r' => return None,
                _ => {}
            }
        },
        '\u{20}'..='\u{2f}' => {
            let last = characters.find(|(_, character)| !matches!(character, '\u{20}'..='\u{2f}'))?;
            matches!(last.1, '\u{30}'..='\u{7e}').then(|| end(last))
        }
        '\u{30}'..='\u{7e}' => Some(first.len_utf8() + kind.len_utf8()),
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
    fn what_nobody_should_see_is_seen() {
        assert_eq!(harmless("a\u{0}\u{8}\u{7f}"), "a␀␈␡");
        assert_eq!(harmless("x\u{202e}fdp.exe"), "x<U+202E>fdp.exe");
        assert_eq!(harmless("a\u{200b}b\u{e0041}"), "a<U+200B>b<U+E0041>");
        assert_eq!(harmless("\u{80}\u{9c}"), "<U+0080><U+009C>");
        // No terminal ends a line at these; who reads the text should not either.
        assert_eq!(harmless("a\u{85}b\u{2028}c"), "a<U+0085>b<U+2028>c");
        // A family of one picture is joined by what has no width.
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
