//! A question beside the conversation: two messages, no tools, one answer that is taken whole.

use tokio_util::sync::CancellationToken;

use crate::event::{Content, Message, Role, Text};
use crate::llm::{Call, LlmError, Model, Reply, Request};

/// What goes along with a question.
#[derive(Debug, Clone)]
pub struct Aside<'a> {
    /// What a provider may file the prompt under in its cache.
    pub cache_key: Option<Text>,
    /// The conversation that it belongs to.
    pub session: Option<Text>,
    /// Ends it.
    pub cancel: &'a CancellationToken,
}

impl<'a> Aside<'a> {
    /// A question that belongs to no conversation.
    #[must_use]
    pub fn new(cancel: &'a CancellationToken) -> Self {
        Self { cache_key: None, session: None, cancel }
    }
}

/// Asks the model: `system` says what it is to do, `user` what with.
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
    // Nobody listens, so that it does not stream.
    model.complete(request, Call::new(aside.cancel)).await
}

/// The first text of a reply; empty where it has none.
pub(super) fn text(reply: &Reply) -> &str {
    reply.message.content.iter().find_map(Content::as_text).unwrap_or_default()
}
