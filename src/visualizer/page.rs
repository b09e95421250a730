//! The lines of a drawing. Every text is made harmless, folded and wrapped when it is added.

use std::borrow::Cow;

use super::Options;
use super::harmless::harmless;
use super::layout::{cut, expand_tabs, wrap};
use super::style::{Colour, Line, Style};
use crate::event::Content;
use crate::hunks::{self, Change};
use crate::json::Raw;

/// The most rows of one line if texts are folded.
const ROWS_OF_A_LINE: usize = 4;
/// The columns for the remark on how much of a line is left out.
const REMARK: usize = 24;
/// The columns of a row if lines are not wrapped.
const COLUMNS: usize = 200;
/// The longest text that starts with `data:` and is still shown, in bytes.
const DATA_URL_BYTES_MAX: usize = 120;

/// The lines of a drawing. Text can only be added by its methods.
pub(super) struct Page {
    options: Options,
    lines: Vec<Line>,
}

impl Page {
    pub(super) fn new(options: &Options) -> Self {
        Self { options: *options, lines: Vec::new() }
    }

    /// Returns the number of columns of a row.
    pub(super) fn room(&self) -> usize {
        self.options.width.map_or(COLUMNS, |width| width.saturating_sub(super::INDENT).max(1))
    }

    /// Calls `write` with texts folded to `lines` lines, unless texts are not folded at all.
    pub(super) fn folded(&mut self, lines: usize, write: impl FnOnce(&mut Self)) {
        let most = self.options.lines_max;
        self.options.lines_max = most.min(lines);
        write(self);
        self.options.lines_max = most;
    }

    pub(super) fn into_lines(self) -> Vec<Line> {
        self.lines
    }

    /// Adds a line. A line that is too long is wrapped, if there is a width.
    pub(super) fn line(&mut self, mut line: Line) {
        for span in &mut line.spans {
            if let Cow::Owned(changed) = single(&span.text) {
                span.text = changed;
            }
        }
        match self.options.width {
            Some(_) => {
                let room = self.room();
                self.lines.extend(wrap(line, room));
            }
            None => self.lines.push(line),
        }
    }

    /// Adds a text. A long text is folded.
    pub(super) fn text(&mut self, text: &str, style: impl Into<Style>) {
        let style = style.into();
        self.text_by_line(text, |_, line| Line::new(line, style));
    }

    /// Adds a text. `look` styles each line; it also receives the line's place, 0-based.
    pub(super) fn text_by_line(&mut self, text: &str, look: impl Fn(usize, &str) -> Line) {
        let clean = harmless(text);
        let lines: Vec<&str> = clean.trim_end().lines().collect();
        let (head, hidden) = self.fold(lines.len());
        for (place, line) in lines.iter().enumerate() {
            if place == head && hidden > 0 {
                self.line(Line::new(format!("… {hidden} more lines"), Style::DIM));
            }
            if place < head || place >= head + hidden {
                let shown = self.shortened(line);
                self.line(look(place, &shown));
            }
        }
    }

    /// Returns how many of `lines` lines are shown first, and how many after them are left out. The last lines are
    /// shown too, because the end of a program's output matters most.
    fn fold(&self, lines: usize) -> (usize, usize) {
        let most = self.options.lines_max;
        if most == 0 || lines <= most + 1 {
            return (lines, 0);
        }
        let head = (most * 2).div_ceil(3);
        (head, lines - most)
    }

