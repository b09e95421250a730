//! Which files changed.

use serde_json::{Value, json};

use super::base::{EMPTY_TREE, base};
use super::run::{GitError, Repository};

/// Changed files with what became of them, in git's order.
pub(super) struct Changes(Vec<(&'static str, String)>);

impl Changes {
    /// As the interface shows them.
    pub fn to_json(&self) -> Value {
        self.0.iter().map(|(status, path)| json!({"status": status, "path": path})).collect()
    }

    /// Of `--name-status -z`: a status, then a path, or two where a file was moved or copied.
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
                // Modified, another type of file, unmerged.
                _ => changes.push(("UPDATED", path)),
            }
        }
        Ok(Self(changes))
    }
}

/// What differs from the base, and what git does not know yet; paths from the folder that was asked about.
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

/// What one commit changed.
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
    fn a_moved_file_went_and_came() {
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
