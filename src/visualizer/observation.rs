//! Draws what came back: results in the words of their tools, errors, rejections.

use super::Face;
use super::files::{self, Change};
use super::page::{Page, decoded_bytes, size};
use super::style::{Colour, Line, Style};
use crate::event::tool::{TaskItem, TaskStatus, TerminalObservation, WorkflowStatus};
use crate::event::{
    AgentErrorEvent, Content, ErrorClassification, FailureKind, Observation, ObservationEvent,
    RejectionSource, UserAction, UserRejectObservation,
};
use crate::json::Raw;

/// The longest output that a model receives whole. Of longer output it receives both ends
/// (`docs/reference/tools.md#terminal`).
const SENT_BYTES_MAX: usize = 30_000;

pub(super) fn observation(event: &ObservationEvent, page: &mut Page) -> Face {
    let (content, is_error) = event.observation.content();
    if is_error {
        page.line(Line::new("✗ error", Style::BOLD.in_colour(Colour::Red)));
    }
    let form = match &event.observation {
        // Their text was already shown with the action.
        Observation::Think(_) if !is_error => Face::remark,
        Observation::Finish(_) if !is_error => Face::remark,
        Observation::Think(_) | Observation::Finish(_) => {
            page.content(&content, Style::PLAIN);
            Face::block
        }
        special => {
            if !result(special, page) && !page.content(&content, Style::PLAIN) {
                page.line(Line::new("[no text]", Style::DIM));
            }
            Face::block
        }
    };
    let added: Vec<&str> = event.extended_content.iter().map(|part| &*part.text).collect();
    page.section("Added by the agent's context", &added.join("\n"), Style::DIM);
    form("Observation".to_owned(), Colour::Yellow).of(&event.tool_name)
}

