//! Fetches plugins: uses a folder of this machine as it is, or puts a commit of a repository into the cache.
//!
//! The cache keeps a whole commit under `<cache>/<name>-<hash>/resolved-refs/<commit>`, like the reference, and never
//! changes it. A source that names a cached commit needs no network access. Git runs without a shell, without prompts
//! and with a time limit. Its messages are shown without credentials.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::time::Instant;

use super::source::{Origin, cache_name, repository_name};
use super::{PluginError, PluginSource, file};
use crate::git::{Unsafe, Use};
use crate::program::{self, Group};
use crate::secret::shown;

/// The default time limit for fetching one plugin.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// The folder for commits below a repository's folder.
const COMMITS: &str = "resolved-refs";

/// The maximum size of git's output that is kept, in bytes for each stream. The rest is discarded.
const OUTPUT_BYTES_MAX: usize = 16 << 10;

/// Fetches plugins.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Fetcher {
    /// The cache for commits of repositories. Without it, repositories cannot be fetched.
    pub cache: Option<PathBuf>,
    /// The folder that `~` stands for.
    pub home: Option<PathBuf>,
    /// The time limit for one plugin.
    pub patience: Duration,
    /// Whether git uses the user's own settings, which include credential helpers.
    pub settings: GitSettings,
}

setters!(Fetcher { cache?: PathBuf, home?: PathBuf, patience: Duration, settings: GitSettings });

/// The settings that git uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GitSettings {
    /// The user's own settings.
    Own,
    /// No settings.
    None,
}

/// A fetched plugin: its folder on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fetched {
    /// The folder.
    pub folder: PathBuf,
    /// The fetched commit. `None` for a folder of this machine.
    pub commit: Option<String>,
    /// The name of the repository. `None` unless the folder is the whole repository.
    pub repository: Option<String>,
}

impl Fetcher {
    /// Makes a fetcher that caches commits in the user's home folder, at the reference's place.
    #[must_use]
    pub fn of_home(home: &Path) -> Self {
        Self {
            cache: Some(home.join(".openhands/cache/plugins")),
            home: Some(home.to_owned()),
            patience: PATIENCE,
            settings: GitSettings::Own,
        }
    }

    /// Fetches a plugin. The secrets are already put into `source`; `hidden` are their values.
    ///
    /// # Errors
    /// The errors of [`PluginError`] for sources, folders and git. None has one of the values in `hidden`.
    pub async fn fetch(&self, source: &PluginSource, hidden: &[String]) -> Result<Fetched, PluginError> {
        self.fetch_source(source, hidden).await.map_err(|error| error.hiding(hidden))
    }

    async fn fetch_source(&self, source: &PluginSource, hidden: &[String]) -> Result<Fetched, PluginError> {
        let (url, path) = match source.origin()? {
            Origin::Folder(folder) => return self.folder(&folder, source.repo_path.as_deref()),
            Origin::Repository { url, path } => (url, path),
        };
        let path = path.or_else(|| source.repo_path.clone()).filter(|path| !path.is_empty());
        let reference = source.reference.as_deref().filter(|reference| !reference.is_empty());
        if let Some(reference) = reference {
            check_reference(reference)?;
        }
        let commits = self.cache.as_ref().ok_or(PluginError::NoCache)?.join(cache_name(&url)).join(COMMITS);
        let pinned = reference.filter(|name| is_commit(name)).map(str::to_ascii_lowercase);
        let commit = match pinned.filter(|commit| commits.join(commit).is_dir()) {
            Some(commit) => commit,
            None => {
                let git = Git {
                    fetcher: self,
                    hidden,
                    shown: shown(&source.source, hidden),
                    end: Instant::now() + self.patience,
                };
                git.fetch_commit(&url, reference, &commits).await?
            }
        };
        let whole = commits.join(&commit);
        let repository = path.is_none().then(|| repository_name(&url));
        let folder = within(&whole, path.as_deref())?;
        Ok(Fetched { folder, commit: Some(commit), repository })
    }

