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
    #[arg(long, value_name = "AGE", value_parser = moment)]
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

/// Reads a time as the user types it: a date, a date and a time of day, an age or a word. Without a zone it is UTC.
pub(super) fn moment(text: &str) -> Result<Timestamp> {
    Timestamp::parse_relative(text, Timestamp::now()).ok_or_else(|| Error::NotATime { text: text.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_may_be_a_date() {
        assert_eq!(moment("2026-01-31").unwrap(), moment("2026-01-31T00:00:00Z").unwrap());
        assert_eq!(moment("2026-01-31 12:30").unwrap(), moment("2026-01-31T12:30:00Z").unwrap());
        assert!(moment("yesterday").unwrap() < Timestamp::now());
        assert!(moment("0d").unwrap() <= Timestamp::now());
        assert!(matches!(moment("soon"), Err(Error::NotATime { .. })));
    }
}
