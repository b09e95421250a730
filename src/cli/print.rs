//! Prints tables and lines for people and JSON for programs to standard output, and everything else to
//! standard error.

use std::borrow::Cow;
use std::io::{IsTerminal as _, Write as _};
use std::sync::LazyLock;
use std::time::Duration;

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use super::fit::fit;
use crate::error::{Error, Result};
use crate::ids::Timestamp;
use crate::visualizer::{Colour, Line, Span, Style, escaped};

pub(super) use crate::visualizer::one_line;

/// The form of the output.
pub(super) struct Output {
    /// Whether to print JSON for programs.
    pub json: bool,
    /// Whether standard output is a terminal.
    pub is_terminal: bool,
    /// Whether to print colours.
    pub is_coloured: bool,
    /// Receives the output, from the first byte on. `None` inside if there is no pager.
    #[cfg(unix)]
    pager: std::sync::OnceLock<Option<super::pager::Pager>>,
}

/// Returns whether standard output was a terminal when the program was started. A pager may take its place later.
pub(super) fn is_terminal() -> bool {
    static IS_TERMINAL: LazyLock<bool> = LazyLock::new(|| std::io::stdout().is_terminal());
    *IS_TERMINAL
}

/// Prints a line to standard error, without sequences that control a terminal. A failed write is ignored, because the
/// exit code still reports the result.
pub(super) fn tell(text: std::fmt::Arguments<'_>) {
    let _ignored = std::io::stderr().write_fmt(format_args!("{}\n", styled_only(&text.to_string())));
}

impl Output {
    /// `paged`: whether the output goes through a pager on a terminal.
    pub(super) fn new(json: bool, paged: bool) -> Self {
        let is_terminal = is_terminal();
        let output = Self {
            json,
            is_terminal,
            is_coloured: is_terminal && std::env::var_os("NO_COLOR").is_none(),
            #[cfg(unix)]
            pager: std::sync::OnceLock::new(),
        };
        #[cfg(unix)]
        if json || !paged || !is_terminal {
            let _first = output.pager.set(None);
        }
        output
    }

    /// Prints a line.
    pub(super) fn line(&self, text: impl AsRef<str>) -> Result<()> {
        let text = text.as_ref();
        self.text(text).and_then(|()| self.raw(b"\n"))
    }

    /// Prints a table. On a terminal it is as wide as that: what does not fit is cut, columns that have no room are named in
    /// a remark.
    pub(super) fn table(&self, mut table: Table) -> Result<()> {
        let left_out = if self.is_terminal { fit(&mut table, usize::from(width())) } else { Vec::new() };
        self.line(table.trim_fmt())?;
        if !left_out.is_empty() {
            let names = left_out.join(", ").to_lowercase();
            self.remark(format!(
                "not shown for want of room: {names}; a wider window shows them, and --json"
            ));
        }
        Ok(())
    }

    /// Prints a text, without a line break after it.
    pub(super) fn text(&self, text: &str) -> Result<()> {
        self.raw(self.safe(text).as_bytes())
    }

