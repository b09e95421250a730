//! A question about the conversation so far. It is not recorded in the conversation.

use crate::event::{Content, Message, Role};

/// Returns the message with the question. It follows the messages of the conversation's snapshot. The request also
/// carries the tools, so that the provider finds the prompt in its cache; the model is asked not to call them.
#[must_use]
pub fn question(question: &str) -> Message {
    let text = format!(
        "<QUESTION>\nAnswer this from what has happened in the conversation so far:\n\n## Question\n{question}\n\n\
         <IMPORTANT>\nIt is a question and nothing else: answer it, and do not make any tool call.\n</IMPORTANT>\n</QUESTION>"
    );
    Message::new(Role::User, vec![Content::text(text)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_question_is_wrapped_in_its_instructions() {
        let message = question("Why?");
        let text = message.content[0].as_text().unwrap();
        assert!(text.starts_with("<QUESTION>") && text.contains("## Question\nWhy?\n"), "{text}");
        assert!(text.contains("do not make any tool call"), "{text}");
    }
}
