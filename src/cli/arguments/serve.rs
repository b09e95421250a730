//! The arguments of `annals serve` and `annals open`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;

use super::run::Extras;

/// Serves the OpenHands agent-server API over the database
///
/// The real OpenHands clients work against it unchanged. It listens on this machine only, unless `--host`
/// says otherwise; then it wants a session key. The reference's environment names are read too:
/// OH_SESSION_API_KEYS and OH_PREVIOUS_SECRET_KEYS (a JSON list, or _0, _1, ..), SESSION_API_KEY, OH_SECRET_KEY,
/// OH_WEBHOOKS, OH_MAX_CONCURRENT_RUNS, OH_CONVERSATIONS_PATH, OH_PERSISTENCE_DIR, OH_WORKSPACE_PATH,
/// OH_CONVERSATION_WORKTREE_ROOT and OH_CONVERSATION_IDLE_TTL_SECONDS; so is its file
/// workspace/openhands_agent_server_config.json, or the file that OPENHANDS_AGENT_SERVER_CONFIG_PATH names. The
/// server does not start with a key that it does not understand.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    annals serve\n  \
    SESSION_API_KEY=$KEY annals --db team.db serve --port 8000\n  \
    SESSION_API_KEY=$KEY annals serve --host 0.0.0.0\n  \
    annals serve --config server.toml     [serve] port = 8000, api_keys = [..], max_concurrent_runs = 20, ..\n  \
    OH_CONVERSATIONS_PATH=workspace/conversations annals serve --import-folders   in the reference's place")]
pub(in crate::cli) struct Serve {
    /// The file of settings whose table `serve` says what is not said here; else annals/config.toml in the folder for
    /// programs' settings
    #[arg(long, value_name = "FILE", env = "ANNALS_CONFIG")]
    pub config: Option<PathBuf>,
    /// The address to listen on [default: 127.0.0.1]
    #[arg(long, env = "ANNALS_HOST")]
    pub host: Option<IpAddr>,
    /// The port to listen on; 0 takes a free one and says which [default: 8000]
    #[arg(long, short, env = "PORT")]
    pub port: Option<u16>,
    /// A session key that clients have to show; may be given several times. Better is the variable SESSION_API_KEY, or
    /// `api_keys` in the file of settings: what is typed is seen by every user of the machine until the program has started
    /// itself anew without it
    #[arg(long = "api-key", value_name = "KEY")]
    pub api_keys: Vec<String>,
    /// Where keys that were typed are handed over when the program starts itself anew
    #[cfg(unix)]
    #[arg(long, hide = true)]
    pub handed_keys: Option<u32>,
    /// An origin of pages in a browser that may call; may be given several times
    #[arg(long = "allow-origin", value_name = "ORIGIN")]
    pub origins: Vec<String>,
    /// A name that the server may be asked under besides addresses and localhost, like agents.example; may be given
    /// several times. Without a key requests to other names are refused
    #[arg(long = "allow-host", value_name = "HOST")]
    pub hosts: Vec<String>,
    /// An origin where secrets may be looked up, like https://vault.example:8200; may be given several times.
    /// Without any they may be looked up anywhere the server reaches
    #[arg(long = "lookup-origin", value_name = "ORIGIN")]
    pub lookup_origins: Vec<String>,
    /// A collector of OpenTelemetry to tell of turns, replies and tool calls, like http://localhost:4318; nothing of what
    /// is said goes there. Needs a build with the feature `otel`
    #[cfg_attr(feature = "otel", arg(env = "OTEL_EXPORTER_OTLP_ENDPOINT"))]
    #[arg(long, value_name = "URL")]
    pub otel_endpoint: Option<String>,
    /// What files may add to agents, whatever clients ask for: skills and agents of the folder of whoever runs the
    /// server, their plugins, and those of workspaces, whose hooks and servers are commands that are run [default: all]
    #[arg(long, value_enum, env = "ANNALS_EXTRAS")]
    pub extras: Option<Extras>,
    /// Take in the conversation folders under OH_CONVERSATIONS_PATH (else `conversations` beside the database) first;
    /// what is in the database already is left as it is
    #[arg(long)]
    pub import_folders: bool,
    /// Listen on other addresses than this machine's without any key: everybody who reaches it may run commands
    #[arg(long)]
    pub without_key: bool,
}

/// Opens the database in the browser: watch, search, understand and steer its conversations
///
/// A server of its own is started for it, on a free port of this machine, with a key that is made for this time and
/// handed to the browser in the address, behind the `#`: keep the address to yourself. It ends with Ctrl-C. BROWSER
/// says which browser; the rest of the environment is as for `annals serve`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    annals open                        annals.db in this folder\n  \
    annals open team.db\n  \
    BROWSER=firefox annals open\n  \
    annals open --no-browser           prints the address only\n  \
    annals open --no-browser --port 8000, then at home: ssh -L 8000:127.0.0.1:8000 THERE")]
pub(in crate::cli) struct Open {
    /// The database file; else that of --db
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Print the address, and open no browser
    #[arg(long)]
    pub no_browser: bool,
    /// The port to listen on; 0 takes a free one
    #[arg(long, short, value_name = "PORT", default_value_t = 0)]
    pub port: u16,
}
