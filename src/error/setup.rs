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
    /// A key of a server cannot be named so.
    #[error("a key's name has 1 to {max} letters, digits, `.`, `_`, `-` or `@`")]
    KeyName {
        /// The maximum length.
        max: usize,
    },
    /// There is a key of a server with this name, and it is in use.
    #[error(
        "there is a key named {name} already; revoke it first (`annals keys server revoke {name}`), or name this one otherwise"
    )]
    KeyExists {
        /// The name.
        name: String,
    },
    /// No key of a server with this name is in use.
    #[error("there is no key named {name} to revoke; `annals keys server list` shows the keys there are")]
    NoSuchKey {
        /// The name.
        name: String,
    },
    /// There are as many keys of servers in use as there may be.
    #[error("{max} keys are in use, which is the maximum; revoke one that is not needed")]
    TooManyKeys {
        /// The maximum.
        max: usize,
    },
    /// The server could not listen, or stopped listening.
    #[error("while serving on {address}: {source}")]
    Serve {
        /// The address, or the path of the socket.
        address: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// Another process watches this path for this store.
    #[error("{path:?} is watched for this file already{}", process.map_or_else(String::new, |id| format!(", by process {id}")))]
    Watched {
        /// The path.
        path: std::path::PathBuf,
        /// The other process, if it is known.
        process: Option<u32>,
    },
    /// There is a key, but no file with its public half, so that a new key cannot be made there.
    #[error(
        "{file:?} holds a key already, and {public:?} with its public half is missing; `annals keys FILE --public` writes that"
    )]
    NoPublicHalf {
        /// The file of the key.
        file: std::path::PathBuf,
        /// The file that is missing.
        public: std::path::PathBuf,
    },
    /// The program was built without a feature that this needs.
    #[error("this program was built without this feature; build it with `--features {feature}`")]
    NotBuilt {
        /// The missing feature.
        feature: &'static str,
    },
}
