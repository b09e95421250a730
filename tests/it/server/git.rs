//! The git routes: changes, diffs, commits and archives of a repository.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::support::caller::{Served, model};
use crate::support::executable::script;

fn git(folder: &Path, arguments: &[&str]) {
    let done = Command::new("git")
        .args(["-c", "user.name=n", "-c", "user.email=e"])
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
}

/// Makes a repository with one commit. After the commit, one file is changed, one deleted and one added.
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
async fn changes_and_both_texts_are_returned() {
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
async fn invalid_git_requests_are_rejected() {
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
        format!("commits/abcdef1/changes?path={path}"),
    ] {
        assert_eq!(server.get(&format!("/api/git/{query}")).await.status, 400, "{query}");
    }
    let none = server.get(&format!("/api/git/commits?path={}", bare.display())).await.ok();
    assert_eq!(none, json!({"commits": [], "has_more": false}));
    let none = server.get(&format!("/api/git/commits/abcdef1/changes?path={}", bare.display())).await.ok();
    assert_eq!(none, json!([]));
    for sha in ["--all", "abc", "zzzz"] {
        assert_eq!(
            server.get(&format!("/api/git/commits/{sha}/changes?path={path}")).await.status,
            422,
            "{sha}"
        );
    }
    assert_eq!(server.get("/api/git/changes").await.status, 422);
    assert_eq!(server.get(&format!("/api/git/commits?path={path}&limit=0")).await.status, 422);
    let id = server.conversation(&model).await;
    for route in ["changes", "diff", "commits", "commits/abcdef1/changes"] {
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

/// Sets every option and hook of a repository that starts a program. Each program leaves its own file in `marks`.
fn hostile(folder: &Path, marks: &Path) {
    let mark = |name: &str| format!("sh -c 'touch {}/{name}; cat'", marks.display());
    std::fs::create_dir_all(marks).unwrap();
    for (name, value) in [
        ("core.fsmonitor", mark("fsmonitor")),
        ("core.pager", mark("pager")),
        ("core.editor", mark("editor")),
        ("core.sshCommand", mark("ssh")),
        ("core.alternateRefsCommand", mark("alternates")),
        ("credential.helper", format!("!{}", mark("helper"))),
        ("diff.external", mark("external")),
        ("diff.own.command", mark("driver")),
        ("diff.own.textconv", mark("textconv")),
        ("diff.own.binary", "true".to_owned()),
        ("filter.own.clean", mark("clean")),
        ("filter.own.smudge", mark("smudge")),
        ("filter.own.required", "true".to_owned()),
        ("filter.a=b.c.clean", mark("odd-clean")),
        ("filter.long.process", mark("process")),
        ("filter.long.required", "true".to_owned()),
        ("gpg.program", mark("gpg")),
        ("log.showSignature", "true".to_owned()),
        ("pager.log", mark("pager-log")),
        ("pager.diff", mark("pager-diff")),
        ("pager.status", mark("pager-status")),
        ("protocol.ext.allow", "always".to_owned()),
        ("protocol.allow", "always".to_owned()),
        ("extensions.partialClone", "origin".to_owned()),
        ("remote.origin.promisor", "true".to_owned()),
        ("remote.origin.url", format!("ext::{}", mark("ext"))),
        ("remote.origin.uploadpack", mark("uploadpack")),
        ("submodule.recurse", "true".to_owned()),
        ("diff.submodule", "log".to_owned()),
        ("status.submoduleSummary", "true".to_owned()),
        ("merge.own.driver", mark("merge")),
    ] {
        git(folder, &["config", name, &value]);
    }
    let hooks = folder.join(".git/hooks");
    std::fs::create_dir_all(&hooks).unwrap();
    for name in ["post-checkout", "post-index-change", "pre-commit", "reference-transaction", "post-merge"] {
        let hook = hooks.join(name);
        script(&hook, &format!("#!/bin/sh\ntouch {}/hook-{name}\n", marks.display()));
    }
}

#[cfg(unix)]
#[tokio::test]
async fn no_git_route_runs_programs_of_the_repository() {
    let (server, model) = (Served::start().await, model(&[]));
    let folder = repository(&server);
    let attributes = "*.txt filter=own diff=own merge=own\n*.odd filter=a=b.c\n*.long filter=long\n";
    std::fs::write(folder.join(".gitattributes"), attributes).unwrap();
    for name in ["a.odd", "a.long"] {
        std::fs::write(folder.join(name), "as it is\n").unwrap();
    }
    // An inner repository with the same hostile settings, and a changed file in it.
    let inner = folder.join("inner");
    std::fs::create_dir_all(&inner).unwrap();
    git(&inner, &["init", "-q"]);
    std::fs::write(inner.join("in.txt"), "1\n").unwrap();
    git(&inner, &["add", "."]);
    git(&inner, &["commit", "-q", "-m", "inner"]);
    git(&folder, &["add", "."]);
    git(&folder, &["commit", "-q", "-m", "second commit"]);
    for (name, text) in
        [("changed.txt", "again\n"), ("a.odd", "odd\n"), ("a.long", "long\n"), ("inner/in.txt", "2\n")]
    {
        std::fs::write(folder.join(name), text).unwrap();
    }
    std::fs::write(inner.join(".gitattributes"), attributes).unwrap();
    let marks = server.path("marks");
    hostile(&folder, &marks);
    hostile(&inner, &marks);
    // First check that the repository is hostile: plain git runs its programs.
    let _output = Command::new("git").args(["status"]).current_dir(&folder).output().unwrap();
    assert!(marks.join("fsmonitor").exists(), "the repository is not as hostile as it should be");
    std::fs::remove_dir_all(&marks).unwrap();
    std::fs::create_dir_all(&marks).unwrap();

    let place = folder.display();
    let id = server.conversation(&model).await;
    let commits = server.get(&format!("/api/git/commits?path={place}")).await.ok();
    assert_eq!(commits["commits"].as_array().unwrap().len(), 2);
    let sha = commits["commits"][0]["sha"].as_str().unwrap().to_owned();
    let changes = server.get(&format!("/api/git/changes?path={place}&ref=HEAD")).await.ok();
    assert!(changes.to_string().contains("changed.txt"), "{changes}");
    for path in [
        format!("/api/git/changes?path={place}"),
        format!("/api/git/diff?path={place}/changed.txt&ref=HEAD"),
        format!("/api/git/diff?path={place}/a.odd"),
        format!("/api/git/diff?path={place}/inner/in.txt"),
        format!("/api/git/diff?path={place}/changed.txt&commit={sha}"),
        format!("/api/git/commits/{sha}/changes?path={place}"),
        format!("/api/conversations/{id}/git/changes?path={place}"),
        format!("/api/file/archive?path={place}&base_ref=HEAD"),
        format!("/api/file/archive?path={place}&base_ref={sha}~1"),
        format!("/api/file/archive?path={place}&format=tar.gz"),
    ] {
        let answer = server.get(&path).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    }
    let mut wanted = server.conversation_request(&model);
    wanted["worktree"] = json!(true);
    wanted["workspace"] = json!({"working_dir": folder});
    let made = server.post("/api/conversations", wanted).await.ok();
    let apart = made["workspace"]["working_dir"].as_str().unwrap();
    assert_eq!(std::fs::read_to_string(format!("{apart}/a.odd")).unwrap(), "as it is\n");
    let id = made["id"].as_str().unwrap();
    server.request("DELETE", &format!("/api/conversations/{id}"), None).await;
    let left: Vec<_> = std::fs::read_dir(&marks).unwrap().map(|mark| mark.unwrap().file_name()).collect();
    assert_eq!(left, Vec::<std::ffi::OsString>::new(), "programs of the repository ran");
}

#[cfg(unix)]
#[tokio::test]
async fn a_plugin_is_fetched_without_running_programs_of_its_repository() {
    let server = Served::with(|config| {
        let home = config.conversations_dir.parent().map(|folder| folder.join("home"));
        config.person_dir(home)
    })
    .await;
    let (folder, marks) = (repository(&server), server.path("marks"));
    let ext = format!("ext::sh -c 'touch {}/address; cat'", marks.display());
    let outside = server.path("outside");
    std::fs::write(&outside, "OUTSIDE").unwrap();
    for (name, text) in [
        (".plugin/plugin.json", r#"{"name":"bad"}"#.to_owned()),
        ("skills/a.md", "A-TEXT".to_owned()),
        (".gitattributes", "* filter=own diff=own merge=own ident\n*.long filter=long\n".to_owned()),
        ("a.long", "as it is\n".to_owned()),
        (".gitmodules", format!("[submodule \"sub\"]\n\tpath = sub\n\turl = {ext}\n\tupdate = !{ext}\n")),
    ] {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    std::os::unix::fs::symlink(&outside, folder.join("skills/leak.md")).unwrap();
    git(&folder, &["add", "."]);
    git(&folder, &["commit", "-q", "-m", "a plugin"]);
    let commit = Command::new("git").args(["rev-parse", "HEAD"]).current_dir(&folder).output().unwrap();
    let commit = String::from_utf8(commit.stdout).unwrap().trim().to_owned();
    git(&folder, &["update-index", "--add", "--cacheinfo", &format!("160000,{commit},sub")]);
    git(&folder, &["commit", "-q", "-m", "a repository within"]);
    git(&folder, &["branch", "other"]);
    hostile(&folder, &marks);
    for reference in [None, Some("other"), Some(commit.as_str()), Some(&commit[..10])] {
        let source = json!({"source": format!("file://{}", folder.display()), "ref": reference});
        for route in ["/api/plugins/fetch", "/api/plugins/install"] {
            let mut body = source.clone();
            body["force"] = json!(true);
            let answer = server.post(route, body).await;
            assert!(answer.status < 300, "{route} {reference:?}: {}", answer.text());
            assert!(!answer.text().contains("OUTSIDE"), "{}", answer.text());
        }
    }
    for source in [
        ext.clone(),
        format!("file://{}/../x --upload-pack=touch${{IFS}}{}/option", folder.display(), marks.display()),
        format!("--upload-pack=touch {}/option", marks.display()),
        format!("-oProxyCommand=touch {}/proxy:x", marks.display()),
        format!("ssh://-oProxyCommand=touch%20{}/", marks.display()),
    ] {
        let answer = server.post("/api/plugins/fetch", json!({"source": source})).await;
        assert!((400..600).contains(&answer.status) && answer.status != 500, "{source}: {}", answer.text());
    }
    for reference in ["--upload-pack=touch", "-x", "+refs/*:refs/*", "ext::x"] {
        let source = json!({"source": format!("file://{}", folder.display()), "ref": reference});
        let answer = server.post("/api/plugins/fetch", source).await;
        assert!((400..500).contains(&answer.status), "{reference}: {} {}", answer.status, answer.text());
    }
    let left: Vec<_> = std::fs::read_dir(&marks).unwrap().map(|mark| mark.unwrap().file_name()).collect();
    assert_eq!(left, Vec::<std::ffi::OsString>::new(), "programs of the repository ran");
}
