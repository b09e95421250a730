//! The list of the commands.

use clap::Subcommand;

use super::Place;
use super::print::Output;
use crate::error::Result;

/// Makes [`Command`] and its `run` from lines `Name(file::Arguments) => file::run`. Files are those of `src/cli`.
macro_rules! commands {
    ($($(#[$condition:meta])* $name:ident($($arguments:ident)::+) => $($run:ident)::+,)+) => {
        /// A command, with its arguments.
        #[derive(Debug, Subcommand)]
        pub(super) enum Command {
            $($(#[$condition])* $name(super::$($arguments)::+),)+
        }

        impl Command {
            /// Runs the command, and returns the exit code.
            pub(super) fn run(&self, place: &Place<'_>, output: &Output) -> Result<u8> {
                match self {
                    $($(#[$condition])* Self::$name(command) => super::$($run)::+(place, command, output),)+
                }
            }
        }
    };
}

// The order is that of `annals --help`.
commands! {
    #[cfg(feature = "agent")] Run(run::Arguments) => run::run,
    #[cfg(feature = "agent")] Resume(run::resume::Arguments) => run::resume::run,
    #[cfg(feature = "agent")] Send(run::send::Arguments) => run::send::run,
    #[cfg(feature = "agent")] Approve(run::approve::Arguments) => run::approve::run,
    #[cfg(feature = "agent")] Reject(run::reject::Arguments) => run::reject::run,
    #[cfg(feature = "agent")] Pause(run::pause::Arguments) => run::pause::run,
    #[cfg(feature = "agent")] Fork(run::fork::Arguments) => run::fork::run,
    #[cfg(feature = "agent")] Ask(run::ask::Arguments) => run::ask::run,
    #[cfg(feature = "agent")] Secrets(run::secrets::Arguments) => run::secrets::run,
    #[cfg(feature = "agent")] Profiles(run::profiles::Arguments) => run::profiles::run,
    #[cfg(feature = "agent")] Config(config::Arguments) => config::run,
    Import(import::Arguments) => import::run,
    Export(export::Arguments) => export::run,
    List(list::Arguments) => list::run,
    Show(show::Arguments) => show::run,
    Events(events::Arguments) => events::run,
    Transcript(transcript::Arguments) => transcript::run,
    Tail(tail::Arguments) => tail::run,
    Search(search::Arguments) => search::run,
    State(state::Arguments) => state::run,
    Query(query::Arguments) => query::run,
    Report(report::Arguments) => report::run,
    View(view::Arguments) => view::run,
    Messages(messages::Messages) => messages::run,
    Convert(messages::Convert) => messages::convert,
    Branches(branches::Arguments) => branches::run,
    Diff(diff::Arguments) => diff::run,
    Edits(edits::Arguments) => edits::run,
    Seen(seen::Arguments) => seen::run,
    Replay(replay::Arguments) => replay::run,
    Stats(stats::Arguments) => stats::run,
    Verify(verify::Arguments) => verify::run,
    Head(proof::Head) => proof::head,
    Keys(proof::Keys) => proof::keys,
    Bundle(proof::Bundle) => proof::bundle,
    Doctor(doctor::Arguments) => doctor::run,
    Rebuild(rebuild::Arguments) => rebuild::run,
    #[cfg(feature = "server")] Open(open::Arguments) => open::run,
    #[cfg(feature = "server")] Serve(serve::Arguments) => serve::run,
    #[cfg(feature = "server")] Mcp(mcp::Arguments) => mcp::run,
    Upgrade(upgrade::Arguments) => upgrade::run,
    Backup(backup::Arguments) => backup::run,
    Restore(restore::Arguments) => restore::run,
    Recover(recover::Arguments) => recover::run,
    Merge(carry::Merge) => carry::merge,
    Split(carry::Split) => carry::split,
    Copy(carry::Copy) => carry::copy,
    Delete(delete::Arguments) => delete::run,
    ScanSecrets(scan_secrets::Arguments) => scan_secrets::run,
    Redact(redact::Arguments) => redact::run,
    Erase(erase::Arguments) => erase::run,
    AdminLog(admin_log::Arguments) => admin_log::run,
    Prune(prune::Arguments) => prune::run,
    Archive(archive::Archive) => archive::run,
    Unarchive(archive::Unarchive) => archive::undo,
    Vacuum(vacuum::Arguments) => vacuum::run,
    #[cfg(feature = "postgres")] Shared(shared::Arguments) => shared::run,
    SelfCheck(self_check::Arguments) => self_check::run,
    Completions(completions::Arguments) => completions::run,
    Man(man::Arguments) => man::run,
}
