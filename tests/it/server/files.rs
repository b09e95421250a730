//! The file routes: upload, download, archives, and the workspace shown in a browser.

use std::path::Path;

use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::caller::{KEY, Reply, Served, model};

async fn upload(server: &Served, path: &str, content: &[u8]) -> Reply {
    let mut body =
        b"--line\r\ncontent-disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n".to_vec();
    body.extend_from_slice(content);
    body.extend_from_slice(b"\r\n--line--\r\n");
    let headers = [("x-session-api-key", KEY), ("content-type", "multipart/form-data; boundary=line")];
    server.send("POST", path, &headers, &body).await
}

#[tokio::test]
async fn an_uploaded_file_is_downloaded_unchanged() {
    let server = Served::start().await;
    let content: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    let path = server.path("deep/er/a b.bin").display().to_string();
    let query = path.replace(' ', "%20");
    let up = upload(&server, &format!("/api/file/upload?path={query}"), &content).await.ok();
    assert_eq!(up, json!({"success": true, "file_size": 70_000}));
    let down = server.get(&format!("/api/file/download?path={query}")).await;
    assert_eq!((down.status, &down.bytes), (200, &content));
    assert_eq!(down.header("content-type"), Some("application/octet-stream"));
    assert_eq!(down.header("content-disposition"), Some("attachment; filename=\"a_b.bin\""));
    let left: Vec<_> = std::fs::read_dir(server.path("deep/er")).unwrap().collect();
    assert_eq!(left.len(), 1, "no temporary file is left");
}

#[cfg(unix)]
#[tokio::test]
async fn an_upload_keeps_the_mode_and_follows_the_link() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let server = Served::start().await;
    let up = async |name: &str| {
        upload(&server, &format!("/api/file/upload?path={}", server.path(name).display()), b"new").await
    };
    let mode = |name: &str| std::fs::metadata(server.path(name)).unwrap().permissions().mode() & 0o7777;
    for bits in [0o600, 0o755, 0o640] {
        std::fs::write(server.path("file"), "old").unwrap();
        std::fs::set_permissions(server.path("file"), std::fs::Permissions::from_mode(bits)).unwrap();
        up("file").await.ok();
        assert_eq!(
            (std::fs::read_to_string(server.path("file")).unwrap().as_str(), mode("file")),
            ("new", bits)
        );
    }
    std::fs::create_dir_all(server.path("elsewhere")).unwrap();
    std::fs::write(server.path("elsewhere/target"), "old").unwrap();
    std::fs::set_permissions(server.path("elsewhere/target"), std::fs::Permissions::from_mode(0o600))
        .unwrap();
    symlink("elsewhere/target", server.path("inner")).unwrap();
    symlink("inner", server.path("outer")).unwrap();
    symlink("elsewhere/yet to be", server.path("dangling")).unwrap();
    up("outer").await.ok();
    up("dangling").await.ok();
    for link in ["outer", "inner", "dangling"] {
        assert!(std::fs::symlink_metadata(server.path(link)).unwrap().is_symlink(), "{link}");
    }
    assert_eq!(mode("elsewhere/target"), 0o600);
    for name in ["elsewhere/target", "elsewhere/yet to be"] {
        assert_eq!(std::fs::read_to_string(server.path(name)).unwrap(), "new", "{name}");
    }
    symlink("round", server.path("round")).unwrap();
    assert!(up("round").await.status >= 400);
    symlink("/dev/null", server.path("null")).unwrap();
    assert_eq!(up("null").await.status, 400);
}

#[tokio::test]
async fn invalid_file_paths_are_refused() {
    let server = Served::start().await;
    let folder = server.path("").display().to_string();
    for (path, status) in [
        (format!("/api/file/download?path={folder}/none"), 404),
        (format!("/api/file/download?path={folder}"), 400),
        ("/api/file/download?path=relative".into(), 400),
        ("/api/file/download".into(), 422),
        ("/api/file/search_subdirs?path=relative".into(), 400),
        (format!("/api/file/search_subdirs?path={folder}/none"), 404),
        (format!("/api/file/archive?path={folder}/none"), 404),
        ("/api/file/archive?path=relative".into(), 400),
        (format!("/api/file/archive?path={folder}&format=rar"), 422),
        (format!("/api/file/archive?path={folder}&base_ref=-x"), 400),
        (format!("/api/file/download-trajectory/{}", Uuid::new_v4()), 404),
        ("/api/file/download-trajectory/nope".into(), 422),
    ] {
        assert_eq!(server.get(&path).await.status, status, "{path}");
    }
    assert_eq!(upload(&server, "/api/file/upload?path=relative", b"x").await.status, 400);
    assert_eq!(upload(&server, &format!("/api/file/upload?path={folder}"), b"x").await.status, 400);
    let none = server.post(&format!("/api/file/upload?path={folder}/x"), json!({})).await;
    assert_eq!((none.status, &none.json()["detail"][0]["type"]), (422, &json!("missing")));
}

