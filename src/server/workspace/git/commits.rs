//! The newest commits of a branch.

use serde_json::{Value, json};

use super::run::{GitError, Repository};

/// One commit per line. Its fields are separated by a character that none of them can contain.
const FORMAT: &str = "--format=%H%x1f%h%x1f%an%x1f%aI%x1f%s";

/// Returns at most `limit` commits, the newest first, and whether there are more.
pub(super) async fn newest(repository: &Repository, limit: usize) -> Result<Value, GitError> {
    let Some(head) = repository.commit("HEAD").await? else {
        return Ok(json!({"commits": [], "has_more": false}));
    };
    let count = (limit + 1).to_string();
    let output = repository.text(&["log", FORMAT, "-n", &count, &head]).await?;
    let commits: Vec<Value> = output
        .lines()
        .filter_map(|line| {
            let mut fields = line.splitn(5, '\u{1f}');
            let mut next = || fields.next();
            let (sha, short_sha, author, timestamp) = (next()?, next()?, next()?, next()?);
            let subject = next()?;
            Some(json!({"sha": sha, "short_sha": short_sha, "subject": subject, "author": author, "timestamp": timestamp}))
        })
        .collect();
    Ok(json!({"commits": &commits[..commits.len().min(limit)], "has_more": commits.len() > limit}))
}
