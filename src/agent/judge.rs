//! The judge of a goal: a model reads the transcript and gives a verdict on whether the goal is reached. It serves
//! `POST /api/conversations/{id}/goal` and the goals of a host's own conversations.
//!
//! Source: `openhands.sdk.conversation.goal` 1.58, for the shape of question, verdict and messages.

use super::aside::{Aside, put, text};
use crate::event::{Content, Event, Role};
use crate::llm::{LlmError, Model, Reply};
use crate::message::{MessageError, messages};

const SYSTEM: &str = "You check whether a software agent has reached a GOAL.\n\n\
    List for yourself what the objective demands. For EACH demand look for proof in the transcript: contents of files, \
    outputs of commands, results of tests that the agent produced. What is missing, unsure or only claimed is NOT \
    reached.\n\n\
    Answer with one JSON object and nothing else, in exactly this shape:\n\
    {\"score\": <number from 0.0 to 1.0: how sure it is that the WHOLE objective is proven>, \"complete\": <true or \
    false>, \"missing\": \"<what is left, in short; empty if nothing>\"}";

/// The judge's verdict.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Verdict {
    /// The judge's confidence that the whole objective is reached, from 0 to 1.
    pub score: f64,
    /// Whether the objective is reached.
    pub complete: bool,
    /// The remaining work. Empty if there is none.
    pub missing: String,
}

/// Asks the model whether `objective` is reached according to `transcript`. An unreadable verdict means that it is not.
///
/// # Errors
/// [`LlmError`] if the model gives no answer.
pub async fn judge(
    model: &dyn Model,
    objective: &str,
    transcript: &str,
    aside: &Aside<'_>,
) -> Result<(Verdict, Reply), LlmError> {
    let user = format!("<objective>\n{objective}\n</objective>\n\n<transcript>\n{transcript}\n</transcript>");
    let reply = put(model, SYSTEM, user, aside).await?;
    Ok((verdict(text(&reply)), reply))
}

/// Returns the messages without the system prompt, one paragraph for each message: `user: text`.
///
/// # Errors
/// [`MessageError`] if the events cannot be turned into messages.
pub fn transcript(events: &[Event]) -> Result<String, MessageError> {
    let messages = messages(events)?;
    let paragraphs = messages.iter().filter(|message| message.role != Role::System).filter_map(|message| {
        let parts: Vec<String> = message.content.iter().map(part).collect();
        let text = parts.join("\n");
        let text = text.trim();
        (!text.is_empty()).then(|| format!("{}: {text}", message.role.as_str()))
    });
    Ok(paragraphs.collect::<Vec<_>>().join("\n\n"))
}

fn part(part: &Content) -> String {
    match part {
        Content::Text(text) => text.text.to_string(),
        Content::Image(image) => format!("[Image: {} URLs]", image.image_urls.len()),
        Content::Unknown(_) => String::new(),
    }
}

/// Reads the verdict from the judge's answer. Any text around the JSON object is ignored.
#[must_use]
pub fn verdict(answer: &str) -> Verdict {
    let answer = answer.trim();
    let inside = answer.find('{').zip(answer.rfind('}')).filter(|(start, end)| start < end);
    let inside = inside.map(|(start, end)| &answer[start..=end]);
    let object = [Some(answer), inside]
        .into_iter()
        .flatten()
        .find_map(|text| serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(text).ok());
    let Some(object) = object else {
        let missing = "Judge verdict could not be parsed.".to_owned();
        return Verdict { score: 0.0, complete: false, missing };
    };
    let number =
        object.get("score").and_then(|score| score.as_f64().or_else(|| score.as_str()?.parse().ok()));
    let score = number.filter(|score| !score.is_nan()).unwrap_or(0.0).clamp(0.0, 1.0);
    let complete = object.get("complete").map_or(score >= 1.0, |complete| complete == true);
    let missing = object.get("missing").and_then(|missing| missing.as_str()).unwrap_or_default().to_owned();
    Verdict { score, complete, missing }
}

/// Returns the message to the agent after a verdict that the goal is not reached. `round` counts the verdicts, from 1.
#[must_use]
pub fn follow_up(round: u64, missing: &str) -> String {
    format!(
        "The goal is NOT reached yet (audit iteration {round}).\nOutstanding: {missing}\n\n\
         Look at the workspace as it really is; do not rely on memory. Make progress with each thing that is left, and \
         prove it by running the tests or commands that show it. Keep to the whole objective, and finish only when all \
         of it is proven."
    )
}

/// Returns the message to the agent for a goal that is resumed after a pause or an interruption.
#[must_use]
pub fn resume() -> &'static str {
    "A goal that was paused or interrupted is taken up again. Look at the workspace as it really is; do not rely on \
     memory. Go on towards the objective in steps that are proven, and finish only when all of it is."
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::llm::scripted::{Line, Scripted};

    fn found(score: f64, complete: bool, missing: &str) -> Verdict {
        Verdict { score, complete, missing: missing.to_owned() }
    }

    #[test]
    fn a_verdict_is_read_from_the_text_around_it() {
        for (answer, expected) in [
            (r#"{"score": 0.4, "complete": false, "missing": "tests"}"#, found(0.4, false, "tests")),
            ("Sure:\n```json\n{\"score\": 1.0}\n```", found(1.0, true, "")),
            (r#"{"score": "7", "missing": null}"#, found(1.0, true, "")),
            (r#"{"score": -3, "complete": true}"#, found(0.0, true, "")),
            (r#"{"complete": "yes"}"#, found(0.0, false, "")),
            ("no", found(0.0, false, "Judge verdict could not be parsed.")),
            ("}{", found(0.0, false, "Judge verdict could not be parsed.")),
            ("[1]", found(0.0, false, "Judge verdict could not be parsed.")),
        ] {
            assert_eq!(verdict(answer), expected, "{answer}");
        }
    }

    #[tokio::test]
    async fn the_judge_is_shown_objective_and_transcript() {
        let model = Scripted::new([Line::text(r#"{"score":1,"complete":true,"missing":""}"#)]);
        let cancel = CancellationToken::new();
        let (found, _) = judge(&model, "win", "user: go", &Aside::new(&cancel)).await.unwrap();
        assert!(found.complete);
        let asked = model.requests();
        let text = asked[0].messages[1].content[0].as_text().unwrap();
        assert_eq!(text, "<objective>\nwin\n</objective>\n\n<transcript>\nuser: go\n</transcript>");
        assert!(follow_up(2, "tests").contains("iteration 2).\nOutstanding: tests"));
    }
}
