//! Which tools a group of hooks is for.

use regex::Regex;

/// A compiled matcher.
#[derive(Debug, Clone)]
pub(super) enum Matcher {
    /// Everything, also what is no tool.
    All,
    /// The tool of that name.
    Name(String),
    /// Tools whose whole name it fits.
    Pattern(Box<Regex>),
    /// Nothing: `/../` around what is no regular expression.
    Nothing,
}

impl Matcher {
    /// `*` or nothing is all; `/../` a regular expression; so is anything with a sign of one in it, unless it is
    /// none; the rest is a name. Source: `runtime.md` section 7.1.
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
        let looks_like_one = text.contains(['|', '.', '*', '+', '?', '[', ']', '(', ')', '^', '$', '\\']);
        match whole(text).filter(|_| looks_like_one) {
            Some(regex) => Self::Pattern(Box::new(regex)),
            None => Self::Name(text.to_owned()),
        }
    }

    /// Whether the hooks are for this tool; `None` is a point that is about no tool.
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
