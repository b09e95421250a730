//! Steps through a conversation: returns any event of its log, and the state right after it.
//!
//! The state that follows from the earlier events is folded once, forwards. A few words are kept for each event, so
//! that stepping back needs no new fold. Payloads are read one page at a time. Memory does not grow with them.

use std::collections::VecDeque;

use super::{Point, read};
use crate::error::Result;
use crate::event::{Event, inert};
use crate::ids::{ConversationId, Sequence, Timestamp};
use crate::state::{ExecutionStatus, Ledger, Spent, State, Stats, Usage};
use crate::store::Store;
use crate::tree::Tree;

/// The maximum number of events of a page, and of bytes of their payloads.
const PAGE: usize = 64;
const PAGE_BYTES: usize = 4 << 20;

/// One event, and the state of the conversation right after it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Step {
    /// The place in the log.
    pub sequence: Sequence,
    /// The event.
    pub event: Event,
    /// The status after the event.
    pub status: ExecutionStatus,
    /// The number of steps that the agent had taken by then.
    pub iteration: u64,
    /// The tokens and cost that were spent by then, and for this event.
    pub spent: Spent,
    /// Whether `spent` has something that the step before did not have.
    pub is_spent_news: bool,
    /// The time since the event before it, in microseconds, by their own timestamps. `None` if a timestamp is missing
    /// or the clock went backwards.
    pub after: Option<i64>,
    /// The event that it follows in the tree.
    pub follows: Follows,
    /// The action that it answers. `None` if it names none.
    pub answers: Option<Sequence>,
    /// The last action by then.
    pub last_action: Option<Sequence>,
}

/// What an event follows in the tree, counting only events that the model sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Follows {
    /// The last one in the log.
    Last,
    /// An earlier event: another branch begins here, or is continued.
    Earlier(Sequence),
    /// No event, although there are earlier ones: another tree begins.
    Nothing,
}

/// A conversation's log up to a point, for access in any order.
pub struct Recording<'s> {
    store: &'s Store,
    id: ConversationId,
    tree: Tree,
    /// The base state's values for the end of the log. `None` if the recording ends earlier.
    end: Option<End>,
    facts: Vec<Fact>,
    totals: Vec<Usage>,
    fold: Fold,
    page: VecDeque<Event>,
    /// The place of the first event of the page.
    page_from: usize,
}

/// The state at the end of a conversation, from its base state.
#[derive(Debug, Clone, Copy)]
struct End {
    status: Option<ExecutionStatus>,
    total: Option<Usage>,
}

/// The values that are kept for every folded event.
#[derive(Debug, Clone, Copy)]
struct Fact {
    status: ExecutionStatus,
    iteration: u64,
    after: Option<i64>,
    /// The index of the total in `totals`.
    total: Option<usize>,
    request: Option<Usage>,
    follows: Follows,
    last_action: Option<usize>,
}

/// The state that is carried from event to event.
#[derive(Default)]
struct Fold {
    state: State,
    ledger: Ledger,
    time: Option<Timestamp>,
    /// The last event that the model sees.
    last_seen: Option<usize>,
    last_action: Option<usize>,
}

impl<'s> Recording<'s> {
    /// Returns the conversation `id` up to `end`. Reads the tree from columns, and no payload.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`](crate::Error::UnknownConversation).
    pub fn new(store: &'s Store, id: &ConversationId, end: Point) -> Result<Self> {
        let events = store.conversation(id)?.event_count;
        let length = end.length(events);
        let base = store.base_state(id)?;
        let document = base.as_ref().map(|state| &state.document);
        let stats = document.and_then(|document| document.field("stats")).map(Stats::read);
        let ledger = stats.map_or_else(Ledger::new, Ledger::knowing);
        let status = document.and_then(|document| document.status());
        let end = End { status: status.and_then(|status| status.parse().ok()), total: ledger.all() };
        Ok(Self {
            store,
            id: id.clone(),
            tree: store.tree_until(id, length)?,
            end: (length == events).then_some(end),
            facts: Vec::new(),
            totals: Vec::new(),
            fold: Fold { ledger, ..Fold::default() },
            page: VecDeque::new(),
            page_from: 0,
        })
    }

    /// Returns the id of the conversation.
    #[must_use]
    pub fn id(&self) -> &ConversationId {
        &self.id
    }

