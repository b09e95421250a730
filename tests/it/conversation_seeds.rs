//! Tests of what the seeds state about running conversations, one test per statement. `docs/conformance.md` lists them.

use annals::ExecutionStatus::{Finished, Paused};
use annals::agent::{Analyzer, Policy};
use annals::conversation::{Conversation, Goal, GoalStatus, RunOptions};
use annals::event::{Event, Json};
use annals::llm::scripted::{Gate, Line};
use annals::secret::{Cipher, Source};

use crate::support::stage::{Stage, UPDATES, assert_chain, command};

#[tokio::test]
async fn a_paused_conversation_is_resumed_from_its_file() {
    let gate = Gate::new();
    let stage = Stage::new([command("c1", "one"), command("c2", "two").gate(&gate), Line::text("Done.")]);
    let conversation = stage.open().await;
    conversation.send_message("Refactor the entire codebase").await.unwrap();
    let run = tokio::spawn({
        let conversation = conversation.clone();
        async move { conversation.run_with(RunOptions::default().max_iterations(50)).await }
    });
    gate.reached().await;
    conversation.pause().await.unwrap();
    gate.open();
    assert_eq!(run.await.unwrap().unwrap(), Paused);
    conversation.close().await.unwrap();
    // Resumes from the file alone, as another process would: with a new store and a new host.
    let conversation =
        stage.builder().host(&annals::conversation::Host::new(stage.scratch.open())).open().await.unwrap();
    assert_eq!(conversation.status(), Paused);
    assert_eq!(conversation.resume().await.unwrap(), Finished);
    assert_eq!(stage.terminal.commands(), ["one", "two"]);
    assert_chain(&stage.events());
}

#[tokio::test]
async fn without_a_cipher_secrets_are_redacted_and_cannot_be_restored() {
    let stage = Stage::new([Line::text("Done.")]);
    let conversation = stage.builder().secret("TOKEN", Source::given("hush-hush")).open().await.unwrap();
    conversation.update_secrets(vec![("OTHER".into(), Source::given("quiet-quiet"))]).await.unwrap();
    let text = stage.base_state().to_string();
    assert!(!text.contains("hush") && !text.contains("quiet") && !text.contains("sk-very-secret"), "{text}");
    assert_eq!(stage.base_state()["secret_registry"]["secret_sources"]["TOKEN"]["value"], "**********");
    // After reopening, the names are known, the values are not.
    let again = stage.open().await;
    assert_eq!(again.secrets().len(), 2);
}

#[tokio::test]
async fn with_a_cipher_secrets_are_sealed_at_once_and_a_wrong_key_destroys_none() {
    let stage = Stage::new([]);
    let (right, wrong) = (|| Cipher::new("right", &[]), || Cipher::new("wrong", &[]));
    let conversation = stage.builder().cipher(right()).open().await.unwrap();
    conversation.update_secrets(vec![("TOKEN".into(), Source::given("hush-hush"))]).await.unwrap();
    let sealed = |stage: &Stage| {
        let value = stage.base_state()["secret_registry"]["secret_sources"]["TOKEN"]["value"].clone();
        value.as_str().unwrap().to_owned()
    };
    let first = sealed(&stage);
    assert_eq!(right().open(&first).unwrap().expose(), "hush-hush");
    for cipher in [Some(wrong()), None] {
        let mut builder = stage.builder();
        if let Some(cipher) = cipher {
            builder = builder.cipher(cipher);
        }
        let conversation = builder.open().await.unwrap();
        conversation.update_secrets(vec![("MORE".into(), Source::given("more-more"))]).await.unwrap();
        assert_eq!(
            right().open(&sealed(&stage)).unwrap().expose(),
            "hush-hush",
            "the token still opens to the secret"
        );
        assert_ne!(stage.base_state()["secret_registry"]["secret_sources"]["TOKEN"]["value"], "hush-hush");
    }
    // A cipher with a new key opens the old token and seals the secret again with the new key.
    let rotated = Cipher::new("new", &["right"]);
    let conversation = stage.builder().cipher(rotated).open().await.unwrap();
    conversation.update_secrets(vec![("MORE".into(), Source::given("more"))]).await.unwrap();
    assert_eq!(Cipher::new("new", &[]).open(&sealed(&stage)).unwrap().expose(), "hush-hush");
}