#[tokio::test]
async fn folders_are_made_and_listed() {
    let server = Served::with(|config| {
        let home = config.conversations_dir.parent().map(std::path::Path::to_path_buf);
        config.home_dir(home)
    })
    .await;
    let folder = server.path("").display().to_string();
    for name in ["B", "a", ".hidden", "c"] {
        let made = server.post(&format!("/api/file/create_directory?path={folder}/{name}"), json!({})).await;
        assert_eq!(made.ok(), json!({"success": true}));
    }
    std::fs::write(server.path("file"), "").unwrap();
    let in_file = server.post(&format!("/api/file/create_directory?path={folder}/file/x"), json!({})).await;
    assert_eq!(in_file.status, 400);
    let list = async |query: &str| {
        let page = server.get(&format!("/api/file/search_subdirs?path={folder}{query}")).await.ok();
        let names =
            page["items"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap().to_owned());
        (
            names.filter(|name| name.len() == 1 || name == ".hidden").collect::<Vec<_>>(),
            page["next_page_id"].clone(),
        )
    };
    assert_eq!(list("").await, (vec!["a".into(), "B".into(), "c".into()], Value::Null));
    assert_eq!(list("&include_hidden=true").await.0.len(), 4);
    assert_eq!(list("&limit=2").await, (vec!["a".into(), "B".into()], json!("c")));
    assert_eq!(list("&page_id=c").await.0, ["c"]);
    let home = server.get("/api/file/home").await.ok();
    assert_eq!(home["locations"], json!([{"label": "/", "path": "/"}]));
    assert!(home["favorites"].as_array().unwrap().iter().any(|entry| entry["label"] == "a"));
}

/// Returns the names and contents of the files in a zip.
pub(super) fn unpacked(zip: &[u8]) -> String {
    use std::io::Read as _;
    let archive = rawzip::ZipArchive::from_slice(zip).unwrap();
    let mut text = String::new();
    for entry in archive.entries() {
        let entry = entry.unwrap();
        text += std::str::from_utf8(entry.file_path().as_bytes()).unwrap();
        let packed = archive.get_entry(entry.wayfinder()).unwrap();
        let content = flate2::read::DeflateDecoder::new(packed.data());
        packed.verifying_reader(content).read_to_string(&mut text).unwrap();
    }
    text
}

#[tokio::test]
async fn a_conversation_is_packed_without_its_secrets() {
    let (server, model) = (Served::start().await, model(&["Hello."]));
    let id = server.conversation(&model).await;
    server.say(&id, "Hi").await;
    let hex = id.replace('-', "");
    let scoped = format!("/api/conversations/{id}/file/download-trajectory/{id}");
    for path in [format!("/api/file/download-trajectory/{id}"), scoped] {
        let zip = server.get(&path).await;
        assert_eq!(zip.status, 200);
        assert_eq!(zip.header("content-disposition"), Some(&*format!("attachment; filename=\"{hex}.zip\"")));
        assert!(zip.bytes.starts_with(b"PK\x03\x04"));
        let text = unpacked(&zip.bytes);
        for part in
            [&*format!("{hex}/base_state.json"), &format!("{hex}/events/event-00000-"), "SystemPromptEvent"]
        {
            assert!(text.contains(part), "{part}");
        }
        assert!(!text.contains("sk-model-key-1") && !text.contains("gAAAAA"), "no key, not even sealed");
    }
    let other = server.conversation(&model).await;
    let foreign = server.get(&format!("/api/conversations/{other}/file/download-trajectory/{id}")).await;
    assert_eq!(foreign.status, 422);
}

