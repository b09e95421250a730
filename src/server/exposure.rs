//! How much a caller wants to see of secrets: the header `X-Expose-Secrets` (`api.md` section 9).
//!
//! Whoever has a session key may see them, as with the reference: commands could read them anyway.

use axum::http::{HeaderMap, StatusCode};

use super::failure::Failure;
use crate::secret::{Cipher, Form};

const HEADER: &str = "x-expose-secrets";

/// How much a caller wants to see of secrets.
#[derive(Clone, Copy)]
pub(super) enum Exposure<'c> {
    /// Nothing.
    Hidden,
    /// Sealed under the server's key.
    Sealed(&'c Cipher),
    /// As they are.
    Plain,
}

impl<'c> Exposure<'c> {
    /// What a request asks for.
    ///
    /// # Errors
    /// 400 for another word, 503 where nothing can be sealed.
    pub fn of(headers: &HeaderMap, cipher: Option<&'c Cipher>) -> Result<Self, Failure> {
        let value = headers.get(HEADER).map(|value| value.to_str().unwrap_or("?").trim().to_lowercase());
        match value.as_deref() {
            None | Some("") => Ok(Self::Hidden),
            Some("plaintext") => Ok(Self::Plain),
            Some("encrypted" | "true") => cipher.map(Self::Sealed).ok_or_else(|| {
                let text = "Encryption not available: OH_SECRET_KEY is not configured. \
                     Cannot return encrypted secrets.";
                Failure::Refused(StatusCode::SERVICE_UNAVAILABLE, text.to_owned())
            }),
            Some(other) => Err(Failure::bad(format!(
                "Invalid X-Expose-Secrets header value: '{other}'. Valid values are: 'encrypted', 'plaintext'."
            ))),
        }
    }

    /// The form of a document that is opened already; `None` for as it is. `hidden` is that of one whose secrets are not
    /// to be seen.
    pub fn form(self, hidden: Form<'c>) -> Option<Form<'c>> {
        match self {
            Self::Hidden => Some(hidden),
            Self::Sealed(cipher) => Some(Form::Stored(Some(cipher))),
            Self::Plain => None,
        }
    }
}
