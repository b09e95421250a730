//! Another model for the same conversation.

use super::base::Change;
use super::{Conversation, Result};
use crate::agent::AgentDocument;
use crate::event::Json;
use crate::event::json::Raw;

/// The member of a model's settings that tells what it is used for.
const USAGE_ID: &str = "usage_id";

impl Conversation {
    /// Lets the model that `llm` describes take over, from the next step on. A condenser that was asked with the same
    /// settings as the agent follows. What was spent under a use stays there.
    ///
    /// # Errors
    /// [`ConversationError::Model`](super::ConversationError::Model) where nobody makes such a model, and what the
    /// store can meet.
    pub async fn switch_llm(&self, llm: &Json) -> Result<()> {
        let local = &self.0;
        local.refuse_closed()?;
        let mut live = local.lock().await?;
        let agent = switched(&live.base.agent, llm);
        // Made before anything is written: a model that cannot be made is no model to go on with.
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

/// The agent with another model, and its condenser too where it had the same one.
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

/// An object with a member set.
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
    fn a_condenser_follows_where_it_had_the_agents_model() {
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
