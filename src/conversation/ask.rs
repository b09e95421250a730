//! Questions beside the conversation: what was done so far, and what it could be called.

use std::future::{Future as _, poll_fn};
use std::sync::{Arc, PoisonError};
use std::task::Poll;

use tokio_util::sync::CancellationToken;

use super::base::Change;
use super::step::spent;
use super::{Conversation, ConversationError, Local, Result, load};
use crate::agent::aside::Aside;
use crate::agent::{ask, title};
use crate::event::Content;
use crate::llm::{Call, LlmError, Model, Request};
use crate::message;
use crate::state::ModelCall;
use crate::tool::RiskField;
use crate::view::View;

/// Under which use questions are kept.
const USAGE_ID: &str = "ask-agent-llm";

impl Conversation {
    /// Asks the agent's model a question about what was done so far. No event comes of it, the status stays, and a run
    /// neither waits for it nor is waited for. What it costs is kept under `ask-agent-llm`.
    ///
    /// # Errors
    /// [`ConversationError::Model`] where the model does not answer, and what getting ready and the store can meet.
    pub async fn ask_agent(&self, question: &str) -> Result<String> {
        let local = &self.0;
        local.refuse_closed()?;
        let equipment = local.ready().await?;
        let unknown = || crate::Error::UnknownConversation { conversation: local.id.to_string() };
        let stored = load::stored(&local.host, &local.id).await?.ok_or_else(unknown)?;
        // Calls that are under way have no answer yet: they are left out.
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

    /// A title of at most `length` code points, made by `model` or the agent's own of the first thing a person said;
    /// that message cut to length where the model makes none. Nothing is stored: see
    /// [`Store::set_title`](crate::Store::set_title).
    ///
    /// # Errors
    /// [`ConversationError::NoUserMessage`], and what getting ready and the store can meet.
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
    /// Writes down what a question beside the conversation has cost. Where no run is under way that is done when this
    /// returns, so that the figures read with the answer in hand have it in them. A run that keeps the lock while a tool
    /// works is not waited for; the price then has the next place behind it, before whatever reads the figures later. A
    /// caller that goes away does not keep it from being written.
    async fn account(self: &Arc<Self>, call: ModelCall) {
        let local = Arc::clone(self);
        let (written, is_written) = tokio::sync::oneshot::channel::<()>();
        let mut writing = Box::pin(async move {
            // What cannot be written is not counted: an answer is not withheld for its price.
            if let Ok(mut live) = local.lock().await {
                live.set_aside(Change::Spent(Box::new(call)));
                let _unwritten = local.commit(&mut live).await;
            }
            drop(written);
        });
        // The first poll takes the place in the lock's queue, which is fair.
        if poll_fn(|context| Poll::Ready(writing.as_mut().poll(context).is_ready())).await {
            return;
        }
        {
            let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
            accounts.retain(|account| !account.is_finished());
            accounts.push(tokio::spawn(writing));
        }
        if self.running().is_none() {
            // The sender is dropped, never used: its end is the word.
            let _ = is_written.await;
        }
    }
}