    /// Returns the number of events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tree.len()
    }

    /// Returns whether there are no events.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tree.is_empty()
    }

    /// Returns the event at `place` and the state after it. `None` if `place` is behind the last event.
    ///
    /// Folds all earlier events that were not folded yet, and reads a page if the event is not on the present one.
    ///
    /// # Errors
    /// The errors of reading.
    pub fn step(&mut self, place: usize) -> Result<Option<Step>> {
        if place >= self.len() {
            return Ok(None);
        }
        self.fold_to(place)?;
        let event = match self.on_page(place) {
            Some(event) => event,
            None => {
                self.load_page(place)?;
                // A log only grows, so the event is still there.
                let Some(event) = self.on_page(place) else { return Ok(None) };
                event
            }
        };
        let fact = self.facts[place];
        let action = match &event {
            Event::Observation(answer) => Some(&*answer.action_id),
            Event::UserReject(refusal) => Some(&*refusal.action_id),
            Event::Message(_)
            | Event::Action(_)
            | Event::AgentError(_)
            | Event::SystemPrompt(_)
            | Event::Condensation(_)
            | Event::CondensationRequest(_)
            | Event::CondensationSummary(_)
            | Event::StateUpdate(_)
            | Event::ConversationError(_)
            | Event::Pause(_)
            | Event::Interrupt(_)
            | inert!()
            | Event::Unknown(_) => None,
        };
        let answers = action.and_then(|action| self.tree.place(action));
        let end = self.end.filter(|_| place + 1 == self.len());
        let total = end.and_then(|end| end.total).or(fact.total.map(|at| self.totals[at]));
        let before =
            place.checked_sub(1).and_then(|before| self.facts[before].total.map(|at| self.totals[at]));
        Ok(Some(Step {
            sequence: Sequence(place as u64),
            event,
            status: end.and_then(|end| end.status).unwrap_or(fact.status),
            iteration: fact.iteration,
            spent: Spent { total, request: fact.request },
            is_spent_news: fact.request.is_some() || total != before,
            after: fact.after,
            follows: fact.follows,
            answers: answers.map(|place| Sequence(place as u64)),
            last_action: fact.last_action.map(|place| Sequence(place as u64)),
        }))
    }

    /// Returns the time from the event at `from` to the one at `to`, in microseconds. Unknown times between events
    /// count as zero.
    ///
    /// # Errors
    /// The errors of reading.
    pub fn elapsed(&mut self, from: usize, to: usize) -> Result<u64> {
        if let Some(last) = self.len().checked_sub(1) {
            self.fold_to(to.min(last))?;
        }
        let gaps = self.facts.iter().take(to + 1).skip(from + 1).filter_map(|fact| fact.after);
        Ok(gaps.fold(0, |sum, after| sum.saturating_add(after.unsigned_abs())))
    }

    fn on_page(&self, place: usize) -> Option<Event> {
        self.page.get(place.checked_sub(self.page_from)?).cloned()
    }

    /// Folds the events that were not folded yet, up to `place`. The events near it stay on the page.
    fn fold_to(&mut self, place: usize) -> Result<()> {
        if place < self.facts.len() {
            return Ok(());
        }
        let from = self.facts.len();
        let until = (place + PAGE).min(self.len());
        let store = self.store;
        let id = self.id.clone();
        let mut bytes = 0;
        self.page.clear();
        self.page_from = from;
        store.scan(&id, Sequence(from as u64), |stored| {
            let event = read(&stored)?;
            let fact = self.fold.apply(&event, &self.tree, &mut self.totals);
            self.facts.push(fact);
            bytes += stored.payload.len();
            self.page.push_back(event);
            while self.page.len() > PAGE && self.page_from < place {
                self.page.pop_front();
                self.page_from += 1;
            }
            let next = self.facts.len();
            Ok(next < until && (next <= place || bytes < PAGE_BYTES))
        })
    }

    /// Reads a page with the event at `place`. The page begins before it, so that stepping back is cheap too.
    fn load_page(&mut self, place: usize) -> Result<()> {
        let from = place.saturating_sub(PAGE / 2);
        let store = self.store;
        let id = self.id.clone();
        let mut bytes = 0;
        self.page.clear();
        self.page_from = from;
        store.scan(&id, Sequence(from as u64), |stored| {
            self.page.push_back(read(&stored)?);
            bytes += stored.payload.len();
            if bytes > PAGE_BYTES && self.page_from < place && self.page.len() > 1 {
                self.page.pop_front();
                self.page_from += 1;
            }
            let next = self.page_from + self.page.len();
            Ok(next <= place || (self.page.len() < PAGE && bytes < PAGE_BYTES))
        })
    }
}

impl Fold {
    /// Applies the next event. Appends the total to `totals` if it differs from the last one.
    fn apply(&mut self, event: &Event, tree: &Tree, totals: &mut Vec<Usage>) -> Fact {
        let place = self.state.event_count() as usize;
        self.state.apply(event);
        let spent = self.ledger.apply(event);
        if let Some(total) = spent.total.filter(|total| totals.last() != Some(total)) {
            totals.push(total);
        }
        let time = Timestamp::parse(&event.common().timestamp);
        let after = time.zip(self.time).map(|(now, before)| now.0 - before.0).filter(|after| *after >= 0);
        self.time = time.or(self.time);
        // Hooks and state updates lie beside a branch. An event that skips them and follows their parent continues the
        // branch. So only events that the model sees are compared.
        let is_seen = event.is_llm_convertible();
        let follows = match tree.parent(place) {
            Ok(Some(parent)) if is_seen && Some(parent) < self.last_seen => {
                Follows::Earlier(Sequence(parent as u64))
            }
            Ok(None) if is_seen && self.last_seen.is_some() => Follows::Nothing,
            // Also if the parent is missing: then it is unknown which event this one follows.
            Ok(_) | Err(_) => Follows::Last,
        };
        if is_seen {
            self.last_seen = Some(place);
        }
        if let Event::Action(_) = event {
            self.last_action = Some(place);
        }
        Fact {
            status: self.state.execution_status(),
            iteration: self.state.iteration(),
            after,
            total: spent.total.and(totals.len().checked_sub(1)),
            request: spent.request,
            follows,
            last_action: self.last_action,
        }
    }
}
