use std::fs;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::*;
use crate::event::tool::TerminalObservation;
use crate::secret::{HIDDEN, Mask};
use crate::tool::{Secrets, run};

/// One secret, for every command that names it.
struct OneSecret;

impl Secrets for OneSecret {
    fn for_command<'a>(&'a self, command: &'a str) -> Boxed<'a, Vec<(String, String)>> {
        let named = command.contains("TOKEN");
        let value = ("TOKEN".to_owned(), "it's \\a \"b\"\n\tc\u{1b}d".to_owned());
        let values = if named { vec![value, ("no-name".to_owned(), "x".to_owned())] } else { Vec::new() };
        Box::pin(std::future::ready(values))
    }

    fn mask<'t>(&self, text: &'t str) -> std::borrow::Cow<'t, str> {
        text.replace("hunter2", HIDDEN).into()
    }

    fn bytes_max(&self) -> usize {
        7
    }

    fn known(&self) -> Option<Mask> {
        Some(Mask::new(["hunter2"]))
    }
}

/// The timeout of a call that hangs, in seconds. It is longer than any of the expected events takes.
const PATIENCE_S: u32 = 120;

struct Desk {
    folder: tempfile::TempDir,
    terminal: Terminal,
    context: Context,
}

impl Desk {
    fn new() -> Self {
        Self::with(|setting| setting)
    }

    fn with(change: impl FnOnce(TerminalSetting) -> TerminalSetting) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let working_dir = fs::canonicalize(folder.path()).unwrap();
        let mut setting = TerminalSetting::new(&working_dir);
        setting.quiet_after = Duration::from_secs(PATIENCE_S.into());
        // The settings of the developer's own shell must not affect these tests.
        setting.env.push(("HOME".to_owned(), working_dir.display().to_string()));
        let context = Context {
            keep_dir: Some(working_dir.join("keep")),
            working_dir,
            secrets: Arc::new(OneSecret),
            cancel: CancellationToken::new(),
        };
        Self { folder, terminal: Terminal::new(change(setting)), context }
    }

    async fn call(&self, arguments: serde_json::Value) -> Result<TerminalObservation, ToolError> {
        let arguments = arguments.to_string();
        let action = self.terminal.action(Raw::parse(&arguments).unwrap())?;
        match run(&self.terminal, &action, &self.context).await? {
            Observation::Terminal(answer) => Ok(answer),
            other => panic!("{other:?}"),
        }
    }

    async fn command(&self, command: &str) -> TerminalObservation {
        self.call(serde_json::json!({ "command": command, "timeout": PATIENCE_S })).await.unwrap()
    }

    /// Returns the answer to a call, and the output until it contains `expected`.
    async fn call_until(
        &self,
        arguments: serde_json::Value,
        expected: &str,
    ) -> (TerminalObservation, String) {
        let first = self.call(arguments).await.unwrap();
        let mut printed = text(&first);
        while !printed.contains(expected) {
            let more = self.call(serde_json::json!({ "command": "", "timeout": 0.1 })).await.unwrap();
            assert_eq!(more.exit_code, Some(-1), "it ended after {printed:?}");
            printed.push_str(&text(&more));
        }
        (first, printed)
    }

    async fn input(&self, command: &str) -> TerminalObservation {
        let arguments = serde_json::json!({ "command": command, "is_input": true, "timeout": PATIENCE_S });
        self.call(arguments).await.unwrap()
    }

    /// Returns the output of a command and its exit code.
    async fn result_of(&self, command: &str) -> (String, i64) {
        shown(&self.command(command).await)
    }
}

fn text(answer: &TerminalObservation) -> String {
    answer.content.iter().filter_map(crate::event::message::Content::as_text).collect()
}

fn shown(answer: &TerminalObservation) -> (String, i64) {
    (text(answer), answer.exit_code.unwrap_or(i64::MIN))
}

fn result(text: &str, exit_code: i64) -> (String, i64) {
    (text.to_owned(), exit_code)
}

