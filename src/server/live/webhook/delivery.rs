//! The delivery of events and conversations to one address.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::queue::Queue;
use crate::ids::ConversationId;
use crate::llm::{Plain, Transport};
use crate::secret::without_credentials;
use crate::server::http::auth;
use crate::server::http::budget::{Budget, COPIES};
use crate::server::http::json::array;
use crate::server::live::metrics::Work;
use crate::server::live::notice;
use crate::server::webhook::WebhookSpec;

/// How long a request may take. It is the reference's limit.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The maximum number of bytes of a response that are read.
const RESPONSE_BYTES_MAX: usize = 64 << 10;

/// The maximum number of waiting announcements of conversations, and their maximum size in total: 8 MiB.
const ANNOUNCEMENTS_MAX: usize = 1000;
const ANNOUNCEMENTS_BYTES_MAX: usize = 8 << 20;

/// The maximum memory of all batches that are being sent to one address: 16 MiB. A batch is in memory twice: as its
/// events, and as the body of its request.
const SENDING_BYTES_MAX: usize = 16 << 20;

/// One address.
pub(super) struct Delivery {
    spec: WebhookSpec,
    headers: Vec<(String, String)>,
    transport: Transport,
    /// The server's runtime. Events come from a thread outside of it.
    runtime: tokio::runtime::Handle,
    waiting: Mutex<Waiting>,
    /// The maximum number of bytes that wait, for all conversations together.
    bytes_max: usize,
    /// The memory of the batches that are being sent.
    sending: Budget,
    /// Notified when an event was queued.
    changed: Notify,
    /// Whether the server ends. Batches are then sent at once.
    is_ending: AtomicBool,
    /// Whether the last request failed.
    is_failing: AtomicBool,
    /// Where the requests are counted.
    work: Arc<Work>,
}

/// The next batch of a conversation.
enum Next {
    /// No events wait.
    Nothing,
    /// It is due at this time.
    Later(Instant),
    /// It is due, and has so many bytes.
    Now(usize),
}

#[derive(Default)]
struct Waiting {
    events: HashMap<ConversationId, Queue>,
    /// The number of bytes of all queues.
    bytes: usize,
    /// The announcements of conversations that wait.
    conversations: VecDeque<String>,
    announcements_bytes: usize,
    /// Whether a task is sending announcements.
    is_announcing: bool,
}

impl Waiting {
    /// Changes the queue of a conversation. If all queues together are too large then, drops the oldest events of the
    /// largest queues.
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

    /// Removes a conversation's queue.
    fn forget(&mut self, conversation: &ConversationId) {
        self.bytes -= self.events.remove(conversation).map_or(0, |queue| queue.bytes());
    }
}

impl Delivery {
    /// Makes the delivery to an address. At most `bytes_max` bytes of events wait for it.
    pub fn new(
        spec: WebhookSpec,
        key: Option<&str>,
        transport: Transport,
        bytes_max: usize,
        work: Arc<Work>,
    ) -> Self {
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
            sending: Budget::new(SENDING_BYTES_MAX),
            changed: Notify::new(),
            is_ending: AtomicBool::new(false),
            is_failing: AtomicBool::new(false),
            work,
        }
    }

    /// Queues an event, and starts a task that sends the conversation's events unless one runs.
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
            self.runtime.spawn(async move { delivery.send_events(&conversation).await });
        }
    }

    /// Queues an announcement of a conversation, and starts a task that sends announcements unless one runs.
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

    /// Sends everything that waits.
    pub async fn flush(&self) {
        self.is_ending.store(true, Ordering::Release);
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
            // A failed announcement is dropped. The next one contains the conversation's newest state.
            let _lost = self.post(&url, &info).await;
        }
    }

    /// Sends the batches of a conversation, each when it is due, until no events wait.
    async fn send_events(&self, conversation: &ConversationId) {
        let url = format!("{}/events/{}", self.spec.base_url, conversation.folder_name());
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // From here on, no notification is missed.
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
            // The events stay in the queue until there is memory. The oldest may still be dropped.
            let charge = self.sending.wait(due.saturating_mul(COPIES)).await;
            let batch = self.take(conversation);
            if batch.is_empty() {
                continue;
            }
            let body = array(batch.iter().map(ToString::to_string));
            let is_sent = self.post(&url, &body).await;
            drop((body, charge));
            if !is_sent {
                self.put_back(conversation, batch);
                if self.is_ending.load(Ordering::Acquire) {
                    self.lock().forget(conversation);
                    return;
                }
                tokio::time::sleep(self.spec.retry_delay.max(self.spec.flush_delay)).await;
            }
        }
    }

    /// Returns the next batch of a conversation. If no events wait, removes the queue; the sending task ends then.
    fn next(&self, conversation: &ConversationId) -> Next {
        let mut waiting = self.lock();
        let Some(queue) = waiting.events.get_mut(conversation) else { return Next::Nothing };
        let Some(due) = queue.due(&self.spec) else {
            waiting.forget(conversation);
            return Next::Nothing;
        };
        if Instant::now() < due && !self.is_ending.load(Ordering::Acquire) {
            return Next::Later(due);
        }
        Next::Now(queue.batch_bytes(&self.spec))
    }

    /// Takes the next batch of a conversation from its queue.
    fn take(&self, conversation: &ConversationId) -> Vec<Arc<str>> {
        self.lock().change(conversation, self.bytes_max, |queue| queue.take(&self.spec, Instant::now()))
    }

    /// Puts a batch that was not accepted back into the queue.
    fn put_back(&self, conversation: &ConversationId, batch: Vec<Arc<str>>) {
        self.lock().change(conversation, self.bytes_max, |queue| {
            queue.put_back(batch, &self.spec, Instant::now());
        });
    }

    /// Posts a body, and retries as often as the settings allow. Returns whether it was accepted.
    async fn post(&self, url: &str, body: &str) -> bool {
        let mut reason = String::new();
        for attempt in 0..=self.spec.retries {
            if attempt > 0 {
                tokio::time::sleep(self.spec.retry_delay).await;
            }
            let plain = Plain {
                headers: self.headers.clone(),
                patience: REQUEST_TIMEOUT,
                bytes_max: RESPONSE_BYTES_MAX,
                ..Plain::post(url, body.to_owned())
            };
            reason = match self.transport.send(plain).await {
                Ok(answer) if (200..300).contains(&answer.status) => {
                    self.work.count_webhook(true);
                    if self.is_failing.swap(false, Ordering::AcqRel) {
                        notice::webhook_recovered(&self.address());
                    }
                    return true;
                }
                Ok(answer) => format!("it answered with status {}", answer.status),
                Err(error) => error.to_string(),
            };
            self.work.count_webhook(false);
        }
        // A failure that lasts is reported once.
        if !self.is_failing.swap(true, Ordering::AcqRel) {
            let tries = self.spec.retries.saturating_add(1);
            notice::webhook_failed(&self.address(), tries, &without_credentials(&reason));
        }
        false
    }

    /// Returns the address for the operator: without credentials.
    fn address(&self) -> String {
        without_credentials(&self.spec.base_url)
    }

    /// Returns the bytes of the events that wait.
    pub fn bytes_waiting(&self) -> usize {
        self.lock().bytes
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
