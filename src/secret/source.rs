//! The source of a secret's value, as the base state stores it.

use super::{Cipher, REDACTED, Secret, is_secret_name};
use crate::json::{Out, Raw};

/// The known state of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredSecret {
    /// The value.
    Open(Secret),
    /// A token that no present key opens. It is kept until the right key is given.
    Sealed(String),
    /// No value: it was redacted, or never given.
    Lost,
}

impl StoredSecret {
    /// Reads a stored or given text. Opens it if it is a token.
    #[must_use]
    pub fn read(text: &str, cipher: Option<&Cipher>) -> Self {
        if !Cipher::is_token(text) {
            return Secret::new(text).map_or(Self::Lost, Self::Open);
        }
        match cipher.and_then(|cipher| cipher.open(text)) {
            Some(secret) => Self::Open(secret),
            None => Self::Sealed(text.to_owned()),
        }
    }

    /// Returns the value. `None` if it is sealed or lost.
    #[must_use]
    pub fn secret(&self) -> Option<&Secret> {
        match self {
            Self::Open(secret) => Some(secret),
            Self::Sealed(_) | Self::Lost => None,
        }
    }

    /// Returns the text that is stored on disk: a token, or stars without a cipher. A sealed token stays the same.
    /// `None` if the value is lost.
    #[must_use]
    pub fn stored(&self, cipher: Option<&Cipher>) -> Option<String> {
        match (self, cipher) {
            (Self::Open(secret), Some(cipher)) => Some(cipher.seal(secret)),
            (Self::Open(_), None) => Some(REDACTED.to_owned()),
            (Self::Sealed(token), _) => Some(token.clone()),
            (Self::Lost, _) => None,
        }
    }
}

/// Why a source is invalid. No message contains a secret's value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The source is neither a string nor an object.
    #[error("secret {name:?}: expected a string or an object")]
    Shape {
        /// The secret's name.
        name: String,
    },
    /// The source's `kind` is unknown.
    #[error("secret {name:?}: unknown kind {kind:?}; StaticSecret and LookupSecret are known")]
    Kind {
        /// The secret's name.
        name: String,
        /// The unknown kind.
        kind: String,
    },
    /// A member is missing or is not a string.
    #[error("secret {name:?}: {member} has to be a string")]
    Member {
        /// The secret's name.
        name: String,
        /// The name of the member.
        member: &'static str,
    },
}

/// The source of a secret's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The value is stored here.
    Static {
        /// The value, or its state if it is not available.
        value: StoredSecret,
        /// The purpose of the secret.
        description: Option<String>,
    },
    /// The value is fetched: it is the body of the response to a GET request.
    Lookup {
        /// The absolute URL.
        url: String,
        /// The headers of the request, in order. Headers with a secret's name ([`is_secret_name`]) are secrets.
        headers: Vec<(String, StoredSecret)>,
        /// The purpose of the secret.
        description: Option<String>,
    },
}

impl Source {
    /// Makes a source of a given value.
    #[must_use]
    pub fn given(value: &str) -> Self {
        Self::Static {
            value: Secret::new(value).map_or(StoredSecret::Lost, StoredSecret::Open),
            description: None,
        }
    }

    /// Reads a source from a stored or sent JSON value: a string, `{"value": ..}`, or an object with its kind.
    ///
    /// # Errors
    /// [`SourceError`] if the source is invalid. It contains the secret's name, but no value.
    pub fn read(name: &str, raw: Raw<'_>, cipher: Option<&Cipher>) -> Result<Self, SourceError> {
        if let Some(text) = raw.as_str() {
            return Ok(Self::Static { value: StoredSecret::read(&text, cipher), description: None });
        }
        if !raw.is_object() {
            return Err(SourceError::Shape { name: name.to_owned() });
        }
        let text = |member: &'static str| match raw.get(member).filter(|value| !value.is_null()) {
            None => Ok(None),
            Some(value) => match value.as_str() {
                Some(text) => Ok(Some(text.into_owned())),
                None => Err(SourceError::Member { name: name.to_owned(), member }),
            },
        };
        let description = text("description")?;
        match text("kind")?.as_deref() {
            None | Some("StaticSecret") => {
                let value =
                    text("value")?.map_or(StoredSecret::Lost, |value| StoredSecret::read(&value, cipher));
                Ok(Self::Static { value, description })
            }
            Some("LookupSecret") => {
                let missing = || SourceError::Member { name: name.to_owned(), member: "url" };
                let url = text("url")?.ok_or_else(missing)?;
                let mut headers = Vec::new();
                for (header, value) in raw.get("headers").map(Raw::to_object).iter().flat_map(|all| {
                    all.keys().filter_map(|key| Some((key.to_owned(), all.get(key)?))).collect::<Vec<_>>()
                }) {
                    let value = value
                        .as_str()
                        .ok_or_else(|| SourceError::Member { name: name.to_owned(), member: "headers" })?;
                    let held = if is_secret_name(&header) {
                        StoredSecret::read(&value, cipher)
                    } else {
                        Secret::new(&*value).map_or(StoredSecret::Lost, StoredSecret::Open)
                    };
                    headers.push((header, held));
                }
                Ok(Self::Lookup { url, headers, description })
            }
            Some(kind) => Err(SourceError::Kind { name: name.to_owned(), kind: kind.to_owned() }),
        }
    }

    /// Returns the purpose of the secret.
    #[must_use]
    pub fn description(&self) -> Option<&str> {
        match self {
            Self::Static { description, .. } | Self::Lookup { description, .. } => description.as_deref(),
        }
    }

    /// Writes the source as the base state stores it: members in the reference's order, without nulls.
    pub(crate) fn write(&self, out: &mut Out, cipher: Option<&Cipher>) {
        out.open("{");
        if let Some(description) = self.description() {
            out.constant("description", description);
        }
        match self {
            Self::Static { value, .. } => {
                if let Some(value) = value.stored(cipher) {
                    out.constant("value", &value);
                }
                out.constant("kind", "StaticSecret");
            }
            Self::Lookup { url, headers, .. } => {
                out.constant("url", url);
                out.key("headers");
                out.open("{");
                for (name, value) in headers {
                    let text = match value.secret() {
                        Some(plain) if !is_secret_name(name) => Some(plain.expose().to_owned()),
                        Some(_) | None => value.stored(cipher),
                    };
                    if let Some(text) = text {
                        out.constant(name, &text);
                    }
                }
                out.close("}");
                out.constant("kind", "LookupSecret");
            }
        }
        out.close("}");
    }
}
