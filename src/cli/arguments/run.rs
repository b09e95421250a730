//! The arguments of the commands that run agents.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use crate::plugin::AmbientPlugins;

/// What an agent is run with; `annals config` shows what holds where nothing is said.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Agent")]
pub(in crate::cli) struct Model {
    /// The model, by its provider and name: anthropic/claude-sonnet-4-5, openai/gpt-5, ollama/qwen3
    #[arg(long, short, value_name = "PROVIDER/MODEL")]
    pub model: Option<String>,
    /// A named model of `annals profiles`
    #[arg(long, short, value_name = "NAME")]
    pub profile: Option<String>,
    /// Where the provider is, if not where it is as a rule
    #[arg(long, value_name = "URL")]
    pub base_url: Option<String>,
    /// Which actions wait for you
    #[arg(long, value_enum)]
    pub confirm: Option<Confirm>,
    /// The most steps of a run
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_iterations: Option<u64>,
    /// The most that the conversation may cost, in dollars
    #[arg(long, value_name = "DOLLARS")]
    pub max_budget: Option<f64>,
    /// What the agent can do, instead of terminal, file_editor and task_tracker; may be given several times
    #[arg(long = "tool", value_name = "NAME")]
    pub tools: Vec<String>,
    /// What files may add to an agent, instead of skills, memory and your own plugins
    #[arg(long, value_enum)]
    pub extras: Option<Extras>,
    /// The file of settings, instead of the one in your configuration folder
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// Where the conversation runs, if not here.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Server")]
pub(in crate::cli) struct Remote {
    /// The agent-server that runs it, Annals' or the reference's: http://127.0.0.1:8000. Ids are then whole, and no
    /// database is opened
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
    /// The variable that holds the server's key
    #[arg(long, value_name = "VARIABLE", default_value = KEY_VARIABLE, requires = "server")]
    pub api_key: String,
}

/// The variable that a server is told its first key with.
pub(in crate::cli) const KEY_VARIABLE: &str = "OH_SESSION_API_KEYS_0";

/// Which actions wait for a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::cli) enum Confirm {
    /// None
    Never,
    /// Those of high risk, and those whose risk nobody knows
    Risky,
    /// All of them
    Always,
}

impl Confirm {
    pub(in crate::cli) fn as_str(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::Risky => "risky",
            Self::Always => "always",
        }
    }
}

/// What files of the workspace and of a person's folder may add to an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::cli) enum Extras {
    /// Nothing
    None,
    /// Skills, rules, memory and agents, yours and the workspace's
    Skills,
    /// Your own plugins too
    Plugins,
    /// The workspace's plugins too: their hooks and servers are commands that are run
    All,
}

impl Extras {
    pub(in crate::cli) fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Skills => "skills",
            Self::Plugins => "plugins",
            Self::All => "all",
        }
    }

    /// Which plugins an agent has without being given them.
    pub(in crate::cli) fn ambient_plugins(self) -> AmbientPlugins {
        match self {
            Self::None | Self::Skills => AmbientPlugins::None,
            Self::Plugins => AmbientPlugins::Own,
            Self::All => AmbientPlugins::All,
        }
    }
}

/// Run an agent on a folder, and watch it
///
/// The conversation is kept in the database as it goes. Ctrl-C pauses it after the step that is under way; a second
/// one interrupts it at once. Either way `annals resume` goes on with it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals run 'make the tests pass' --model anthropic/claude-sonnet-4-5
  annals run 'what does this do?' --workspace ~/project --model ollama/qwen3 --tool terminal
  annals run - <task.md --profile work --confirm never
  annals run 'deploy' --secret TOKEN   commands that name TOKEN get the variable's value
  annals run 'review' --plugin ./review --plugin github:acme/tools/plugins/lint#v2
  annals run 'tidy up' --server http://127.0.0.1:8000 --workspace /srv/project   at a server, in its folder

The key is read from LLM_API_KEY, or from the provider's own variable (ANTHROPIC_API_KEY, OPENAI_API_KEY, ..).

Exit codes: 0 finished; 1 paused, stuck, or waiting for consent; 2 failed.")]
pub(in crate::cli) struct Run {
    /// What is to be done; - reads it from standard input
    pub task: String,
    /// The folder to work in, this one if none is said; with --server one of the server's
    #[arg(long, short, value_name = "FOLDER")]
    pub workspace: Option<PathBuf>,
    /// A secret for commands that name it: the variable of that name, or another one's value; may be given several times
    #[arg(long = "secret", value_name = "NAME[=VARIABLE]")]
    pub secrets: Vec<String>,
    /// A tag of the conversation; may be given several times
    #[arg(long = "tag", value_name = "TAG=VALUE")]
    pub tags: Vec<String>,
    /// A plugin: a folder, github:owner/repo[/folder], or the URL of a repository, with #BRANCH, #TAG or #COMMIT; may be
    /// given several times. Its hooks and servers are commands that are run
    #[arg(long = "plugin", value_name = "SOURCE")]
    pub plugins: Vec<String>,
    /// Hooks: a file as the reference has it in .openhands/hooks.json
    #[arg(long, value_name = "FILE")]
    pub hooks: Option<PathBuf>,
    #[command(flatten)]
    pub remote: Remote,
    #[command(flatten)]
    pub model: Model,
}

