//! The changes in a folder of a repository, as a patch that git can apply.

use std::path::Path;

use super::base::{self, EMPTY_TREE};
use super::run::{GitError, Repository};
use crate::server::workspace::private::Private;

/// A patch and its base.
pub(in crate::server) struct Delta {
    /// The patch, including binary files.
    pub patch: Vec<u8>,
    /// The commit that the patch applies to; `None` for the empty tree.
    pub base: Option<String>,
}

/// Returns the changes since a commit, including new files. The repository's own index is not changed, because a
/// separate index is used.
pub(super) async fn since(
    folder: &Path,
    named: Option<&str>,
    excluded: &[String],
) -> Result<Delta, GitError> {
    let repository = Repository::at(folder).await?;
    // With a detached HEAD, the base is HEAD itself and not the commit that `base` would choose.
    let is_detached = repository.text(&["symbolic-ref", "--quiet", "HEAD"]).await.is_err();
    let base = base::base(&repository, named.or(is_detached.then_some("HEAD"))).await?;
    let place = Private::new().map_err(|error| GitError::Start(error.into()))?;
    let patch = patch(&repository.with_index(&place.path().join("index")), &base, excluded).await?;
    Ok(Delta { patch, base: (base != EMPTY_TREE).then_some(base) })
}

async fn patch(repository: &Repository, base: &str, excluded: &[String]) -> Result<Vec<u8>, GitError> {
    let excluded: Vec<String> = excluded.iter().flat_map(|pattern| excluding(pattern)).collect();
    let with = |first: &[&'static str]| -> Vec<String> {
        first.iter().map(|argument| (*argument).to_owned()).chain(excluded.iter().cloned()).collect()
    };
    let run = |arguments: Vec<String>| async move {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        repository.bytes(&arguments).await
    };
    run(vec!["read-tree".to_owned(), base.to_owned()]).await?;
    run(with(&["add", "-A", "--", "."])).await?;
    let mut diff = with(&["diff", "--binary", "--cached", "BASE", "--", "."]);
    diff[3] = base.to_owned();
    run(diff).await
}

/// Returns the pathspecs that exclude the matches of a pattern. A single name matches at any depth. A pattern that ends
/// with a slash excludes the content of a folder of that name, but not a file of that name.
fn excluding(pattern: &str) -> Vec<String> {
    let name = pattern.trim_end_matches('/');
    if name.is_empty() {
        return Vec::new();
    }
    let start = if name.contains('/') { "" } else { "**/" };
    let mut specs = vec![format!(":(exclude,glob){start}{name}/**")];
    if name == pattern {
        specs.push(format!(":(exclude,glob){start}{name}"));
    }
    specs
}
