//! Draws what the agent asked for: the reason, the risk, and the call in the words of its tool.

use super::Face;
use super::files::{self, Edit};
use super::page::{Page, size};
use super::said::{critic, prose, reasoning_item, thoughts};
use super::style::{Colour, Line, Style};
use crate::event::tool::{DelegateCommand, TaskCommand, TerminalAction};
use crate::event::{ACPToolCallEvent, Action, ActionEvent, Risk};
use crate::json::Raw;

/// Arguments that models must add to every call. They are left out, because the event has members of its own for them.
const ADDED: &[&str] = &["security_risk", "summary"];

pub(super) fn action(event: &ActionEvent, page: &mut Page) -> Face {
    if event.security_risk != Risk::Unknown {
        let (risk, colour) = risk(&event.security_risk);
        page.line(Line::new("Risk: ", Style::BOLD).with(risk, Style::BOLD.in_colour(colour)));
    }
    // If the model gives no summary, the reference makes one from the call, which is shown anyway.
    let made_up = format!("{}: {{", event.tool_name);
    let summary = event.summary.as_deref().filter(|summary| !summary.starts_with(&made_up));
    page.field("Summary", summary.unwrap_or_default(), Style::PLAIN);
    thoughts(event.reasoning_content.as_deref(), &event.thinking_blocks, page);
    if let Some(item) = &event.responses_reasoning_item {
        reasoning_item(item, page);
    }
    let thought: Vec<&str> = event.thought.iter().map(|part| &*part.text).collect();
    page.section("Thought", &thought.join("\n"), Style::from(Colour::Grey));
    let title = match &event.action {
        Some(action) => {
            call(action, page);
            "Agent Action"
        }
        None => {
            let name = format!("{} ({})", event.tool_call.name, event.tool_call.id);
            page.line(Line::new("Call: ", Style::BOLD).with(name, Style::PLAIN));
            arguments(&event.tool_call.arguments, page);
            "Agent Action (Not Executed)"
        }
    };
    critic(event.critic_result.as_deref(), page);
    Face::block(title, Colour::Blue).of(&event.tool_name).with_metrics()
}

/// Returns a risk in one word, and its colour.
pub(super) fn risk(risk: &Risk) -> (String, Colour) {
    let colour = match risk {
        Risk::Low => Colour::Green,
        Risk::Medium => Colour::Yellow,
        Risk::High => Colour::Red,
        Risk::Unknown | Risk::Other(_) => Colour::Grey,
    };
    (risk.as_str().to_owned(), colour)
}

/// Adds arguments as the model wrote them. They may be invalid JSON.
fn arguments(text: &str, page: &mut Page) {
    match Raw::parse(text) {
        Ok(value) if value.is_object() => page.members(value, ADDED),
        _ => page.text(text, Style::PLAIN),
    }
}

/// Adds a line with what is done, and to what.
fn verb(verb: &str, object: &str, page: &mut Page) {
    page.line(Line::new(format!("{verb} "), Style::BOLD.in_colour(Colour::Cyan)).with(object, Style::PLAIN));
}

