//! The store for async programs: the same file and the same guarantees, and no call that blocks the runtime.
//!
//! [`Store`] wraps a [`crate::Store`]. An append waits for its commit without a thread; concurrent appends share commits.
//! Reads run on the runtime's threads for blocking work, at most [`Options::pool_size`](crate::Options::pool_size) at a
//! time; further reads wait in line. A follower that waits for events has neither a thread nor a connection. Everything
//! here needs a tokio runtime.
//!
//! # Cancellation
//!
//! A future may be dropped at any time.
//!
//! * [`Store::append`]: the events are then stored or not stored, all of them or none. To find out, append the same
//!   events again: known events are answered with their places, and nothing is stored twice.
//! * [`Follower::next_page`] and [`Subscription::next_page`]: nothing is lost. The place moves only when a page is
//!   returned, so that the next call gives the events that the dropped one would have given.
//! * [`Subscription::acknowledge`] and [`Store::run`]: the work is done as a whole or not at all, and it may still be done
//!   after the future was dropped and after later calls. Wait for it before a call that must come after it.
//!
//! # Threads
//!
//! Use [`Store::append`] and not a blocking append within [`Store::run`]: a group of appends is committed by one of the
//! runtime's blocking threads, and must not wait for one that waits for it. [`Store::run`] within [`Store::run`] may wait
//! for itself. Dropping the last handle closes the file, which blocks for a moment.
//!
//! ```
//! # use annals::{ConversationId, Expected, NewEvent, Options, Position};
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let store = annals::aio::Store::from(annals::Store::in_memory(&Options::default())?);
//! let talk = ConversationId::new("talk")?;
//! let mut feed = store.follow(Position::START);
//! let shipped = NewEvent::of("shop.shipped", &serde_json::json!({"order": 17}))?;
//! store.append(&talk, Expected::Any, vec![shipped]).await?;
//! let page = feed.next_page(100).await?;
//! assert_eq!(page[0].event.kind, "shop.shipped");
//! let titled = talk.clone();
//! store.run(move |store| store.set_title(&titled, Some("A parcel"))).await?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};

use crate::error::{Error, Expected, Result};
use crate::event::NewEvent;
use crate::ids::{ConversationId, Position, Sequence};
use crate::store::{self, Append, Appended, EventPage, EventQuery, FeedEvent, Options};

/// A handle on a store for async programs. Cloning is cheap; clones work on the same file.
#[derive(Debug, Clone)]
pub struct Store {
    store: store::Store,
    /// One permit for each connection that reads.
    reads: Arc<Semaphore>,
}

/// A reader that follows the log; see [`Store::follow`].
#[derive(Debug)]
pub struct Follower {
    store: Store,
    follower: store::Follower,
}

/// A named follower whose place is kept in the file; see [`Store::subscription`].
#[derive(Debug)]
pub struct Subscription {
    store: Store,
    subscription: store::Subscription,
}

impl From<store::Store> for Store {
    /// Wraps a store that is open.
    fn from(store: store::Store) -> Self {
        let reads = Arc::new(Semaphore::new(store.connections_max()));
        Self { store, reads }
    }
}

impl Store {
    /// Opens the file at `path` as [`crate::Store::open_with`] does.
    ///
    /// # Errors
    /// As [`crate::Store::open_with`].
    pub async fn open_with(path: impl Into<PathBuf>, options: Options) -> Result<Self> {
        let path = path.into();
        blocking(move || store::Store::open_with(path, &options)).await.map(Self::from)
    }

    /// The store that this one wraps. Its methods block.
    #[must_use]
    pub fn blocking(&self) -> &store::Store {
        &self.store
    }

    /// Appends `events` as [`crate::Store::append`] does. Returns after the commit, which concurrent appends share.
    ///
    /// # Errors
    /// As [`crate::Store::append`], and [`Error::Overloaded`] if too many appends wait.
    pub async fn append(
        &self,
        conversation: &ConversationId,
        expected: Expected,
        events: Vec<NewEvent>,
    ) -> Result<Vec<Appended>> {
        let append = Append { expected, events, base_state: None, head: None };
        self.append_all(conversation, append).await
    }

    /// Appends as [`crate::Store::append_all`] does. Returns after the commit, which concurrent appends share.
    ///
    /// # Errors
    /// As [`crate::Store::append_all`], and [`Error::Overloaded`] if too many appends wait.
    pub async fn append_all(&self, conversation: &ConversationId, append: Append) -> Result<Vec<Appended>> {
        append_all(&self.store, conversation, append).await
    }

    /// A page of a conversation's events, as [`crate::Store::events`] gives it.
    ///
    /// # Errors
    /// As [`crate::Store::events`].
    pub async fn events(
        &self,
        conversation: &ConversationId,
        query: EventQuery,
        limit: usize,
    ) -> Result<EventPage> {
        let conversation = conversation.clone();
        self.run(move |store| store.events(&conversation, &query, limit)).await
    }

