//! Titles that a model generates.

use std::sync::Arc;

use serde_json::Value;

use super::App;
use super::meta::Meta;
use crate::conversation::Conversation;
use crate::llm::Model;
use crate::llm::profiles::Profiles;

/// The maximum length of a generated title, in code points. It is the reference's.
const CHARACTERS_MAX: usize = 50;

/// Generates a title from a conversation's first message, and stores it unless the conversation has a title by then.
pub(super) async fn give(app: Arc<App>, conversation: Conversation) {
    let id = conversation.id().clone();
    let known = id.clone();
    // If the stored request cannot be read, the agent's own model generates the title.
    let meta = app.ask(move |store| Meta::read(store, &known)).await.unwrap_or_default();
    let model = model(&app, meta.get("title_llm_profile"));
    // A title is optional, so an error is not reported.
    let Ok(title) = conversation.generate_title(model, CHARACTERS_MAX).await else { return };
    let named = app.ask(move |store| {
        let row = store.conversation(&id)?;
        if row.is_titled { Ok(()) } else { store.set_title(&id, Some(&title)) }
    });
    let _gone = named.await;
}

/// Returns the model of the profile that the request named. `None` if it named none, or the profile cannot be used.
fn model(app: &App, profile: &Value) -> Option<Arc<dyn Model>> {
    let settings = Profiles::open(app.config().profiles_dir())
        .ok()?
        .load(profile.as_str()?, app.config().cipher.as_ref())
        .ok()?;
    app.sessions().opening.model(&settings).ok()
}
