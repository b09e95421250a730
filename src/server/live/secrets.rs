//! Named secrets that every conversation can look up: `secrets.json`, in the reference's format.

use std::path::Path as FilePath;

use serde_json::{Map, Value};

use super::keep;
use crate::secret::Cipher;
use crate::server::http::failure::Failure;

/// The name of the file, in the settings folder.
pub(in crate::server) const FILE: &str = "secrets.json";

/// The member of the file that holds the secrets.
pub(in crate::server) const SECRETS: &str = "custom_secrets";

const NAME_CHARACTERS_MAX: usize = 64;

/// Checks a name: a letter, then letters, digits and underscores. It becomes the name of an environment variable.
pub(in crate::server) fn check_name(name: &str) -> Result<(), Failure> {
    let begins = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic());
    let is_word = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if begins && is_word && name.len() <= NAME_CHARACTERS_MAX {
        return Ok(());
    }
    Err(Failure::unprocessable(
        "Invalid secret name format. Must start with a letter, contain only letters, numbers, and underscores, \
         and be 1-64 characters long.",
    ))
}

/// Returns the secrets in the members of the file.
pub(in crate::server) fn stored(members: &Map<String, Value>) -> Option<&Map<String, Value>> {
    members.get(SECRETS)?.as_object()
}

/// Returns the value of a secret. `None` if there is no such secret, or it cannot be opened.
pub(in crate::server) fn value_of(
    members: &Map<String, Value>,
    name: &str,
    cipher: Option<&Cipher>,
) -> Option<String> {
    let text = stored(members)?.get(name)?.get("secret")?.as_str()?;
    match cipher {
        Some(cipher) if Cipher::is_token(text) => cipher.open(text).map(|secret| secret.expose().to_owned()),
        // Without a cipher, a sealed value cannot be opened.
        _ => (!Cipher::is_token(text)).then(|| text.to_owned()),
    }
}

/// Reads the value of a stored secret from the settings folder. Blocks on the disk.
pub(super) fn read(folder: &FilePath, name: &str, cipher: Option<&Cipher>) -> Option<String> {
    check_name(name).ok()?;
    value_of(&keep::load(&folder.join(FILE)).ok()?, name, cipher)
}