    fn shortened<'t>(&self, line: &'t str) -> Cow<'t, str> {
        let line = expand_tabs(line);
        let most = self.room() * ROWS_OF_A_LINE;
        if self.options.lines_max == 0 || line.len() <= most {
            return line;
        }
        let kept = cut(&line, most.saturating_sub(REMARK));
        if let Cow::Borrowed(_) = kept {
            return line;
        }
        let left = line.chars().count() - (kept.chars().count() - 1);
        Cow::Owned(format!("{kept} {left} more characters"))
    }

    /// Adds `name: text`. A text of several lines goes below the name. An empty text adds nothing.
    pub(super) fn field(&mut self, name: &str, text: &str, style: impl Into<Style>) {
        let (text, label) = (text.trim_end(), Style::BOLD.in_colour(Colour::Cyan));
        if text.is_empty() {
            return;
        }
        if text.contains(['\n', '\r']) {
            self.line(Line::new(format!("{name}:"), label));
            self.text(text, style);
        } else {
            let style = style.into();
            let text = self.shortened(&harmless(text)).into_owned();
            self.line(Line::new(format!("{name}:"), label).with(" ", style).with(text, style));
        }
    }

    /// Adds a text under a heading. An empty text adds nothing.
    pub(super) fn section(&mut self, name: &str, text: &str, style: impl Into<Style>) {
        if !text.trim().is_empty() {
            self.line(Line::new(format!("{name}:"), Style::BOLD));
            self.text(text, style);
        }
    }

    /// Adds a JSON value under a name: a string as text, any other value as JSON. `null` adds nothing.
    pub(super) fn value(&mut self, name: &str, value: Raw<'_>) {
        match value.as_str() {
            Some(text) if text.is_empty() => self.field(name, "\"\"", Style::DIM),
            Some(text) => self.field(name, &pictured(&text), Style::PLAIN),
            None if value.is_null() => {}
            // JSON may be written over several lines.
            None => self.field(name, &single(value.text()), Style::PLAIN),
        }
    }

    /// Adds the members of a JSON object, except those in `left_out`. Adds any other value as it is.
    pub(super) fn members(&mut self, value: Raw<'_>, left_out: &[&str]) {
        if value.is_object() {
            for (name, member) in value.members().filter(|(name, _)| !left_out.contains(&&**name)) {
                self.value(&name, member);
            }
        } else if !value.is_null() {
            self.text(value.as_str().as_deref().unwrap_or(value.text()), Style::PLAIN);
        }
    }

    /// Adds the parts of a message or a result. Returns whether any of them can be seen.
    pub(super) fn content(&mut self, content: &[Content], style: impl Into<Style>) -> bool {
        let (style, before) = (style.into(), self.lines.len());
        for part in content {
            match part {
                Content::Text(part) => self.text(&part.text, style),
                Content::Image(part) => {
                    for url in &part.image_urls {
                        let shown = match pictured(url) {
                            Cow::Borrowed(address) => format!("[image {}]", self.shortened(address)),
                            Cow::Owned(picture) => picture,
                        };
                        self.line(Line::new(shown, Colour::Magenta));
                    }
                    if part.image_urls.is_empty() {
                        self.line(Line::new("[no image]", Style::DIM));
                    }
                }
                Content::Unknown(part) => self.members(part.raw(), &[]),
            }
        }
        self.lines.len() > before
    }

    /// Adds the changes from `old` to `new`, with line numbers.
    pub(super) fn diff(&mut self, old: &str, new: &str, context: usize) {
        let mut script = Vec::new();
        for hunk in hunks::hunks(old, new, context) {
            let (old_start, old_lines) = (hunk.old_start, hunk.old_lines);
            let (new_start, new_lines) = (hunk.new_start, hunk.new_lines);
            script.push(format!("@@ -{old_start},{old_lines} +{new_start},{new_lines} @@"));
            script.extend(hunk.lines.iter().map(|(change, line)| {
                let mark = match change {
                    Change::Keep => ' ',
                    Change::Remove => '-',
                    Change::Add => '+',
                };
                format!("{mark}{line}")
            }));
        }
        self.patch(&script.join("\n"));
    }

    /// Adds a patch. The colour of each line shows what the line does.
    pub(super) fn patch(&mut self, patch: &str) {
        self.text_by_line(patch, |_, line| {
            let style = match line.as_bytes().first() {
                Some(b'+') => Colour::Green.into(),
                Some(b'-') => Colour::Red.into(),
                Some(b'@' | b'*') => Style::from(Colour::Cyan),
                _ => Style::DIM,
            };
            Line::new(line, style)
        });
    }
}

/// Returns `text` on one line. Line breaks and tabs, with the white space around them, become one space.
fn single(text: &str) -> Cow<'_, str> {
    let clean = harmless(text);
    if !clean.contains(['\n', '\t']) {
        return clean;
    }
    let lines: Vec<&str> = clean.split(['\n', '\t']).map(str::trim).filter(|line| !line.is_empty()).collect();
    Cow::Owned(lines.join(" "))
}

/// Returns `text` harmless and on one line, for titles.
pub(super) fn title(text: &str) -> String {
    super::harmless::one_line(text, 80)
}

/// Returns a picture's address as it is shown: `[image/png, 12 kB]` if the address contains the picture, otherwise
/// the address. Returns any other text as it is.
pub(super) fn pictured(text: &str) -> Cow<'_, str> {
    if let Some((head, data)) = text.strip_prefix("data:").and_then(|rest| rest.split_once(','))
        && text.len() > DATA_URL_BYTES_MAX
        && head.len() < DATA_URL_BYTES_MAX
    {
        let kind = head.split(';').next().filter(|kind| !kind.is_empty()).unwrap_or("data");
        let bytes = if head.ends_with(";base64") { decoded_bytes(data) } else { data.len() };
        return Cow::Owned(format!("[{kind}, {}]", size(bytes)));
    }
    Cow::Borrowed(text)
}

/// Returns the number of bytes that a base64 text encodes.
pub(super) fn decoded_bytes(base64: &str) -> usize {
    base64.trim_end_matches('=').len() * 3 / 4
}

/// Returns a number of bytes in a form that is easy to read.
pub(super) fn size(bytes: usize) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.0} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}
