//! Secrets: holds them, seals them, looks them up, and keeps them out of everything that is written.
//!
//! A [`Secret`] prints stars. A [`Registry`] holds the secrets of one conversation by name. It gives commands the
//! secrets that they name, and has a mask for the output. A [`Cipher`] seals secrets for the disk as the reference
//! does, and `document` does so for a whole base state. [`without_credentials`] hides what an address contains, known
//! or not. The module depends neither on the store nor on its callers.
//! Its invariants: no debug print and no error contains a value; a token that no key opens is kept as it is, so that
//! the right key can still open it; and a token is never used as the value, even without a key.

pub(crate) mod cipher;
mod credentials;
pub(crate) mod document;
pub(crate) mod environment;
pub(crate) mod mask;
pub(crate) mod registry;
mod signals;
pub(crate) mod source;
mod value;

pub use cipher::Cipher;
pub use credentials::without_credentials;
pub(crate) use credentials::{REFERENCE, bare, hide, shown};
pub use document::Form;
pub use mask::{HIDDEN, Mask, StreamMask};
pub use registry::{Info, Registry};
pub use source::{Source, SourceError, StoredSecret};
pub use value::{REDACTED, Secret};

/// Returns whether a header or a field of that name holds a secret. As in the reference, words in the name decide it.
///
/// Source: `docs/reference/secrets.md#secret-names`.
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
    const WORDS: [&str; 8] =
        ["AUTHORIZATION", "COOKIE", "CREDENTIAL", "KEY", "PASSWORD", "SECRET", "SESSION", "TOKEN"];
    let upper = name.to_ascii_uppercase();
    WORDS.iter().any(|word| upper.contains(word))
}
