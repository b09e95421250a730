//! Where `annals serve` listens, and its certificates: `--listen`, `--tls-cert`, `--tls-key`.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
#[cfg(unix)]
use std::os::fd::AsFd as _;
#[cfg(unix)]
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::str::FromStr;

use serde::Deserialize;

use crate::server::{Certificates, Listener};

/// What may connect to a socket of the file system: the server's user and group.
#[cfg(unix)]
const SOCKET_MODE: u32 = 0o660;

/// A place to listen at.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) enum At {
    Tcp(SocketAddr),
    #[cfg(unix)]
    Unix(PathBuf),
    /// The socket that systemd hands over.
    #[cfg(unix)]
    Systemd,
}

impl FromStr for At {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        #[cfg(unix)]
        if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            return Ok(Self::Unix(PathBuf::from(path)));
        }
        #[cfg(unix)]
        if text == "systemd" {
            return Ok(Self::Systemd);
        }
        let forms = if cfg!(unix) {
            "127.0.0.1:8000, [::1]:8000, unix:/run/annals.sock or systemd"
        } else {
            "127.0.0.1:8000 or [::1]:8000"
        };
        text.parse().map(Self::Tcp).map_err(|_| format!("it is none of {forms}"))
    }
}

impl TryFrom<String> for At {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            #[cfg(unix)]
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            #[cfg(unix)]
            Self::Systemd => f.write_str("the socket of systemd"),
        }
    }
}

/// A socket that takes connections.
pub(super) struct Bound {
    socket: Socket,
    file: Kept,
}

/// What goes when the server has ended: the file of its socket, if it made one.
#[derive(Default)]
pub(super) struct Kept {
    #[cfg(unix)]
    _file: Option<SocketFile>,
}

enum Socket {
    Tcp(TcpListener),
    #[cfg(unix)]
    Unix(UnixListener),
}

impl At {
    /// Begins to listen.
    ///
    /// # Errors
    /// An error of the system; [`io::ErrorKind::AddrInUse`] if another program listens there.
    pub(super) fn bind(&self) -> io::Result<Bound> {
        match self {
            Self::Tcp(address) => Bound::tcp(TcpListener::bind(address)?),
            #[cfg(unix)]
            Self::Unix(path) => bind_file(path),
            #[cfg(unix)]
            Self::Systemd => handed_over(),
        }
    }
}

impl Bound {
    fn tcp(listener: TcpListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self { socket: Socket::Tcp(listener), file: Kept::default() })
    }

    #[cfg(unix)]
    fn unix(listener: UnixListener, file: Option<SocketFile>) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self { socket: Socket::Unix(listener), file: Kept { _file: file } })
    }

    /// Returns the address that other machines may reach. `None` if there is none.
    pub(super) fn reached_from_elsewhere(&self) -> io::Result<Option<SocketAddr>> {
        match &self.socket {
            Socket::Tcp(listener) => Ok(Some(listener.local_addr()?).filter(|own| !own.ip().is_loopback())),
            #[cfg(unix)]
            Socket::Unix(_) => Ok(None),
        }
    }

    /// Returns the address for people.
    pub(super) fn url(&self, is_encrypted: bool) -> io::Result<String> {
        match &self.socket {
            Socket::Tcp(listener) => {
                let scheme = if is_encrypted { "https" } else { "http" };
                Ok(format!("{scheme}://{}", listener.local_addr()?))
            }
            #[cfg(unix)]
            Socket::Unix(listener) => {
                let address = listener.local_addr()?;
                let path = address.as_pathname().map(|path| path.display().to_string());
                Ok(format!("unix:{}", path.unwrap_or_default()))
            }
        }
    }

    /// Hands the socket to the server, which alone closes it. Needs a runtime.
    pub(super) fn into_listener(self, certificates: Option<Certificates>) -> io::Result<(Listener, Kept)> {
        let listener: Listener = match self.socket {
            Socket::Tcp(listener) => tokio::net::TcpListener::from_std(listener)?.into(),
            #[cfg(unix)]
            Socket::Unix(listener) => tokio::net::UnixListener::from_std(listener)?.into(),
        };
        let listener = match certificates {
            Some(certificates) => listener.tls(certificates),
            None => listener,
        };
        Ok((listener, self.file))
    }
}

