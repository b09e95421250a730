//! What can be typed.

mod audit;
mod privacy;
mod retention;
#[cfg(feature = "agent")]
mod run;
mod transfer;

use std::path::PathBuf;

use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueEnum};

use super::replay::Replay;
#[cfg(feature = "server")]
mod serve;

pub(super) use audit::{Bundle, Form, Head, Keys, Limits, Query, Report, Verify};
#[cfg(feature = "agent")]
pub(super) use run::{
    Approve, Ask, Config, Confirm, Extras, Fork, KEY_VARIABLE, Model, Pause, Profiles, Reject, Remote,
    Resume, Run, Secrets, Send,
};
#[cfg(feature = "server")]
pub(super) use serve::{Open, Serve};
pub(super) use transfer::{Export, Import, Wanted};

use crate::error::Result;
use crate::ids::ConversationId;
use crate::replay::{Memory, Point};
use crate::store::{Order, Store};
pub(super) use privacy::{AdminLog, Erase, Redact, ScanSecrets, Values, Wipe};
pub(super) use retention::{Archive, Prune, Split, Stats, Unarchive, Which};

/// The history of AI-agent conversations in one SQLite file: append-only, exact, readable by any SQLite tool.
#[derive(Debug, Parser)]
#[command(name = "annals", version, about, max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = "Examples:
  annals run 'make the tests pass' -m MODEL    let an agent work on this folder
  annals import ~/.openhands/conversations     take conversations in
  annals list                                  which there are
  annals open                                  all of them in the browser
  annals show 5610a7                           one of them, by the start of its id
  annals search 'cannot borrow'                words in any of them
  sqlite3 annals.db 'SELECT * FROM tool_calls' the same file in plain SQL

Exit codes: 0 done; 1 refused (an unknown id, a conflict, something in the way); 2 failed.")]
pub(super) struct Arguments {
    /// The database file
    #[arg(long, global = true, value_name = "FILE", env = "ANNALS_DB", default_value_os_t = super::default_database())]
    pub db: PathBuf,

    /// Print JSON, for programs; docs/cli.md has the shapes
    #[arg(long, global = true)]
    pub json: bool,

    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    #[cfg(feature = "agent")]
    Run(Run),
    #[cfg(feature = "agent")]
    Resume(Resume),
    #[cfg(feature = "agent")]
    Send(Send),
    #[cfg(feature = "agent")]
    Approve(Approve),
    #[cfg(feature = "agent")]
    Reject(Reject),
    #[cfg(feature = "agent")]
    Pause(Pause),
    #[cfg(feature = "agent")]
    Fork(Fork),
    #[cfg(feature = "agent")]
    Ask(Ask),
    #[cfg(feature = "agent")]
    Secrets(Secrets),
    #[cfg(feature = "agent")]
    Profiles(Profiles),
    #[cfg(feature = "agent")]
    Config(Config),
    Import(Import),
    Export(Export),
    List(List),
    Show(Show),
    Events(Events),
    Transcript(Transcript),
    Tail(Tail),
    Search(Search),
    State(State),
    Query(Query),
    Report(Report),
    View(View),
    Messages(Messages),
    Convert(Convert),
    Branches(Branches),
    Diff(Diff),
    Replay(Replay),
    Stats(Stats),
    Verify(Verify),
    Head(Head),
    Keys(Keys),
    Bundle(Bundle),
    Doctor(super::doctor::Arguments),
    Rebuild(Rebuild),
    #[cfg(feature = "server")]
    Open(Open),
    #[cfg(feature = "server")]
    Serve(Serve),
    Upgrade(super::upgrade::Arguments),
    Backup(super::backup::Arguments),
    Restore(super::restore::Arguments),
    Merge(super::carry::Merge),
    Split(super::carry::Split),
    Copy(super::carry::Copy),
    Delete(Delete),
    ScanSecrets(ScanSecrets),
    Redact(Redact),
    Erase(Erase),
    AdminLog(AdminLog),
    Prune(Prune),
    Archive(Archive),
    Unarchive(Unarchive),
    /// Write the file anew, without free room and without a trace of what was deleted
    Vacuum,
    Completions(Completions),
}

/// List conversations
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals list --status error --status stuck
  annals list --tag team=core --since 2026-01-01 --sort created
  annals list --limit 20 --after 5610a708-170e-58da-bb08-33350f7cdc03")]