#[tokio::test]
async fn the_session_stays_from_call_to_call() {
    let desk = Desk::new();
    assert_eq!(desk.result_of("export A='x  y'; cd /usr; f() { return 7; }").await, result("", 0));
    assert_eq!(desk.result_of("echo \"$A\"; f").await, result("x  y", 7));
    let answer = desk.command("pwd; alias ll='echo aliased'").await;
    assert_eq!((text(&answer), answer.metadata.working_dir.as_deref()), ("/usr".to_owned(), Some("/usr")));
    assert_eq!(&*answer.metadata.suffix, "\n[The command completed with exit code 0.]");
    assert_eq!((&*answer.metadata.prefix, answer.metadata.pid), ("", -1));
    assert!(answer.metadata.username.is_some() && answer.metadata.hostname.is_some());
    assert_eq!(desk.result_of("ll").await, result("aliased", 0));
    let answer = desk.command("sleep 30 & echo begun").await;
    assert!(text(&answer).ends_with("begun") && answer.metadata.pid > 0, "{answer:?}");
    desk.terminal.close().await;
}

#[tokio::test]
async fn output_is_what_was_printed_and_nothing_else() {
    let desk = Desk::new();
    for (command, text, exit_code) in [
        ("echo 'a  b'", "a  b", 0),
        ("printf '  indented\\n\\n'", "  indented", 0),
        ("printf 'no end'", "no end", 0),
        ("false", "", 1),
        ("no_such_command", "bash: no_such_command: command not found", 127),
        ("echo (", "bash: syntax error near unexpected token `newline'", 2),
        ("cat <<EOF\nhello\n$((1+1))\nEOF", "hello\n2", 0),
        ("cat <<'EOF' | tr a-z A-Z\nhello\nEOF\necho after; false", "HELLO\nafter", 1),
        ("for i in 1 2; do\n\techo $i\ndone", "1\n2", 0),
        (
            "printf 'caf\\xc3\\xa9 \\xff \\033[31mred\\033[0m\\ttab\\a\\n'",
            "café \u{fffd} \u{1b}[31mred\u{1b}[0m\ttab",
            0,
        ),
        ("printf '10%%\\r50%%\\r100%%\\n'", "100%", 0),
        ("printf '\\033]0;title\\007\\033[2J\\033[6nseen\\n'", "seen", 0),
        ("echo '\u{1e}x'; printf '\\036\\036'", "x", 0),
        ("echo \"q'uote\" '!' '$HOME' `echo sub` | cat", "q'uote ! $HOME sub", 0),
        ("find . -maxdepth 0 -exec echo {} \\;", ".", 0),
        ("echo a \\; echo b", "a ; echo b", 0),
        ("stty size; echo $TERM", "200 256\nxterm-256color", 0),
        ("ls /no/such 2>&1 >/dev/null | head -c 12", "ls: cannot a", 0),
    ] {
        assert_eq!(desk.result_of(command).await, result(text, exit_code), "{command}");
    }
    let long = format!("echo {} | wc -c", "x".repeat(50_000));
    assert_eq!(desk.result_of(&long).await, result("50001", 0));
    let lines = format!("cat <<EOF | wc -l\n{}EOF", "a line of the document\n".repeat(3000));
    assert_eq!(desk.result_of(&lines).await, result("3000", 0));
    desk.terminal.close().await;
}

#[tokio::test]
async fn changed_shell_settings_do_not_break_the_session() {
    let desk = Desk::new();
    for (command, text) in [
        ("set -x", ""),
        ("echo traced", "+ echo traced\ntraced"),
        ("set +x", "+ set +x"),
        ("set -u; echo strict", "strict"),
        ("set +u; export TERM=dumb", ""),
        ("exec 2>/dev/null", ""),
        ("no_such_command; echo unheard", "unheard"),
        ("exec 2>/dev/tty; export TERM=xterm", ""),
        ("PS1='$ '; PS2='> '; echo prompted", "prompted"),
        ("bash", ""),
        ("echo nested $((SHLVL > 1))", "nested 1"),
        ("exit", "exit"),
        ("set -o vi; echo vi", "vi"),
        ("echo still here", "still here"),
    ] {
        assert_eq!(self::text(&desk.command(command).await), text, "{command}");
    }
    desk.terminal.close().await;
}

