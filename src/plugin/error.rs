//! What can be wrong with a plugin.

use std::path::PathBuf;

/// Why a plugin cannot be fetched, read or installed. No message holds a credential.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PluginError {
    /// The text is no valid source of a plugin.
    #[error(
        "Unable to parse plugin source: {0}. Expected formats: 'github:owner/repo', git URL, or local path"
    )]
    Source(String),
    /// A path within a repository is invalid, or leads out of the repository.
    #[error("repo_path {path:?} is refused: {reason}")]
    Path {
        /// The path.
        path: String,
        /// The reason.
        reason: &'static str,
    },
    /// The requested branch, tag or commit is no valid name in git.
    #[error("{0:?} is no branch, tag or commit")]
    Reference(String),
    /// The folder does not exist.
    #[error("Plugin directory not found: {}", .0.display())]
    NoFolder(PathBuf),
    /// The folder is not in the repository.
    #[error("repo_path not found: {0}")]
    NoPath(String),
    /// The manifest is missing or invalid.
    #[error("Invalid plugin: {}: {reason}", path.display())]
    Manifest {
        /// The path of the manifest, or of the folder without one.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The source refers to a secret that does not exist.
    #[error("Missing secret: {0}")]
    Secret(String),
    /// There is no cache folder to fetch into.
    #[error("there is no cache folder to fetch a plugin into")]
    NoCache,
    /// The repository requires authentication, and it failed.
    #[error("Failed to fetch plugin from {source_text}: authentication failed")]
    Refused {
        /// The source.
        source_text: String,
    },
    /// The repository has no such branch, tag or commit.
    #[error("Failed to fetch plugin from {source_text}: ref not found: {reference}")]
    NoReference {
        /// The source.
        source_text: String,
        /// The requested branch, tag or commit.
        reference: String,
    },
    /// The repository cannot be reached, or there is none at this address.
    #[error("Failed to fetch plugin from {source_text}: {reason}")]
    Unavailable {
        /// The source.
        source_text: String,
        /// Git's error message.
        reason: String,
    },
    /// It took too long.
    #[error("Git operation timed out after {seconds} seconds")]
    Late {
        /// The time limit.
        seconds: u64,
    },
    /// No marketplace of that name is registered.
    #[error("Marketplace '{0}' is not registered")]
    NoMarketplace(String),
    /// No marketplace has a plugin of that name.
    #[error("{0}")]
    NotFound(String),
    /// Several marketplaces have a plugin of that name, or the reference to the plugin is invalid.
    #[error("{0}")]
    Ambiguous(String),
    /// The name is not allowed for an installed plugin or skill.
    #[error("Invalid extension name. Expected kebab-case, got {0:?}.")]
    Name(String),
    /// A plugin or skill of that name is installed already.
    #[error("Extension '{0}' is already installed")]
    Exists(String),
    /// The skill to install is missing or invalid.
    #[error("Invalid skill: {0}")]
    Skill(String),
    /// A folder or a file cannot be used.
    #[error("{}: {reason}", path.display())]
    File {
        /// The folder or file.
        path: PathBuf,
        /// The system's error message.
        reason: String,
    },
    /// The record of what is installed cannot be read or is invalid. Then nothing installed is used, because the record
    /// says what is disabled.
    #[error(
        "{}: the record of what is installed cannot be used: {reason}. Until it is corrected or deleted, nothing \
         installed is enabled", path.display()
    )]
    Record {
        /// The path of the record.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// Another program changes the folder of installations, and takes too long.
    #[error("{}: another program is changing this folder", .0.display())]
    Busy(PathBuf),
    /// The installation belongs to a lower layer of an overlay file system, which replaces no such folder in one step.
    #[error(
        "{}: this folder belongs to a lower layer of its file system and cannot be replaced in one step; remove it, \
         then install it again", .0.display()
    )]
    Layered(PathBuf),
}

impl PluginError {
    /// Returns the error code of the reference's server.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Secret(_) => "missing_secret",
            Self::Source(_) | Self::Reference(_) | Self::Path { .. } => "invalid_source",
            Self::Refused { .. } => "auth_failed",
            Self::Unavailable { .. }
            | Self::NoCache
            | Self::File { .. }
            | Self::Record { .. }
            | Self::Busy(_)
            | Self::Layered(_) => "source_unavailable",
            Self::NoReference { .. } => "ref_not_found",
            Self::NoPath(_) => "repo_path_not_found",
            Self::Late { .. } => "timeout",
            Self::NoFolder(_)
            | Self::Manifest { .. }
            | Self::NoMarketplace(_)
            | Self::NotFound(_)
            | Self::Ambiguous(_)
            | Self::Name(_)
            | Self::Exists(_)
            | Self::Skill(_) => "invalid_plugin",
        }
    }

    /// Returns whether the requested plugin or marketplace does not exist. The request itself is valid then.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::NotFound(_) | Self::NoMarketplace(_))
    }
}

/// A part of a plugin that cannot be used. The other parts are used all the same.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {reason}")]
pub struct PluginProblem {
    /// The file.
    pub path: String,
    /// The reason.
    pub reason: String,
}
