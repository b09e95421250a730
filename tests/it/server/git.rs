//! What was changed in a repository.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::support::caller::{Served, model};

fn git(folder: &Path, arguments: &[&str]) {
    let done = Command::new("git")
        .args(["-c", "user.name=n", "-c", "user.email=e"])
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
}

/// A repository with one commit, and one file changed, one deleted, one new since.
fn repository(server: &Served) -> PathBuf {
    let folder = server.path("work");
    std::fs::create_dir_all(&folder).unwrap();
    git(&folder, &["init", "-q"]);
    std::fs::write(folder.join("changed.txt"), "a\n").unwrap();
    std::fs::write(folder.join("gone.txt"), "z\n").unwrap();
    git(&folder, &["add", "."]);
    git(&folder, &["commit", "-q", "-m", "first commit"]);
    std::fs::write(folder.join("changed.txt"), "a\nb\n").unwrap();
    std::fs::remove_file(folder.join("gone.txt")).unwrap();
    std::fs::write(folder.join("new.txt"), "new\n").unwrap();
    folder
}

#[tokio::test]
async fn changes_and_both_texts_are_told() {
    let (server, model) = (Served::start().await, model(&[]));
    let folder = repository(&server);
    let id = server.conversation(&model).await;
    for root in ["/api/git".to_owned(), format!("/api/conversations/{id}/git")] {
        let changes = server.get(&format!("{root}/changes?path={}&ref=HEAD", folder.display())).await.ok();
        let mut changes: Vec<String> = changes
            .as_array()
            .unwrap()
            .iter()
            .map(|change| format!("{} {}", change["status"], change["path"]))
            .collect();
        changes.sort();
        assert_eq!(
            changes,
            ["\"ADDED\" \"new.txt\"", "\"DELETED\" \"gone.txt\"", "\"UPDATED\" \"changed.txt\""]
        );
        for (name, original, modified) in
            [("changed.txt", "a", "a\nb"), ("new.txt", "", "new"), ("gone.txt", "z", "")]
        {
            let path = format!("{root}/diff?path={}/{name}&ref=HEAD", folder.display());
            assert_eq!(server.get(&path).await.ok(), json!({"modified": modified, "original": original}));
        }
        let commits = server.get(&format!("{root}/commits?path={}", folder.display())).await.ok();
        assert_eq!(
            (&commits["commits"][0]["subject"], &commits["has_more"]),
            (&json!("first commit"), &json!(false))
        );
        let sha = commits["commits"][0]["sha"].as_str().unwrap();
        let of = server.get(&format!("{root}/commits/{sha}/changes?path={}", folder.display())).await.ok();
        assert_eq!(of.as_array().unwrap().len(), 2);
        let delta =
            server.get(&format!("{}/archive?path={}", root.replace("/git", "/file"), folder.display())).await;
        assert_eq!((delta.status, delta.header("x-archive-base-commit")), (200, Some(sha)));
        assert!(delta.text().contains("+new") && delta.text().contains("-z"), "{}", delta.text());
    }
}

#[tokio::test]
async fn what_git_cannot_mean_is_refused() {
    let (server, model) = (Served::start().await, model(&[]));
    let folder = repository(&server);
    let bare = server.path("bare");
    std::fs::create_dir_all(&bare).unwrap();
    assert_eq!(server.get(&format!("/api/git/changes?path={}", bare.display())).await.ok(), json!([]));
    let path = folder.display();
    for query in [
        format!("changes?path={path}&ref=nope"),
        format!("changes?path={path}&ref=--output=/tmp/x"),
        format!("diff?path={path}/none"),
        format!("diff?path={path}/new.txt&ref=HEAD&commit=HEAD"),
        format!("commits?path={}", bare.display()),
        format!("commits/--all/changes?path={path}"),
    ] {
        assert_eq!(server.get(&format!("/api/git/{query}")).await.status, 400, "{query}");
    }
    assert_eq!(server.get("/api/git/changes").await.status, 422);
    assert_eq!(server.get(&format!("/api/git/commits?path={path}&limit=0")).await.status, 422);
    let id = server.conversation(&model).await;
    for route in ["changes", "diff", "commits", "commits/HEAD/changes"] {
        for outside in [format!("{path}/.."), bare.display().to_string(), "/etc/passwd".into()] {
            let answer = server.get(&format!("/api/conversations/{id}/git/{route}?path={outside}")).await;
            assert_eq!(
                answer.refusal(),
                (422, json!("path must be inside the conversation workspace")),
                "{route}"
            );
        }
    }
}
