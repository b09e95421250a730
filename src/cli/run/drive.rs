//! Runs an agent for a user at the terminal: handles Ctrl-C, asks for consent, and prints how the run ended.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;

use super::screen::Screen;
use super::{Trouble, Way, consent};
use crate::cli::print::{Output, count, plural, span};
use crate::cli::signals::EndSignals;
use crate::cli::{DONE, FAILED, REFUSED};
use crate::conversation::{AnyConversation, ConversationError};
use crate::llm::LlmError;
use crate::remote::RemoteError;
use crate::state::{Bill, ExecutionStatus, Stats};

/// How often the status line is redrawn.
const TICK: Duration = Duration::from_millis(120);

/// The user's answer to a question for consent.
pub(super) enum Answer {
    Yes,
    /// Yes, and later actions need no consent.
    Always,
    No(String),
    /// The user decides later.
    Later,
    /// The question was answered elsewhere in the meantime.
    Elsewhere,
}

/// Runs the agent until it has finished or needs an answer that no user gives. Then prints how the run ended.
///
/// If actions wait already, the user is first asked about them, unless `consented`.
pub(super) async fn drive(
    way: &Way,
    conversation: &AnyConversation,
    screen: &Arc<Screen>,
    output: &Output,
    mut consented: bool,
) -> Result<u8, Trouble> {
    // Caught before anything is shown that could lead to one.
    let mut end = EndSignals::caught()
        .map_err(|error| Trouble::refused(format!("signals cannot be caught: {error}")))?;
    let (begun, before) = (Instant::now(), conversation.stats().await?);
    let is_asked = consent::can_ask(output);
    let outcome = loop {
        let waits = conversation.status() == ExecutionStatus::WaitingForConfirmation;
        let ended = if waits && !std::mem::take(&mut consented) {
            Ok(ExecutionStatus::WaitingForConfirmation)
        } else {
            run_once(conversation, screen, &mut end).await
        };
        if !matches!(ended, Ok(ExecutionStatus::WaitingForConfirmation)) || !is_asked {
            break ended;
        }
        match consent::ask(conversation, screen, &mut end).await? {
            Answer::Yes => consented = true,
            Answer::Always => {
                conversation.set_confirmation_policy(crate::agent::Policy::Never).await?;
                consented = true;
            }
            Answer::No(reason) => {
                conversation.reject_pending_actions(&reason).await?;
            }
            Answer::Later | Answer::Elsewhere => break Ok(conversation.status()),
        }
    };
    let closed = conversation.close().await;
    let status = match outcome {
        Ok(status) => status,
        // The event has already reported the error.
        Err(ConversationError::Run { .. }) => ExecutionStatus::Error,
        Err(error) => return Err(error.into()),
    };
    closed?;
    let stats = conversation.stats().await?;
    let (after, bill) = (stats.combined(), stats.bill());
    if output.json {
        let usage = &after.accumulated_token_usage;
        output.value(&json!({
            "conversation": conversation.id().as_str(),
            "status": status.as_str(),
            "events": conversation.snapshot().event_count,
            "cost": bill.cost,
            "estimated_cost": bill.estimated_cost,
            "tokens_without_cost": bill.tokens_without_cost,
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
        }))?;
    } else {
        print_summary(way, conversation, screen, status, (&before, &stats), begun.elapsed());
    }
    Ok(match status {
        ExecutionStatus::Finished => DONE,
        ExecutionStatus::Error => FAILED,
        ExecutionStatus::Idle
        | ExecutionStatus::Running
        | ExecutionStatus::Paused
        | ExecutionStatus::WaitingForConfirmation
        | ExecutionStatus::Stuck
        | ExecutionStatus::Deleting => REFUSED,
    })
}

/// Runs the conversation once. The first Ctrl-C pauses the run, the second one interrupts it. While a failed call waits for
/// its next try, the first one interrupts it: the step could take minutes.
async fn run_once(
    conversation: &AnyConversation,
    screen: &Arc<Screen>,
    end: &mut EndSignals,
) -> Result<ExecutionStatus, ConversationError> {
    let run = conversation.run();
    tokio::pin!(run);
    let mut ticks = tokio::time::interval(TICK);
    let mut pausing: Option<tokio::task::JoinHandle<_>> = None;
    screen.wait_for("the model is asked");
    let outcome = loop {
        tokio::select! {
            outcome = &mut run => break outcome,
            _ = ticks.tick() => screen.tick(),
            () = end.next() => {
                let conversation = conversation.clone();
                if pausing.is_some() || screen.is_retrying() {
                    screen.note("interrupting");
                    // The interrupt replaces a pause that has not taken effect yet.
                    if let Some(pausing) = &pausing {
                        pausing.abort();
                    }
                    tokio::spawn(async move { conversation.interrupt().await });
                } else {
                    screen.note("pausing after this step; Ctrl-C again interrupts it");
                    pausing = Some(tokio::spawn(async move { conversation.pause().await }));
                }
            }
        }
    };
    screen.rest();
    outcome
}

