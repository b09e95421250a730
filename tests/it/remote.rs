//! A conversation at a server, used in the same way as a conversation that runs here.

use std::sync::{Arc, Mutex};

use annals::agent::{AgentDocument, Analyzer, Policy};
use annals::conversation::{
    AnyConversation, Builder, Conversation, ConversationError, ForkOptions, Goal, GoalStatus,
    RemoteConversation, RunOptions, Workspace,
};
use annals::event::{Event, Json};
use annals::llm::Delta;
use annals::llm::scripted::{Line, Scripted};
use annals::remote::{RemoteError, Server};
use annals::secret::Source;
use annals::server::Config;
use annals::tool::Spec;
use annals::{ConversationId, ExecutionStatus, Options, Sequence, Store};
use serde_json::json;

use crate::support::model_server::{Answer, Content, End, ModelServer, Said};
use crate::support::served::Served;
use crate::support::stage::kinds;
use crate::support::{Scratch, all_events, assert_sound};

const KEY: &str = "session-key-that-nobody-sees";

/// A server with a key, its model server and a folder.
pub struct Far {
    pub scratch: Scratch,
    pub store: Store,
    pub served: Served,
    pub model: ModelServer,
}

impl Far {
    pub async fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        let scratch = Scratch::new();
        let store = scratch.open();
        let served = Served::with(&store, config()).await;
        Self { store, served, model: ModelServer::start(answers), scratch }
    }

    pub fn agent(&self) -> AgentDocument {
        agent(&self.model)
    }

    pub fn server(&self) -> Server {
        self.at(&self.served.url)
    }

    /// The server at another address.
    pub fn at(&self, url: &str) -> Server {
        let folder = self.scratch.path("work");
        Server::new(url).unwrap().key(KEY).working_dir(folder.to_str().unwrap())
    }

    pub async fn open(&self) -> RemoteConversation {
        Conversation::builder().agent(self.agent()).open_at(&self.server()).await.unwrap()
    }

    pub fn payloads(&self, id: &ConversationId) -> Vec<String> {
        all_events(&self.store, id).into_iter().map(|event| event.payload).collect()
    }
}

pub fn config() -> Config {
    Config::default().session_keys(vec![KEY.to_owned()])
}

pub fn agent(model: &ModelServer) -> AgentDocument {
    let llm = json!({
        "model": "openai/gpt-4o", "api_key": "sk-very-secret", "base_url": format!("{}/v1", model.url()),
        "usage_id": "agent", "num_retries": 0, "stream": true,
    });
    AgentDocument::new(&Json::from(&llm), &[Spec::new("terminal")])
}

pub fn shell(id: &str, command: &str) -> Answer {
    Answer::calls("", &[(id, "terminal", &json!({ "command": command, "security_risk": "LOW" }).to_string())])
}

fn finish(message: &str) -> Answer {
    Answer::calls("", &[("f", "finish", &json!({ "message": message }).to_string())])
}

/// The events that a callback received, in order.
#[derive(Clone, Default)]
pub struct Received(Arc<Mutex<Vec<Event>>>);

impl Received {
    pub fn by(&self, builder: Builder) -> Builder {
        let received = Arc::clone(&self.0);
        builder.callback(Arc::new(move |event| received.lock().unwrap().push(event.clone())))
    }

    pub fn events(&self) -> Vec<Event> {
        self.0.lock().unwrap().clone()
    }

    pub fn ids(&self) -> Vec<String> {
        self.events().iter().map(|event| event.id().to_string()).collect()
    }

    pub fn dumps(&self) -> Vec<String> {
        self.events().iter().map(Event::dump).collect()
    }
}

/// Asserts that two lists are equal. Otherwise shows the first difference.
#[track_caller]
pub fn assert_same(left: &[String], right: &[String]) {
    let difference = left.iter().zip(right).position(|(left, right)| left != right);
    if let Some(place) = difference {
        let short = |text: &str| text.chars().take(400).collect::<String>();
        panic!("they differ at {place}:\n{}\n{}", short(&left[place]), short(&right[place]));
    }
    assert_eq!(left.len(), right.len());
}

