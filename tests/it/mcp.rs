//! Real servers of the Model Context Protocol, good and faulty, over pipes and over HTTP.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use annals::ExecutionStatus::Finished;
use annals::conversation::Conversation;
use annals::event::{Event, Json, Observation};
use annals::llm::scripted::Line;
use annals::secret::Source;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ServerHandler, ServiceExt};
use serde_json::{Value, json};

use crate::support::stage::{Stage, agent, finish};
use crate::support::{assert_sound, child};

/// A server with a few tools. A call of `learn` adds one more.
#[derive(Clone, Default)]
struct Notes {
    has_learnt: Arc<AtomicBool>,
}

impl ServerHandler for Notes {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().enable_tool_list_changed().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tool = |name: &'static str, schema: Value| {
            let Value::Object(schema) = schema else { panic!("{schema}") };
            Tool::new(name, format!("Does {name}."), Arc::new(schema))
        };
        let nothing = json!({"type": "object", "properties": {}});
        let mut tools = vec![
            tool(
                "add",
                json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]}),
            ),
            tool("variable", json!({"type": "object", "properties": {"name": {"type": "string"}}})),
            tool("fail", nothing.clone()),
            tool("hang", nothing.clone()),
            tool("flood", nothing.clone()),
            tool("die", nothing.clone()),
            tool("learn", nothing.clone()),
            tool("shout", nothing.clone()),
            tool("chatter", nothing.clone()),
        ];
        if self.has_learnt.load(Ordering::Acquire) {
            tools.push(tool("learnt", nothing));
        }
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let number = |name: &str| arguments.get(name).and_then(Value::as_i64).unwrap_or_default();
        let text = match &*request.name {
            "add" => (number("a") + number("b")).to_string(),
            "variable" => {
                let name = arguments.get("name").and_then(Value::as_str).unwrap_or_default();
                std::env::var(name).unwrap_or_else(|_| "unset".to_owned())
            }
            "fail" => {
                return Ok(CallToolResult::error(vec![ContentBlock::text("no such note")]).into());
            }
            "hang" => {
                context.ct.cancelled().await;
                return Err(ErrorData::internal_error("cancelled", None));
            }
            "flood" => "z".repeat(3 << 20),
            "die" => std::process::exit(3),
            // A line of 100 MB. The call is never answered.
            "shout" => {
                write_all(["\n{".to_owned()].into_iter().chain((0..100).map(|_| "z".repeat(1 << 20))));
                write_all(["\n".to_owned()]);
                context.ct.cancelled().await;
                return Err(ErrorData::internal_error("cancelled", None));
            }
            "chatter" => {
                write_all(std::iter::repeat_with(|| "yes\n".repeat(1 << 14)));
                std::process::exit(4)
            }
            "learn" => {
                self.has_learnt.store(true, Ordering::Release);
                context.peer.notify_tool_list_changed().await.unwrap();
                "learnt".to_owned()
            }
            "learnt" => "new".to_owned(),
            name => return Err(ErrorData::invalid_params(format!("no tool {name}"), None)),
        };
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
    }
}

/// Writes text outside the protocol, until the reader closes the pipe.
fn write_all(texts: impl IntoIterator<Item = String>) {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    for text in texts {
        if out.write_all(text.as_bytes()).is_err() {
            return;
        }
    }
    let _gone = out.flush();
}

/// Runs as the program of a server if the process has this role. The test harness prints text first, like a server that
/// writes text outside the protocol.
#[test]
fn a_program_that_speaks_through_its_pipes() {
    let Some(role) = child::role() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        if role.name == "mute" {
            std::future::pending::<()>().await;
        }
        // The harness has begun a line, so the program starts a new one.
        println!("\nno protocol");
        if role.name == "noisy" {
            write_all((0..4).map(|_| "noise\n".repeat(1 << 17)));
        }
        let service = Notes::default().serve((tokio::io::stdin(), tokio::io::stdout())).await.unwrap();
        service.waiting().await.unwrap();
    });
    std::process::exit(0);
}