/// A socket's file, by its place and identity. It is removed at the end if it is still this one.
#[cfg(unix)]
struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

#[cfg(unix)]
impl SocketFile {
    fn identity(path: &std::path::Path) -> io::Result<(u64, u64)> {
        use std::os::unix::fs::MetadataExt as _;
        let found = std::fs::symlink_metadata(path)?;
        Ok((found.dev(), found.ino()))
    }
}

#[cfg(unix)]
impl Drop for SocketFile {
    fn drop(&mut self) {
        if Self::identity(&self.path).is_ok_and(|found| found == self.identity) {
            // If it cannot be removed, the next start removes it.
            let _left = std::fs::remove_file(&self.path);
        }
    }
}

/// Listens at a path. The file of a server that has ended is replaced; every other file stays.
#[cfg(unix)]
fn bind_file(path: &std::path::Path) -> io::Result<Bound> {
    use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
    use std::os::unix::net::UnixStream;
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is a file that is no socket"));
        }
        Ok(_) => match UnixStream::connect(path) {
            Ok(_) => return Err(io::ErrorKind::AddrInUse.into()),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path)?,
            Err(error) => return Err(error),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let listener = UnixListener::bind(path)?;
    let file = SocketFile { path: path.to_owned(), identity: SocketFile::identity(path)? };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(SOCKET_MODE))?;
    Bound::unix(listener, Some(file))
}

/// Takes the socket that systemd hands over, of TCP or of the file system.
#[cfg(unix)]
fn handed_over() -> io::Result<Bound> {
    let mut handed = listenfd::ListenFd::from_env();
    // Programs that the server starts must not get the socket.
    let keep = |socket: std::os::fd::BorrowedFd<'_>| {
        rustix::io::fcntl_setfd(socket, rustix::io::FdFlags::CLOEXEC).map_err(io::Error::from)
    };
    if let Ok(Some(listener)) = handed.take_tcp_listener(0) {
        keep(listener.as_fd())?;
        return Bound::tcp(listener);
    }
    match handed.take_unix_listener(0) {
        Ok(Some(listener)) => {
            keep(listener.as_fd())?;
            Bound::unix(listener, None)
        }
        Ok(None) => Err(io::Error::new(
            io::ErrorKind::NotFound,
            "systemd handed no socket over; annals.socket starts the service with one",
        )),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_and_printed() {
        for text in ["127.0.0.1:8000", "[::1]:0", "0.0.0.0:80"] {
            assert_eq!(text.parse::<At>().unwrap().to_string(), text);
        }
        for text in ["", "8000", "localhost:8000", "unix:", "127.0.0.1", "tcp:127.0.0.1:80"] {
            assert!(text.parse::<At>().is_err(), "{text}");
        }
    }

    /// While a server ends, it takes no connections any more: a client is refused at once, and does not wait in vain.
    #[tokio::test]
    async fn nothing_listens_once_the_server_has_dropped_its_listener() {
        let bound = "127.0.0.1:0".parse::<At>().unwrap().bind().unwrap();
        let address = bound.url(false).unwrap().replace("http://", "");
        let (listener, _kept) = bound.into_listener(None).unwrap();
        drop(std::net::TcpStream::connect(&address).unwrap());
        drop(listener);
        let refused = std::net::TcpStream::connect(&address).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }

    #[cfg(unix)]
    #[test]
    fn a_file_of_a_server_that_ended_is_replaced_and_no_other() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("annals.sock");
        let at: At = format!("unix:{}", path.display()).parse().unwrap();
        let bound = at.bind().unwrap();
        assert_eq!(bound.url(false).unwrap(), at.to_string());
        assert_eq!(bound.reached_from_elsewhere().unwrap(), None);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, SOCKET_MODE);
        assert_eq!(at.bind().err().map(|error| error.kind()), Some(io::ErrorKind::AddrInUse));
        drop(bound);
        assert!(!path.exists());
        // What a killed server leaves: a socket on which nothing listens.
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let bound = at.bind().unwrap();
        // Another program has put its own socket there: it stays.
        std::fs::remove_file(&path).unwrap();
        let _other = UnixListener::bind(&path).unwrap();
        drop(bound);
        assert!(path.exists());
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "mine").unwrap();
        assert_eq!(at.bind().err().map(|error| error.kind()), Some(io::ErrorKind::AlreadyExists));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
    }
}