    fn folder(&self, folder: &str, path: Option<&str>) -> Result<Fetched, PluginError> {
        let folder = match (folder.strip_prefix('~'), &self.home) {
            (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => {
                home.join(rest.trim_start_matches('/'))
            }
            (Some(_) | None, _) => PathBuf::from(folder),
        };
        let folder = fs::canonicalize(&folder).map_err(|_| PluginError::NoFolder(folder))?;
        Ok(Fetched { folder: within(&folder, path)?, commit: None, repository: None })
    }
}

/// Returns the folder at `path` in `whole`. `path` must not lead out of `whole`.
fn within(whole: &Path, path: Option<&str>) -> Result<PathBuf, PluginError> {
    let Some(path) = path.map(|path| path.trim_matches('/')).filter(|path| !path.is_empty()) else {
        return Ok(whole.to_owned());
    };
    let folder = whole.join(path);
    if folder.is_dir() && file::lies_within(&folder, whole) {
        Ok(folder)
    } else {
        Err(PluginError::NoPath(path.to_owned()))
    }
}

fn is_commit(name: &str) -> bool {
    name.len() == 40 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Rejects a name that git would read as something else than a name.
fn check_reference(name: &str) -> Result<(), PluginError> {
    let is_odd = |letter: char| letter.is_control() || letter.is_whitespace() || ":?*[\\^~".contains(letter);
    if name.starts_with(['-', '+']) || name.contains("..") || name.contains("@{") || name.chars().any(is_odd)
    {
        return Err(PluginError::Reference(name.to_owned()));
    }
    Ok(())
}

/// Runs git for one plugin.
struct Git<'a> {
    fetcher: &'a Fetcher,
    hidden: &'a [String],
    /// The source as error messages show it.
    shown: String,
    end: Instant,
}

/// A temporary folder. It is removed on drop, also if the fetch is cancelled.
struct TempFolder(PathBuf);

impl Drop for TempFolder {
    fn drop(&mut self) {
        // After a success the folder is gone already, because it was moved.
        let _gone_already = fs::remove_dir_all(&self.0);
    }
}

/// The result of one run of git.
struct Ran {
    is_fine: bool,
    stdout: String,
    stderr: String,
}

impl Git<'_> {
    /// Fetches a commit into its folder and returns the id of the commit.
    async fn fetch_commit(
        &self,
        url: &str,
        reference: Option<&str>,
        commits: &Path,
    ) -> Result<String, PluginError> {
        fs::create_dir_all(commits).map_err(file::failed(commits))?;
        let work = commits.join(format!(".{}.tmp", uuid::Uuid::new_v4().simple()));
        fs::create_dir(&work).map_err(file::failed(&work))?;
        let work = TempFolder(work);
        let commit = self.check_out(url, reference, &work.0).await?;
        let place = commits.join(&commit);
        let moved = fs::remove_dir_all(work.0.join(".git")).and_then(|()| fs::rename(&work.0, &place));
        match moved {
            // Another fetch may have put the same commit there first.
            Err(error) if !place.is_dir() => Err(file::failed(&place)(error)),
            Ok(()) | Err(_) => Ok(commit),
        }
    }

