//! Opening a conversation: a new one, a stored one, or a copy of an open one.
//!
//! A program makes a [`Builder`], sets its options and opens it. What a dead process left is cleaned up here. The room
//! names `local` and what lies below it; it makes no equipment and runs nothing.

mod builder;
mod folder;
mod fork;
mod obstacle;
mod recover;

pub use builder::Builder;
pub use fork::{ForkMetrics, ForkOptions};
pub(crate) use obstacle::Obstacle;

use crate::conversation::error::Result;
use crate::conversation::host::Host;
use crate::conversation::local::Conversation;
use crate::ids::ConversationId;

impl Conversation {
    /// Returns a [`Builder`], which opens a conversation.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Resumes a stored conversation with default settings. Use [`Builder::load`] to choose settings.
    ///
    /// # Errors
    /// As [`Builder::load`].
    pub async fn load(host: &Host, id: ConversationId) -> Result<Self> {
        Self::builder().host(host).id(id).load().await
    }
}
