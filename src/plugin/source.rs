//! The source of a plugin: a folder, a repository, or `github:owner/repo`.

use std::path::{Component, Path};

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;

use super::PluginError;
use crate::secret::{REFERENCE, bare, without_credentials};

/// The source of a plugin.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct PluginSource {
    /// `github:owner/repo[/path]`, the URL of a repository, or the path of a folder.
    pub source: String,
    /// The branch, tag or commit of a repository. `None` for its default branch.
    pub reference: Option<String>,
    /// The plugin's folder within the repository: relative, without `..`.
    pub repo_path: Option<String>,
}

setters!(PluginSource { source, reference?: String, repo_path?: String });

/// The kind of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A folder of this machine, as the source has it.
    Folder(String),
    /// A repository, and the folder in it if the shorthand `github:` names one.
    Repository {
        /// The URL for git.
        url: String,
        /// The folder.
        path: Option<String>,
    },
}

/// A plugin's source and the fetched commit, as a conversation stores them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Resolved {
    /// The source. Credentials are replaced by stars; a plain `${NAME}` stays.
    pub source: String,
    /// The fetched commit. `None` for a folder of this machine.
    pub resolved_ref: Option<String>,
    /// The plugin's folder within the repository.
    pub repo_path: Option<String>,
    /// The branch, tag or commit that was requested.
    pub original_ref: Option<String>,
}

impl PluginSource {
    /// Makes a source without a branch and without a folder in the repository.
    #[must_use]
    pub fn new(source: impl Into<String>) -> Self {
        Self { source: source.into(), ..Self::default() }
    }

    /// Reads the reference's JSON object: `{source, ref, repo_path}`.
    ///
    /// # Errors
    /// The invalid member and the reason.
    pub fn of_members(members: &Map<String, Value>) -> Result<Self, (&'static str, String)> {
        let text = |name: &'static str| match members.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err((name, "Input should be a valid string".to_owned())),
        };
        let source = Self {
            source: text("source")?.ok_or(("source", "Field required".to_owned()))?,
            reference: text("ref")?,
            repo_path: text("repo_path")?,
        };
        match source.checked_path() {
            Ok(()) => Ok(source),
            Err(reason) => Err(("repo_path", format!("Value error, repo_path {reason}"))),
        }
    }

    /// Returns the reference's JSON object. Credentials are replaced by stars, unless they are plain references to
    /// secrets.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "source": without_credentials(&self.source), "ref": self.reference, "repo_path": self.repo_path,
        })
    }

    /// Returns the kind of the source.
    ///
    /// # Errors
    /// [`PluginError::Source`] and [`PluginError::Path`].
    pub fn origin(&self) -> Result<Origin, PluginError> {
        let refused = || PluginError::Source(without_credentials(&self.source));
        if self.source.chars().any(char::is_control) {
            return Err(refused());
        }
        self.checked_path().map_err(|reason| PluginError::Path {
            path: self.repo_path.clone().unwrap_or_default(),
            reason,
        })?;
        let source = self.source.trim();
        if let Some(rest) = source.strip_prefix("github:") {
            let mut parts = rest.splitn(3, '/');
            let (owner, repository) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            if owner.is_empty() || repository.is_empty() {
                return Err(refused());
            }
            let path = parts.next().map(|path| path.trim_matches('/')).filter(|path| !path.is_empty());
            if path.is_some() && self.repo_path.as_deref().is_some_and(|path| !path.is_empty()) {
                return Err(PluginError::Path {
                    path: self.repo_path.clone().unwrap_or_default(),
                    reason: "the source already names a folder of the repository",
                });
            }
            if path.is_some_and(climbs) {
                return Err(refused());
            }
            let url = format!("https://github.com/{owner}/{repository}.git");
            return Ok(Origin::Repository { url, path: path.map(str::to_owned) });
        }
        if is_repository(source) {
            return Ok(Origin::Repository { url: with_ending(source), path: None });
        }
        let is_folder =
            source.starts_with(['~', '.', '/', '\\']) || (source.contains('/') && !source.contains("://"));
        if is_folder { Ok(Origin::Folder(source.to_owned())) } else { Err(refused()) }
    }

    /// Replaces each `${NAME}` by its value. A name without a value stays. Also returns the values that were put in,
    /// for masking.
    #[must_use]
    pub fn expanded(&self, value: &dyn Fn(&str) -> Option<String>) -> (Self, Vec<String>) {
        let mut used = Vec::new();
        let mut expand = |text: &str| {
            let replaced =
                REFERENCE.replace_all(text, |found: &regex::Captures<'_>| match value(&found[1]) {
                    Some(value) => {
                        used.push(value.clone());
                        value
                    }
                    None => found[0].to_owned(),
                });
            replaced.into_owned()
        };
        let expanded = Self {
            source: expand(&self.source),
            reference: self.reference.as_deref().map(&mut expand),
            repo_path: self.repo_path.clone(),
        };
        (expanded, used)
    }

    /// Returns the names of the secrets that the source refers to.
    #[must_use]
    pub fn references(&self) -> Vec<String> {
        let texts = [Some(&self.source), self.reference.as_ref()];
        let mut names: Vec<String> = texts
            .into_iter()
            .flatten()
            .flat_map(|text| REFERENCE.captures_iter(text).map(|found| found[1].to_owned()))
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    fn checked_path(&self) -> Result<(), &'static str> {
        match self.repo_path.as_deref() {
            None => Ok(()),
            Some(path) if path.starts_with('/') => Err("must be relative, not absolute"),
            Some(path) if climbs(path) => Err("cannot contain '..' (parent directory traversal)"),
            Some(path) if path.chars().any(char::is_control) => Err("cannot contain control characters"),
            Some(_) => Ok(()),
        }
    }
}

