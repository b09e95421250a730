//! Draws messages, the system prompt, and summaries of forgotten events.

use super::page::{Page, title};
use super::style::{Colour, Line, Style};
use super::{Face, one_line};
use crate::event::{
    Condensation, Content, CriticResult, MessageEvent, ReasoningItem, Source, SystemPromptEvent, Thinking,
    ToolDefinition,
};

/// The lines of a system prompt that are shown if texts are folded. The prompt is similar in all conversations.
const PROMPT_LINES: usize = 6;
/// The most columns of a tool's description that are shown.
const DESCRIPTION: usize = 100;
/// The most columns of a tool's schema that are shown.
const SCHEMA: usize = 200;

pub(super) fn message(event: &MessageEvent, page: &mut Page) -> Face {
    let face = match &event.common.source {
        Source::User => Face::block("Message from User", Colour::Gold),
        Source::Agent => Face::block("Message from Agent", Colour::Blue),
        Source::Environment => Face::block("Message from Environment", Colour::Magenta),
        Source::Hook => Face::block("Message from Hook", Colour::Magenta),
        Source::Other(source) => Face::block(format!("Message from {}", title(source)), Colour::White),
    };
    let message = &event.llm_message;
    thoughts(message.reasoning_content.as_deref(), &message.thinking_blocks, page);
    if let Some(item) = &message.responses_reasoning_item {
        reasoning_item(item, page);
    }
    let mut seen = false;
    for part in &message.content {
        seen |= match part {
            Content::Text(part) => {
                prose(&part.text, page);
                !part.text.trim().is_empty()
            }
            Content::Image(_) | Content::Unknown(_) => page.content(std::slice::from_ref(part), Style::PLAIN),
        };
    }
    for call in message.tool_calls.iter().flatten() {
        page.field("Calls", &format!("{} {}", call.name, call.arguments), Style::PLAIN);
        seen = true;
    }
    if !seen {
        page.line(Line::new("[no text]", Style::DIM));
    }
    page.field("Activated skills", &event.activated_skills.join(", "), Style::PLAIN);
    let added: Vec<&str> = event.extended_content.iter().map(|part| &*part.text).collect();
    page.section("Added by the agent's context", &added.join("\n"), Style::DIM);
    critic(event.critic_result.as_deref(), page);
    face.of(event.sender.as_deref().unwrap_or_default()).with_metrics()
}

pub(super) fn system_prompt(event: &SystemPromptEvent, page: &mut Page) -> Face {
    page.folded(PROMPT_LINES, |page| {
        prose(&event.system_prompt.text, page);
        if let Some(context) = &event.dynamic_context {
            page.section("Dynamic context", &context.text, Style::PLAIN);
        }
    });
    page.line(Line::new("Tools available: ", Style::BOLD).with(event.tools.len().to_string(), Style::PLAIN));
    for tool in &event.tools {
        let name = tool.name();
        let room = page.room().saturating_sub(name.len() + 6).clamp(20, DESCRIPTION);
        let description = one_line(tool.fields.description.lines().next().unwrap_or_default(), room);
        let head = Line::new(format!("- {name}"), Colour::Cyan);
        page.line(head.with(format!(": {description}"), Style::PLAIN));
        if let Some(schema) = schema(tool) {
            page.line(Line::new(format!("  {schema}"), Style::DIM));
        }
    }
    Face::block("System Prompt", Colour::Magenta)
}

/// Returns the arguments that a tool takes. Built-in tools do not record them.
fn schema(tool: &ToolDefinition) -> Option<String> {
    let of_server = tool.fields.mcp_tool.as_ref().and_then(|tool| tool.get("inputSchema"));
    let of_client = tool.fields.input_schema.as_ref().map(|schema| {
        let members = schema.0.iter().map(|(name, value)| format!("{name}: {}", value.text()));
        members.collect::<Vec<_>>().join(", ")
    });
    of_server.map(|schema| schema.text().to_owned()).or(of_client).map(|text| one_line(&text, SCHEMA))
}

pub(super) fn condensation(event: &Condensation, page: &mut Page) -> Face {
    let forgotten = event.forgotten_event_ids.len();
    let events = if forgotten == 1 { "event" } else { "events" };
    page.line(Line::new(format!("{forgotten} {events} forgotten"), Style::BOLD));
    if let Some(summary) = &event.summary {
        // Without a place the summary is in no view (`docs/reference/view.md#fold`).
        let name = match event.summary_offset {
            Some(place) => format!("Summary in their place, at {place}"),
            None => "Summary, in no view".into(),
        };
        page.section(&name, summary, Style::PLAIN);
    }
    Face::block("Condensation", Colour::White).with_metrics()
}

pub(super) fn summary(summary: &str, page: &mut Page) -> Face {
    prose(summary, page);
    Face::block("Condensation Summary", Colour::White)
}

/// Adds what a model thought, in any form. Sealed thinking is only mentioned.
pub(super) fn thoughts(reasoning: Option<&str>, blocks: &[Thinking], page: &mut Page) {
    if let Some(reasoning) = reasoning {
        page.section("Reasoning", reasoning, Style::from(Colour::Grey));
    }
    for block in blocks {
        match block {
            // Providers can give the same thinking in both forms.
            Thinking::Shown(block)
                if reasoning.is_none_or(|reasoning| reasoning.trim() != block.thinking.trim()) =>
            {
                page.section("Thinking", &block.thinking, Style::from(Colour::Grey));
            }
            Thinking::Shown(_) => {}
            Thinking::Redacted(_) => page.line(Line::new("[sealed thinking]", Style::DIM)),
            Thinking::Unknown(block) => page.field("Thinking", block.text(), Style::from(Colour::Grey)),
        }
    }
}

pub(super) fn reasoning_item(item: &ReasoningItem, page: &mut Page) {
    let summary = item.summary.iter().map(|part| format!("- {part}"));
    let content = item.content.iter().flatten().map(ToString::to_string);
    let text: Vec<String> = summary.chain(content).collect();
    page.section("Reasoning", &text.join("\n"), Style::from(Colour::Grey));
}

pub(super) fn critic(result: Option<&CriticResult>, page: &mut Page) {
    let Some(result) = result else { return };
    let colour = match result.score {
        score if score >= 0.6 => Colour::Green,
        score if score >= 0.4 => Colour::Yellow,
        _ => Colour::Red,
    };
    let score = format!("{:.1}%", result.score * 100.0);
    page.line(Line::new("Critic, likely to succeed: ", Style::BOLD).with(score, colour));
    page.text(result.message.as_deref().unwrap_or_default(), Style::DIM);
}

/// Adds a text that a person or a model wrote, with headings and `**stress**` in bold.
pub(super) fn prose(text: &str, page: &mut Page) {
    page.text_by_line(text, |_, line| {
        if line.starts_with('#') {
            return Line::new(line, Style::BOLD);
        }
        let mut shown = Line::default();
        let mut rest = line;
        while let Some((before, stressed, after)) = stressed(rest) {
            shown = shown.with(before, Style::PLAIN).with(stressed, Style::BOLD);
            rest = after;
        }
        shown.with(rest, Style::PLAIN)
    });
}

/// Returns the text before the first `**stress**` of a line, the stress itself, and the text after it.
fn stressed(line: &str) -> Option<(&str, &str, &str)> {
    let from = line.find("**")?;
    let length = line[from + 2..].find("**").filter(|length| *length > 0)?;
    let to = from + 2 + length + 2;
    Some((&line[..from], &line[from..to], &line[to..]))
}
