//! What a server had not sent to the collector of telemetry when it ended.

use std::fmt;

/// What a server had not sent to the collector of telemetry when it ended. It is not sent later, because telemetry
/// begins at the end of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Undelivered {
    /// The number of spans in exports that failed or were not answered in time. An export that the collector accepted
    /// in part counts as accepted.
    pub spans: u64,
    /// The number of events at the end of the log from which no spans were made, at most. `None` if the end of the log
    /// could not be read in time.
    pub events: Option<u64>,
}

impl fmt::Display for Undelivered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the telemetry collector did not get ")?;
        match self.spans {
            0 => {}
            1 => f.write_str("1 span")?,
            spans => write!(f, "{spans} spans")?,
        }
        if self.spans > 0 && self.events != Some(0) {
            f.write_str(" and ")?;
        }
        match self.events {
            Some(0) => {}
            Some(1) => f.write_str("the spans of the last event")?,
            Some(events) => write!(f, "the spans of the last {events} events")?,
            None => f.write_str("the spans of the last events, which could not be read in time")?,
        }
        f.write_str("; they will not be sent later")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_in_plain_words() {
        let message = |spans, events| Undelivered { spans, events }.to_string();
        let end = "; they will not be sent later";
        assert_eq!(message(1, Some(0)), format!("the telemetry collector did not get 1 span{end}"));
        assert_eq!(
            message(12, Some(340)),
            format!("the telemetry collector did not get 12 spans and the spans of the last 340 events{end}")
        );
        assert_eq!(
            message(0, Some(1)),
            format!("the telemetry collector did not get the spans of the last event{end}")
        );
        assert!(
            message(2, None).contains("2 spans and the spans of the last events, which could not be read")
        );
    }
}
