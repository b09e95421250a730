//! How users name conversations and points in them: the arguments that several commands share.

use clap::Args;
use clap::builder::PossibleValuesParser;

use super::print::{Output, harmless};
use crate::error::{Error, Result};
use crate::ids::{ConversationId, Timestamp};
use crate::replay::Point;
use crate::store::{ConversationFilter, Fact, Store};

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

/// How many values of a column are named to a user who asked for one that is not there.
const VALUES_NAMED: usize = 10;

/// The least and the most characters of a short id.
const SHORT_ID: std::ops::RangeInclusive<usize> = 8..=12;

/// What conversations are about: facts that select them.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct About {
    /// Only conversations that worked in this folder or below it, or on this repository
    #[arg(long, value_name = "PATH")]
    pub workspace: Option<String>,
    /// Only conversations whose log this program wrote (annals, openhands, openhands-v0, claude-code, codex, ...)
    #[arg(long, value_name = "NAME")]
    pub source: Option<String>,
    /// Only conversations of this model
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Only conversations that this user started, or the holder of this server key
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
}

impl About {
    /// Returns a filter that asks for these facts, too.
    pub(super) fn narrow(&self, filter: ConversationFilter) -> ConversationFilter {
        filter
            .workspace(self.folder())
            .source(self.source.clone())
            .model(self.model.clone())
            .started_by(self.user.clone())
    }

    /// Returns the workspace. A relative path of a folder that exists here is that folder: conversations have whole paths.
    pub(super) fn folder(&self) -> Option<String> {
        let typed = self.workspace.as_ref()?;
        let here = std::path::Path::new(typed);
        let whole = || Some(std::fs::canonicalize(here).ok()?.to_str()?.to_owned());
        if here.is_relative() { Some(whole().unwrap_or_else(|| typed.clone())) } else { Some(typed.clone()) }
    }

    /// Returns whether nothing is asked for.
    pub(super) fn is_empty(&self) -> bool {
        self.workspace.is_none() && self.source.is_none() && self.model.is_none() && self.user.is_none()
    }
}

/// Says which values there are, for each value of a filter that no conversation has.
pub(super) fn tell_values(store: &Store, filter: &ConversationFilter, output: &Output) -> Result<()> {
    let statuses = filter.statuses.iter().map(|status| (Fact::Status, status.as_str()));
    for (fact, wanted) in statuses.chain(filter.facts()) {
        let alone = ConversationFilter::default();
        let alone = match fact {
            Fact::Status => alone.statuses(vec![wanted.to_owned()]),
            Fact::Workspace => alone.workspace(wanted.to_owned()),
            Fact::Source => alone.source(wanted.to_owned()),
            Fact::Model => alone.model(wanted.to_owned()),
            Fact::StartedBy => alone.started_by(wanted.to_owned()),
        };
        if store.count_conversations(&alone)? > 0 {
            continue;
        }
        let mut values = store.values_of(fact, VALUES_NAMED + 1)?;
        let more = if values.len() > VALUES_NAMED { ", and more" } else { "" };
        values.truncate(VALUES_NAMED);
        let names: Vec<String> = values.iter().map(|(name, _)| harmless(name)).collect();
        let (has, one) = match fact {
            Fact::Status => ("has the status", "status"),
            Fact::Workspace => ("worked in", "workspace"),
            Fact::Source => ("was written by", "source"),
            Fact::Model => ("has the model", "model"),
            Fact::StartedBy => ("was started by", "user"),
        };
        let there_are = match names.as_slice() {
            [] => format!("no conversation has a known {one}"),
            [name] => format!("the only {one} is {name}"),
            names => format!("there are {}{more}", names.join(", ")),
        };
        output.remark(format!("no conversation {has} {:?}; {there_are}", harmless(wanted)));
    }
    Ok(())
}

/// Returns the beginning of an id that no other id has. If that is long, the middle of the id is left out.
pub(super) fn short_id(store: &Store, id: &ConversationId) -> Result<String> {
    let text = id.as_str();
    let characters = text.chars().count();
    if characters <= *SHORT_ID.end() {
        return Ok(text.to_owned());
    }
    let unique = text[..store.unique_beginning(id)?].chars().count().max(*SHORT_ID.start());
    if unique <= *SHORT_ID.end() {
        return Ok(text.chars().take(unique).collect());
    }
    let beginning: String = text.chars().take(5).collect();
    let end: String = text.chars().skip(characters - 6).collect();
    Ok(format!("{beginning}…{end}"))
}

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
    #[command(flatten)]
    pub about: About,
}

impl Which {
    /// Returns the names and values of the tags.
    pub(super) fn tags(&self) -> Vec<(String, Option<String>)> {
        tags(&self.tag)
    }

    /// Returns whether nothing is asked of a conversation, so that all of them match.
    pub(super) fn is_empty(&self) -> bool {
        self.status.is_empty() && self.tag.is_empty() && self.older_than.is_none() && self.about.is_empty()
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