pub(super) struct List {
    /// Only these statuses (idle, running, paused, waiting_for_confirmation, finished, error, stuck)
    #[arg(long, value_name = "STATUS")]
    pub status: Vec<String>,
    /// Only with this tag, or with this value of it
    #[arg(long, value_name = "TAG[=VALUE]")]
    pub tag: Vec<String>,
    /// Only with this text in the title
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
    /// Only those that went on at or after this time (2026-01-31 or 2026-01-31T12:00:00)
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Only those that went on before this time
    #[arg(long, value_name = "TIME")]
    pub before: Option<String>,
    /// Only the sub-agents' conversations of this one
    #[arg(long, value_name = "ID")]
    pub parent: Option<String>,
    /// What to sort by
    #[arg(long, value_enum, default_value_t)]
    pub sort: Sort,
    /// Turn the order round: the oldest first
    #[arg(long)]
    pub reverse: bool,
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub limit: usize,
    /// Go on behind this conversation: the last one of the page before
    #[arg(long, value_name = "ID")]
    pub after: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum, Default)]
pub(super) enum Sort {
    /// When it last went on
    #[default]
    Updated,
    /// When it began
    Created,
}

impl List {
    pub(super) fn order(&self) -> Order {
        match (self.sort, self.reverse) {
            (Sort::Updated, false) => Order::UpdatedDescending,
            (Sort::Updated, true) => Order::Updated,
            (Sort::Created, false) => Order::CreatedDescending,
            (Sort::Created, true) => Order::Created,
        }
    }
}

/// Show one conversation: title, status, times, kinds, tools, cost, tasks, tree, problems
#[derive(Debug, Args)]
pub(super) struct Show {
    /// The conversation, by id or the start of one
    pub id: String,
}

/// Print events, one JSON object a line
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals events 5610a7 --kind ActionEvent
  annals events 5610a7 --from 100 --to 120 --raw
  annals events 5610a7 --raw | jq -r 'select(.kind == \"MessageEvent\") | .timestamp'")]
pub(super) struct Events {
    /// The conversation, by id or the start of one
    pub id: String,
    /// From this sequence on
    #[arg(long, value_name = "SEQUENCE")]
    pub from: Option<u64>,
    /// Up to this sequence
    #[arg(long, value_name = "SEQUENCE")]
    pub to: Option<u64>,
    /// Only these kinds
    #[arg(long, value_name = "KIND")]
    pub kind: Vec<String>,
    /// Only these sources (agent, user, environment, hook)
    #[arg(long, value_name = "SOURCE")]
    pub source: Vec<String>,
    /// At most this many
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    /// Print payloads exactly as they are stored, and nothing else
    #[arg(long)]
    pub raw: bool,
}

/// Print what was said and done, as a person reads it
#[derive(Debug, Args)]
pub(super) struct Transcript {
    /// The conversation, by id or the start of one
    pub id: String,
    /// From this sequence on
    #[arg(long, value_name = "SEQUENCE", default_value_t = 0)]
    pub from: u64,
    /// At most this many events
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    /// Cut each text to this many lines; 0 for all of them
    #[arg(long, value_name = "N", default_value_t = 12)]
    pub lines: usize,
}

/// Follow new events as they are appended, by any process
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals tail                  every conversation, from now on
  annals tail 5610a7 -n 20     one of them, its last 20 events first
  annals --json tail --from 0  the whole log, then what comes")]
pub(super) struct Tail {
    /// The conversation, by id or the start of one; every conversation where it is left out
    pub id: Option<String>,
    /// Show this many of the last events first
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    pub lines: u64,
    /// Begin behind this position (with an ID: at this sequence) instead
    #[arg(long, value_name = "PLACE", conflicts_with = "lines")]
    pub from: Option<u64>,
    /// End once there is nothing new
    #[arg(long)]
    pub once: bool,
}

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
    pub(super) fn point(&self, store: &Store, id: &ConversationId) -> Result<Point> {
        self.at.as_deref().map_or(Ok(Point::End), |text| Point::parse(store, id, text))
    }
}

/// Show the state: status, steps, branch, open actions, tasks, tokens and cost, final response
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals state 5610a7
  annals state 5610a7 --at 20
  annals --json state 5610a7 --at 2026-01-31T12:00:00")]
pub(super) struct State {
    #[command(flatten)]
    pub moment: At,
}

/// Show what the model could see: the live branch after condensation
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals view 5610a7                    as it would be after a restart
  annals view 5610a7 --at 20            as it was right behind event 20
  annals --json view 5610a7 --ids       the ids alone")]
pub(super) struct View {
    #[command(flatten)]
    pub moment: At,
    /// As in a process that never stopped, instead of built anew
    #[arg(long)]
    pub live: bool,
    /// Only the events' ids
    #[arg(long)]
    pub ids: bool,
}

