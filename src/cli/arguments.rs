//! The options of every command, and the command.

use std::path::PathBuf;

use clap::Parser;

use super::commands::Command;

/// The history of AI-agent conversations in one SQLite file: append-only, exact, readable by any SQLite tool.
#[derive(Debug, Parser)]
#[command(name = "annals", version, about, max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = "Examples:
  annals run 'make the tests pass' -m MODEL    let an agent work on this folder
  annals import ~/.openhands/conversations     import conversations
  annals list                                  list the conversations
  annals open                                  show all of them in the browser
  annals show 5610a7                           show one of them, by the start of its id
  annals search 'cannot borrow'                search for words in all of them
  sqlite3 annals.db 'SELECT * FROM tool_calls' read the same file in plain SQL

Exit codes: 0 done; 1 refused (an unknown id, a conflict, something in the way); 2 failed.")]
pub(super) struct Arguments {
    /// The database file
    #[arg(long, global = true, value_name = "FILE", env = "ANNALS_DB", default_value_os_t = super::default_database())]
    pub db: PathBuf,

    /// The log in PostgreSQL that the file is a replica of
    #[arg(long, global = true, value_name = "ADDRESS", env = "ANNALS_SHARED", hide_env_values = true)]
    #[cfg_attr(not(feature = "postgres"), arg(hide = true))]
    pub shared: Option<String>,

    /// Print JSON for programs; docs/cli.md describes it
    #[arg(long, global = true)]
    pub json: bool,

    #[command(subcommand)]
    pub command: Command,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_arguments_do_not_contradict_each_other() {
        Arguments::command().debug_assert();
    }
}
