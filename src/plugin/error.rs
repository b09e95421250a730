//! What can be wrong with a plugin.
//!
//! No message holds a credential, because every message is written by one of the two functions here.

use std::error::Error;
use std::fmt;
use std::path::PathBuf;

use super::file;
use crate::secret::{hide, without_credentials};

/// Why a plugin cannot be fetched, read or installed. No message holds a credential.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PluginError {
    /// The text is no valid source of a plugin.
    Source(String),
    /// A path within a repository is invalid, or leads out of the repository.
    Path {
        /// The path.
        path: String,
        /// The reason.
        reason: &'static str,
    },
    /// The requested branch, tag or commit is no valid name in git.
    Reference(String),
    /// The folder does not exist.
    NoFolder(PathBuf),
    /// The folder is not in the repository.
    NoPath(String),
    /// The manifest is missing or invalid.
    Manifest {
        /// The path of the manifest, or of the folder without one.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The source refers to a secret that does not exist.
    Secret(String),
    /// There is no cache folder to fetch into.
    NoCache,
    /// The repository requires authentication, and it failed.
    Refused {
        /// The source.
        source_text: String,
    },
    /// The repository has no such branch, tag or commit.
    NoReference {
        /// The source.
        source_text: String,
        /// The requested branch, tag or commit.
        reference: String,
    },
    /// The repository cannot be reached, or there is none at this address.
    Unavailable {
        /// The source.
        source_text: String,
        /// Git's error message.
        reason: String,
    },
    /// It took too long.
    Late {
        /// The time limit.
        seconds: u64,
    },
    /// No marketplace of that name is registered.
    NoMarketplace(String),
    /// No marketplace has a plugin of that name.
    NotFound(String),
    /// Several marketplaces have a plugin of that name, or the reference to the plugin is invalid.
    Ambiguous(String),
    /// The name is not allowed for an installed plugin or skill.
    Name(String),
    /// A plugin or skill of that name is installed already.
    Exists(String),
    /// The skill to install is missing or invalid.
    Skill(String),
    /// A folder or a file cannot be used.
    File {
        /// The folder or file.
        path: PathBuf,
        /// The system's error message.
        reason: String,
    },
    /// The record of what is installed cannot be read or is invalid. Then nothing installed is used, because the record
    /// says what is disabled.
    Record {
        /// The path of the record.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// Another program changes the folder of installations, and takes too long.
    Busy(PathBuf),
    /// The installation belongs to a lower layer of an overlay file system, which replaces no such folder in one step.
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

    /// Returns the error without the values of these secrets.
    pub(super) fn hiding(self, secrets: &[String]) -> Self {
        let text = |text: String| hide(&text, secrets);
        let path = |path: PathBuf| match path.to_str() {
            Some(text) => PathBuf::from(hide(text, secrets)),
            None => path,
        };
        match self {
            Self::Source(source) => Self::Source(text(source)),
            Self::Path { path, reason } => Self::Path { path: text(path), reason },
            Self::Reference(name) => Self::Reference(text(name)),
            Self::NoFolder(folder) => Self::NoFolder(path(folder)),
            Self::NoPath(inner) => Self::NoPath(text(inner)),
            Self::Manifest { path: file, reason } => {
                Self::Manifest { path: path(file), reason: text(reason) }
            }
            Self::Secret(_) | Self::NoCache | Self::Late { .. } => self,
            Self::Refused { source_text } => Self::Refused { source_text: text(source_text) },
            Self::NoReference { source_text, reference } => {
                Self::NoReference { source_text: text(source_text), reference: text(reference) }
            }
            Self::Unavailable { source_text, reason } => {
                Self::Unavailable { source_text: text(source_text), reason: text(reason) }
            }
            Self::NoMarketplace(name) => Self::NoMarketplace(text(name)),
            Self::NotFound(message) => Self::NotFound(text(message)),
            Self::Ambiguous(message) => Self::Ambiguous(text(message)),
            Self::Name(name) => Self::Name(text(name)),
            Self::Exists(name) => Self::Exists(text(name)),
            Self::Skill(reason) => Self::Skill(text(reason)),
            Self::File { path: file, reason } => Self::File { path: path(file), reason: text(reason) },
            Self::Record { path: file, reason } => Self::Record { path: path(file), reason: text(reason) },
            Self::Busy(folder) => Self::Busy(path(folder)),
            Self::Layered(folder) => Self::Layered(path(folder)),
        }
    }

    /// Returns the message, which may hold credentials.
    fn message(&self) -> String {
        match self {
            Self::Source(source) => format!(
                "Unable to parse plugin source: {source}. Expected formats: 'github:owner/repo', git URL, or local \
                 path"
            ),
            Self::Path { path, reason } => format!("repo_path {path:?} is refused: {reason}"),
            Self::Reference(name) => format!("{name:?} is no branch, tag or commit"),
            Self::NoFolder(folder) => format!("Plugin directory not found: {}", folder.display()),
            Self::NoPath(inner) => format!("repo_path not found: {inner}"),
            Self::Manifest { path, reason } => format!("Invalid plugin: {}: {reason}", path.display()),
            Self::Secret(name) => format!("Missing secret: {name}"),
            Self::NoCache => "there is no cache folder to fetch a plugin into".to_owned(),
            Self::Refused { source_text } => {
                format!("Failed to fetch plugin from {source_text}: authentication failed")
            }
            Self::NoReference { source_text, reference } => {
                format!("Failed to fetch plugin from {source_text}: ref not found: {reference}")
            }
            Self::Unavailable { source_text, reason } => {
                format!("Failed to fetch plugin from {source_text}: {reason}")
            }
            Self::Late { seconds } => format!("Git operation timed out after {seconds} seconds"),
            Self::NoMarketplace(name) => format!("Marketplace '{name}' is not registered"),
            Self::NotFound(message) | Self::Ambiguous(message) => message.clone(),
            Self::Name(name) => format!("Invalid extension name. Expected kebab-case, got {name:?}."),
            Self::Exists(name) => format!("Extension '{name}' is already installed"),
            Self::Skill(reason) => format!("Invalid skill: {reason}"),
            Self::File { path, reason } => format!("{}: {reason}", path.display()),
            Self::Record { path, reason } => format!(
                "{}: the record of what is installed cannot be used: {reason}. Until it is corrected or deleted, \
                 nothing installed is enabled",
                path.display()
            ),
            Self::Busy(folder) => format!("{}: another program is changing this folder", folder.display()),
            Self::Layered(folder) => format!(
                "{}: this folder belongs to a lower layer of its file system and cannot be replaced in one step; \
                 remove it, then install it again",
                folder.display()
            ),
        }
    }
}

impl fmt::Display for PluginError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&without_credentials(&self.message()))
    }
}

