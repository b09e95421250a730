//! Tests each step with a payload of the older shape, and checks the result.

use super::*;
use crate::event::decode;

/// Raises `payload` and compares the steps and the result. The result must decode as today's format.
fn raised(payload: &str, steps: &[Step], expected: &str) {
    let upcast = upcast(payload).unwrap().unwrap_or_else(|| panic!("nothing was raised in {payload}"));
    assert_eq!(upcast.steps, steps, "{payload}");
    assert_eq!(upcast.payload, expected);
    let event = decode(&upcast.payload, Unfamiliar::Refuse).unwrap();
    assert_eq!(event.dump(), upcast.payload);
    assert_eq!(read(payload, &Given::default()).unwrap(), Raised { event, steps: steps.to_vec() });
    assert_eq!(super::upcast(&upcast.payload), Ok(None), "a raised payload is today's");
}

#[test]
fn kinds_with_a_path_or_in_snake_case_become_class_names() {
    raised(
        r#"{"kind":"openhands.sdk.event.llm_convertible.ActionEvent","id":"a","timestamp":"t","source":"agent",
            "thought":[],"action":{"kind":"openhands.sdk.tool.builtins.think.ThinkAction","thought":"hm"},
            "tool_name":"think","tool_call_id":"c","tool_call":{"id":"c","name":"think","arguments":"{}",
            "origin":"completion"},"llm_response_id":"r"}"#,
        &[Step::ClassNames],
        concat!(
            r#"{"id":"a","timestamp":"t","source":"agent","thought":[],"thinking_blocks":[],"action":{"thought":"hm","#,
            r#""kind":"ThinkAction"},"tool_name":"think","tool_call_id":"c","tool_call":{"id":"c","name":"think","#,
            r#""arguments":"{}","origin":"completion"},"llm_response_id":"r","security_risk":"UNKNOWN","kind":"ActionEvent"}"#,
        ),
    );
    let upcast =
        upcast(r#"{"id":"a","timestamp":"t","kind":"user_message","content":"hi"}"#).unwrap().unwrap();
    assert_eq!(
        (upcast.steps, upcast.payload.as_str()),
        (
            vec![Step::ClassNames],
            concat!(
                r#"{"id":"a","timestamp":"t","source":"user","llm_message":{"role":"user","content":[{"cache_prompt":false,"#,
                r#""type":"text","text":"hi"}],"thinking_blocks":[]},"activated_skills":[],"extended_content":[],"kind":"MessageEvent"}"#,
            )
        )
    );
}

#[test]
fn a_message_loses_its_metrics_and_its_microagents_become_skills() {
    raised(
        r#"{"kind":"MessageEvent","id":"m","timestamp":"t","source":"agent","metrics":{"accumulated_cost":0.1},
            "llm_message":{"role":"assistant","content":[],"cache_enabled":true,"tool_calls":[{"index":1,
            "function":{"arguments":"{}","name":"f"},"id":"c","type":"function"}]},"activated_microagents":["git"],
            "extended_content":[]}"#,
        &[Step::Skills, Step::Metrics, Step::ToolCalls],
        concat!(
            r#"{"id":"m","timestamp":"t","source":"agent","llm_message":{"role":"assistant","content":[],"tool_calls":"#,
            r#"[{"id":"c","name":"f","arguments":"{}","origin":"completion"}],"thinking_blocks":[]},"#,
            r#""activated_skills":["git"],"extended_content":[],"kind":"MessageEvent"}"#,
        ),
    );
}

#[test]
fn an_error_without_a_call_is_the_message_that_the_model_read() {
    raised(
        r#"{"kind":"AgentErrorEvent","id":"e","timestamp":"t","source":"agent","error":"no \"such\" tool"}"#,
        &[Step::ErrorMessages],
        concat!(
            r#"{"id":"e","timestamp":"t","source":"agent","llm_message":{"role":"user","content":[{"cache_prompt":false,"#,
            r#""type":"text","text":"no \"such\" tool"}],"thinking_blocks":[]},"activated_skills":[],"#,
            r#""extended_content":[],"kind":"MessageEvent"}"#,
        ),
    );
}