/// The kinds of the events that a conversation in this process would have recorded too.
fn own(events: &[Event]) -> Vec<String> {
    kinds(&events.iter().filter(|event| !matches!(event, Event::StateUpdate(_))).cloned().collect::<Vec<_>>())
}

fn is_remote(error: ConversationError) -> RemoteError {
    match error {
        ConversationError::Remote(error) => error,
        other => panic!("{other:?}"),
    }
}

/// A program that does not depend on where its conversation runs. Returns its results and the kinds of the events.
async fn program(builder: Builder, workspace: impl Into<Workspace>) -> (Vec<String>, Vec<String>) {
    let (received, text) = (Received::default(), Arc::new(Mutex::new(String::new())));
    let pieces = Arc::clone(&text);
    let builder =
        received.by(builder).confirmation_policy(Policy::Always).on_delta(Arc::new(move |_, delta| {
            if let Delta::Text(piece) = delta {
                pieces.lock().unwrap().push_str(piece);
            }
        }));
    let conversation: AnyConversation = builder.open_in(workspace).await.unwrap();
    let mut outcomes = Vec::new();
    let message = conversation.send_message("Say hi").await.unwrap();
    assert_eq!(conversation.snapshot().last_user_message, Some(message));
    outcomes.push(format!("{}", conversation.run().await.unwrap()));
    outcomes.push(format!("{} wait", conversation.pending_actions().await.unwrap().len()));
    outcomes.push(format!("{} refused", conversation.reject_pending_actions("not that").await.unwrap()));
    outcomes.push(format!("{}", conversation.run().await.unwrap()));
    conversation.set_confirmation_policy(Policy::Never).await.unwrap();
    assert_eq!(conversation.confirmation_policy().await.unwrap(), Policy::Never);
    outcomes.push(format!("{}", conversation.run().await.unwrap()));
    outcomes.push(conversation.ask_agent("What was done?").await.unwrap());
    outcomes.push(format!("{} seen", conversation.view().await.unwrap().len()));
    outcomes.push(format!(
        "{}",
        conversation.stats().await.unwrap().combined().accumulated_token_usage.prompt_tokens
    ));
    conversation.set_title("Greeting").await.unwrap();
    outcomes.push(conversation.title().await.unwrap().unwrap());
    let titles = Arc::new(Scripted::new([Line::text("Saying hi")]));
    outcomes.push(conversation.generate_title(Some(titles), 40).await.unwrap());
    let received = own(&received.events());
    let mut read = Vec::new();
    while let page = conversation.events(Sequence(read.len() as u64), 3).await.unwrap()
        && !page.is_empty()
    {
        read.extend(page.into_iter().map(|event| event.event().unwrap()));
    }
    assert_eq!(own(&read), received);
    assert_eq!(conversation.snapshot().event_count, read.len() as u64);
    conversation.close().await.unwrap();
    outcomes.push(text.lock().unwrap().clone());
    (outcomes, received)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_runs_with_a_local_and_a_remote_conversation() {
    let answers = || {
        [
            shell("c1", "echo no"),
            shell("c2", "echo hi"),
            Answer::text("I said hi."),
            Answer::text("A greeting."),
        ]
    };
    let far = Far::new(answers()).await;
    let there = program(Conversation::builder().agent(far.agent()), far.server()).await;
    let model = ModelServer::start(answers());
    let here = Scratch::new();
    let builder = Conversation::builder().store(here.open()).agent(agent(&model));
    let here = program(builder, here.path("work")).await;
    assert_eq!(there, here);
    assert_eq!(
        here.0[..5],
        ["waiting_for_confirmation", "1 wait", "1 refused", "waiting_for_confirmation", "finished"]
    );
    // Both models were sent the same number of messages.
    let message_counts = |model: &ModelServer| -> Vec<usize> {
        model.seen().iter().map(|seen| seen.body["messages"].as_array().unwrap().len()).collect()
    };
    assert_eq!(message_counts(&far.model), message_counts(&model));
    far.served.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn callbacks_receive_the_servers_log_and_a_copy_has_its_bytes() {
    let far = Far::new([shell("c1", "echo hi"), Answer::text("Hi."), Answer::text("And again.")]).await;
    let copy = Scratch::new();
    let (received, kept) = (Received::default(), copy.open());
    let server = far.server().mirror(kept.clone());
    let builder = received.by(Conversation::builder().agent(far.agent()));
    let conversation = builder.open_at(&server).await.unwrap();
    let id = conversation.id().clone();
    conversation.send_message("Say hi").await.unwrap();
    assert_eq!(conversation.run().await.unwrap(), ExecutionStatus::Finished);
    assert_same(&received.dumps(), &far.payloads(&id));
    conversation.close().await.unwrap();
    let copied = || all_events(&kept, &id).into_iter().map(|event| event.payload).collect::<Vec<_>>();
    assert_same(&copied(), &far.payloads(&id));

    // A callback that is added later receives only later events. The copy is complete all the same.
    let later = Received::default();
    let builder = later.by(Conversation::builder().id(id.clone()));
    let conversation = builder.open_at(&server).await.unwrap();
    let before = far.payloads(&id).len();
    assert_eq!(conversation.snapshot().event_count, before as u64);
    conversation.send_message("Again").await.unwrap();
    assert_eq!(conversation.run().await.unwrap(), ExecutionStatus::Finished);
    assert_same(&later.dumps(), &far.payloads(&id)[before..]);
    // HEAD is copied too.
    let first = conversation.events(Sequence(0), 1).await.unwrap()[0].event().unwrap().id().clone();
    conversation.navigate_to(Some(&first)).await.unwrap();
    assert_eq!(conversation.snapshot().leaf, Some(first.clone()));
    conversation.close().await.unwrap();
    assert_same(&copied(), &far.payloads(&id));
    kept_head(&kept, &id, first.as_str()).await;
    assert_sound(&kept);
    far.served.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_cannot_be_written_fails_only_the_close() {
    let far = Far::new([Answer::text("Hi.")]).await;
    let copy = Scratch::new();
    drop(copy.open());
    let kept = Store::open_with(copy.database(), &Options::default().read_only(true)).unwrap();
    let received = Received::default();
    let builder = received.by(Conversation::builder().agent(far.agent()));
    let conversation = builder.open_at(&far.server().mirror(kept)).await.unwrap();
    conversation.send_message("Say hi").await.unwrap();
    assert_eq!(conversation.run().await.unwrap(), ExecutionStatus::Finished);
    assert_same(&received.dumps(), &far.payloads(conversation.id()));
    let error = is_remote(conversation.close().await.unwrap_err());
    assert!(matches!(&error, RemoteError::Copy { is_passing: false, .. }), "{error:?}");
    assert_eq!(conversation.trouble(), Some(error.clone()));
    // A second close returns the same error.
    assert_eq!(is_remote(conversation.close().await.unwrap_err()), error);
    far.served.end().await;
}

async fn kept_head(kept: &Store, id: &ConversationId, head: &str) {
    assert_eq!(kept.conversation(id).unwrap().leaf_event_id.as_deref(), Some(head));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_paused_and_interrupted_and_a_second_run_is_rejected() {
    let far = Far::new([
        Answer::text("One.").held(),
        Answer::text("Two.").held(),
        shell("c1", "sleep 600"),
        Answer::text("Four."),
    ])
    .await;
    let conversation = far.open().await;
    let run = || {
        let conversation = conversation.clone();
        tokio::spawn(async move { conversation.run().await })
    };
    conversation.send_message("Go").await.unwrap();
    let running = run();
    far.model.arrived(1).await;
    assert!(matches!(conversation.run().await, Err(ConversationError::Running { .. })));
    conversation.pause().await.unwrap();
    far.model.release();
    assert_eq!(running.await.unwrap().unwrap(), ExecutionStatus::Paused);
    // The paused run is over, so the next run is not rejected.
    assert_eq!(conversation.resume().await.unwrap(), ExecutionStatus::Finished);

    conversation.send_message("And").await.unwrap();
    let running = run();
    far.model.arrived(2).await;
    conversation.interrupt().await.unwrap();
    assert_eq!(running.await.unwrap().unwrap(), ExecutionStatus::Paused);

    let running = run();
    let mut shown = conversation.watch();
    far.model.arrived(3).await;
    let before = shown.borrow().event_count;
    shown.wait_for(|shown| shown.event_count > before).await.unwrap();
    conversation.interrupt().await.unwrap();
    assert_eq!(running.await.unwrap().unwrap(), ExecutionStatus::Paused);
    assert_eq!(conversation.pending_actions().await.unwrap().len(), 0);
    conversation.close().await.unwrap();
    far.served.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_run_returns_the_code_and_the_detail_of_its_failure() {
    let far = Far::new([Answer::error(400, "the temperature is too high"), Answer::text("Hi.")]).await;
    let conversation = far.open().await;
    conversation.send_message("Go").await.unwrap();
    let error = conversation.run().await.unwrap_err();
    let ConversationError::Run { conversation: id, code, detail } = &error else { panic!("{error:?}") };
    assert_eq!((id, &**code), (conversation.id(), "LLMBadRequestError"));
    assert!(detail.contains("the temperature is too high"), "{detail}");
    assert_eq!(conversation.status(), ExecutionStatus::Error);
    // A new run does not report the old failure again.
    assert_eq!(conversation.run().await.unwrap(), ExecutionStatus::Finished);
    // A finished conversation has nothing to do.
    assert_eq!(conversation.run().await.unwrap(), ExecutionStatus::Finished);
    conversation.close().await.unwrap();
    far.served.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_reach_the_servers_shell_but_no_log_and_can_be_changed() {
    let far = Far::new([
        shell("c1", "echo [${#TOKEN}] $TOKEN"),
        Answer::text("Done."),
        shell("c2", "echo [${#TOKEN}] $TOKEN"),
        Answer::text("Done."),
    ])
    .await;
    let builder = Conversation::builder().agent(far.agent()).secret("TOKEN", Source::given("hush-hush"));
    let conversation = builder.open_at(&far.server()).await.unwrap();
    assert_eq!(conversation.secrets().await.unwrap()[0].name, "TOKEN");
    conversation.send_message("Go").await.unwrap();
    conversation.run().await.unwrap();
    conversation
        .update_secrets(vec![("TOKEN".to_owned(), Source::given("renewed-hush-hush"))])
        .await
        .unwrap();
    conversation.send_message("Again").await.unwrap();
    conversation.run().await.unwrap();
    let log = far.payloads(conversation.id()).join("\n");
    assert!(log.contains("[9] <secret-hidden>") && log.contains("[17] <secret-hidden>"), "{log}");
    assert!(!log.contains("hush"), "{log}");
    conversation.close().await.unwrap();
    far.served.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_remote_conversation_supports_the_other_operations_too() {
    let far = Far::new([
        Answer::text("One."),
        Answer::text("Two."),
        Answer::text("Another two."),
        Answer::text("Goal reached."),
        Answer::text(r#"{"score": 1.0, "complete": true, "missing": ""}"#),
    ])
    .await;
    let other = ModelServer::start([Answer::text("From another model.")]);
    let conversation = far.open().await;
    conversation.set_tags(vec![("team".to_owned(), "a".to_owned())]).await.unwrap();
    conversation.set_security_analyzer(Some(Analyzer::Llm)).await.unwrap();
    conversation.set_confirmation_policy(Policy::risky()).await.unwrap();
    assert!(conversation.is_confirmation_mode_active().await.unwrap());
    let state = conversation.state().await.unwrap().to_value();
    assert_eq!(
        (&state["tags"], &state["security_analyzer"]["kind"]),
        (&json!({"team": "a"}), &json!("LLMSecurityAnalyzer"))
    );
    conversation.send_message("1").await.unwrap();
    conversation.run().await.unwrap();
    let first = conversation.snapshot().leaf.unwrap();
    conversation.send_message("2").await.unwrap();
    conversation.run().await.unwrap();

    let unknown = annals::EventId::new("no-such-event".to_owned()).unwrap();
    let moved = conversation.navigate_to(Some(&unknown)).await;
    assert!(matches!(moved, Err(ConversationError::UnknownEvent { event }) if event == unknown));
    let fork = ForkOptions::default().from_event(first.clone());
    let fork = conversation.fork(fork).await.unwrap();
    assert_eq!((fork.status(), fork.snapshot().leaf), (ExecutionStatus::Idle, Some(first)));
    fork.send_message("2, differently").await.unwrap();
    assert_eq!(fork.run().await.unwrap(), ExecutionStatus::Finished);
    let again = ForkOptions::default().id(fork.id().clone());
    let exists = conversation.fork(again).await.unwrap_err();
    assert!(
        matches!(exists, ConversationError::Store(annals::Error::ConversationExists { .. })),
        "{exists:?}"
    );

    assert!(matches!(conversation.condense().await, Err(ConversationError::NoCondenser { .. })));
    assert!(matches!(conversation.resume_goal(None).await, Err(ConversationError::NoGoal)));
    let outcome = conversation.run_goal(&Goal::new("Reach it")).await.unwrap();
    assert_eq!((outcome.status, outcome.rounds), (GoalStatus::Complete, 1));
    assert!(!conversation.has_interrupted_goal().await.unwrap());

    let llm = json!({"model": "openai/other", "api_key": "sk-2", "base_url": format!("{}/v1", other.url()), "usage_id": "agent"});
    conversation.switch_llm(&Json::from(&llm)).await.unwrap();
    conversation.send_message("And you?").await.unwrap();
    conversation.run().await.unwrap();
    assert_eq!(other.seen().len(), 1);
    conversation.close().await.unwrap();
    assert_sound(&far.store);
    far.served.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn options_that_no_server_supports_are_rejected_and_not_ignored() {
    let far = Far::new([]).await;
    let refused = |builder: Builder| {
        let server = far.server();
        async move { is_remote(builder.open_at(&server).await.unwrap_err()).to_string() }
    };
    let builder = || Conversation::builder().agent(far.agent());
    let model = Arc::new(Scripted::new([Line::text("Hi.")]));
    for (builder, what) in [
        (builder().keep_dir("x"), "a persistence directory"),
        (builder().store(Scratch::new().open()), "a store of this process"),
        (builder().model(model), "a model of this process"),
        (builder().max_budget(1.0), "a budget"),
    ] {
        let error = refused(builder).await;
        assert!(error.contains(what), "{error}");
    }
    assert!(matches!(Conversation::builder().open_at(&far.server()).await, Err(ConversationError::NoAgent)));
    let conversation = far.open().await;
    let limits = RunOptions::default().max_iterations(3);
    let error = is_remote(conversation.run_with(limits).await.unwrap_err());
    assert!(matches!(error, RemoteError::Unsupported { .. }));
    // The rejected builders made no conversation.
    assert_eq!(far.served.ask(reqwest::Method::GET, "/health", None).await.status, 200);
    let count = far.store.statistics().unwrap().conversations;
    assert_eq!(count, 1);
    conversation.close().await.unwrap();
    far.served.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_of_a_remote_conversation_are_distinct_and_contain_no_key() {
    let far = Far::new([Answer::text("Hi.")]).await;
    let open = |server: Server, id: Option<&str>| {
        let mut builder = Conversation::builder().agent(far.agent());
        if let Some(id) = id {
            builder = builder.id(ConversationId::new(id).unwrap());
        }
        async move { is_remote(builder.open_at(&server).await.unwrap_err()) }
    };
    let unreachable = open(far.at("http://127.0.0.1:9"), None).await;
    assert!(matches!(unreachable, RemoteError::Unreachable { .. }), "{unreachable:?}");
    let wrong = open(far.server().key("another-key"), None).await;
    assert!(matches!(wrong, RemoteError::Key { .. }), "{wrong:?}");
    let no_uuid = open(far.server(), Some("not-an-id")).await;
    assert!(matches!(no_uuid, RemoteError::Refused { status: 422, .. }), "{no_uuid:?}");
    for error in [&unreachable, &wrong, &no_uuid] {
        assert!(
            !format!("{error} {error:?}").contains("key-that")
                && !format!("{error} {error:?}").contains("another-key")
        );
    }
    // Another client deletes the conversation while it is followed.
    let conversation = far.open().await;
    let path = format!("/api/conversations/{}", conversation.id());
    let deleted =
        far.served.client.delete(format!("{}{path}", far.served.url)).header("x-session-api-key", KEY);
    assert_eq!(deleted.send().await.unwrap().status(), 200);
    let gone = is_remote(conversation.send_message("Anybody?").await.unwrap_err());
    assert!(matches!(gone, RemoteError::NotFound { .. }), "{gone:?}");
    let gone = is_remote(conversation.run().await.unwrap_err());
    assert!(matches!(gone, RemoteError::NotFound { .. }), "{gone:?}");
    far.served.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn old_servers_and_strange_servers_are_rejected() {
    let open = |body: serde_json::Value| async move {
        let server = ModelServer::start([Answer::of(Content::Text(body.to_string()))]);
        let address = Server::new(&server.url()).unwrap();
        is_remote(Conversation::builder().open_at(&address).await.unwrap_err())
    };
    let old = open(json!({"title": "OpenHands Agent Server", "version": "1.9.2"})).await;
    assert!(matches!(&old, RemoteError::Version { found, .. } if found == "1.9.2"), "{old:?}");
    let strange = open(json!({"hello": "world"})).await;
    assert!(matches!(strange, RemoteError::Version { .. }), "{strange:?}");
    let page = ModelServer::start([Answer::of(Content::Text("<html>".to_owned()))]);
    let page = Conversation::builder().open_at(&Server::new(&page.url()).unwrap()).await.unwrap_err();
    assert!(matches!(is_remote(page), RemoteError::InvalidAnswer { .. }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_is_streamed_and_a_broken_stream_is_discarded() {
    let answer =
        Said { text: Some("one two three four".to_owned()), usage: [10, 2, 0, 0, 0], ..Said::default() };
    let far = Far::new([Answer::of(Content::Events(Vec::new(), End::Broken)), Answer::said(answer)]).await;
    let deltas: Arc<Mutex<Vec<(String, Delta)>>> = Arc::default();
    let pieces = Arc::clone(&deltas);
    let agent = far.agent();
    let llm = Json::parse(
        &agent
            .llm()
            .unwrap()
            .text()
            .replace(r#""num_retries":0"#, r#""num_retries":3,"retry_min_wait":0,"retry_max_wait":0"#),
    )
    .unwrap();
    let conversation = Conversation::builder()
        .agent(agent.with("llm", Some(&llm)))
        .on_delta(Arc::new(move |item, delta| {
            pieces.lock().unwrap().push((item.to_string(), delta.clone()));
        }))
        .open_at(&far.server())
        .await
        .unwrap();
    conversation.send_message("Count").await.unwrap();
    conversation.run().await.unwrap();
    let reply = conversation.snapshot().leaf.unwrap().to_string();
    let deltas = deltas.lock().unwrap().clone();
    let mut text = String::new();
    for (item, delta) in &deltas {
        assert_eq!(*item, reply);
        match delta {
            Delta::Text(piece) => text.push_str(piece),
            Delta::Restart => text.clear(),
            Delta::Reasoning(_) => {}
        }
    }
    assert_eq!(text, "one two three four");
    assert!(deltas.len() > 1, "{deltas:?}");
    conversation.close().await.unwrap();
    far.served.end().await;
}

/// Returns how often clients have read a whole conversation from the server.
async fn reads(far: &Far) -> f64 {
    const READS: &str = r#"annals_http_requests_total{method="GET",route="/api/conversations/{conversation_id}",status="200"} "#;
    let metrics = far.served.client.get(format!("{}/metrics", far.served.url));
    let text = metrics.header("x-session-api-key", KEY).send().await.unwrap().text().await.unwrap();
    let count = text.lines().find_map(|line| line.strip_prefix(READS));
    count.map_or(0.0, |count| count.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_calls_the_finish_tool_returns_at_once() {
    let far = Far::new([finish("All done.")]).await;
    let conversation = far.open().await;
    conversation.send_message("Go").await.unwrap();
    let before = reads(&far).await;
    assert_eq!(conversation.run().await.unwrap(), ExecutionStatus::Finished);
    // The server's message ends the wait, and not a silence: a client reads the state once before a run and once after
    // it, and six times in a silence before that counts as the end.
    let during = reads(&far).await - before;
    assert!((2.0..8.0).contains(&during), "{during}");
    conversation.wait().await;
    conversation.close().await.unwrap();
    far.served.end().await;
}
