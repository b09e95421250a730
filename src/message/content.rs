//! A tool's answer as the model reads it.
//!
//! The content of most tools is used unchanged. A few tools have a format of their own
//! (`docs/reference/messages.md#answers-of-tools`).

use super::truncate::{Spilled, TERMINAL_CHARACTERS_MAX, TEXT_CHARACTERS_MAX, file_name, middle_out};
use crate::event::foreign::ForeignFormat;
use crate::event::tool::{
    BrowserObservation, ConsultTomObservation, SleeptimeComputeObservation, TaskObservation,
    TerminalObservation,
};
use crate::event::{Content, ImageContent, Observation, Text};

/// The text before an answer that reports a failure.
pub const ERROR_HEADER: &str = "[An error occurred during execution.]\n";

/// Returns the parts of a tool's answer, as the model reads them.
///
/// The files that the reference writes are assumed to exist, as they did when the model first read about them.
/// [`spilled`] returns the content of these files.
#[must_use]
pub fn content(observation: &Observation) -> Vec<Content> {
    match observation {
        Observation::Terminal(terminal) => with_header(terminal.is_error, [terminal_content(terminal)]),
        Observation::Browser(browser) => with_header(browser.is_error, browser_content(browser)),
        Observation::Task(task) => task_content(task),
        Observation::ConsultTom(tom) => vec![Content::text(tom_text(tom))],
        Observation::SleeptimeCompute(study) => vec![Content::text(study_text(study))],
        Observation::FileEditor(_)
        | Observation::PlanningFileEditor(_)
        | Observation::Think(_)
        | Observation::Finish(_)
        | Observation::TaskTracker(_)
        | Observation::InvokeSkill(_)
        | Observation::Mcp(_)
        | Observation::Client(_)
        | Observation::ReadFile(_)
        | Observation::WriteFile(_)
        | Observation::Edit(_)
        | Observation::ListDirectory(_)
        | Observation::ApplyPatch(_)
        | Observation::Glob(_)
        | Observation::Grep(_)
        | Observation::Delegate(_)
        | Observation::StartChildConversation(_)
        | Observation::Workflow(_)
        | Observation::AskOracle(_)
        | Observation::SwitchLlm(_)
        | Observation::ClassifyAndSwitchLlm(_)
        | Observation::VisionInspect(_)
        | Observation::Unknown(_) => {
            let (parts, is_error) = observation.content();
            // The model of a foreign program read only the content of the answer, without a header.
            let is_foreign = ForeignFormat::of_kind(observation.kind()).is_some();
            with_header(is_error && !is_foreign, parts.iter().cloned())
        }
    }
}

/// Returns the files that the model reads about, instead of a text that is too long or in addition to a picture.
#[must_use]
pub fn spilled(observation: &Observation) -> Vec<Spilled> {
    match observation {
        Observation::Terminal(terminal) => {
            let text = terminal_text(terminal);
            let folder = terminal.full_output_save_dir.as_deref();
            spilled_text(folder, "terminal", &text, TERMINAL_CHARACTERS_MAX).into_iter().collect()
        }
        Observation::Browser(browser) => {
            let text = text_of(&browser.content);
            let folder = browser.full_output_save_dir.as_deref();
            let text = spilled_text(folder, "browser", &text, TEXT_CHARACTERS_MAX);
            text.into_iter().chain(spilled_picture(browser)).collect()
        }
        _ => Vec::new(),
    }
}

fn with_header(is_error: bool, parts: impl IntoIterator<Item = Content>) -> Vec<Content> {
    is_error.then(|| Content::text(ERROR_HEADER)).into_iter().chain(parts).collect()
}

/// Returns the text of all parts, joined without a separator.
fn text_of(parts: &[Content]) -> Text {
    match parts {
        [Content::Text(only)] => only.text.clone(),
        parts => parts.iter().filter_map(Content::as_text).collect::<String>().into(),
    }
}

fn spilled_text(folder: Option<&str>, tool: &str, text: &Text, characters_max: usize) -> Option<Spilled> {
    let folder = folder.filter(|folder| !folder.is_empty())?;
    if text.len() <= characters_max || text.chars().count() <= characters_max {
        return None;
    }
    let path = file_name(folder, &format!("{tool}_output"), text, "txt");
    Some(Spilled { path, content: text.clone() })
}

/// Returns the text. If it is too long, its middle is left out.
fn shortened(folder: Option<&str>, tool: &str, text: &Text, characters_max: usize) -> Content {
    let file = spilled_text(folder, tool, text, characters_max);
    Content::text(middle_out(text, characters_max, file.as_ref().map(|file| file.path.as_str())))
}

