//! What can go wrong between here and a server, by what the caller can do about it.

/// What can go wrong between here and a server. No text of it holds the key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// That is no address of a server.
    #[error("{address:?} is no address of a server: {what}")]
    Address {
        /// What was given, without what may be a password.
        address: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// Nobody answers there, or no longer; asking again later may help.
    #[error("{server} cannot be reached: {cause}")]
    Unreachable {
        /// The server.
        server: String,
        /// The system's account.
        cause: String,
    },
    /// The key is missing or wrong.
    #[error("{server} does not know the key")]
    Key {
        /// The server.
        server: String,
    },
    /// There is no such thing at the server, or not any more.
    #[error("{server}: {detail}")]
    Gone {
        /// The server.
        server: String,
        /// What it said.
        detail: String,
    },
    /// The server has too much to do; the same later may work.
    #[error("{server} is busy: {detail}")]
    Busy {
        /// The server.
        server: String,
        /// What it said.
        detail: String,
    },
    /// The server refused what it was asked.
    #[error("{server} refused with {status}: {detail}")]
    Refused {
        /// The server.
        server: String,
        /// The status of the answer, 300 to 499.
        status: u16,
        /// What it said.
        detail: String,
    },
    /// The server failed.
    #[error("{server} failed with {status}: {detail}")]
    Failed {
        /// The server.
        server: String,
        /// The status of the answer, 500 and above.
        status: u16,
        /// What it said.
        detail: String,
    },
    /// The server's contract is older than any that this client speaks.
    #[error("{server} speaks the contract of version {found}; {needed} or later is needed")]
    Version {
        /// The server.
        server: String,
        /// Its version.
        found: String,
        /// The oldest that will do.
        needed: &'static str,
    },
    /// What was answered is not what the contract says.
    #[error("{server} answered what it should not: {what}")]
    Strange {
        /// The server.
        server: String,
        /// What is wrong with it.
        what: String,
    },
    /// It cannot be done from afar.
    #[error("{what} cannot be done with a remote conversation")]
    Unsupported {
        /// What.
        what: &'static str,
    },
}

impl RemoteError {
    /// Whether the same may work later, and nothing that is asked otherwise would help.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Busy { .. } | Self::Failed { .. } => true,
            Self::Address { .. }
            | Self::Key { .. }
            | Self::Gone { .. }
            | Self::Refused { .. }
            | Self::Version { .. }
            | Self::Strange { .. }
            | Self::Unsupported { .. } => false,
        }
    }
}
