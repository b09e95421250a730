//! What waits to be told of one conversation, bounded in events and bytes.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::time::Instant;

use super::WebhookSpec;

/// What waits to be told of one conversation.
#[derive(Debug, Default)]
pub(super) struct Queue {
    events: VecDeque<Arc<str>>,
    bytes: usize,
    /// When the oldest came.
    since: Option<Instant>,
    /// Whether somebody sees to it that it is told.
    pub is_attended: bool,
}

impl Queue {
    /// Adds an event; the oldest go where there are too many.
    pub fn push(&mut self, event: Arc<str>, spec: &WebhookSpec, now: Instant) {
        self.bytes += event.len();
        self.events.push_back(event);
        self.since.get_or_insert(now);
        self.drop_oldest(spec);
    }

    /// Takes the next batch.
    pub fn take(&mut self, spec: &WebhookSpec, now: Instant) -> Vec<Arc<str>> {
        let (n_events, bytes) = self.batch(spec);
        let batch = self.events.drain(..n_events).collect();
        self.bytes -= bytes;
        self.since = (!self.events.is_empty()).then_some(now);
        batch
    }

    /// How many bytes the next batch has.
    pub fn batch_bytes(&self, spec: &WebhookSpec) -> usize {
        self.batch(spec).1
    }

    /// How many events the next batch has, and how many bytes. A single event that is larger than a batch may be goes
    /// alone.
    fn batch(&self, spec: &WebhookSpec) -> (usize, usize) {
        let (mut n_events, mut bytes) = (0, 0);
        for event in &self.events {
            if n_events > 0 && bytes + event.len() > spec.batch_bytes_max {
                break;
            }
            n_events += 1;
            bytes += event.len();
        }
        (n_events, bytes)
    }

    /// How many bytes wait.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Lets go of the oldest event; how many bytes it had.
    pub fn drop_one(&mut self) -> usize {
        let bytes = self.events.pop_front().map_or(0, |event| event.len());
        self.bytes -= bytes;
        bytes
    }

    /// Puts a batch back that nobody took, before what came since.
    pub fn put_back(&mut self, batch: Vec<Arc<str>>, spec: &WebhookSpec, now: Instant) {
        for event in batch.into_iter().rev() {
            self.bytes += event.len();
            self.events.push_front(event);
        }
        self.since = Some(now);
        self.drop_oldest(spec);
    }

    /// When the next batch is to go; `None` where nothing waits.
    pub fn due(&self, spec: &WebhookSpec) -> Option<Instant> {
        let since = self.since?;
        Some(if self.events.len() >= spec.events_max { since } else { since + spec.flush_delay })
    }

    fn drop_oldest(&mut self, spec: &WebhookSpec) {
        while self.events.len() > spec.queue_events_max
            || (self.bytes > spec.queue_bytes_max && self.events.len() > 1)
        {
            self.drop_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn texts(batch: Vec<Arc<str>>) -> Vec<String> {
        batch.into_iter().map(|event| event.to_string()).collect()
    }

    #[test]
    fn a_batch_is_due_when_it_is_full_or_late() {
        let spec = WebhookSpec { events_max: 2, ..WebhookSpec::new("http://a") };
        let (mut queue, now) = (Queue::default(), Instant::now());
        assert_eq!(queue.due(&spec), None);
        queue.push("1".into(), &spec, now);
        assert_eq!(queue.due(&spec), Some(now + Duration::from_secs(30)));
        queue.push("2".into(), &spec, now + Duration::from_secs(1));
        assert_eq!(queue.due(&spec), Some(now));
        assert_eq!(texts(queue.take(&spec, now)), ["1", "2"]);
        assert_eq!(queue.due(&spec), None);
    }

    #[test]
    fn the_oldest_go_where_there_are_too_many() {
        let spec = WebhookSpec { queue_events_max: 3, ..WebhookSpec::new("http://a") };
        let (mut queue, now) = (Queue::default(), Instant::now());
        for event in ["1", "2", "3"] {
            queue.push(event.into(), &spec, now);
        }
        let batch = queue.take(&spec, now);
        queue.push("4".into(), &spec, now);
        queue.put_back(batch, &spec, now);
        assert_eq!(texts(queue.take(&spec, now)), ["2", "3", "4"]);
        assert_eq!(queue.bytes, 0);
    }

    #[test]
    fn a_batch_has_so_many_bytes() {
        let spec = WebhookSpec { batch_bytes_max: 3, ..WebhookSpec::new("http://a") };
        let (mut queue, now) = (Queue::default(), Instant::now());
        for event in ["11", "22", "333333"] {
            queue.push(event.into(), &spec, now);
        }
        let mut batches = Vec::new();
        while queue.due(&spec).is_some() {
            batches.push(queue.take(&spec, now).len());
        }
        assert_eq!(batches, [1, 1, 1]);
    }
}
