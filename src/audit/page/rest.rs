//! Says which rows a page does not show, and which command prints them.

use super::put;
use super::table::ROWS_SHOWN;
use super::text::{escape, number};
use crate::audit::report::{LIMIT, Report};
use crate::store::{SqlAnswer, SqlLimits, Truncation};

/// Writes how many rows a table does not show, and how to get them. Writes nothing if it shows all of them.
///
/// `given` holds the parameters that the report was run with.
pub(super) fn rest(html: &mut String, report: &Report, given: &[(String, String)], answer: &SqlAnswer) {
    let rows = answer.rows.len();
    if answer.truncated == Some(Truncation::Behind) {
        html.push_str("<p class=\"soft\">What the newest events say is missing.</p>\n");
    }
    // No command prints what derived tables do not have.
    let truncated = answer.truncated.filter(|why| *why != Truncation::Behind);
    let what = match (rows, truncated) {
        (_, None) if rows <= ROWS_SHOWN => return,
        (0, Some(Truncation::Bytes)) => "Rows were left out, because the first one is too large".to_owned(),
        (0, _) => "Rows were left out".to_owned(),
        (_, truncated) => format!("The {}", shown(rows, ROWS_SHOWN, truncated)),
    };
    let more = if truncated.is_some() { "more" } else { "all" };
    put(
        html,
        format_args!(
            "<p class=\"soft\">{what}; <code>{}</code> prints {more}.</p>\n",
            escape(&command(report, given, rows, truncated))
        ),
    );
}

/// Returns which of an answer's rows are shown, if at most `most` of them are: `first 12 of 40`.
pub(super) fn shown(rows: usize, most: usize, truncated: Option<Truncation>) -> String {
    let bound = if truncated.is_some() { "more than " } else { "" };
    format!("first {} of {bound}{}", rows.min(most), number(rows as f64))
}

/// Returns the command that prints the rows that are missing. A letter N or the word MIB stands for a larger number.
/// `rows` is the number of rows of the answer.
fn command(
    report: &Report,
    given: &[(String, String)],
    rows: usize,
    truncated: Option<Truncation>,
) -> String {
    let raises_limit = truncated.is_some() && report.has(LIMIT);
    let mut command = format!("annals report {}", report.name);
    let is_asked = |name: &str| report.has(name) && !(raises_limit && name == LIMIT);
    for (name, value) in given.iter().filter(|(name, _)| is_asked(name)) {
        command.push_str(&format!(" --param {}", word(&format!("{name}={value}"))));
    }
    if raises_limit {
        command.push_str(" --param limit=N");
    }
    match truncated {
        Some(Truncation::Rows) => command.push_str(" --rows N"),
        Some(Truncation::Bytes) => command.push_str(" --memory MIB"),
        None if rows > SqlLimits::default().rows_max => command.push_str(&format!(" --rows {rows}")),
        Some(Truncation::Limit | Truncation::Behind) | None => {}
    }
    command + " --csv"
}

/// Returns a word as it is typed into a shell. It is quoted if the shell would change it.
fn word(text: &str) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "-_.:/=,@+".contains(character);
    if text.chars().all(is_plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit;

    #[test]
    fn the_command_asks_the_same_question() {
        let given = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let of = |name: &str, pairs: &[(&str, &str)], truncated| {
            command(audit::report(name).unwrap(), &given(pairs), 3, truncated)
        };
        assert_eq!(
            of("commands", &[("since", "2026-01-31"), ("text", "it's; rm")], None),
            r"annals report commands --param since=2026-01-31 --param 'text=it'\''s; rm' --csv"
        );
        let limited = [("limit", "3"), ("tool", "terminal")];
        assert_eq!(
            of("slow-calls", &limited, None),
            "annals report slow-calls --param limit=3 --param tool=terminal --csv"
        );
        assert_eq!(
            of("slow-calls", &limited, Some(Truncation::Limit)),
            "annals report slow-calls --param tool=terminal --param limit=N --csv"
        );
        // A page passes its parameters to reports that may not have them.
        assert_eq!(
            of("secrets", &[("since", "2026")], Some(Truncation::Bytes)),
            "annals report secrets --memory MIB --csv"
        );
        let rows = SqlLimits::default().rows_max + 1;
        assert_eq!(
            command(audit::report("secrets").unwrap(), &[], rows, None),
            format!("annals report secrets --rows {rows} --csv")
        );
    }
}