impl Error for PluginError {}

/// A part of a plugin that cannot be used. The other parts are used all the same. Its message holds no credential.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PluginProblem {
    /// The file.
    pub path: String,
    /// The reason.
    pub reason: String,
}

impl fmt::Display for PluginProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&without_credentials(&format!("{}: {}", self.path, self.reason)))
    }
}

impl Error for PluginProblem {}

impl From<PluginError> for PluginProblem {
    fn from(error: PluginError) -> Self {
        match error {
            // Their messages begin with the path.
            PluginError::Manifest { path, reason } | PluginError::File { path, reason } => {
                Self { path: file::slashed(&path), reason }
            }
            PluginError::Record { path, reason } => {
                let reason =
                    format!("nothing installed is enabled, because this record cannot be used: {reason}");
                Self { path: file::slashed(&path), reason }
            }
            other => Self { path: other.code().to_owned(), reason: other.to_string() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One error of each kind whose texts are `text`, each with the number of its kind.
    fn each(text: &str) -> Vec<PluginError> {
        let (text, path) = (|| text.to_owned(), || PathBuf::from(text));
        let all = vec![
            PluginError::Source(text()),
            PluginError::Path { path: text(), reason: "x" },
            PluginError::Reference(text()),
            PluginError::NoFolder(path()),
            PluginError::NoPath(text()),
            PluginError::Manifest { path: path(), reason: text() },
            PluginError::Secret("NAME".to_owned()),
            PluginError::NoCache,
            PluginError::Refused { source_text: text() },
            PluginError::NoReference { source_text: text(), reference: text() },
            PluginError::Unavailable { source_text: text(), reason: text() },
            PluginError::Late { seconds: 1 },
            PluginError::NoMarketplace(text()),
            PluginError::NotFound(text()),
            PluginError::Ambiguous(text()),
            PluginError::Name(text()),
            PluginError::Exists(text()),
            PluginError::Skill(text()),
            PluginError::File { path: path(), reason: text() },
            PluginError::Record { path: path(), reason: text() },
            PluginError::Busy(path()),
            PluginError::Layered(path()),
        ];
        let numbers: Vec<usize> = all.iter().map(number).collect();
        assert_eq!(numbers, (0..all.len()).collect::<Vec<_>>());
        all
    }

    /// The number of an error's kind. A new kind does not compile until it has one, and then [`each`] fails without it.
    fn number(error: &PluginError) -> usize {
        match error {
            PluginError::Source(_) => 0,
            PluginError::Path { .. } => 1,
            PluginError::Reference(_) => 2,
            PluginError::NoFolder(_) => 3,
            PluginError::NoPath(_) => 4,
            PluginError::Manifest { .. } => 5,
            PluginError::Secret(_) => 6,
            PluginError::NoCache => 7,
            PluginError::Refused { .. } => 8,
            PluginError::NoReference { .. } => 9,
            PluginError::Unavailable { .. } => 10,
            PluginError::Late { .. } => 11,
            PluginError::NoMarketplace(_) => 12,
            PluginError::NotFound(_) => 13,
            PluginError::Ambiguous(_) => 14,
            PluginError::Name(_) => 15,
            PluginError::Exists(_) => 16,
            PluginError::Skill(_) => 17,
            PluginError::File { .. } => 18,
            PluginError::Record { .. } => 19,
            PluginError::Busy(_) => 20,
            PluginError::Layered(_) => 21,
        }
    }

    #[test]
    fn no_message_holds_a_credential() {
        for text in [
            "https://user:s3cret@h/r.git",
            "https://s3cret@h/r.git",
            "https://h/r.git?private_token=s3cret",
            "https://h/r.git?a=1&access_token=s3cret",
            "https://h/r.git?token=s3cret",
            "https://h/r.git?key=s3cret",
            "user:s3cret@h/r",
        ] {
            for error in each(text) {
                let problem = PluginProblem::from(error.clone());
                for message in [error.to_string(), problem.to_string()] {
                    assert!(!message.contains("s3cret"), "{message}");
                }
            }
        }
    }

    #[test]
    fn a_hidden_value_is_in_no_error() {
        let secrets = ["s3c".to_owned(), "s3cret".to_owned()];
        let (text, hidden) = ("file:///a/s3cret/b", "file:///a/****/b");
        for (error, expected) in each(text).into_iter().zip(each(hidden)) {
            assert_eq!(error.hiding(&secrets), expected);
        }
    }
}
