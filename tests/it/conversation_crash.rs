//! A process is killed in the middle of a conversation, and the next process opens the conversation again.

use std::sync::Arc;

use annals::ExecutionStatus::{Error, Finished, Paused, Running, WaitingForConfirmation};
use annals::agent::Policy;
use annals::conversation::{Conversation, Host};
use annals::event::Event;
use annals::llm::scripted::{Gate, Line, Scripted};
use annals::{ConversationId, Store};

use crate::support::child::{self, Running as Child};
use crate::support::stage::{self, Act, Stage, Terminal, assert_chain, command, errors, events, kinds};
use crate::support::{Scratch, assert_sound};

const RESTARTED: &str = "A restart occurred while this tool was in progress. This may indicate a fatal memory error or \
                         system crash. The tool execution was interrupted and did not complete.";

fn id() -> ConversationId {
    ConversationId::new("11111111-2222-4333-8444-555555555555").unwrap()
}

/// Runs a conversation in a child process and kills the child as soon as it reports. Returns the folder.
fn kill_when_reported(test: &str, role: &str) -> Scratch {
    let scratch = Scratch::new();
    let mut child = Child::start(child::command(test, role, &scratch.database()));
    assert_eq!(child.take_lines().next().as_deref(), Some("there"));
    child.kill();
    scratch
}

/// The work of a child process: it runs until the gate is reached, reports, and waits to be killed.
fn act(role: &child::Role, lines: Vec<Line>, acts: Vec<Act>, policy: Policy, gate: Option<Gate>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let host = Host::new(Store::open(&role.database).unwrap());
        let conversation = Conversation::builder()
            .host(&host)
            .id(id())
            .agent(stage::agent())
            .workspace(role.database.parent().unwrap().join("work"))
            .model(Arc::new(Scripted::new(lines)))
            .tool(Arc::new(Terminal::of(acts)))
            .confirmation_policy(policy)
            .open()
            .await
            .unwrap();
        conversation.send_message("Go").await.unwrap();
        match gate {
            Some(gate) => {
                let run = tokio::spawn({
                    let conversation = conversation.clone();
                    async move { conversation.run().await }
                });
                gate.reached().await;
                child::report("there");
                run.await.unwrap().unwrap();
            }
            None => {
                conversation.run().await.unwrap();
                child::report("there");
                std::future::pending::<()>().await;
            }
        }
    });
}

/// A builder of a conversation that condenses a history of more than eight entries, with these models.
fn condensing(
    host: &Host,
    database: &std::path::Path,
    agent: Scripted,
    condenser: Scripted,
) -> annals::conversation::Builder {
    let json = r#"{"llm":{"model":"openai/mini","usage_id":"condenser"},"max_size":8,"keep_first":1,"kind":"LLMSummarizingCondenser"}"#;
    let settings = annals::event::Json::parse(json).unwrap();
    Conversation::builder()
        .host(host)
        .id(id())
        .agent(stage::agent().with("condenser", Some(&settings)))
        .workspace(database.parent().unwrap().join("work"))
        .tool(Arc::new(Terminal::default()))
        .models(Arc::new(move |settings| {
            let model = if &*settings.usage_id == "condenser" { &condenser } else { &agent };
            Ok(Arc::new(model.clone()) as Arc<dyn annals::llm::Model>)
        }))
}

/// Five commands, one after the other: enough for a condensation.
fn five_commands() -> Vec<Line> {
    (0..5).map(|number| command(&format!("c{number}"), &format!("say {number}"))).collect()
}

#[tokio::test]
async fn after_a_kill_during_condensation_the_history_is_condensed_again() {
    let test = "conversation_crash::after_a_kill_during_condensation_the_history_is_condensed_again";
    if let Some(role) = child::role() {
        return std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let gate = Gate::new();
                let host = Host::new(Store::open(&role.database).unwrap());
                let condenser = Scripted::new([Line::text("Never.").gate(&gate)]).used_as("condenser");
                let agent = Scripted::new(five_commands()).used_as("agent");
                let conversation = condensing(&host, &role.database, agent, condenser).open().await.unwrap();
                conversation.send_message("Go").await.unwrap();
                let run = tokio::spawn(async move { conversation.run().await });
                gate.reached().await;
                child::report("there");
                run.await.unwrap().unwrap();
            });
        })
        .join()
        .unwrap();
    }
    let scratch = kill_when_reported(test, "condenser");
    let host = Host::new(scratch.open());
    let condenser = Scripted::new([Line::text("What was.")]).used_as("condenser");
    let agent = Scripted::new([Line::text("Done.")]).used_as("agent");
    let conversation = condensing(&host, &scratch.database(), agent, condenser).open().await.unwrap();
    assert_eq!(conversation.status(), Error);
    assert_eq!(errors(&events(&host, &id())), Vec::<String>::new());
    assert_eq!(conversation.run().await.unwrap(), Finished);
    let found = events(&host, &id());
    let condensations = kinds(&found).iter().filter(|kind| *kind == "Condensation").count();
    assert_eq!(condensations, 1);
    assert_eq!(kinds(&found).last().unwrap(), "MessageEvent agent");
    assert_chain(&found);
    assert_sound(host.store());
}

