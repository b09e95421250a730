//! Titles that a model gives.

use std::sync::Arc;

use serde_json::Value;

use super::App;
use super::meta::Meta;
use crate::conversation::Conversation;
use crate::llm::Model;

/// The longest title that is made, in code points; the reference's number.
const CHARACTERS_MAX: usize = 50;

/// Gives a conversation a title made of its first message, unless it has got one meanwhile.
pub(super) async fn give(app: Arc<App>, conversation: Conversation) {
    let id = conversation.id().clone();
    let known = id.clone();
    // Without its request the agent's own model makes it.
    let meta = app.ask(move |store| Meta::read(store, &known)).await.unwrap_or_default();
    let model = model(&app, meta.get("title_llm_profile"));
    // A conversation without a title is none the worse for it: nobody is told of what went wrong.
    let Ok(title) = conversation.generate_title(model, CHARACTERS_MAX).await else { return };
    let named = app.ask(move |store| {
        let row = store.conversation(&id)?;
        if row.is_titled { Ok(()) } else { store.set_title(&id, Some(&title)) }
    });
    let _gone = named.await;
}

/// The model of the profile that the request named.
fn model(app: &App, profile: &Value) -> Option<Arc<dyn Model>> {
    let settings = app.profiles().ok()?.load(profile.as_str()?, app.config().cipher.as_ref()).ok()?;
    app.sessions().opening.model(&settings).ok()
}