/// Returns the entries of a folder's archive (name and content; folders have no content), and its manifest.
async fn packed(server: &Served, folder: &Path, query: &str) -> (Vec<(String, String)>, Value) {
    let answer =
        server.get(&format!("/api/file/archive?path={}&format=tar.gz{query}", folder.display())).await;
    let head = (answer.status, answer.header("content-type"));
    assert_eq!(head, (200, Some("application/gzip")), "{}", answer.text());
    // `tar` reads the archive, because most people unpack it with `tar`.
    let place = server.path("packed.tar.gz");
    std::fs::write(&place, answer.bytes).unwrap();
    let tar = |arguments: &[&str]| {
        let done = std::process::Command::new("tar").args(arguments).output().unwrap();
        assert!(done.status.success(), "{done:?}");
        String::from_utf8(done.stdout).unwrap()
    };
    let place = place.to_str().unwrap();
    let (mut entries, mut manifest) = (Vec::new(), Value::Null);
    for name in tar(&["-tzf", place]).lines() {
        let content = tar(&["-xzOf", place, "--no-recursion", name]);
        match serde_json::from_str(&content) {
            Ok(list) if name.ends_with("/archive_manifest.json") => manifest = list,
            Ok(_) | Err(_) => entries.push((name.to_owned(), content)),
        }
    }
    (entries, manifest)
}

