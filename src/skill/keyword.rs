//! Finds a keyword in a message.

/// Returns whether the message, which is in lower case, contains `keyword` without an ASCII letter or digit directly
/// before or after it: `git` is not in `github`, `/linear` is in `use /linear`.
pub(super) fn stands_in(keyword: &str, message: &str) -> bool {
    let keyword = keyword.to_lowercase();
    if keyword.is_empty() {
        return false;
    }
    let is_boundary =
        |byte: Option<&u8>| byte.is_none_or(|byte| !byte.is_ascii_lowercase() && !byte.is_ascii_digit());
    let bytes = message.as_bytes();
    let mut from = 0;
    while let Some(at) = message[from..].find(&keyword).map(|at| from + at) {
        let before = at.checked_sub(1).and_then(|before| bytes.get(before));
        if is_boundary(before) && is_boundary(bytes.get(at + keyword.len())) {
            return true;
        }
        from = at + message[at..].chars().next().map_or(1, char::len_utf8);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::stands_in;

    #[test]
    fn a_keyword_within_a_word_does_not_count() {
        assert!(stands_in("Git", "use git, please"));
        assert!(stands_in("git", "git"));
        assert!(!stands_in("/linear", "see/linear"));
        assert!(stands_in("git", "github and git"));
        assert!(stands_in("git", "égit_"));
        assert!(!stands_in("git", "github"));
        assert!(!stands_in("issue", "tissue 1issue issue2"));
        assert!(!stands_in("", "anything"));
    }
}
