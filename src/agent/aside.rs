//! A question to the model outside the conversation: two messages, no tools, and one reply that is not streamed.

use tokio_util::sync::CancellationToken;

use crate::event::{Content, Message, Role, Text};
use crate::llm::{Call, LlmError, Model, Reply, Request};

/// The options of a question.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Aside<'a> {
    /// The key under which a provider may cache the prompt.
    pub cache_key: Option<Text>,
    /// The conversation that the question belongs to.
    pub session: Option<Text>,
    /// Cancels the question.
    pub cancel: &'a CancellationToken,
}

impl<'a> Aside<'a> {
    /// Makes options for a question that belongs to no conversation.
    #[must_use]
    pub fn new(cancel: &'a CancellationToken) -> Self {
        Self { cache_key: None, session: None, cancel }
    }
}

/// Asks the model. `system` is the instruction, `user` the text to work on.
pub(super) async fn put(
    model: &dyn Model,
    system: &str,
    user: String,
    aside: &Aside<'_>,
) -> Result<Reply, LlmError> {
    let message = |role, text: Text| Message::new(role, vec![Content::text(text)]);
    let messages = vec![message(Role::System, system.into()), message(Role::User, user.into())];
    let request = Request {
        cache_key: aside.cache_key.clone(),
        session: aside.session.clone(),
        ..Request::new(messages)
    };
    // The call has no listener, so the reply is not streamed.
    model.complete(request, Call::new(aside.cancel)).await
}

/// Returns the first text of a reply, or an empty text if there is none.
pub(super) fn text(reply: &Reply) -> &str {
    reply.message.content.iter().find_map(Content::as_text).unwrap_or_default()
}
