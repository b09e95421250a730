//! Seals (encrypts) secrets for the disk, compatible with the reference: each side opens the tokens of the other.
//!
//! A token is a Fernet token (<https://github.com/fernet/spec>) under the SHA-256 of the key's UTF-8 text: the first
//! half signs, the second half encrypts. Older keys are used only to open tokens. Source:
//! `docs/reference/secrets.md#cipher`.

use std::fmt;

use fernet::{Fernet, MultiFernet};
use sha2::{Digest, Sha256};

use super::Secret;

/// The first characters of every token: version 0x80 and the upper bytes of a time before the year 2106.
const TOKEN_START: &str = "gAAAAA";

/// Seals secrets with one key. Opens tokens with that key and any number of earlier keys.
#[derive(Clone)]
pub struct Cipher {
    current: Fernet,
    all: std::sync::Arc<MultiFernet>,
}

impl Cipher {
    /// Makes a cipher that seals under `key`, and also opens tokens sealed under the keys in `previous`. These are
    /// tried in order, so the likeliest should come first. Blank earlier keys are ignored.
    #[must_use]
    pub fn new(key: &str, previous: &[&str]) -> Self {
        let current = fernet(key);
        let earlier =
            previous.iter().filter(|earlier| !earlier.trim().is_empty()).map(|earlier| fernet(earlier));
        let all = std::iter::once(current.clone()).chain(earlier).collect();
        Self { current, all: std::sync::Arc::new(MultiFernet::new(all)) }
    }

    /// Returns whether a text looks like a token. Only opening it with a key shows whether it is one.
    #[must_use]
    pub fn is_token(text: &str) -> bool {
        text.starts_with(TOKEN_START)
    }

    /// Returns a token of a secret under the current key. Each call returns a different token.
    #[must_use]
    pub fn seal(&self, secret: &Secret) -> String {
        self.current.encrypt(secret.expose().as_bytes())
    }

    /// Returns the secret in a token. `None` if no key opens the token, or if it holds no secret.
    #[must_use]
    pub fn open(&self, token: &str) -> Option<Secret> {
        let bytes = self.all.decrypt(token).ok()?;
        Secret::new(String::from_utf8(bytes).ok()?)
    }

    /// Returns a token of the same secret under the current key: `token` itself if it is already under that key. `None`
    /// if no key opens it.
    #[must_use]
    pub fn renew(&self, token: &str) -> Option<String> {
        if self.current.decrypt(token).is_ok() {
            return Some(token.to_owned());
        }
        self.open(token).map(|secret| self.seal(&secret))
    }
}

impl fmt::Debug for Cipher {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Cipher")
    }
}

fn fernet(key: &str) -> Fernet {
    Fernet::new(&base64(&Sha256::digest(key.as_bytes()))).expect("32 bytes are a key")
}

/// Encodes the 32 bytes of a key in URL-safe base64 with padding, which is the form that the crate takes.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::with_capacity(44);
    for three in bytes.chunks(3) {
        let number = three.iter().fold(0_u32, |number, byte| (number << 8) | u32::from(*byte));
        let number = number << (8 * (3 - three.len()));
        for place in 0..4 {
            if place <= three.len() {
                text.push(char::from(DIGITS[(number >> (18 - 6 * place)) as usize & 63]));
            } else {
                text.push('=');
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by the real SDK 1.58: `Cipher("fixture-secret-key-0123456789abcdef").encrypt(..)`.
    const KEY: &str = "fixture-secret-key-0123456789abcdef";
    const TOKEN: &str = "gAAAAABrARCuNFXNWvNRPKhn3YABIZ0qK-iXJxRUL04JlcRtE7tMxyZEsqcIZDRd03oYdlEsxLTqzIUAccAarsZETYF8ZDKm2SqPXREDkAdrdOKdjVHRO5w=";

    #[test]
    fn a_token_of_the_reference_opens() {
        let secret = Cipher::new(KEY, &[]).open(TOKEN).unwrap();
        assert!(secret.expose().is_ascii());
        assert!(Cipher::is_token(TOKEN));
        assert_eq!(Cipher::new("another", &[]).open(TOKEN), None);
    }

    #[test]
    fn an_earlier_key_opens_and_the_current_one_seals() {
        let (old, new) = (Cipher::new("old", &[]), Cipher::new("new", &["", "older", "old"]));
        let secret = Secret::new("päss").unwrap();
        let token = old.seal(&secret);
        assert_eq!(new.open(&token), Some(secret.clone()));
        let renewed = new.renew(&token).unwrap();
        assert_eq!((old.open(&renewed), new.renew(&renewed)), (None, Some(renewed.clone())));
        assert_eq!(new.renew(TOKEN), None);
        assert_eq!(format!("{new:?}"), "Cipher");
    }
}
