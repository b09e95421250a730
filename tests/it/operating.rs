//! `docs/operating.md` and the files of `deploy/`: they name what there is, and what they start works.
#![cfg(feature = "server")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::support::Scratch;
use crate::support::served::Served;

fn root(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn read(name: &str) -> String {
    std::fs::read_to_string(root(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The names of metrics in a text, without the endings of a histogram's lines.
fn metrics(text: &str) -> BTreeSet<String> {
    let words = text.split(|character: char| !(character.is_ascii_alphanumeric() || character == '_'));
    let whole = |word: &str| {
        let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| word.strip_suffix(end));
        base.unwrap_or(word).to_owned()
    };
    // Not a name with a version, such as that of the package.
    let is_metric = |word: &&str| {
        word.strip_prefix("annals_")
            .is_some_and(|name| name.starts_with(|first: char| first.is_ascii_alphabetic()))
    };
    words.filter(|word| is_metric(word) && *word != "annals_connection").map(whole).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_the_alerts_and_the_dashboard_name_metrics_that_exist_and_the_page_names_all() {
    let scratch = Scratch::new();
    let server = Served::start(&scratch.open()).await;
    let text = server.get("/metrics").await.text;
    server.end().await;
    let heads: String = text.lines().filter(|line| line.starts_with("# TYPE ")).collect();
    let mut served = metrics(&heads);
    // Only a server on a shared log has these. Its own tests ask for them.
    served.extend(metrics(&read("src/server/live/replica.rs")));
    assert!(served.len() > 20, "{served:?}");
    for name in ["docs/operating.md", "deploy/alerts.yml", "deploy/grafana.json"] {
        let named = metrics(&read(name));
        let unknown: Vec<_> = named.difference(&served).collect();
        assert!(unknown.is_empty() && named.len() > 5, "{name} names {unknown:?}");
    }
    let named = metrics(&read("docs/operating.md"));
    let missing: Vec<_> = served.difference(&named).collect();
    assert!(missing.is_empty(), "docs/operating.md does not name {missing:?}");
    let dashboard: serde_json::Value = serde_json::from_str(&read("deploy/grafana.json")).unwrap();
    assert!(dashboard["panels"].as_array().is_some_and(|panels| panels.len() > 10));
}

#[test]
fn the_page_names_every_message_of_the_log() {
    let page = read("docs/operating.md");
    for source in ["src/server/live/notice.rs", "src/cli/journal.rs"] {
        let text = read(source).replace("env!(\"CARGO_PKG_VERSION\")", "VERSION");
        let calls: Vec<&str> = text.split("!(").skip(1).filter(|call| call.contains("target: ")).collect();
        assert!(!calls.is_empty(), "{source}");
        for call in calls {
            // The message is the literal at the end of the call.
            let end = call
                .match_indices('"')
                .find(|(at, _)| call[at + 1..].trim_start().starts_with(')'))
                .unwrap()
                .0;
            let message = call[..end].rsplit('"').next().unwrap();
            assert!(
                page.contains(&format!("`{message}`")),
                "docs/operating.md does not name {message:?} of {source}"
            );
        }
    }
}

#[cfg(all(feature = "cli", target_os = "linux"))]
#[tokio::test(flavor = "multi_thread")]
async fn the_command_of_the_unit_starts_a_server() {
    use std::io::{BufRead as _, BufReader};
    use std::process::{Command, Stdio};

    let unit = read("deploy/annals.service");
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    let mut words = line.split(' ');
    assert_eq!(words.next(), Some("/usr/local/bin/annals"));
    let scratch = Scratch::new();
    let folder = scratch.path("state");
    let state = folder.to_str().unwrap();
    let arguments = words.map(|word| match word {
        "8000" => "0".to_owned(),
        word => word.replace("/var/lib/annals", state),
    });
    let mut command = Command::new(env!("CARGO_BIN_EXE_annals"));
    for line in unit.lines().filter_map(|line| line.strip_prefix("Environment=")) {
        for (name, value) in line.split(' ').map(|pair| pair.split_once('=').unwrap()) {
            command.env(name, value.replace("/var/lib/annals", state));
        }
    }
    std::fs::create_dir_all(folder.join("workspace")).unwrap();
    let mut child = command
        .args(arguments)
        .env_remove("ANNALS_DB")
        .env("SESSION_API_KEY", "k")
        .current_dir(folder.join("workspace"))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let url = line.trim().rsplit_once(" on ").expect("the address").1.to_owned();
    let answer = crate::support::served::http_client().get(format!("{url}/ready")).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    assert!(child.wait().unwrap().success());
    assert!(folder.join("annals.db").is_file());
}
