//! Running git, in one repository, without a shell, without a question to anybody, and not for ever.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

const PATIENCE: Duration = Duration::from_secs(30);

/// Why git did not answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum GitError {
    /// The folder is in no repository, or there is no such folder.
    #[error("not a git repository: {0}")]
    NoRepository(String),
    /// Git refused; its own words.
    #[error("git failed: {0}")]
    Refused(String),
    /// What is asked for cannot be a name in git.
    #[error("not a valid reference: {0:?}")]
    Reference(String),
    /// It is not there, neither now nor before.
    #[error("File does not exist: {0}")]
    NoFile(String),
    /// It is too large to be shown.
    #[error("File too large for git diff: {bytes} bytes (max: {max} bytes)")]
    TooLarge {
        /// Its size.
        bytes: u64,
        /// The most that is shown.
        max: u64,
    },
    /// It took too long.
    #[error("git did not answer within {} seconds", PATIENCE.as_secs())]
    Late,
    /// Git cannot be started.
    #[error("git cannot be started: {0}")]
    Start(std::io::Error),
}

/// A folder in a repository.
pub(super) struct Repository {
    folder: PathBuf,
    /// Another index than its own.
    index: Option<PathBuf>,
}

impl Repository {
    /// The repository that the folder is in.
    pub async fn at(folder: &Path) -> Result<Self, GitError> {
        let none = || GitError::NoRepository(folder.display().to_string());
        if !tokio::fs::metadata(folder).await.is_ok_and(|found| found.is_dir()) {
            return Err(none());
        }
        let repository = Self::of(folder);
        match repository.text(&["rev-parse", "--is-inside-work-tree"]).await {
            Ok(_) => Ok(repository),
            Err(GitError::Refused(_)) => Err(none()),
            Err(error) => Err(error),
        }
    }

    fn of(folder: &Path) -> Self {
        Self { folder: folder.to_path_buf(), index: None }
    }

    /// The same with another index.
    pub fn with_index(&self, index: &Path) -> Self {
        Self { folder: self.folder.clone(), index: Some(index.to_path_buf()) }
    }

    /// What git prints.
    pub async fn bytes(&self, arguments: &[&str]) -> Result<Vec<u8>, GitError> {
        let mut git = Command::new("git");
        git.arg("--no-pager").args(arguments).current_dir(&self.folder).stdin(Stdio::null());
        git.env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("LC_ALL", "C")
            .kill_on_drop(true);
        if let Some(index) = &self.index {
            git.env("GIT_INDEX_FILE", index);
        }
        let output = tokio::time::timeout(PATIENCE, git.output()).await.map_err(|_| GitError::Late)?;
        let output = output.map_err(GitError::Start)?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        Err(GitError::Refused(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
    }

    /// What git prints, as text without the white space around it.
    pub async fn text(&self, arguments: &[&str]) -> Result<String, GitError> {
        Ok(String::from_utf8_lossy(&self.bytes(arguments).await?).trim().to_owned())
    }

    /// The commit that a name means; `None` where there is none.
    pub async fn commit(&self, name: &str) -> Result<Option<String>, GitError> {
        if name.starts_with('-') || name.is_empty() {
            return Err(GitError::Reference(name.to_owned()));
        }
        match self.text(&["rev-parse", "--verify", "--quiet", &format!("{name}^{{commit}}")]).await {
            Ok(sha) => Ok(Some(sha)),
            Err(GitError::Refused(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Makes a repository in a folder; nothing is committed.
pub(super) async fn init(folder: &Path) -> Result<(), GitError> {
    Repository::of(folder).bytes(&["init", "--quiet"]).await.map(|_| ())
}