/// Go on with a conversation, and watch it
///
/// What was interrupted is said to the agent as such; nothing is done twice. Actions that wait for consent are asked
/// about first.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals resume 5610a7
  annals resume 5610a7 'use the other parser'   say something first
  annals resume 5610a7 --model openai/gpt-5     with another model")]
pub(in crate::cli) struct Resume {
    /// The conversation, by the start of its id
    pub id: String,
    /// Something to say to the agent first
    pub text: Option<String>,
    #[command(flatten)]
    pub remote: Remote,
    #[command(flatten)]
    pub model: Model,
}

/// Say something to an agent
///
/// One that is running, in whichever process, hears of it at its next step; one that is not hears of it when it is
/// resumed.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals send 5610a7 'the tests are in t/, by the way'
  annals send 5610a7 'and now the documentation' --run")]
pub(in crate::cli) struct Send {
    /// The conversation, by the start of its id
    pub id: String,
    /// What to say
    pub text: String,
    /// Go on with it at once, and watch
    #[arg(long)]
    pub run: bool,
    #[command(flatten)]
    pub remote: Remote,
    #[command(flatten)]
    pub model: Model,
}

/// Consent to the actions that wait, and go on
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals show 5610a7      what it wants to do
  annals approve 5610a7")]
pub(in crate::cli) struct Approve {
    /// The conversation, by the start of its id
    pub id: String,
    #[command(flatten)]
    pub remote: Remote,
    #[command(flatten)]
    pub model: Model,
}

/// Refuse the actions that wait
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals reject 5610a7 --reason 'not on the main branch'
  annals reject 5610a7 --run      and let the agent think of something else")]
pub(in crate::cli) struct Reject {
    /// The conversation, by the start of its id
    pub id: String,
    /// Why; the agent is told
    #[arg(long, default_value = "User rejected the action")]
    pub reason: String,
    /// Go on at once, and watch
    #[arg(long)]
    pub run: bool,
    #[command(flatten)]
    pub remote: Remote,
    #[command(flatten)]
    pub model: Model,
}

/// Pause a conversation, whichever process runs it
///
/// Tools that are at work end first; then nothing more is done until it is resumed.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals pause 5610a7
  annals resume 5610a7    when it may go on")]
pub(in crate::cli) struct Pause {
    /// The conversation, by the start of its id
    pub id: String,
    #[command(flatten)]
    pub remote: Remote,
}

/// Copy a conversation, to go on differently
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals fork 5610a7                     all of it
  annals events 5610a7                   which events there are
  annals fork 5610a7 --from 3f1c --run   from that event on, and watch")]
pub(in crate::cli) struct Fork {
    /// The conversation, by the start of its id
    pub id: String,
    /// The last event to take along, by its sequence or the start of its id
    #[arg(long, value_name = "EVENT")]
    pub from: Option<String>,
    /// Take along what model calls have cost
    #[arg(long)]
    pub keep_cost: bool,
    /// Go on with the copy at once, and watch
    #[arg(long)]
    pub run: bool,
    #[command(flatten)]
    pub model: Model,
}

/// Ask the agent about what it did, without a trace in the conversation
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals ask 5610a7 'why did you delete the cache?'")]
pub(in crate::cli) struct Ask {
    /// The conversation, by the start of its id
    pub id: String,
    /// The question
    pub question: String,
    #[command(flatten)]
    pub remote: Remote,
    #[command(flatten)]
    pub model: Model,
}

/// Show which secrets a conversation has, or give it some
///
/// Values are never shown. They are kept sealed with the key in OH_SECRET_KEY; without it none can be kept.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals secrets 5610a7                        their names
  annals secrets 5610a7 --set DEPLOY_TOKEN     the variable DEPLOY_TOKEN of your shell
  annals secrets 5610a7 --set TOKEN=GH_TOKEN   under another name
  annals secrets 5610a7 --remove TOKEN")]
pub(in crate::cli) struct Secrets {
    /// The conversation, by the start of its id
    pub id: String,
    /// Add or replace one: the variable of that name, or another one's value; may be given several times
    #[arg(long, value_name = "NAME[=VARIABLE]")]
    pub set: Vec<String>,
    /// Take one away; may be given several times
    #[arg(long, value_name = "NAME")]
    pub remove: Vec<String>,
}

/// Show what agents are run with, and where each value came from
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals config
  LLM_MODEL=openai/gpt-5 annals config   the environment counts more than the file
  annals config --model ollama/qwen3     the command line counts most

The file is config.toml in the folder annals of your configuration folder, for example
  model = \"anthropic/claude-sonnet-4-5\"
  confirm = \"always\"
  max_budget = 2.50")]
pub(in crate::cli) struct Config {
    #[command(flatten)]
    pub model: Model,
}

/// List named models, or keep one
///
/// They are files in the folder that the reference uses too.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals profiles
  annals profiles --save fast --model openai/gpt-5-mini
  annals profiles --save local --model openai/qwen3 --base-url http://localhost:8000/v1 --with-key
  annals run 'tidy up' --profile fast
  annals profiles --remove fast")]
pub(in crate::cli) struct Profiles {
    /// Keep the model that the other options describe under this name
    #[arg(long, value_name = "NAME")]
    pub save: Option<String>,
    /// Keep its key too: sealed with the key in OH_SECRET_KEY, or as it is where there is none
    #[arg(long, requires = "save")]
    pub with_key: bool,
    /// Remove one
    #[arg(long, value_name = "NAME", conflicts_with = "save")]
    pub remove: Option<String>,
    #[command(flatten)]
    pub model: Model,
}
