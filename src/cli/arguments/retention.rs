//! What can be typed about how long conversations are kept, and how.

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};

use crate::ids::Timestamp;
use crate::store::{By, PruneRules};

/// Show figures over the whole file: conversations, events by kind, tools, tokens and cost, bytes
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals stats
  annals stats --by conversation      which ones are large
  annals --json stats --by day")]
pub(in super::super) struct Stats {
    /// Events and bytes by one of these instead
    #[arg(long, value_enum)]
    pub by: Option<Split>,
}

/// What to add up by.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(in super::super) enum Split {
    /// One row a conversation, the largest first
    Conversation,
    /// One row a kind of event
    Kind,
    /// One row a tool
    Tool,
    /// One row a day
    Day,
}

impl From<Split> for By {
    fn from(split: Split) -> Self {
        match split {
            Split::Conversation => Self::Conversation,
            Split::Kind => Self::Kind,
            Split::Tool => Self::Tool,
            Split::Day => Self::Day,
        }
    }
}

/// The statuses that are stored.
const STATUSES: [&str; 7] =
    ["idle", "running", "paused", "waiting_for_confirmation", "finished", "error", "stuck"];

/// Which conversations.
#[derive(Debug, Args)]
pub(in super::super) struct Which {
    /// Only these statuses
    #[arg(long, value_name = "STATUS", value_parser = PossibleValuesParser::new(STATUSES))]
    pub status: Vec<String>,
    /// Only with this tag, or with this value of it
    #[arg(long, value_name = "TAG[=VALUE]")]
    pub tag: Vec<String>,
    /// Those that last went on longer ago than this (90d, 12w, 1y, 36h), or before this time (2026-01-31)
    #[arg(long, value_name = "AGE", value_parser = age)]
    pub older_than: Option<Timestamp>,
}

impl Which {
    /// Names and values of tags.
    pub(in super::super) fn tags(&self) -> Vec<(String, Option<String>)> {
        pairs(&self.tag)
    }
}

fn pairs(tags: &[String]) -> Vec<(String, Option<String>)> {
    let pair = |tag: &String| match tag.split_once('=') {
        Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
        None => (tag.clone(), None),
    };
    tags.iter().map(pair).collect()
}

/// Delete conversations that have had their time: says which, and with --yes does it
///
/// Of the conversations that fit --status and --tag those go that any of --older-than, --keep-last and
/// --max-bytes is against; without one of these, all of them. A conversation goes together with those of its
/// sub-agents; the newest of them says how old they are. Running ones stay unless --status running is given,
/// and what goes on between the look and the deletion stays. The administrative log keeps a receipt of each.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals prune --older-than 90d                        what would go
  annals prune --older-than 90d --status finished --keep-tag legal --yes --vacuum
  annals prune --keep-last 500 --tag env=ci --yes
  annals prune --max-bytes 2GB --yes --reason 'quarterly'")]
pub(in super::super) struct Prune {
    #[command(flatten)]
    pub which: Which,
    /// None that has this tag, or this value of it
    #[arg(long, value_name = "TAG[=VALUE]")]
    pub keep_tag: Vec<String>,
    /// All but this many, the newest
    #[arg(long, value_name = "N")]
    pub keep_last: Option<u64>,
    /// Those beyond this many bytes (500MB, 2GB, 1GiB), counted from the newest
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub max_bytes: Option<u64>,
    /// Delete them; without it they are only shown
    #[arg(long)]
    pub yes: bool,
    /// Why; kept in the administrative log
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Write the file anew afterwards, so that its room is given back
    #[arg(long, requires = "yes")]
    pub vacuum: bool,
}

impl Prune {
    pub(in super::super) fn rules(&self) -> PruneRules {
        PruneRules {
            statuses: self.which.status.clone(),
            tags: self.which.tags(),
            kept_tags: pairs(&self.keep_tag),
            older_than: self.which.older_than,
            keep_last: self.keep_last,
            bytes_max: self.max_bytes,
        }
    }
}

/// Compress conversations that nobody is expected to read soon
///
/// They stay listed, searchable and exact; reading them costs the time to decompress. To other programs an
/// archived payload is the stub {"annals":"archived"}. Archiving again compresses what was appended since.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals archive 5610a7 dc3e28
  annals archive --older-than 30d --status finished --vacuum
  annals unarchive 5610a7")]
pub(in super::super) struct Archive {
    /// Conversations, by id or the start of one
    #[arg(value_name = "ID")]
    pub ids: Vec<String>,
    #[command(flatten)]
    pub which: Which,
    /// Why; kept in the administrative log
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Write the file anew afterwards, so that its room is given back
    #[arg(long)]
    pub vacuum: bool,
}

/// Decompress an archived conversation
#[derive(Debug, Args)]
pub(in super::super) struct Unarchive {
    /// Conversations, by id or the start of one
    #[arg(value_name = "ID", required = true)]
    pub ids: Vec<String>,
    /// Why; kept in the administrative log
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}

/// The time that long ago, or the time.
fn age(text: &str) -> Result<Timestamp, String> {
    if let Some(time) = Timestamp::parse_typed(text) {
        return Ok(time);
    }
    match microseconds(text) {
        Some(ago) => Ok(Timestamp(Timestamp::now().0.saturating_sub(ago))),
        None => Err(format!("{text:?} is neither an age (90d, 12w, 1y, 36h) nor a time (2026-01-31)")),
    }
}

/// How long a time of this length is.
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

/// Bytes, with or without a unit.
fn size(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u64); 8] = [
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("kB", 1_000),
        ("KB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("B", 1),
    ];
    let found = UNITS.iter().find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, *bytes)));
    let (number, bytes) = found.unwrap_or((text, 1));
    let number: Option<u64> = number.trim().parse().ok();
    number
        .and_then(|number| number.checked_mul(bytes))
        .ok_or_else(|| format!("{text:?} is no size; write 500MB, 2GB or 1GiB"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_and_sizes_are_read_as_people_write_them() {
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
        assert_eq!((size("1000"), size("2 GB"), size("1KiB")), (Ok(1000), Ok(2_000_000_000), Ok(1024)));
        for wrong in ["", "GB", "1.5GB", "-1", "2 gigabytes"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