#[tokio::test]
async fn a_running_command_takes_input_and_shows_its_output() {
    let desk = Desk::new();
    let moment = |command: &str| serde_json::json!({ "command": command, "timeout": 0.4 });
    let (answer, printed) = desk.call_until(moment("read -p 'name? ' x; echo \"hello $x\""), "name?").await;
    assert_eq!((printed.as_str(), answer.exit_code), ("name?", Some(-1)));
    assert!(
        answer
            .metadata
            .suffix
            .starts_with("\n[The command timed out after 0.4 seconds. You may wait longer to")
    );
    assert_eq!(shown(&desk.input("bob").await), result("hello bob", 0));

    assert_eq!(desk.call_until(moment("cat"), "").await.0.exit_code, Some(-1));
    let input = serde_json::json!({ "command": "one", "is_input": true, "timeout": 0.4 });
    let (answer, printed) = desk.call_until(input, "one").await;
    assert_eq!((printed.as_str(), answer.exit_code), ("one", Some(-1)));
    assert_eq!(&*answer.metadata.prefix, "[Below is the output of the previous command.]\n");
    let answer = desk.command("ls").await;
    assert!(answer.is_error && text(&answer).is_empty(), "{answer:?}");
    assert!(
        answer.metadata.suffix.starts_with("\n[Your command \"ls\" is NOT executed. The previous command")
    );
    let answer = desk.input("C-d").await;
    assert_eq!(shown(&answer), result("", 0));
    assert_eq!(&*answer.metadata.suffix, "\n[The command completed with exit code 0. CTRL+D was sent.]");

    // One process prints and sleeps: between two commands of the shell, Ctrl-C may reach neither.
    desk.call_until(moment("sh -c 'echo begun; exec sleep 600'"), "begun").await;
    let answer = desk.input("C-c").await;
    assert_eq!((text(&answer).as_str(), answer.exit_code), ("^C", Some(130)));
    for (arguments, expected) in [
        (serde_json::json!({ "command": " " }), "No previous running command to retrieve logs from."),
        (
            serde_json::json!({ "command": "x", "is_input": true }),
            "No previous running command to interact with.",
        ),
    ] {
        let answer = desk.call(arguments).await.unwrap();
        assert!(answer.is_error && answer.exit_code.is_none());
        assert_eq!(text(&answer), expected);
    }
    let answer = desk.command("echo 'not closed").await;
    assert!(
        answer.metadata.suffix.starts_with("\n[The shell waits for the rest"),
        "{:?}",
        answer.metadata.suffix
    );
    assert_eq!(shown(&desk.input("now'").await), result("not closed\nnow", 0));
    desk.terminal.close().await;
}

#[tokio::test]
async fn silence_is_reported_and_a_command_that_ended_meanwhile_does_not_block_the_next() {
    let desk = Desk::with(|setting| TerminalSetting { quiet_after: Duration::from_secs(1), ..setting });
    fs::create_dir(desk.folder.path().join("gate")).unwrap();
    let command = "echo waiting; while [ -d gate ]; do sleep 0.05; done; echo through";
    let arguments = serde_json::json!({ "command": command });
    let (answer, printed) = desk.call_until(arguments, "waiting").await;
    assert_eq!((printed.as_str(), answer.exit_code), ("waiting", Some(-1)));
    assert!(
        answer.metadata.suffix.starts_with("\n[The command has no new output after 1 seconds. You may wait")
    );
    fs::remove_dir(desk.folder.path().join("gate")).unwrap();
    assert_eq!(shown(&desk.command("").await), result("through", 0));
    assert_eq!(desk.result_of("echo next").await, result("next", 0));
    desk.terminal.close().await;
}

#[tokio::test]
async fn several_commands_and_literals_are_refused() {
    let desk = Desk::new();
    let answer = desk.command("echo a\necho b").await;
    assert_eq!(
        text(&answer),
        "Cannot execute multiple commands at once.\nPlease run each command separately OR chain them into a single \
         command via && or ;\nProvided commands:\n(1) echo a\n(2) echo b"
    );
    assert!(answer.is_error);
    let answer = desk.command(" [\"it's\"]").await;
    assert!(text(&answer).contains("looks like a Python/JSON list literal"), "{answer:?}");
    assert!(text(&answer).contains("It starts with: '[\"it\\'s\"]'\n"), "{}", text(&answer));
    for command in ["{'a': 1}", "[[1]]", "[{}]"] {
        assert!(text(&desk.command(command).await).starts_with("[Tool-argument error]"), "{command}");
    }
    assert_eq!(desk.result_of("[[ -d . ]] && { echo yes; }").await, result("yes", 0));
    let error = desk.call(serde_json::json!({ "command": "x", "is_input": true, "reset": true })).await;
    assert_eq!(error, Err(ToolError::Failed("Cannot use reset=True with is_input=True".to_owned())));
    desk.terminal.close().await;
}

