//! Rules for what an archive leaves out: patterns as the reference reads them, and files of a repository that may
//! contain tokens.

use std::path::{Component, Path};

use regex::Regex;

/// The default patterns: files that programs generate. The list is the reference's. The caller can turn them off.
pub(super) const GENERATED: [&str; 13] = [
    ".git/",
    "node_modules/",
    ".venv/",
    "venv/",
    "__pycache__/",
    ".mypy_cache/",
    ".pytest_cache/",
    ".ruff_cache/",
    "dist/",
    "build/",
    ".next/",
    "target/",
    "*.pyc",
];

/// Files within `.git` that are always left out: they may contain URLs with tokens.
const CREDENTIALS: [&str; 5] = ["config", "config.worktree", "credentials", ".git-credentials", "FETCH_HEAD"];

/// The patterns of what is left out.
pub(super) struct Rules(Vec<Rule>);

/// One pattern. Each step of a path is matched against one step of the pattern: `*` and `?` do not match a slash.
struct Rule {
    steps: Vec<Regex>,
    /// Whether the pattern ended in a slash: then it matches only folders and their content.
    folders_only: bool,
}

impl Rules {
    /// Makes rules from shell patterns: `*`, `?`, `[abc]`, `[!abc]`. A pattern of a single step matches at any depth.
    pub fn new(patterns: &[String]) -> Self {
        let rule = |pattern: &String| {
            let steps = pattern.trim_end_matches('/').split('/').map(step).collect();
            Rule { steps, folders_only: pattern.ends_with('/') }
        };
        Self(patterns.iter().map(rule).collect())
    }

    /// Returns whether the file or folder at this path below the archive's root is left out.
    pub fn leave_out(&self, place: &Path, is_folder: bool) -> bool {
        let steps: Vec<_> = place.components().map(|step| step.as_os_str().to_string_lossy()).collect();
        let matches = |step: &Regex, name: &str| step.is_match(name);
        holds_credentials(place)
            || self.0.iter().any(|rule| match rule.steps.as_slice() {
                [only] => {
                    let last = if is_folder || !rule.folders_only { steps.len() } else { steps.len() - 1 };
                    steps[..last].iter().any(|name| matches(only, name))
                }
                several => {
                    let begins = steps.len() >= several.len()
                        && several.iter().zip(&steps).all(|(step, name)| matches(step, name));
                    begins && (is_folder || !rule.folders_only || steps.len() > several.len())
                }
            })
    }
}

/// Returns whether a path is within a `.git` folder and may contain tokens: settings, `FETCH_HEAD` and reflogs.
fn holds_credentials(place: &Path) -> bool {
    let mut within = place.components().skip_while(|step| step.as_os_str() != ".git").skip(1).peekable();
    if within.peek().is_none() {
        return false;
    }
    let named = |step: Component<'_>, name: &str| step.as_os_str() == name;
    let steps: Vec<_> = within.collect();
    steps.iter().any(|step| named(*step, "logs"))
        || steps.last().is_some_and(|last| CREDENTIALS.iter().any(|name| named(*last, name)))
}

/// Translates one step of a pattern into an expression that matches a whole name.
fn step(pattern: &str) -> Regex {
    let mut expression = String::from("(?s)^");
    let mut rest = pattern.chars();
    while let Some(letter) = rest.next() {
        match letter {
            '*' => expression.push_str(".*"),
            '?' => expression.push('.'),
            '[' => match class(rest.as_str()) {
                Some((set, after)) => {
                    expression.push_str(&set);
                    rest = after.chars();
                }
                None => expression.push_str("\\["),
            },
            _ => expression.push_str(&regex::escape(letter.encode_utf8(&mut [0; 4]))),
        }
    }
    expression.push('$');
    // A backward range such as `[z-a]` is invalid. It matches nothing.
    Regex::new(&expression).unwrap_or_else(|_| nothing())
}

#[expect(clippy::expect_used, reason = "a constant expression, which a test compiles")]
fn nothing() -> Regex {
    Regex::new(r"[^\s\S]").expect("it is an expression")
}

/// Translates the set of characters that begins after a `[`. Also returns the text after the set. `None` if the set has
/// no end.
fn class(text: &str) -> Option<(String, &str)> {
    let (is_not, body) = text.strip_prefix('!').map_or((false, text), |body| (true, body));
    // A closing bracket at the beginning is one of the characters.
    let from = usize::from(body.starts_with(']'));
    let end = from + body.get(from..)?.find(']')?;
    let mut set = String::from(if is_not { "[^" } else { "[" });
    for letter in body[..end].chars() {
        if matches!(letter, '[' | ']' | '\\' | '^' | '&' | '~') {
            set.push('\\');
        }
        set.push(letter);
    }
    set.push(']');
    Some((set, &body[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leave_out(pattern: &str, place: &str, is_folder: bool) -> bool {
        Rules::new(&[pattern.to_owned()]).leave_out(Path::new(place), is_folder)
    }

    /// The expected values are those of `_path_is_excluded` in the reference's `file_router.py`.
    #[test]
    fn patterns_leave_out_the_same_as_the_reference() {
        for (pattern, place, is_folder, wanted) in [
            ("build/", "build", true, true),
            ("build/", "build", false, false),
            ("build/", "a/build/x", false, true),
            ("build", "a/build", false, true),
            ("*.pyc", "a/b.pyc", false, true),
            ("*.pyc", "a.pyc/b", false, true),
            ("secrets/prod", "secrets/prod", false, true),
            ("secrets/prod", "secrets/prod/key", false, true),
            ("secrets/prod", "a/secrets/prod", false, false),
            ("secrets/prod/", "secrets/prod", false, false),
            ("secrets/prod/", "secrets/prod", true, true),
            ("secrets/prod/", "secrets/prod/key", false, true),
            ("*/test", "a/test", false, true),
            ("*/test", "a/b/test", false, false),
            ("a/*/c", "a/x/c", false, true),
            ("[ab]x", "bx", false, true),
            ("[!ab]x", "bx", false, false),
            ("[!ab]x", "cx", false, true),
            ("[]a]", "]", false, true),
            ("[ab", "[ab", false, true),
            ("[z-a]", "z", false, false),
            ("[a^]", "^", false, true),
            ("a?c", "abc", false, true),
            ("a.c", "abc", false, false),
            ("{a,b}", "a", false, false),
            ("{a,b}", "{a,b}", false, true),
            ("A", "a", false, false),
            ("a", "ab", false, false),
            ("", "a", false, false),
            ("/", "a", true, false),
            ("a\\b", "a\\b", false, true),
            ("line\nbreak", "line\nbreak", false, true),
        ] {
            assert_eq!(leave_out(pattern, place, is_folder), wanted, "{pattern:?} {place:?} {is_folder}");
        }
    }

    #[test]
    fn tokens_of_a_repository_are_left_out_whatever_the_patterns_are() {
        for (place, wanted) in [
            (".git/config", true),
            ("a/.git/modules/b/config", true),
            (".git/logs", true),
            (".git/modules/b/logs/HEAD", true),
            (".git/FETCH_HEAD", true),
            (".git/HEAD", false),
            (".git/config/x", false),
            (".git", false),
            ("config", false),
            ("logs/a", false),
        ] {
            assert_eq!(Rules::new(&[]).leave_out(Path::new(place), false), wanted, "{place}");
        }
    }

    #[test]
    fn the_expression_for_nothing_matches_no_text() {
        assert!(!nothing().is_match("a") && !nothing().is_match(""));
    }
}
