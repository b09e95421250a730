//! The certificates of a server that speaks TLS by itself.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::untrusted;

/// How long the handshake of a connection may take.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(30);

/// The maximum size of each file: 1 MiB. A chain of certificates has some KiB.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A chain of certificates and its key, read from files. Clones share them, also after [`Certificates::reload`].
#[derive(Clone)]
pub struct Certificates(Arc<Files>);

struct Files {
    chain: PathBuf,
    key: PathBuf,
    current: RwLock<Arc<ServerConfig>>,
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates").field("chain", &self.0.chain).finish_non_exhaustive()
    }
}

impl Certificates {
    /// Reads a chain of certificates, the server's own first, and its private key, both as PEM.
    ///
    /// # Errors
    /// An error that names the file if it cannot be read, has no certificate or no key, or if the key is another
    /// certificate's. It never has a part of the key.
    pub fn read(chain: impl Into<PathBuf>, key: impl Into<PathBuf>) -> io::Result<Self> {
        let (chain, key) = (chain.into(), key.into());
        let current = RwLock::new(Arc::new(configured(&chain, &key)?));
        Ok(Self(Arc::new(Files { chain, key, current })))
    }

    /// Reads both files again. New connections have the new certificates; the others go on with theirs.
    ///
    /// # Errors
    /// As [`Certificates::read`]. Then the certificates stay as they were.
    pub fn reload(&self) -> io::Result<()> {
        let new = Arc::new(configured(&self.0.chain, &self.0.key)?);
        *self.0.current.write().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(())
    }

    /// Performs the handshake of a connection.
    pub(super) async fn accept<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
    ) -> io::Result<TlsStream<S>> {
        let current = Arc::clone(&self.0.current.read().unwrap_or_else(PoisonError::into_inner));
        let handshake = TlsAcceptor::from(current).accept(stream);
        tokio::time::timeout(HANDSHAKE_PATIENCE, handshake).await?
    }
}

fn configured(chain: &Path, key: &Path) -> io::Result<ServerConfig> {
    let wrong = |path: &Path, what: &str| {
        io::Error::new(io::ErrorKind::InvalidData, format!("{}: {what}", path.display()))
    };
    let read = |path: &Path| {
        untrusted::read(path, FILE_BYTES_MAX)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
    };
    let certificates: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&read(chain)?)
        .collect::<Result<_, _>>()
        .map_err(|_| wrong(chain, "no certificates as PEM"))?;
    if certificates.is_empty() {
        return Err(wrong(chain, "there is no certificate in PEM"));
    }
    let own = PrivateKeyDer::from_pem_slice(&read(key)?)
        .map_err(|_| wrong(key, "there is no private key in PEM"))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_single_cert(certificates, own)
        .map_err(|error| wrong(key, &format!("it is not the key of {}: {error}", chain.display())))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
