//! Values that nobody should read: finding them in what is stored, writing a text again without them, and, for
//! conversations that run, holding, sealing and hiding them.
//!
//! [`Finder`] knows what a secret looks like ([`pattern`]), which values are secret, or what someone asks
//! for. [`rewrite`] takes what it finds out of a JSON text and leaves everything else as it was, byte for
//! byte, so that an event keeps its shape. With the feature `agent` a [`Secret`] prints stars, a [`Registry`]
//! holds those of one conversation by name, with what a command needs of them and a mask for whatever comes back;
//! a [`Cipher`] seals them for the disk as the reference does, and [`document`] does so for a whole base state.
//!
//! The room does not know where texts are kept, nor who asks. Its invariants: no value is in a debug print or an
//! error; what people are shown is a kind, a place and a masked hint; a token that no key opens is kept as it
//! is, so that the right key still finds it; and without a key a token is never taken for the value.

#[cfg(feature = "agent")]
pub mod cipher;
#[cfg(feature = "agent")]
pub mod document;
pub mod finder;
#[cfg(feature = "agent")]
pub mod mask;
mod own;
pub mod pattern;
#[cfg(feature = "agent")]
pub mod registry;
pub mod rewrite;
mod shape;
#[cfg(feature = "agent")]
pub mod source;
#[cfg(feature = "agent")]
mod stored;
mod strings;
#[cfg(feature = "agent")]
mod value;

#[cfg(feature = "agent")]
pub use cipher::Cipher;
pub use finder::{Finder, FinderError, Found};
#[cfg(feature = "agent")]
pub use mask::{HIDDEN, Mask, StreamMask};
pub use own::open_secrets;
#[cfg(feature = "agent")]
pub use registry::{Info, Registry};
pub use rewrite::{Form, REDACTED, Rewritten, Spot, Wanted, rewrite};
#[cfg(feature = "agent")]
pub use source::{Held, Source, SourceError};
#[cfg(feature = "agent")]
pub(crate) use stored::read_optional;
#[cfg(feature = "agent")]
pub use stored::{Expose, SEAL, Stored};
#[cfg(feature = "agent")]
pub use value::{STARS, Secret};

/// Whether a header or a field of that name holds a secret, as the reference decides it: by the words in it.
///
/// Source: `runtime.md` section 6.
#[must_use]
#[cfg(feature = "agent")]
pub fn is_secret_name(name: &str) -> bool {
    const WORDS: [&str; 8] =
        ["AUTHORIZATION", "COOKIE", "CREDENTIAL", "KEY", "PASSWORD", "SECRET", "SESSION", "TOKEN"];
    let upper = name.to_ascii_uppercase();
    WORDS.iter().any(|word| upper.contains(word))
}

/// Names of the program's own variables that no command of an agent inherits.
///
/// Source: the reference's list (`utils/command.py` of SDK 1.58). It takes every `OH_SESSION_API_KEYS_n`; here they
/// are counted to 99.
#[cfg(feature = "agent")]
pub fn never_inherited() -> impl Iterator<Item = String> {
    const NAMES: [&str; 8] = [
        "SESSION_API_KEY",
        "OH_SECRET_KEY",
        "OH_PREVIOUS_SECRET_KEYS",
        "OH_WEBHOOKS",
        "LMNR_PROJECT_API_KEY",
        "OTEL_HEADERS",
        "OTEL_EXPORTER_OTLP_HEADERS",
        "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    ];
    let keys = (0..100).map(|number| format!("OH_SESSION_API_KEYS_{number}"));
    NAMES.into_iter().map(str::to_owned).chain(keys)
}
