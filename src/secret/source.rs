//! Where a value comes from, as base state keeps it.

use super::{Cipher, REDACTED, Secret, is_secret_name};
use crate::event::dump::Out;
use crate::event::json::Raw;

/// What is known of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Held {
    /// The value.
    Open(Secret),
    /// Its token, which no key at hand opens. It stays what it is until the right one comes.
    Sealed(String),
    /// Nothing: it was redacted, or never given.
    Lost,
}

impl Held {
    /// What a stored or given text holds.
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

    /// The value, where it is at hand.
    #[must_use]
    pub fn secret(&self) -> Option<&Secret> {
        match self {
            Self::Open(secret) => Some(secret),
            Self::Sealed(_) | Self::Lost => None,
        }
    }

    /// The text that the disk keeps of it: a token, or stars where there is no key. A sealed one is kept.
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

/// Why a source is not one. No text of it holds a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// It is neither a text nor an object.
    #[error("secret {name:?}: expected a string or an object")]
    Shape {
        /// The secret's name.
        name: String,
    },
    /// Its `kind` is none that is known.
    #[error("secret {name:?}: unknown kind {kind:?}; StaticSecret and LookupSecret are known")]
    Kind {
        /// The secret's name.
        name: String,
        /// What it says.
        kind: String,
    },
    /// A member has to be there and be a text.
    #[error("secret {name:?}: {member} has to be a string")]
    Member {
        /// The secret's name.
        name: String,
        /// The member.
        member: &'static str,
    },
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// It is held here.
    Static {
        /// The value, or what is left of it.
        value: Held,
        /// What it is for.
        description: Option<String>,
    },
    /// It is fetched: the body of a GET's answer.
    Lookup {
        /// From where; absolute.
        url: String,
        /// What goes along, in order. Those whose names say so are secrets.
        headers: Vec<(String, Held)>,
        /// What it is for.
        description: Option<String>,
    },
}

impl Source {
    /// A value that is given.
    #[must_use]
    pub fn given(value: &str) -> Self {
        Self::Static { value: Secret::new(value).map_or(Held::Lost, Held::Open), description: None }
    }

    /// The source that a stored or sent value means: a text, `{"value": ..}`, or an object with its kind.
    ///
    /// # Errors
    /// [`SourceError`], which names the secret and no value.
    pub fn read(name: &str, raw: Raw<'_>, cipher: Option<&Cipher>) -> Result<Self, SourceError> {
        if let Some(text) = raw.as_str() {
            return Ok(Self::Static { value: Held::read(&text, cipher), description: None });
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
                let value = text("value")?.map_or(Held::Lost, |value| Held::read(&value, cipher));
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
                        Held::read(&value, cipher)
                    } else {
                        Secret::new(&*value).map_or(Held::Lost, Held::Open)
                    };
                    headers.push((header, held));
                }
                Ok(Self::Lookup { url, headers, description })
            }
            Some(kind) => Err(SourceError::Kind { name: name.to_owned(), kind: kind.to_owned() }),
        }
    }

    /// What it is for.
    #[must_use]
    pub fn description(&self) -> Option<&str> {
        match self {
            Self::Static { description, .. } | Self::Lookup { description, .. } => description.as_deref(),
        }
    }

    /// Writes it as base state keeps it, members in the reference's order, nulls left out.
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
