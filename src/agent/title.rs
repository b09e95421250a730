//! A title for a conversation: a model makes it from the user's first message. Without a model, the title is that
//! message, cut to length.
//!
//! Source: `docs/reference/operations.md#titles`. Lengths are characters (Unicode code points), as Python counts them.

use super::aside::{Aside, put, text};
use crate::llm::{Model, Reply};
use crate::state::title::fallback;

/// The number of the message's characters that the model is shown.
const MESSAGE_CHARACTERS_MAX: usize = 1_000;

/// The usage id of an agent that manages its own model. There is no model that can be asked.
const MANAGED_USAGE_ID: &str = "acp-managed";

/// The emojis with which a title may begin, and their subjects.
const EMOJIS: &[(&str, &str)] = &[
    ("💄", "frontend: what is seen, and styles"),
    ("👔", "backend: the rules of the business"),
    ("✅", "test: tests"),
    ("👷", "devops: building and CI"),
    ("🚀", "deployment: bringing it out"),
    ("📦️", "dependencies: packages"),
    ("🗃️", "database: changes of a database"),
    ("🔧", "chores: configuration and upkeep"),
    ("✨", "features: something new"),
    ("🐛", "bugfix: a bug"),
    ("⚡️", "performance: making it faster"),
    ("🔒️", "security: making it safe"),
    ("📝", "documentation: documents"),
    ("♻️", "refactor: the same in better words"),
];

const SYSTEM: &str = "You name conversations between a person and OpenHands, a software agent that works with a shell, an \
                      editor and a browser. From the person's first message, which may be cut, make a short title that says \
                      what it is about. Answer with the title alone: no quotes, no explanation.";

/// A title, with the model's reply.
#[derive(Debug)]
#[non_exhaustive]
pub struct Title {
    /// The title.
    pub text: String,
    /// The model's reply, if it gave one. Its tokens count. Without one, the title is the message's beginning.
    pub reply: Option<Reply>,
}

/// Makes a title of at most `length` characters (at least 4) for a conversation that began with `message`.
///
/// `template` replaces the built-in question. Its `{conversation_content}` and `{max_length}` are filled in. If it has
/// no `{conversation_content}`, the message is added at the end. Without a model, or if the model gives no title, the
/// title is the message itself, cut to length.
pub async fn title(
    model: Option<&dyn Model>,
    message: &str,
    length: usize,
    template: Option<&str>,
    aside: &Aside<'_>,
) -> Title {
    let from_message = || fallback(message, length);
    let Some(model) = model.filter(|model| model.usage_id() != MANAGED_USAGE_ID) else {
        return Title { text: from_message(), reply: None };
    };
    match put(model, SYSTEM, question(message, length, template), aside).await {
        Ok(reply) => {
            let made = without_thinking(text(&reply));
            let made = made.trim();
            let text = if made.is_empty() { from_message() } else { fallback(made, length) };
            Title { text, reply: Some(reply) }
        }
        Err(_) => Title { text: from_message(), reply: None },
    }
}

fn question(message: &str, length: usize, template: Option<&str>) -> String {
    const CONTENT: &str = "{conversation_content}";
    let shown = match message.char_indices().nth(MESSAGE_CHARACTERS_MAX) {
        Some((end, _)) => format!("{}...(truncated)", &message[..end]),
        None => message.to_owned(),
    };
    match template.map(str::trim).filter(|template| !template.is_empty()) {
        Some(template) => {
            // The length is filled in first, because the message may contain `{max_length}` itself.
            let question = template.replace("{max_length}", &length.to_string()).replace(CONTENT, &shown);
            if template.contains(CONTENT) {
                question
            } else {
                format!("{question}\n\nConversation content:\n{shown}")
            }
        }
        None => {
            let emojis: Vec<String> =
                EMOJIS.iter().map(|(emoji, subject)| format!("- {emoji} {subject}")).collect();
            format!(
                "Make a title of at most {length} characters for a conversation that begins with this message:\n\n{shown}\n\n\
                 Begin it with the ONE emoji of this list that suits it best:\n{}",
                emojis.join("\n")
            )
        }
    }
}

/// Returns the text without the `<think>` blocks of some models. A block that is not closed removes the rest.
fn without_thinking(text: &str) -> String {
    let mut rest = text;
    let mut kept = String::with_capacity(text.len());
    while let Some(start) = find(rest, "<think>") {
        kept.push_str(&rest[..start]);
        rest = match find(&rest[start..], "</think>") {
            Some(end) => &rest[start + end + "</think>".len()..],
            None => "",
        };
    }
    kept + rest
}

/// Returns the byte offset of a tag, ignoring case.
fn find(text: &str, tag: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    bytes.windows(tag.len()).position(|window| window.eq_ignore_ascii_case(tag.as_bytes()))
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::llm::scripted::{Line, Scripted};

    async fn made(answer: Line) -> Title {
        let model = Scripted::new([answer]);
        let cancel = CancellationToken::new();
        title(
            Some(&model),
            "  Fix the bug in the parser, please, and do it well  ",
            20,
            None,
            &Aside::new(&cancel),
        )
        .await
    }

    #[tokio::test]
    async fn a_title_is_the_models_answer_cut_to_length() {
        assert_eq!(made(Line::text("<THINK>hm</think> 🐛 Parser\n")).await.text, "🐛 Parser");
        assert_eq!(made(Line::text("🐛 A title that is far too long")).await.text, "🐛 A title that is...");
        for nothing in ["", "<think>only thoughts", " "] {
            assert_eq!(made(Line::text(nothing)).await.text, "Fix the bug in th...", "{nothing:?}");
        }
        let failed = made(Line::error(crate::llm::LlmError::RateLimit("slow".to_owned()))).await;
        assert_eq!((&*failed.text, failed.reply.is_none()), ("Fix the bug in th...", true));
    }

    #[tokio::test]
    async fn without_a_model_the_title_is_the_message() {
        let cancel = CancellationToken::new();
        let managed = Scripted::new([]).used_as("acp-managed");
        for model in [None, Some(&managed as &dyn Model)] {
            assert_eq!(title(model, "Hello", 50, None, &Aside::new(&cancel)).await.text, "Hello");
        }
    }

    #[test]
    fn a_template_takes_the_message_and_the_length() {
        let long = "é".repeat(1_001);
        let shown = format!("{}...(truncated)", "é".repeat(1_000));
        let template = Some("{max_length}: {conversation_content}!");
        assert_eq!(question(&long, 9, template), format!("9: {shown}!"));
        assert_eq!(question("m", 9, Some(" Name it ")), "Name it\n\nConversation content:\nm");
        let plain = question("m", 9, None);
        assert!(plain.contains("at most 9 characters") && plain.contains("- 🐛 bugfix"), "{plain}");
    }
}
