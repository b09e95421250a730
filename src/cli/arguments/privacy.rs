//! What can be typed about secrets, and about taking things out.

use std::path::PathBuf;

use clap::Args;

/// Find secrets in all that is kept: events, base states, titles, attachments
///
/// Knows what many kinds of keys and tokens look like, and what stands behind `password=` and the like; in
/// each conversation it also looks for the values that its own base state holds in the open. Reports places
/// and never a value. Ends with 1 where it found something.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals scan-secrets                            the whole file
  annals scan-secrets 5610a7
  vault read-all | annals scan-secrets --values-from -
  annals --json scan-secrets | jq -r '.places[].conversation' | sort -u")]
pub(in super::super) struct ScanSecrets {
    /// Only this conversation, by id or the start of one
    pub id: Option<String>,
    #[command(flatten)]
    pub values: Values,
}

/// Values to look for.
#[derive(Debug, Args)]
pub(in super::super) struct Values {
    /// Also look for these values, one a line (- for standard input)
    #[arg(long, value_name = "FILE")]
    pub values_from: Option<PathBuf>,
}

/// Take text out of a conversation for good; the events keep their shape and their place
///
/// An event's text becomes `[redacted]`; its id, time, kind and what joins it to others stay, and the
/// digest of what it was. Gone from the base state, the catalogue, attachments, derived tables and the
/// search index too. The administrative log keeps who did it, when and why, and never what it was. Backups
/// and exports made before still hold it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals redact 5610a7 --secrets --dry-run
  annals redact 5610a7 --secrets --reason 'token in a log, ticket 81'
  annals redact 5610a7 --pattern '(?i)jane doe' --reason 'asked to be forgotten'
  annals redact 5610a7 --event 23ebb9d8 --reason 'pasted by mistake'")]
pub(in super::super) struct Redact {
    /// The conversation, by id or the start of one
    pub id: String,
    #[command(flatten)]
    pub what: RedactWhat,
    #[command(flatten)]
    pub values: Values,
    /// Why; kept in the administrative log, so do not repeat what is taken out
    #[arg(long, value_name = "TEXT", required_unless_present = "dry_run")]
    pub reason: Option<String>,
    /// Only say what would be taken out
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub wipe: Wipe,
}

/// What to take out.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(in super::super) struct RedactWhat {
    /// All text of this event, by id or the start of one
    #[arg(long, value_name = "EVENT", conflicts_with = "values_from")]
    pub event: Option<String>,
    /// What this regular expression matches, wherever it stands
    #[arg(long, value_name = "REGEX")]
    pub pattern: Option<String>,
    /// What `scan-secrets` finds
    #[arg(long)]
    pub secrets: bool,
}

/// How thoroughly bytes are overwritten.
#[derive(Debug, Args)]
pub(in super::super) struct Wipe {
    /// Do not write the file anew afterwards; copies from before in free room then wait for `annals vacuum`
    #[arg(long)]
    pub no_vacuum: bool,
}

/// Erase a conversation, every byte of it; only a receipt stays
///
/// The administrative log keeps its id, how many events it had, its head hash, who erased it, when and why.
/// An import of it is refused from then on. Backups and exports made before still hold it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals erase 5610a7 --reason 'retention, ticket 82'
  annals erase 5610a7 --sub-agents --reason 'asked to be forgotten' --yes")]
pub(in super::super) struct Erase {
    /// The conversation, by id or the start of one
    pub id: String,
    /// Why; kept in the administrative log
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
    /// Erase the conversations of its sub-agents too
    #[arg(long)]
    pub sub_agents: bool,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
    #[command(flatten)]
    pub wipe: Wipe,
}

/// Show who did what to the file that no event tells: deletions, redactions, archives
#[derive(Debug, Args)]
pub(in super::super) struct AdminLog {
    /// Only acts behind this number
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub after: u64,
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub limit: usize,
    /// With what each of them took out
    #[arg(long)]
    pub receipts: bool,
}