#[tokio::test]
async fn a_folder_is_packed_without_generated_files() {
    let server = Served::start().await;
    let folder = server.path("project");
    for (name, content) in [
        ("a.txt", "one"),
        ("build", "a file of that name"),
        ("deep/target/b.bin", "two"),
        ("deep/c.pyc", "three"),
        (".git/config", "token"),
        (".git/HEAD", "four"),
        (".git/modules/x/logs/HEAD", "token"),
    ] {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    std::fs::create_dir(folder.join("empty")).unwrap();
    std::fs::write(server.path("outside.txt"), "outside").unwrap();
    std::os::unix::fs::symlink(server.path("outside.txt"), folder.join("link.txt")).unwrap();
    std::os::unix::fs::symlink(server.path(""), folder.join("link")).unwrap();
    let entry = |name: &str, content: &str| (format!("project/{name}"), content.to_owned());
    let (entries, manifest) = packed(&server, &folder, "").await;
    let (a, build) = (entry("a.txt", "one"), entry("build", "a file of that name"));
    let folders = [entry("", ""), entry("deep/", ""), entry("empty/", "")];
    let wanted = [&folders[0], &a, &build, &folders[1], &folders[2]].map(Clone::clone);
    assert_eq!(entries, wanted);
    assert_eq!(
        (&manifest["format"], &manifest["source"], &manifest["file_count"], &manifest["total_bytes"]),
        (&json!("tar.gz"), &json!("project"), &json!(2), &json!(22))
    );
    assert_eq!(manifest["excludes"].as_array().unwrap().len(), 13);
    let (entries, manifest) = packed(&server, &folder, "&use_default_excludes=false&exclude=deep/t*/").await;
    let named: Vec<_> =
        entries.iter().map(|(name, _)| name.as_str()).filter(|name| !name.ends_with('/')).collect();
    assert_eq!(named, ["project/.git/HEAD", "project/a.txt", "project/build", "project/deep/c.pyc"]);
    assert_eq!(manifest["excludes"], json!(["deep/t*/"]));
    // A file of the folder that has the manifest's name replaces the manifest.
    std::fs::write(folder.join("archive_manifest.json"), "mine").unwrap();
    let (entries, manifest) = packed(&server, &folder, "&exclude=*.txt").await;
    assert!(entries.contains(&entry("archive_manifest.json", "mine")) && !entries.contains(&a));
    assert_eq!(manifest, Value::Null);
}

#[tokio::test]
async fn the_only_repository_in_a_workspace_is_packed() {
    let server = Served::start().await;
    let (work, own) = (server.path("workspace"), server.path("workspace/group/own"));
    std::fs::create_dir_all(own.join(".git")).unwrap();
    std::fs::write(own.join("in.txt"), "in").unwrap();
    std::fs::write(work.join("beside.txt"), "beside").unwrap();
    let (entries, manifest) = packed(&server, &work, "").await;
    assert_eq!(entries, [("own/", ""), ("own/in.txt", "in")].map(|(name, text)| (name.into(), text.into())));
    assert_eq!(manifest["source"], "own");
    // If there are two repositories, the whole workspace is packed.
    std::fs::create_dir_all(work.join("second/.git")).unwrap();
    let (entries, _) = packed(&server, &work, "").await;
    assert!(entries.iter().any(|(name, _)| name == "workspace/beside.txt"), "{entries:?}");
}

#[tokio::test]
async fn a_conversations_routes_stay_in_its_workspace() {
    let (server, model) = (Served::start().await, model(&[]));
    let id = server.conversation(&model).await;
    let root = format!("/api/conversations/{id}/file");
    let work = server.path("work").display().to_string();
    std::fs::write(server.path("outside.txt"), "outside").unwrap();
    std::os::unix::fs::symlink(server.path(""), server.path("work/link")).unwrap();
    assert_eq!(upload(&server, &format!("{root}/upload?path={work}/new/f"), b"in").await.status, 200);
    assert_eq!(server.get(&format!("{root}/download?path={work}/new/f")).await.text(), "in");
    let made = server.post(&format!("{root}/create_directory?path={work}/folder"), json!({})).await;
    assert_eq!(made.status, 200);
    let refused = (422, json!("path must be inside the conversation workspace"));
    for outside in
        ["/../outside.txt", "/link/outside.txt", "/new/../../outside.txt", "/nothing/../../outside.txt"]
    {
        let path = format!("path={work}{outside}");
        assert_eq!(server.get(&format!("{root}/download?{path}")).await.refusal(), refused, "{outside}");
        assert_eq!(
            upload(&server, &format!("{root}/upload?{path}"), b"x").await.refusal(),
            refused,
            "{outside}"
        );
        let made = server.post(&format!("{root}/create_directory?{path}"), json!({})).await;
        assert_eq!(made.refusal(), refused, "{outside}");
        assert_eq!(server.get(&format!("{root}/archive?format=tar.gz&{path}")).await.refusal(), refused);
    }
    assert_eq!(server.get(&format!("{root}/download?path=relative")).await.status, 422);
    assert_eq!(std::fs::read_to_string(server.path("outside.txt")).unwrap(), "outside");
}

#[tokio::test]
async fn a_workspace_cookie_shows_a_browser_only_the_workspace() {
    let (server, model) = (Served::start().await, model(&[]));
    let id = server.conversation(&model).await;
    let root = format!("/api/conversations/{id}/workspace");
    std::fs::write(server.path("work/index.html"), "<p>hello").unwrap();
    std::fs::write(server.path("outside.txt"), "outside").unwrap();
    std::os::unix::fs::symlink(server.path("outside.txt"), server.path("work/link.txt")).unwrap();
    let cookie = server.post("/api/auth/workspace-session", json!({})).await;
    assert_eq!(cookie.status, 204);
    let set = cookie.header("set-cookie").unwrap();
    for mark in ["HttpOnly", "SameSite=None", "Secure", "Path=/api/conversations"] {
        assert!(set.contains(mark), "{set}");
    }
    let pair = set.split(';').next().unwrap();
    let show = async |path: &str| server.send("GET", path, &[("cookie", pair)], b"").await;
    for path in [root.clone(), format!("{root}/"), format!("{root}/index.html")] {
        let page = show(&path).await;
        assert_eq!((page.status, page.text()), (200, "<p>hello".to_owned()), "{path}");
        assert!(page.header("content-security-policy").unwrap().starts_with("sandbox"));
        assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
    }
    for (path, status) in [
        (format!("{root}/../../outside.txt"), 400),
        (format!("{root}/%2e%2e/outside.txt"), 400),
        (format!("{root}/..%2foutside.txt"), 400),
        (format!("{root}/%2fetc%2fpasswd"), 400),
        (format!("{root}/link.txt"), 400),
        (format!("{root}/none"), 404),
        (format!("/api/conversations/{}/workspace", Uuid::new_v4()), 404),
    ] {
        assert_eq!(show(&path).await.status, status, "{path}");
    }
    // The cookie gives access to nothing else.
    assert_eq!(show(&format!("/api/conversations/{id}")).await.status, 401);
    assert_eq!(server.send("GET", &root, &[], b"").await.status, 401);
    let ended = server.request("DELETE", "/api/auth/workspace-session", None).await;
    assert!(ended.header("set-cookie").unwrap().contains("Max-Age=0"));
    assert_eq!(server.send("POST", "/api/auth/workspace-session", &[], b"").await.status, 401);
}
