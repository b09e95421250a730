//! A secret value, which prints as stars.

use std::fmt;

use zeroize::Zeroizing;

/// The text shown in place of a secret. The reference writes the same ten stars.
pub const REDACTED: &str = "**********";

/// A text that is protected from being shown by accident: it prints stars, and is wiped from memory when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Makes a secret of a text. `None` if the text is empty, blank, or the stars of a redacted secret.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Option<Self> {
        let text = Zeroizing::new(text.into());
        (!text.trim().is_empty() && *text != REDACTED).then_some(Self(text))
    }

    /// Returns the text itself. The caller is responsible for where it goes.
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