#[tokio::test]
async fn a_reset_and_an_exit_begin_a_new_shell() {
    let desk = Desk::new();
    desk.command("export A=1; cd /").await;
    let answer =
        desk.call(serde_json::json!({ "command": "echo \"[$A]\"; pwd", "reset": true })).await.unwrap();
    let here = desk.context.working_dir.display();
    assert_eq!(text(&answer), format!("{}\n\n[]\n{here}", answer::RESET));
    assert_eq!(answer.command.as_deref(), Some("[RESET] echo \"[$A]\"; pwd"));
    let answer = desk.call(serde_json::json!({ "command": "", "reset": true })).await.unwrap();
    assert_eq!((text(&answer), answer.exit_code), (answer::RESET.to_owned(), Some(0)));
    let answer = desk.command("cd /; echo bye; exit 3").await;
    assert_eq!(shown(&answer), result("bye\nexit", 3));
    assert!(answer.metadata.suffix.contains("ended the shell with exit code 3"));
    assert_eq!(desk.result_of("pwd").await, result(&here.to_string(), 0));
    let answer = desk.command("kill -9 $$").await;
    assert_eq!(answer.exit_code, Some(137));
    assert_eq!(desk.result_of("echo up").await, result("up", 0));
    desk.terminal.close().await;
}

#[tokio::test]
async fn secrets_reach_only_the_command_that_names_them() {
    let desk = Desk::new();
    let (token, _) = OneSecret.for_command("TOKEN").await.swap_remove(0);
    assert_eq!(token, "TOKEN");
    let printed = desk.result_of("printf '%s' \"$TOKEN\" | od -An -tx1 | tr -d ' \\n'").await;
    let expected: String = "it's \\a \"b\"\n\tc\u{1b}d".bytes().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(printed, result(&expected, 0));
    assert_eq!(desk.result_of("history | grep -c TOKEN; echo ${HISTFILE-none}").await, result("0\nnone", 0));
    assert_eq!(desk.result_of("echo 'hunter''2'").await, result(HIDDEN, 0));
    desk.terminal.close().await;
}

#[tokio::test]
async fn a_long_output_is_shown_by_its_ends_and_kept_whole_and_masked() {
    let desk = Desk::new();
    let answer = desk.command("seq 1 40000; echo hunter2").await;
    let printed = text(&answer);
    assert!(
        printed.starts_with("1\n2\n") && printed.ends_with(&format!("39999\n40000\n{HIDDEN}")),
        "{printed}"
    );
    let file = printed.split("saved to ").nth(1).unwrap().split(" - you").next().unwrap().to_owned();
    let whole = fs::read_to_string(&file).unwrap();
    assert_eq!(whole.lines().count(), 40_001);
    assert!(whole.ends_with(&format!("{HIDDEN}\n")) && !whole.contains("hunter2"));
    let folder = desk.context.working_dir.join("keep/observations");
    assert_eq!(answer.full_output_save_dir.as_deref(), folder.to_str());
    let observation = Observation::Terminal(answer.clone());
    // Together with the texts around it, it is not longer than what the model may be shown.
    let around = [&answer.metadata.prefix, &answer.metadata.suffix].map(|text| text.chars().count());
    assert!(observation.text().chars().count() + around.iter().sum::<usize>() < 30_000);
    desk.terminal.close().await;
}

#[tokio::test]
async fn an_endless_output_is_held_and_can_be_ended() {
    let desk = Desk::with(|setting| TerminalSetting { output_bytes_max: 4 * 1024 * 1024, ..setting });
    let answer = desk.command("yes").await;
    assert_eq!(answer.exit_code, Some(-1));
    assert!(
        answer.metadata.suffix.contains("has printed 4 MB and is still running"),
        "{:?}",
        answer.metadata.suffix
    );
    assert!(text(&answer).chars().count() <= 30_000);
    let file = text(&answer).split("saved to ").nth(1).unwrap().split(" - you").next().unwrap().to_owned();
    assert!(fs::metadata(file).unwrap().len() < 5 * 1024 * 1024);
    let answer = desk.input("C-c").await;
    assert_eq!(answer.exit_code, Some(130), "{:?}", answer.metadata.suffix);
    assert_eq!(desk.result_of("echo over").await, result("over", 0));
    desk.terminal.close().await;
}

