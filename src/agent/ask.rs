//! A question about what was done so far, which leaves no trace in the conversation.

use crate::event::{Content, Message, Role};

/// What the model is asked behind the messages of the conversation's snapshot. The tools go along, so that the
/// prompt is the one that its provider has in the cache; they are not to be called.
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
    fn the_question_stands_in_its_frame() {
        let message = question("Why?");
        let text = message.content[0].as_text().unwrap();
        assert!(text.starts_with("<QUESTION>") && text.contains("## Question\nWhy?\n"), "{text}");
        assert!(text.contains("do not make any tool call"), "{text}");
    }
}
