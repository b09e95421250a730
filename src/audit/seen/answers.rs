//! The replies of models after an event: who was sent it.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::Sighting;
use crate::error::Result;
use crate::event::{Event, Source};
use crate::ids::{ConversationId, Sequence};
use crate::replay::{Memory, Moment, Point};
use crate::store::Store;

/// What of an event matters here.
#[derive(Default)]
struct Step {
    /// Its parent's place. `None` at a beginning.
    parent: Option<usize>,
    /// The number of the model's reply that it belongs to.
    reply: Option<usize>,
    /// The ids of the events that it takes out of the view.
    forgotten: HashSet<String>,
}

/// The events of a conversation, with the replies among them.
pub(super) struct Answers {
    steps: Vec<Step>,
    /// The ids of the replies, by number.
    replies: Vec<String>,
    /// The ids in the present view.
    in_view: HashSet<String>,
}

impl Answers {
    pub(super) fn read(store: &Store, id: &ConversationId) -> Result<Self> {
        let moment = Moment::new(store, id, Point::End)?;
        let tree = moment.tree()?;
        let mut answers = Self { steps: Vec::new(), replies: Vec::new(), in_view: HashSet::new() };
        let mut numbers: HashMap<String, usize> = HashMap::new();
        moment.each(|sequence, event| {
            let reply = match event {
                Event::Action(action) => Some(action.llm_response_id.to_string()),
                Event::Message(message) if message.common.source == Source::Agent => {
                    let reply = message.llm_response_id.as_deref().filter(|reply| !reply.is_empty());
                    Some(reply.unwrap_or(message.common.id.as_str()).to_owned())
                }
                _ => None,
            };
            let reply = reply.map(|reply| {
                *numbers.entry(reply).or_insert_with_key(|reply| {
                    answers.replies.push(reply.clone());
                    answers.replies.len() - 1
                })
            });
            let forgotten = match event {
                Event::Condensation(it) => it.forgotten_event_ids.iter().map(ToString::to_string).collect(),
                _ => HashSet::new(),
            };
            // In a damaged log a parent may be missing. Then nothing before the event was in the model's view.
            let parent = tree.parent(sequence.0 as usize).unwrap_or_default();
            answers.steps.push(Step { parent, reply, forgotten });
            Ok(())
        })?;
        if let Ok(branch) = moment.branch() {
            answers.in_view = moment.view_of(&branch, Memory::Reloaded)?.ids().map(str::to_owned).collect();
        }
        Ok(answers)
    }

    /// Adds to sightings what came after them.
    pub(super) fn complete(
        &self,
        store: &Store,
        id: &ConversationId,
        sightings: &mut [Sighting],
    ) -> Result<()> {
        let mut models: HashMap<usize, Option<String>> = HashMap::new();
        for sighting in sightings.iter_mut().filter(|sighting| sighting.is_sent) {
            let replies = self.after(sighting.sequence, &sighting.id);
            let mut known = BTreeSet::new();
            for number in &replies {
                let model = match models.get(number) {
                    Some(model) => model.clone(),
                    None => {
                        let usage = store.usage_of_reply(id, &self.replies[*number])?;
                        let model = usage.map(|usage| usage.model);
                        models.insert(*number, model.clone());
                        model
                    }
                };
                known.extend(model);
            }
            sighting.replies = replies.len() as u64;
            sighting.models = known.into_iter().collect();
            sighting.is_in_view = self.in_view.contains(&sighting.id);
        }
        Ok(())
    }

    /// Returns the numbers of the replies after an event, on every branch until it is forgotten there. The reply that the
    /// event belongs to does not count: it was made before.
    fn after(&self, sequence: Sequence, id: &str) -> BTreeSet<usize> {
        let first = sequence.0 as usize;
        let own = self.steps.get(first).and_then(|step| step.reply);
        let mut has_it = vec![false; self.steps.len()];
        let mut replies = BTreeSet::new();
        for (place, step) in self.steps.iter().enumerate().skip(first) {
            has_it[place] = place == first
                || step.parent.is_some_and(|parent| has_it[parent]) && !step.forgotten.contains(id);
            if has_it[place] && place > first {
                replies.extend(step.reply.filter(|reply| Some(*reply) != own));
            }
        }
        replies
    }
}