impl View {
    pub(super) fn memory(&self) -> Memory {
        if self.live { Memory::Live } else { Memory::Reloaded }
    }
}

/// Show the messages the model would have been sent
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals messages 5610a7 --at 20
  annals --json messages 5610a7             as the SDK dumps them
  annals messages 5610a7 --wire chat        as a chat request has them
  annals messages 5610a7 --wire responses")]
pub(super) struct Messages {
    #[command(flatten)]
    pub moment: At,
    /// Of the view of a process that never stopped, instead of one built anew
    #[arg(long)]
    pub live: bool,
    #[command(flatten)]
    pub wire: WireOptions,
}

/// Turn a file of events into messages, without a database
///
/// The file holds {"events": [...]}, an array of events, or one event a line, of any age; - is standard input.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals --json convert events.json
  annals convert trajectory.json --view --wire chat")]
pub(super) struct Convert {
    /// The file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Apply condensations and leave out what breaks the protocol first, as for a model
    #[arg(long)]
    pub view: bool,
    #[command(flatten)]
    pub wire: WireOptions,
}

/// How messages are written.
#[derive(Debug, Args)]
pub(super) struct WireOptions {
    /// In the words of an interface, as JSON
    #[arg(long, value_enum)]
    pub wire: Option<Wire>,
    /// With marks where a prompt may be cached (chat)
    #[arg(long)]
    pub caching: bool,
    /// Without pictures
    #[arg(long)]
    pub no_vision: bool,
    /// With one string in place of a list of parts (chat)
    #[arg(long)]
    pub strings: bool,
    /// With what the model thought (chat)
    #[arg(long)]
    pub reasoning: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum Wire {
    /// Chat completions
    Chat,
    /// Responses: instructions and input items
    Responses,
}

/// List the branches of a conversation: their tips, where they fork, which one is live
#[derive(Debug, Args)]
pub(super) struct Branches {
    #[command(flatten)]
    pub moment: At,
}

/// Show what is different between two points, two branches or two conversations
///
/// Compared are the live branches as of each point, event by event, and the states. To compare two branches,
/// name their tips; `annals branches` lists them.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals diff 5610a7 10 20              two points of a conversation
  annals diff f16839 0e5e61 7c0c86      two branches, by their tips
  annals diff 5610a7 e87180@5           two conversations, one of them as of event 5")]
pub(super) struct Diff {
    /// A conversation, or ID@POINT
    #[arg(value_name = "ID")]
    pub left: String,
    /// The first of two points, or another conversation (ID or ID@POINT)
    #[arg(value_name = "POINT|ID")]
    pub right: String,
    /// The second point
    #[arg(value_name = "POINT")]
    pub point: Option<String>,
}

/// Search all transcripts
///
/// Words must all occur, in any case and order; "a phrase" occurs as it is; begin* is a beginning; -word must
/// not occur. The first search of a file builds its index.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals search 'borrow checker'
  annals search '\"permission denied\" -sudo' --tool terminal
  annals search 'Store::append' --in 5610a7")]
pub(super) struct Search {
    /// What to search for
    #[arg(required = true)]
    pub text: Vec<String>,
    /// Only in this conversation
    #[arg(long = "in", value_name = "ID")]
    pub conversation: Option<String>,
    /// Only events of these kinds
    #[arg(long, value_name = "KIND")]
    pub kind: Vec<String>,
    /// Only events of this tool
    #[arg(long, value_name = "TOOL")]
    pub tool: Option<String>,
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub limit: usize,
    /// Only events before this position: the last one of the page before
    #[arg(long, value_name = "POSITION")]
    pub before: Option<u64>,
}

/// Make derived tables again from the log
#[derive(Debug, Args)]
pub(super) struct Rebuild {
    /// transcript, tool_calls, usage, tasks or search; all of them where none is named
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
}

/// Delete a conversation with everything that was kept or derived for it
#[derive(Debug, Args)]
pub(super) struct Delete {
    /// The conversation, by id or the start of one
    pub id: String,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
}

/// Print a completion script for a shell
#[derive(Debug, Args)]
#[command(after_help = "Example:
  annals completions bash > ~/.local/share/bash-completion/completions/annals")]
pub(super) struct Completions {
    pub shell: clap_complete::Shell,
}

impl Completions {
    pub(super) fn print(&self, output: &super::print::Output) -> crate::error::Result<()> {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut Arguments::command(), "annals", &mut text);
        output.raw(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_do_not_contradict_each_other() {
        Arguments::command().debug_assert();
    }
}