#[tokio::test]
async fn after_a_kill_during_a_tool_call_the_tool_is_not_called_again() {
    let test = "conversation_crash::after_a_kill_during_a_tool_call_the_tool_is_not_called_again";
    if let Some(role) = child::role() {
        let gate = Gate::new();
        let acts = vec![Act::Wait(gate.clone())];
        let lines = vec![command("c1", "deploy")];
        return std::thread::spawn(move || act(&role, lines, acts, Policy::Never, Some(gate)))
            .join()
            .unwrap();
    }
    let scratch = kill_when_reported(test, "tool");
    let (conversation, host, terminal, _) = reopen(&scratch, [Line::text("I see.")]).await;
    assert_eq!(errors(&events(&host, &id())), [RESTARTED]);
    assert_eq!(conversation.run().await.unwrap(), Finished);
    assert_eq!(terminal.commands().len(), 0);
    // Opening it once more changes nothing.
    let (conversation, host, ..) = reopen(&scratch, []).await;
    assert_eq!((conversation.status(), errors(&events(&host, &id())).len()), (Finished, 1));
}

/// Opens the conversation again in this process, with a model that gives these replies.
async fn reopen(
    scratch: &Scratch,
    lines: impl IntoIterator<Item = Line>,
) -> (Conversation, Host, Terminal, Scripted) {
    let host = Host::new(scratch.open());
    let (model, terminal) = (Scripted::new(lines), Terminal::default());
    let conversation = Conversation::builder()
        .host(&host)
        .id(id())
        .workspace(scratch.path("work"))
        .model(Arc::new(model.clone()))
        .tool(Arc::new(terminal.clone()))
        .open()
        .await
        .unwrap();
    (conversation, host, terminal, model)
}

#[tokio::test]
async fn after_a_kill_during_a_model_request_the_model_is_asked_again() {
    let test = "conversation_crash::after_a_kill_during_a_model_request_the_model_is_asked_again";
    if let Some(role) = child::role() {
        let gate = Gate::new();
        return std::thread::spawn(move || {
            act(&role, vec![Line::text("Never.").gate(&gate)], Vec::new(), Policy::Never, Some(gate));
        })
        .join()
        .unwrap();
    }
    let scratch = kill_when_reported(test, "model");
    let (conversation, host, ..) = reopen(&scratch, [Line::text("Hello again.")]).await;
    assert_eq!(conversation.status(), Error);
    assert_eq!(conversation.run().await.unwrap(), Finished);
    let events = events(&host, &id());
    assert_eq!(kinds(&events), ["SystemPromptEvent", "MessageEvent user", "MessageEvent agent"]);
    assert_sound(host.store());
}