    /// Runs any other work on the store, on a thread that may block. At most as many run at once as the store has
    /// connections for reading.
    ///
    /// # Errors
    /// What `work` returns.
    ///
    /// # Panics
    /// If `work` panics.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&store::Store) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        // The semaphore is never closed.
        let permit = Arc::clone(&self.reads).acquire_owned().await.ok();
        let store = self.store.clone();
        blocking(move || {
            let _until_it_is_done = permit;
            work(&store)
        })
        .await
    }

    /// Follows every conversation, beginning after `after`; see [`crate::Store::follow`].
    #[must_use]
    pub fn follow(&self, after: Position) -> Follower {
        Follower { store: self.clone(), follower: self.store.follow(after) }
    }

    /// Follows one conversation, beginning with the event at `from`.
    #[must_use]
    pub fn follow_conversation(&self, conversation: &ConversationId, from: Sequence) -> Follower {
        Follower { store: self.clone(), follower: self.store.follow_conversation(conversation, from) }
    }

    /// The subscription of that name; see [`crate::Store::subscription`].
    ///
    /// # Errors
    /// As [`crate::Store::subscription`].
    pub async fn subscription(&self, name: impl Into<String>) -> Result<Subscription> {
        let name = name.into();
        let subscription = self.run(move |store| store.subscription(&name)).await?;
        Ok(Subscription { store: self.clone(), subscription })
    }
}

impl Follower {
    /// Delivers only events of these kinds; see [`crate::store::Follower::kinds`].
    #[must_use]
    pub fn kinds<K: Into<String>>(mut self, kinds: impl IntoIterator<Item = K>) -> Self {
        self.follower = self.follower.kinds(kinds);
        self
    }

    /// The place that the follower has reached; see [`crate::store::Follower::place`].
    #[must_use]
    pub fn place(&self) -> u64 {
        self.follower.place()
    }

    /// The next events, at least one and at most `limit`, as soon as there are any.
    ///
    /// # Errors
    /// As [`crate::store::Follower::next_page`].
    pub async fn next_page(&mut self, limit: usize) -> Result<Vec<FeedEvent>> {
        next_page(&self.store, &mut self.follower, limit).await
    }
}

impl Subscription {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.subscription.name()
    }

    /// Delivers only events of these kinds; see [`crate::store::Subscription::kinds`].
    #[must_use]
    pub fn kinds<K: Into<String>>(mut self, kinds: impl IntoIterator<Item = K>) -> Self {
        self.subscription = self.subscription.kinds(kinds);
        self
    }

    /// The next events, as [`Follower::next_page`] gives them.
    ///
    /// # Errors
    /// As [`Follower::next_page`].
    pub async fn next_page(&mut self, limit: usize) -> Result<Vec<FeedEvent>> {
        next_page(&self.store, self.subscription.follower(), limit).await
    }

    /// The position up to which events were delivered.
    #[must_use]
    pub fn delivered(&self) -> Position {
        self.subscription.delivered()
    }

    /// Acknowledges every event that was delivered; see [`crate::store::Subscription::acknowledge`].
    ///
    /// # Errors
    /// As [`crate::store::Subscription::acknowledge_to`].
    pub async fn acknowledge(&self) -> Result<()> {
        self.acknowledge_to(self.delivered()).await
    }

    /// Acknowledges the events up to `position`; see [`crate::store::Subscription::acknowledge_to`].
    ///
    /// # Errors
    /// As [`crate::store::Subscription::acknowledge_to`].
    pub async fn acknowledge_to(&self, position: Position) -> Result<()> {
        let acknowledgement = self.subscription.acknowledgement(position)?;
        blocking(move || acknowledgement.write()).await
    }
}

/// Appends without a thread that waits. One thread commits for all concurrent appends.
pub(crate) async fn append_all(
    store: &store::Store,
    conversation: &ConversationId,
    append: Append,
) -> Result<Vec<Appended>> {
    let (sender, receiver) = oneshot::channel();
    let runtime = Handle::current();
    let done = move |answer| {
        let _caller_gone = sender.send(answer);
    };
    store.append_later(conversation, append, done, move |lead| {
        runtime.spawn_blocking(move || drop(lead));
    });
    let lost = |_| Error::Storage { doing: "appending", source: "the writer ended without an answer".into() };
    receiver.await.map_err(lost)?
}

/// Reads until there is an event. `follower` moves only with a page that is returned, or past events of other kinds.
async fn next_page(store: &Store, follower: &mut store::Follower, limit: usize) -> Result<Vec<FeedEvent>> {
    loop {
        // Read before the log: a commit between the two then ends the wait at once.
        let ringing = store.store.ringing()?;
        let mut reader = follower.clone();
        let read = store.run(move |_| {
            let page = reader.next_page(limit, Duration::ZERO)?;
            Ok((reader, page))
        });
        let (reader, page) = read.await?;
        let has_moved = reader.place() != follower.place();
        *follower = reader;
        if !page.is_empty() {
            return Ok(page);
        }
        if !has_moved {
            ringing.await;
        }
    }
}

/// Runs `work` on a thread that may block. An error if the runtime ends before a thread is free.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(ended) => Err(Error::Storage { doing: "waiting for a thread", source: ended.into() }),
        },
    }
}
