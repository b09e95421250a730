//! Ed25519 keys in the files that OpenSSL reads: PKCS#8 and SubjectPublicKeyInfo, PEM (RFC 8410, RFC 7468).

use std::fmt;
use std::io::{Read as _, Write as _};
use std::path::Path;

use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{DecodePrivateKey as _, DecodePublicKey as _, EncodePublicKey as _, KeypairBytes};
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};

use crate::error::{Error, Result};
use crate::partial::{self, Partial};
use crate::untrusted;

/// The most bytes of a file that are read: a key has about 120, and comments may stand before it.
const BYTES_MAX: u64 = 64 << 10;

/// A private key for signatures. Anyone who has its file can sign, so keep the file private.
pub struct Key(SigningKey);

/// The public half of a key: it checks signatures and can be given to anyone.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

impl Key {
    /// Makes a new key and writes it to a new file with mode 0600. The file gets its name when it is complete.
    ///
    /// # Errors
    /// [`Error::WouldOverwrite`] if the path exists, [`Error::Io`] if the key cannot be made or written.
    pub fn make(path: &Path) -> Result<Self> {
        Self::make_with(path, |_| Ok(()))
    }

    /// Makes a new key, and a new file with its public half, which gets its name first. If a process was killed between the two,
    /// what it left is removed.
    ///
    /// # Errors
    /// As [`Key::make`], for both files.
    #[cfg(feature = "cli")]
    pub(crate) fn make_pair(path: &Path, public: &Path) -> Result<Self> {
        if path.symlink_metadata().is_err()
            && PublicKey::read(&public.to_string_lossy()).is_ok_and(|half| {
                let left = partial::left(path).into_iter().map(|left| Self::read(&left));
                left.flatten().any(|key| key.public() == half)
            })
        {
            std::fs::remove_file(public).map_err(Error::io("removing", public))?;
        }
        [path, public].into_iter().for_each(partial::clear);
        if public.symlink_metadata().is_ok() {
            return Err(Error::WouldOverwrite { path: public.to_owned() });
        }
        Self::make_with(path, |key| key.public().save(public))
    }

    /// Makes a key. `first` is done before its file has its name.
    fn make_with(path: &Path, first: impl FnOnce(&Self) -> Result<()>) -> Result<Self> {
        if path.symlink_metadata().is_ok() {
            return Err(Error::WouldOverwrite { path: path.to_owned() });
        }
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(|error| Error::Io {
            doing: "making a key for",
            path: path.to_owned(),
            source: std::io::Error::other(error),
        })?;
        let key = Self(SigningKey::from_bytes(&secret));
        // The public half is left out, because OpenSSL does not read the newer form that contains it.
        let bytes = KeypairBytes { secret_key: secret, public_key: None };
        let pem = ed25519_dalek::pkcs8::EncodePrivateKey::to_pkcs8_pem(&bytes, LineEnding::LF)
            .map_err(|_| not_a_key(path, "it cannot be written as PEM"))?;
        let partial = Partial::beside(path)?;
        let made = partial.content();
        let mut file = untrusted::create_private(&made).map_err(Error::io("creating", &made))?;
        file.write_all(pem.as_bytes()).and_then(|()| file.sync_all()).map_err(Error::io("writing", path))?;
        first(&key)?;
        partial::give_name(&made, path, "naming")?;
        Ok(key)
    }

    /// Reads a key from its file.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::NotAKey`].
    pub fn read(path: &Path) -> Result<Self> {
        let pem = read(path)?;
        let key = SigningKey::from_pkcs8_pem(&pem)
            .map_err(|_| not_a_key(path, "it holds no Ed25519 private key (PKCS#8, PEM)"))?;
        Ok(Self(key))
    }

    /// Returns the public half.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }

    /// Returns the signature of `message`, 64 bytes.
    #[must_use]
    pub fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.0.sign(message).to_bytes()
    }
}

/// Reads the file of a key. It may be a pipe, as `<(command)` in a shell is one.
fn read(path: &Path) -> Result<String> {
    let mut pem = String::new();
    let read = untrusted::open_named(path).and_then(|file| file.take(BYTES_MAX).read_to_string(&mut pem));
    read.map_err(Error::io("reading", path))?;
    Ok(pem)
}

