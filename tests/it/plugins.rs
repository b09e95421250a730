//! Plugins are read, found and fetched as in the real SDK, and a hostile plugin reaches nothing outside its folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use annals::plugin::{
    Extension, FILE_BYTES_MAX, Fetcher, GitSettings, Installed, Installing, Marketplace, Marketplaces,
    Merged, Origin, Plugin, PluginError, PluginSource, Registration, Resolved, SkillEntry, available,
};
use annals::skill::{Skill, Trigger};
use serde_json::{Value, json};
use tempfile::TempDir;

fn golden() -> Value {
    serde_json::from_str(include_str!("../golden/plugins/folders.json")).unwrap()
}

/// The golden's folders on disk, and a home folder.
struct Folders {
    _scratch: TempDir,
    root: PathBuf,
    home: PathBuf,
}

impl Folders {
    fn new(golden: &Value) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let real = fs::canonicalize(scratch.path()).unwrap();
        let (root, home) = (real.join("work"), real.join("home"));
        for (name, content) in golden["files"].as_object().unwrap() {
            let path = match name.strip_prefix("{H}/") {
                Some(name) => home.join(name),
                None => root.join(name),
            };
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            match content.as_str().unwrap().strip_prefix("-> ") {
                Some(target) => std::os::unix::fs::symlink(target, path).unwrap(),
                None => fs::write(path, content.as_str().unwrap()).unwrap(),
            }
        }
        Self { _scratch: scratch, root, home }
    }

    /// Returns a value with the golden's placeholders in place of the folders.
    fn plain(&self, value: Value) -> Value {
        let text = value.to_string().replace(self.root.to_str().unwrap(), "{W}");
        let text = text.replace(self.home.to_str().unwrap(), "{H}");
        let hash = regex::Regex::new("plugin-data/portable-[0-9a-f]{16}").unwrap();
        serde_json::from_str(&hash.replace_all(&text, "plugin-data/portable")).unwrap()
    }

    fn read(&self, name: &str) -> Result<Plugin, PluginError> {
        Plugin::read(&self.root.join(name), Some(&self.home.join(".openhands/plugin-data")))
    }
}

fn skill_shape(skill: &Skill) -> Value {
    let trigger = match &skill.trigger {
        None => Value::Null,
        Some(Trigger::Keyword(words)) => json!({"type": "keyword", "keywords": words}),
        Some(Trigger::Task(words)) => json!({"type": "task", "triggers": words}),
        Some(Trigger::Path(paths)) => json!({"type": "path", "paths": paths}),
    };
    let servers = skill
        .mcp_tools
        .as_ref()
        .map(|tools| tools.raw().members().map(|(name, _)| name.into_owned()).collect::<Vec<_>>());
    json!({
        "name": skill.name, "content": skill.content, "trigger": trigger, "source": skill.source,
        "description": skill.description, "is_agentskills_format": skill.is_agentskills_format,
        "disable_model_invocation": skill.disable_model_invocation, "mcp_tools": servers,
    })
}

fn shape(plugin: &Plugin) -> Value {
    let servers: serde_json::Map<String, Value> =
        plugin.servers.iter().map(|server| (server.name.clone(), server.config.to_value())).collect();
    let literal: Vec<&String> =
        plugin.servers.iter().filter(|server| server.is_literal).map(|server| &server.name).collect();
    let commands: Vec<Value> = plugin
        .commands
        .iter()
        .map(|command| {
            json!({
                "name": command.name, "description": command.description, "argument_hint": command.argument_hint,
                "allowed_tools": command.allowed_tools, "content": command.content, "source": command.source,
            })
        })
        .collect();
    let author = plugin.manifest.author.as_ref();
    json!({
        "name": plugin.name(), "version": plugin.manifest.version, "description": plugin.manifest.description,
        "author": author.map(|author| json!({"name": author.name, "email": author.email, "url": author.url})),
        "entry_command": plugin.entry_command(), "path": plugin.folder,
        "skills": plugin.skills.iter().map(skill_shape).collect::<Vec<_>>(), "commands": commands,
        "all_skills": plugin.all_skills()[plugin.skills.len()..].iter().map(skill_shape).collect::<Vec<_>>(),
        "hooks": plugin.hooks.as_ref().map(|hooks| serde_json::from_str::<Value>(&hooks.to_json()).unwrap()),
        "mcp_config": servers, "agents": plugin.agents.iter().map(|agent| &agent.name).collect::<Vec<_>>(),
        "literal": literal,
    })
}

#[test]
fn folders_are_read_as_the_same_plugins_as_in_the_reference() {
    let golden = golden();
    let folders = Folders::new(&golden);
    for (name, theirs) in golden["plugins"].as_object().unwrap() {
        let ours = folders.read(name).map_or(Value::Null, |plugin| folders.plain(shape(&plugin)));
        assert_eq!(&ours, theirs, "{name}");
    }
    // Parts that are skipped are reported.
    let problems = |name: &str| -> Vec<String> {
        let problems = folders.read(name).unwrap().problems;
        problems.iter().map(|problem| problem.path.rsplit('/').next().unwrap().to_owned()).collect()
    };
    assert_eq!(problems("full"), ["broken.md", "broken.md"]);
    assert_eq!(problems("bad-hooks"), ["hooks.json"]);
    assert_eq!(problems("bad-servers"), [".mcp.json"]);
    assert_eq!(problems("portable").len(), 13);
    assert!(matches!(folders.read("nowhere"), Err(PluginError::NoFolder(_))));
    assert!(matches!(folders.read("linked-manifest"), Err(PluginError::Manifest { .. })));
}

