//! Prepares text for HTML. The text of a conversation is treated as hostile and is always escaped.

use crate::ids::Timestamp;

/// The number of characters of a value that a page shows.
const CHARACTERS_MAX: usize = 300;

/// Returns `text` for use as HTML text or as an attribute's value in double quotes. Markup is escaped. Control
/// characters and characters that change the direction of writing become the replacement character.
pub(super) fn escape(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            '\n' | '\t' => html.push(character),
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}' => {
                html.push('\u{fffd}');
            }
            other if other.is_control() => html.push('\u{fffd}'),
            other => html.push(other),
        }
    }
    html
}

/// Returns the beginning of `text`, escaped.
pub(super) fn shorten(text: &str) -> String {
    match text.char_indices().nth(CHARACTERS_MAX) {
        Some((end, _)) => escape(&text[..end]) + "…",
        None => escape(text),
    }
}

/// Returns a time in readable form, to the second. `None` if the text is not a time.
pub(super) fn moment(text: &str) -> Option<String> {
    let to_seconds = text.get(..19).filter(|_| text.is_ascii() && text.len() <= 40)?;
    Timestamp::parse(to_seconds).map(|_| to_seconds.replace('T', " "))
}

/// Returns a number with separated thousands and with the significant decimals only.
pub(super) fn number(value: f64) -> String {
    let size = value.abs();
    let decimals = if size > 0.0 && size < 1.0 {
        // Three significant digits.
        usize::try_from(2 - size.log10().floor() as i64).unwrap_or(0).min(10)
    } else if size < 100.0 && value.fract() != 0.0 {
        2
    } else {
        0
    };
    let text = format!("{value:.decimals$}");
    let text = trimmed(&text);
    let (digits, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |digits| ("-", digits));
    let mut whole = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            whole.push('\u{202f}'); // a narrow space that does not break
        }
        whole.push(digit);
    }
    format!("{sign}{whole}{rest}")
}

/// Returns a number without the zeros at the end of its decimals.
pub(super) fn trimmed(number: &str) -> String {
    let is_long = number.contains('.');
    if is_long { number.trim_end_matches('0').trim_end_matches('.').to_owned() } else { number.to_owned() }
}

/// Returns an amount in US dollars, the currency of the price table. Small amounts have more digits.
pub(super) fn money(value: f64) -> String {
    if value == 0.0 || value.abs() < 0.01 {
        return format!("${}", number(value));
    }
    let decimals = if value.abs() < 10.0 { 3 } else { 2 };
    let text = format!("{value:.decimals$}");
    let (whole, cents) = text.split_once('.').unwrap_or((&text, ""));
    format!("${}.{cents}", number(whole.parse().unwrap_or_default()))
}

/// Returns a time such as `340 ms`, `4.2 s`, `3 min 10 s` or `2 h 5 min`.
pub(super) fn duration(ms: f64) -> String {
    if ms < 1000.0 {
        return format!("{ms:.0} ms");
    }
    let seconds = ms / 1000.0;
    if seconds < 60.0 {
        return format!("{} s", number((seconds * 10.0).round() / 10.0));
    }
    let minutes = (seconds / 60.0).floor();
    if minutes < 60.0 {
        return format!("{minutes} min {:.0} s", (seconds % 60.0).floor());
    }
    format!("{} h {} min", number((minutes / 60.0).floor()), minutes % 60.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_escaped() {
        assert_eq!(
            escape("<script>alert(\"1\")</script>&'\u{202e}\u{0}"),
            "&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&amp;&#39;\u{fffd}\u{fffd}"
        );
        assert_eq!(shorten(&"<".repeat(400)), "&lt;".repeat(300) + "…");
    }

    #[test]
    fn only_a_time_is_written_as_a_time() {
        assert_eq!(moment("2026-11-21T03:31:51.510005").as_deref(), Some("2026-11-21 03:31:51"));
        assert_eq!(moment("<script>alert(1)</script>"), None);
        assert_eq!(moment("soon"), None);
    }

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!(number(1_234_567.0), "1\u{202f}234\u{202f}567");
        assert_eq!(number(0.0074), "0.0074");
        assert_eq!(number(0.000_000_75), "0.00000075");
        assert_eq!(number(12.5), "12.5");
        assert_eq!(number(-1000.0), "-1\u{202f}000");
        assert_eq!(number(0.0), "0");
    }

    #[test]
    fn amounts_and_times_are_written_for_people() {
        let amounts = [0.0, 0.0042, 0.5, 9.9996, 18.157, 1_234_567.891];
        let expected = ["$0", "$0.0042", "$0.500", "$10.000", "$18.16", "$1\u{202f}234\u{202f}567.89"];
        assert_eq!(amounts.map(money), expected);
        let times = [0.0, 340.2, 4_240.0, 59_990.0, 190_000.0, 7_500_000.0];
        assert_eq!(times.map(duration), ["0 ms", "340 ms", "4.2 s", "60 s", "3 min 10 s", "2 h 5 min"]);
    }
}