fn terminal_content(terminal: &TerminalObservation) -> Content {
    let folder = terminal.full_output_save_dir.as_deref();
    shortened(folder, "terminal", &terminal_text(terminal), TERMINAL_CHARACTERS_MAX)
}

/// Returns the output with the shell's prefix and suffix, the folder, the Python interpreter and the exit code.
fn terminal_text(terminal: &TerminalObservation) -> Text {
    let metadata = &terminal.metadata;
    let mut text = format!("{}{}{}", metadata.prefix, text_of(&terminal.content), metadata.suffix);
    if let Some(folder) = metadata.working_dir.as_deref().filter(|folder| !folder.is_empty()) {
        text.push_str(&format!("\n[Current working directory: {folder}]"));
    }
    if let Some(python) = metadata.py_interpreter_path.as_deref().filter(|path| !path.is_empty()) {
        text.push_str(&format!("\n[Python interpreter: {python}]"));
    }
    if metadata.exit_code != -1 {
        text.push_str(&format!("\n[Command finished with exit code {}]", metadata.exit_code));
    }
    text.into()
}

fn browser_content(browser: &BrowserObservation) -> Vec<Content> {
    let text = text_of(&browser.content);
    let folder = browser.full_output_save_dir.as_deref();
    let mut parts = Vec::new();
    if !text.is_empty() {
        parts.push(shortened(folder, "browser", &text, TEXT_CHARACTERS_MAX));
    }
    if let Some(file) = spilled_picture(browser) {
        parts.push(Content::text(format!("Screenshot saved to: {}", file.path)));
    }
    if let Some(data) = browser.screenshot_data.as_deref().filter(|data| !data.is_empty()) {
        let url = format!("data:{};base64,{data}", media_type(data));
        parts.push(ImageContent::new(vec![url.into()]).into());
    }
    parts
}

fn spilled_picture(browser: &BrowserObservation) -> Option<Spilled> {
    let folder = browser.full_output_save_dir.as_deref().filter(|folder| !folder.is_empty())?;
    let data = browser.screenshot_data.as_ref().filter(|data| !data.is_empty() && is_base64(data))?;
    let extension = match media_type(data) {
        "image/jpeg" => "jpg",
        "image/gif" => "gif",
        "image/webp" => "webp",
        _ => "png",
    };
    let path = file_name(folder, "browser_screenshot", data, extension);
    Some(Spilled { path, content: data.clone() })
}

/// Returns the media type of a picture, judged by the beginning of its base64 form.
fn media_type(data: &str) -> &'static str {
    let beginnings = [
        ("/9j/", "image/jpeg"),
        ("iVBORw0KGgo", "image/png"),
        ("R0lGODlh", "image/gif"),
        ("UklGR", "image/webp"),
    ];
    let known = beginnings.iter().find(|(beginning, _)| data.starts_with(beginning));
    known.map_or("image/png", |(_, media_type)| media_type)
}

/// Returns whether Python's `b64decode` accepts the text: ASCII characters outside of base64 are ignored, and the
/// padding of the rest must be correct.
fn is_base64(data: &str) -> bool {
    let (mut digits, mut pads) = (0, 0);
    for byte in data.bytes() {
        match byte {
            b'=' if digits >= 2 => {
                pads += 1;
                if digits + pads >= 4 {
                    return true;
                }
            }
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' => {
                digits = (digits + 1) % 4;
                pads = 0;
            }
            0x80.. => return false,
            _ => {}
        }
    }
    digits == 0
}

fn task_content(task: &TaskObservation) -> Vec<Content> {
    let about = format!("Task ID: {}\nSubagent: {}\nStatus: {}", task.task_id, task.subagent, task.status);
    let mut parts = vec![Content::text(about)];
    parts.extend(with_header(task.is_error, task.content.iter().cloned()));
    parts
}

fn tom_text(tom: &ConsultTomObservation) -> String {
    if tom.suggestions.is_empty() {
        return "Tom agent did not provide suggestions.".to_owned();
    }
    let mut text = format!("Tom agent's guidance:\n{}", tom.suggestions);
    if let Some(reasoning) = tom.reasoning.as_deref().filter(|reasoning| !reasoning.is_empty()) {
        text.push_str(&format!("\n\nReasoning: {reasoning}"));
    }
    if let Some(confidence) = tom.confidence {
        let percent = format!("{:.0}", confidence * 100.0).to_lowercase();
        text.push_str(&format!("\n\nConfidence: {percent}%"));
    }
    text
}

fn study_text(study: &SleeptimeComputeObservation) -> String {
    if study.sessions_processed > 0 {
        format!(
            "Successfully indexed {} conversation(s) for user modeling.\n{}",
            study.sessions_processed, study.message
        )
    } else {
        format!("Sleeptime compute completed.\n{}", study.message)
    }
}