#[test]
fn an_action_of_september_2025_becomes_one_of_today() {
    raised(
        r#"{"kind": "ActionEvent", "id": "a", "timestamp": "2025-09-25T18:58:46.957475", "source": "agent",
            "thought": [], "action": {"kind": "ExecuteBashAction", "command": "ls\n", "is_input": false,
            "timeout": 60.0, "security_risk": "LOW"}, "tool_name": "execute_bash", "tool_call_id": "toolu_1",
            "tool_call": {"index": 1, "function": {"arguments": "{\"command\": \"ls\"}", "name": "execute_bash"},
            "id": "toolu_1", "type": "function"}, "llm_response_id": "chatcmpl-1"}"#,
        &[Step::ToolCalls, Step::ActionRisk, Step::ToolNames],
        concat!(
            r#"{"id":"a","timestamp":"2025-09-25T18:58:46.957475","source":"agent","thought":[],"thinking_blocks":[],"#,
            r#""action":{"command":"ls\n","is_input":false,"timeout":60.0,"reset":false,"kind":"TerminalAction"},"#,
            r#""tool_name":"terminal","tool_call_id":"toolu_1","tool_call":{"id":"toolu_1","name":"terminal","#,
            r#""arguments":"{\"command\": \"ls\"}","origin":"completion"},"llm_response_id":"chatcmpl-1","#,
            r#""security_risk":"LOW","kind":"ActionEvent"}"#,
        ),
    );
}

#[test]
fn tools_get_their_new_names_if_they_are_certainly_the_old_ones() {
    let refusal = r#"{"kind":"UserRejectObservation","id":"u","timestamp":"t","tool_name":"execute_bash","tool_call_id":"c","action_id":"a"}"#;
    let today = refusal.replace("}", r#","rejection_source":"user"}"#);
    let name = |payload: &str| match read(payload, &Given::default()).unwrap().event {
        Event::UserReject(event) => event.tool_name.to_string(),
        other => panic!("{other:?}"),
    };
    assert_eq!((name(refusal), name(&today)), ("terminal".into(), "execute_bash".into()));
    let of_a_server = r#"{"kind":"ObservationEvent","id":"o","timestamp":"t","tool_name":"execute_bash","tool_call_id":"c",
        "action_id":"a","observation":{"content":[],"tool_name":"execute_bash","kind":"MCPToolObservation"}}"#;
    assert_eq!(upcast(of_a_server), Ok(None));
}

#[test]
fn the_terminals_output_becomes_content() {
    raised(
        r#"{"kind":"ObservationEvent","id":"o","timestamp":"t","source":"environment","tool_name":"execute_bash",
            "tool_call_id":"c","action_id":"a","observation":{"kind":"ExecuteBashObservation","output":"a\r\nb",
            "command":"ls","error":true,"timeout":false,"metadata":{"exit_code":2,"pid":-1,"prefix":"","suffix":"x"}}}"#,
        &[Step::ToolNames, Step::Output],
        concat!(
            r#"{"id":"o","timestamp":"t","source":"environment","tool_name":"terminal","tool_call_id":"c","observation":"#,
            r#"{"content":[{"cache_prompt":false,"type":"text","text":"a\r\nb"}],"is_error":true,"command":"ls","#,
            r#""exit_code":2,"timeout":false,"metadata":{"exit_code":2,"pid":-1,"prefix":"","suffix":"x"},"#,
            r#""kind":"TerminalObservation"},"action_id":"a","extended_content":[],"kind":"ObservationEvent"}"#,
        ),
    );
}

