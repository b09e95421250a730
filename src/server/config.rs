//! How a server is set up. Where each value comes from is the command line's business.

use std::path::PathBuf;

/// How a server is set up.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// Who has one of these may do everything. Empty: anybody may.
    pub session_keys: Vec<String>,
    /// Origins that a browser may call from besides those of this machine.
    pub origins: Vec<String>,
    /// Where commands run that name no folder: the server's own where it is none.
    pub workspace_dir: Option<PathBuf>,
    /// The home folder of whoever runs the server.
    pub home_dir: Option<PathBuf>,
}
