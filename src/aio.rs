//! The store for async programs: the same file and the same guarantees, and no call that blocks the runtime.
//!
//! [`Store`] wraps a [`crate::Store`]. An append waits for its commit without a thread; concurrent appends share commits.
//! Everything else runs on the runtime's threads for blocking work, at most
//! [`Options::pool_size`](crate::Options::pool_size) calls at a time; further calls wait in line. All handles of one
//! [`crate::Store`] share this bound, however they were made. A follower that waits for events has neither a thread nor a
//! connection. Everything here needs a tokio runtime.
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
//!   after the future was dropped and after later calls. Wait for it before a call that must come after it. A late
//!   acknowledgement does no harm: it changes nothing once the subscription was moved, or deleted and made again.
//!
//! # Threads
//!
//! Appends are committed by threads of the store, usually one or two, which start with the first append. They are none of
//! the runtime's threads: appends are committed even if all of those are busy, or wait for an append themselves.
//! Work within [`Store::run`] that waits for another future of this module may wait for itself, unless that is an append.
//!
//! # Closing
//!
//! The last handle closes the file. Followers and subscriptions are handles too, and so is the work of [`Store::run`].
//! Dropping the last handle blocks until the threads of the store have ended. Usually this takes a moment: the appends
//! in line are committed, up to 512 at a time, and the projections catch up. If another process keeps the write lock
//! meanwhile, it takes up to twice [`Options::busy_timeout`](crate::Options::busy_timeout): the projections and the
//! appends may each wait once in vain. The appends that are left then fail with [`Error::Busy`] at once.
//! [`Store::close`] drops a handle without blocking the runtime.
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

use tokio::sync::oneshot;

use crate::error::{Error, Expected, Result};
use crate::event::NewEvent;
use crate::ids::{ConversationId, Position, Sequence};
use crate::store::{self, Append, Appended, EventPage, EventQuery, FeedEvent, FeedPlace, Options};

/// A handle on a store for async programs. Cloning is cheap; clones work on the same file.
#[derive(Debug, Clone)]
pub struct Store {
    store: store::Store,
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
        Self { store }
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
        let append = Append { expected, events, base_state: None, leaf: None };
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
    /// connections for reading, over all its handles.
    ///
    /// # Errors
    /// What `work` returns. [`Error::Forked`] in a process that did not open the store.
    ///
    /// # Panics
    /// If `work` panics.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&store::Store) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        // The semaphore is never closed.
        let permit = Arc::clone(self.store.permits()?).acquire_owned().await.ok();
        let store = self.store.clone();
        blocking(move || {
            let _until_it_is_done = permit;
            work(&store)
        })
        .await
    }

    /// Drops this handle on a thread that may block. If it is the last one, the file is closed when this returns. The
    /// [module](crate::aio#closing) says how long that takes.
    ///
    /// The handle is dropped even if the future is dropped.
    pub async fn close(self) {
        let dropped = blocking(move || {
            drop(self);
            Ok(())
        });
        // If the runtime ends before a thread is free, it drops the handle itself.
        let _ended_already = dropped.await;
    }

    /// Follows every conversation, beginning after `after`; see [`crate::Store::follow`].
    #[must_use]
    pub fn follow(&self, after: Position) -> Follower {
        Follower { store: self.clone(), follower: self.store.follow(after) }
    }

    /// Follows one conversation, beginning after the event at `after`; see [`crate::Store::follow_conversation`].
    #[must_use]
    pub fn follow_conversation(&self, conversation: &ConversationId, after: Option<Sequence>) -> Follower {
        Follower { store: self.clone(), follower: self.store.follow_conversation(conversation, after) }
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
    pub fn place(&self) -> FeedPlace {
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
        self.store.run(move |_| acknowledgement.write()).await
    }
}

/// Appends without a thread that waits. A thread of the store commits for all concurrent appends.
pub(crate) async fn append_all(
    store: &store::Store,
    conversation: &ConversationId,
    append: Append,
) -> Result<Vec<Appended>> {
    let (sender, receiver) = oneshot::channel();
    let done = move |answer| {
        let _caller_gone = sender.send(answer);
    };
    let leads = Arc::clone(store.leads());
    store.append_later(conversation, append, done, move |lead| leads.hand_over(lead));
    let lost = |_| Error::Storage { doing: "appending", source: "the writer ended without an answer".into() };
    receiver.await.map_err(lost)?
}

/// Reads until there is an event. `follower` moves only with a page that is returned, or past events of other kinds.
async fn next_page(store: &Store, follower: &mut store::Follower, limit: usize) -> Result<Vec<FeedEvent>> {
    loop {
        let mut reader = follower.clone();
        let read = store.run(move |store| {
            // Made before the log is read: a commit between the two then ends the wait at once.
            let notification = store.notification()?;
            let page = reader.next_page(limit, Duration::ZERO)?;
            Ok((notification, reader, page))
        });
        let (notification, reader, page) = read.await?;
        let has_moved = reader.place() != follower.place();
        *follower = reader;
        if !page.is_empty() {
            return Ok(page);
        }
        if !has_moved {
            notification.await;
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
