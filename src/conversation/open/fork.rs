//! Forks a conversation: makes an independent copy.
//!
//! Events are copied byte for byte, including ids and parents. Unlike in the reference, a fork keeps everything that
//! its agent needs to run as before: policy, analyzer, hooks, and secrets, sealed with the same key. Actions without an
//! answer wait for consent in the fork. Source: `docs/reference/operations.md#forks`.

use std::path::PathBuf;

use crate::agent::AgentDocument;
use crate::conversation::error::{ConversationError, Result};
use crate::conversation::local::{Conversation, Local};
use crate::conversation::memory::{Base, Change, Live, check_tags, load};
use crate::error::Expected;
use crate::event::{NewEvent, Text};
use crate::ids::{ConversationId, EventId, Sequence};
use crate::state::{ExecutionStatus, Stats};
use crate::store::{Append, BATCH_BYTES_MAX, BATCH_EVENTS_MAX, Leaf, Store};

/// The options of a fork.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ForkOptions {
    /// The fork's id. `None`: a new id.
    pub id: Option<ConversationId>,
    /// Copies only the branch up to this event, which becomes HEAD. `None`: the whole log, with the same HEAD.
    pub from_event: Option<EventId>,
    /// The fork's agent. `None`: the same agent.
    pub agent: Option<AgentDocument>,
    /// The fork's tags. The tags of the original are not copied.
    pub tags: Vec<(String, String)>,
    /// Whether the fork starts with the costs of the original's model calls.
    pub metrics: ForkMetrics,
}

setters!(ForkOptions {
    id?: ConversationId,
    from_event?: EventId,
    agent?: AgentDocument,
    tags: Vec<(String, String)>,
    metrics: ForkMetrics,
});

/// Whether a fork starts with the costs of the original's model calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ForkMetrics {
    /// The fork starts without costs.
    #[default]
    Reset,
    /// The fork starts with the costs so far.
    Keep,
}

impl Conversation {
    /// Copies this conversation within the store. The copy is idle, or waits for consent if it has actions without an
    /// answer.
    ///
    /// # Errors
    /// [`ConversationError::UnknownEvent`] if the conversation has no such event,
    /// [`crate::Error::ConversationExists`] if the id is taken, and the errors of the store.
    pub async fn fork(&self, options: ForkOptions) -> Result<Self> {
        check_tags(&options.tags)?;
        let source = &self.0;
        source.refuse_closed()?;
        let id = options.id.clone().unwrap_or_else(ConversationId::mint);
        let live = source.lock().await?;
        if let Some(event) =
            options.from_event.as_ref().filter(|event| live.tree.place(event.as_str()).is_none())
        {
            return Err(ConversationError::UnknownEvent { event: event.clone() });
        }
        let keep_dir = source.sibling_dir(&id);
        let base = forked_base(
            &live,
            &options,
            keep_dir.as_deref().map(|dir| dir.to_string_lossy().as_ref().into()),
        );
        let copy = Copy {
            from: source.id.clone(),
            to: id.clone(),
            only: options.from_event.as_ref().map(|event| branch_ids(&live, event)).transpose()?,
            leaf: match (&options.from_event, &live.leaf) {
                (Some(event), _) | (None, Some(event)) => Some(Leaf::At(event.clone())),
                (None, None) => live.head_is_empty.then_some(Leaf::Empty),
            },
            at: options.from_event.clone(),
        };
        let fields = base.written(&id, &live.sealing);
        let (sealing, updates) = (live.sealing.clone(), live.updates);
        source.host.call(move |store| copy.write(store, fields)).await?;
        drop(live);
        let stored = load::stored(&source.host, &id).await?;
        let unknown = || crate::Error::UnknownConversation { conversation: id.to_string() };
        let live = stored.ok_or_else(unknown)?.into_live(&id, base, sealing, updates)?;
        let mut parts = source.parts.clone();
        parts.callbacks.clear();
        parts.on_delta = None;
        let (host, folder) = (source.host.clone(), source.working_dir.clone());
        let fork = Local::new(id, host, live, folder, keep_dir, parts);
        fork.wait_for_consent().await?;
        Ok(Self(fork))
    }
}

impl Local {
    /// Returns the folder for another conversation's files, beside the folder of this one.
    fn sibling_dir(&self, id: &ConversationId) -> Option<PathBuf> {
        Some(self.keep_dir.as_deref()?.parent()?.join(id.folder_name()))
    }

    /// Lets actions without an answer wait for consent, because they may already have been carried out elsewhere.
    async fn wait_for_consent(&self) -> Result<()> {
        let mut live = self.lock().await?;
        if !live.branch.pending().is_empty() {
            live.set(Change::Status(ExecutionStatus::WaitingForConfirmation));
            self.commit(&mut live).await?;
        }
        Ok(())
    }
}

fn forked_base(live: &Live, options: &ForkOptions, persistence_dir: Option<Text>) -> Base {
    let stats = match options.metrics {
        ForkMetrics::Reset => Stats::default(),
        ForkMetrics::Keep => live.base.stats.clone(),
    };
    Base {
        agent: options.agent.clone().unwrap_or_else(|| live.base.agent.clone()),
        persistence_dir,
        status: ExecutionStatus::Idle,
        invoked_skills: Vec::new(),
        last_user_message: None,
        tags: options.tags.clone(),
        stats,
        ..live.base.clone()
    }
}

fn branch_ids(live: &Live, event: &EventId) -> Result<std::collections::HashSet<String>> {
    let places = live.tree.branch(Some(event.as_str()));
    let places = places.map_err(|_| ConversationError::UnknownEvent { event: event.clone() })?;
    Ok(places.into_iter().filter_map(|place| live.tree.id(place)).map(str::to_owned).collect())
}

/// The description of a copy.
struct Copy {
    from: ConversationId,
    to: ConversationId,
    /// The ids of the events to copy. `None`: all events.
    only: Option<std::collections::HashSet<String>>,
    leaf: Option<Leaf>,
    at: Option<EventId>,
}

impl Copy {
    /// Copies in as many transactions as needed. The base state comes last, so that an incomplete copy has none.
    fn write(self, store: &Store, fields: Vec<crate::state::base::FieldChange>) -> crate::Result<()> {
        store.begin_fork(&self.to, &self.from, self.at.as_ref())?;
        let mut batch: Vec<NewEvent> = Vec::new();
        let (mut bytes, mut written) = (0, 0);
        let mut flush = |batch: &mut Vec<NewEvent>| -> crate::Result<()> {
            let events = std::mem::take(batch);
            let count = events.len() as u64;
            store.append_all(&self.to, Append::new(Expected::Exact(written), events))?;
            written += count;
            Ok(())
        };
        store.scan(&self.from, Sequence(0), |stored| {
            if self.only.as_ref().is_none_or(|only| only.contains(stored.id)) {
                let id = EventId::new(stored.id)?;
                if batch.len() == BATCH_EVENTS_MAX || bytes + stored.payload.len() > BATCH_BYTES_MAX {
                    flush(&mut batch)?;
                    bytes = 0;
                }
                bytes += stored.payload.len();
                batch.push(NewEvent::parse_lenient(stored.payload, || id)?);
            }
            Ok(true)
        })?;
        if !batch.is_empty() {
            flush(&mut batch)?;
        }
        store.end_fork(&self.to, written, self.leaf.as_ref(), fields)
    }
}
