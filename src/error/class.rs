//! The class of an error, by which programs decide: about an exit code, a status, another try.

use super::{Error, SetupError};

/// What an error means for the caller. Every error has exactly one class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorClass {
    /// What the call names does not exist.
    Missing,
    /// The store is not in the state that the call expects. Read it again, or ask where it may be changed.
    Conflict,
    /// The call or its input is invalid.
    Invalid,
    /// The input is over a limit.
    TooLarge,
    /// The call was ended before it was done.
    Cancelled,
    /// The store has too much to do. The same call may succeed later.
    Busy,
    /// The disk is full. The same call may succeed once there is room.
    Full,
    /// A file, the machine or the setup is not what the call needs. Nothing is broken.
    Unusable,
    /// Something is damaged or failed.
    Failed,
}

impl Error {
    /// Returns the class of the error.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::UnknownConversation { .. }
            | Self::UnknownEvent { .. }
            | Self::UnknownAttachment { .. }
            | Self::NoSuchPoint { .. } => ErrorClass::Missing,
            Self::Conflict { .. }
            | Self::VersionConflict { .. }
            | Self::DuplicateEvent { .. }
            | Self::ConversationExists { .. }
            | Self::StaleSubscription { .. }
            | Self::ReadOnlyCopy { .. }
            | Self::ReadOnly { .. }
            | Self::NoIndex { .. } => ErrorClass::Conflict,
            Self::QueryRefused { .. }
            | Self::QueryTooLong { .. }
            | Self::QueryTooLarge { .. }
            | Self::AmbiguousId { .. }
            | Self::UnknownParent { .. }
            | Self::UnknownProjection { .. }
            | Self::Payload(_)
            | Self::BaseState(_)
            | Self::Id(_)
            | Self::NotATime { .. }
            | Self::EmptyQuery(_)
            | Self::Tree { .. }
            | Self::Messages { .. }
            | Self::NoMessages { .. }
            | Self::NotSent { .. }
            | Self::Undecodable { .. }
            | Self::Finder(_)
            | Self::Subscription { .. } => ErrorClass::Invalid,
            Self::BatchTooLarge { .. } | Self::AttachmentTooLarge { .. } => ErrorClass::TooLarge,
            Self::QueryCancelled => ErrorClass::Cancelled,
            Self::Busy { .. } | Self::Overloaded { .. } => ErrorClass::Busy,
            Self::DiskFull { .. } => ErrorClass::Full,
            Self::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => ErrorClass::Unusable,
            Self::NotEvents { .. }
            | Self::NoRemedy { .. }
            | Self::UnknownTrouble { .. }
            | Self::NotAHead { .. }
            | Self::SecretInId { .. }
            | Self::NotAKey { .. }
            | Self::WithinCall
            | Self::Forked
            | Self::NoRoom { .. }
            | Self::SameFile { .. }
            | Self::NewerFile { .. }
            | Self::OlderFile { .. }
            | Self::ForeignFile { .. }
            | Self::CannotOpen { .. }
            | Self::NetworkFileSystem { .. }
            | Self::UnsafeEngine { .. }
            | Self::NameTaken(_)
            | Self::NotItsBackup { .. }
            | Self::BackupAstray { .. }
            | Self::BackupTooShort { .. }
            | Self::Setup(
                SetupError::OpenToEverybody { .. } | SetupError::Setting { .. } | SetupError::NotBuilt { .. },
            )
            | Self::WouldOverwrite { .. } => ErrorClass::Unusable,
            Self::WrongSignature { .. }
            | Self::Moved { .. }
            | Self::LostTable { .. }
            | Self::NotDerived { .. }
            | Self::CatalogueContradicts(_)
            | Self::Corrupt { .. }
            | Self::Storage { .. }
            | Self::Setup(SetupError::Serve { .. })
            | Self::Io { .. } => ErrorClass::Failed,
        }
    }

    /// Returns whether the same call may succeed later without a change by the caller.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self.class(), ErrorClass::Busy | ErrorClass::Full)
    }
}