fn call(action: &Action, page: &mut Page) {
    match action {
        Action::Terminal(action) => command(action, page),
        Action::FileEditor(action) => Edit::from(action).draw(page),
        Action::PlanningFileEditor(action) => Edit::from(action).draw(page),
        Action::Think(action) => page.text(&action.thought, Style::PLAIN.in_italics()),
        Action::Finish(action) => {
            page.line(Line::new("Finish:", Style::BOLD));
            prose(&action.message, page);
        }
        Action::TaskTracker(action) => match action.command {
            TaskCommand::View => verb("view", "the task list", page),
            TaskCommand::Plan | TaskCommand::Other(_) => {
                let number = action.task_list.len();
                let tasks = if number == 1 { "task" } else { "tasks" };
                verb(action.command.as_str(), &format!("{number} {tasks}"), page);
            }
        },
        Action::InvokeSkill(action) => verb("skill", &action.name, page),
        Action::Mcp(action) => {
            for (name, value) in &action.data.0 {
                page.value(name, value.raw());
            }
        }
        Action::ReadFile(action) => {
            let from = action.offset.map(|line| format!(" from line {}", line + 1));
            let lines = action.limit.map(|lines| format!(", {lines} lines"));
            let which =
                format!("{}{}{}", action.file_path, from.unwrap_or_default(), lines.unwrap_or_default());
            verb("read", &which, page);
        }
        Action::WriteFile(action) => {
            verb("write", &action.file_path, page);
            files::added(&action.content, page);
        }
        Action::Edit(action) => {
            verb("edit", &action.file_path, page);
            files::replaced(&action.old_string, &action.new_string, page);
        }
        Action::ListDirectory(action) => {
            let depth = if action.recursive { " and what is below" } else { "" };
            verb("list", &format!("{}{depth}", action.dir_path), page);
        }
        Action::ApplyPatch(action) => page.patch(&action.patch),
        Action::Glob(action) => search("glob", &action.pattern, action.path.as_deref(), None, page),
        Action::Grep(action) => {
            search("grep", &action.pattern, action.path.as_deref(), action.include.as_deref(), page);
        }
        Action::Task(action) => {
            verb("task", &format!("for {}", action.subagent_type), page);
            page.field("Description", action.description.as_deref().unwrap_or_default(), Style::PLAIN);
            page.field("Goes on with", action.resume.as_deref().unwrap_or_default(), Style::PLAIN);
            page.text(&action.prompt, Style::PLAIN);
        }
        Action::Delegate(action) => match action.command {
            DelegateCommand::Spawn | DelegateCommand::Other(_) => {
                let kinds = action.agent_types.as_deref().unwrap_or_default();
                verb(action.command.as_str(), "sub-agents", page);
                for (place, id) in action.ids.iter().flatten().enumerate() {
                    page.field(id, kinds.get(place).map_or("default", |kind| &**kind), Style::PLAIN);
                }
            }
            DelegateCommand::Delegate => {
                verb("delegate", "to sub-agents", page);
                for (id, task) in action.tasks.iter().flat_map(|tasks| &tasks.0) {
                    page.field(id, task, Style::PLAIN);
                }
            }
        },
        Action::StartChildConversation(action) => {
            verb("begin", &format!("a child conversation ({})", action.isolation.as_str()), page);
            page.field("Title", action.title.as_deref().unwrap_or_default(), Style::PLAIN);
            page.text(&action.task, Style::PLAIN);
        }
        Action::Workflow(action) => {
            verb("workflow", &format!("{}, at most {} at once", action.name, action.max_concurrency), page);
            page.text(&action.script, Style::PLAIN);
        }
        Action::AskOracle(action) => {
            verb("ask", "the oracle", page);
            page.text(&action.question, Style::PLAIN);
            page.section("Context", action.context.as_deref().unwrap_or_default(), Style::DIM);
        }
        Action::SwitchLlm(action) => {
            verb("switch", &format!("to {}", action.profile_name), page);
            page.field("Reason", &action.reason, Style::PLAIN);
        }
        Action::ClassifyAndSwitchLlm(_) => verb("classify", "the task and switch the model", page),
        Action::VisionInspect(action) => {
            verb("look", &format!("at image {}", action.image_index), page);
            page.field("Question", &action.question, Style::PLAIN);
            page.field("Profile", action.profile_name.as_deref().unwrap_or_default(), Style::PLAIN);
        }
        Action::ConsultTom(action) => {
            verb("consult", if action.use_user_message { "about the person's message" } else { "Tom" }, page);
            page.field("Reason", &action.reason, Style::PLAIN);
            page.field("Query", action.custom_query.as_deref().unwrap_or_default(), Style::PLAIN);
        }
        Action::SleeptimeCompute(_) => verb("study", "past conversations", page),
        Action::Unknown(unknown) => {
            verb("call", unknown.kind(), page);
            page.members(unknown.json().raw(), &["kind"]);
        }
        Action::Browser(_) => verb("browse", "", page),
        Action::BrowserNavigate(action) => {
            verb(if action.new_tab { "open in a new tab" } else { "go to" }, &action.url, page);
        }
        Action::BrowserClick(action) => {
            let tab = if action.new_tab { ", in a new tab" } else { "" };
            verb("click", &format!("on [{}]{tab}", action.index), page);
        }
        Action::BrowserType(action) => {
            verb("type", &format!("into [{}]", action.index), page);
            page.text(&action.text, Style::PLAIN);
        }
        Action::BrowserGetState(action) => {
            verb(
                "look",
                if action.include_screenshot { "at the page and its picture" } else { "at the page" },
                page,
            );
        }
        Action::BrowserGetContent(action) => {
            let links = if action.extract_links { " with links" } else { "" };
            verb("read", &format!("the page{links} from character {}", action.start_from_char), page);
        }
        Action::BrowserScroll(action) => verb("scroll", action.direction.as_str(), page),
        Action::BrowserGoBack(_) => verb("go", "back", page),
        Action::BrowserListTabs(_) => verb("list", "the tabs", page),
        Action::BrowserSwitchTab(action) => verb("switch", &format!("to tab {}", action.tab_id), page),
        Action::BrowserCloseTab(action) => verb("close", &format!("tab {}", action.tab_id), page),
        Action::BrowserGetStorage(_) => verb("read", "cookies and storage", page),
        Action::BrowserSetStorage(action) => {
            verb("set", "cookies and storage", page);
            // Their values are often secrets.
            for (name, value) in &action.storage_state.0 {
                page.field(name, &size(value.text().len()), Style::DIM);
            }
        }
        Action::BrowserStartRecording(_) => verb("record", "from here", page),
        Action::BrowserStopRecording(_) => verb("record", "no longer", page),
    }
}

