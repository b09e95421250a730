//! How git is started: so that it runs no program of the repository that it looks at.
//!
//! Whatever works in a repository may write its settings, and many of them name programs. Those with a name that is
//! known are set to nothing; those that the repository named itself (its filters) are looked up and set to nothing one
//! by one; no protocol starts anything; and the environment holds nothing that is worth stealing. All of it goes
//! through the environment, where a name with `=` in it is no trouble. What it costs: files that a filter would turn
//! around (Git LFS) are compared as they lie there.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use crate::secret::environment::{self, Reach};

/// How long git may take to list its settings.
const PATIENCE: Duration = Duration::from_secs(10);

/// The most settings of filters that are set aside; a repository with more of them is not looked at.
const FILTERS_MAX: usize = 1000;

/// Settings that start a program whatever they are called for, and what they are set to.
const ALWAYS: &[(&str, &str)] = &[
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.pager", "cat"),
    ("core.editor", "true"),
    ("core.askPass", ""),
    ("core.alternateRefsCommand", "true"),
    ("sequence.editor", "true"),
    ("gpg.program", "false"),
    ("gpg.ssh.program", "false"),
    ("gpg.x509.program", "false"),
    ("log.showSignature", "false"),
    ("commit.gpgSign", "false"),
    ("diff.submodule", "short"),
    ("diff.ignoreSubmodules", "dirty"),
    ("status.submoduleSummary", "false"),
    ("submodule.recurse", "false"),
    ("fetch.recurseSubmodules", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("protocol.ext.allow", "never"),
];

/// Settings for a repository that is looked at, where nothing is fetched from anywhere.
const HERE: &[(&str, &str)] = &[
    ("core.sshCommand", "false"),
    ("core.gitProxy", "none"),
    ("credential.helper", ""),
    ("protocol.allow", "never"),
];

/// Where git may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// It looks at a repository of this machine and fetches nothing, not even what that lacks.
    Here,
    /// It fetches, with what the person has set up for it.
    FetchAsPerson,
    /// It fetches, and nothing of this machine vouches for anybody.
    FetchAsNobody,
}

/// Why git cannot be started safely.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unsafe {
    /// It cannot be started at all.
    #[error(transparent)]
    Start(#[from] std::io::Error),
    /// It did not list its settings in time.
    #[error("git did not list its settings in time")]
    Late,
    /// There are more filters than anybody needs.
    #[error("the repository has too many filters")]
    Filters,
}

/// How git is started for one repository: what its settings name is known and set aside.
#[derive(Debug, Clone)]
pub(crate) struct Git {
    used: Use,
    /// The settings of filters, wherever they come from: their names are the repository's to choose.
    filters: Vec<String>,
}

impl Git {
    /// For the repository that a folder is in, if it is in any.
    ///
    /// # Errors
    /// [`Unsafe`].
    pub async fn of(folder: &Path, used: Use) -> Result<Self, Unsafe> {
        let mut git = plain(folder, used);
        settings(&mut git, used, std::iter::empty());
        git.args(["config", "--list", "--name-only", "-z"]);
        git.stdout(Stdio::piped()).stderr(Stdio::null());
        let output = tokio::time::timeout(PATIENCE, git.output()).await.map_err(|_| Unsafe::Late)??;
        let names = String::from_utf8_lossy(&output.stdout);
        let is_meant =
            |name: &&str| name.starts_with("filter.") || (used != Use::FetchAsPerson && is_helper(name));
        let mut filters: Vec<String> = names.split('\0').filter(is_meant).map(str::to_owned).collect();
        filters.sort_unstable();
        filters.dedup();
        if filters.len() > FILTERS_MAX {
            return Err(Unsafe::Filters);
        }
        Ok(Self { used, filters })
    }

    /// Git in this folder with these arguments; it reads nothing, and what it writes is the caller's to take.
    pub fn command(&self, folder: &Path, arguments: &[&str]) -> Command {
        let mut git = plain(folder, self.used);
        let cleared = self.filters.iter().map(|name| {
            // Without a command a filter that is required would fail.
            let value = if name.ends_with(".required") { "false" } else { "" };
            (name.as_str(), value)
        });
        settings(&mut git, self.used, cleared);
        let (first, rest) = arguments.split_first().map_or(("", arguments), |(first, rest)| (*first, rest));
        let quiet: &[&str] = match first {
            "diff" => &["--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty"],
            "log" => &["--no-show-signature", "--no-ext-diff", "--no-textconv"],
            "status" => &["--ignore-submodules=dirty"],
            _ => &[],
        };
        git.arg(first).args(quiet).args(rest);
        git
    }
}

/// Whether a setting names what is asked for passwords, of one address or of all.
fn is_helper(name: &str) -> bool {
    name.starts_with("credential.") && name.ends_with(".helper")
}

/// Git without arguments, in an environment of its own.
fn plain(folder: &Path, used: Use) -> Command {
    let mut git = Command::new("git");
    let reach = if used == Use::Here { Reach::Here } else { Reach::Network };
    environment::clear(git.as_std_mut(), reach);
    git.arg("--no-pager").current_dir(folder).stdin(Stdio::null()).kill_on_drop(true);
    git.env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_ASKPASS", "true")
        .env("GIT_PAGER", "cat")
        .env("GIT_EDITOR", "true")
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env("LC_ALL", "C");
    match used {
        // Git 2.38 and later heed the list of protocols, those from 2.44 on do not even try.
        Use::Here => git.env("GIT_NO_LAZY_FETCH", "1").env("GIT_ALLOW_PROTOCOL", "none"),
        Use::FetchAsPerson => git.env("GIT_ALLOW_PROTOCOL", "file:git:http:https:ssh"),
        Use::FetchAsNobody => git
            .env("GIT_ALLOW_PROTOCOL", "file:git:http:https:ssh")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("SSH_ASKPASS", "true")
            .env_remove("SSH_AUTH_SOCK")
            .env("GIT_SSH_COMMAND", "ssh -oBatchMode=yes"),
    };
    #[cfg(unix)]
    git.process_group(0);
    git
}

/// Sets what counts more than any file of settings.
fn settings<'n>(git: &mut Command, used: Use, more: impl Iterator<Item = (&'n str, &'n str)>) {
    let here: &[(&str, &str)] = if used == Use::Here { HERE } else { &[] };
    let nobody: &[(&str, &str)] = if used == Use::FetchAsNobody { &[("credential.helper", "")] } else { &[] };
    let mut count = 0;
    for (name, value) in ALWAYS.iter().chain(here).chain(nobody).copied().chain(more) {
        git.env(format!("GIT_CONFIG_KEY_{count}"), name).env(format!("GIT_CONFIG_VALUE_{count}"), value);
        count += 1;
    }
    git.env("GIT_CONFIG_COUNT", count.to_string());
}
