//! Tutorial pages: their commands print what the pages show.
//!
//! In a block of the language `console`, each line that begins with `$ ` is a command, and the lines after it are its
//! output. `…` stands for any text within a line, a line of `...` for any lines. `UPDATE_GOLDEN=1 cargo test` replaces
//! an output that differs. Parts that vary from run to run must then be marked again.
#![cfg(all(unix, feature = "cli"))]

use std::path::Path;

use crate::support::desk::Desk;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns whether a line is the expected one.
fn line_fits(expected: &str, line: &str) -> bool {
    let mut pieces = expected.split('…');
    let Some(mut rest) = pieces.next().and_then(|first| line.strip_prefix(first)) else { return false };
    let pieces: Vec<&str> = pieces.collect();
    let Some((last, between)) = pieces.split_last() else { return rest.is_empty() };
    for piece in between {
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.ends_with(last)
}

/// Returns whether lines are the expected ones.
fn fits(expected: &[&str], lines: &[&str]) -> bool {
    match expected.split_first() {
        None => lines.is_empty(),
        Some((&"...", rest)) => (0..=lines.len()).any(|skip| fits(rest, &lines[skip..])),
        Some((first, rest)) => {
            lines.split_first().is_some_and(|(line, lines)| line_fits(first, line) && fits(rest, lines))
        }
    }
}

/// Runs a page's commands. Returns the page with the printed outputs, and the outputs that differ from the page.
fn run_page(page: &str) -> (String, Vec<String>) {
    let desk = Desk::new();
    let (mut written, mut wrong, mut lines) = (String::new(), Vec::new(), page.lines().peekable());
    let mut is_console = false;
    while let Some(line) = lines.next() {
        written += line;
        written += "\n";
        is_console = if is_console { line != "```" } else { line == "```console" };
        let Some(command) = line.strip_prefix("$ ").filter(|_| is_console) else { continue };
        let mut expected = Vec::new();
        while let Some(line) = lines.next_if(|line| *line != "```" && !line.starts_with("$ ")) {
            expected.push(line);
        }
        let printed = desk.run(command);
        let printed: Vec<&str> = printed.lines().map(str::trim_end).collect();
        let fits = fits(&expected, &printed);
        for line in if fits { &expected } else { &printed } {
            written += line;
            written += "\n";
        }
        if !fits {
            wrong.push(format!("$ {command}\n{}", printed.join("\n")));
        }
    }
    (written, wrong)
}

#[track_caller]
fn assert_page(name: &str) {
    let path = root().join("docs").join(name);
    let page = std::fs::read_to_string(&path).unwrap();
    let (written, wrong) = run_page(&page);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, written).unwrap();
        return;
    }
    assert!(wrong.is_empty(), "docs/{name} does not show\n{}", wrong.join("\n\n"));
}

#[test]
fn an_audit_is_as_its_page_shows() {
    assert_page("audit.md");
}

#[test]
fn a_thousand_conversations_move_as_their_page_shows() {
    assert_page("migration.md");
}

#[cfg(feature = "server")]
#[test]
fn a_day_of_an_operator_is_as_its_page_shows() {
    assert_page("operator.md");
}

#[test]
fn the_readme_shows_what_its_commands_print() {
    assert_page("../README.md");
}

#[test]
fn retention_is_as_its_page_shows() {
    assert_page("retention.md");
}

#[test]
fn privacy_is_as_its_page_shows() {
    assert_page("privacy.md");
}

#[test]
fn only_marked_parts_may_differ() {
    for (expected, printed) in
        [("a … c", "a b b c"), ("…", ""), ("… s", "0.1 s"), ("a…", "a"), ("x", "x"), ("…b…d", "abcd")]
    {
        assert!(line_fits(expected, printed), "{expected:?} {printed:?}");
    }
    for (expected, printed) in
        [("a … c", "a b d"), ("x", "xy"), ("… s", "0.1 ms "), ("a…b", "ab c"), ("…bb", "b")]
    {
        assert!(!line_fits(expected, printed), "{expected:?} {printed:?}");
    }
    assert!(fits(&["...", "c"], &["a", "b", "c"]) && fits(&["a", "..."], &["a"]));
    assert!(!fits(&["...", "c"], &["c", "d"]) && !fits(&["a"], &[]) && !fits(&[], &["a"]));
}
