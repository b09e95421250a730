//! How users name conversations and points in them: the arguments that several commands share.

use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::error::{Error, Result};
use crate::ids::{ConversationId, Timestamp};
use crate::replay::Point;
use crate::store::Store;

/// A conversation at a point.
#[derive(Debug, Args)]
pub(super) struct At {
    /// The conversation, by id or the start of one
    pub id: String,
    /// As it was at this point: a sequence (17), an event's id, or a time (2026-01-31T12:00:00)
    #[arg(long, value_name = "POINT")]
    pub at: Option<String>,
}

impl At {
    /// Returns the point in the conversation `id`: its end if no other is given.
    pub(super) fn point(&self, store: &Store, id: &ConversationId) -> Result<Point> {
        self.at.as_deref().map_or(Ok(Point::End), |text| Point::parse(store, id, text))
    }
}

/// The statuses that are stored.
const STATUSES: [&str; 7] =
    ["idle", "running", "paused", "waiting_for_confirmation", "finished", "error", "stuck"];

/// Which conversations to select.
#[derive(Debug, Args)]
pub(super) struct Which {
    /// Only these statuses
    #[arg(long, value_name = "STATUS", value_parser = PossibleValuesParser::new(STATUSES))]
    pub status: Vec<String>,
    /// Only with this tag, or with this value of it
    #[arg(long, value_name = "TAG[=VALUE]")]
    pub tag: Vec<String>,
    /// Only those last updated longer ago than this (90d, 12w, 1y, 36h), or before this time (2026-01-31)
    #[arg(long, value_name = "AGE", value_parser = age)]
    pub older_than: Option<Timestamp>,
}

impl Which {
    /// Returns the names and values of the tags.
    pub(super) fn tags(&self) -> Vec<(String, Option<String>)> {
        tags(&self.tag)
    }

    /// Returns whether nothing is asked of a conversation, so that all of them match.
    pub(super) fn is_empty(&self) -> bool {
        self.status.is_empty() && self.tag.is_empty() && self.older_than.is_none()
    }
}

/// Reads tags as the user types them: `team`, or `team=core`.
pub(super) fn tags(typed: &[String]) -> Vec<(String, Option<String>)> {
    let tag = |tag: &String| match tag.split_once('=') {
        Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
        None => (tag.clone(), None),
    };
    typed.iter().map(tag).collect()
}

/// Reads a time as the user types it: a date, or a date and a time of day. Without a zone it is UTC.
pub(super) fn moment(text: &str) -> Result<Timestamp> {
    Timestamp::parse_typed(text).ok_or_else(|| Error::NotATime { text: text.to_owned() })
}

/// Reads an age or a time. Returns the time.
fn age(text: &str) -> std::result::Result<Timestamp, String> {
    if let Some(time) = Timestamp::parse_typed(text) {
        return Ok(time);
    }
    match microseconds(text) {
        Some(ago) => Ok(Timestamp(Timestamp::now().0.saturating_sub(ago))),
        None => Err(format!("{text:?} is neither an age (90d, 12w, 1y, 36h) nor a time (2026-01-31)")),
    }
}

/// Returns the length of an age such as `90d` in microseconds.
fn microseconds(text: &str) -> Option<i64> {
    let hours = match text.chars().last()? {
        'h' => 1,
        'd' => 24,
        'w' => 7 * 24,
        'y' => 365 * 24,
        _ => return None,
    };
    let number: u32 = text[..text.len() - 1].parse().ok()?;
    i64::from(number).checked_mul(hours)?.checked_mul(3_600_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_may_be_a_date() {
        assert_eq!(moment("2026-01-31").unwrap(), moment("2026-01-31T00:00:00Z").unwrap());
        assert_eq!(moment("2026-01-31 12:30").unwrap(), moment("2026-01-31T12:30:00Z").unwrap());
        assert!(matches!(moment("yesterday"), Err(Error::NotATime { .. })));
    }

    #[test]
    fn ages_are_read_as_people_write_them() {
        let seconds = |text| microseconds(text).map(|length| length / 1_000_000);
        assert_eq!(
            ["36h", "90d", "2w", "1y"].map(seconds),
            [Some(129_600), Some(7_776_000), Some(1_209_600), Some(31_536_000)]
        );
        assert!(age("0d").unwrap() <= Timestamp::now());
        assert_eq!(age("2026-01-31").unwrap(), Timestamp::parse("2026-01-31T00:00:00Z").unwrap());
        for wrong in ["", "d", "90", "-1d", "9m", "soon", "99999999999999999y"] {
            assert!(age(wrong).is_err(), "{wrong}");
        }
    }
}