/// Returns the settings of a server whose program is this test binary.
pub fn program(role: &str) -> Value {
    json!({
        "command": std::env::current_exe().unwrap(),
        "args": ["mcp::a_program_that_speaks_through_its_pipes", "--exact", "--nocapture", "--test-threads=1"],
        "env": {"ANNALS_TEST_ROLE": role, "ANNALS_TEST_DATABASE": "none", "NOTES_TOKEN": "${TOKEN}", "PLAIN": "${PLAIN:-by default}"},
    })
}

async fn open(stage: &Stage, servers: &Value) -> Conversation {
    let servers = Json::from(servers);
    stage
        .builder()
        .agent(agent().with("mcp_config", Some(&servers)))
        .secret("TOKEN", Source::given("tok-12345"))
        .open()
        .await
        .unwrap()
}

fn call(id: &str, tool: &str, arguments: Value) -> Line {
    Line::calls("", &[(id, tool, &arguments.to_string())])
}

/// Returns the text of each answer of a server, and whether it is an error.
fn answers(stage: &Stage) -> Vec<(String, bool)> {
    let events = stage.events();
    let answers = events.iter().filter_map(|event| match event {
        Event::Observation(event) => match &event.observation {
            Observation::Mcp(answer) => {
                let texts: Vec<&str> = answer.content.iter().filter_map(|part| part.as_text()).collect();
                Some((texts.join("|"), answer.is_error))
            }
            _ => None,
        },
        _ => None,
    });
    answers.collect()
}

