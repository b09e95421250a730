//! The form in which a caller wants to see secrets: the header `X-Expose-Secrets`
//! (`docs/reference/secrets.md#exposure`).
//!
//! As in the reference, a caller with a session key may see them, because its commands could read them anyway. Of named
//! keys, those with the role `admin` may.

use axum::http::{HeaderMap, StatusCode};

use super::failure::Failure;
use crate::secret::{Cipher, Form};

const HEADER: &str = "x-expose-secrets";

/// The form in which a caller wants to see secrets.
#[derive(Clone, Copy)]
pub(in crate::server) enum Exposure<'c> {
    /// Not at all.
    Hidden,
    /// Sealed under the server's key.
    Sealed(&'c Cipher),
    /// In plain text.
    Plain,
}

/// Returns whether a request asks for secrets in any form.
pub(in crate::server) fn is_asked(headers: &HeaderMap) -> bool {
    headers.get_all(HEADER).iter().any(|value| !value.as_bytes().trim_ascii().is_empty())
}

impl<'c> Exposure<'c> {
    /// Reads the form from a request's headers.
    ///
    /// # Errors
    /// 400 if the header's value is unknown, 503 if secrets cannot be sealed because there is no cipher.
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

    /// Returns the form in which to show a document whose secrets are opened. `None` to show it as it is. `hidden` is
    /// the form that hides the secrets.
    pub fn form(self, hidden: Form<'c>) -> Option<Form<'c>> {
        match self {
            Self::Hidden => Some(hidden),
            Self::Sealed(cipher) => Some(Form::Stored(Some(cipher))),
            Self::Plain => None,
        }
    }
}
