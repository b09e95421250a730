//! Shortens what the model sees: when it is too long, and on request.

use tokio_util::sync::CancellationToken;

use super::step::spent;
use super::turn::Run;
use crate::agent::aside::Aside;
use crate::agent::condenser::{self, CondenseError, Condensed};
use crate::conversation::error::{ConversationError, Result};
use crate::conversation::local::{Conversation, Equipment, Local};
use crate::conversation::memory::{Branch, Change, Live, common, load};
use crate::event::{Condensation, CondensationRequest, Source};
use crate::json::Raw;
use crate::llm::{Model, Reply};
use crate::message;
use crate::state::ModelCall;
use crate::view::{Tokens, View};

impl Conversation {
    /// Summarizes now what the model sees, whatever its length. The status does not change. If actions wait for an
    /// answer, this only requests the condensation, and the run's next step does it: a call needs its answer.
    ///
    /// # Errors
    /// [`ConversationError::NoCondenser`] if the agent has no condenser for it; then nothing is written.
    /// [`ConversationError::Condense`] if the summary cannot be made. The errors of the store.
    pub async fn condense(&self) -> Result<()> {
        let local = &self.0;
        local.refuse_closed()?;
        let equipment = local.ready().await?;
        let mut live = local.lock().await?;
        if equipment.condensers.is_empty() {
            return Err(ConversationError::NoCondenser { what: without(&live) });
        }
        live.push(CondensationRequest::new(common(Source::Environment)));
        local.commit(&mut live).await?;
        if !live.branch.pending().is_empty() {
            return Ok(());
        }
        let (view, moves) = (std::sync::Arc::clone(&live.branch.view), live.moves);
        drop(live);
        let (condensed, calls) = local.condense_until(&view, &CancellationToken::new(), &equipment).await;
        let mut live = local.lock().await?;
        for call in calls {
            live.set(Change::Spent(Box::new(call)));
        }
        let outcome = condensed.map(|condensation| {
            if let Some(condensation) = condensation.filter(|_| live.moves == moves) {
                live.push(condensation);
            }
        });
        local.commit(&mut live).await?;
        Ok(outcome?)
    }
}

/// Describes why the agent has no condenser that handles requests.
fn without(live: &Live) -> String {
    match live.base.agent.condenser().and_then(|condenser| condenser.get("kind")).and_then(Raw::as_str) {
        Some(kind) => format!("Condenser {kind} does not handle condensation requests"),
        None => "No condenser configured".to_owned(),
    }
}

impl Local {
    /// Condenses the view if it is too long. Also returns the model calls that this took.
    pub(super) async fn condense_view(
        &self,
        view: &View,
        run: &Run,
        equipment: &Equipment,
    ) -> (Result<Option<Condensation>, CondenseError>, Vec<ModelCall>) {
        if equipment.condensers.is_empty() {
            return (Ok(None), Vec::new());
        }
        self.condense_until(view, &run.cancel, equipment).await
    }

    async fn condense_until(
        &self,
        view: &View,
        cancel: &CancellationToken,
        equipment: &Equipment,
    ) -> (Result<Option<Condensation>, CondenseError>, Vec<ModelCall>) {
        let model = &*equipment.model;
        let count = |length: usize| {
            let messages = message::messages(view.events().take(length)).unwrap_or_default();
            model.count_tokens(&messages, &equipment.schemas)
        };
        let has_token_limit =
            equipment.condensers.iter().any(|condenser| condenser.settings.max_tokens.is_some());
        let tokens = (has_token_limit || model.input_tokens_max().is_some())
            .then_some(Tokens { model_limit: model.input_tokens_max(), count: &count });
        let plans = condenser::plans(&equipment.condensers, view, tokens);
        let common = common(Source::Environment);
        let conversation: crate::event::Text = self.id.as_str().into();
        let aside = Aside {
            cache_key: Some(conversation.clone()),
            session: Some(conversation),
            ..Aside::new(cancel)
        };
        let asked = condenser::condense(&equipment.condensers, plans, view, &common, &aside);
        let Condensed { event, replies } = tokio::select! {
            biased;
            () = cancel.cancelled() => Condensed { event: Err(CondenseError::Cancelled), replies: Vec::new() },
            condensed = asked => condensed,
        };
        let calls = replies.iter().map(|reply| spent(asked_by(equipment, reply), reply)).collect();
        (event, calls)
    }

    /// Rebuilds the view from the stored branch, so that all rules for views hold again.
    pub(super) async fn rebuild(&self, live: &mut Live) -> Result<()> {
        let unknown = || crate::Error::UnknownConversation { conversation: self.id.to_string() };
        let mut stored = load::stored(&self.host, &self.id).await?.ok_or_else(unknown)?;
        stored.leaf = live.leaf.clone();
        live.branch = Branch::resumed(&stored.branch(&self.id)?);
        Ok(())
    }
}

/// Returns the condenser's model that gave a reply.
fn asked_by<'e>(equipment: &'e Equipment, reply: &Reply) -> &'e dyn Model {
    let models = || equipment.condensers.iter().map(|condenser| &*condenser.model);
    let named = models().find(|model| model.name() == reply.usage.model);
    named.or_else(|| models().next()).unwrap_or(&*equipment.model)
}
