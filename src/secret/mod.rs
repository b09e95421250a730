//! Values that nobody may read: how they are held, sealed, looked up and kept out of what is written.
//!
//! A [`Secret`] prints stars. A [`Registry`] holds those of one conversation by name, with what a command needs of
//! them and a mask for whatever comes back. A [`Cipher`] seals them for the disk as the reference does, and
//! [`document`] does so for a whole base state. The room knows neither the store nor who asks. Its
//! invariants: no value is in a debug print or an error; a token that no key opens is kept as it is, so
//! that the right key still finds it; and without a key a token is never taken for the value.

pub mod cipher;
pub mod document;
pub mod environment;
pub mod mask;
pub mod registry;
mod signals;
pub mod source;
mod value;

pub use cipher::Cipher;
pub use document::Form;
pub use mask::{HIDDEN, Mask, StreamMask};
pub use registry::{Info, Registry};
pub use source::{Held, Source, SourceError};
pub use value::{REDACTED, Secret};

/// Whether a header or a field of that name holds a secret, as the reference decides it: by the words in it.
///
/// Source: `runtime.md` section 6.
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
    const WORDS: [&str; 8] =
        ["AUTHORIZATION", "COOKIE", "CREDENTIAL", "KEY", "PASSWORD", "SECRET", "SESSION", "TOKEN"];
    let upper = name.to_ascii_uppercase();
    WORDS.iter().any(|word| upper.contains(word))
}
