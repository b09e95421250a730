//! The commands that run agents, with an agent on a server.
#![cfg(all(feature = "cli", feature = "server", unix))]

use std::process::{Command, Stdio};

use annals::ConversationId;
use annals::store::{ConversationFilter, Order};
use serde_json::Value;

use crate::remote::{Far, shell};
use crate::support::model_server::Answer;

/// Runs the program against a server, with only the environment variables that it needs.
struct Desk {
    far: Far,
    key: &'static str,
}

impl Desk {
    async fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        Self { far: Far::new(answers).await, key: "session-key-that-nobody-sees" }
    }

    /// Runs the program. Returns its exit code, standard output and standard error.
    async fn execute(&self, arguments: &[&str]) -> (i32, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_annals"));
        let home = self.far.scratch.path("home");
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", home);
        command.env("LLM_API_KEY", "sk-not-to-be-seen");
        command.env("LLM_BASE_URL", format!("{}/v1", self.far.model.url())).env("KEY", self.key);
        command.args(arguments).args(["--server", &self.far.served.url, "--api-key", "KEY"]);
        command.current_dir(self.far.scratch.path("")).stdin(Stdio::null());
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
    }

    async fn run(&self, more: &[&str]) -> (i32, String, String) {
        let folder = self.far.scratch.path("work");
        self.execute(&[&["run", "Go", "-m", "openai/m", "-w", folder.to_str().unwrap()], more].concat()).await
    }

    fn id(&self) -> ConversationId {
        let all =
            self.far.store.conversations(&ConversationFilter::default(), Order::Created, None, 2).unwrap();
        all.conversations[0].id.clone()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_on_a_server_is_drawn_like_a_local_run() {
    let desk =
        Desk::new([shell("c1", "echo made > made.txt; cat made.txt"), Answer::text("All done.")]).await;
    let (code, out, errors) = desk.run(&[]).await;
    assert_eq!((code, errors.as_str()), (0, ""), "{out}");
    for words in [
        "Message from User",
        "Go",
        "$ echo made > made.txt",
        "exit 0",
        "All done.",
        "finished · 2 model calls",
    ] {
        assert!(out.contains(words), "{words}: {out}");
    }
    assert!(!out.contains("State"), "{out}");
    let (id, url) = (desk.id(), &desk.far.served.url);
    assert!(
        out.ends_with(&format!("go on with: annals resume {id} 'and now ..' --server {url} --api-key KEY\n")),
        "{out}"
    );
    assert!(desk.far.scratch.path("work/made.txt").exists());
    desk.far.served.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_on_a_server_can_be_approved_rejected_asked_and_resumed() {
    let desk = Desk::new([
        shell("c1", "echo one > one"),
        shell("c2", "echo two > two"),
        Answer::text("I see."),
        Answer::text("Because."),
        Answer::text("And that."),
    ])
    .await;
    let (code, out, _) = desk.run(&["--confirm", "always"]).await;
    assert_eq!(code, 1, "{out}");
    let id = desk.id().to_string();
    assert!(out.contains(&format!("annals approve {id} --server")), "{out}");
    let (code, out, errors) = desk.execute(&["approve", &id]).await;
    assert_eq!(code, 1, "{out}{errors}");
    assert!(desk.far.scratch.path("work/one").exists());
    let (code, out, errors) = desk.execute(&["reject", &id, "--reason", "not that", "--run"]).await;
    assert_eq!(code, 0, "{out}{errors}");
    assert!(out.contains("I see.") && !desk.far.scratch.path("work/two").exists(), "{out}");
    let (code, out, _) = desk.execute(&["--json", "ask", &id, "Why?"]).await;
    assert_eq!((code, &*out), (0, "{\"answer\":\"Because.\"}\n"));
    let (code, out, _) = desk.execute(&["--json", "resume", &id, "And now?"]).await;
    assert_eq!(code, 0, "{out}");
    let lines: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let last = lines.last().unwrap();
    assert_eq!((&last["status"], &last["conversation"]), (&"finished".into(), &id.as_str().into()));
    assert_eq!(last["events"], desk.far.payloads(&desk.id()).len());
    let (code, out, _) = desk.execute(&["pause", &id]).await;
    assert_eq!((code, &*out), (1, "it does not run: finished\n"));
    let (code, _, errors) = desk.execute(&["approve", &id]).await;
    assert_eq!(code, 1);
    assert!(errors.contains("nothing waits for consent"), "{errors}");
    desk.far.served.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_on_a_socket_of_the_file_system_is_reached_by_its_path() {
    let mut desk = Desk::new([shell("c1", "echo made > made.txt"), Answer::text("All done.")]).await;
    let path = desk.far.scratch.path("server.sock");
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    let address = desk.far.served.url.strip_prefix("http://").unwrap().to_owned();
    tokio::spawn(async move {
        loop {
            let (mut near, _) = listener.accept().await.unwrap();
            let mut far = tokio::net::TcpStream::connect(&address).await.unwrap();
            tokio::spawn(async move {
                let _ended = tokio::io::copy_bidirectional(&mut near, &mut far).await;
            });
        }
    });
    let url = std::mem::replace(&mut desk.far.served.url, format!("unix:{}", path.display()));
    let (code, out, errors) = desk.run(&[]).await;
    assert_eq!((code, errors.as_str()), (0, ""), "{out}");
    assert!(out.contains("All done.") && out.contains(&format!("--server unix:{}", path.display())), "{out}");
    desk.far.served.url = format!("unix:{}-not", path.display());
    let (code, _, errors) = desk.run(&[]).await;
    assert_eq!(code, 2);
    assert!(errors.contains("server.sock-not") && errors.contains("cannot be reached"), "{errors}");
    desk.far.served.url = url;
    desk.far.served.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_key_an_unknown_conversation_and_an_unreachable_server_have_their_own_errors() {
    let mut desk = Desk::new([]).await;
    let unknown = "0af3c9d2-8d4b-4f0e-9a5e-51c11b1f2a01";
    let (code, _, errors) = desk.execute(&["resume", unknown]).await;
    assert_eq!(code, 1);
    assert!(errors.contains(unknown), "{errors}");
    desk.key = "a-wrong-key";
    let (code, out, errors) = desk.run(&[]).await;
    assert_eq!(code, 1, "{out}");
    assert!(errors.contains("does not know the key") && errors.contains("--api-key"), "{errors}");
    assert!(!errors.contains("a-wrong-key"), "{errors}");
    desk.far.served.end().await;
    desk.far.served = crate::support::served::Served::start(&desk.far.store).await;
    let url = std::mem::replace(&mut desk.far.served.url, "http://127.0.0.1:9".to_owned());
    let (code, _, errors) = desk.run(&[]).await;
    assert_eq!(code, 2);
    assert!(errors.contains("cannot be reached"), "{errors}");
    desk.far.served.url = url;
    desk.far.served.end().await;
}
