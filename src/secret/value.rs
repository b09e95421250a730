//! A value that prints stars.

use std::fmt;

use zeroize::Zeroizing;

/// What stands for a secret where it may not be shown; the reference writes the same ten stars.
pub const REDACTED: &str = "**********";

/// A text that nobody may read by accident: it prints stars and is wiped from memory when it is let go of.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// The secret of a text; `None` for what holds none: nothing, blanks, or stars that once stood for one.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Option<Self> {
        let text = Zeroizing::new(text.into());
        (!text.trim().is_empty() && *text != REDACTED).then_some(Self(text))
    }

    /// The text itself. Whoever asks answers for where it goes.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(REDACTED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_prints_stars_and_blanks_are_none() {
        let secret = Secret::new("hunter2").unwrap();
        assert_eq!(format!("{secret:?} {:?}", Some(&secret)), "********** Some(**********)");
        assert_eq!(secret.expose(), "hunter2");
        assert_eq!([Secret::new(""), Secret::new(" \n"), Secret::new(REDACTED)], [None, None, None]);
    }
}
