//! Errors of the setup of the program and of the server.

/// Why the program or the server cannot work as it is set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The server would accept requests from everyone who reaches its address. Give it a session key.
    #[error("{host} can be reached from other machines, and there is no session key")]
    OpenToEverybody {
        /// The address.
        host: std::net::IpAddr,
    },
    /// A settings file or an environment variable has an invalid value.
    #[error("{place} cannot be used: {reason}")]
    Setting {
        /// The file or the variable.
        place: String,
        /// What is wrong with it, and where.
        reason: String,
    },
    /// The server could not listen, or stopped listening.
    #[error("while serving on {address}: {source}")]
    Serve {
        /// The address.
        address: std::net::SocketAddr,
        /// The system's error.
        source: std::io::Error,
    },
    /// The program was built without a feature that this needs.
    #[error("this program was built without this feature; build it with `--features {feature}`")]
    NotBuilt {
        /// The missing feature.
        feature: &'static str,
    },
}
