//! What can be typed to take conversations in and to write them out.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::event::foreign::ForeignFormat;
use crate::transfer;

/// Take in conversation folders, found by looking, every byte of them
///
/// Takes OpenHands conversations of any age (current layout, event_service/, V0 sessions), JSON lines and
/// JSON arrays of events; logs of Claude Code, Codex, LangGraph and the OpenAI Agents SDK become read-only copies
/// (docs/formats.md). What is damaged is taken in as far as it can be read, and what cannot be an event is
/// kept beside the others. Doing it again adds only what is new.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals import ~/.openhands/conversations
  annals import trajectory.json session/
  annals import ~/.claude/projects ~/.codex/sessions checkpoints.sqlite
  annals --json import backup/ | jq '.conversations[] | select(.status != \"imported\")'")]
pub(in crate::cli) struct Import {
    /// Conversation folders, folders of them, or files of events
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Give the conversation this id instead of its own (for a single one)
    #[arg(long = "as", value_name = "ID")]
    pub id: Option<String>,
    /// Take over files beside the events that have changed although no event was added
    #[arg(long)]
    pub accept_changed_files: bool,
    /// Take in conversations again that were erased here
    #[arg(long)]
    pub accept_erased: bool,
    /// Take what is there for this, instead of looking
    #[arg(long, value_enum)]
    pub format: Option<SourceFormat>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(in crate::cli) enum SourceFormat {
    /// Conversations of any age, JSON lines and arrays of events
    Openhands,
    /// Session files of Claude Code
    ClaudeCode,
    /// Session files of Codex
    Codex,
    /// Checkpoints in SQLite
    Langgraph,
    /// Sessions of the OpenAI Agents SDK in SQLite
    OpenaiAgents,
}

impl Import {
    pub(in crate::cli) fn format(&self) -> Option<transfer::SourceFormat> {
        use transfer::SourceFormat::{Foreign, OpenHands};
        self.format.map(|format| match format {
            SourceFormat::Openhands => OpenHands,
            SourceFormat::ClaudeCode => Foreign(ForeignFormat::ClaudeCode),
            SourceFormat::Codex => Foreign(ForeignFormat::Codex),
            SourceFormat::Langgraph => Foreign(ForeignFormat::LangGraph),
            SourceFormat::OpenaiAgents => Foreign(ForeignFormat::OpenAiAgents),
        })
    }
}

/// Write conversations out: byte for byte as they came in, or as a data set
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals export 5610a7 --to out/              its folder, or its log, as it came in
  annals export --all --to out/
  annals export 5610a7 --to out/ --format jsonl
  annals export --all --to today/ --upgrade   what the SDK of today opens
  annals export --all --to set/ --format chat a training set: one row a branch, messages and tools
  annals export --all --to set/ --format parquet")]
pub(in crate::cli) struct Export {
    /// Conversations, by id or the start of one
    #[arg(value_name = "ID", required_unless_present = "all", conflicts_with = "all")]
    pub ids: Vec<String>,
    /// Write every conversation
    #[arg(long)]
    pub all: bool,
    /// The folder to write into; created where it is missing
    #[arg(long, value_name = "DIR")]
    pub to: PathBuf,
    /// What to write
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Raise every event and base state to what today's SDK (1.58) opens
    #[arg(long, conflicts_with = "format")]
    pub upgrade: bool,
    /// Of training sets: what the model saw last, after condensation, instead of everything that was said
    #[arg(long)]
    pub view: bool,
    /// Of training sets: with what the model thought
    #[arg(long)]
    pub reasoning: bool,
}

/// What to write.
pub(in crate::cli) enum Wanted {
    /// A file or folder a conversation.
    Each(transfer::Format),
    /// One file for all.
    Together(transfer::Dataset),
}

impl Export {
    /// What is asked for; the name of the format where this program was built without it.
    pub(in crate::cli) fn wanted(&self) -> Result<Wanted, &'static str> {
        let options = transfer::TrainingOptions { view: self.view, reasoning: self.reasoning };
        Ok(match (self.format, self.upgrade) {
            (Format::Original, true) => Wanted::Each(transfer::Format::Upgraded),
            (Format::Original, false) => Wanted::Each(transfer::Format::OpenHands),
            (Format::Jsonl, _) => Wanted::Each(transfer::Format::Jsonl),
            (Format::Chat, _) => Wanted::Together(transfer::Dataset::Chat(options)),
            #[cfg(feature = "parquet")]
            (Format::ChatParquet, _) => Wanted::Together(transfer::Dataset::ChatParquet(options)),
            #[cfg(feature = "parquet")]
            (Format::Parquet, _) => Wanted::Together(transfer::Dataset::EventsParquet),
            #[cfg(not(feature = "parquet"))]
            (Format::ChatParquet | Format::Parquet, _) => return Err("parquet"),
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Default)]
pub(in crate::cli) enum Format {
    /// As it came in, byte for byte: the log of another program, the conversation's folder as the OpenHands SDK reads it
    #[default]
    #[value(alias = "openhands")]
    Original,
    /// One file a conversation, one event a line
    Jsonl,
    /// chat.jsonl, a training set: one row a branch, in the words of chat completions
    Chat,
    /// chat.parquet: the same (where the program was built with the feature parquet)
    ChatParquet,
    /// events.parquet: one row an event (where the program was built with the feature parquet)
    Parquet,
}
