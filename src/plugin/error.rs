//! What can be wrong with a plugin, by whose fault it is.

use std::path::PathBuf;

/// Why a plugin cannot be had. No message holds a credential.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PluginError {
    /// The text names no place that a plugin could be at.
    #[error(
        "Unable to parse plugin source: {0}. Expected formats: 'github:owner/repo', git URL, or local path"
    )]
    Source(String),
    /// A path within a repository is none, or leads out of it.
    #[error("repo_path {path:?} is refused: {reason}")]
    Path {
        /// The path.
        path: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// What is to be taken of a repository can be no name in git.
    #[error("{0:?} is no branch, tag or commit")]
    Reference(String),
    /// There is no such folder.
    #[error("Plugin directory not found: {}", .0.display())]
    NoFolder(PathBuf),
    /// The folder is not in the repository.
    #[error("repo_path not found: {0}")]
    NoPath(String),
    /// Its manifest is none.
    #[error("Invalid plugin: {}: {reason}", path.display())]
    Manifest {
        /// The manifest, or the folder that lacks one.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A secret that the source names is not there.
    #[error("Missing secret: {0}")]
    Secret(String),
    /// There is no folder to fetch into.
    #[error("there is no folder that a plugin could be fetched into")]
    NoCache,
    /// The repository wants to know who asks, and was not convinced.
    #[error("Failed to fetch plugin from {source_text}: authentication failed")]
    Refused {
        /// Where from.
        source_text: String,
    },
    /// The repository has no such branch, tag or commit.
    #[error("Failed to fetch plugin from {source_text}: ref not found: {reference}")]
    NoReference {
        /// Where from.
        source_text: String,
        /// What was asked for.
        reference: String,
    },
    /// The repository cannot be reached, or is none.
    #[error("Failed to fetch plugin from {source_text}: {reason}")]
    Unavailable {
        /// Where from.
        source_text: String,
        /// Git's account.
        reason: String,
    },
    /// It took too long.
    #[error("Git operation timed out after {seconds} seconds")]
    Late {
        /// How long was waited.
        seconds: u64,
    },
    /// No marketplace of that name is registered.
    #[error("Marketplace '{0}' is not registered")]
    NoMarketplace(String),
    /// No marketplace has a plugin of that name.
    #[error("{0}")]
    NotFound(String),
    /// Several marketplaces have one of that name, or the reference names none.
    #[error("{0}")]
    Ambiguous(String),
    /// Its name is none that something can be installed under.
    #[error("Invalid extension name. Expected kebab-case, got {0:?}.")]
    Name(String),
    /// Something of that name is installed.
    #[error("Extension '{0}' is already installed")]
    Exists(String),
    /// A skill that was to be installed is none.
    #[error("Invalid skill: {0}")]
    Skill(String),
    /// A folder or a file cannot be used.
    #[error("{}: {reason}", path.display())]
    File {
        /// The folder or file.
        path: PathBuf,
        /// The system's account.
        reason: String,
    },
}

impl PluginError {
    /// What the reference's server calls it.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Secret(_) => "missing_secret",
            Self::Source(_) | Self::Reference(_) | Self::Path { .. } => "invalid_source",
            Self::Refused { .. } => "auth_failed",
            Self::Unavailable { .. } | Self::NoCache | Self::File { .. } => "source_unavailable",
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

    /// Whether what was asked for is not there, and nothing is wrong with how it was asked.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::NotFound(_) | Self::NoMarketplace(_))
    }
}

/// A part of a plugin that cannot be used. The others are used all the same.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {reason}")]
pub struct PluginProblem {
    /// The file.
    pub path: String,
    /// What is wrong with it.
    pub reason: String,
}
