//! Confirmation: which actions need it before they run, and what happens to the actions that wait for it.

use annals::ExecutionStatus::{Finished, Idle, Running, WaitingForConfirmation};
use annals::agent::{Analyzer, Policy};
use annals::event::{Event, Risk};
use annals::llm::scripted::{Gate, Line};

use crate::support::stage::{Stage, assert_chain, command, finish};

fn risky(id: &str, text: &str, risk: &str) -> Line {
    let arguments = serde_json::json!({ "command": text, "security_risk": risk }).to_string();
    Line::calls("", &[(id, "terminal", &arguments)])
}

#[tokio::test]
async fn a_rejected_action_never_runs_and_an_accepted_one_does() {
    let stage = Stage::new([
        risky("c1", "rm -rf x", "HIGH"),
        risky("c2", "echo safe", "LOW"),
        risky("c3", "curl", "HIGH"),
    ]);
    let conversation = stage
        .builder()
        .confirmation_policy(Policy::risky())
        .security_analyzer(Analyzer::Llm)
        .open()
        .await
        .unwrap();
    assert!(conversation.is_confirmation_mode_active().await.unwrap());
    conversation.send_message("Clean up").await.unwrap();
    assert_eq!(conversation.run().await.unwrap(), WaitingForConfirmation);
    assert_eq!(stage.kinds()[2..], ["ActionEvent", "SecurityAnalysisEvent"]);
    assert_eq!(conversation.reject_pending_actions("Too dangerous").await.unwrap(), 1);
    assert_eq!(conversation.status(), Idle);
    assert_eq!(conversation.run().await.unwrap(), WaitingForConfirmation);
    assert_eq!(
        stage.kinds()[4..],
        [
            "UserRejectObservation",
            "ActionEvent",
            "SecurityAnalysisEvent",
            "ObservationEvent",
            "ActionEvent",
            "SecurityAnalysisEvent"
        ]
    );
    let events = stage.events();
    assert_chain(&events);
    let Event::SecurityAnalysis(analysis) = &events[3] else { panic!("{:?}", events[3]) };
    assert_eq!((&*analysis.analyzer, &*analysis.policy), ("LLMSecurityAnalyzer", "ConfirmRisky"));
    assert_eq!(analysis.risks.0, [(events[2].id().as_str().into(), Risk::High)]);
    // Running again accepts the waiting action.
    stage.model.push(finish("c4", "done"));
    assert_eq!(conversation.run().await.unwrap(), Finished);
    assert_eq!(stage.terminal.commands(), ["echo safe", "curl"]);
}

#[tokio::test]
async fn without_an_analyzer_the_policy_alone_decides() {
    for (policy, waits) in [(Policy::Always, true), (Policy::risky(), true), (Policy::Never, false)] {
        let stage = Stage::new([command("c1", "ls"), Line::text("Done.")]);
        let conversation = stage.builder().confirmation_policy(policy).open().await.unwrap();
        assert!(!conversation.is_confirmation_mode_active().await.unwrap());
        conversation.send_message("Go").await.unwrap();
        let status = conversation.run().await.unwrap();
        assert_eq!(status == WaitingForConfirmation, waits);
        let analyses = stage.kinds().iter().filter(|kind| *kind == "SecurityAnalysisEvent").count();
        assert_eq!(analyses, 0);
    }
}

#[tokio::test]
async fn a_single_think_needs_no_confirmation_but_think_and_finish_together_do() {
    let think = ("c1", "think", r#"{"thought":"hm"}"#);
    let done = ("c2", "finish", r#"{"message":"done"}"#);
    let stage = Stage::new([Line::calls("", &[think]), Line::calls("", &[("c3", think.1, think.2), done])]);
    let conversation = stage.builder().confirmation_policy(Policy::Always).open().await.unwrap();
    conversation.send_message("Go").await.unwrap();
    assert_eq!(conversation.run().await.unwrap(), WaitingForConfirmation);
    assert_eq!(stage.kinds()[2..], ["ActionEvent", "ObservationEvent", "ActionEvent", "ActionEvent"]);
    assert_eq!(conversation.run().await.unwrap(), Finished);
}

#[tokio::test]
async fn waiting_actions_survive_a_restart_and_the_model_sees_their_calls() {
    let stage = Stage::new([
        Line::calls(
            "Two.",
            &[("c1", "terminal", r#"{"command":"one"}"#), ("c2", "terminal", r#"{"command":"two"}"#)],
        ),
        Line::text("Done."),
    ]);
    {
        let conversation = stage.builder().confirmation_policy(Policy::Always).open().await.unwrap();
        conversation.send_message("Go").await.unwrap();
        assert_eq!(conversation.run().await.unwrap(), WaitingForConfirmation);
        // The conversation is dropped without being closed, as if its process had ended.
    }
    let conversation = stage.open().await;
    assert_eq!(conversation.status(), WaitingForConfirmation);
    assert_eq!(conversation.confirmation_policy().await.unwrap(), Policy::Always);
    assert_eq!(conversation.pending_actions().await.unwrap().len(), 2);
    assert_eq!(conversation.run().await.unwrap(), Finished);
    assert_eq!(stage.terminal.commands(), ["one", "two"]);
    // Each answer follows its call. The reference drops the calls when it reloads.
    let messages = stage.model.requests().pop().unwrap().messages;
    assert_eq!(messages[2].tool_calls.as_ref().map(Vec::len), Some(2));
    let answers: Vec<_> = messages[3..].iter().map(|message| message.tool_call_id.as_deref()).collect();
    assert_eq!(answers, [Some("c1"), Some("c2")]);
}

#[tokio::test]
async fn a_message_during_a_step_supersedes_the_actions_that_would_wait() {
    let gate = Gate::new();
    let stage = Stage::new([command("c1", "old").gate(&gate), Line::text("As you wish.")]);
    let conversation = stage.builder().confirmation_policy(Policy::Always).open().await.unwrap();
    conversation.send_message("Go").await.unwrap();
    let run = tokio::spawn({
        let conversation = conversation.clone();
        async move { conversation.run().await }
    });
    gate.reached().await;
    conversation.send_message("Do something else").await.unwrap();
    gate.open();
    assert_eq!(run.await.unwrap().unwrap(), Finished);
    assert_eq!(
        stage.kinds()[2..],
        ["MessageEvent user", "ActionEvent", "UserRejectObservation", "MessageEvent agent"]
    );
    let Event::UserReject(refusal) = &stage.events()[4] else { panic!("{:?}", stage.kinds()) };
    assert_eq!(&*refusal.rejection_reason, "Superseded by a new user message");
    assert_eq!(stage.terminal.commands().len(), 0);
}

#[tokio::test]
async fn a_message_leaves_waiting_actions_waiting() {
    let stage = Stage::new([command("c1", "ls"), Line::text("Done.")]);
    let conversation = stage.builder().confirmation_policy(Policy::Always).open().await.unwrap();
    conversation.send_message("Go").await.unwrap();
    conversation.run().await.unwrap();
    conversation.send_message("Well?").await.unwrap();
    assert_eq!(conversation.status(), WaitingForConfirmation);
    conversation.set_confirmation_policy(Policy::Never).await.unwrap();
    assert_eq!(conversation.run().await.unwrap(), Finished);
    assert_eq!(stage.terminal.commands(), ["ls"]);
    assert_eq!(stage.base_state()["confirmation_policy"]["kind"], "NeverConfirm");
    assert_ne!(conversation.status(), Running);
}
