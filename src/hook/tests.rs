use std::time::Duration;

use super::*;
use crate::secret::Source;

fn hooks(config: &str) -> Hooks {
    let secrets = Registry::default();
    secrets.update([("TOK".to_owned(), Source::given("s3cret"))]);
    Hooks::new(Config::parse(config).unwrap(), std::env::temp_dir(), "an-id", secrets, None)
}

fn one(point: &str, command: &str) -> Hooks {
    hooks(&json!({point: [{"hooks": [{"command": command, "timeout": 120}]}]}).to_string())
}

async fn ask(hooks: &Hooks, point: HookType) -> Vec<Outcome> {
    let input = Input { tool_name: Some("terminal".to_owned()), ..Input::default() };
    hooks.run(&point, &input).await.into_iter().map(|ran| ran.outcome).collect()
}

#[test]
fn every_spelling_is_read_and_written_as_the_reference_does() {
    let long = r#"{"pre_tool_use":[{"matcher":"terminal","hooks":[{"type":"command","command":"true","tools":[],"timeout":60,"max_iterations":3,"async_":false}]}],"post_tool_use":[],"user_prompt_submit":[],"session_start":[],"session_end":[],"stop":[]}"#;
    for spelling in [
        long,
        r#"{"PreToolUse":[{"matcher":"terminal","hooks":[{"command":"true"}]}]}"#,
        r#"{"hooks":{"PreToolUse":[{"matcher":"terminal","hooks":[{"type":"command","command":"true"}]}]}}"#,
    ] {
        assert_eq!(Config::parse(spelling).unwrap().to_json(), long);
    }
    let all = r#"{"stop":[{"hooks":[{"type":"prompt","prompt":"p"},{"type":"agent","system_prompt":"s","tools":["t"],"max_iterations":1,"name":"n"},{"command":"c","async":true}]}]}"#;
    let config = Config::parse(all).unwrap();
    assert_eq!(Config::parse(&config.to_json()).unwrap(), config);
    let labels: Vec<String> = config.of(&HookType::Stop, None).map(Definition::label).collect();
    assert_eq!(labels, ["prompt-hook:p", "agent-hook:n", "c"]);
    assert_eq!(config.clone().and(&config).of(&HookType::Stop, None).count(), 6);
}

