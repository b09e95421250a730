//! Bringing a plugin here: a folder of this machine as it is, a commit of a repository into the cache.
//!
//! A repository's commit is kept whole and never changed under `<cache>/<name>-<hash>/resolved-refs/<commit>`, where the
//! reference keeps it too; a source that names a commit is had from there without asking anybody. Git runs without a
//! shell, asks nobody anything and has a bounded time; what it says is told without credentials.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::time::Instant;

use super::source::{Origin, cache_name};
use super::{PluginError, PluginSource, file, without_credentials};
use crate::git::{Unsafe, Use};

/// How long bringing one plugin may take where nobody says.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Where commits are kept below a repository's folder.
const COMMITS: &str = "resolved-refs";

/// How much of what git says is kept, in bytes.
const SAID_BYTES_MAX: u64 = 16 << 10;

/// What brings plugins.
#[derive(Debug, Clone)]
pub struct Fetcher {
    /// Where commits of repositories are kept.
    pub cache: Option<PathBuf>,
    /// The folder that `~` stands for.
    pub home: Option<PathBuf>,
    /// How long one may take.
    pub patience: Duration,
    /// Whether git may use the person's own settings: their helpers for passwords.
    pub settings: GitSettings,
}

/// Which settings git has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GitSettings {
    /// The person's own.
    Own,
    /// None at all.
    None,
}

/// A plugin's folder that is here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// The folder.
    pub folder: PathBuf,
    /// The commit that it is of; none for a folder of this machine.
    pub commit: Option<String>,
    /// The name of the repository, where the folder is all of it.
    pub repository: Option<String>,
}

impl Fetcher {
    /// What keeps commits in the folder of this person, where the reference keeps them too.
    #[must_use]
    pub fn of_home(home: &Path) -> Self {
        Self {
            cache: Some(home.join(".openhands/cache/plugins")),
            home: Some(home.to_owned()),
            patience: PATIENCE,
            settings: GitSettings::Own,
        }
    }

    /// Brings a plugin here. The source's secrets are put in already; `hidden` are their values.
    ///
    /// # Errors
    /// What [`PluginError`] has of sources, folders and git.
    pub async fn fetch(&self, source: &PluginSource, hidden: &[String]) -> Result<Fetched, PluginError> {
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
                    shown: hide(&without_credentials(&source.source), hidden),
                    end: Instant::now() + self.patience,
                };
                git.bring(&url, reference, &commits).await?
            }
        };
        let whole = commits.join(&commit);
        let repository = path.is_none().then(|| super::source::readable(&url));
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

/// A folder in another one, which it does not lead out of.
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

/// Refuses what git would take for something else than a name.
fn check_reference(name: &str) -> Result<(), PluginError> {
    let is_odd = |letter: char| letter.is_control() || letter.is_whitespace() || ":?*[\\^~".contains(letter);
    if name.starts_with(['-', '+']) || name.contains("..") || name.contains("@{") || name.chars().any(is_odd)
    {
        return Err(PluginError::Reference(name.to_owned()));
    }
    Ok(())
}

/// A text without the values of secrets.
fn hide(text: &str, hidden: &[String]) -> String {
    let mut text = text.to_owned();
    for value in hidden.iter().filter(|value| !value.is_empty()) {
        text = text.replace(value.as_str(), "****");
    }
    text
}

/// Git, for one plugin.
struct Git<'a> {
    fetcher: &'a Fetcher,
    hidden: &'a [String],
    /// The source as errors tell of it.
    shown: String,
    end: Instant,
}

/// A folder that is gone when nobody needs it, also where nobody waits for git to end.
struct Aside(PathBuf);

impl Drop for Aside {
    fn drop(&mut self) {
        // It was moved where all went well.
        let _gone = fs::remove_dir_all(&self.0);
    }
}

/// What git did.
struct Ran {
    is_fine: bool,
    out: String,
    said: String,
}

impl Git<'_> {
    /// Brings a commit into its folder, and answers which it is.
    async fn bring(&self, url: &str, reference: Option<&str>, commits: &Path) -> Result<String, PluginError> {
        fs::create_dir_all(commits).map_err(file::failed(commits))?;
        let work = commits.join(format!(".{}.tmp", uuid::Uuid::new_v4().simple()));
        fs::create_dir(&work).map_err(file::failed(&work))?;
        let work = Aside(work);
        let commit = self.check_out(url, reference, &work.0).await?;
        let place = commits.join(&commit);
        let moved = fs::remove_dir_all(work.0.join(".git")).and_then(|()| fs::rename(&work.0, &place));
        match moved {
            // Somebody else may have been first.
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
            // Not every server gives out a commit by its name, and none a piece of a name: it is looked for here.
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
        let commit = found.out.trim().to_ascii_lowercase();
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
        let late = || PluginError::Late { seconds: self.fetcher.patience.as_secs() };
        let unavailable = |error: Unsafe| PluginError::Unavailable {
            source_text: self.shown.clone(),
            reason: format!("git cannot be run: {error}"),
        };
        let used = match self.fetcher.settings {
            GitSettings::Own => Use::FetchAsPerson,
            GitSettings::None => Use::FetchAsNobody,
        };
        let mut git = crate::git::Git::of(work, used).await.map_err(unavailable)?.command(work, arguments);
        git.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = git.spawn().map_err(|error| unavailable(error.into()))?;
        let group = child.id();
        let (out, said) = (child.stdout.take(), child.stderr.take());
        let whole = async {
            let (out, said) = tokio::join!(read(out), read(said));
            (out, said, child.wait().await)
        };
        let Ok((out, said, status)) = tokio::time::timeout_at(self.end, whole).await else {
            kill(group);
            return Err(late());
        };
        Ok(Ran { is_fine: status.map_err(|error| unavailable(error.into()))?.success(), out, said })
    }

    fn no_reference(&self, reference: &str) -> PluginError {
        PluginError::NoReference {
            source_text: self.shown.clone(),
            reference: hide(&without_credentials(reference), self.hidden),
        }
    }

    /// What git's words mean.
    fn failed(&self, ran: &Ran, reference: Option<&str>) -> PluginError {
        let said = hide(&without_credentials(ran.said.trim()), self.hidden);
        let lower = said.to_lowercase();
        let says = |words: &[&str]| words.iter().any(|words| lower.contains(words));
        if says(&["authentication failed", "authentication required"]) {
            return PluginError::Refused { source_text: self.shown.clone() };
        }
        let lacks = [
            "couldn't find remote ref",
            "could not find remote ref",
            "not our ref",
            "unadvertised object",
            "bad object",
            "needed a single revision",
        ];
        if says(&lacks) {
            return self.no_reference(reference.unwrap_or("HEAD"));
        }
        let said: String =
            said.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
        PluginError::Unavailable { source_text: self.shown.clone(), reason: said }
    }
}

/// All that comes, of which the beginning is kept.
async fn read(pipe: Option<impl AsyncRead + Unpin>) -> String {
    let Some(mut pipe) = pipe else { return String::new() };
    let mut kept = Vec::new();
    let _whole = (&mut pipe).take(SAID_BYTES_MAX).read_to_end(&mut kept).await;
    let _rest = tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await;
    String::from_utf8_lossy(&kept).into_owned()
}

/// Kills git and what it has started.
fn kill(group: Option<u32>) {
    #[cfg(unix)]
    if let Some(group) = group.and_then(|id| rustix::process::Pid::from_raw(i32::try_from(id).ok()?)) {
        let _gone_already = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    #[cfg(not(unix))]
    let _ = group;
}
