//! The program on a shared log: `annals shared`, and every command with `--shared`.

use std::process::{Command, Output};

use annals::shared::SharedLog;

use crate::server::Server;
use crate::support::{Scratch, folder};

struct Desk<'a> {
    server: &'a Server,
    scratch: &'a Scratch,
}

impl Desk<'_> {
    fn run(&self, file: &str, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_annals"))
            .args(["--db", self.scratch.path(file).to_str().unwrap()])
            .args(arguments)
            .env("ANNALS_SHARED", self.server.address())
            .env("NO_COLOR", "1")
            .output()
            .unwrap()
    }

    #[track_caller]
    fn says(&self, file: &str, arguments: &[&str]) -> String {
        let output = self.run(file, arguments);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    #[track_caller]
    fn refuses(&self, file: &str, arguments: &[&str]) -> String {
        let output = self.run(file, arguments);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    }
}

#[test]
fn the_program_works_on_a_replica_with_every_command() {
    let (server, scratch) = (Server::start(), Scratch::new());
    let desk = Desk { server: &server, scratch: &scratch };
    let none = desk.refuses("a.db", &["list"]);
    assert!(none.contains("there is no shared log in the schema \"team\""), "{none}");
    assert!(desk.says("a.db", &["shared", "make"]).starts_with("made the shared log "));
    assert!(desk.refuses("a.db", &["shared", "make"]).contains("already"));
    let golden = folder::golden("conversations/hello-two-turns");
    desk.says("a.db", &["import", golden.to_str().unwrap()]);
    // Another file on another machine has it at once.
    let (here, there) = (desk.says("a.db", &["--json", "list"]), desk.says("b.db", &["--json", "list"]));
    assert_eq!(here, there);
    assert!(here.contains("hello-two-turns") || here.contains("\"event_count\""), "{here}");
    desk.says("b.db", &["verify"]);
    let status = SharedLog::at(&server.address()).unwrap().status().unwrap();
    let said = desk.says("a.db", &["--json", "shared", "status"]);
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["events"], status.events);
    assert_eq!(said["log_id"], status.log_id.as_str());
    assert!(desk.says("a.db", &["shared", "status"]).contains("on the server"));
    // A store of its own is brought into the log, and a replica becomes a store of its own.
    let own = Command::new(env!("CARGO_BIN_EXE_annals"))
        .args(["--db", scratch.path("own.db").to_str().unwrap(), "import"])
        .arg(folder::golden("conversations/agent-server-session"))
        .env_remove("ANNALS_SHARED")
        .output()
        .unwrap();
    assert!(own.status.success(), "{own:?}");
    let refused = desk.refuses("own.db", &["list"]);
    assert!(refused.contains("merge --into"), "{refused}");
    let path = |name: &str| scratch.path(name).to_str().unwrap().to_owned();
    desk.says("a.db", &["merge", "--into", &path("a.db"), &path("own.db")]);
    let listed: serde_json::Value = serde_json::from_str(&desk.says("b.db", &["--json", "list"])).unwrap();
    assert_eq!(listed["conversations"].as_array().map_or(0, Vec::len), 2, "{listed}");
    let alone = Command::new(env!("CARGO_BIN_EXE_annals"))
        .args(["merge", "--into", &path("alone.db"), &path("b.db")])
        .env_remove("ANNALS_SHARED")
        .output()
        .unwrap();
    assert!(alone.status.success(), "{alone:?}");
    let alone = annals::Store::open(scratch.path("alone.db")).unwrap();
    let page = alone.conversations(&Default::default(), Default::default(), None, 10).unwrap();
    assert_eq!(page.conversations.len(), 2);
    crate::support::assert_sound(&alone);
    alone.set_title(&page.conversations[0].id, Some("its own")).unwrap();
    // Every row of a file is compared with the log, and a file that differs is made anew.
    assert!(desk.says("b.db", &["shared", "check"]).contains("and the log are the same: "));
    let db = crate::support::owner(scratch.path("b.db"));
    db.execute("UPDATE conversation SET title = 'another'", []).unwrap();
    drop(db);
    let differs = desk.run("b.db", &["shared", "check"]);
    let said = String::from_utf8_lossy(&differs.stdout).into_owned();
    assert_eq!(differs.status.code(), Some(1), "{said}");
    assert!(said.contains("the file has other values") && said.contains("annals shared rebuild"), "{said}");
    let said: serde_json::Value =
        serde_json::from_str(&desk.says("b.db", &["--json", "shared", "rebuild"])).unwrap();
    assert!(said["copy"].as_str().is_some_and(|copy| std::path::Path::new(copy).exists()), "{said}");
    let said: serde_json::Value =
        serde_json::from_str(&desk.says("b.db", &["--json", "shared", "check"])).unwrap();
    assert_eq!((&said["differing"], &said["differences"]), (&0.into(), &serde_json::json!([])), "{said}");
    let listed = desk.says("b.db", &["shared", "list"]);
    assert!(listed.contains("SCHEMA") && listed.contains("team"), "{listed}");
    let said: serde_json::Value =
        serde_json::from_str(&desk.says("b.db", &["--json", "shared", "list"])).unwrap();
    assert_eq!(said["logs"][0]["schema"], "team");
    // Nothing that was removed stays in the server's tables.
    let said = desk.says("a.db", &["shared", "purge"]);
    assert!(said.contains("rewrote the tables") && said.contains("is in none of them"), "{said}");
    let said: serde_json::Value =
        serde_json::from_str(&desk.says("a.db", &["--json", "shared", "purge"])).unwrap();
    assert_eq!((&said["rows_kept"], &said["log_id"]), (&0.into(), &status.log_id.into()), "{said}");
    // What a server is to be for the others may stand in its settings.
    let settings = scratch.path("settings.toml");
    for (setting, refusal) in [
        (
            "advertise = \"10.0.0.7\"",
            "serve.advertise in the settings file cannot be used: \"10.0.0.7\" is not http://HOST:PORT",
        ),
        ("consistency = \"soon\"", "serve.consistency"),
    ] {
        std::fs::write(&settings, format!("[serve]\nport = 0\n{setting}\n")).unwrap();
        let refused = desk.refuses("a.db", &["serve", "--config", settings.to_str().unwrap()]);
        assert!(refused.contains(refusal), "{refused}");
    }
    // Nothing is removed by accident.
    assert!(desk.refuses("a.db", &["shared", "drop"]).contains("--yes"));
    assert!(desk.says("a.db", &["shared", "drop", "--yes"]).starts_with("removed the shared log"));
    assert!(desk.refuses("a.db", &["shared", "status"]).contains("there is no shared log"));
}

#[test]
fn no_message_has_the_password() {
    let scratch = Scratch::new();
    for address in [
        "postgres://annals:geheim@127.0.0.1:1/agents?schema=team",
        "postgres://annals:geheim@/agents?schema=team",
        "postgres://annals:geheim@127.0.0.1:1/agents?schema=Team",
        "postgres://annals:geheim@127.0.0.1:1/agents?sslmode=geheim",
    ] {
        for arguments in [&["shared", "status"][..], &["list"], &["shared", "status", "--help"]] {
            let output = Command::new(env!("CARGO_BIN_EXE_annals"))
                .args(["--db", scratch.path("a.db").to_str().unwrap()])
                .args(arguments)
                .env("ANNALS_SHARED", address)
                .output()
                .unwrap();
            let said = format!("{output:?}");
            assert!(!said.contains("geheim"), "{said}");
        }
    }
}
