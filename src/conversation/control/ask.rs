//! Questions to the model beside the conversation: about the work so far, and for a title.

use std::future::{Future as _, poll_fn};
use std::sync::{Arc, PoisonError};
use std::task::Poll;

use tokio_util::sync::CancellationToken;

use crate::agent::aside::Aside;
use crate::agent::{ask, title};
use crate::conversation::error::{ConversationError, Result};
use crate::conversation::local::{Conversation, Local};
use crate::conversation::memory::{Change, load};
use crate::conversation::run::spent;
use crate::event::Content;
use crate::llm::{Call, LlmError, Model, Request};
use crate::message;
use crate::state::ModelCall;
use crate::tool::RiskField;
use crate::view::View;

/// The usage id of questions.
const USAGE_ID: &str = "ask-agent-llm";

impl Conversation {
    /// Asks the agent's model a question about the conversation so far.
    ///
    /// It adds no event and does not change the status. It does not wait for a run, and a run does not wait for it. Its
    /// cost is recorded under the usage id `ask-agent-llm`.
    ///
    /// # Errors
    /// [`ConversationError::Model`] if the model does not answer, the errors of making the agent's equipment, and the
    /// errors of the store.
    pub async fn ask_agent(&self, question: &str) -> Result<String> {
        let local = &self.0;
        local.refuse_closed()?;
        let equipment = local.ready().await?;
        let unknown = || crate::Error::UnknownConversation { conversation: local.id.to_string() };
        let stored = load::stored(&local.host, &local.id).await?.ok_or_else(unknown)?;
        // Calls in progress have no answer yet. The view leaves them out.
        let view = View::live(&stored.branch(&local.id)?).snapshot();
        let messages = message::messages(view.events());
        let mut messages =
            messages.map_err(|source| crate::Error::Messages { conversation: local.id.clone(), source })?;
        messages.push(ask::question(question));
        let request = Request {
            tools: equipment.toolbox.schemas(RiskField::Omitted),
            cache_key: Some(local.id.as_str().into()),
            session: Some(local.id.as_str().into()),
            ..Request::new(messages)
        };
        let reply = equipment.model.complete(request, Call::new(&CancellationToken::new())).await?;
        local.account(ModelCall { usage_id: USAGE_ID.to_owned(), ..spent(&*equipment.model, &reply) }).await;
        let text = reply.message.content.iter().find_map(Content::as_text);
        text.map(|text| local.secrets.mask_known().apply(text).into_owned())
            .ok_or_else(|| LlmError::NoResponse("the model answered without a text".to_owned()).into())
    }

    /// Returns a title of at most `length` code points. `model`, or else the agent's own model, makes it from the
    /// first user message. If the model makes no title, it is that message, cut to length. It is not stored: see
    /// [`Store::set_title`](crate::Store::set_title).
    ///
    /// # Errors
    /// [`ConversationError::NoUserMessage`] if there is no user message, the errors of making the agent's equipment,
    /// and the errors of the store.
    pub async fn generate_title(&self, model: Option<Arc<dyn Model>>, length: usize) -> Result<String> {
        let local = &self.0;
        local.refuse_closed()?;
        let message = local.lock().await?.branch.opening().map(str::to_owned);
        let message = message.ok_or(ConversationError::NoUserMessage)?;
        let model = match model {
            Some(model) => model,
            None => Arc::clone(&local.ready().await?.model),
        };
        let cancel = CancellationToken::new();
        let aside = Aside { session: Some(local.id.as_str().into()), ..Aside::new(&cancel) };
        let made = title::title(Some(&*model), &message, length, None, &aside).await;
        if let Some(reply) = &made.reply {
            local.account(spent(&*model, reply)).await;
        }
        Ok(made.text)
    }
}

impl Local {
    /// Records the cost of a question beside the conversation.
    ///
    /// If no run is in progress, the cost is stored when this returns, so that the caller finds it in the statistics.
    /// If a run holds the lock, this does not wait for it. The cost is then next in the lock's queue, before later
    /// readers of the statistics. The cost is also stored if the caller drops this future.
    async fn account(self: &Arc<Self>, call: ModelCall) {
        let local = Arc::clone(self);
        let (written, is_written) = tokio::sync::oneshot::channel::<()>();
        let mut writing = Box::pin(async move {
            // If the cost cannot be stored, the caller gets the answer nevertheless.
            if let Ok(mut live) = local.lock().await {
                live.set_aside(Change::Spent(Box::new(call)));
                let _ignored = local.commit(&mut live).await;
            }
            drop(written);
        });
        // The first poll enters the lock's queue, which is fair.
        if poll_fn(|context| Poll::Ready(writing.as_mut().poll(context).is_ready())).await {
            return;
        }
        {
            let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
            accounts.retain(|account| !account.is_finished());
            accounts.push(tokio::spawn(writing));
        }
        if self.running().is_none() {
            // The sender never sends. It is dropped when the cost is stored, which ends this wait.
            let _ = is_written.await;
        }
    }
}
