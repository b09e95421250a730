//! What a model is told before anything else.
//!
//! Two texts: one that is the same for every conversation, so that a provider can keep it, and one that is this
//! conversation's. Their sections have the reference's names and order (`runtime.md` section 3.4); the words are
//! our own.

use super::AgentDocument;
use crate::event::json::Raw;

/// The sections of the text that is the same everywhere, each in a tag of its name.
const SECTIONS: &str = include_str!("sections.txt");

/// The section that asks for risks; left out where the agent's settings say that no model is to judge.
const RISK: &str = "SECURITY_RISK_ASSESSMENT";

const CREDENTIALS: &str = "### Credentials\n\
    * A secret whose name stands in a command is exported for that command; refer to it as a variable, \
    for example `curl -H \"Authorization: Bearer $API_KEY\" https://example.com`.\n\
    * Names are found whatever their case. The value is read anew each time, so one that has expired may work \
    when it is used again.\n\
    * Never print a secret. Where an output holds one you see `<secret-hidden>` in its place.\n\
    * Where a secret still does not work, tell the person.\n\n\
    These variables can be used:";

/// What is this conversation's: texts for sections, in the order in which they stand. Empty ones are left out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Surroundings {
    /// Skills that are always on.
    pub repository: String,
    /// What was remembered earlier.
    pub memory: String,
    /// Skills that can be called upon.
    pub skills: String,
    /// What the agent's context adds.
    pub suffix: String,
    /// Names of secrets and what they are for.
    pub secrets: Vec<(String, Option<String>)>,
    /// The time, to the minute: `2026-11-21T03:31`.
    pub time: Option<String>,
}

/// The text that is the same in every conversation: the agent's own, where its settings have one, else ours.
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

/// The text that is this conversation's; `None` where there is nothing to say.
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

/// The suffix that an agent's context has for the system prompt.
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
    fn a_prompt_of_ones_own_stands_for_all_of_it() {
        let prompt = Json::parse("\"Answer briefly.\"").unwrap();
        let agent = AgentDocument::new(&Json::parse("{}").unwrap(), &[]).with("system_prompt", Some(&prompt));
        assert_eq!(fixed(&agent), "Answer briefly.");
    }
}
