//! Runs git in one repository: without a shell, without prompts, and with a timeout.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::git::{Git, Unsafe, Use};
use crate::untrusted;

const PATIENCE: Duration = Duration::from_secs(30);

/// The maximum output of git; enough for the patch of a large workspace.
const OUTPUT_BYTES_MAX: u64 = 256 << 20;

/// How much of git's error output is kept.
const COMPLAINT_BYTES_MAX: u64 = 64 << 10;

/// The reason why git gave no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum GitError {
    /// The folder is in no repository, or there is no such folder.
    #[error("not a git repository: {0}")]
    NoRepository(String),
    /// A file of git's ignore rules is not a regular file, or is too long. Git could wait for it forever.
    #[error("git's ignore rules cannot be read: {0}")]
    Rules(String),
    /// Git failed: git's own error text.
    #[error("git failed: {0}")]
    Refused(String),
    /// The given text is not the name of a commit.
    #[error("not a valid reference: {0:?}")]
    Reference(String),
    /// The file does not exist, neither now nor before.
    #[error("File does not exist: {0}")]
    NoFile(String),
    /// The file is too large to be shown.
    #[error("File too large for git diff: {bytes} bytes (max: {max} bytes)")]
    TooLarge {
        /// The size of the file.
        bytes: u64,
        /// The maximum size of a file that is shown.
        max: u64,
    },
    /// Git printed more than the maximum.
    #[error("git printed more than {OUTPUT_BYTES_MAX} bytes")]
    Long,
    /// Git took too long.
    #[error("git did not answer within {} seconds", PATIENCE.as_secs())]
    Late,
    /// Git cannot be started.
    #[error("git cannot be started: {0}")]
    Start(Unsafe),
}

/// A folder in a repository.
pub(super) struct Repository {
    folder: PathBuf,
    git: Git,
    /// The index to use instead of the repository's own.
    index: Option<PathBuf>,
}

impl Repository {
    /// Returns the repository that the folder is in.
    pub async fn at(folder: &Path) -> Result<Self, GitError> {
        let none = || GitError::NoRepository(folder.display().to_string());
        if !tokio::fs::metadata(folder).await.is_ok_and(|found| found.is_dir()) {
            return Err(none());
        }
        let place = folder.to_owned();
        let is_fit = tokio::task::spawn_blocking(move || untrusted::may_be_walked(&place)).await;
        if !is_fit.unwrap_or_default() {
            return Err(GitError::Rules(folder.display().to_string()));
        }
        let repository = Self::of(folder).await?;
        match repository.text(&["rev-parse", "--is-inside-work-tree"]).await {
            Ok(_) => Ok(repository),
            Err(GitError::Refused(_)) => Err(none()),
            Err(error) => Err(error),
        }
    }

    async fn of(folder: &Path) -> Result<Self, GitError> {
        let git = Git::of(folder, Use::Here).await.map_err(GitError::Start)?;
        Ok(Self { folder: folder.to_path_buf(), git, index: None })
    }

    /// Returns the same repository with another index.
    pub fn with_index(&self, index: &Path) -> Self {
        Self { folder: self.folder.clone(), git: self.git.clone(), index: Some(index.to_path_buf()) }
    }

    /// Runs git and returns its output.
    pub async fn bytes(&self, arguments: &[&str]) -> Result<Vec<u8>, GitError> {
        let mut git = self.git.command(&self.folder, arguments);
        git.stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(index) = &self.index {
            git.env("GIT_INDEX_FILE", index);
        }
        let mut child = git.spawn().map_err(|error| GitError::Start(error.into()))?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let whole = async {
            let taken = tokio::join!(read(stdout, OUTPUT_BYTES_MAX), read(stderr, COMPLAINT_BYTES_MAX));
            (taken, child.wait().await)
        };
        let whole = tokio::time::timeout(PATIENCE, whole).await.map_err(|_| GitError::Late)?;
        let ((printed, complaint), status) = whole;
        if printed.len() as u64 > OUTPUT_BYTES_MAX {
            return Err(GitError::Long);
        }
        if status.map_err(|error| GitError::Start(error.into()))?.success() {
            return Ok(printed);
        }
        Err(GitError::Refused(String::from_utf8_lossy(&complaint).trim().to_owned()))
    }

    /// Runs git and returns its output as text, without white space at both ends.
    pub async fn text(&self, arguments: &[&str]) -> Result<String, GitError> {
        Ok(String::from_utf8_lossy(&self.bytes(arguments).await?).trim().to_owned())
    }

    /// Returns the commit that a name refers to; `None` if there is no such commit.
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

/// Makes a repository in a folder, without a commit.
pub(super) async fn init(folder: &Path) -> Result<(), GitError> {
    Repository::of(folder).await?.bytes(&["init", "--quiet"]).await.map(|_| ())
}

/// Reads a pipe up to the limit and one byte more. The pipe is closed then, which ends a process that writes to it.
async fn read(pipe: Option<impl AsyncRead + Unpin>, bytes_max: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        // After an error, no more output comes.
        let _broken = pipe.take(bytes_max + 1).read_to_end(&mut bytes).await;
    }
    bytes
}
