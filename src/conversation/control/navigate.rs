//! Moves HEAD within the log.

use crate::conversation::error::{ConversationError, Result};
use crate::conversation::local::Conversation;
use crate::conversation::memory::{Branch, load};
use crate::ids::EventId;

impl Conversation {
    /// Moves HEAD to `event`. From then on the model sees the branch that ends there. `None` moves HEAD before the
    /// first event. Nothing is deleted: the next event starts another branch. The status does not change.
    ///
    /// If the model is being asked for the former branch, its reply is ignored when it arrives.
    ///
    /// # Errors
    /// [`ConversationError::UnknownEvent`] if the conversation has no such event, and the errors of the store.
    pub async fn navigate_to(&self, event: Option<&EventId>) -> Result<()> {
        let local = &self.0;
        local.refuse_closed()?;
        let mut live = local.lock_between().await?;
        if let Some(event) = event.filter(|event| live.tree.place(event.as_str()).is_none()) {
            return Err(ConversationError::UnknownEvent { event: event.clone() });
        }
        let unknown = || crate::Error::UnknownConversation { conversation: local.id.to_string() };
        let mut stored = load::stored(&local.host, &local.id).await?.ok_or_else(unknown)?;
        stored.leaf = event.cloned();
        let branch = Branch::resumed(&stored.branch(&local.id)?);
        live.move_head(event.cloned(), branch);
        local.commit(&mut live).await
    }
}
