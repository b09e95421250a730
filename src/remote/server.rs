//! The address and the key of a server.

use std::fmt;
use std::path::{Path, PathBuf};

use super::{RemoteError, Result};
use crate::secret::Secret;
use crate::store::Store;

/// The oldest supported version of the reference. It is the first one whose server has the cursor socket.
pub const VERSION_MIN: &str = "1.58";

/// What the address of a socket begins with.
const SOCKET: &str = "unix:";

/// The default working folder of a server's conversation. It is the reference's default.
const WORKING_DIR: &str = "workspace/project";

/// A server and its settings: a remote workspace.
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
    /// The socket of the file system that the server listens on, instead of a host.
    socket: Option<PathBuf>,
    key: Option<Secret>,
    working_dir: String,
    mirror: Option<Store>,
}

impl Server {
    /// Makes a server from its address: `http` or `https`, a host, and optionally a port and a path; or, on Unix, `unix:` and
    /// the path of the socket that `annals serve --listen unix:PATH` makes.
    ///
    /// # Errors
    /// [`RemoteError::Address`] if the address is invalid, or contains a user name or a password.
    pub fn new(address: &str) -> Result<Self> {
        if let Some(path) = address.strip_prefix(SOCKET) {
            return Self::on_socket(path);
        }
        let shown = address.rsplit('@').next().unwrap_or_default();
        let wrong = |what| RemoteError::Address { address: shown.to_owned(), what };
        let rest = address.strip_prefix("http://").or_else(|| address.strip_prefix("https://"));
        let rest = rest.ok_or_else(|| wrong("it begins with neither http://, https:// nor unix:"))?;
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if host.contains('@') {
            return Err(wrong("it holds a password"));
        }
        if rest.contains(['?', '#']) || rest.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(wrong("it has a query, a fragment, a space or a control character"));
        }
        if host.is_empty() || reqwest::Url::parse(address).is_err() {
            return Err(wrong("it names no host"));
        }
        Ok(Self::at(address.trim_end_matches('/').to_owned(), None))
    }

    fn at(base: String, socket: Option<PathBuf>) -> Self {
        Self { base, socket, key: None, working_dir: WORKING_DIR.to_owned(), mirror: None }
    }

    fn on_socket(path: &str) -> Result<Self> {
        let wrong = |what| RemoteError::Address { address: format!("{SOCKET}{path}"), what };
        if cfg!(not(unix)) {
            return Err(wrong("this system has no such sockets"));
        }
        if path.is_empty() || path.chars().any(char::is_control) {
            return Err(wrong("it names no socket"));
        }
        // A change of the working folder must not matter.
        let path = std::path::absolute(path).map_err(|_| wrong("it names no socket"))?;
        // The host is only a header here. This one is accepted without a key, too.
        Ok(Self::at("http://localhost".to_owned(), Some(path)))
    }

    /// Returns the socket that the server listens on, instead of a host.
    pub(super) fn socket(&self) -> Option<&Path> {
        self.socket.as_deref()
    }

    /// Sets the key of the server. A blank key counts as no key.
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

    /// Keeps a copy of each conversation in this store: the same bytes at the same sequences, and the same HEAD.
    /// Earlier events are copied too. What keeps a copy from being complete is the error of closing the conversation.
    #[must_use]
    pub fn mirror(mut self, store: Store) -> Self {
        self.mirror = Some(store);
        self
    }

    /// Returns the URL of a path.
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

    /// Replaces the key in a text by stars.
    pub(super) fn hide(&self, text: &str) -> String {
        match &self.key {
            Some(key) => text.replace(key.expose(), crate::secret::REDACTED),
            None => text.to_owned(),
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.socket {
            Some(path) => write!(out, "{SOCKET}{}", path.display()),
            None => out.write_str(&self.base),
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Server")
            .field("address", &self.to_string())
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_a_host_and_nothing_secret() {
        for (address, what) in [
            ("ftp://a", "neither http://, https:// nor unix:"),
            ("agents.example.org", "neither http://, https:// nor unix:"),
            ("unix:", "names no socket"),
            ("http://", "names no host"),
            ("http://a b/", "a query, a fragment, a space"),
            ("http://a/?key=hush", "a query, a fragment, a space"),
            ("https://me:hush@a", "holds a password"),
        ] {
            let error = Server::new(address).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
            assert!(!error.contains("me:hush"), "{error}");
        }
        assert_eq!(Server::new("http://[::1]:8000/").unwrap().url("/health"), "http://[::1]:8000/health");
    }

    #[cfg(unix)]
    #[test]
    fn the_address_of_a_socket_is_a_path() {
        let server = Server::new("unix:/run/annals/annals.sock").unwrap();
        assert_eq!(server.socket(), Some(Path::new("/run/annals/annals.sock")));
        assert_eq!(server.to_string(), "unix:/run/annals/annals.sock");
        assert_eq!(server.url("/health"), "http://localhost/health");
        assert!(Server::new("unix:annals.sock").unwrap().socket().is_some_and(Path::is_absolute));
        assert_eq!(Server::new("http://a").unwrap().socket(), None);
    }

    #[test]
    fn the_key_is_in_no_text() {
        let server = Server::new("http://a").unwrap().key("hush-hush");
        assert_eq!(server.hide("wrong key hush-hush"), "wrong key **********");
        assert!(!format!("{server:?}").contains("hush"));
    }
}