    /// Returns `text` as it may be printed. If standard output is a terminal, everything that controls a terminal is
    /// removed, except this program's own styles.
    pub(super) fn safe<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.is_terminal { styled_only(text) } else { Cow::Borrowed(text) }
    }

    /// Prints bytes unchanged. The caller must make sure that they are harmless.
    pub(super) fn raw(&self, bytes: &[u8]) -> Result<()> {
        #[cfg(unix)]
        self.pager.get_or_init(super::pager::Pager::start);
        std::io::stdout().write_all(bytes).map_err(Error::io("writing to", "standard output"))
    }

    /// Writes buffered output.
    pub(super) fn flush(&self) -> Result<()> {
        std::io::stdout().flush().map_err(Error::io("writing to", "standard output"))
    }

    /// Prints a JSON value on one line.
    pub(super) fn value(&self, value: &Value) -> Result<()> {
        self.json_text(&value.to_string()).and_then(|()| self.raw(b"\n"))
    }

    /// Prints JSON unchanged. On a terminal, control characters are replaced by the equivalent JSON escapes.
    pub(super) fn json_text(&self, text: &str) -> Result<()> {
        let text = if self.is_terminal { escaped(text) } else { Cow::Borrowed(text) };
        self.raw(text.as_bytes())
    }

    /// Prints an error, and what to do about it.
    pub(super) fn error(&self, error: &Error, hint: Option<String>) {
        self.fault(&error.to_string(), hint);
    }

    /// Prints what is wrong, and what to do about it.
    pub(super) fn fault(&self, what: &str, hint: Option<String>) {
        if self.json {
            let _ = self.value(&json!({"error": what, "hint": hint}));
        }
        tell(format_args!("annals: {what}"));
        if let Some(hint) = hint {
            tell(format_args!("        {hint}"));
        }
    }

    /// Prints a remark to standard error, unless the output is JSON.
    pub(super) fn remark(&self, text: impl AsRef<str>) {
        if !self.json {
            tell(format_args!("{}", text.as_ref()));
        }
    }

    /// Prints a warning to standard error, also if the output is JSON.
    pub(super) fn warn(&self, text: impl AsRef<str>) {
        tell(format_args!("annals: {}", text.as_ref()));
    }

    /// Returns `text` in bold if the output is coloured.
    pub(super) fn bold(&self, text: &str) -> String {
        self.styled(text, "1")
    }

    /// Returns `text` in grey if the output is coloured.
    pub(super) fn dim(&self, text: &str) -> String {
        self.styled(text, "2")
    }

    /// Returns `text` in an ANSI style if the output is coloured.
    pub(super) fn styled(&self, text: &str, code: &str) -> String {
        if self.is_coloured { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    /// Returns a line of a drawing with its styles.
    pub(super) fn paint(&self, line: &Line) -> String {
        if !self.is_coloured {
            return line.plain();
        }
        let mut painted = String::new();
        for span in &line.spans {
            match code(span.style) {
                code if code.is_empty() => painted.push_str(&span.text),
                code => painted.push_str(&format!("\u{1b}[{code}m{}\u{1b}[0m", span.text)),
            }
        }
        painted
    }

    /// Returns a line with foreground and background colours swapped.
    pub(super) fn paint_reversed(&self, line: &Line) -> String {
        let reversed = |span: &Span| match code(span.style) {
            code if code.is_empty() => format!("\u{1b}[7m{}\u{1b}[0m", span.text),
            code => format!("\u{1b}[7;{code}m{}\u{1b}[0m", span.text),
        };
        line.spans.iter().map(reversed).collect()
    }

    /// Returns a progress bar on standard error. Hidden if the output is JSON or standard error is not a terminal.
    ///
    /// `unit` is the name of the counted things, in the plural.
    pub(super) fn progress(&self, unit: &str) -> ProgressBar {
        if self.json {
            return ProgressBar::hidden();
        }
        bar(unit)
    }
}

/// Returns a progress bar on standard error. Hidden unless that is a terminal.
pub(super) fn bar(unit: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let template =
        format!("{{wide_bar}} {{human_pos}}/{{human_len}} {unit}  {{msg}}  {{elapsed}} of {{duration}}");
    let style = ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(0).with_style(style);
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

/// Returns the ANSI codes of a style. Empty for the plain style.
fn code(style: Style) -> String {
    let colour = style.colour.and_then(|colour| match colour {
        Colour::Red => Some("31"),
        Colour::Green => Some("32"),
        Colour::Yellow => Some("33"),
        Colour::BrightYellow => Some("93"),
        Colour::Gold => Some("38;5;178"),
        // Dark blue cannot be read on black.
        Colour::Blue => Some("94"),
        Colour::Magenta => Some("35"),
        Colour::Cyan => Some("36"),
        // The terminal's default colour, because white cannot be read on white.
        Colour::White => None,
        Colour::Grey => Some("90"),
    });
    let marks = [(style.bold, "1"), (style.dim, "2"), (style.italic, "3")];
    let marks = marks.into_iter().filter(|(is_on, _)| *is_on).map(|(_, code)| code);
    marks.chain(colour).collect::<Vec<_>>().join(";")
}

/// Makes a table with headings. `right` holds the indexes of the columns with numbers.
///
/// Each row is one line. On a terminal the last column is cut to fit. In a pipe nothing is cut.
pub(super) fn table(headings: &[&str], right: &[usize]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    if is_terminal() {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width());
    } else {
        table.set_content_arrangement(ContentArrangement::Disabled);
    }
    table.set_header(headings.iter().map(|heading| heading.to_uppercase()));
    let last = headings.len().saturating_sub(1);
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, if index == last { 0 } else { 2 }));
        if index != last {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    for index in right {
        if let Some(column) = table.column_mut(*index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Makes a row that stays on one line.
pub(super) fn row<T: Into<comfy_table::Row>>(cells: T) -> comfy_table::Row {
    let mut row = cells.into();
    row.max_height(1);
    row
}

/// Returns the maximum number of characters in a line.
pub(super) fn width() -> u16 {
    let configured = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let measured = || terminal_size::terminal_size().map(|(columns, _)| columns.0);
    configured.or_else(measured).unwrap_or(100).clamp(40, 200)
}

/// Formats a number of bytes for people.
pub(super) fn bytes(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.2} GB", bytes as f64 / 1e9),
    }
}

/// Formats a number with commas between the thousands.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats a number with its noun: `1 event`, `2 events`.
pub(super) fn plural(number: u64, one: &str) -> String {
    format!("{} {one}{}", count(number), if number == 1 { "" } else { "s" })
}

/// Formats a time for people, to the second.
pub(super) fn time(time: Timestamp) -> String {
    time.to_rfc3339().get(..19).map_or_else(|| time.to_rfc3339(), |text| text.replace('T', " "))
}

/// Formats a time as people say it: `3 h ago`. A time in the future, or of more than four weeks ago, is a date.
pub(super) fn ago(then: Timestamp, now: Timestamp) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    match now.0.saturating_sub(then.0).div_euclid(1_000_000) {
        seconds @ 0..MINUTE => format!("{seconds} s ago"),
        seconds @ MINUTE..HOUR => format!("{} min ago", seconds / MINUTE),
        seconds @ HOUR..DAY => format!("{} h ago", seconds / HOUR),
        seconds if (DAY..=28 * DAY).contains(&seconds) => format!("{} d ago", seconds / DAY),
        _ => time(then).get(..10).map_or_else(|| time(then), str::to_owned),
    }
}

