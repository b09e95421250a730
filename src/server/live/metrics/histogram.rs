//! Durations by size.

use std::time::Duration;

use super::text::Text;

/// The number of durations up to each of some bounds, and their sum.
#[derive(Debug)]
pub(super) struct Histogram {
    /// Upper bounds of the buckets, in seconds, in ascending order.
    bounds: &'static [f64],
    /// One bucket for each bound, and one for durations above all bounds.
    buckets: Vec<u64>,
    seconds: f64,
}

impl Histogram {
    /// Makes an empty histogram.
    pub(super) fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, buckets: vec![0; bounds.len() + 1], seconds: 0.0 }
    }

    /// Adds a duration.
    pub(super) fn add(&mut self, took: Duration) {
        let seconds = took.as_secs_f64();
        let bucket = self.bounds.iter().position(|bound| seconds <= *bound).unwrap_or(self.bounds.len());
        self.buckets[bucket] += 1;
        self.seconds += seconds;
    }

    /// Writes the lines of the metric `name`. Its head must be written before.
    pub(super) fn write(&self, text: &mut Text, name: &str, labels: &[(&str, &str)]) {
        let mut until = 0;
        for (number, one) in self.buckets.iter().enumerate() {
            until += one;
            let bound = self.bounds.get(number).map_or_else(|| "+Inf".to_owned(), f64::to_string);
            let labels: Vec<_> = labels.iter().copied().chain([("le", &*bound)]).collect();
            text.line(&format!("{name}_bucket"), &labels, until as f64);
        }
        text.line(&format!("{name}_sum"), labels, self.seconds);
        text.line(&format!("{name}_count"), labels, until as f64);
    }
}