#[tokio::test]
async fn after_a_kill_during_a_batch_every_action_is_answered_and_none_runs_twice() {
    let test = "conversation_crash::after_a_kill_during_a_batch_every_action_is_answered_and_none_runs_twice";
    if let Some(role) = child::role() {
        let gate = Gate::new();
        let calls = ["one", "two", "three"].map(|word| format!(r#"{{"command":"{word}"}}"#));
        let lines = vec![Line::calls(
            "Three.",
            &[("c1", "terminal", &calls[0]), ("c2", "terminal", &calls[1]), ("c3", "terminal", &calls[2])],
        )];
        let acts = vec![Act::Print("done"), Act::Wait(gate.clone())];
        return std::thread::spawn(move || act(&role, lines, acts, Policy::Never, Some(gate)))
            .join()
            .unwrap();
    }
    let scratch = kill_when_reported(test, "batch");
    let (conversation, host, terminal, model) = reopen(&scratch, [Line::text("I see.")]).await;
    assert_eq!(conversation.status(), Error);
    let found = events(&host, &id());
    // The finished result is kept. For the other actions it is unknown whether they had begun.
    assert_eq!(kinds(&found)[5..], ["ObservationEvent", "AgentErrorEvent", "AgentErrorEvent"]);
    assert_eq!(errors(&found), [RESTARTED, RESTARTED]);
    assert_chain(&found);
    assert_eq!(conversation.pending_actions().await.unwrap().len(), 0);
    assert_eq!(conversation.run().await.unwrap(), Finished);
    assert_eq!(terminal.commands().len(), 0, "a tool ran without a request of the model");
    let messages = model.requests().pop().unwrap().messages;
    let answered: Vec<_> = messages.iter().filter_map(|message| message.tool_call_id.as_deref()).collect();
    assert_eq!(answered, ["c1", "c2", "c3"]);
    assert_sound(host.store());
}

#[tokio::test]
async fn after_a_kill_during_a_confirmation_wait_the_wait_goes_on() {
    let test = "conversation_crash::after_a_kill_during_a_confirmation_wait_the_wait_goes_on";
    if let Some(role) = child::role() {
        let lines = vec![command("c1", "rm it")];
        return std::thread::spawn(move || act(&role, lines, Vec::new(), Policy::Always, None))
            .join()
            .unwrap();
    }
    let scratch = kill_when_reported(test, "consent");
    let (conversation, host, terminal, _) = reopen(&scratch, [Line::text("As you wish.")]).await;
    assert_eq!(conversation.status(), WaitingForConfirmation);
    assert_eq!(conversation.reject_pending_actions("No").await.unwrap(), 1);
    assert_eq!(conversation.run().await.unwrap(), Finished);
    assert_eq!(terminal.commands().len(), 0);
    assert_eq!(
        kinds(&events(&host, &id()))[2..],
        ["ActionEvent", "UserRejectObservation", "MessageEvent agent"]
    );
}

#[tokio::test]
async fn every_open_call_of_an_unfinished_run_is_answered() {
    // The state that the reference leaves: `running`, and two open calls of one reply.
    let stage = Stage::new([Line::calls(
        "",
        &[("c1", "terminal", r#"{"command":"one"}"#), ("c2", "terminal", r#"{"command":"two"}"#)],
    )]);
    let conversation = stage.builder().confirmation_policy(Policy::Always).open().await.unwrap();
    conversation.send_message("Go").await.unwrap();
    conversation.run().await.unwrap();
    drop(conversation);
    let running = annals::state::FieldChange::set("execution_status", "\"running\"").unwrap();
    let change = annals::store::BaseStateChange::new(vec![running]);
    stage.host.store().save_base_state(&stage.id, change).unwrap();
    let conversation = stage.open().await;
    assert_eq!(conversation.status(), Error);
    assert_ne!(conversation.status(), Running);
    assert_eq!(stage.kinds()[4..], ["AgentErrorEvent", "AgentErrorEvent"]);
    let Some(Event::AgentError(error)) = stage.events().pop() else { panic!("{:?}", stage.kinds()) };
    assert_eq!((&*error.tool_call_id, error.classification.kind.as_str()), ("c2", "internal"));
}

#[tokio::test]
async fn the_writes_of_another_handle_are_read_before_a_tool_runs() {
    let gate = Gate::new();
    let stage = Stage::new([command("c1", "one").gate(&gate), Line::text("Two.")]);
    // Two independent handles, like two processes on one file.
    let (one, other) = (stage.open().await, stage.open().await);
    one.send_message("from one").await.unwrap();
    other.send_message("from the other").await.unwrap();
    let run = tokio::spawn({
        let one = one.clone();
        async move { one.run().await }
    });
    gate.reached().await;
    other.send_message("meanwhile").await.unwrap();
    other.pause().await.unwrap();
    assert_eq!(other.status(), Paused);
    gate.open();
    assert_eq!(run.await.unwrap().unwrap(), Paused);
    assert_eq!(stage.terminal.commands().len(), 0);
    assert_eq!(
        stage.kinds(),
        [
            "SystemPromptEvent",
            "MessageEvent user",
            "MessageEvent user",
            "MessageEvent user",
            "PauseEvent",
            "ActionEvent"
        ]
    );
    assert_chain(&stage.events());
    assert_eq!(other.run().await.unwrap(), Finished);
    assert_eq!(stage.terminal.commands(), ["one"]);
}