/// Formats a span of time in its two largest units.
pub(super) fn span(microseconds: i64) -> String {
    let seconds = microseconds as f64 / 1e6;
    match seconds {
        s if s < 60.0 => format!("{s:.1} s"),
        s if s < 3600.0 => format!("{:.0} min {:.0} s", (s / 60.0).floor(), s % 60.0),
        s if s < 86_400.0 => format!("{:.0} h {:.0} min", (s / 3600.0).floor(), s % 3600.0 / 60.0),
        s => format!("{:.0} d {:.0} h", (s / 86_400.0).floor(), s % 86_400.0 / 3600.0),
    }
}

/// Returns `text` without anything that controls a terminal, except line breaks and tabs.
pub(super) fn harmless(text: &str) -> String {
    crate::visualizer::harmless(text).into_owned()
}

/// Returns `text` without anything that controls a terminal, except this program's own styles: `ESC [ digits ; m`.
fn styled_only(text: &str) -> Cow<'_, str> {
    if matches!(crate::visualizer::harmless(text), Cow::Borrowed(_)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("\u{1b}[") {
        out.push_str(&harmless(&rest[..at]));
        let after = &rest[at + 2..];
        let length = after.bytes().position(|byte| !byte.is_ascii_digit() && byte != b';');
        match length.filter(|length| after.as_bytes()[*length] == b'm') {
            Some(length) => {
                out.push_str(&rest[at..at + 3 + length]);
                rest = &after[length + 1..];
            }
            None => {
                // The text from here to the next sequence is cleaned as a whole.
                let end = after.find("\u{1b}[").map_or(rest.len(), |next| at + 2 + next);
                out.push_str(&harmless(&rest[at..end]));
                rest = &rest[end..];
            }
        }
    }
    out.push_str(&harmless(rest));
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_said_in_its_largest_unit() {
        let now = Timestamp::parse("2026-02-01T12:00:00Z").unwrap();
        for (then, said) in [
            ("2026-02-01T12:00:00Z", "0 s ago"),
            ("2026-02-01T11:59:01Z", "59 s ago"),
            ("2026-02-01T11:59:00Z", "1 min ago"),
            ("2026-02-01T11:00:01Z", "59 min ago"),
            ("2026-02-01T09:00:00Z", "3 h ago"),
            ("2026-01-31T12:00:01Z", "23 h ago"),
            ("2026-01-31T12:00:00Z", "1 d ago"),
            ("2026-01-04T12:00:00Z", "28 d ago"),
            ("2026-01-03T11:59:59Z", "2026-01-03"),
            ("2026-02-01T12:00:01Z", "2026-02-01"),
            ("1970-01-01T00:00:00Z", "1970-01-01"),
        ] {
            assert_eq!(ago(Timestamp::parse(then).unwrap(), now), said, "{then}");
        }
        assert_eq!(ago(Timestamp(i64::MIN), Timestamp(i64::MAX)), time(Timestamp(i64::MIN))[..10]);
    }

    #[test]
    fn only_own_styles_reach_a_terminal() {
        for own in ["plain", "\u{1b}[1mbold\u{1b}[0m", "\u{1b}[38;5;178mgold\u{1b}[0m", "a\tb\nc"] {
            assert_eq!(styled_only(own), own);
        }
        for hostile in [
            "\u{1b}]0;title\u{7}",
            "\u{1b}]52;c;aGk=\u{1b}\\",
            "\u{1b}[2J",
            "\u{1b}[1\u{1b}]0;x\u{7}m",
            "\u{9b}2J",
            "\u{1b}c",
            "\u{1b}[31",
            "a\rb",
            "\u{202e}txt",
            "\u{8}\u{8}",
        ] {
            for text in [hostile.to_owned(), format!("\u{1b}[1m{hostile}\u{1b}[0m{hostile}")] {
                let shown = styled_only(&text).replace("\u{1b}[1m", "").replace("\u{1b}[0m", "");
                let is_control = |letter: char| letter.is_control() && letter != '\n' && letter != '\t';
                assert!(
                    !shown.chars().any(|letter| is_control(letter) || letter == '\u{202e}'),
                    "{text:?}: {shown:?}"
                );
            }
        }
    }

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(plural(1, "event"), "1 event");
        assert_eq!(bytes(1_500), "1.5 kB");
        assert_eq!(span(3_900_000_000), "1 h 5 min");
    }
}
