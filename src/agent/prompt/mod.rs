//! The system prompt.
//!
//! It has two texts: a static one, which is the same for every conversation so that a provider can cache it, and one
//! for this conversation. Their sections have the reference's names and order
//! (`docs/reference/runtime.md#system-prompt`). The wording is our own.

use super::AgentDocument;
use crate::json::Raw;

/// The sections of the static text, each in a tag with its name.
const SECTIONS: &str = include_str!("sections.txt");

/// The section that asks the model to rate risks. It is left out if the agent's settings say so.
const RISK: &str = "SECURITY_RISK_ASSESSMENT";

const CREDENTIALS: &str = "### Credentials\n\
    * A secret whose name stands in a command is exported for that command; refer to it as a variable, \
    for example `curl -H \"Authorization: Bearer $API_KEY\" https://example.com`.\n\
    * Names are found whatever their case. The value is read anew each time, so one that has expired may work \
    when it is used again.\n\
    * Never print a secret. Where an output holds one you see `<secret-hidden>` in its place.\n\
    * Where a secret still does not work, tell the person.\n\n\
    These variables can be used:";

/// The texts of this conversation's sections, in the order of the sections. Empty sections are left out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Surroundings {
    /// The skills that are always active.
    pub repository: String,
    /// The memory of earlier conversations.
    pub memory: String,
    /// The skills that can be invoked.
    pub skills: String,
    /// The suffix from the agent's context.
    pub suffix: String,
    /// The names and descriptions of secrets.
    pub secrets: Vec<(String, Option<String>)>,
    /// The time, to the minute: `2026-11-21T03:31`.
    pub time: Option<String>,
}

/// Returns the static text: the agent's own system prompt if its settings have one, otherwise the built-in one.
#[must_use]
pub fn fixed(agent: &AgentDocument) -> String {
    if let Some(own) = agent.system_prompt() {
        return own.to_string();
    }
    let kwargs = agent.member("system_prompt_kwargs");
    let asks_for_risks = kwargs
        .and_then(|kwargs| kwargs.get("llm_security_analyzer"))
        .is_none_or(|flag| flag.text() == "true");
    let sections = SECTIONS.trim_end().split("\n\n<");
    let kept = sections.enumerate().filter(|(_, section)| asks_for_risks || !section.starts_with(RISK));
    let texts =
        kept.map(|(place, section)| if place == 0 { section.to_owned() } else { format!("<{section}") });
    texts.collect::<Vec<_>>().join("\n\n")
}

/// Returns this conversation's text. `None` if all sections are empty.
#[must_use]
pub fn own(around: &Surroundings) -> Option<String> {
    let mut sections = Vec::new();
    let mut add = |tag: &str, text: &str| {
        if !text.is_empty() {
            sections.push(format!("<{tag}>\n{text}\n</{tag}>"));
        }
    };
    add("REPO_CONTEXT", &around.repository);
    add("MEMORY_CONTEXT", &around.memory);
    add("SKILLS", &around.skills);
    if !around.suffix.is_empty() {
        sections.push(around.suffix.clone());
    }
    let mut add = |tag: &str, text: String| sections.push(format!("<{tag}>\n{text}\n</{tag}>"));
    if !around.secrets.is_empty() {
        let lines: Vec<String> = around
            .secrets
            .iter()
            .map(|(name, description)| match description {
                Some(description) => format!("* **${name}** - {description}"),
                None => format!("* **${name}**"),
            })
            .collect();
        add("CUSTOM_SECRETS", format!("{CREDENTIALS}\n\n{}", lines.join("\n")));
    }
    if let Some(time) = &around.time {
        add("CURRENT_DATETIME", format!("The current date and time is: {time}"));
    }
    (!sections.is_empty()).then(|| sections.join("\n\n"))
}

/// Returns the suffix for the system prompt from the agent's context.
#[must_use]
pub fn suffix(agent: &AgentDocument) -> String {
    let context = agent.member("agent_context");
    let text = context.and_then(|context| context.get("system_message_suffix")).and_then(Raw::as_str);
    text.map(|text| text.trim().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Json;

    #[test]
    fn sections_stand_in_the_order_of_the_reference() {
        let tags = |text: &str| -> Vec<String> {
            let lines = text.lines().filter_map(|line| line.strip_prefix('<')?.strip_suffix('>'));
            lines.filter(|tag| !tag.starts_with('/')).map(str::to_owned).collect()
        };
        let agent = AgentDocument::new(&Json::parse("{}").unwrap(), &[]);
        let order = tags(&fixed(&agent));
        assert_eq!(order.len(), 16);
        assert_eq!(
            (order[0].as_str(), order[11].as_str(), order[15].as_str()),
            ("SOUL", RISK, "PROCESS_MANAGEMENT")
        );
        let kwargs = Json::parse(r#"{"llm_security_analyzer":false}"#).unwrap();
        let unasked = tags(&fixed(&agent.with("system_prompt_kwargs", Some(&kwargs))));
        assert_eq!(unasked.len(), 15);
        let around = Surroundings {
            repository: "r".into(),
            memory: "m".into(),
            skills: "s".into(),
            suffix: "Be brief.".into(),
            secrets: vec![("A".into(), None), ("B".into(), Some("for b".into()))],
            time: Some("2026-11-21T03:31".into()),
        };
        let text = own(&around).unwrap();
        assert_eq!(
            tags(&text),
            ["REPO_CONTEXT", "MEMORY_CONTEXT", "SKILLS", "CUSTOM_SECRETS", "CURRENT_DATETIME"]
        );
        assert!(text.contains("* **$A**\n* **$B** - for b\n"));
        assert_eq!(own(&Surroundings::default()), None);
    }

    #[test]
    fn an_own_system_prompt_replaces_the_static_text() {
        let prompt = Json::parse("\"Answer briefly.\"").unwrap();
        let agent = AgentDocument::new(&Json::parse("{}").unwrap(), &[]).with("system_prompt", Some(&prompt));
        assert_eq!(fixed(&agent), "Answer briefly.");
    }
}
