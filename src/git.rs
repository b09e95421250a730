//! Starts git so that it runs no program that the repository names.
//!
//! Any program that works in a repository may write the repository's settings, and many settings name programs.
//! Settings with known names are overridden. A repository chooses the names of its filters, so these settings are
//! listed and overridden one by one. The protocol that starts arbitrary programs (`ext`) is not allowed, and the
//! environment contains only a few known variables. All overrides are passed through the environment, because it allows
//! a `=` in their names. The cost: files that a filter would convert (Git LFS) are compared as they are on disk.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use crate::program;
use crate::secret::environment::{self, Reach};

/// The time that git has to list its settings.
const LIST_TIMEOUT: Duration = Duration::from_secs(10);

/// The most settings of filters that are overridden. A repository with more is rejected.
const FILTERS_MAX: usize = 1000;

/// Settings that can start a program in any use of git, and the values that prevent it.
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

/// Additional settings for `Use::Here`, because nothing is fetched then.
const HERE: &[(&str, &str)] = &[
    ("core.sshCommand", "false"),
    ("core.gitProxy", "none"),
    ("credential.helper", ""),
    ("protocol.allow", "never"),
];

/// What git may access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// It reads a repository on this machine and fetches nothing, not even objects that the repository lacks.
    Here,
    /// It fetches, with the settings and credentials of the person.
    FetchAsPerson,
    /// It fetches, without any credentials of this machine.
    FetchAsNobody,
}

/// Why git cannot be started safely.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unsafe {
    /// Git cannot be started at all.
    #[error(transparent)]
    Start(#[from] std::io::Error),
    /// Git did not list its settings in time.
    #[error("git did not list its settings in time")]
    Late,
    /// The repository has more than `FILTERS_MAX` settings of filters.
    #[error("the repository has too many filters")]
    Filters,
}

/// How git is started for one repository. The programs that its settings name are known and overridden.
#[derive(Debug, Clone)]
pub(crate) struct Git {
    used: Use,
    /// The names of the settings of filters in all configuration files, because a repository can choose these names.
    /// Also those of credential helpers, unless the person's settings are used.
    filters: Vec<String>,
}

impl Git {
    /// Prepares git for the repository that contains the folder, if there is one.
    ///
    /// # Errors
    /// [`Unsafe`] if git cannot be started safely.
    pub async fn of(folder: &Path, used: Use) -> Result<Self, Unsafe> {
        let mut git = plain(folder, used);
        settings(&mut git, used, std::iter::empty());
        git.args(["config", "--list", "--name-only", "-z"]);
        git.stdout(Stdio::piped()).stderr(Stdio::null());
        let output = tokio::time::timeout(LIST_TIMEOUT, git.output()).await.map_err(|_| Unsafe::Late)??;
        let names = String::from_utf8_lossy(&output.stdout);
        let is_overridden =
            |name: &&str| name.starts_with("filter.") || (used != Use::FetchAsPerson && is_helper(name));
        let mut filters: Vec<String> = names.split('\0').filter(is_overridden).map(str::to_owned).collect();
        filters.sort_unstable();
        filters.dedup();
        if filters.len() > FILTERS_MAX {
            return Err(Unsafe::Filters);
        }
        Ok(Self { used, filters })
    }

    /// Makes the command for git in this folder with these arguments. It has no input. The caller handles its output.
    pub fn command(&self, folder: &Path, arguments: &[&str]) -> Command {
        let mut git = plain(folder, self.used);
        let cleared = self.filters.iter().map(|name| {
            // A required filter without a command would fail, so it is not required.
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

/// Whether a setting names a credential helper, for one address or for all.
fn is_helper(name: &str) -> bool {
    name.starts_with("credential.") && name.ends_with(".helper")
}

/// Makes a command for git without arguments, with a cleared environment.
fn plain(folder: &Path, used: Use) -> Command {
    let mut git = Command::new(environment::path_of("git"));
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
        // Git obeys the list of protocols from 2.38 on. From 2.44 on it does not even try to fetch.
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
    program::separate(&mut git);
    git
}

/// Sets the overrides, which have priority over all configuration files.
fn settings<'n>(git: &mut Command, used: Use, more: impl Iterator<Item = (&'n str, &'n str)>) {
    let here: &[(&str, &str)] = if used == Use::Here { HERE } else { &[] };
    let helper: &[(&str, &str)] = if used == Use::FetchAsNobody { &[("credential.helper", "")] } else { &[] };
    let mut count = 0;
    for (name, value) in ALWAYS.iter().chain(here).chain(helper).copied().chain(more) {
        git.env(format!("GIT_CONFIG_KEY_{count}"), name).env(format!("GIT_CONFIG_VALUE_{count}"), value);
        count += 1;
    }
    git.env("GIT_CONFIG_COUNT", count.to_string());
}
