//! The events of one conversation that wait to be sent, bounded in number and bytes.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::time::Instant;

use crate::server::webhook::WebhookSpec;

/// The events of one conversation that wait to be sent.
#[derive(Debug, Default)]
pub(super) struct Queue {
    events: VecDeque<Arc<str>>,
    bytes: usize,
    /// Since when the oldest event waits, or since when a batch was last taken or put back.
    since: Option<Instant>,
    /// Whether a task sends the events of this queue.
    pub is_attended: bool,
}

impl Queue {
    /// Adds an event. If there are too many, the oldest are dropped.
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

    /// Returns the number of bytes of the next batch.
    pub fn batch_bytes(&self, spec: &WebhookSpec) -> usize {
        self.batch(spec).1
    }

    /// Returns the number of events and of bytes of the next batch. An event that is larger than a batch may be is sent
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

    /// Returns the number of bytes that wait.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Drops the oldest event. Returns its number of bytes.
    pub fn drop_one(&mut self) -> usize {
        let bytes = self.events.pop_front().map_or(0, |event| event.len());
        self.bytes -= bytes;
        bytes
    }

    /// Puts back a batch that was not accepted, before the events that were added since.
    pub fn put_back(&mut self, batch: Vec<Arc<str>>, spec: &WebhookSpec, now: Instant) {
        for event in batch.into_iter().rev() {
            self.bytes += event.len();
            self.events.push_front(event);
        }
        self.since = Some(now);
        self.drop_oldest(spec);
    }

    /// Returns when the next batch is due. `None` if no events wait.
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
    fn the_oldest_events_are_dropped_if_there_are_too_many() {
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
    fn the_bytes_of_a_batch_are_bounded() {
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
