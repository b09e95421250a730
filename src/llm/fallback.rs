//! Fallback models: if one model cannot be reached or is busy, the next one is asked.
//!
//! Each call begins with the first model. Only its temporary failures lead to the other models: if it refuses the
//! content of a request, the others would refuse it, too. Source: the reference's `fallback_strategy.py` 1.58.

use std::sync::Arc;

use super::{Boxed, Call, Delta, LlmError, Model, Reply, Request, ToolSchema};
use crate::event::Message;

/// A model and its fallbacks, in order.
pub struct Fallback {
    first: Arc<dyn Model>,
    others: Vec<Arc<dyn Model>>,
}

impl Fallback {
    /// Makes a model that asks `first`, and then `others` in order if it fails.
    #[must_use]
    pub fn new(first: Arc<dyn Model>, others: Vec<Arc<dyn Model>>) -> Self {
        Self { first, others }
    }

    async fn ask(&self, request: Request, call: Call<'_>) -> Result<Reply, LlmError> {
        let again = || Call { cancel: call.cancel, on_delta: call.on_delta };
        let failure = match self.first.complete(request.clone(), again()).await {
            Err(error) if is_temporary(&error) => error,
            answer => return answer,
        };
        for model in &self.others {
            if let Some(on_delta) = call.on_delta {
                on_delta(Delta::Restart);
            }
            match model.complete(request.clone(), again()).await {
                // A budget that is used up is used up for all models.
                Err(error) if !is_budget(&error) && error != LlmError::Cancelled => {}
                answer => return answer,
            }
        }
        Err(failure)
    }
}

/// Returns whether another model may succeed after this error.
fn is_temporary(error: &LlmError) -> bool {
    let temporary = matches!(
        error,
        LlmError::RateLimit(_)
            | LlmError::Timeout(_)
            | LlmError::ServiceUnavailable(_)
            | LlmError::NoResponse(_)
    );
    temporary && !is_budget(error)
}

fn is_budget(error: &LlmError) -> bool {
    let text = error.to_string().to_lowercase();
    matches!(error, LlmError::RateLimit(_))
        && (text.contains("budget_exceeded") || text.contains("budget has been exceeded"))
}

/// The name, the use and the abilities are those of the first model.
impl Model for Fallback {
    fn name(&self) -> &str {
        self.first.name()
    }

    fn usage_id(&self) -> &str {
        self.first.usage_id()
    }

    fn has_vision(&self) -> bool {
        self.first.has_vision()
    }

    fn input_tokens_max(&self) -> Option<u64> {
        self.first.input_tokens_max()
    }

    fn count_tokens(&self, messages: &[Message], tools: &[ToolSchema]) -> u64 {
        self.first.count_tokens(messages, tools)
    }

    fn complete<'a>(&'a self, request: Request, call: Call<'a>) -> Boxed<'a, Result<Reply, LlmError>> {
        Box::pin(self.ask(request, call))
    }
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::llm::scripted::{Line, Scripted};

    /// Returns the result if the models give these answers, and the number of models that were asked.
    async fn ask_models(answers: Vec<Line>) -> (Result<String, &'static str>, usize) {
        let models: Vec<Scripted> = answers.into_iter().map(|line| Scripted::new([line])).collect();
        let mut all = models.iter().map(|model| Arc::new(model.clone()) as Arc<dyn Model>);
        let fallback = Fallback::new(all.next().unwrap(), all.collect());
        let cancel = CancellationToken::new();
        let answer = fallback.complete(Request::default(), Call::new(&cancel)).await;
        let count = models.iter().filter(|model| model.left() == 0).count();
        let text = answer.map(|reply| reply.message.content[0].as_text().unwrap().to_owned());
        (text.map_err(|error| error.code()), count)
    }

    fn failing(error: fn(String) -> LlmError, text: &str) -> Line {
        Line::error(error(text.to_owned()))
    }

    #[tokio::test]
    async fn the_next_model_is_asked_after_a_temporary_failure() {
        let busy = || failing(LlmError::RateLimit, "slow");
        let down = || failing(LlmError::ServiceUnavailable, "down");
        assert_eq!(ask_models(vec![Line::text("a"), Line::text("b")]).await, (Ok("a".to_owned()), 1));
        assert_eq!(ask_models(vec![busy(), down(), Line::text("c")]).await, (Ok("c".to_owned()), 3));
        assert_eq!(ask_models(vec![busy(), down()]).await, (Err("LLMRateLimitError"), 2));
        let refused = failing(LlmError::BadRequest, "no");
        assert_eq!(ask_models(vec![refused, Line::text("b")]).await, (Err("LLMBadRequestError"), 1));
        let spent = || failing(LlmError::RateLimit, "Budget has been exceeded");
        assert_eq!(ask_models(vec![spent(), Line::text("b")]).await, (Err("LLMRateLimitError"), 1));
        assert_eq!(ask_models(vec![down(), spent(), Line::text("c")]).await, (Err("LLMRateLimitError"), 2));
        assert_eq!(
            ask_models(vec![down(), Line::error(LlmError::Cancelled), Line::text("c")]).await,
            (Err("CancelledError"), 2)
        );
    }
}
