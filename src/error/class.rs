//! The class of an error, by which programs decide: about an exit code, a status, another try.

use std::io::ErrorKind;

use super::{AroundError, Error, OwnProjectionError, SetupError, SharedError};

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
    /// The call was ended before it was done, or the store is closed.
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
            | Self::Around(AroundError::GoneMeanwhile { .. })
            | Self::ReadOnlyCopy { .. }
            | Self::ReadOnly { .. }
            | Self::NoIndex { .. } => ErrorClass::Conflict,
            Self::QueryRefused { .. }
            | Self::QueryTooLong { .. }
            | Self::QueryTooLarge { .. }
            | Self::AmbiguousId { .. }
            | Self::UnknownParent { .. }
            | Self::UnknownProjection { .. }
            | Self::OwnProjection(
                OwnProjectionError::Unusable { .. }
                | OwnProjectionError::Statement { .. }
                | OwnProjectionError::Refused { .. },
            )
            | Self::Payload(_)
            | Self::BaseState(_)
            | Self::Id(_)
            | Self::NotATime { .. }
            | Self::Unsearchable(_)
            | Self::Tree { .. }
            | Self::Messages { .. }
            | Self::NoMessages { .. }
            | Self::NotSent { .. }
            | Self::Undecodable { .. }
            | Self::Finder(_)
            | Self::Subscription { .. } => ErrorClass::Invalid,
            Self::BatchTooLarge { .. } | Self::AttachmentTooLarge { .. } => ErrorClass::TooLarge,
            Self::QueryCancelled | Self::Closed => ErrorClass::Cancelled,
            Self::Busy { .. }
            | Self::NoReader
            | Self::Overloaded { .. }
            | Self::Shared(
                SharedError::Unreachable { .. }
                | SharedError::Unknown
                | SharedError::OnlyThere { .. }
                | SharedError::Behind { .. },
            ) => ErrorClass::Busy,
            Self::DiskFull { .. } | Self::NoRoom { .. } => ErrorClass::Full,
            Self::Io { source, .. } if is_full(source.kind()) => ErrorClass::Full,
            Self::Io { source, .. } if source.kind() == ErrorKind::NotFound => ErrorClass::Unusable,
            Self::Input(_)
            | Self::NoRemedy { .. }
            | Self::UnknownTrouble { .. }
            | Self::NotAHead { .. }
            | Self::SecretInId { .. }
            | Self::NotAKey { .. }
            | Self::WithinCall
            | Self::Forked
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
                SetupError::OpenToEverybody { .. }
                | SetupError::Setting { .. }
                | SetupError::Watched { .. }
                | SetupError::NoPublicHalf { .. }
                | SetupError::NotBuilt { .. }
                | SetupError::KeyName { .. }
                | SetupError::KeyExists { .. }
                | SetupError::NoSuchKey { .. }
                | SetupError::TooManyKeys { .. },
            )
            | Self::Shared(
                SharedError::Replica { .. }
                | SharedError::Address { .. }
                | SharedError::None { .. }
                | SharedError::Exists { .. }
                | SharedError::OtherVersion { .. }
                | SharedError::NotItsReplica { .. },
            )
            | Self::Around(AroundError::OrphanLog { .. } | AroundError::OtherLog { .. })
            | Self::WouldOverwrite { .. } => ErrorClass::Unusable,
            Self::WrongSignature { .. }
            | Self::Moved { .. }
            | Self::Around(AroundError::PutBack(_) | AroundError::OtherNumber { .. })
            | Self::LostTable { .. }
            | Self::NotDerived { .. }
            | Self::OwnProjection(OwnProjectionError::Stuck { .. })
            | Self::Shared(
                SharedError::Ahead { .. } | SharedError::Differs { .. } | SharedError::Fenced { .. },
            )
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

/// Returns whether there was no room to write.
fn is_full(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::ids::ConversationId;
    use crate::state::base::BaseDocument;

    #[test]
    fn a_full_disk_has_one_class() {
        let of_kind = |kind: ErrorKind| Error::io("writing", "/x")(io::Error::from(kind));
        for (error, class) in [
            (Error::NoRoom { path: "/x".into(), needed: 2, free: 1 }, ErrorClass::Full),
            (Error::DiskFull { doing: "writing", source: "full".into() }, ErrorClass::Full),
            (of_kind(ErrorKind::StorageFull), ErrorClass::Full),
            (of_kind(ErrorKind::QuotaExceeded), ErrorClass::Full),
            (of_kind(ErrorKind::NotFound), ErrorClass::Unusable),
            (of_kind(ErrorKind::PermissionDenied), ErrorClass::Failed),
        ] {
            assert_eq!((error.class(), error.is_transient()), (class, class == ErrorClass::Full), "{error}");
        }
    }

    #[test]
    fn a_stored_value_that_is_wrong_is_damage_and_a_given_one_is_invalid() {
        let id = || ConversationId::new("\n").unwrap_err();
        let document = || BaseDocument::parse("{").unwrap_err();
        for (given, stored) in [
            (Error::from(id()), Error::damaged("the id")(id())),
            (Error::from(document()), Error::damaged("the base state")(document())),
        ] {
            assert_eq!(
                (given.class(), stored.class()),
                (ErrorClass::Invalid, ErrorClass::Failed),
                "{stored}"
            );
            assert!(stored.to_string().contains(&given.to_string()), "{stored}");
        }
    }

    #[test]
    fn a_refusal_for_now_says_how_long_it_waited_if_that_is_known() {
        let message = |waited_ms| Error::Busy { waited_ms, holder: None }.to_string();
        assert_eq!(message(0), "another process kept the database locked");
        assert_eq!(message(7), "another process kept the database locked for 7 ms");
        let named = Error::Busy { waited_ms: 7, holder: Some("process 4 (sqlite3)".into()) };
        let text = "another process kept the database locked for 7 ms: process 4 (sqlite3) has the lock";
        assert_eq!(named.to_string(), text);
        assert!(named.is_transient() && Error::NoReader.is_transient());
    }
}
