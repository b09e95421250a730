//! Running git, in one repository, without a shell, without a question to anybody, and not for ever.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::git::{Git, Unsafe, Use};
use crate::untrusted;

const PATIENCE: Duration = Duration::from_secs(30);

/// The most that git may print: the patch of a large workspace.
const OUTPUT_BYTES_MAX: u64 = 256 << 20;

/// How much of its complaints is kept.
const COMPLAINT_BYTES_MAX: u64 = 64 << 10;

/// Why git did not answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum GitError {
    /// The folder is in no repository, or there is no such folder.
    #[error("not a git repository: {0}")]
    NoRepository(String),
    /// What says there which files are left out is no regular file, or too long: git would wait for it.
    #[error("what git leaves out cannot be read: {0}")]
    Rules(String),
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
    /// It prints more than is taken.
    #[error("git printed more than {OUTPUT_BYTES_MAX} bytes")]
    Long,
    /// It took too long.
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

    /// The same with another index.
    pub fn with_index(&self, index: &Path) -> Self {
        Self { folder: self.folder.clone(), git: self.git.clone(), index: Some(index.to_path_buf()) }
    }

    /// What git prints.
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
    Repository::of(folder).await?.bytes(&["init", "--quiet"]).await.map(|_| ())
}

/// What comes, up to the bound and a byte more; then the pipe is closed, and whoever writes to it ends.
async fn read(pipe: Option<impl AsyncRead + Unpin>, bytes_max: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        // A pipe that breaks has said all it will.
        let _broken = pipe.take(bytes_max + 1).read_to_end(&mut bytes).await;
    }
    bytes
}