    async fn check_out(
        &self,
        url: &str,
        reference: Option<&str>,
        work: &Path,
    ) -> Result<String, PluginError> {
        for arguments in [&["init", "--quiet", "--template="][..], &["remote", "add", "origin", "--", url]] {
            let ran = self.run(arguments, work).await?;
            if !ran.is_fine {
                return Err(self.failed(&ran, reference));
            }
        }
        let wanted = reference.unwrap_or("HEAD");
        let shallow = ["fetch", "--quiet", "--no-tags", "--depth", "1", "origin", wanted];
        let ran = self.run(&shallow, work).await?;
        let mut name = "FETCH_HEAD^{commit}".to_owned();
        if !ran.is_fine {
            let error = self.failed(&ran, reference);
            let is_hex = wanted.len() >= 4 && wanted.bytes().all(|byte| byte.is_ascii_hexdigit());
            if !is_hex || !matches!(error, PluginError::NoReference { .. } | PluginError::Unavailable { .. })
            {
                return Err(error);
            }
            // Not every server serves a commit by its id, and no server by a part of the id. So all branches and tags
            // are fetched and searched.
            let all = [
                "fetch",
                "--quiet",
                "origin",
                "+refs/heads/*:refs/remotes/origin/*",
                "+refs/tags/*:refs/tags/*",
            ];
            if !self.run(&all, work).await?.is_fine {
                return Err(error);
            }
            name = format!("{wanted}^{{commit}}");
        }
        let found = self.run(&["rev-parse", "--verify", "--quiet", "--end-of-options", &name], work).await?;
        let commit = found.stdout.trim().to_ascii_lowercase();
        if !found.is_fine || !is_commit(&commit) {
            return Err(self.no_reference(wanted));
        }
        if reference.is_some_and(is_commit) && !commit.eq_ignore_ascii_case(wanted) {
            return Err(self.no_reference(wanted));
        }
        let ran = self.run(&["checkout", "--quiet", "--detach", &commit], work).await?;
        if ran.is_fine { Ok(commit) } else { Err(self.failed(&ran, reference)) }
    }

    async fn run(&self, arguments: &[&str], work: &Path) -> Result<Ran, PluginError> {
        let timed_out = || PluginError::Late { seconds: self.fetcher.patience.as_secs() };
        let unavailable = |error: Unsafe| PluginError::Unavailable {
            source_text: self.shown.clone(),
            reason: format!("git cannot be run: {error}"),
        };
        let used = match self.fetcher.settings {
            GitSettings::Own => Use::FetchAsPerson,
            GitSettings::None => Use::FetchAsNobody,
        };
        let git = tokio::time::timeout_at(self.end, crate::git::Git::of(work, used)).await;
        let git = git.map_err(|_| timed_out())?.map_err(unavailable)?;
        let mut git = git.command(work, arguments);
        git.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = git.spawn().map_err(|error| unavailable(error.into()))?;
        let group = Group::of(&child);
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let whole = async {
            let pipes = (program::read(stdout, OUTPUT_BYTES_MAX), program::read(stderr, OUTPUT_BYTES_MAX));
            let (stdout, stderr) = tokio::join!(pipes.0, pipes.1);
            (stdout, stderr, child.wait().await)
        };
        let ended = tokio::time::timeout_at(self.end, whole).await;
        let (stdout, stderr, status) = ended.map_err(|_| timed_out())?;
        group.release();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let (stdout, stderr) = (text(stdout), text(stderr));
        Ok(Ran { is_fine: status.map_err(|error| unavailable(error.into()))?.success(), stdout, stderr })
    }

    fn no_reference(&self, reference: &str) -> PluginError {
        PluginError::NoReference { source_text: self.shown.clone(), reference: shown(reference, self.hidden) }
    }

    /// Converts git's error messages to an error.
    fn failed(&self, ran: &Ran, reference: Option<&str>) -> PluginError {
        let stderr = shown(ran.stderr.trim(), self.hidden);
        let lower = stderr.to_lowercase();
        let mentions = |words: &[&str]| words.iter().any(|words| lower.contains(words));
        if mentions(&["authentication failed", "authentication required"]) {
            return PluginError::Refused { source_text: self.shown.clone() };
        }
        let missing = [
            "couldn't find remote ref",
            "could not find remote ref",
            "not our ref",
            "unadvertised object",
            "bad object",
            "needed a single revision",
        ];
        if mentions(&missing) {
            return self.no_reference(reference.unwrap_or("HEAD"));
        }
        let stderr: String =
            stderr.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
        PluginError::Unavailable { source_text: self.shown.clone(), reason: stderr }
    }
}