/// Prints how the run ended, what it cost, and which command continues it.
fn print_summary(
    way: &Way,
    conversation: &AnyConversation,
    screen: &Screen,
    status: ExecutionStatus,
    (before, after): (&Stats, &Stats),
    took: Duration,
) {
    let (was, is) = (before.bill(), after.bill());
    let (before, after) = (before.combined(), after.combined());
    let (old, new) = (&before.accumulated_token_usage, &after.accumulated_token_usage);
    let calls = after.calls().saturating_sub(before.calls()) as u64;
    let tokens = |old: u64, new: u64| count(new.saturating_sub(old));
    // Without a call there is nothing to pay.
    let new_cost = if calls == 0 { Bill::known(0.0) } else { is.since(was) };
    let mut cost = new_cost.in_words_with(dollars);
    if new_cost.cost.is_none() && new_cost.estimated_cost.is_none() {
        cost = "cost unknown".to_owned();
    }
    if was.cost.unwrap_or(0.0) > 0.0 || was.estimated_cost.is_some() {
        cost = format!("{cost}, {} in all", is.in_words_with(dollars));
    }
    let took = span(i64::try_from(took.as_micros()).unwrap_or(i64::MAX));
    let how = match status {
        ExecutionStatus::Finished => "finished",
        ExecutionStatus::Error => "failed",
        ExecutionStatus::Paused => "paused",
        ExecutionStatus::Stuck => "stuck: the agent went in circles",
        ExecutionStatus::WaitingForConfirmation => "waiting for your consent",
        ExecutionStatus::Idle | ExecutionStatus::Running | ExecutionStatus::Deleting => status.as_str(),
    };
    screen.line(&format!(
        "\n{} · {} · {} tokens in, {} out · {cost} · {took}",
        screen.bold(how),
        plural(calls, "model call"),
        tokens(old.prompt_tokens, new.prompt_tokens),
        tokens(old.completion_tokens, new.completion_tokens),
    ));
    let id = conversation.id();
    let next = match status {
        ExecutionStatus::WaitingForConfirmation => {
            format!("{}, or: {}", way.to(&format!("approve {id}")), way.to(&format!("reject {id}")))
        }
        ExecutionStatus::Finished | ExecutionStatus::Idle => way.to_resume_with_message(id),
        ExecutionStatus::Error
        | ExecutionStatus::Paused
        | ExecutionStatus::Stuck
        | ExecutionStatus::Running
        | ExecutionStatus::Deleting => way.to_resume(id),
    };
    screen.line(&screen.dim(&format!("go on with: {next}")));
}

/// Formats a sum of money. A sum below one cent gets four decimals.
fn dollars(sum: f64) -> String {
    if sum == 0.0 || sum >= 0.01 { format!("${sum:.2}") } else { format!("${sum:.4}") }
}

/// Returns what the user can do about an error. `None` if there is no hint for it.
pub(super) fn hint(error: &ConversationError, way: &Way) -> Option<String> {
    Some(match error {
        ConversationError::Running { conversation } if way.is_remote() => {
            format!("stop it with `{}`", way.to(&format!("pause {conversation}")))
        }
        ConversationError::Running { conversation } => format!(
            "another process runs it: watch it with `{}`, stop it with `{}`",
            way.to(&format!("tail {conversation}")),
            way.to(&format!("pause {conversation}")),
        ),
        ConversationError::Model(LlmError::Authentication(_)) => {
            "give the key in LLM_API_KEY, or in the provider's own variable".to_owned()
        }
        ConversationError::Remote(RemoteError::Key { .. }) => {
            "name the variable that holds the server's key: --api-key VARIABLE".to_owned()
        }
        ConversationError::NoAgent => {
            "it was never run here: an imported log has no agent that could continue it".to_owned()
        }
        _other => return None,
    })
}
