//! Errors of requests to a server, grouped by what the caller can do.

/// Why a request to a server failed. No message holds the key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// The text is no valid address of a server.
    #[error("{address:?} is no address of a server: {what}")]
    Address {
        /// The text, without a part that may be a password.
        address: String,
        /// The reason.
        what: &'static str,
    },
    /// The server does not answer, or no longer. The same request may succeed later.
    #[error("{server} cannot be reached: {cause}")]
    Unreachable {
        /// The server.
        server: String,
        /// The system's error message.
        cause: String,
    },
    /// The key is missing or wrong.
    #[error("{server} does not know the key")]
    Key {
        /// The server.
        server: String,
    },
    /// The requested object does not exist at the server, or no longer.
    #[error("{server}: {detail}")]
    NotFound {
        /// The server.
        server: String,
        /// The server's message.
        detail: String,
    },
    /// The server is overloaded. The same request may succeed later.
    #[error("{server} is busy: {detail}")]
    Busy {
        /// The server.
        server: String,
        /// The server's message.
        detail: String,
    },
    /// The server rejected the request.
    #[error("{server} refused with {status}: {detail}")]
    Refused {
        /// The server.
        server: String,
        /// The status of the answer, 300 to 499.
        status: u16,
        /// The server's message.
        detail: String,
    },
    /// The server failed.
    #[error("{server} failed with {status}: {detail}")]
    Failed {
        /// The server.
        server: String,
        /// The status of the answer, 500 and above.
        status: u16,
        /// The server's message.
        detail: String,
    },
    /// The server's version is older than this client supports.
    #[error("{server} speaks the contract of version {found}; {needed} or later is needed")]
    Version {
        /// The server.
        server: String,
        /// The version of the server.
        found: String,
        /// The oldest supported version.
        needed: &'static str,
    },
    /// The answer violates the contract.
    #[error("{server} sent an invalid answer: {what}")]
    InvalidAnswer {
        /// The server.
        server: String,
        /// The reason.
        what: String,
    },
    /// The local copy of the log does not have all received events: it could not be read or written, the time was too
    /// short, or the server's log ends before them.
    #[error("the local copy: {cause}")]
    Copy {
        /// The store's error message, or a description of what the copy lacks.
        cause: String,
        /// Whether the copy may get these events later: the file is busy, the disk is full, the time was too short, or
        /// the server's log ends too early. Otherwise the copy is not kept any more.
        is_passing: bool,
    },
    /// The operation is not possible with a remote conversation.
    #[error("{what} cannot be done with a remote conversation")]
    Unsupported {
        /// The operation.
        what: &'static str,
    },
}

impl RemoteError {
    /// Returns whether the same request may succeed later without a change.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Copy { is_passing, .. } => *is_passing,
            Self::Unreachable { .. } | Self::Busy { .. } | Self::Failed { .. } => true,
            Self::Address { .. }
            | Self::Key { .. }
            | Self::NotFound { .. }
            | Self::Refused { .. }
            | Self::Version { .. }
            | Self::InvalidAnswer { .. }
            | Self::Unsupported { .. } => false,
        }
    }
}
