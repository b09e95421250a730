//! Replaces the model of a conversation.

use crate::agent::AgentDocument;
use crate::conversation::error::Result;
use crate::conversation::local::Conversation;
use crate::conversation::memory::Change;
use crate::event::Json;
use crate::json::Raw;

/// The member of a model's settings under which its costs are recorded.
const USAGE_ID: &str = "usage_id";

impl Conversation {
    /// Replaces the agent's model by the one that `llm` describes, from the next step on. A condenser that had the same
    /// settings as the agent gets the new model too. Costs that are already recorded under a usage id stay there.
    ///
    /// # Errors
    /// [`ConversationError::Model`](crate::conversation::ConversationError::Model) if the model cannot be made, and the errors of the
    /// store.
    pub async fn switch_llm(&self, llm: &Json) -> Result<()> {
        let local = &self.0;
        local.refuse_closed()?;
        let mut live = local.lock().await?;
        let agent = switched(&live.base.agent, llm);
        // The model is made before anything is written, so that a failure changes nothing.
        let equipment = match local.equipment() {
            Some(equipment) => Some(local.with_model(&equipment, &agent)?),
            None => {
                local.make_model(agent.llm())?;
                None
            }
        };
        live.set(Change::Agent(agent));
        local.commit(&mut live).await?;
        if let Some(equipment) = equipment {
            local.equip(equipment);
        }
        Ok(())
    }
}

/// Returns the agent with another model. Its condenser gets the new model too if it had the same one.
fn switched(agent: &AgentDocument, llm: &Json) -> AgentDocument {
    let same = |one: Raw<'_>, other: Raw<'_>| {
        let members = |llm: Raw<'_>| -> Vec<(String, String)> {
            let kept = llm.members().filter(|(name, _)| name != USAGE_ID);
            let mut kept: Vec<_> =
                kept.map(|(name, value)| (name.into_owned(), value.text().to_owned())).collect();
            kept.sort_unstable();
            kept
        };
        members(one) == members(other)
    };
    let condenser = agent.condenser();
    let follows = condenser.and_then(|condenser| condenser.get("llm")).zip(agent.llm());
    let new = match condenser.zip(follows) {
        Some((condenser, (own, old))) if same(own, old) => {
            let usage = own.get(USAGE_ID).map(Json::from);
            let llm = with(llm.raw(), USAGE_ID, usage.as_ref());
            Some(with(condenser, "llm", Some(&llm)))
        }
        Some(_) | None => None,
    };
    let agent = agent.with("llm", Some(llm));
    match new {
        Some(condenser) => agent.with("condenser", Some(&condenser)),
        None => agent,
    }
}

/// Returns the object with the member set.
fn with(object: Raw<'_>, member: &str, value: Option<&Json>) -> Json {
    match AgentDocument::parse(object.text()) {
        Ok(document) => document.with(member, value).json().clone(),
        Err(_) => object.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condenser_with_the_agents_model_gets_the_new_one() {
        let agent = AgentDocument::parse(
            r#"{"llm":{"model":"a","usage_id":"agent"},"condenser":{"llm":{"usage_id":"condenser","model":"a"},"kind":"C"},"kind":"Agent"}"#,
        )
        .unwrap();
        let llm = Json::parse(r#"{"model":"b","usage_id":"agent"}"#).unwrap();
        assert_eq!(
            switched(&agent, &llm).json().text(),
            r#"{"llm":{"model":"b","usage_id":"agent"},"condenser":{"llm":{"model":"b","usage_id":"condenser"},"kind":"C"},"kind":"Agent"}"#
        );
        let own = Json::parse(r#"{"llm":{"model":"c"},"kind":"C"}"#).unwrap();
        let agent = agent.with("condenser", Some(&own));
        assert_eq!(switched(&agent, &llm).condenser().unwrap().text(), own.text());
    }
}