#[test]
fn the_old_members_of_an_observation_become_content() {
    for (observation, expected) in [
        (
            r#"{"kind":"FileEditorObservation","command":"view","output":"text","path":"/a","prev_exist":true}"#,
            r#"{"content":[{"cache_prompt":false,"type":"text","text":"text"}],"is_error":false,"command":"view","path":"/a","prev_exist":true,"kind":"FileEditorObservation"}"#,
        ),
        (
            r#"{"kind":"StrReplaceEditorObservation","command":"create","output":"","prev_exist":true,"error":"bad path"}"#,
            r#"{"content":[{"cache_prompt":false,"type":"text","text":"bad path"}],"is_error":true,"command":"create","prev_exist":true,"kind":"FileEditorObservation"}"#,
        ),
        (
            r#"{"kind":"BrowserObservation","output":"went","error":null,"screenshot_data":"iVBO"}"#,
            r#"{"content":[{"cache_prompt":false,"type":"text","text":"went"}],"is_error":false,"screenshot_data":"iVBO","kind":"BrowserObservation"}"#,
        ),
        (
            r#"{"kind":"FinishObservation","message":"done"}"#,
            r#"{"content":[{"cache_prompt":false,"type":"text","text":"done"}],"is_error":false,"kind":"FinishObservation"}"#,
        ),
        (
            r#"{"kind":"DelegateObservation","command":"spawn","message":"made 2"}"#,
            r#"{"content":[{"cache_prompt":false,"type":"text","text":"made 2"}],"is_error":false,"command":"spawn","kind":"DelegateObservation"}"#,
        ),
        (
            r#"{"kind":"ThinkObservation","content":"Your thought has been logged."}"#,
            r#"{"content":[{"cache_prompt":false,"type":"text","text":"Your thought has been logged."}],"is_error":false,"kind":"ThinkObservation"}"#,
        ),
        (
            r#"{"kind":"TaskTrackerObservation","content":"1 task","command":"plan","task_list":[{"title":"x","notes":"","status":"In-Progress"}]}"#,
            r#"{"content":[{"cache_prompt":false,"type":"text","text":"1 task"}],"is_error":false,"command":"plan","task_list":[{"title":"x","notes":"","status":"in_progress"}],"kind":"TaskTrackerObservation"}"#,
        ),
        (
            r#"{"kind":"GlobObservation","files":["/a.py","/b.py"],"pattern":"*.py","search_path":"/","truncated":true,"error":null}"#,
            r#"{"content":[{"cache_prompt":false,"type":"text","text":"Found 2 file(s) matching pattern '*.py' in '/':\n/a.py\n/b.py\n\n[Results truncated to first 100 files. Consider using a more specific pattern.]"}],"is_error":false,"files":["/a.py","/b.py"],"pattern":"*.py","search_path":"/","truncated":true,"kind":"GlobObservation"}"#,
        ),
        (
            r#"{"kind":"GrepObservation","matches":[],"pattern":"x","search_path":"/","include_pattern":"*.rs"}"#,
            r#"{"content":[{"cache_prompt":false,"type":"text","text":"No files found containing pattern 'x' in directory '/' (filtered by '*.rs')"}],"is_error":false,"matches":[],"pattern":"x","search_path":"/","include_pattern":"*.rs","truncated":false,"kind":"GrepObservation"}"#,
        ),
        (
            r#"{"kind":"GrepObservation","matches":[],"pattern":"(","search_path":"/","error":"bad pattern"}"#,
            r#"{"content":[{"cache_prompt":false,"type":"text","text":"bad pattern"}],"is_error":true,"matches":[],"pattern":"(","search_path":"/","truncated":false,"kind":"GrepObservation"}"#,
        ),
    ] {
        let event = |inner: &str| {
            format!(
                r#"{{"id":"o","timestamp":"t","source":"environment","tool_name":"x","tool_call_id":"c","observation":{inner},"action_id":"a","extended_content":[],"kind":"ObservationEvent"}}"#
            )
        };
        let upcast = upcast(&event(observation)).unwrap().unwrap();
        assert_eq!(upcast.payload, event(expected));
        assert!(decode(&upcast.payload, Unfamiliar::Refuse).is_ok());
    }
}

