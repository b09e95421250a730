//! The list of changed files.

use serde_json::{Value, json};

use super::base::{EMPTY_TREE, base};
use super::run::{GitError, Repository};

/// Changed files with their status, in git's order.
pub(super) struct Changes(Vec<(&'static str, String)>);

impl Changes {
    /// Returns the list in the interface's format.
    pub fn to_json(&self) -> Value {
        self.0.iter().map(|(status, path)| json!({"status": status, "path": path})).collect()
    }

    /// Parses the output of `--name-status -z`: a status, then one path, or two if a file was renamed or copied.
    fn parse(output: &[u8]) -> Result<Self, GitError> {
        let output = String::from_utf8_lossy(output);
        let mut fields = output.split('\0').filter(|field| !field.is_empty()).map(str::to_owned);
        let mut changes = Vec::new();
        while let Some(status) = fields.next() {
            let short = || GitError::Refused(format!("a status without a path: {status}"));
            let path = fields.next().ok_or_else(short)?;
            match status.as_bytes()[0] {
                b'A' => changes.push(("ADDED", path)),
                b'D' => changes.push(("DELETED", path)),
                b'R' => {
                    changes.push(("DELETED", path));
                    changes.push(("ADDED", fields.next().ok_or_else(short)?));
                }
                b'C' => changes.push(("ADDED", fields.next().ok_or_else(short)?)),
                // Modified, another file type, or unmerged.
                _ => changes.push(("UPDATED", path)),
            }
        }
        Ok(Self(changes))
    }
}

/// Returns the files that differ from the base, and the untracked files. Paths are relative to the requested folder.
pub(super) async fn since(repository: &Repository, named: Option<&str>) -> Result<Changes, GitError> {
    let base = base(repository, named).await?;
    let output = repository.bytes(&["diff", "--name-status", "-z", "--relative", &base]).await?;
    let mut changes = Changes::parse(&output)?;
    let others = repository.bytes(&["ls-files", "--others", "--exclude-standard", "-z"]).await?;
    let others = String::from_utf8_lossy(&others).into_owned();
    changes
        .0
        .extend(others.split('\0').filter(|path| !path.is_empty()).map(|path| ("ADDED", path.to_owned())));
    Ok(changes)
}

/// Returns the files that one commit changed.
pub(super) async fn of_commit(repository: &Repository, name: &str) -> Result<Changes, GitError> {
    let commit = repository.commit(name).await?.ok_or_else(|| GitError::Reference(name.to_owned()))?;
    let parent = repository.commit(&format!("{commit}^")).await?.unwrap_or_else(|| EMPTY_TREE.to_owned());
    let output = repository.bytes(&["diff", "--name-status", "-z", "--relative", &parent, &commit]).await?;
    Changes::parse(&output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renamed_file_is_deleted_and_added() {
        let changes = Changes::parse(b"M\0a b\0R100\0old\0new\0A\0x\0D\0y\0T\0l\0").unwrap();
        let expected = [
            ("UPDATED", "a b"),
            ("DELETED", "old"),
            ("ADDED", "new"),
            ("ADDED", "x"),
            ("DELETED", "y"),
            ("UPDATED", "l"),
        ];
        assert_eq!(changes.0, expected.map(|(status, path)| (status, path.to_owned())));
        assert!(Changes::parse(b"M\0").is_err());
    }
}
