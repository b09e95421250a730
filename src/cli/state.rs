//! `annals state`: prints the state that a conversation had at any point.

use clap::Args;
use serde_json::Value;

use super::print::{Output, count, harmless, one_line, plural, width};
use super::select::At;
use super::{DONE, Place, alive};
use crate::error::Result;
use crate::replay::Moment;
use crate::state::Bill;

/// Show the state: status, steps, branch, open actions, tasks, tokens and cost, final response
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals state 5610a7
  annals state 5610a7 --at 20
  annals --json state 5610a7 --at 2026-01-31T12:00:00")]
pub(super) struct Arguments {
    #[command(flatten)]
    pub moment: At,
    /// With --json, leave out active_branch_ids, which is as long as the branch
    #[arg(long)]
    pub brief: bool,
}

pub(super) fn run(place: &Place<'_>, command: &Arguments, output: &Output) -> Result<u8> {
    let store = place.read()?;
    let id = store.resolve(&command.moment.id)?;
    let moment = Moment::new(&store, &id, command.moment.point(&store, &id)?)?;
    let mut value =
        if output.json && !command.brief { moment.state_value()? } else { moment.brief_state_value()? };
    let is_last_known = moment.is_end() && alive::is_last_known(&store, moment.conversation());
    value["is_last_known"] = is_last_known.into();
    if output.json {
        output.value(&value)?;
    } else {
        let status = is_last_known.then(|| alive::status(&store, moment.conversation()));
        print(&moment, &value, status, output)?;
    }
    Ok(DONE)
}

/// Prints the state. `status` is the status in words, if it is not the state's own.
fn print(moment: &Moment<'_>, value: &Value, status: Option<String>, output: &Output) -> Result<()> {
    let line = |name: &str, text: String| {
        let room = usize::from(width()).saturating_sub(20).max(40);
        output.line(format!("{}{}", output.dim(&format!("{name:<20}")), one_line(&text, room)))
    };
    let text = |name: &str| value[name].as_str().unwrap_or("-").to_owned();
    let length = moment.length();
    line("conversation", text("conversation_id"))?;
    line(
        "as of",
        match (moment.is_end(), length) {
            (true, _) => format!("the end, {}", plural(length, "event")),
            (false, 0) => "the beginning".into(),
            (false, _) => format!("event {} of {}", length - 1, moment.conversation().event_count),
        },
    )?;
    line("status", status.unwrap_or_else(|| text("execution_status")))?;
    if value["is_stuck"] == true {
        line("in circles", text("stuck_pattern"))?;
    }
    line("steps", value["iteration"].to_string())?;
    line("head", value["resolved_active_leaf"].as_str().unwrap_or("before everything").to_owned())?;
    line("branch", plural(value["branch_event_count"].as_u64().unwrap_or(0), "event"))?;
    line("last user message", text("last_user_message_in_log"))?;
    let combined = &value["stats"]["combined"];
    let bill = Bill {
        cost: value["cost"].as_f64(),
        estimated_cost: value["estimated_cost"].as_f64(),
        tokens_without_cost: value["tokens_without_cost"].as_u64().unwrap_or(0),
    };
    let tokens = |name: &str| count(combined["accumulated_token_usage"][name].as_u64().unwrap_or(0));
    line(
        "tokens and cost",
        format!(
            "{} sent, {} received, {}",
            tokens("prompt_tokens"),
            tokens("completion_tokens"),
            bill.in_words()
        ),
    )?;
    for id in value["unmatched_action_ids"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        line("waits for an answer", id.to_owned())?;
    }
    for task in value["task_list"].as_array().into_iter().flatten() {
        let mark = match task["status"].as_str() {
            Some("done") => "[x]",
            Some("in_progress") => "[>]",
            _ => "[ ]",
        };
        line("task", format!("{mark} {}", task["title"].as_str().unwrap_or_default()))?;
    }
    let answer = value["agent_final_response"].as_str().unwrap_or_default();
    if !answer.is_empty() {
        output.line(format!("{}\n{}", output.dim("final response"), harmless(answer)))?;
    }
    Ok(())
}