#[test]
fn several_plugins_are_merged_as_in_the_reference() {
    let golden = golden();
    let folders = Folders::new(&golden);
    let mut merged = Merged::default();
    for name in ["both", "full", "rooted", "portable"] {
        merged.add(&folders.read(name).unwrap());
    }
    let (ambient, problems) = available(Some(&folders.home), Some(&folders.root.join("project")));
    let named: Vec<Value> = ambient
        .iter()
        .map(|plugin| json!([plugin.name(), plugin.manifest.description, plugin.folder]))
        .collect();
    assert_eq!(folders.plain(named.into()), golden["ambient"]);
    assert_eq!(problems.len(), 1, "{problems:?}");
    let hooks = merged.hooks.to_json();
    for name in ["one", "two"] {
        merged.add(ambient.iter().find(|plugin| plugin.name() == name).unwrap());
    }
    let skills: Vec<Value> = merged.skills.iter().map(|skill| json!([skill.name, skill.source])).collect();
    assert_eq!(folders.plain(skills.into()), golden["merged"]["skills"]);
    assert_eq!(serde_json::from_str::<Value>(&hooks).unwrap(), golden["merged"]["hooks"]);
    let mut servers: Vec<&str> = merged.servers.iter().map(|server| server.name.as_str()).collect();
    let mut theirs: Vec<&str> =
        golden["merged"]["servers"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    servers.sort_unstable();
    theirs.sort_unstable();
    assert_eq!(servers, theirs);
    // Without a home folder and a project, there are no plugins.
    assert_eq!(available(None, None), (Vec::new(), Vec::new()));
}

#[test]
fn sources_are_read_as_the_reference_reads_them_and_written_without_credentials() {
    for case in golden()["sources"].as_array().unwrap() {
        let members = json!({"source": case["source"], "ref": case["ref"], "repo_path": case["repo_path"]});
        let source = PluginSource::of_members(members.as_object().unwrap());
        let is_refused = case.get("refused").is_some();
        let Ok(source) = source else {
            assert!(is_refused && case.get("written").is_none(), "{case}");
            continue;
        };
        assert_eq!(source.to_json(), case["written"], "{case}");
        let resolved = Resolved::of(&source, Some("c0ffee".to_owned()));
        if case["source"].as_str().unwrap().contains("${") {
            // The reference treats the name of a secret as the secret, and could never fetch the source again.
            assert_eq!(resolved.source, source.source);
        } else {
            assert_eq!(resolved.to_json(), case["resolved"], "{case}");
        }
        assert_eq!(Resolved::of_json(&resolved.to_json()), Some(resolved.clone()));
        assert!(resolved.is_of(&source));
        match source.origin() {
            Ok(Origin::Folder(folder)) => {
                assert_eq!((json!(folder), &json!("local")), (case["url"].clone(), &case["kind"]))
            }
            Ok(Origin::Repository { url, .. }) => {
                assert_eq!(url, case["url"].as_str().unwrap());
                assert_ne!(case["kind"], "local");
            }
            Err(error) => assert!(is_refused, "{case} {error}"),
        }
    }
    let secret =
        PluginSource::new("https://x:${TOKEN}@h/r".to_owned()).reference("${BRANCH:-main}".to_owned());
    assert_eq!(secret.references(), ["BRANCH", "TOKEN"]);
    let (expanded, used) = secret.expanded(&|name| (name == "TOKEN").then(|| "s3cret".to_owned()));
    assert_eq!((expanded.source.as_str(), used), ("https://x:s3cret@h/r", vec!["s3cret".to_owned()]));
    assert_eq!(expanded.reference.as_deref(), Some("${BRANCH:-main}"));
    // Control characters are not allowed in a source.
    assert!(matches!(PluginSource::new("github:a/b\u{1b}[31m").origin(), Err(PluginError::Source(_))));
    assert!(PluginSource::new("github:a/b/../../c").origin().is_err());
}

#[tokio::test]
async fn marketplaces_resolve_plugin_names_as_in_the_reference() {
    let golden = golden();
    let folders = Folders::new(&golden);
    for (name, theirs) in golden["markets"].as_object().unwrap() {
        let read = Marketplace::read(&folders.root.join(name), name);
        let ours = read.map_or(Value::Null, |market| {
            let plugins: Vec<Value> = market
                .plugins
                .iter()
                .map(|plugin| {
                    let source = market.source(plugin, true).unwrap();
                    json!([
                        plugin.name,
                        plugin.description,
                        [source.source, source.reference, source.repo_path]
                    ])
                })
                .collect();
            let skills: Vec<Value> = market
                .skills
                .iter()
                .map(|skill| json!([skill.name, skill.description, skill.source]))
                .collect();
            folders.plain(json!({"name": market.name, "plugins": plugins, "skills": skills}))
        });
        assert_eq!(&ours, theirs, "{name}");
    }
    let registered = |name: &str, folder: &str, auto: Value| {
        let source = folders.root.join(folder);
        Registration::of(&json!({"name": name, "source": source, "auto_load": auto})).unwrap()
    };
    let fetcher = Fetcher::of_home(&folders.home);
    let both = vec![
        registered("tools", "market", json!(["here", "rule"])),
        registered("second", "second", json!(false)),
    ];
    let mut markets = Marketplaces::new(both);
    for case in golden["resolved"].as_array().unwrap() {
        match markets.resolve(case["reference"].as_str().unwrap(), &fetcher).await {
            Ok(source) => assert_eq!(folders.plain(source.to_json()), case["source"]),
            Err(error) => {
                assert_eq!(error.to_string(), case["text"].as_str().unwrap());
                let is_unknown = case["error"].as_str().unwrap().ends_with("NotFoundError");
                assert_eq!(error.is_unknown(), is_unknown, "{case}");
            }
        }
    }
    let (sources, skills, problems) = markets.auto_loaded(&fetcher).await;
    assert_eq!((sources.len(), skills.len(), problems.len()), (1, 1, 0), "{problems:?}");
    assert_eq!(skills[0].name, "rule");
    // No path leads out of a marketplace, and a marketplace from elsewhere cannot name a folder of this machine.
    let hostile = folders.root.join("hostile");
    fs::create_dir_all(hostile.join(".plugin")).unwrap();
    fs::create_dir_all(hostile.join("inner")).unwrap();
    std::os::unix::fs::symlink("/etc", hostile.join("away")).unwrap();
    let url = |url: &str| json!({"source": "url", "url": url});
    let (inside, outside, here, elsewhere) = ((true, true), (false, false), (true, false), (true, true));
    for (source, (if_own, if_from_elsewhere)) in [
        (json!("./inner"), inside),
        (json!("inner"), inside),
        (json!("./not-there"), inside),
        (json!("./a/../../outside"), outside),
        (json!(".."), outside),
        (json!("./away"), outside),
        (json!("away/passwd"), outside),
        (json!("./away/not-there"), outside),
        (json!("/etc"), here),
        (json!("~/x"), here),
        (json!("file:///etc"), here),
        (json!("/etc/x://y"), here),
        (url("/etc"), here),
        (url("~/x"), here),
        (url("./x"), here),
        (url("../x"), here),
        (url("a/b"), here),
        (url("file:///etc"), here),
        (json!("github:o/r"), elsewhere),
        (json!("https://h/r.git"), elsewhere),
        (url("git@h:o/r.git"), elsewhere),
        (json!({"source": "github", "repo": "o/r"}), elsewhere),
    ] {
        let list = json!({"name": "x", "owner": {"name": "y"}, "plugins": [{"name": "p", "source": source}]});
        fs::write(hostile.join(".plugin/marketplace.json"), list.to_string()).unwrap();
        let market = Marketplace::read(&hostile, "x").unwrap();
        for (is_own, is_allowed) in [(true, if_own), (false, if_from_elsewhere)] {
            let found = market.source(&market.plugins[0], is_own);
            assert_eq!(found.is_ok(), is_allowed, "{source} {is_own} {found:?}");
            assert!(is_allowed || matches!(found, Err(PluginError::Path { .. })), "{source} {found:?}");
        }
    }
    for (source, is_inside) in [
        ("inner", true),
        ("./inner", true),
        ("not-there", false),
        ("away", false),
        ("../hostile/inner", false),
        ("/etc", false),
        ("~/x", false),
        ("file:///etc", false),
    ] {
        let entry = SkillEntry::new("s", source);
        assert_eq!(entry.folder(&hostile).is_some(), is_inside, "{source}");
    }
    // Neither is its list read from elsewhere.
    fs::remove_file(hostile.join(".plugin/marketplace.json")).unwrap();
    std::os::unix::fs::symlink(
        folders.root.join("market/.plugin/marketplace.json"),
        hostile.join(".plugin/marketplace.json"),
    )
    .unwrap();
    assert!(matches!(Marketplace::read(&hostile, "x"), Err(PluginError::Manifest { .. })));
}

#[test]
fn hostile_manifests_are_bounded_and_typed() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("p");
    let manifest = folder.join(".plugin/plugin.json");
    fs::create_dir_all(manifest.parent().unwrap()).unwrap();
    let refused = |bytes: &[u8]| {
        fs::write(&manifest, bytes).unwrap();
        match Plugin::read(&folder, None) {
            Err(PluginError::Manifest { reason, .. }) => reason,
            other => panic!("{other:?}"),
        }
    };
    let huge = format!(r#"{{"name":"x","more":"{}"}}"#, "x".repeat(FILE_BYTES_MAX as usize));
    assert!(refused(huge.as_bytes()).contains("longer than"));
    let deep = format!("{{\"name\":\"x\",\"more\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(refused(deep.as_bytes()).contains("recursion limit"));
    assert!(refused(b"{\"name\":\"\xff\"}").contains("UTF-8"));
    assert!(refused(br#"{"name":"a\u001b[31mb"}"#).contains("control characters"));
    assert!(refused(br#"{"name":""}"#).contains("empty"));
    assert!(refused(format!(r#"{{"name":"{}"}}"#, "n".repeat(300)).as_bytes()).contains("too long"));
    fs::remove_file(&manifest).unwrap();
    fs::create_dir(&manifest).unwrap();
    assert!(matches!(Plugin::read(&folder, None), Err(PluginError::Manifest { .. })));
    fs::remove_dir(&manifest).unwrap();
    // Parts that are too long or too deep are skipped, and the rest is read.
    fs::write(&manifest, r#"{"name":"x"}"#).unwrap();
    for part in ["hooks/hooks.json", ".mcp.json"] {
        fs::create_dir_all(folder.join(part).parent().unwrap()).unwrap();
        fs::write(folder.join(part), &deep).unwrap();
    }
    fs::create_dir(folder.join("commands")).unwrap();
    fs::write(folder.join("commands/a.md"), "x".repeat(FILE_BYTES_MAX as usize + 1)).unwrap();
    fs::write(folder.join("commands/b.md"), b"\xff\xfe").unwrap();
    fs::write(folder.join("commands/c\u{7}.md"), "Rings.").unwrap();
    fs::write(folder.join("commands/d.md"), "Fine.").unwrap();
    std::os::unix::fs::symlink("commands", folder.join("agents")).unwrap();
    let plugin = Plugin::read(&folder, None).unwrap();
    let commands: Vec<&str> = plugin.commands.iter().map(|command| command.name.as_str()).collect();
    assert_eq!(commands, ["d"]);
    assert!(plugin.hooks.is_none() && plugin.servers.is_empty());
    assert!(plugin.problems.len() >= 5, "{:?}", plugin.problems);
}

/// What may stand in the place of a file: what never ends or never begins, and links that lead to nothing or elsewhere.
const ODD: [&str; 4] = ["pipe", "endless", "dangling", "elsewhere"];

/// Puts something odd in the place of a file. `elsewhere` is a file that a link may lead to.
fn put_odd(kind: &str, path: &Path, elsewhere: &Path) {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::os::unix::fs::symlink;
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    match kind {
        "pipe" => mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap(),
        "endless" => symlink("/dev/zero", path).unwrap(),
        "dangling" => symlink("nothing", path).unwrap(),
        "elsewhere" => symlink(elsewhere, path).unwrap(),
        other => panic!("{other}"),
    }
}

#[test]
fn no_part_of_a_plugin_is_waited_for_or_read_from_elsewhere() {
    const PARTS: [&str; 9] = [
        ".plugin/plugin.json",
        ".claude-plugin/plugin.json",
        "plugin.json",
        "hooks/hooks.json",
        ".mcp.json",
        "commands/odd.md",
        "agents/odd.md",
        "skills/odd.md",
        "skills/odd/SKILL.md",
    ];
    let scratch = tempfile::tempdir().unwrap();
    let json = scratch.path().join("a.json");
    let hooks = json!([{"hooks": [{"command": "FOREIGN"}]}]);
    let servers = json!({"FOREIGN": {"command": "FOREIGN"}});
    let content = json!({"name": "FOREIGN", "session_start": hooks, "mcpServers": servers});
    fs::write(&json, content.to_string()).unwrap();
    let markdown = scratch.path().join("a.md");
    fs::write(&markdown, "---\nname: FOREIGN\ndescription: FOREIGN\n---\nFOREIGN").unwrap();
    for (number, part) in PARTS.into_iter().enumerate() {
        for kind in ODD {
            let folder = scratch.path().join(format!("{number}-{kind}"));
            fs::create_dir_all(folder.join("commands")).unwrap();
            fs::write(folder.join("commands/good.md"), "Good.").unwrap();
            put_odd(kind, &folder.join(part), if part.ends_with("json") { &json } else { &markdown });
            let read = Plugin::read(&folder, None);
            assert!(!format!("{read:?}").contains("FOREIGN"), "{part} {kind} {read:?}");
            let is_manifest =
                part.ends_with("/plugin.json") || (part == "plugin.json" && kind == "elsewhere");
            match read {
                Ok(plugin) => {
                    assert!(!is_manifest, "{part} {kind}");
                    let commands: Vec<&str> =
                        plugin.commands.iter().map(|command| command.name.as_str()).collect();
                    assert_eq!(commands, ["good"], "{part} {kind}");
                }
                Err(error) => {
                    assert!(is_manifest && matches!(error, PluginError::Manifest { .. }), "{part} {kind}");
                }
            }
        }
    }
    // Nor is a part of a marketplace.
    for (number, part) in [".plugin/marketplace.json", "skills/odd/SKILL.md"].into_iter().enumerate() {
        for kind in ODD {
            let folder = scratch.path().join(format!("market-{number}-{kind}"));
            put_odd(kind, &folder.join(part), if part.ends_with("json") { &json } else { &markdown });
            let read = Marketplace::read(&folder, "m");
            assert!(matches!(read, Err(PluginError::Manifest { .. })), "{part} {kind} {read:?}");
        }
    }
}

#[tokio::test]
async fn a_folder_in_a_source_is_one_that_lies_in_it() {
    let scratch = tempfile::tempdir().unwrap();
    let real = fs::canonicalize(scratch.path()).unwrap();
    fs::create_dir_all(real.join("home/tools/inner")).unwrap();
    fs::create_dir_all(real.join("home/beside")).unwrap();
    fs::write(real.join("home/tools/file"), "").unwrap();
    std::os::unix::fs::symlink("../beside", real.join("home/tools/away")).unwrap();
    std::os::unix::fs::symlink("inner", real.join("home/tools/linked")).unwrap();
    let fetcher = Fetcher::of_home(&real.join("home"));
    let fetch = async |source: &str, path: &str| {
        let source = PluginSource::new(source).repo_path(path.to_owned());
        fetcher.fetch(&source, &[]).await.map(|fetched| fetched.folder)
    };
    let tools = real.join("home/tools");
    let plain = tools.to_str().unwrap();
    for source in [plain, "~/tools", format!("{plain}/../tools").as_str()] {
        assert_eq!(fetch(source, "").await, Ok(tools.clone()), "{source}");
        assert_eq!(fetch(source, "inner").await, Ok(tools.join("inner")), "{source}");
        assert_eq!(fetch(source, "linked/").await, Ok(tools.join("linked")), "{source}");
        for missing in ["none", "file", "away"] {
            assert_eq!(
                fetch(source, missing).await,
                Err(PluginError::NoPath(missing.to_owned())),
                "{source}"
            );
        }
        for refused in ["..", "../beside", "inner/../../beside", "/etc", "a\u{7}b"] {
            let error = fetch(source, refused).await.unwrap_err();
            assert!(matches!(error, PluginError::Path { .. }), "{source} {refused} {error:?}");
        }
    }
    assert_eq!(fetch("~", "tools").await, Ok(tools));
    let missing = fetch("./nowhere-at-all", "").await;
    assert_eq!(missing, Err(PluginError::NoFolder("./nowhere-at-all".into())));
}

#[tokio::test]
async fn names_that_git_would_read_as_something_else_are_refused() {
    // Without a cache, nothing is fetched.
    let fetcher = Fetcher::of_home(Path::new("/nowhere")).cache(None);
    let fetch = async |reference: &str| {
        let source = PluginSource::new("https://127.0.0.1:9/r.git").reference(reference.to_owned());
        fetcher.fetch(&source, &[]).await.unwrap_err()
    };
    for right in ["main", "v1.0", "feature/a-b_c", "0123abcd", "@", ""] {
        assert_eq!(fetch(right).await, PluginError::NoCache, "{right}");
    }
    for wrong in [
        "-x",
        "--upload-pack=x",
        "+main",
        "a..b",
        "a@{1}",
        "a b",
        "a:b",
        "a?",
        "a*",
        "a[b",
        "a\\b",
        "a^",
        "a~1",
        "a\nb",
        "\u{7}",
    ] {
        assert_eq!(fetch(wrong).await, PluginError::Reference(wrong.to_owned()), "{wrong:?}");
    }
}

fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@t", "-c", "init.defaultBranch=main"])
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?} {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Makes a repository in which `plugins/p` and the root are plugins. Returns its two commits.
fn repository(folder: &Path) -> (String, String) {
    fs::create_dir_all(folder.join("plugins/p/skills")).unwrap();
    git(folder, &["init", "--quiet"]);
    fs::write(folder.join("plugins/p/skills/s.md"), "First.").unwrap();
    std::os::unix::fs::symlink("/etc", folder.join("plugins/away")).unwrap();
    git(folder, &["add", "."]);
    git(folder, &["commit", "--quiet", "-m", "one"]);
    git(folder, &["tag", "v1"]);
    let first = git(folder, &["rev-parse", "HEAD"]);
    fs::write(folder.join("plugins/p/skills/s.md"), "Second.").unwrap();
    git(folder, &["commit", "--quiet", "-am", "two"]);
    (first, git(folder, &["rev-parse", "HEAD"]))
}

#[tokio::test]
async fn a_commit_is_fetched_once_and_then_read_from_the_cache() {
    let scratch = tempfile::tempdir().unwrap();
    let (repo, home) = (scratch.path().join("my-repo"), scratch.path().join("home"));
    fs::create_dir(&repo).unwrap();
    let (first, second) = repository(&repo);
    let fetcher = Fetcher::of_home(&home).settings(GitSettings::None);
    let url = format!("file://{}", repo.display());
    let source = |reference: Option<&str>, path: Option<&str>| {
        PluginSource::new(url.clone())
            .reference(reference.map(str::to_owned))
            .repo_path(path.map(str::to_owned))
    };
    let text = |folder: &Path| fs::read_to_string(folder.join("skills/s.md")).unwrap();
    for (reference, commit, content) in [
        (None, &second, "Second."),
        (Some("main"), &second, "Second."),
        (Some("v1"), &first, "First."),
        (Some(first.as_str()), &first, "First."),
        (Some(&first[..8]), &first, "First."),
    ] {
        let fetched = fetcher.fetch(&source(reference, Some("plugins/p")), &[]).await.unwrap();
        assert_eq!((fetched.commit.as_ref(), text(&fetched.folder).as_str()), (Some(commit), content));
        assert!(fetched.folder.to_str().unwrap().contains("my-repo-"));
        assert!(!fetched.folder.join("../../.git").exists());
    }
    let whole = fetcher.fetch(&source(None, None), &[]).await.unwrap();
    assert_eq!(whole.repository.as_deref(), Some("my-repo"));
    let refused = |reference: Option<&'static str>, path: Option<&'static str>| {
        let source = source(reference, path);
        let fetcher = fetcher.clone();
        async move { fetcher.fetch(&source, &[]).await.unwrap_err() }
    };
    assert!(matches!(refused(Some("nowhere"), None).await, PluginError::NoReference { .. }));
    assert!(matches!(refused(Some("--upload-pack=x"), None).await, PluginError::Reference(_)));
    assert!(matches!(refused(None, Some("plugins/none")).await, PluginError::NoPath(_)));
    assert!(matches!(refused(None, Some("plugins/away")).await, PluginError::NoPath(_)));
    assert!(matches!(refused(None, Some("../x")).await, PluginError::Path { .. }));
    // Failed fetches leave nothing behind, and a pinned commit needs no repository.
    fs::remove_dir_all(&repo).unwrap();
    let again = fetcher.fetch(&source(Some(&first), Some("plugins/p")), &[]).await.unwrap();
    assert_eq!(text(&again.folder), "First.");
    assert!(matches!(refused(None, None).await, PluginError::Unavailable { .. }));
    let commits = whole.folder.parent().unwrap();
    assert_eq!(fs::read_dir(commits).unwrap().count(), 2);
    // An error holds no credential.
    let secret = PluginSource::new("http://user:s3cret@127.0.0.1:9/r.git");
    let error = fetcher.fetch(&secret, &["127.0.0.1".to_owned()]).await.unwrap_err().to_string();
    assert!(!error.contains("s3cret") && !error.contains("127.0.0.1"), "{error}");
}

#[tokio::test]
async fn a_repository_that_never_answers_is_given_up() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let home = tempfile::tempdir().unwrap();
    let patience = Duration::from_millis(300);
    let fetcher = Fetcher::of_home(home.path()).patience(patience).settings(GitSettings::None);
    let source = PluginSource::new(format!("http://{}/r", listener.local_addr().unwrap()));
    let began = std::time::Instant::now();
    assert!(matches!(fetcher.fetch(&source, &[]).await, Err(PluginError::Late { .. })));
    assert!(began.elapsed() < Duration::from_secs(120));
    let none = fetcher.cache(None);
    assert_eq!(none.fetch(&source, &[]).await, Err(PluginError::NoCache));
}

#[tokio::test]
async fn plugins_can_be_installed_turned_off_refreshed_and_removed() {
    let golden = golden();
    let folders = Folders::new(&golden);
    let plugins = Installed::of_home(&folders.home, Extension::Plugin);
    let names = |list: &[annals::plugin::InstalledExtension]| -> Vec<(String, bool)> {
        list.iter().map(|known| (known.name.clone(), known.enabled)).collect()
    };
    // A plugin that only lies in the folder is listed too.
    let list = plugins.list().unwrap();
    assert_eq!(names(&list), [("off".to_owned(), false), ("four".to_owned(), true)]);
    assert_eq!(list[1].source, "local");
    let fetcher = Fetcher::of_home(&folders.home).settings(GitSettings::None);
    let full = PluginSource::new(folders.root.join("full").to_str().unwrap());
    let new = plugins.install(&fetcher, &full, Installing::New).await.unwrap();
    assert_eq!((new.name.as_str(), new.version.as_str(), new.enabled), ("city-weather", "1.2.3", true));
    assert!(new.install_path.join("skills/rain/SKILL.md").is_file());
    // A link that leads out of the plugin is not copied.
    assert!(!new.install_path.join("skills/escape.md").exists());
    let again = plugins.install(&fetcher, &full, Installing::New).await;
    assert_eq!(again, Err(PluginError::Exists("city-weather".to_owned())));
    assert!(plugins.set_enabled("city-weather", false).unwrap());
    assert!(!plugins.set_enabled("nobody", false).unwrap());
    assert!(matches!(plugins.get("../x"), Err(PluginError::Name(_))));
    let over = plugins.install(&fetcher, &full, Installing::Over).await.unwrap();
    assert!(!over.enabled);
    let (ambient, _) = available(Some(&folders.home), None);
    let ambient: Vec<&str> = ambient.iter().map(Plugin::name).collect();
    assert_eq!(ambient, ["two", "three", "four"]);
    // A plugin that can no longer be fetched stays installed.
    fs::remove_dir_all(folders.root.join("full")).unwrap();
    assert!(plugins.refresh(&fetcher, "city-weather").await.is_err());
    assert!(plugins.get("city-weather").unwrap().is_some());
    assert_eq!(plugins.refresh(&fetcher, "nobody").await, Ok(None));
    assert!(plugins.remove("city-weather").unwrap());
    assert!(!new.install_path.exists() && !plugins.remove("city-weather").unwrap());
    // A plugin without a name that is a whole repository has the repository's name, and keeps it.
    let repo = folders.root.join("some-repo");
    fs::create_dir(&repo).unwrap();
    let (_, second) = repository(&repo);
    let source = PluginSource::new(format!("file://{}", repo.display()));
    let new = plugins.install(&fetcher, &source, Installing::New).await.unwrap();
    assert_eq!((new.name.as_str(), new.resolved_ref.as_deref()), ("some-repo", Some(second.as_str())));
    fs::write(repo.join("x"), "x").unwrap();
    git(&repo, &["add", "."]);
    git(&repo, &["commit", "--quiet", "-m", "three"]);
    let newest = plugins.refresh(&fetcher, "some-repo").await.unwrap().unwrap();
    assert_eq!(newest.resolved_ref, Some(git(&repo, &["rev-parse", "HEAD"])));
    // Skills can be installed too.
    let skills = Installed::of_home(&folders.home, Extension::Skill);
    let rule = PluginSource::new(folders.root.join("market/skills/rule").to_str().unwrap());
    assert_eq!(skills.install(&fetcher, &rule, Installing::New).await.unwrap().name, "rule");
    let bare = PluginSource::new(folders.root.join("both").to_str().unwrap());
    assert!(matches!(skills.install(&fetcher, &bare, Installing::New).await, Err(PluginError::Skill(_))));
    let own = annals::plugin::skills_of_person(&folders.home);
    assert_eq!(own.skills.iter().map(|skill| skill.name.as_str()).collect::<Vec<_>>(), ["rule"]);
    skills.set_enabled("rule", false).unwrap();
    assert!(annals::plugin::skills_of_person(&folders.home).skills.is_empty());
}

/// Makes a folder that is a plugin.
fn make_plugin(folder: &Path, version: &str) {
    let manifest = folder.join(".plugin/plugin.json");
    fs::create_dir_all(manifest.parent().unwrap()).unwrap();
    let name = folder.file_name().unwrap().to_str().unwrap();
    fs::write(manifest, json!({"name": name, "version": version}).to_string()).unwrap();
}

#[test]
fn leftovers_of_a_killed_installation_are_recovered_or_removed() {
    let home = tempfile::tempdir().unwrap();
    let plugins = Installed::of_home(home.path(), Extension::Plugin);
    let at = |name: &str| plugins.folder().join(name);
    let id = |digit: &str| digit.repeat(32);
    // Killed between two steps, on a file system that cannot exchange folders: only the old plugin is there.
    make_plugin(&at(&format!(".{}.old/lost", id("a"))), "1");
    // Killed after the new plugin took the place of the old one.
    make_plugin(&at(&format!(".{}.old/kept", id("b"))), "1");
    make_plugin(&at("kept"), "2");
    // Killed while a plugin was copied, and while the record was written.
    make_plugin(&at(&format!(".{}.tmp/half", id("c"))), "1");
    fs::write(at(&format!(".installed.json.{}", id("d"))), "{").unwrap();
    assert_eq!(plugins.enabled().unwrap().paths, [at("kept"), at("lost")]);
    let list = plugins.list().unwrap();
    let found: Vec<(&str, &str)> =
        list.iter().map(|known| (known.name.as_str(), known.version.as_str())).collect();
    assert_eq!(found, [("kept", "2"), ("lost", "1")]);
    let entries = fs::read_dir(plugins.folder()).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, [".installed.json", ".installed.lock", "kept", "lost"]);
}

#[tokio::test]
async fn nothing_is_enabled_installed_or_removed_while_something_odd_stands_in_the_place_of_the_record() {
    let scratch = tempfile::tempdir().unwrap();
    let source = scratch.path().join("new");
    make_plugin(&source, "1");
    for kind in ["pipe", "endless", "dangling", "folder", "text"] {
        let home = scratch.path().join(kind);
        let plugins = Installed::of_home(&home, Extension::Plugin);
        make_plugin(&plugins.folder().join("p"), "1");
        let record = plugins.folder().join(".installed.json");
        match kind {
            "folder" => fs::create_dir(&record).unwrap(),
            "text" => fs::write(&record, "{").unwrap(),
            kind => put_odd(kind, &record, Path::new("")),
        }
        let before = fs::symlink_metadata(&record).unwrap().file_type();
        let fetcher = Fetcher::of_home(&home);
        let source = PluginSource::new(source.to_str().unwrap());
        let mut refused = vec![
            plugins.enabled().err(),
            plugins.list().err(),
            plugins.get("p").err(),
            plugins.set_enabled("p", true).err(),
            plugins.remove("p").err(),
            plugins.refresh(&fetcher, "p").await.err(),
        ];
        for installing in [Installing::New, Installing::Over] {
            refused.push(plugins.install(&fetcher, &source, installing).await.err());
        }
        for error in refused {
            assert!(matches!(error, Some(PluginError::Record { .. })), "{kind} {error:?}");
        }
        let (found, problems) = available(Some(&home), None);
        assert_eq!((found.len(), problems.len()), (0, 1), "{kind} {problems:?}");
        assert_eq!(fs::symlink_metadata(&record).unwrap().file_type(), before, "{kind}");
        let entries = fs::read_dir(plugins.folder()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        assert_eq!(names, [".installed.json", ".installed.lock", "p"], "{kind}");
    }
}

#[test]
fn a_record_that_cannot_be_read_enables_nothing_and_is_not_written_over() {
    let home = tempfile::tempdir().unwrap();
    let plugins = Installed::of_home(home.path(), Extension::Plugin);
    make_plugin(&plugins.folder().join("off"), "1");
    assert_eq!(plugins.list().unwrap().len(), 1);
    assert!(plugins.set_enabled("off", false).unwrap());
    let path = plugins.folder().join(".installed.json");
    let good = fs::read_to_string(&path).unwrap();
    let half = &good[..good.len() / 2];
    for wrong in [half, "", "[]", r#"{"extensions":{"off":{"enabled":false}}}"#] {
        fs::write(&path, wrong).unwrap();
        let refused = |error: Option<PluginError>| matches!(error, Some(PluginError::Record { .. }));
        assert!(refused(plugins.enabled().err()) && refused(plugins.list().err()), "{wrong}");
        assert!(refused(plugins.get("off").err()) && refused(plugins.remove("off").err()), "{wrong}");
        assert!(refused(plugins.set_enabled("off", false).err()), "{wrong}");
        assert_eq!(fs::read_to_string(&path).unwrap(), wrong);
        let (found, problems) = available(Some(home.path()), None);
        let told: Vec<&str> = problems.iter().map(|problem| problem.path.as_str()).collect();
        assert_eq!((found, told), (Vec::new(), vec![path.to_str().unwrap()]), "{wrong}");
    }
    fs::write(&path, good).unwrap();
    assert_eq!(plugins.list().unwrap().iter().map(|known| known.enabled).collect::<Vec<_>>(), [false]);
    // Without a record, every folder counts.
    fs::remove_file(&path).unwrap();
    assert_eq!(plugins.enabled().unwrap().paths.len(), 1);
}

#[test]
fn plugins_that_say_much_of_themselves_do_not_make_the_record_unreadable() {
    let home = tempfile::tempdir().unwrap();
    let plugins = Installed::of_home(home.path(), Extension::Plugin);
    for name in ["one", "two", "three"] {
        let manifest = plugins.folder().join(name).join(".plugin/plugin.json");
        fs::create_dir_all(manifest.parent().unwrap()).unwrap();
        let long = "x".repeat(500_000);
        fs::write(manifest, json!({"name": name, "version": long, "description": long}).to_string()).unwrap();
    }
    assert_eq!(plugins.list().unwrap().len(), 3);
    assert!(plugins.set_enabled("two", false).unwrap());
    let list = plugins.list().unwrap();
    let off: Vec<&str> =
        list.iter().filter(|known| !known.enabled).map(|known| known.name.as_str()).collect();
    assert_eq!(off, ["two"]);
    for text in list.iter().flat_map(|known| [&known.version, &known.description]) {
        assert!(text.ends_with('…') && text.chars().count() == 1024, "{}", text.len());
    }
    assert!(fs::metadata(plugins.folder().join(".installed.json")).unwrap().len() < 20_000);
}

#[test]
fn unrelated_folders_do_not_displace_installed_plugins_and_are_reported() {
    let home = tempfile::tempdir().unwrap();
    let plugins = Installed::of_home(home.path(), Extension::Plugin);
    let own = plugins.folder().join("zz");
    make_plugin(&own, "1");
    assert_eq!(plugins.list().unwrap().len(), 1);
    for number in 0..1001 {
        fs::create_dir(plugins.folder().join(format!("a{number}"))).unwrap();
    }
    let enabled = plugins.enabled().unwrap();
    assert_eq!((&enabled.paths[0], enabled.paths.len()), (&own, 1001));
    let reason = enabled.left_out.unwrap().to_string();
    assert!(reason.contains("more than 1000"), "{reason}");
    let (found, problems) = available(Some(home.path()), None);
    assert!(found.iter().any(|plugin| plugin.name() == "zz"));
    assert!(problems.iter().any(|problem| problem.reason == reason), "{problems:?}");
    assert!(matches!(plugins.list(), Err(PluginError::File { .. })));
}

#[test]
fn a_folder_of_skills_is_a_marketplace_with_at_most_1000_skills_and_any_other_folders() {
    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path();
    let make_skill = |name: &str| {
        fs::create_dir(root.join(name)).unwrap();
        fs::write(root.join(name).join("SKILL.md"), format!("---\nname: {name}\n---\nText.")).unwrap();
    };
    for number in 0..1001 {
        fs::create_dir(root.join(format!("a{number}"))).unwrap();
    }
    make_skill("zz");
    let market = Marketplace::read(root, "m").unwrap();
    assert_eq!(market.skills.iter().map(|skill| skill.name.as_str()).collect::<Vec<_>>(), ["zz"]);
    (0..1000).for_each(|number| make_skill(&format!("s{number}")));
    let Err(PluginError::Manifest { reason, .. }) = Marketplace::read(root, "m") else {
        panic!("a part of a too large marketplace was read as the whole");
    };
    assert!(reason.contains("more than 1000"), "{reason}");
}
