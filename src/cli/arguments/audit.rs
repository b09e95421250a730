//! What can be typed to ask and to prove.

use std::path::PathBuf;

use clap::Args;

use super::privacy::Values;

/// Ask one SELECT over the documented views, without being able to change or reach anything else
///
/// The statement is checked before it runs, and ends at its limits of time, memory, rows and bytes. Without a
/// statement the views and their columns are shown; docs/format.md explains them.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals query                                      the views there are
  annals query 'SELECT tool, count(*) FROM tool_calls GROUP BY tool'
  annals query 'SELECT * FROM events WHERE conversation_id = :id' --param id=my-task-123 --csv > events.csv
  annals query - < question.sql")]
pub(in crate::cli) struct Query {
    /// One SELECT; - reads it from standard input
    #[arg(value_name = "SQL")]
    pub sql: Option<String>,
    /// The value of a :name in it; a number is a number, '5' in quotes is text
    #[arg(long, value_name = "NAME=VALUE")]
    pub param: Vec<String>,
    #[command(flatten)]
    pub form: Form,
    #[command(flatten)]
    pub limits: Limits,
}

/// Answer a named question: commands, files, network, confirmations, risks, errors, secrets, cost, and more
///
/// Without a name the reports are listed; docs/reports.md has their parameters, columns and SQL.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals report                                       which there are
  annals report commands --param conversation=5610a7 --param failed=yes
  annals report network --param since=2026-01-31 --csv > network.csv
  annals report cost-by-model --sql                   what it asks
  annals report --html report.html                    a page with charts, to hand on")]
pub(in crate::cli) struct Report {
    /// Which report
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// The value of a parameter
    #[arg(long, value_name = "NAME=VALUE")]
    pub param: Vec<String>,
    /// Print the report's parameters, columns and SQL instead of its answer
    #[arg(long, requires = "name")]
    pub sql: bool,
    /// Write a page with charts and the most important reports to this file; since, until are its parameters
    #[arg(long, value_name = "FILE", conflicts_with_all = ["name", "csv", "table"])]
    pub html: Option<PathBuf>,
    #[command(flatten)]
    pub form: Form,
    #[command(flatten)]
    pub limits: Limits,
}

/// How an answer is printed; `--json` is everybody's.
#[derive(Debug, Args)]
pub(in crate::cli) struct Form {
    /// Print CSV, with a line of headings
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// Print a table, a line a row (this is the default)
    #[arg(long, conflicts_with_all = ["json", "csv"])]
    pub table: bool,
}

/// How much a query may take.
#[derive(Debug, Args)]
pub(in crate::cli) struct Limits {
    /// At most this many rows
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub rows: usize,
    /// At most this long
    #[arg(long, value_name = "N", default_value_t = 30)]
    pub seconds: u64,
    /// At most this many MiB of memory, and of results
    #[arg(long, value_name = "MIB", default_value_t = 256)]
    pub memory: u32,
}

/// Check that nothing was changed: the hash chain, the catalogue, attachments, and what is derived
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals verify                the whole file
  annals verify 5610a7         one conversation: its events, catalogue row and attachments
  annals verify --against head.txt --key auditor.pub
                               and that everything is still there that `annals head` spoke of")]
pub(in crate::cli) struct Verify {
    /// Only this conversation, by id or the start of one
    pub id: Option<String>,
    /// Leave out the comparison of derived tables with the log, which takes the most time
    #[arg(long)]
    pub quick: bool,
    /// Also check that the store still has everything that this head (see `annals head`) spoke of
    #[arg(long, value_name = "HEADFILE", conflicts_with = "id")]
    pub against: Option<PathBuf>,
    /// Hold the head to this public key: 64 hex digits or a file
    #[arg(long, value_name = "KEY", requires = "against")]
    pub key: Option<String>,
}

/// Show a key for signing heads, or make one
///
/// A key is an Ed25519 key in a file of your own (PKCS#8, PEM; mode 0600). Its public half goes to whoever checks.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals keys auditor.pem --new          makes auditor.pem and auditor.pem.pub
  annals keys auditor.pem                shows its public half")]
pub(in crate::cli) struct Keys {
    /// The key's file; of a public key too, without --new
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Make a new key; nothing may be there
    #[arg(long)]
    pub new: bool,
}

/// Print where every hash chain ends now: a text to be kept elsewhere
///
/// As long as you have it, `annals verify --against` tells whether anything it speaks of was changed or taken
/// away since. docs/tamper-evidence.md says what that proves.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals head > head.txt
  annals head --sign auditor.pem > head.txt
  annals head 5610a7 --sign auditor.pem | mail -s head someone@example.com")]
pub(in crate::cli) struct Head {
    /// Only this conversation, by id or the start of one
    pub id: Option<String>,
    /// Sign it with this key
    #[arg(long, value_name = "KEYFILE")]
    pub sign: Option<PathBuf>,
}

/// Write a conversation as a folder that a stranger can check with standard tools
#[derive(Debug, Args)]
#[command(after_help = "Example:
  annals bundle 5610a7 --to proof/ --sign auditor.pem      proof/README.md says how to check it
  annals bundle 5610a7 --to proof/ --redact-secrets        without what `scan-secrets` finds
  annals bundle 5610a7 --to proof/ --redact-pattern '(?i)jane doe' --redact-event 23ebb9d8")]
pub(in crate::cli) struct Bundle {
    /// The conversation, by id or the start of one
    pub id: String,
    /// The folder; it must be empty or not there
    #[arg(long, value_name = "DIR")]
    pub to: PathBuf,
    /// Sign its head with this key
    #[arg(long, value_name = "KEYFILE")]
    pub sign: Option<PathBuf>,
    /// Withhold what `scan-secrets` finds; the store keeps it, and the digest stays in the chain
    #[arg(long)]
    pub redact_secrets: bool,
    /// Withhold what this regular expression matches; may be given several times
    #[arg(long, value_name = "REGEX")]
    pub redact_pattern: Vec<String>,
    /// Withhold all text of this event, by id or the start of one; may be given several times
    #[arg(long, value_name = "EVENT")]
    pub redact_event: Vec<String>,
    #[command(flatten)]
    pub values: Values,
}
