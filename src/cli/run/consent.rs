//! Asks the user whether actions may be carried out.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::time::Duration;

use tokio::sync::oneshot;

use super::Trouble;
use super::drive::Answer;
use super::screen::Screen;
use crate::cli::print::{Output, one_line, width};
use crate::cli::signals::EndSignals;
use crate::conversation::AnyConversation;
use crate::event::Risk;
use crate::state::ExecutionStatus;

/// The reason that the agent receives if the user gives none.
const NO_REASON: &str = "User rejected the action";

/// How often the program checks whether the question was answered elsewhere.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Returns whether a user can be asked on the terminal.
pub(super) fn can_ask(output: &Output) -> bool {
    output.is_terminal && !output.json && std::io::stdin().is_terminal()
}

/// Asks whether the waiting actions may be carried out.
pub(super) async fn ask(
    conversation: &AnyConversation,
    screen: &Screen,
    end: &mut EndSignals,
) -> Result<Answer, Trouble> {
    let waiting = conversation.pending_actions().await?;
    let risks = [(Risk::High, "high"), (Risk::Medium, "medium"), (Risk::Low, "low")];
    screen.line("");
    for action in &waiting {
        let risk = risks.iter().find(|(risk, _)| *risk == action.security_risk);
        let risk = risk.map_or_else(|| "unknown risk".to_owned(), |(_, name)| format!("{name} risk"));
        let summary = action.summary.as_deref().unwrap_or_default();
        let text = one_line(&format!("{} ({risk}) {summary}", action.tool_name), usize::from(width()) - 4);
        screen.line(&format!("  ? {}", screen.bold(&text)));
    }
    let these = if waiting.len() == 1 { "this".to_owned() } else { format!("these {}", waiting.len()) };
    loop {
        let question = format!("Allow {these}? [y]es  [n]o  [a]lways, from now on  [l]ater: ");
        let answer = match typed(&question, conversation, end).await {
            Typed::Line(answer) => answer,
            Typed::Nothing => return Ok(Answer::Later),
            Typed::Elsewhere => {
                screen.line("\nthis was answered elsewhere");
                return Ok(Answer::Elsewhere);
            }
        };
        match answer.trim().to_lowercase().as_str() {
            "y" | "yes" => return Ok(Answer::Yes),
            "a" | "always" => return Ok(Answer::Always),
            "l" | "later" => return Ok(Answer::Later),
            "n" | "no" => break,
            other => {
                // Several words are a rejection with its reason.
                if other.split_whitespace().nth(1).is_some() {
                    return Ok(Answer::No(answer.trim().to_owned()));
                }
            }
        }
    }
    Ok(match typed("Why not? (Enter: no reason) ", conversation, end).await {
        Typed::Line(reason) if !reason.trim().is_empty() => Answer::No(reason.trim().to_owned()),
        Typed::Line(_) => Answer::No(NO_REASON.to_owned()),
        Typed::Nothing => Answer::Later,
        Typed::Elsewhere => Answer::Elsewhere,
    })
}

/// What the user typed.
enum Typed {
    Line(String),
    /// Nothing: the input ended, or the user pressed Ctrl-C.
    Nothing,
    /// No answer is needed any more, because the question was answered elsewhere.
    Elsewhere,
}

/// Asks for a line. The reading thread may still wait for input afterwards; the program ends without it.
async fn typed(question: &str, conversation: &AnyConversation, end: &mut EndSignals) -> Typed {
    let mut out = std::io::stdout();
    let _ignored = out.write_all(question.as_bytes()).and_then(|()| out.flush());
    let (sender, mut receiver) = oneshot::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = std::io::stdin().lock().read_line(&mut line);
        let _ignored = sender.send(read.ok().filter(|bytes| *bytes > 0).map(|_| line));
    });
    let mut checks = tokio::time::interval(CHECK_INTERVAL);
    loop {
        tokio::select! {
            line = &mut receiver => return line.ok().flatten().map_or(Typed::Nothing, Typed::Line),
            () = end.next() => {
                let _ignored = out.write_all(b"\n");
                return Typed::Nothing;
            }
            _ = checks.tick() => {
                let waiting = conversation.pending_actions().await;
                let waits = conversation.status() == ExecutionStatus::WaitingForConfirmation;
                if waiting.is_ok_and(|waiting| waiting.is_empty()) || !waits {
                    return Typed::Elsewhere;
                }
            }
        }
    }
}
