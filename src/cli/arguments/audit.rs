//! What can be typed to ask and to prove.

use std::path::PathBuf;

use clap::Args;

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
  annals verify 5610a7         one conversation: its events, catalogue row and attachments")]
pub(in crate::cli) struct Verify {
    /// Only this conversation, by id or the start of one
    pub id: Option<String>,
    /// Leave out the comparison of derived tables with the log, which takes the most time
    #[arg(long)]
    pub quick: bool,
}