#[tokio::test]
async fn a_cancelled_command_is_stopped_and_the_session_goes_on() {
    let desk = Desk::new();
    desk.command("export KEPT=1").await;
    // One command ends after Ctrl-C, the other one has to be killed.
    for command in
        ["touch runs; sleep 600", "bash -c 'trap \"\" INT TERM; echo $$ > pid; touch runs; read -t 600'"]
    {
        let mut context = desk.context.clone();
        context.cancel = CancellationToken::new();
        let arguments = serde_json::json!({ "command": command }).to_string();
        let action = desk.terminal.action(Raw::parse(&arguments).unwrap()).unwrap();
        let runs = desk.folder.path().join("runs");
        let cancel = async {
            while !runs.exists() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            context.cancel.cancel();
        };
        let (outcome, ()) = tokio::join!(run(&desk.terminal, &action, &context), cancel);
        assert_eq!(outcome, Err(ToolError::Cancelled));
        fs::remove_file(runs).unwrap();
        assert_eq!(desk.result_of("echo $KEPT").await, result("1", 0), "{command}");
    }
    let pid: i32 = fs::read_to_string(desk.folder.path().join("pid")).unwrap().trim().parse().unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    assert!(rustix::process::test_kill_process(pid).is_err());
    desk.terminal.close().await;
}

#[tokio::test]
async fn closing_ends_the_shell_and_its_jobs() {
    // A shell that ends after SIGHUP, and a shell that traps SIGHUP and has to be killed.
    for trap in ["", "trap : HUP; "] {
        let desk = Desk::new();
        let (printed, _) = desk.result_of(&format!("{trap}sleep 600 & echo $! $$")).await;
        let pids: Vec<i32> =
            printed.lines().last().unwrap().split(' ').map(|pid| pid.parse().unwrap()).collect();
        desk.terminal.close().await;
        for pid in pids {
            // A process that has ended but has not been waited for is a zombie.
            let ended = || match fs::read_to_string(format!("/proc/{pid}/stat")) {
                Ok(stat) => stat.contains(") Z "),
                Err(_) => {
                    rustix::process::test_kill_process(rustix::process::Pid::from_raw(pid).unwrap()).is_err()
                }
            };
            let wait = async {
                while !ended() {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            let wait = tokio::time::timeout(Duration::from_secs(PATIENCE_S.into()), wait).await;
            assert!(wait.is_ok(), "process {pid} stays: {trap}");
        }
        desk.terminal.close().await;
    }
}

#[tokio::test]
async fn a_shell_that_cannot_start_is_an_error() {
    let desk = Desk::with(|setting| TerminalSetting { shell: "/no/such/bash".into(), ..setting });
    let error = desk.call(serde_json::json!({ "command": "true" })).await.unwrap_err();
    assert!(
        matches!(&error, ToolError::Failed(text) if text.starts_with("the shell cannot be started: ")),
        "{error}"
    );
    let desk = Desk::with(|setting| TerminalSetting { working_dir: "/no/such/dir".into(), ..setting });
    let error = desk.call(serde_json::json!({ "command": "true" })).await.unwrap_err();
    assert_eq!(error, ToolError::Failed("working_dir '/no/such/dir' is not a valid directory".to_owned()));
}

#[test]
fn parameters_are_read() {
    let making = Making { working_dir: "/w".into(), has_vision: false };
    let read = |params: &str| {
        let spec = Spec { name: "terminal".into(), params: crate::event::Json::parse(params).unwrap() };
        TerminalSetting::read(&spec, &making)
    };
    assert_eq!(read("{}").unwrap(), TerminalSetting::new("/w"));
    let setting = read(
        r#"{"terminal_type":"tmux","username":null,"no_change_timeout_seconds":5,"shell_path":"/b","env":{"A":"1"}}"#,
    );
    assert_eq!(
        setting.unwrap(),
        TerminalSetting {
            shell: "/b".into(),
            env: vec![("A".to_owned(), "1".to_owned())],
            quiet_after: Duration::from_secs(5),
            ..TerminalSetting::new("/w")
        }
    );
    for params in
        [r#"{"colour":1}"#, r#"{"env":{"A=B":"x"}}"#, r#"{"env":[]}"#, r#"{"no_change_timeout_seconds":-1}"#]
    {
        assert!(matches!(read(params), Err(RegistryError::Params { .. })), "{params}");
    }
}
