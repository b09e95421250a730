//! Where a server is, and which key opens it.

use std::fmt;

use super::{RemoteError, Result};
use crate::secret::Secret;
use crate::store::Store;

/// The oldest version of the reference whose contract is spoken here: its server has the cursor socket.
pub const VERSION_MIN: &str = "1.58";

/// The folder that a server's conversation works in where none is given: the reference's.
const WORKING_DIR: &str = "workspace/project";

/// A server, and how to use it: a workspace that is elsewhere.
///
/// ```
/// use annals::remote::Server;
///
/// let server = Server::new("https://agents.example.org/team/")?.key("hush").working_dir("/srv/project");
/// assert_eq!(server.to_string(), "https://agents.example.org/team");
/// assert!(!format!("{server:?}").contains("hush"));
/// # Ok::<(), annals::remote::RemoteError>(())
/// ```
#[derive(Clone)]
pub struct Server {
    base: String,
    key: Option<Secret>,
    working_dir: String,
    mirror: Option<Store>,
}

impl Server {
    /// The server at this address: `http` or `https`, a host, maybe a port and a path.
    ///
    /// # Errors
    /// [`RemoteError::Address`]; also for one that holds a name and a password, which belong in no address.
    pub fn new(address: &str) -> Result<Self> {
        let shown = address.rsplit('@').next().unwrap_or_default();
        let wrong = |what| RemoteError::Address { address: shown.to_owned(), what };
        let rest = address.strip_prefix("http://").or_else(|| address.strip_prefix("https://"));
        let rest = rest.ok_or_else(|| wrong("it begins with neither http:// nor https://"))?;
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if host.contains('@') {
            return Err(wrong("it holds a password"));
        }
        if rest.contains(['?', '#']) || rest.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(wrong("it holds what no address of a server has"));
        }
        if host.is_empty() || reqwest::Url::parse(address).is_err() {
            return Err(wrong("it names no host"));
        }
        Ok(Self {
            base: address.trim_end_matches('/').to_owned(),
            key: None,
            working_dir: WORKING_DIR.to_owned(),
            mirror: None,
        })
    }

    /// The key that opens it; none where it is blank.
    #[must_use]
    pub fn key(mut self, key: &str) -> Self {
        self.key = Secret::new(key);
        self
    }

    /// The folder that a new conversation works in, on the server's machine.
    #[must_use]
    pub fn working_dir(mut self, folder: impl Into<String>) -> Self {
        self.working_dir = folder.into();
        self
    }

    /// Keeps a copy of each conversation in this store as it goes: the same bytes at the same sequences, HEAD where it
    /// is there. What was before is fetched too.
    #[must_use]
    pub fn mirror(mut self, store: Store) -> Self {
        self.mirror = Some(store);
        self
    }

    /// The address of a path.
    pub(super) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    pub(super) fn secret(&self) -> Option<&Secret> {
        self.key.as_ref()
    }

    /// The folder that a new conversation works in.
    #[must_use]
    pub fn folder(&self) -> &str {
        &self.working_dir
    }

    pub(super) fn mirrored(&self) -> Option<&Store> {
        self.mirror.as_ref()
    }

    /// A text without the key.
    pub(super) fn hide(&self, text: &str) -> String {
        match &self.key {
            Some(key) => text.replace(key.expose(), crate::secret::REDACTED),
            None => text.to_owned(),
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.base)
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Server").field("base", &self.base).field("key", &self.key).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_a_host_and_nothing_secret() {
        for (address, what) in [
            ("ftp://a", "neither http:// nor https://"),
            ("agents.example.org", "neither http:// nor https://"),
            ("http://", "names no host"),
            ("http://a b/", "no address of a server has"),
            ("http://a/?key=hush", "no address of a server has"),
            ("https://me:hush@a", "holds a password"),
        ] {
            let error = Server::new(address).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
            assert!(!error.contains("me:hush"), "{error}");
        }
        assert_eq!(Server::new("http://[::1]:8000/").unwrap().url("/health"), "http://[::1]:8000/health");
    }

    #[test]
    fn the_key_is_in_no_text() {
        let server = Server::new("http://a").unwrap().key("hush-hush");
        assert_eq!(server.hide("wrong key hush-hush"), "wrong key **********");
        assert!(!format!("{server:?}").contains("hush"));
    }
}
