//! Condensing with a scripted model.

use tokio_util::sync::CancellationToken;

use super::*;
use crate::event::{Unfamiliar, decode};
use crate::ids::EventId;
use crate::llm::scripted::{Line, Scripted};

const SETTINGS: Condenser = Condenser {
    max_size: 6,
    max_tokens: None,
    keep_first: 1,
    minimum_progress: 0.1,
    reset_attempts: 3,
    reset_scaling: 0.5,
};

fn event(payload: &str) -> Event {
    decode(payload, Unfamiliar::Refuse).unwrap()
}

/// Returns a view of a system prompt and this number of user messages, with or without a condensation request.
fn view(messages: usize, request: bool) -> View {
    let mut events = vec![event(
        r#"{"id":"s","timestamp":"t","source":"agent","system_prompt":{"type":"text","text":"Be good."},"tools":[],"kind":"SystemPromptEvent"}"#,
    )];
    for number in 0..messages {
        events.push(event(&format!(
            r#"{{"id":"m{number}","timestamp":"t","source":"user","llm_message":{{"role":"user","content":[{{"type":"text","text":"message {number}"}}]}},"kind":"MessageEvent"}}"#
        )));
    }
    if request {
        events
            .push(event(r#"{"id":"r","timestamp":"t","source":"environment","kind":"CondensationRequest"}"#));
    }
    View::live(&events)
}

async fn asked(model: &Scripted, settings: Condenser, view: &View) -> Condensed {
    let summarisers = [Summariser { settings, model: Arc::new(model.clone()) }];
    let common = Common::new(EventId::new("c").unwrap(), "t", crate::event::Source::Environment);
    let cancel = CancellationToken::new();
    let plans = plans(&summarisers, view, None);
    condense(&summarisers, plans, view, &common, &Aside::new(&cancel)).await
}

#[tokio::test]
async fn forgotten_events_are_replaced_by_their_summary() {
    let model = Scripted::new([Line::text(" USER_CONTEXT: much \n").id("resp-1")]);
    let view = view(7, false);
    let condensed = asked(&model, SETTINGS, &view).await;
    let event = condensed.event.unwrap().unwrap();
    assert_eq!(event.summary.as_deref(), Some("USER_CONTEXT: much"));
    assert_eq!((event.summary_offset, &*event.llm_response_id), (Some(1), "resp-1"));
    let forgotten: Vec<&str> = event.forgotten_event_ids.iter().map(|id| &**id).collect();
    assert_eq!(forgotten, ["m0", "m1", "m2", "m3", "m4", "m5"]);
    assert_eq!(condensed.replies.len(), 1);
    let request = &model.requests()[0];
    let text = request.messages[1].content[0].as_text().unwrap();
    assert!(text.starts_with("<EVENT>\nMessageEvent (user)\n  user: message 0\n</EVENT>\n"), "{text}");
    assert!(
        request.tools.is_empty()
            && request.messages[0].content[0].as_text().unwrap().contains("TASK_TRACKING")
    );
}

#[tokio::test]
async fn a_view_that_is_short_enough_is_kept_and_no_model_is_asked() {
    let model = Scripted::new([]);
    let condensed = asked(&model, SETTINGS, &view(5, false)).await;
    assert_eq!(condensed.event.unwrap(), None);
    assert!(model.requests().is_empty());
}

#[tokio::test]
async fn a_view_that_can_wait_is_kept_if_there_is_no_summary() {
    for answer in [Line::error(LlmError::RateLimit("slow".to_owned())), Line::text("  ")] {
        let model = Scripted::new([answer]);
        assert_eq!(asked(&model, SETTINGS, &view(7, false)).await.event.unwrap(), None);
        assert_eq!(model.requests().len(), 1);
    }
}

#[tokio::test]
async fn a_view_that_cannot_wait_is_reset_from_shorter_and_shorter_texts() {
    let long = || Line::error(LlmError::ContextWindowExceeded("too long".to_owned()));
    let model = Scripted::new([long(), long(), long(), Line::text("all of it")]);
    let view = view(7, true);
    let event = asked(&model, SETTINGS, &view).await.event.unwrap().unwrap();
    assert_eq!((event.summary_offset, event.forgotten_event_ids.len()), (Some(1), 7));
    let lengths: Vec<usize> = model
        .requests()
        .iter()
        .map(|request| request.messages[1].content[0].as_text().unwrap().chars().count())
        .collect();
    // The first request has the planned range. The others have all events: whole, cut to a half, cut to a quarter.
    assert!(lengths[0] < lengths[1] && lengths[2] < lengths[1] && lengths[3] < lengths[2], "{lengths:?}");
}

#[tokio::test]
async fn a_reset_that_fails_reports_the_first_error() {
    let failure = |text: &str| Line::error(LlmError::ServiceUnavailable(text.to_owned()));
    let model = Scripted::new([failure("one"), failure("two"), failure("three"), failure("four")]);
    let error = asked(&model, SETTINGS, &view(7, true)).await.event.unwrap_err();
    assert_eq!(error.to_string(), "Summarization LLM call failed: one");
    assert_eq!((error.code(), model.requests().len()), ("NoCondensationAvailableException", 4));
    let error = asked(&model, SETTINGS, &view(0, true)).await.event.unwrap_err();
    assert_eq!(error, CondenseError::Impossible);
}

#[tokio::test]
async fn a_condensation_ends_when_the_caller_cancels_it() {
    let model = Scripted::new([Line::error(LlmError::Cancelled)]);
    assert_eq!(asked(&model, SETTINGS, &view(7, true)).await.event.unwrap_err(), CondenseError::Cancelled);
    assert_eq!(model.requests().len(), 1);
}

#[tokio::test]
async fn an_earlier_summary_and_the_calls_are_shown_whole() {
    let summary = "S".repeat(2_000);
    let payload = format!(
        r#"{{"id":"x","timestamp":"t","source":"environment","summary":"{summary}","kind":"CondensationSummaryEvent"}}"#
    );
    assert!(words::text(&event(&payload)).contains(&summary));
    let action = event(
        r#"{"id":"a","timestamp":"t","source":"agent","thought":[{"type":"text","text":"Hm"}],"tool_name":"terminal","tool_call_id":"c","tool_call":{"id":"c","name":"terminal","arguments":"{\"command\":\"ls\"}","origin":"completion"},"llm_response_id":"r","kind":"ActionEvent"}"#,
    );
    let text = words::text(&action);
    assert_eq!(
        text,
        "ActionEvent (agent)\n  Thought: Hm\n  Action: (not executed)\n  Call: terminal {\"command\":\"ls\"}"
    );
}
