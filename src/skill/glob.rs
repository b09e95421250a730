//! Path patterns as in `.gitignore`, as far as the reference supports them: `**/`, `**`, `*` and `?`.
//!
//! Why not the crate `globset`: to it, brackets, braces and backslashes are syntax, `a**b` stays within a folder, and
//! `?` is one byte. To the reference, they are text, any path and one character. So a skill would apply to other files.

use regex::Regex;

/// Returns whether the pattern matches the whole path. A pattern without `/` matches a name at any depth.
pub(super) fn matches(path: &str, pattern: &str) -> bool {
    if pattern.is_empty() {
        return false;
    }
    let deep = if pattern.contains('/') { String::new() } else { "**/".to_owned() };
    let whole = format!("{deep}{pattern}");
    let mut rest = whole.as_str();
    let mut expression = "(?s)^".to_owned();
    while let Some(first) = rest.chars().next() {
        let (length, part) = match first {
            '*' if rest.starts_with("**/") => (3, "(?:.*/)?".to_owned()),
            '*' if rest.starts_with("**") => (2, ".*".to_owned()),
            '*' => (1, "[^/]*".to_owned()),
            '?' => (1, "[^/]".to_owned()),
            other => (other.len_utf8(), regex::escape(other.encode_utf8(&mut [0; 4]))),
        };
        expression.push_str(&part);
        rest = &rest[length..];
    }
    expression.push('$');
    // A pattern that is too long for a regular expression matches nothing.
    Regex::new(&expression).is_ok_and(|expression| expression.is_match(path))
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_as_the_reference_matches_them() {
        for (pattern, path, expected) in [
            ("*.py", "a/b/c.py", true),
            ("*.py", "c.py", true),
            ("src/*.py", "src/a.py", true),
            ("src/*.py", "src/a/b.py", false),
            ("src/**/*.py", "src/b.py", true),
            ("src/**", "src/a/b", true),
            ("src/**", "src", false),
            ("a?c/**", "abc/d", true),
            ("a?c/x", "a/c/x", false),
            ("*.p+", "a.p+", true),
            ("*.PY", "a.py", false),
            ("", "a", false),
        ] {
            assert_eq!(matches(path, pattern), expected, "{pattern} {path}");
        }
    }
}
