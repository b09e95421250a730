//! Moving HEAD within the log.

use super::branch::Branch;
use super::{Conversation, ConversationError, Result, load};
use crate::ids::EventId;

impl Conversation {
    /// Moves HEAD to `event`, whose branch is what the model sees from then on; `None` stands before everything.
    /// Nothing is deleted: the next event begins another branch. The status stays.
    ///
    /// A reply that is on its way to the model's former branch counts for nothing when it comes.
    ///
    /// # Errors
    /// [`ConversationError::UnknownEvent`], and what the store can meet.
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
