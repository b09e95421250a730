//! A secret as a document of settings holds it: known, sealed or left out.

use super::{REDACTED, Secret};
use crate::event::decode::DecodeError;
use crate::event::dump::Out;
use crate::event::json::Raw;
use crate::event::model::{Field, Reading, Text, expected};

/// What every sealed value begins with: a Fernet token's version and the first bytes of its time.
pub const SEAL: &str = "gAAAAA";

/// A secret as a document holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stored {
    /// The value is known. It is dumped as [`REDACTED`].
    Known(Secret),
    /// The value is sealed, and nobody has opened it: it is kept as it is.
    Sealed(Text),
    /// The value was left out.
    Redacted,
}

/// How documents are written that hold secrets.
#[derive(Clone, Copy)]
pub enum Expose<'c> {
    /// [`REDACTED`] in place of each.
    Redacted,
    /// The values themselves.
    Plain,
    /// Each sealed by this cipher.
    Sealed(&'c dyn Fn(&Secret) -> Text),
}

impl Stored {
    /// The value, where it is known.
    #[must_use]
    pub fn known(&self) -> Option<&Secret> {
        match self {
            Self::Known(secret) => Some(secret),
            Self::Sealed(_) | Self::Redacted => None,
        }
    }

    /// Opens a sealed value, if `open` can; otherwise it stays sealed.
    pub fn open(&mut self, open: impl FnOnce(&str) -> Option<Secret>) {
        if let Self::Sealed(token) = self
            && let Some(secret) = open(token)
        {
            *self = Self::Known(secret);
        }
    }

    /// The same with the text that is to be written: a known value becomes what `expose` makes of it, a sealed
    /// one that is to be redacted is left out.
    #[must_use]
    pub fn exposed(&self, expose: Expose<'_>) -> Self {
        match (self, expose) {
            (Self::Known(secret), Expose::Plain) => Self::Sealed(secret.expose().into()),
            (Self::Known(secret), Expose::Sealed(seal)) => Self::Sealed(seal(secret)),
            (Self::Known(_) | Self::Sealed(_) | Self::Redacted, Expose::Redacted) | (Self::Redacted, _) => {
                Self::Redacted
            }
            (Self::Sealed(token), Expose::Plain | Expose::Sealed(_)) => Self::Sealed(token.clone()),
        }
    }

    /// What a document's text stands for: nothing, where it is blank.
    #[must_use]
    pub fn of(text: &str) -> Option<Self> {
        match text {
            REDACTED => Some(Self::Redacted),
            text if text.starts_with(SEAL) => Some(Self::Sealed(text.into())),
            text => Secret::new(text).map(Self::Known),
        }
    }
}

impl Field for Stored {
    fn read(raw: Raw<'_>, _: Reading) -> Result<Self, DecodeError> {
        let text = raw.as_str().ok_or_else(|| expected("a string"))?;
        // A blank one is none, which the caller's reader says before.
        Ok(Self::of(&text).unwrap_or(Self::Redacted))
    }

    fn write(&self, out: &mut Out) {
        match self {
            Self::Known(_) | Self::Redacted => out.text(REDACTED),
            Self::Sealed(token) => out.text(token),
        }
    }
}

/// Reads a secret that may be missing: null and blank texts are none.
pub(crate) fn read_optional(raw: Raw<'_>, reading: Reading) -> Result<Option<Stored>, DecodeError> {
    if raw.as_str().is_some_and(|text| text.trim().is_empty()) {
        return Ok(None);
    }
    Option::read(raw, reading)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_prints_as_stars_and_is_written_as_asked() {
        let stored = Stored::of("sk-1").unwrap();
        assert_eq!(format!("{stored:?}"), "Known(**********)");
        let text = |stored: &Stored| {
            let mut out = Out::default();
            stored.write(&mut out);
            out.finish()
        };
        assert_eq!(text(&stored), r#""**********""#);
        assert_eq!(text(&stored.exposed(Expose::Plain)), r#""sk-1""#);
        let seal = |secret: &Secret| Text::from(format!("gAAAAA{}", secret.expose().len()));
        assert_eq!(text(&stored.exposed(Expose::Sealed(&seal))), r#""gAAAAA4""#);
        assert_eq!(text(&stored.exposed(Expose::Redacted)), r#""**********""#);
    }

    #[test]
    fn a_sealed_value_that_does_not_open_is_kept() {
        let mut stored = Stored::of("gAAAAABx").unwrap();
        stored.open(|_| None);
        assert_eq!(stored, Stored::Sealed("gAAAAABx".into()));
        assert_eq!(stored.known(), None);
        stored.open(|token| Secret::new(token.len().to_string()));
        assert_eq!(stored.known().map(Secret::expose), Some("8"));
        assert_eq!(Stored::of(" "), None);
        assert_eq!(Stored::of(REDACTED), Some(Stored::Redacted));
    }
}