impl PublicKey {
    /// Reads a public key: 64 hex digits, or the path of a file with a public or a private key.
    ///
    /// # Errors
    /// [`Error::NotAKey`], [`Error::Io`].
    pub fn read(text: &str) -> Result<Self> {
        if let Some(key) = Self::from_hex(text) {
            return Ok(key);
        }
        let path = Path::new(text);
        let pem = read(path)?;
        match VerifyingKey::from_public_key_pem(&pem) {
            Ok(key) => Ok(Self(key)),
            Err(_) => Key::read(path).map(|key| key.public()),
        }
    }

    /// Returns the key that `text` gives as 64 hex digits. `None` if `text` is not a key.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        VerifyingKey::from_bytes(&bytes(text)?).ok().map(Self)
    }

    /// Returns the key in PEM form.
    #[must_use]
    pub fn to_pem(&self) -> String {
        self.0.to_public_key_pem(LineEnding::LF).expect("32 bytes can always be written as a public key")
    }

    /// Writes the key to a new file, which gets its name when it is complete.
    ///
    /// # Errors
    /// [`Error::WouldOverwrite`] if the path exists, [`Error::Io`].
    #[cfg(feature = "cli")]
    pub(crate) fn save(&self, path: &Path) -> Result<()> {
        let partial = Partial::beside(path)?;
        let made = partial.content();
        untrusted::write(&made, self.to_pem().as_bytes()).map_err(Error::io("writing", path))?;
        partial::give_name(&made, path, "naming")
    }

    /// Returns whether `signature` is this key's signature of `message`.
    #[must_use]
    pub fn verifies(&self, message: &[u8], signature: &[u8; 64]) -> bool {
        self.0.verify_strict(message, &Signature::from_bytes(signature)).is_ok()
    }
}

/// 64 lower-case hex digits.
impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(self.0.as_bytes()))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

/// Never shows the key.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({}, private)", self.public())
    }
}

fn not_a_key(path: &Path, what: &'static str) -> Error {
    Error::NotAKey { path: path.to_owned(), what }
}

/// Returns `bytes` as lower-case hex digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|digit| char::from_digit(u32::from(digit), 16).expect("four bits are one hex digit"))
        .collect()
}

/// Returns the bytes that `hex` gives in lower-case hex digits. `None` unless there are exactly `N` bytes.
pub(super) fn bytes<const N: usize>(hex: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let (pairs, []) = hex.as_bytes().as_chunks::<2>() else { return None };
    let bytes: Option<Vec<u8>> =
        pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect();
    bytes?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_file_that_does_not_end_is_no_key() {
        let endless = Path::new("/dev/zero");
        assert!(matches!(Key::read(endless), Err(Error::NotAKey { .. })));
        assert!(matches!(PublicKey::read("/dev/zero"), Err(Error::NotAKey { .. })));
    }

    #[test]
    fn a_key_is_what_its_file_says() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key.pem");
        let made = Key::make(&path).unwrap();
        let read = Key::read(&path).unwrap();
        assert_eq!(made.public(), read.public());
        assert_eq!(PublicKey::read(&made.public().to_string()).unwrap(), made.public());
        assert_eq!(PublicKey::read(path.to_str().unwrap()).unwrap(), made.public());
        let public = folder.path().join("key.pub");
        std::fs::write(&public, made.public().to_pem()).unwrap();
        assert_eq!(PublicKey::read(public.to_str().unwrap()).unwrap(), made.public());
        assert!(matches!(Key::make(&path), Err(Error::WouldOverwrite { .. })));
        assert!(matches!(Key::read(&public), Err(Error::NotAKey { .. })));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert!(!format!("{made:?}").contains(&hex(&made.0.to_bytes())));
    }

    /// Test 2 of RFC 8032, section 7.1.
    #[test]
    fn a_signature_is_the_one_of_the_standard() {
        let secret = bytes("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb").unwrap();
        let key = Key(SigningKey::from_bytes(&secret));
        assert_eq!(
            key.public().to_string(),
            "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"
        );
        let signature = key.sign(&[0x72]);
        assert_eq!(
            hex(&signature),
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da\
             085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
        );
        assert!(key.public().verifies(&[0x72], &signature));
        assert!(!key.public().verifies(&[0x73], &signature));
    }
}