/// Adds a result in the words of its tool. Returns whether this is complete, so that the text for the model need not
/// be repeated.
fn result(observation: &Observation, page: &mut Page) -> bool {
    match observation {
        Observation::Terminal(result) => {
            terminal(result, page);
            true
        }
        Observation::FileEditor(result) => !result.is_error && Change::from(result).draw(page),
        Observation::PlanningFileEditor(result) => !result.is_error && Change::from(result).draw(page),
        Observation::WriteFile(result) => {
            let path = result.file_path.as_deref().unwrap_or_default();
            let old = result.old_content.as_deref().filter(|_| !result.is_new_file);
            !result.is_error && Change { path, old, new: result.new_content.as_deref() }.draw(page)
        }
        Observation::Edit(result) => {
            let path = result.file_path.as_deref().unwrap_or_default();
            let old = result.old_content.as_deref().filter(|_| !result.is_new_file);
            !result.is_error && Change { path, old, new: result.new_content.as_deref() }.draw(page)
        }
        Observation::ApplyPatch(result) => {
            page.field("Message", &result.message, Style::PLAIN);
            let Some(commit) = result.commit.as_ref().filter(|_| !result.is_error) else { return false };
            files::commit(commit, page);
            !commit.changes.0.is_empty()
        }
        Observation::TaskTracker(result) => {
            tasks(&result.task_list, page);
            !result.is_error
        }
        Observation::Glob(result) => {
            found(&result.files, result.truncated, page);
            !result.is_error
        }
        Observation::Grep(result) => {
            found(&result.matches, result.truncated, page);
            !result.is_error
        }
        Observation::ListDirectory(result) => {
            let entries = result.entries.iter().map(|entry| {
                let bytes = usize::try_from(entry.size).unwrap_or(0);
                (&*entry.path, if entry.is_directory { "folder".into() } else { size(bytes) })
            });
            files::names(entries, page);
            if result.is_truncated {
                page.line(Line::new(format!("{} in all", result.total_count), Style::DIM));
            }
            !result.is_error && !result.entries.is_empty()
        }
        Observation::Browser(result) => {
            page.content(&result.content, Style::PLAIN);
            if let Some(picture) = &result.screenshot_data {
                let bytes = size(decoded_bytes(picture));
                page.line(Line::new(format!("[screenshot, {bytes}]"), Colour::Magenta));
            }
            !result.content.is_empty() || result.screenshot_data.is_some()
        }
        Observation::Task(result) => {
            status(&format!("{} {}", result.subagent, result.task_id), &result.status, page);
            false
        }
        Observation::Workflow(result) => {
            status(&result.name, result.status.as_str(), page);
            result.content.is_empty() && result.status == WorkflowStatus::Completed
        }
        Observation::StartChildConversation(result) => {
            let id = result.conversation_id.as_deref().unwrap_or("no conversation");
            status(id, result.status.as_deref().unwrap_or("no status"), page);
            page.field("Title", result.title.as_deref().unwrap_or_default(), Style::PLAIN);
            page.field("Works in", result.workspace.as_deref().unwrap_or_default(), Style::PLAIN);
            page.field("Address", result.url.as_deref().unwrap_or_default(), Style::PLAIN);
            false
        }
        Observation::SwitchLlm(result) => {
            let model = result.active_model.as_deref().unwrap_or("unknown model");
            status(&result.profile_name, model, page);
            page.field("Reason", result.reason.as_deref().unwrap_or_default(), Style::PLAIN);
            !result.is_error
        }
        Observation::ClassifyAndSwitchLlm(result) => {
            page.field("Class", result.chosen_class.as_deref().unwrap_or_default(), Style::PLAIN);
            page.field("Profile", result.model.as_deref().unwrap_or_default(), Style::PLAIN);
            page.field("Model", result.active_model.as_deref().unwrap_or_default(), Style::PLAIN);
            !result.is_error && result.model.is_some()
        }
        Observation::VisionInspect(result) => {
            page.field("Question", &result.question, Style::DIM);
            page.field("Model", result.model.as_deref().unwrap_or_default(), Style::DIM);
            page.text(result.answer.as_deref().unwrap_or_default(), Style::PLAIN);
            !result.is_error && result.answer.is_some()
        }
        Observation::ConsultTom(result) => {
            if let Some(confidence) = result.confidence {
                page.field("Sure", &format!("{:.0}%", confidence * 100.0), Style::PLAIN);
            }
            page.text(&result.suggestions, Style::PLAIN);
            page.section("Because", result.reasoning.as_deref().unwrap_or_default(), Style::DIM);
            !result.suggestions.is_empty()
        }
        Observation::SleeptimeCompute(result) => {
            page.field("Conversations studied", &result.sessions_processed.to_string(), Style::PLAIN);
            page.text(&result.message, Style::PLAIN);
            !result.message.is_empty()
        }
        Observation::InvokeSkill(result) => {
            page.field("Skill", &result.skill_name, Style::PLAIN);
            false
        }
        Observation::Unknown(result) if !result.json().raw().get("content").is_some_and(Raw::is_array) => {
            page.members(result.json().raw(), &["kind", "is_error"]);
            true
        }
        Observation::Mcp(_)
        | Observation::Client(_)
        | Observation::ReadFile(_)
        | Observation::Delegate(_)
        | Observation::AskOracle(_)
        | Observation::Think(_)
        | Observation::Finish(_)
        | Observation::Unknown(_) => false,
    }
}

/// Adds what a command printed, where it ran and how it ended.
fn terminal(result: &TerminalObservation, page: &mut Page) {
    page.text(&result.metadata.prefix, Style::DIM);
    for part in &result.content {
        match part.as_text() {
            Some(text) => {
                // A progress bar overwrites its line. Each of its states becomes a line here.
                let text = text.replace("\r\n", "\n").replace('\r', "\n");
                page.text_by_line(&text, |_, line| Line::new(line, warning(line)));
            }
            None => {
                page.content(std::slice::from_ref(part), Style::PLAIN);
            }
        }
    }
    let code = result.exit_code.unwrap_or(result.metadata.exit_code);
    // If the command ended, the line below shows what the suffix says.
    if code == -1 || result.timeout {
        page.text(result.metadata.suffix.trim(), Style::from(Colour::Yellow));
    }
    let (end, colour) = match code {
        0 => ("exit 0".to_owned(), Colour::Green),
        -1 => ("still running".to_owned(), Colour::Yellow),
        code => (format!("exit {code}"), Colour::Red),
    };
    let mut line = Line::new(end, colour);
    if let Some(folder) = &result.metadata.working_dir {
        line = line.with(format!(" in {folder}"), Style::DIM);
    }
    let sent: usize = result.content.iter().filter_map(Content::as_text).map(str::len).sum();
    if let Some(folder) = result.full_output_save_dir.as_ref().filter(|_| sent > SENT_BYTES_MAX) {
        line = line.with(format!(", all of it in {folder}"), Style::DIM);
    }
    page.line(line);
}