impl Resolved {
    /// Makes the record of a source that was fetched at this commit.
    #[must_use]
    pub fn of(source: &PluginSource, commit: Option<String>) -> Self {
        Self {
            source: without_credentials(&source.source),
            resolved_ref: commit,
            repo_path: source.repo_path.clone(),
            original_ref: source.reference.clone(),
        }
    }

    /// Returns the source that fetches exactly the same plugin again.
    #[must_use]
    pub fn pinned(&self) -> PluginSource {
        PluginSource {
            source: self.source.clone(),
            reference: self.resolved_ref.clone().or_else(|| self.original_ref.clone()),
            repo_path: self.repo_path.clone(),
        }
    }

    /// Returns whether this is the record of the given source.
    #[must_use]
    pub fn is_of(&self, source: &PluginSource) -> bool {
        without_credentials(&self.source) == without_credentials(&source.source)
            && self.repo_path == source.repo_path
            && self.original_ref == source.reference
    }

    /// Returns the reference's JSON object.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "source": self.source, "resolved_ref": self.resolved_ref, "repo_path": self.repo_path,
            "original_ref": self.original_ref,
        })
    }

    /// Reads the reference's JSON object. `None` for anything else.
    #[must_use]
    pub fn of_json(value: &Value) -> Option<Self> {
        let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        Some(Self {
            source: text("source")?,
            resolved_ref: text("resolved_ref"),
            repo_path: text("repo_path"),
            original_ref: text("original_ref"),
        })
    }
}

/// Returns the name of a source's folder in a cache. It is readable and unique. Credentials do not change it.
pub(super) fn cache_name(source: &str) -> String {
    let bare = bare(source);
    let digest = Sha256::digest(bare.as_bytes());
    let mut name = readable(&bare);
    name.push('-');
    for byte in digest.iter().take(8) {
        let _ = write!(name, "{byte:02x}");
    }
    name
}

/// Returns the last part of a repository's URL, in a form that is allowed as a folder's name.
pub(super) fn repository_name(url: &str) -> String {
    readable(&bare(url))
}

/// Returns the last part of a URL without credentials or of a path, in a form that is allowed as a folder's name.
fn readable(source: &str) -> String {
    let prefixes = ["github:", "https://", "http://", "git://", "file://"];
    let mut name = prefixes.iter().find_map(|prefix| source.strip_prefix(prefix)).unwrap_or(source);
    if name.contains('@')
        && let Some((host, path)) = name.split_once(':')
        && !host.contains('/')
    {
        name = path;
    }
    let name = name.trim_end_matches('/');
    let name = name.strip_suffix(".git").unwrap_or(name).rsplit('/').next().unwrap_or_default();
    let mut kept = String::new();
    for letter in name.chars() {
        match letter {
            letter if letter.is_ascii_alphanumeric() || letter == '_' => kept.push(letter),
            _ if kept.ends_with('-') => {}
            _ => kept.push('-'),
        }
    }
    let kept: String = kept.trim_matches('-').chars().take(32).collect();
    if kept.is_empty() { "repo".to_owned() } else { kept }
}

/// Returns whether a path contains `..`.
pub(super) fn climbs(path: &str) -> bool {
    Path::new(path).components().any(|part| part == Component::ParentDir)
        || path.split(['/', '\\']).any(|part| part == "..")
}

fn is_repository(source: &str) -> bool {
    if ["https://", "http://", "git://", "file://"].iter().any(|scheme| source.starts_with(scheme)) {
        return true;
    }
    // user@host:path
    let is_word = |text: &str| {
        !text.is_empty() && text.chars().all(|letter| letter.is_alphanumeric() || "_.-".contains(letter))
    };
    let user_and_rest = source.split_once('@');
    user_and_rest.is_some_and(|(user, rest)| {
        is_word(user) && !user.starts_with('-') && rest.split_once(':').is_some_and(|(host, _)| is_word(host))
    })
}

/// Adds `.git` to a web URL of a repository, except to Azure's.
fn with_ending(url: &str) -> String {
    let is_web = url.starts_with("https://") || url.starts_with("http://");
    if !is_web || url.ends_with(".git") {
        return url.to_owned();
    }
    let url = url.trim_end_matches('/');
    let path = url.splitn(4, '/').nth(3).unwrap_or_default();
    let path = path.split(['?', '#']).next().unwrap_or_default();
    if format!("/{path}").contains("/_git/") { url.to_owned() } else { format!("{url}.git") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_the_cache_have_the_references_names_without_a_trace_of_credentials() {
        let golden: Value =
            serde_json::from_str(include_str!("../../tests/golden/plugins/folders.json")).unwrap();
        let mut n_compared = 0;
        for case in golden["sources"].as_array().unwrap() {
            let (Some(url), Some(theirs)) = (case["url"].as_str(), case["cache"].as_str()) else { continue };
            // There, a credential is a part of the address.
            let expected = if url.contains("@gitlab.com/") { "repo-9545e642a20d87c5" } else { theirs };
            assert_eq!(cache_name(url), expected, "{url}");
            n_compared += 1;
        }
        assert!(n_compared > 10, "{n_compared}");
        for (url, name) in [
            ("https://u:s3cret@h/a/my.repo.git", "my-repo"),
            ("https://h/a/repo?private_token=s3cret", "repo-private_token"),
            ("https://h/?token=s3cret/x", "token"),
            ("https://s3cret@h", "h"),
        ] {
            assert_eq!(repository_name(url), name, "{url}");
            assert!(cache_name(url).starts_with(&format!("{name}-")), "{url}");
        }
    }
}