#[test]
fn a_critics_missing_message_becomes_the_empty_text() {
    raised(
        r#"{"id":"m","timestamp":"t","source":"agent","llm_message":{"role":"assistant"},"critic_result":{"score":0.5},"kind":"MessageEvent"}"#,
        &[Step::CriticMessage],
        concat!(
            r#"{"id":"m","timestamp":"t","source":"agent","llm_message":{"role":"assistant","content":[],"thinking_blocks":[]},"#,
            r#""activated_skills":[],"extended_content":[],"critic_result":{"score":0.5,"message":""},"kind":"MessageEvent"}"#,
        ),
    );
}

#[test]
fn a_condensation_without_a_reply_gets_an_empty_one() {
    raised(
        r#"{"kind":"Condensation","id":"c","timestamp":"t","source":"environment","forgotten_event_ids":null,"summary":"s","summary_offset":4}"#,
        &[Step::CondensationReply],
        r#"{"id":"c","timestamp":"t","source":"environment","forgotten_event_ids":[],"summary":"s","summary_offset":4,"llm_response_id":"","kind":"Condensation"}"#,
    );
}

#[test]
fn the_tools_of_a_system_prompt_become_definitions() {
    raised(
        r#"{"kind":"SystemPromptEvent","id":"s","timestamp":"t","source":"agent","system_prompt":{"type":"text","text":"be"},
            "tools":[{"type":"function","function":{"name":"execute_bash","description":"Runs.","parameters":{"type":"object"}}},
            {"type":"function","function":{"name":"fetch_fetch","description":"Fetches.","parameters":{"type":"object","properties":{"url":{"type":"string"}}}}}]}"#,
        &[Step::ToolDefinitions],
        concat!(
            r#"{"id":"s","timestamp":"t","source":"agent","system_prompt":{"cache_prompt":false,"type":"text","text":"be"},"#,
            r#""tools":[{"description":"Runs.","action_type":"TerminalAction","observation_type":"TerminalObservation","#,
            r#""kind":"TerminalTool","title":"terminal"},{"description":"Fetches.","action_type":"MCPToolAction","#,
            r#""observation_type":"MCPToolObservation","mcp_tool":{"name":"fetch_fetch","description":"Fetches.","#,
            r#""inputSchema":{"type":"object","properties":{"url":{"type":"string"}}}},"kind":"MCPToolDefinition","#,
            r#""title":"fetch_fetch"}],"kind":"SystemPromptEvent"}"#,
        ),
    );
}

#[test]
fn a_tool_without_a_class_becomes_a_clients_tool() {
    raised(
        r#"{"id":"s","timestamp":"t","source":"agent","system_prompt":{"type":"text","text":"be"},"tools":[{"description":"D",
            "action_type":"DelegateAction","observation_type":"DelegateObservation","annotations":{"title":"delegate"},
            "kind":"DelegateTool","title":"delegate"},{"description":"G","action_type":"GoneAction","kind":"GoneTool","title":"gone"}],
            "kind":"SystemPromptEvent"}"#,
        &[Step::GoneTools],
        concat!(
            r#"{"id":"s","timestamp":"t","source":"agent","system_prompt":{"cache_prompt":false,"type":"text","text":"be"},"#,
            r#""tools":[{"description":"D","action_type":"DelegateAction","observation_type":"DelegateObservation","#,
            r#""annotations":{"title":"delegate","readOnlyHint":false,"destructiveHint":true,"idempotentHint":false,"#,
            r#""openWorldHint":true},"client_tool_name":"delegate","input_schema":{"type":"object","properties":{}},"#,
            r#""kind":"ClientTool","title":"delegate"},{"description":"G","action_type":"MCPToolAction","#,
            r#""client_tool_name":"gone","input_schema":{"type":"object","properties":{}},"kind":"ClientTool","title":"gone"}],"#,
            r#""kind":"SystemPromptEvent"}"#,
        ),
    );
}