/// Returns the style of a line of output: coloured if it mentions errors or warnings, or is a traced command.
fn warning(line: &str) -> Style {
    let lower = line.to_lowercase();
    if ["error", "failed", "exception", "traceback"].iter().any(|word| lower.contains(word)) {
        Colour::Red.into()
    } else if lower.contains("warn") {
        Colour::Yellow.into()
    } else if line.starts_with("+ ") {
        Colour::Cyan.into()
    } else {
        Style::PLAIN
    }
}

/// Adds a check list.
fn tasks(tasks: &[TaskItem], page: &mut Page) {
    if tasks.is_empty() {
        page.line(Line::new("[no tasks]", Style::DIM));
    }
    for task in tasks {
        page.line(task_line(&task.title, &task.status));
        for note in task.notes.lines() {
            page.line(Line::new(format!("    {note}"), Style::DIM.in_italics()));
        }
    }
}

/// Returns the mark of a task's status, followed by the title as it is.
#[must_use]
pub fn task_line(title: &str, status: &TaskStatus) -> Line {
    let (mark, colour, style) = match status {
        TaskStatus::Done => ("[x] ", Colour::Green, Style::DIM),
        TaskStatus::InProgress => ("[>] ", Colour::Yellow, Style::BOLD),
        TaskStatus::Todo => ("[ ] ", Colour::Blue, Style::PLAIN),
        TaskStatus::Other(_) => ("[?] ", Colour::Magenta, Style::PLAIN),
    };
    Line::new(mark, colour).with(title, style)
}

/// Adds files that a search found.
fn found(files: &[crate::event::Text], truncated: bool, page: &mut Page) {
    files::names(files.iter().map(|file| (&**file, String::new())), page);
    let count = match (files.len(), truncated) {
        (0, _) => "nothing found".to_owned(),
        (number, true) => format!("{number} found, and more"),
        (number, false) => format!("{number} found"),
    };
    page.line(Line::new(count, Style::DIM));
}

fn status(name: &str, status: &str, page: &mut Page) {
    page.line(Line::new(name, Style::BOLD).with(format!("  {status}"), Style::DIM));
}

pub(super) fn rejection(event: &UserRejectObservation, page: &mut Page) -> Face {
    page.text(&event.rejection_reason, Style::PLAIN);
    let title = match event.rejection_source {
        RejectionSource::User | RejectionSource::Other(_) => "User Rejected Action",
        RejectionSource::Hook => "Hook Rejected Action",
    };
    Face::block(title, Colour::Red).of(&event.tool_name)
}

pub(super) fn agent_error(event: &AgentErrorEvent, page: &mut Page) -> Face {
    page.text(&event.error, Style::from(Colour::Red));
    classification(&event.classification, page);
    Face::block("Agent Error", Colour::Red).of(&event.tool_name).with_metrics()
}

/// Adds the kind of a failure and what can be done, if they are known.
pub(super) fn classification(failure: &ErrorClassification, page: &mut Page) {
    let mut words = Vec::new();
    if failure.kind != FailureKind::Unknown {
        words.push(failure.kind.as_str().replace('_', " "));
    }
    if failure.retryable {
        words.push("may be tried again".to_owned());
    }
    match &failure.user_action {
        UserAction::None | UserAction::Retry => {}
        UserAction::Settings => words.push("needs another setting".to_owned()),
        UserAction::Other(word) => words.push(word.to_string()),
    }
    if let Some(id) = &failure.error_id {
        words.push(format!("known as {id}"));
    }
    if !words.is_empty() {
        page.line(Line::new(words.join(" · "), Style::DIM));
    }
}
