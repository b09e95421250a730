//! Selects the tools that a group of hooks applies to.

use regex::Regex;

/// A compiled matcher.
#[derive(Debug, Clone)]
pub(super) enum Matcher {
    /// Every tool, and every point that is not about a tool.
    All,
    /// The tool with this name.
    Name(String),
    /// The tools whose whole name matches the expression.
    Pattern(Box<Regex>),
    /// No tool: the text between the slashes of `/../` is not a valid regular expression.
    Nothing,
}

impl Matcher {
    /// Compiles a matcher. An empty text or `*` matches everything. `/../` is a regular expression. A text with a
    /// special character of regular expressions is one too, if it is valid. Any other text is a name. Source:
    /// `docs/reference/hooks.md#matcher`.
    pub fn new(text: &str) -> Self {
        let whole = |pattern: &str| Regex::new(&format!("^(?:{pattern})$")).ok();
        if text.is_empty() || text == "*" {
            return Self::All;
        }
        if let Some(pattern) = text.strip_prefix('/').and_then(|rest| rest.strip_suffix('/'))
            && !pattern.is_empty()
        {
            return whole(pattern).map_or(Self::Nothing, |regex| Self::Pattern(Box::new(regex)));
        }
        let looks_like_regex = text.contains(['|', '.', '*', '+', '?', '[', ']', '(', ')', '^', '$', '\\']);
        match whole(text).filter(|_| looks_like_regex) {
            Some(regex) => Self::Pattern(Box::new(regex)),
            None => Self::Name(text.to_owned()),
        }
    }

    /// Returns whether the hooks apply to this tool. `tool` is `None` at a point that is not about a tool.
    pub fn matches(&self, tool: Option<&str>) -> bool {
        match (self, tool) {
            (Self::All, _) => true,
            (Self::Name(name), Some(tool)) => name == tool,
            (Self::Pattern(regex), Some(tool)) => regex.is_match(tool),
            (Self::Name(_) | Self::Pattern(_), None) | (Self::Nothing, _) => false,
        }
    }
}

impl PartialEq for Matcher {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::All, Self::All) | (Self::Nothing, Self::Nothing) => true,
            (Self::Name(one), Self::Name(other)) => one == other,
            (Self::Pattern(one), Self::Pattern(other)) => one.as_str() == other.as_str(),
            (Self::All | Self::Nothing | Self::Name(_) | Self::Pattern(_), _) => false,
        }
    }
}
