//! The tests that the documents and the examples of `--help` show only commands that exist, with options that exist.

use std::path::{Path, PathBuf};

use clap::Command;
use clap::error::ErrorKind;

use super::help;

/// Returns the words of the first command of a line, as a shell reads them. What follows it, such as a comment, a pipe or
/// a redirection, is left out.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut is_word, mut quote) = (Vec::new(), String::new(), false, None);
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(mark), _) if letter == mark => quote = None,
            (Some(_), _) => word.push(letter),
            (None, '\'' | '"') => (quote, is_word) = (Some(letter), true),
            (None, '\\') => word.extend(letters.next()),
            (None, '#') if !is_word => break,
            (None, '|' | ';' | '<' | '&') => break,
            // The number of the redirected stream is no word.
            (None, '>') => {
                if matches!(&*word, "1" | "2") {
                    is_word = false;
                }
                break;
            }
            (None, _) if letter.is_whitespace() => {
                if std::mem::take(&mut is_word) {
                    words.push(std::mem::take(&mut word));
                }
            }
            (None, _) => {
                word.push(letter);
                is_word = true;
            }
        }
    }
    if is_word {
        words.push(word);
    }
    words
}

/// Returns the arguments of `annals` in a line. `None` if the line runs another program.
fn arguments(line: &str) -> Option<Vec<String>> {
    let words = words(line);
    let is_setting = |word: &&String| {
        word.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_' || c.is_ascii_digit())
        })
    };
    let settings = words.iter().take_while(is_setting).count();
    let found = words.into_iter().skip(settings).collect::<Vec<_>>();
    (found.first().is_some_and(|program| program == "annals")).then_some(found)
}

/// Returns why `annals` does not take the arguments of this line. `None` if it does, or if the line runs another program.
fn refusal(line: &str) -> Option<String> {
    // What another program prints is not known here.
    let arguments = arguments(line).filter(|words| !words.iter().any(|word| word.contains("$(")))?;
    match help::command().try_get_matches_from(arguments) {
        Ok(_) => None,
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => None,
        Err(error) => Some(error.to_string().lines().next().unwrap_or_default().to_owned()),
    }
}

/// Returns the commands in the blocks of code of a page, with the numbers of their lines. A line that ends with a backslash
/// goes on in the next one.
fn commands(page: &str) -> Vec<(usize, String)> {
    let (mut found, mut is_shell, mut open) = (Vec::new(), false, None::<(usize, String)>);
    for (number, line) in page.lines().enumerate() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            is_shell = matches!(language, "sh" | "console");
            continue;
        }
        if !is_shell {
            continue;
        }
        let line = line.strip_prefix("$ ").unwrap_or(line);
        let (at, mut text) = open.take().unwrap_or((number + 1, String::new()));
        text.push_str(line.trim_end_matches('\\'));
        if line.ends_with('\\') {
            open = Some((at, text));
        } else {
            found.push((at, text));
        }
    }
    found
}

/// Returns the examples of a command and of its subcommands. A description follows an example after several spaces.
fn examples(command: &Command) -> Vec<String> {
    let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let own = text.lines().filter_map(|line| line.strip_prefix("  "));
    let own = own.map(|line| line.split("  ").next().unwrap_or_default().to_owned());
    own.chain(command.get_subcommands().flat_map(examples)).collect()
}

fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let docs =
        std::fs::read_dir(root.join("docs")).expect("docs/").map(|entry| entry.expect("a page").path());
    let mut pages: Vec<_> =
        docs.filter(|path| path.extension().is_some_and(|ending| ending == "md")).collect();
    pages.extend(["README.md", "CONTRIBUTING.md", "SECURITY.md"].map(|name| root.join(name)));
    pages.sort();
    pages
}

#[test]
fn the_documents_show_commands_that_exist() {
    let (mut wrong, mut count) = (Vec::new(), 0);
    for path in pages() {
        let page = std::fs::read_to_string(&path).expect("a page");
        for (number, line) in commands(&page) {
            count += usize::from(arguments(&line).is_some());
            if let Some(why) = refusal(&line) {
                wrong.push(format!("{}:{number}: {line}\n    {why}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 150, "{count} commands");
}

#[test]
fn the_examples_of_the_help_are_commands_that_exist() {
    let examples = examples(&help::command());
    let wrong: Vec<_> =
        examples.iter().filter_map(|line| refusal(line).map(|why| format!("{line}\n    {why}"))).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let count = examples.iter().filter(|line| arguments(line).is_some()).count();
    assert!(count > 80, "{count} examples");
}

#[test]
fn lines_are_read_as_a_shell_reads_them() {
    for (line, expected) in [
        ("annals list", Some("annals|list")),
        ("A_1=x B='y z' annals  query 'SELECT 1; -- |' | head", Some("annals|query|SELECT 1; -- |")),
        ("annals verify --against \"a b\" 2> errors   # why", Some("annals|verify|--against|a b")),
        ("annals serve & sleep 1", Some("annals|serve")),
        ("annals search ''", Some("annals|search|")),
        ("sqlite3 annals.db 'SELECT 1'", None),
        ("# annals list", None),
        ("", None),
    ] {
        assert_eq!(arguments(line).map(|words| words.join("|")).as_deref(), expected, "{line}");
    }
    assert!(refusal("annals no-such-command").is_some() && refusal("annals list --no-such").is_some());
    assert!(refusal("annals --version").is_none() && refusal("annals list --help").is_none());
}