#[test]
fn an_invalid_configuration_is_rejected_with_its_place() {
    for (text, message) in [
        ("[]", "hooks: the configuration: expected an object"),
        (
            r#"{"Sometimes":[]}"#,
            "hooks: unknown event type \"Sometimes\"; pre_tool_use, post_tool_use, user_prompt_submit, session_start, session_end and stop are known",
        ),
        (r#"{"stop":[],"Stop":[]}"#, "hooks: stop is given twice"),
        (
            r#"{"stop":[{"hooks":[{}]}]}"#,
            "hooks: stop[0].hooks[0]: 'command' is required when type is 'command'",
        ),
        (r#"{"stop":[{"matcher":5}]}"#, "hooks: stop[0].matcher: expected a string"),
        (
            r#"{"stop":[{"hooks":[{"type":"prompt"}]}]}"#,
            "hooks: stop[0].hooks[0]: 'prompt' is required when type is 'prompt'",
        ),
        (
            r#"{"stop":[{"hooks":[{"command":"c","timeout":-1}]}]}"#,
            "hooks: stop[0].hooks[0]: expected a whole number of 0 or more",
        ),
    ] {
        assert_eq!(Config::parse(text).unwrap_err().to_string(), message);
    }
}

#[test]
fn matchers_are_names_or_patterns_of_the_whole_name() {
    use super::matcher::Matcher;
    for (matcher, tool, fits) in [
        ("*", Some("x"), true),
        ("", None, true),
        ("terminal", Some("terminal"), true),
        ("terminal", Some("terminals"), false),
        ("terminal", None, false),
        ("/term.*/", Some("terminal"), true),
        ("file_editor|terminal", Some("terminal"), true),
        ("term.", Some("terminal"), false),
        ("/(/", Some("("), false),
        ("(", Some("("), true),
    ] {
        assert_eq!(Matcher::new(matcher).matches(tool), fits, "{matcher} {tool:?}");
    }
}

#[tokio::test]
async fn an_exit_code_or_an_object_decides_and_secrets_are_hidden() {
    let block = |blocked, reason: Option<&str>| (blocked, reason.map(str::to_owned));
    for (command, exit_code, expected) in [
        ("true", 0, block(false, None)),
        ("echo no s3cret >&2; exit 2", 2, block(true, Some("no <secret-hidden>"))),
        ("exit 7", 7, block(false, None)),
        (r#"echo '{"decision":"DENY","reason":"why"}'"#, 0, block(true, Some("why"))),
        (r#"echo '{"continue":false}'"#, 0, block(true, Some("Blocked by hook"))),
        (r#"echo '{"decision":5,"continue":1}'"#, 0, block(false, None)),
        ("kill -9 $$", -9, block(false, None)),
    ] {
        let hooks = one("pre_tool_use", command);
        let input = Input { tool_name: Some("terminal".to_owned()), ..Input::default() };
        let ran = hooks.run(&HookType::PreToolUse, &input).await;
        let outcome = &ran[0].outcome;
        assert_eq!((outcome.exit_code, outcome.success), (exit_code, exit_code == 0), "{command}");
        assert_eq!((outcome.blocked, blocking_reason(&ran)), expected, "{command}");
    }
}

#[tokio::test]
async fn a_command_reads_one_line_with_every_key_and_its_environment() {
    let hooks = one(
        "stop",
        r#"read line; printf '%s|%s|%s' "$line" "$OPENHANDS_EVENT_TYPE" "$OPENHANDS_SESSION_ID""#,
    );
    let input = Input { reason: Some("agent_finished".to_owned()), ..Input::default() };
    let ran = hooks.run(&HookType::Stop, &input).await;
    let folder = json!(std::env::temp_dir().to_string_lossy());
    assert_eq!(
        ran[0].outcome.stdout,
        format!(
            r#"{{"event_type":"Stop","tool_name":null,"tool_input":null,"tool_response":null,"message":null,"session_id":"an-id","working_dir":{folder},"metadata":{{"reason":"agent_finished"}}}}|Stop|an-id"#
        )
    );
    let event = ran[0].event(
        crate::event::Common::new(crate::EventId::new("e").unwrap(), "t", crate::event::Source::Hook),
        HookType::Stop,
    );
    assert!(crate::event::Event::from(event).dump().ends_with(r#""kind":"HookExecutionEvent"}"#));
}

#[tokio::test]
async fn no_hook_runs_after_a_block_at_points_that_can_block() {
    let two = r#"[{"hooks":[{"command":"exit 2"},{"command":"echo '{\"additionalContext\":\"a\"}'"},{"command":"echo '{\"additionalContext\":\"b\"}'"}]}]"#;
    let hooks = hooks(&format!(r#"{{"pre_tool_use":{two},"post_tool_use":{two}}}"#));
    assert_eq!(ask(&hooks, HookType::PreToolUse).await.len(), 1);
    let ran = hooks.run(&HookType::PostToolUse, &Input::default()).await;
    assert_eq!((ran.len(), joined_context(&ran)), (3, Some("a\nb".to_owned())));
    assert_eq!(ask(&hooks, HookType::Stop).await, []);
}

#[tokio::test]
async fn one_that_hangs_is_killed_with_all_it_started_and_one_that_floods_is_cut() {
    let config = r#"{"stop":[{"hooks":[{"command":"sleep 1000 & sleep 1000","timeout":0},{"command":"head -c 3000000 /dev/zero | tr '\\0' x; exec 0<&-"}]}]}"#;
    let outcomes = ask(&hooks(config), HookType::Stop).await;
    assert_eq!(outcomes[0], Outcome::failed("Hook timed out after 0 seconds"));
    assert_eq!((outcomes[1].exit_code, outcomes[1].stdout.len()), (0, 1 << 20));
    let ran = Ran { command: "c".to_owned(), outcome: outcomes[1].clone() };
    let common =
        crate::event::Common::new(crate::EventId::new("e").unwrap(), "t", crate::event::Source::Hook);
    let kept = ran.event(common, HookType::Stop).stdout;
    assert_eq!((kept.chars().count(), kept.ends_with("x\n<TRUNCATED>")), (50_000, true));
}

#[tokio::test]
async fn a_background_hook_is_not_awaited_and_ends_with_the_conversation() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("mark");
    let config = json!({"stop": [{"hooks": [{"command": format!("echo $$ > {}; exec sleep 1000", mark.display()), "async": true}]}]});
    let hooks = hooks(&config.to_string());
    let outcomes = ask(&hooks, HookType::Stop).await;
    assert_eq!(outcomes, [Outcome { success: true, ..Outcome::default() }]);
    let pid = loop {
        match std::fs::read_to_string(&mark) {
            Ok(pid) if pid.ends_with('\n') => break pid,
            Ok(_) | Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    };
    hooks.close();
    let alive = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        !stat.is_empty() && !stat.contains(") Z ")
    };
    while cfg!(target_os = "linux") && alive() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn without_a_model_a_prompt_hook_does_not_block_and_gives_the_reason() {
    let outcomes =
        ask(&hooks(r#"{"pre_tool_use":[{"hooks":[{"type":"prompt","prompt":"p"}]}]}"#), HookType::PreToolUse)
            .await;
    let reason = Some("No LLM configured for prompt hook".to_owned());
    assert_eq!(outcomes, [Outcome { reason, ..Outcome::default() }]);
}