#[test]
fn a_payload_that_no_step_knows_stays_readable() {
    let future =
        r#"{"id":"f","kind":"FutureEvent","timestamp":"t","source":"moon","parent_id":"p","x":[1.50]}"#;
    let Event::Unknown(unknown) = read(future, &Given::default()).unwrap().event else { panic!() };
    assert_eq!((&*unknown.kind, unknown.payload.text(), &unknown.fault), ("FutureEvent", future, &None));
    assert_eq!(unknown.common.parent_id.as_deref(), Some("p"));

    let malformed = r#"{"id":"b","kind":"PauseEvent","source":["user"]}"#;
    let Event::Unknown(unknown) = read(malformed, &Given::default()).unwrap().event else { panic!() };
    assert_eq!(unknown.fault.as_ref().unwrap().to_string(), "source: is not a string");

    assert_eq!(
        read("[]", &Given::default()).unwrap_err().to_string(),
        "not a JSON object: expected an object at byte 0"
    );
    assert_eq!(read(r#"{"kind":"X"}"#, &Given::default()).unwrap_err().to_string(), "id: is missing");
    let id = crate::ids::EventId::new("row").unwrap();
    let given = Given { id: Some(&id), timestamp: None };
    assert_eq!(read(r#"{"action":"run","args":{}}"#, &given).unwrap().event.id(), &id);
}

#[test]
fn any_event_can_be_made_loadable_for_the_reference() {
    let action = r#"{"id":"a","timestamp":"t","source":"moon","thought":[],"action":{"x":1,"kind":"LaserAction"},
        "tool_name":"laser","tool_call_id":"c","tool_call":{"id":"c","name":"laser","arguments":"{}","origin":"completion"},
        "llm_response_id":"r","security_risk":"EXTREME","new":null,"kind":"ActionEvent"}"#;
    let (event, losses) = loadable(&read(action, &Given::default()).unwrap().event);
    assert!(decode(&event.dump(), Unfamiliar::Refuse).is_ok());
    let Event::Action(action) = &event else { panic!("{event:?}") };
    let expected = r#"{"data":{"x":1,"kind":"LaserAction"},"kind":"MCPToolAction"}"#;
    assert!(event.dump().contains(expected), "{}", event.dump());
    assert_eq!((action.common.source.as_str(), action.security_risk.as_str()), ("agent", "UNKNOWN"));
    let member = |path: &str| Loss::Member { path: path.into() };
    let mut expected = vec![
        member("source"),
        member("security_risk"),
        member("new"),
        Loss::Action { kind: "LaserAction".into() },
    ];
    let mut losses = losses;
    losses.sort();
    expected.sort();
    assert_eq!(losses, expected);

    let answer = r#"{"id":"o","timestamp":"t","source":"environment","tool_name":"laser","tool_call_id":"c","observation":
        {"content":[{"type":"text","text":"zap","glow":1}],"is_error":true,"heat":9,"kind":"LaserObservation"},"action_id":"a","kind":"ObservationEvent"}"#;
    let (event, losses) = loadable(&read(answer, &Given::default()).unwrap().event);
    let said = concat!(
        r#"{"content":[{"cache_prompt":false,"type":"text","text":"zap"},{"cache_prompt":false,"type":"text","text":"{\"heat\":9}"}],"#,
        r#""is_error":true,"tool_name":"laser","kind":"MCPToolObservation"}"#,
    );
    assert!(event.dump().contains(said), "{}", event.dump());
    assert_eq!(
        losses,
        [Loss::Observation { kind: "LaserObservation".into() }, member("observation.content[0].glow")]
    );

    let future =
        r#"{"id":"f","kind":"FutureEvent","timestamp":"t","source":"moon","parent_id":"p","x":[1.50]}"#;
    let unknown = read(future, &Given::default()).unwrap().event;
    let (event, losses) = loadable(&unknown);
    assert_eq!((event.id().as_str(), event.common().parent_id.as_deref()), ("f", Some("p")));
    assert_eq!((unpack(&event), losses), (Some(future), vec![Loss::Packed { kind: "FutureEvent".into() }]));
    assert_eq!(unpack(&unknown), None);
}
