//! Metrics in Prometheus' text format. Why not a crate: the numbers are read from the store and the server when a scraper
//! asks, so that no registry is needed, and the text itself is a few lines.

use std::fmt::Write as _;

/// The kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) enum Kind {
    /// Only grows while the process runs.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts values by size.
    Histogram,
}

/// Metrics in Prometheus' text format.
#[derive(Default)]
pub(in crate::server) struct Text(String);

impl Text {
    /// Writes the description and the kind of a metric. Its lines must follow.
    pub fn head(&mut self, name: &str, kind: Kind, what: &str) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        self.put(format_args!("# HELP {name} {what}\n# TYPE {name} {kind}\n"));
    }

    /// Writes one line of a metric, with its labels.
    pub fn line(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        self.put(format_args!("{name}"));
        for (number, (label, text)) in labels.iter().enumerate() {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let mark = if number == 0 { '{' } else { ',' };
            self.put(format_args!("{mark}{label}=\"{text}\""));
        }
        let end = if labels.is_empty() { "" } else { "}" };
        self.put(format_args!("{end} {value}\n"));
    }

    /// Writes a metric that is a whole number without labels.
    pub fn one(&mut self, name: &str, kind: Kind, what: &str, value: u64) {
        self.real(name, kind, what, value as f64);
    }

    /// Writes a metric that is a number without labels.
    pub fn real(&mut self, name: &str, kind: Kind, what: &str, value: f64) {
        self.head(name, kind, what);
        self.line(name, &[], value);
    }

    /// Returns the whole text.
    pub fn into_string(self) -> String {
        self.0
    }

    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        let _ = self.0.write_fmt(text); // writing to a String cannot fail
    }
}
