//! `annals mcp`: past conversations for agents, through standard input and output.

use std::path::Path;

use clap::Args;
use tokio::runtime::Builder;
use tokio_util::sync::CancellationToken;

use super::print::Output;
use super::serve::THREADS_WAIT;
use super::signals::EndSignals;
use super::{DONE, Place, actor};
use crate::error::{Error, Result};
use crate::mcp::{Choices, Recall, TOKENS, TOKENS_MAX, TOKENS_MIN, serve_stdio};
use crate::store::Options;

/// Lets agents search and read past conversations: a server of the Model Context Protocol
///
/// The program of an agent starts it and speaks with it through standard input and output. The database is opened for
/// reading. Only its derived tables and its search index are brought up to date beside that, as by every other
/// command. docs/mcp.md describes the tools. `annals serve` offers the same over HTTP at /mcp.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  claude mcp add annals -- annals --db ~/annals.db mcp      Claude Code
  codex mcp add annals -- annals --db ~/annals.db mcp       Codex
  annals --db ~/annals.db mcp --max-tokens 4000")]
pub(super) struct Arguments {
    /// At most this many tokens in an answer, by an estimate; a call may ask for less
    #[arg(long, value_name = "N", default_value_t = TOKENS, value_parser = clap::value_parser!(u64).range(TOKENS_MIN..=TOKENS_MAX))]
    pub max_tokens: u64,
    /// Also offer a tool that sets the title of a conversation; without this, no tool writes
    #[arg(long)]
    pub allow_titles: bool,
    /// Leave derived tables and the search index as they are, so that nothing is written at all
    #[arg(long, conflicts_with = "allow_titles")]
    pub frozen: bool,
}

pub(super) fn run(place: &Place<'_>, command: &Arguments, _: &Output) -> Result<u8> {
    // Says on standard error what a person has to know, and brings an older file up to date.
    drop(if command.frozen { place.read_only()? } else { place.read()? });
    let choices = Choices {
        tokens_max: command.max_tokens,
        folder: std::env::current_dir().ok(),
        is_frozen: command.frozen,
        has_titles: command.allow_titles,
    };
    let path = std::path::absolute(place.path).unwrap_or_else(|_| place.path.to_owned());
    let recall = Recall::open(&path, Options { actor: actor::who(), ..Options::default() }, choices)?;
    serve(&path, recall)
}

fn serve(path: &Path, recall: Recall) -> Result<u8> {
    let failed = |source| Error::io("serving", path)(source);
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(failed)?;
    let ended = recall.clone();
    runtime.block_on(async {
        let mut end = EndSignals::caught().map_err(failed)?;
        let ending = CancellationToken::new();
        let served = serve_stdio(recall, ending.clone());
        tokio::pin!(served);
        tokio::select! {
            served = &mut served => served,
            () = end.next() => {
                ending.cancel();
                served.await
            }
        }
        .map_err(failed)
    })?;
    ended.close();
    // The thread that reads standard input ends with the process.
    runtime.shutdown_timeout(THREADS_WAIT);
    Ok(DONE)
}
