//! All operations: those of the reference, served or not, and Annals' own.

mod conversations;
mod own;
mod settings;
mod unserved;
mod workspace;

use super::operation::{Group, Operation};

/// The reason for an operation that is not served.
const NOT_YET: &str = "It is not served by this version.";

/// The name of the group whose conversations may have any id.
pub(super) const ANNALS: &str = own::ANNALS.name;

/// All groups, in the order of the document.
pub(super) const GROUPS: &[Group] = &[
    own::PROBES,
    conversations::CONVERSATIONS,
    conversations::EVENTS,
    workspace::BASH,
    workspace::FILES,
    workspace::GIT,
    settings::SETTINGS,
    settings::PROFILES,
    settings::EXTENSIONS,
    own::ANNALS,
    own::METRICS,
    workspace::SCOPED,
    unserved::OTHERS,
];

/// Returns all operations, each with its group.
pub(super) fn all() -> impl Iterator<Item = (&'static Group, &'static Operation)> {
    GROUPS.iter().flat_map(|group| group.operations.iter().map(move |operation| (group, operation)))
}
