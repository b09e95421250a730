//! One address, told batch after batch.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::WebhookSpec;
use super::queue::Queue;
use crate::ids::ConversationId;
use crate::llm::{Plain, Transport};
use crate::server::auth;
use crate::server::budget::{Budget, COPIES};
use crate::server::events::array;

/// How long a request may take; the reference's figure.
const PATIENCE: Duration = Duration::from_secs(30);

/// How much of an answer is read.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// The most tellings of conversations that wait, and the most bytes of them: 8 MiB.
const ANNOUNCEMENTS_MAX: usize = 1000;
const ANNOUNCEMENTS_BYTES_MAX: usize = 8 << 20;

/// What all batches that are being told to one address may take: 16 MiB. A batch is there twice, as its events and as the
/// body of its request.
const TELLING_BYTES_MAX: usize = 16 << 20;

/// One address.
pub(super) struct Delivery {
    spec: WebhookSpec,
    headers: Vec<(String, String)>,
    transport: Transport,
    /// The server's runtime: events come from a thread outside of it.
    runtime: tokio::runtime::Handle,
    waiting: Mutex<Waiting>,
    /// The most bytes that wait, of all conversations.
    bytes_max: usize,
    /// What is being told.
    telling: Budget,
    /// Told when something was queued.
    changed: Notify,
    /// Whether the server ends: nothing waits for more.
    hurries: AtomicBool,
}

/// What is to be told next.
enum Next {
    Nothing,
    Later(Instant),
    /// A batch of so many bytes.
    Now(usize),
}

#[derive(Default)]
struct Waiting {
    events: HashMap<ConversationId, Queue>,
    /// What all queues have.
    bytes: usize,
    conversations: VecDeque<String>,
    announcements_bytes: usize,
    /// Whether somebody is telling of conversations.
    is_announcing: bool,
}

impl Waiting {
    /// Changes the queue of a conversation; then the oldest events of the fullest queues go, where all have too much.
    fn change<T>(
        &mut self,
        conversation: &ConversationId,
        bytes_max: usize,
        change: impl FnOnce(&mut Queue) -> T,
    ) -> T {
        let queue = self.events.entry(conversation.clone()).or_default();
        let before = queue.bytes();
        let changed = change(queue);
        self.bytes = self.bytes - before + queue.bytes();
        while self.bytes > bytes_max {
            let Some(fullest) = self.events.values_mut().max_by_key(|queue| queue.bytes()) else { break };
            match fullest.drop_one() {
                0 => break,
                bytes => self.bytes -= bytes,
            }
        }
        changed
    }

    /// Forgets a conversation's queue.
    fn forget(&mut self, conversation: &ConversationId) {
        self.bytes -= self.events.remove(conversation).map_or(0, |queue| queue.bytes());
    }
}

impl Delivery {
    /// An address for which no more than so many bytes wait.
    pub fn new(spec: WebhookSpec, key: Option<&str>, transport: Transport, bytes_max: usize) -> Self {
        let mut headers = spec.headers.clone();
        headers.extend(key.map(|key| (auth::HEADER.to_owned(), key.to_owned())));
        let runtime = tokio::runtime::Handle::current();
        Self {
            spec,
            headers,
            transport,
            runtime,
            waiting: Mutex::default(),
            bytes_max,
            telling: Budget::new(TELLING_BYTES_MAX),
            changed: Notify::new(),
            hurries: AtomicBool::new(false),
        }
    }

    /// Has an event told, soon.
    pub fn event(self: &Arc<Self>, conversation: &ConversationId, event: &Arc<str>) {
        let is_attended = {
            self.lock().change(conversation, self.bytes_max, |queue| {
                queue.push(Arc::clone(event), &self.spec, Instant::now());
                std::mem::replace(&mut queue.is_attended, true)
            })
        };
        self.changed.notify_waiters();
        if !is_attended {
            let (delivery, conversation) = (Arc::clone(self), conversation.clone());
            self.runtime.spawn(async move { delivery.attend(&conversation).await });
        }
    }

