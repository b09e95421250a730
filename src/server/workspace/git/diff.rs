//! One file before and after a change.

use std::path::{Path, PathBuf};

use super::base::base;
use super::run::{GitError, Repository};
use crate::untrusted;

/// The maximum size of a file that is shown: 1 MiB.
const BYTES_MAX: u64 = 1 << 20;

/// Both texts. Their lines are joined by `\n`, with no `\n` at the end. A text is empty if there is no file.
pub(super) struct Diff {
    pub modified: String,
    pub original: String,
}

/// Returns the file as it is now and as it was at the base.
pub(super) async fn since(file: &Path, named: Option<&str>) -> Result<Diff, GitError> {
    let (repository, relative) = find(file).await?;
    let now = tokio::fs::metadata(file).await.ok().filter(std::fs::Metadata::is_file);
    check(now.as_ref().map_or(0, std::fs::Metadata::len))?;
    let base = base(&repository, named).await?;
    let original = at(&repository, &base, &relative).await?;
    let Some(_) = now else {
        let original = original.ok_or_else(|| GitError::NoFile(file.display().to_string()))?;
        return Ok(Diff { modified: String::new(), original });
    };
    // A file that is not text is shown as empty, as in the reference.
    let place = file.to_owned();
    let read = tokio::task::spawn_blocking(move || untrusted::read_text(&place, BYTES_MAX)).await;
    let modified = read.ok().and_then(Result::ok).unwrap_or_default();
    Ok(Diff { modified: lines(&modified), original: original.unwrap_or_default() })
}

/// Returns the file in a commit and in the commit's parent.
pub(super) async fn of_commit(file: &Path, name: &str) -> Result<Diff, GitError> {
    let (repository, relative) = find(file).await?;
    let commit = repository.commit(name).await?.ok_or_else(|| GitError::Reference(name.to_owned()))?;
    let modified = at(&repository, &commit, &relative).await?;
    let original = match repository.commit(&format!("{commit}^")).await? {
        Some(parent) => at(&repository, &parent, &relative).await?,
        None => None,
    };
    if modified.is_none() && original.is_none() {
        return Err(GitError::NoFile(file.display().to_string()));
    }
    Ok(Diff { modified: modified.unwrap_or_default(), original: original.unwrap_or_default() })
}

/// Returns the repository of a file, and the file's path from the repository's root. The file and its folder may no
/// longer exist.
async fn find(file: &Path) -> Result<(Repository, String), GitError> {
    let mut folder = file.parent();
    while let Some(candidate) = folder {
        if tokio::fs::metadata(candidate).await.is_ok_and(|found| found.is_dir()) {
            break;
        }
        folder = candidate.parent();
    }
    let folder = folder.unwrap_or(Path::new("/"));
    let none = || GitError::NoFile(file.display().to_string());
    let repository = match Repository::at(folder).await {
        Err(GitError::NoRepository(_)) if !file.exists() => return Err(none()),
        other => other?,
    };
    let root = PathBuf::from(repository.text(&["rev-parse", "--show-toplevel"]).await?);
    let real = tokio::fs::canonicalize(folder).await.map_err(|_| none())?;
    let whole = real.join(file.strip_prefix(folder).map_err(|_| none())?);
    let relative = whole.strip_prefix(&root).map_err(|_| none())?.to_string_lossy().into_owned();
    Ok((Repository::at(&root).await?, relative))
}

/// Returns the file's text at a commit; `None` if the commit does not contain the file.
async fn at(repository: &Repository, commit: &str, relative: &str) -> Result<Option<String>, GitError> {
    let place = format!("{commit}:{relative}");
    match repository.text(&["cat-file", "-t", &place]).await {
        Ok(kind) if kind == "blob" => {}
        Ok(_) | Err(GitError::Refused(_)) => return Ok(None),
        Err(error) => return Err(error),
    }
    check(repository.text(&["cat-file", "-s", &place]).await?.parse().unwrap_or_default())?;
    Ok(Some(lines(&String::from_utf8_lossy(&repository.bytes(&["cat-file", "blob", &place]).await?))))
}

fn check(bytes: u64) -> Result<(), GitError> {
    if bytes > BYTES_MAX { Err(GitError::TooLarge { bytes, max: BYTES_MAX }) } else { Ok(()) }
}

fn lines(text: &str) -> String {
    text.lines().collect::<Vec<_>>().join("\n")
}
