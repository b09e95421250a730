//! Models whose calls are counted and whose failures are reported to the operator.

use std::sync::Arc;
use std::time::Instant;

use super::metrics::Work;
use super::notice;
use crate::event::Message;
use crate::ids::ConversationId;
use crate::llm::{Boxed, Call, Client, ClientOptions, LlmError, Model, Reply, Request, Settings, ToolSchema};

/// A model and where its calls are counted.
struct Watched {
    model: Client,
    work: Arc<Work>,
    /// `None` if the model is used outside of a conversation.
    conversation: Option<ConversationId>,
}

/// Returns the client of the model that these settings name. Its calls are counted.
///
/// # Errors
/// [`LlmError`] if no provider serves such a model.
pub(super) fn watched(
    settings: &Settings,
    options: &ClientOptions,
    work: &Arc<Work>,
    conversation: Option<ConversationId>,
) -> Result<Arc<dyn Model>, LlmError> {
    let (counted, name, id) = (Arc::clone(work), settings.model.to_string(), conversation.clone());
    let options = options.clone().on_retry(Arc::new(move |retry| {
        counted.count_retry(&name);
        if let Some(id) = &id {
            notice::model_retried(id, &name, retry);
        }
    }));
    let model = Client::new(settings.clone(), &options)?;
    Ok(Arc::new(Watched { model, work: Arc::clone(work), conversation }))
}

impl Model for Watched {
    fn name(&self) -> &str {
        self.model.name()
    }

    fn usage_id(&self) -> &str {
        self.model.usage_id()
    }

    fn has_vision(&self) -> bool {
        self.model.has_vision()
    }

    fn input_tokens_max(&self) -> Option<u64> {
        self.model.input_tokens_max()
    }

    fn count_tokens(&self, messages: &[Message], tools: &[ToolSchema]) -> u64 {
        self.model.count_tokens(messages, tools)
    }

    fn complete<'a>(&'a self, request: Request, call: Call<'a>) -> Boxed<'a, Result<Reply, LlmError>> {
        Box::pin(async move {
            let begun = Instant::now();
            let outcome = self.model.complete(request, call).await;
            self.work.count_call(self.name(), &outcome, begun.elapsed());
            match &outcome {
                Ok(_) | Err(LlmError::Cancelled) => {}
                Err(failure) => notice::model_failed(self.conversation.as_ref(), self.name(), failure),
            }
            outcome
        })
    }
}