/// Adds a shell command after a prompt, and how it is run.
fn command(action: &TerminalAction, page: &mut Page) {
    let prompt = Style::BOLD.in_colour(Colour::Green);
    if action.command.trim().is_empty() {
        page.line(Line::new("$ ", prompt).with("[empty: asks for more output]", Style::DIM));
    }
    page.text_by_line(&action.command, |place, line| {
        Line::new(if place == 0 { "$ " } else { "> " }, prompt).with(line, Style::PLAIN)
    });
    let mut flags = Vec::new();
    if action.is_input {
        flags.push("typed into the running command".to_owned());
    }
    if let Some(seconds) = action.timeout {
        flags.push(format!("waits {seconds} s at most"));
    }
    if action.reset {
        flags.push("in a new session".to_owned());
    }
    if !flags.is_empty() {
        page.line(Line::new(format!("({})", flags.join(", ")), Colour::Yellow));
    }
}

/// Adds what is searched for, and where.
fn search(tool: &str, pattern: &str, path: Option<&str>, include: Option<&str>, page: &mut Page) {
    let place = path.map_or_else(String::new, |path| format!(" in {path}"));
    let files = include.map_or_else(String::new, |files| format!(" ({files})"));
    verb(tool, &format!("`{pattern}`{place}{files}"), page);
}

/// Draws a call that an external agent made, and its result.
pub(super) fn acp_tool_call(event: &ACPToolCallEvent, page: &mut Page) -> Face {
    page.line(Line::new(&*event.title, Style::BOLD));
    let status = event.status.as_deref().unwrap_or("no status");
    let kind = event.tool_kind.as_deref().map_or_else(String::new, |kind| format!(" · {kind}"));
    page.line(Line::new(format!("{status}{kind}"), if event.is_error { Colour::Red } else { Colour::Grey }));
    for (name, value) in [("Input", &event.raw_input), ("Output", &event.raw_output)] {
        if let Some(value) = value {
            page.value(name, value.raw());
        }
    }
    for part in event.content.iter().flatten() {
        page.value("Shows", part.raw());
    }
    Face::block("ACP Tool Call", Colour::Blue).of(event.tool_kind.as_deref().unwrap_or_default())
}