/// Each sealing of a secret makes another token. For an auditor, this must not look like a change.
#[tokio::test]
async fn sealing_an_unchanged_secret_again_is_no_change() {
    let stage = Stage::new([]);
    let cipher = || Cipher::new("right", &[]);
    let secret = || ("TOKEN".to_owned(), Source::given("hush-hush"));
    let (name, source) = secret();
    stage.builder().cipher(cipher()).secret(&name, source).open().await.unwrap().close().await.unwrap();
    let sealed = |field: &str| stage.base_state()[field].clone();
    let before = (sealed("agent"), sealed("secret_registry"));
    assert!(before.0.to_string().contains("gAAAAA") && before.1.to_string().contains("gAAAAA"));
    for round in 0..3 {
        let mut builder = stage.builder().cipher(cipher());
        if round == 1 {
            let (name, source) = secret();
            builder = builder.secret(&name, source); // the same secret is given again
        }
        let conversation = builder.open().await.unwrap();
        conversation.set_agent_state(Json::parse(&format!(r#"{{"round":{round}}}"#)).unwrap()).await.unwrap();
        if round == 2 {
            conversation.update_secrets(vec![secret()]).await.unwrap();
            conversation.remove_secrets(&["NEVER GIVEN".to_owned()]).await.unwrap();
        }
        conversation.close().await.unwrap();
        assert_eq!((sealed("agent"), sealed("secret_registry")), before, "round {round}");
    }
    // Another value is a change. Another key is a change, too.
    let builder = stage.builder().cipher(cipher()).secret("TOKEN", Source::given("other"));
    builder.open().await.unwrap().close().await.unwrap();
    let changed = sealed("secret_registry");
    assert_ne!(changed, before.1);
    let rotated = stage.builder().cipher(Cipher::new("new", &["right"]));
    rotated.open().await.unwrap().close().await.unwrap();
    assert!(sealed("secret_registry") != changed && sealed("agent") != before.0);
}

#[tokio::test]
async fn confirmation_mode_is_active_with_an_analyzer_and_a_policy_that_asks() {
    let stage = Stage::new([]);
    let conversation = stage.open().await;
    assert!(!conversation.is_confirmation_mode_active().await.unwrap());
    conversation.set_confirmation_policy(Policy::Always).await.unwrap();
    assert!(!conversation.is_confirmation_mode_active().await.unwrap());
    conversation.set_security_analyzer(Some(Analyzer::Llm)).await.unwrap();
    assert!(conversation.is_confirmation_mode_active().await.unwrap());
    // The policy and the analyzer survive a restart.
    let again = stage.open().await;
    assert!(again.is_confirmation_mode_active().await.unwrap());
    again.set_confirmation_policy(Policy::Never).await.unwrap();
    assert!(!again.is_confirmation_mode_active().await.unwrap());
}

#[tokio::test]
async fn agent_state_survives_a_restart() {
    let stage = Stage::new([]);
    let conversation = stage.open().await;
    conversation.set_agent_state(Json::parse(r#"{"plan":{"step":2}}"#).unwrap()).await.unwrap();
    stage.open().await;
    assert_eq!(stage.base_state()["agent_state"]["plan"]["step"], 2);
}

fn verdict(complete: bool, missing: &str) -> Line {
    Line::text(&serde_json::json!({ "score": 0.5, "complete": complete, "missing": missing }).to_string())
}

#[tokio::test]
async fn a_goal_is_pursued_until_the_judge_finds_it_complete() {
    let stage = Stage::new([
        Line::text("I made half."),
        verdict(false, "the other half"),
        Line::text("I made the rest."),
        verdict(true, ""),
    ]);
    let conversation = stage.builder().state_updates(UPDATES).open().await.unwrap();
    let outcome = conversation.run_goal(&Goal::new("Make it whole")).await.unwrap();
    assert_eq!((outcome.status, outcome.rounds), (GoalStatus::Complete, 2));
    let asked = &stage.model.requests()[2].messages;
    assert!(asked.last().unwrap().content[0].as_text().unwrap().contains("the other half"));
    let updates: Vec<_> = stage.kinds().into_iter().filter(|kind| kind.starts_with("goal ")).collect();
    assert!(updates[0].contains(r#""status":"running""#), "{updates:?}");
    assert!(updates.last().unwrap().contains(r#""status":"complete""#), "{updates:?}");
}

#[tokio::test]
async fn a_goal_ends_after_its_rounds_and_an_interrupted_goal_is_resumed() {
    let stage = Stage::new([
        Line::text("Some."),
        verdict(false, "more"),
        Line::text("Some more."),
        verdict(false, "yet more"),
    ]);
    let conversation = stage.builder().state_updates(UPDATES).open().await.unwrap();
    let goal = Goal::new("Everything").rounds_max(2);
    let outcome = conversation.run_goal(&goal).await.unwrap();
    assert_eq!((outcome.status, outcome.rounds), (GoalStatus::Capped, 2));
    assert!(conversation.resume_goal(None).await.is_err(), "it was not interrupted");

    let gate = Gate::new();
    let stage = Stage::new([command("c1", "one").gate(&gate), Line::text("Done."), verdict(true, "")]);
    let conversation = stage.builder().state_updates(UPDATES).open().await.unwrap();
    let pursuit = tokio::spawn({
        let conversation = conversation.clone();
        async move { conversation.run_goal(&Goal::new("Something")).await }
    });
    gate.reached().await;
    conversation.pause().await.unwrap();
    gate.open();
    assert_eq!(pursuit.await.unwrap().unwrap().status, GoalStatus::Interrupted);
    let outcome = conversation.resume_goal(None).await.unwrap();
    assert_eq!((outcome.status, outcome.rounds), (GoalStatus::Complete, 1));
    let paused = stage.events().iter().filter(|event| matches!(event, Event::Pause(_))).count();
    assert_eq!((stage.terminal.commands().len(), paused), (1, 1));
}

#[tokio::test]
async fn a_user_message_interrupts_a_goal_at_once() {
    let goals = |stage: &Stage| -> Vec<String> {
        stage
            .kinds()
            .into_iter()
            .filter(|kind| kind.starts_with("goal ") || kind.contains("Message"))
            .collect()
    };
    // The message arrives while the agent works, and while the judge works.
    for judging in [false, true] {
        let gate = Gate::new();
        let lines = match judging {
            false => vec![Line::text("Done.").gate(&gate), Line::text("Hello to you.")],
            true => vec![Line::text("Done."), verdict(true, "").gate(&gate), Line::text("Hello to you.")],
        };
        let stage = Stage::new(lines);
        let conversation = stage.builder().state_updates(UPDATES).open().await.unwrap();
        let pursuit = tokio::spawn({
            let conversation = conversation.clone();
            async move { conversation.run_goal(&Goal::new("Something")).await }
        });
        gate.reached().await;
        conversation.send_message("Hello").await.unwrap();
        let recorded = goals(&stage);
        let [.., interrupted, _message] = &recorded[..] else { panic!("{recorded:?}") };
        assert!(interrupted.contains(r#""status":"interrupted""#), "{judging}: {recorded:?}");
        gate.open();
        let outcome = pursuit.await.unwrap().unwrap();
        assert_eq!(outcome.status, GoalStatus::Interrupted, "{judging}");
        let interruptions = goals(&stage).iter().filter(|kind| kind.contains("interrupted")).count();
        assert_eq!(interruptions, 1, "{judging}");
        assert!(conversation.has_interrupted_goal().await.unwrap());
    }
}

#[tokio::test]
async fn a_conversation_is_loaded_as_it_was_left_with_the_seeds_api() {
    let stage = Stage::new([command("c1", "one"), Line::text("Done."), Line::text("More.")]);
    let conversation = stage.builder().open().await.unwrap();
    let id = conversation.id().clone();
    conversation.send_message("Go").await.unwrap();
    conversation.run().await.unwrap();
    let messages: Vec<_> = stage.events().iter().filter_map(annals::event::Event::to_llm_message).collect();
    assert_eq!(messages.len(), stage.events().iter().filter(|event| event.is_llm_convertible()).count());
    let folder = stage.base_state()["workspace"]["working_dir"].clone();
    conversation.close().await.unwrap();
    drop(conversation);
    let loaded = Conversation::load(&stage.host, id).await.unwrap();
    assert_eq!(loaded.derived().await.unwrap().iteration(), 2);
    assert_eq!(loaded.status(), annals::AgentExecutionStatus::Finished);
    assert_eq!(loaded.status().name(), "FINISHED");
    assert_eq!("FINISHED".parse(), Ok(annals::AgentExecutionStatus::Finished));
    assert_eq!(stage.base_state()["workspace"]["working_dir"], folder, "the working folder is the same");
    let unknown = annals::ConversationId::new("nobody").unwrap();
    let refused = Conversation::load(&stage.host, unknown).await.map(drop);
    assert!(refused.unwrap_err().to_string().contains("nobody"));
    let error = "asleep".parse::<annals::ExecutionStatus>().unwrap_err().to_string();
    assert!(annals::ExecutionStatus::ALL.iter().all(|status| error.contains(status.as_str())), "{error}");
}