/// Returns the problems that the log reports. No event is an error, which would mean that the run failed.
fn problems(stage: &Stage) -> Vec<String> {
    let events = stage.events();
    assert!(!events.iter().any(|event| matches!(event, Event::ConversationError(_))), "{:?}", stage.kinds());
    let reports = events.iter().filter_map(|event| match event {
        Event::StateUpdate(update) if &*update.key == "left_out" => Some(update.value.to_value()),
        _ => None,
    });
    let problems = reports.flat_map(|report| report["problems"].as_array().unwrap().clone());
    problems.map(|problem| problem.as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_program_is_started_called_and_ended() {
    let stage = Stage::new([
        call("c1", "add", json!({"a": 2, "b": 3})),
        call("c2", "variable", json!({"name": "NOTES_TOKEN"})),
        call("c3", "variable", json!({"name": "PLAIN"})),
        call("c4", "variable", json!({"name": "CARGO_MANIFEST_DIR"})),
        call("c5", "fail", json!({})),
        call("c6", "flood", json!({})),
        call("c7", "add", json!({"a": "x"})),
        finish("c8", "done"),
    ]);
    let conversation = open(&stage, &json!({"notes": program("server")})).await;
    conversation.send_message("Go.").await.unwrap();
    assert_eq!(problems(&stage), Vec::<String>::new());
    assert_eq!(conversation.run().await.unwrap(), Finished);
    let answers = answers(&stage);
    let variable_answer = |text: &str| format!("[Tool 'add' executed.]|{text}").replace("add", "variable");
    assert_eq!(answers[0], ("[Tool 'add' executed.]|5".to_owned(), false));
    // The server has the secret; the log and the model never see it.
    assert_eq!(answers[1], (variable_answer("<secret-hidden>"), false));
    assert_eq!(answers[2], (variable_answer("by default"), false));
    // A server gets none of this program's variables.
    assert_eq!(answers[3], (variable_answer("unset"), false));
    assert_eq!(answers[4], ("[Tool 'fail' executed.]|no such note".to_owned(), true));
    assert!(answers[5].0.len() < 600_000);
    assert_eq!(answers.len(), 6);
    let errors = crate::support::stage::errors(&stage.events());
    assert!(errors[0].starts_with("Error validating tool 'add': "), "{errors:?}");
    let stored = stage.base_state();
    assert!(!stored.to_string().contains("tok-12345"));
    // The model is shown the tools of the server after its own tools.
    let shown: Vec<String> =
        stage.model.requests()[0].tools.iter().map(|tool| tool.name.to_string()).collect();
    assert_eq!(
        shown,
        [
            "finish", "think", "terminal", "add", "variable", "fail", "hang", "flood", "die", "learn",
            "shout", "chatter"
        ]
    );
    conversation.close().await.unwrap();
    assert_sound(stage.host.store());
}

#[tokio::test]
async fn tools_that_a_server_adds_are_available_in_the_next_step() {
    let stage = Stage::new([call("c1", "learn", json!({}))]);
    let conversation = open(&stage, &json!({"notes": program("server")})).await;
    conversation.send_message("Go.").await.unwrap();
    // The notification arrives at any time, so steps run until the model is shown the tool.
    for number in 2..60 {
        stage.model.push(call(&format!("c{number}"), "add", json!({"a": 1, "b": number})));
        let before = stage.model.requests().len();
        let options = annals::conversation::RunOptions::default().max_iterations(1).max_budget(None);
        conversation.run_with(options).await.unwrap();
        assert_eq!(stage.model.requests().len(), before + 1);
        let requests = stage.model.requests();
        if requests.last().unwrap().tools.iter().any(|tool| &*tool.name == "learnt") {
            break;
        }
        tokio::task::yield_now().await;
    }
    let requests = stage.model.requests();
    assert!(requests.last().unwrap().tools.iter().any(|tool| &*tool.name == "learnt"));
    conversation.close().await.unwrap();
}

#[tokio::test]
async fn a_call_that_hangs_times_out_and_a_server_that_dies_is_started_again() {
    let stage = Stage::new([
        call("c1", "hang", json!({})),
        call("c2", "die", json!({})),
        call("c3", "add", json!({"a": 1, "b": 1})),
        finish("c4", "done"),
    ]);
    let mut server = program("server");
    server["timeout"] = json!(8);
    let conversation = open(&stage, &json!({"notes": server})).await;
    conversation.send_message("Go.").await.unwrap();
    let begun = Instant::now();
    assert_eq!(conversation.run().await.unwrap(), Finished);
    assert!(begun.elapsed() < Duration::from_secs(120));
    let answers = answers(&stage);
    assert!(answers[0].0.starts_with("MCP tool 'hang' timed out after 8 seconds."), "{answers:?}");
    assert_eq!(answers.len(), 3, "{answers:?}");
    assert!(answers[0].1 && answers[1].1, "{answers:?}");
    // The end of the server ends the call: it does not wait for the limit.
    let reason = answers[1].0.strip_prefix("Error calling MCP tool die: ");
    assert!(reason.is_some_and(|reason| !reason.is_empty()), "{answers:?}");
    assert_eq!(answers[2], ("[Tool 'add' executed.]|2".to_owned(), false));
    conversation.close().await.unwrap();
}

#[tokio::test]
async fn a_server_that_floods_its_output_is_ended_and_started_again() {
    let stage = Stage::new([
        call("c1", "notes_shout", json!({})),
        call("c2", "notes_add", json!({"a": 1, "b": 1})),
        call("c3", "notes_chatter", json!({})),
        call("c4", "notes_add", json!({"a": 2, "b": 2})),
        finish("c5", "done"),
    ]);
    let servers = json!({"notes": program("noisy"), "yes": {"command": "yes", "args": ["no protocol"]}});
    let conversation = open(&stage, &servers).await;
    conversation.send_message("Go.").await.unwrap();
    let reported = problems(&stage);
    assert_eq!(reported.len(), 1, "{reported:?}");
    assert!(reported[0].contains("it wrote more than 8 MiB that are no message"), "{reported:?}");
    let begun = Instant::now();
    assert_eq!(conversation.run().await.unwrap(), Finished);
    // No call waits for an answer that will not come.
    assert!(begun.elapsed() < Duration::from_secs(120), "{:?}", begun.elapsed());
    let answers = answers(&stage);
    let line = "Error calling MCP tool notes_shout: it wrote a line of more than 16 MiB, and was ended";
    assert_eq!(answers[0], (line.to_owned(), true));
    assert_eq!(answers[1], ("[Tool 'notes_add' executed.]|2".to_owned(), false));
    assert!(answers[2].0.contains("it wrote more than 8 MiB that are no message"), "{answers:?}");
    assert_eq!(answers[3], ("[Tool 'notes_add' executed.]|4".to_owned(), false));
    conversation.close().await.unwrap();
    assert_sound(stage.host.store());
}

#[tokio::test]
async fn an_interrupted_call_is_answered_at_once() {
    let stage = Stage::new([call("c1", "hang", json!({}))]);
    let conversation = open(&stage, &json!({"notes": program("server")})).await;
    conversation.send_message("Go.").await.unwrap();
    let running = tokio::spawn({
        let conversation = conversation.clone();
        async move { conversation.run().await }
    });
    let mut seen = conversation.watch();
    seen.wait_for(|shown| shown.event_count >= 3).await.unwrap();
    conversation.interrupt().await.unwrap();
    assert_eq!(running.await.unwrap().unwrap(), annals::ExecutionStatus::Paused);
    let errors = crate::support::stage::errors(&stage.events());
    assert_eq!(errors, ["Tool call interrupted before completion. The conversation was paused."]);
    conversation.close().await.unwrap();
}

#[tokio::test]
async fn servers_that_fail_to_start_are_reported_and_the_others_are_used() {
    let stage = Stage::new([call("c1", "good_add", json!({"a": 20, "b": 22})), finish("c2", "done")]);
    let servers = json!({
        "good": program("server"),
        "missing": {"command": "/no/such/program/${TOKEN}"},
        "ends": {"command": "sh", "args": ["-c", "echo 'it wants a ${TOKEN}' >&2; exit 1"]},
        "wrong": {"transport": "smoke"},
        "refuses": {"url": "http://127.0.0.1:1/mcp"},
        "before": {"url": "http://user:hunter2@127.0.0.1:1/mcp"},
        "behind": {"url": "http://127.0.0.1:1/mcp?api_key=hunter2"},
        "said": {"command": "sh", "args": ["-c", "echo 'no https://user:hunter2@h/?key=hunter2' >&2; exit 1"]},
        "off": {"command": "x", "enabled": false},
    });
    let conversation = open(&stage, &servers).await;
    conversation.send_message("Go.").await.unwrap();
    let reported = problems(&stage);
    assert_eq!(reported.len(), 7, "{reported:?}");
    let server =
        |name: &str| reported.iter().find(|problem| problem.contains(&format!("\"{name}\""))).unwrap();
    assert_eq!(server("wrong"), "MCP server \"wrong\": its transport is unknown");
    assert!(server("missing").starts_with("MCP server \"missing\": "), "{reported:?}");
    assert!(server("refuses").starts_with("MCP server \"refuses\": "), "{reported:?}");
    assert!(server("ends").ends_with("it wants a <secret-hidden>"), "{reported:?}");
    assert!(server("said").ends_with("no https://****@h/?key=****"), "{reported:?}");
    for name in ["before", "behind", "said"] {
        assert!(!server(name).contains("hunter2"), "{reported:?}");
    }
    assert!(!format!("{reported:?}").contains("tok-12345"));
    // The failed servers change neither the first event nor the final status.
    assert_eq!(stage.kinds()[0], "SystemPromptEvent");
    assert_eq!(conversation.run().await.unwrap(), Finished);
    assert_eq!(answers(&stage)[0], ("[Tool 'good_add' executed.]|42".to_owned(), false));
    conversation.close().await.unwrap();
    assert_sound(stage.host.store());
}

#[tokio::test]
async fn a_server_that_still_does_not_start_is_reported_once() {
    let stage = Stage::new([]);
    let servers = json!({"wrong": {"transport": "smoke"}});
    for _ in 0..2 {
        let conversation = open(&stage, &servers).await;
        conversation.send_message("Go.").await.unwrap();
        assert_eq!(problems(&stage), ["MCP server \"wrong\": its transport is unknown"]);
        conversation.close().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_times_out() {
    let stage = Stage::new([Line::text("Hello.")]);
    let conversation = open(&stage, &json!({"mute": program("mute")})).await;
    conversation.send_message("Go.").await.unwrap();
    let reported = problems(&stage);
    assert!(
        reported[0].starts_with("MCP server \"mute\": it did not answer within 30 seconds"),
        "{reported:?}"
    );
    assert_eq!(conversation.run().await.unwrap(), Finished);
    conversation.close().await.unwrap();
}

/// Serves [`Notes`] over HTTP to clients that send the token. Returns the address.
async fn serve() -> String {
    let service = StreamableHttpService::new(
        || Ok(Notes::default()),
        Arc::new(LocalSessionManager::default()),
        StreamableHttpServerConfig::default(),
    );
    let app = axum::Router::new().nest_service("/mcp", service).layer(axum::middleware::from_fn(
        async |request: axum::extract::Request, next: axum::middleware::Next| {
            let is_allowed =
                request.headers().get("authorization").is_some_and(|value| value == "Bearer tok-12345");
            match is_allowed {
                true => next.run(request).await,
                false => axum::response::IntoResponse::into_response(axum::http::StatusCode::UNAUTHORIZED),
            }
        },
    ));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    format!("http://{address}/mcp")
}

#[tokio::test]
async fn a_server_at_an_address_is_called_with_its_key() {
    let url = serve().await;
    let stage = Stage::new([
        call("c1", "with_key_add", json!({"a": 2, "b": 3})),
        call("c2", "with_key_fail", json!({})),
        call("c3", "with_key_hang", json!({})),
        finish("c4", "done"),
    ]);
    let servers = json!({
        "with_key": {"url": url, "timeout": 8, "auth": {"strategy": "bearer", "value": "${TOKEN}"}},
        "without": {"url": url, "transport": "streamable-http"},
    });
    let conversation = open(&stage, &servers).await;
    conversation.send_message("Go.").await.unwrap();
    let reported = problems(&stage);
    assert_eq!(reported.len(), 1, "{reported:?}");
    assert!(reported[0].starts_with("MCP server \"without\": "), "{reported:?}");
    assert_eq!(conversation.run().await.unwrap(), Finished);
    let answers = answers(&stage);
    assert_eq!(answers[0], ("[Tool 'with_key_add' executed.]|5".to_owned(), false));
    assert_eq!(answers[1], ("[Tool 'with_key_fail' executed.]|no such note".to_owned(), true));
    assert!(answers[2].0.starts_with("MCP tool 'with_key_hang' timed out after 8 seconds."), "{answers:?}");
    conversation.close().await.unwrap();
}

/// Starts a faulty server. It answers a call of `huge` with 100 MB, of `endless` with events that never end, of `half`
/// with half an answer, and of `refuse` with an error that contains a key. Returns its address.
async fn serve_badly() -> String {
    use axum::body::Body;
    use axum::http::{StatusCode, header};
    use axum::response::{IntoResponse as _, Response};

    async fn answer(body: String) -> Response {
        let asked: Value = serde_json::from_str(&body).unwrap();
        let id = &asked["id"];
        let typed = |kind: &'static str, body: Body| ([(header::CONTENT_TYPE, kind)], body).into_response();
        let result = |result: Value| {
            let body = json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
            typed("application/json", body.into())
        };
        match asked["method"].as_str().unwrap_or_default() {
            "initialize" => result(json!({
                "protocolVersion": asked["params"]["protocolVersion"],
                "capabilities": {"tools": {}}, "serverInfo": {"name": "bad", "version": "1"},
            })),
            "tools/list" => {
                let tool =
                    |name: &str| json!({"name": name, "inputSchema": {"type": "object", "properties": {}}});
                result(json!({"tools": [tool("huge"), tool("endless"), tool("half"), tool("refuse")]}))
            }
            "tools/call" => match asked["params"]["name"].as_str().unwrap() {
                "huge" => {
                    let head = format!(
                        r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":""#
                    );
                    let pieces = std::iter::repeat_n("z".repeat(1 << 20), 100);
                    let pieces = [head].into_iter().chain(pieces).chain([r#""}]}}"#.to_owned()]);
                    let pieces = pieces.map(Ok::<_, std::convert::Infallible>);
                    typed("application/json", Body::from_stream(futures_util::stream::iter(pieces)))
                }
                "half" => typed("application/json", r#"{"jsonrpc": "2.0", "#.into()),
                "refuse" => {
                    let message = "cannot read https://user:hunter2@h/x?api_key=hunter2";
                    let error = json!({"code": -32603, "message": message});
                    let body = json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string();
                    typed("application/json", body.into())
                }
                _ => {
                    let events = futures_util::stream::repeat_with(|| {
                        Ok::<_, std::convert::Infallible>(": still here\n\n".repeat(100))
                    });
                    typed("text/event-stream", Body::from_stream(events))
                }
            },
            _ => StatusCode::ACCEPTED.into_response(),
        }
    }
    let app = axum::Router::new().route("/mcp", axum::routing::post(answer));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    format!("http://{address}/mcp")
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_of_a_server_at_an_address_are_bounded() {
    let stage = Stage::new([
        call("c1", "huge", json!({})),
        call("c2", "endless", json!({})),
        call("c3", "half", json!({})),
        call("c4", "refuse", json!({})),
        finish("c5", "done"),
    ]);
    let servers = json!({"bad": {"url": serve_badly().await, "timeout": 10}});
    let conversation = open(&stage, &servers).await;
    conversation.send_message("Go.").await.unwrap();
    assert_eq!(problems(&stage), Vec::<String>::new());
    assert_eq!(conversation.run().await.unwrap(), Finished);
    let answers = answers(&stage);
    assert_eq!(answers.len(), 4);
    assert!(answers.iter().all(|(_, is_error)| *is_error), "{answers:?}");
    let refused = "Error calling MCP tool refuse: cannot read https://****@h/x?api_key=****";
    assert_eq!(answers[3].0, refused);
    let about = |place: usize| answers[place].0.chars().take(300).collect::<String>();
    assert!(about(0).starts_with("Error calling MCP tool huge: "), "{}", about(0));
    assert!(about(1).starts_with("MCP tool 'endless' timed out after 10 seconds."), "{}", about(1));
    assert!(about(2).starts_with("Error calling MCP tool half: "), "{}", about(2));
    assert!(answers.iter().all(|(text, _)| text.len() < 2_000), "{}", answers[0].0.len());
    conversation.close().await.unwrap();
    assert_sound(stage.host.store());
}

#[tokio::test(start_paused = true)]
async fn an_address_that_never_answers_times_out() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            held.push(stream);
        }
    });
    let stage = Stage::new([Line::text("Hello.")]);
    let conversation = open(&stage, &json!({"mute": {"url": url}})).await;
    conversation.send_message("Go.").await.unwrap();
    let reported = problems(&stage);
    assert!(
        reported[0].starts_with("MCP server \"mute\": it did not answer within 30 seconds"),
        "{reported:?}"
    );
    assert_eq!(conversation.run().await.unwrap(), Finished);
    conversation.close().await.unwrap();
}

#[tokio::test]
async fn only_tools_that_the_settings_admit_are_available() {
    let stage = Stage::new([Line::text("Hello.")]);
    let servers = Json::from(&json!({"notes": program("server")}));
    let agent = agent()
        .with("mcp_config", Some(&servers))
        .with("filter_tools_regex", Some(&Json::parse(r#""(add|term)""#).unwrap()));
    let conversation = stage.builder().agent(agent).open().await.unwrap();
    conversation.send_message("Go.").await.unwrap();
    conversation.run().await.unwrap();
    let shown: Vec<String> =
        stage.model.requests()[0].tools.iter().map(|tool| tool.name.to_string()).collect();
    assert_eq!(shown, ["finish", "think", "terminal", "add"]);
    conversation.close().await.unwrap();
}