    /// Has a conversation told, in its turn.
    pub fn announce(self: &Arc<Self>, info: String) {
        let mut waiting = self.lock();
        waiting.announcements_bytes += info.len();
        waiting.conversations.push_back(info);
        while waiting.conversations.len() > ANNOUNCEMENTS_MAX
            || (waiting.announcements_bytes > ANNOUNCEMENTS_BYTES_MAX && waiting.conversations.len() > 1)
        {
            let oldest = waiting.conversations.pop_front();
            waiting.announcements_bytes -= oldest.map_or(0, |info| info.len());
        }
        if !std::mem::replace(&mut waiting.is_announcing, true) {
            let delivery = Arc::clone(self);
            self.runtime.spawn(async move { delivery.announce_all().await });
        }
    }

    /// Has everything told that waits.
    pub async fn flush(&self) {
        self.hurries.store(true, Ordering::Release);
        while self.is_waiting() {
            self.changed.notify_waiters();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn is_waiting(&self) -> bool {
        let waiting = self.lock();
        waiting.is_announcing || !waiting.events.is_empty()
    }

    async fn announce_all(&self) {
        let url = format!("{}/conversations", self.spec.base_url);
        loop {
            let next = {
                let mut waiting = self.lock();
                let next = waiting.conversations.pop_front();
                waiting.announcements_bytes -= next.as_ref().map_or(0, String::len);
                waiting.is_announcing = next.is_some();
                next
            };
            let Some(info) = next else { return };
            // Nobody is waited for for ever: the next telling says how it is then.
            let _lost = self.post(&url, &info).await;
        }
    }

    /// Tells batch after batch, each when it is time, until nothing waits.
    async fn attend(&self, conversation: &ConversationId) {
        let url = format!("{}/events/{}", self.spec.base_url, conversation.folder_name());
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // From here on no change is missed.
            changed.as_mut().enable();
            let due = match self.next(conversation) {
                Next::Nothing => return,
                Next::Now(bytes) => bytes,
                Next::Later(due) => {
                    tokio::select! {
                        () = changed => {}
                        () = tokio::time::sleep_until(due) => {}
                    }
                    continue;
                }
            };
            // Until it has its turn the events stay in the queue, and the oldest may still go.
            let telling = self.telling.wait(due.saturating_mul(COPIES)).await;
            let batch = self.take(conversation);
            if batch.is_empty() {
                continue;
            }
            let body = array(batch.iter().map(ToString::to_string));
            let is_told = self.post(&url, &body).await;
            drop((body, telling));
            if !is_told {
                self.put_back(conversation, batch);
                if self.hurries.load(Ordering::Acquire) {
                    self.lock().forget(conversation);
                    return;
                }
                tokio::time::sleep(self.spec.retry_delay.max(self.spec.flush_delay)).await;
            }
        }
    }

    /// What is to be told next of a conversation; it is attended no more where there is nothing.
    fn next(&self, conversation: &ConversationId) -> Next {
        let mut waiting = self.lock();
        let Some(queue) = waiting.events.get_mut(conversation) else { return Next::Nothing };
        let Some(due) = queue.due(&self.spec) else {
            waiting.forget(conversation);
            return Next::Nothing;
        };
        if Instant::now() < due && !self.hurries.load(Ordering::Acquire) {
            return Next::Later(due);
        }
        Next::Now(queue.batch_bytes(&self.spec))
    }

    /// The next batch of a conversation.
    fn take(&self, conversation: &ConversationId) -> Vec<Arc<str>> {
        self.lock().change(conversation, self.bytes_max, |queue| queue.take(&self.spec, Instant::now()))
    }

    /// Puts a batch back that was not taken.
    fn put_back(&self, conversation: &ConversationId, batch: Vec<Arc<str>>) {
        self.lock().change(conversation, self.bytes_max, |queue| {
            queue.put_back(batch, &self.spec, Instant::now());
        });
    }

    /// Posts, as often as it takes and may; whether it was taken.
    async fn post(&self, url: &str, body: &str) -> bool {
        for attempt in 0..=self.spec.retries {
            if attempt > 0 {
                tokio::time::sleep(self.spec.retry_delay).await;
            }
            let plain = Plain {
                headers: self.headers.clone(),
                patience: PATIENCE,
                bytes_max: ANSWER_BYTES_MAX,
                ..Plain::post(url, body.to_owned())
            };
            if self.transport.send(plain).await.is_ok_and(|answer| (200..300).contains(&answer.status)) {
                return true;
            }
        }
        false
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
