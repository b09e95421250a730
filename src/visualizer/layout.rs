//! Columns: how wide text is, where it is cut and where it is wrapped.

use std::borrow::Cow;

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::style::{Line, Span, Style};

/// Columns between tab stops.
const TAB: usize = 8;

/// Returns the number of columns that `text` takes.
#[must_use]
pub fn columns(text: &str) -> usize {
    text.width()
}

/// Returns `text`, or the part of it that fits in `width` columns together with `…`.
#[must_use]
pub fn cut(text: &str, width: usize) -> Cow<'_, str> {
    if columns(text) <= width {
        return Cow::Borrowed(text);
    }
    if width == 0 {
        return Cow::Borrowed("");
    }
    let mut used = 0;
    let end = text
        .char_indices()
        .find(|(_, character)| {
            used += character.width().unwrap_or(0);
            used >= width
        })
        .map_or(text.len(), |(at, _)| at);
    Cow::Owned(format!("{}…", &text[..end]))
}

/// Returns `line` with spaces in place of its tabs. There is a tab stop every eight columns.
pub(super) fn expand_tabs(line: &str) -> Cow<'_, str> {
    if !line.contains('\t') {
        return Cow::Borrowed(line);
    }
    let mut out = String::with_capacity(line.len() + TAB);
    let mut column = 0;
    for (index, part) in line.split('\t').enumerate() {
        if index > 0 {
            let spaces = TAB - column % TAB;
            out.extend(std::iter::repeat_n(' ', spaces));
            column += spaces;
        }
        out.push_str(part);
        column += columns(part);
    }
    Cow::Owned(out)
}

/// Returns `line` in rows of at most `width` columns. A row is broken after a space if there is one in its last half,
/// otherwise anywhere.
pub(super) fn wrap(line: Line, width: usize) -> Vec<Line> {
    if line.width() <= width {
        return vec![line];
    }
    let characters: Vec<(char, Style)> =
        line.spans.iter().flat_map(|span| span.text.chars().map(|c| (c, span.style))).collect();
    let mut rows = Vec::new();
    let mut from = 0;
    while from < characters.len() {
        let (mut end, mut used, mut space) = (from, 0, None);
        while let Some((character, _)) = characters.get(end) {
            let columns = character.width().unwrap_or(0);
            // A row has at least one character, however wide it is.
            if used + columns > width && end > from {
                break;
            }
            used += columns;
            end += 1;
            if *character == ' ' && used > width / 2 {
                space = Some(end);
            }
        }
        let is_last = end == characters.len();
        let fits = characters.get(end).is_none_or(|(next, _)| *next == ' ');
        let end = if is_last || fits { end } else { space.unwrap_or(end) };
        rows.push(gather(&characters[from..end]));
        from = end;
        // The space at which a row ends is not shown, and it does not begin the next row.
        if !is_last && characters.get(from).is_some_and(|(next, _)| *next == ' ') {
            from += 1;
        }
    }
    rows
}

/// Joins consecutive characters of one style into spans, and removes trailing spaces.
fn gather(characters: &[(char, Style)]) -> Line {
    let mut spans: Vec<Span> = Vec::new();
    for (character, style) in characters {
        match spans.last_mut() {
            Some(span) if span.style == *style => span.text.push(*character),
            _ => spans.push(Span { text: character.to_string(), style: *style }),
        }
    }
    if let Some(last) = spans.last_mut() {
        last.text.truncate(last.text.trim_end_matches(' ').len());
    }
    Line { spans }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::visualizer::style::Colour;

    fn rows(text: &str, width: usize) -> Vec<String> {
        wrap(Line::new(text, Style::PLAIN), width).iter().map(Line::plain).collect()
    }

    #[test]
    fn a_long_line_is_wrapped() {
        assert_eq!(rows("short", 10), ["short"]);
        assert_eq!(rows("one two three", 10), ["one two", "three"]);
        assert_eq!(rows("exactly ten", 7), ["exactly", "ten"]);
        assert_eq!(rows("abcdefghij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(rows("a bcdefghijkl", 6), ["a bcde", "fghijk", "l"]);
        assert_eq!(rows("日本語", 4), ["日本", "語"]);
        assert_eq!(rows("日本", 1), ["日", "本"]);
    }

    #[test]
    fn a_wrapped_line_keeps_its_styles() {
        let line = Line::new("ab", Colour::Red).with("cdef", Colour::Blue);
        let wrapped = wrap(line, 3);
        assert_eq!(wrapped[0], Line::new("ab", Colour::Red).with("c", Colour::Blue));
        assert_eq!(wrapped[1], Line::new("def", Colour::Blue));
    }

    #[test]
    fn tabs_go_to_their_stops() {
        assert_eq!(expand_tabs("a\tb"), "a       b");
        assert_eq!(expand_tabs("     1\tx"), "     1  x");
        assert_eq!(expand_tabs("12345678\tx"), "12345678        x");
    }

    #[test]
    fn a_cut_is_marked() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abcd", 3), "ab…");
        assert_eq!(cut("日本語", 4), "日…");
        assert_eq!(cut("abc", 0), "");
    }
}
