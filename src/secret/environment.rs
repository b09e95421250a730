//! The environment of programs that this process starts. They never get variables that are meant for the server alone,
//! and they get a mark that identifies the process that started them. Signals affect them like any other program.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{is_secret_name, signals};
use crate::untrusted;

/// Variables with secrets of this program, besides those that are recognized by a part of their name.
///
/// Source: the reference's list (`utils/command.py` of SDK 1.58).
const OWN: [&str; 6] = [
    "OH_WEBHOOKS",
    "OPENHANDS_AGENT_SERVER_CONFIG_PATH",
    "LMNR_PROJECT_API_KEY",
    "OTEL_HEADERS",
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
];

/// The variables that [`clear`] keeps for every program: folders, locale and user name.
const PLAIN: [&str; 14] = [
    "HOME",
    "LANG",
    "LOGNAME",
    "PATH",
    "PATHEXT",
    "SYSTEMROOT",
    "TEMP",
    "TMP",
    "TMPDIR",
    "TZ",
    "USER",
    "USERPROFILE",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
];

/// The variables that [`clear`] also keeps for a program that uses the network for the user: proxies, certificates, git
/// and authentication agents.
const TRAVEL: [&str; 18] = [
    "ALL_PROXY",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "SSH_AUTH_SOCK",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "DBUS_SESSION_BUS_ADDRESS",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_SSL_CAINFO",
    "XDG_RUNTIME_DIR",
    "all_proxy",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

/// The variable with the mark. Every program that is started here has it, and so do the programs that it starts.
pub const MARK: &str = "ANNALS_STARTED_BY";

/// The variable with settings of the C library of most Linux systems. It is read at a program's start.
pub const TUNABLES: &str = "GLIBC_TUNABLES";

/// The setting for a server: a block of 128 KiB or more goes back to the system when it is freed. By default, the
/// library keeps blocks of up to 32 MiB after one was freed, in as many heaps as there are threads.
const TUNABLE: &str = "glibc.malloc.mmap_threshold=131072";

/// Whether a program may use the network for the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// It works on files of this machine.
    Here,
    /// It uses the network.
    Network,
}

/// Returns whether a variable is meant for the server alone: one that has, or may have, the server's keys.
#[must_use]
pub fn is_own(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    OWN.contains(&&*upper)
        || upper.contains("SESSION_API_KEY")
        || (upper.starts_with("OH_") && is_secret_name(&upper))
}

/// Removes the server's own variables from a program that otherwise inherits all of them. For the commands of agents.
pub fn withhold(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_none_or(is_own) {
            command.env_remove(name);
        }
    }
    // The program gets the value that this process had before it added `TUNABLE`.
    let original = std::env::var_os(TUNABLES).and_then(|text| {
        let text = text.into_string().ok()?;
        text.strip_suffix(TUNABLE).map(|before| before.trim_end_matches(':').to_owned())
    });
    match original.as_deref() {
        Some("") => command.env_remove(TUNABLES),
        Some(original) => command.env(TUNABLES, original),
        None => command,
    };
    bear_mark(command);
}

/// Returns the value that a server needs in [`TUNABLES`], or `None` if `current` needs no change. If the operator chose
/// a value for the same setting, it stays.
#[cfg(any(feature = "cli", test))]
#[must_use]
pub fn tuned(current: Option<OsString>) -> Option<OsString> {
    if !cfg!(all(target_os = "linux", target_env = "gnu")) {
        return None;
    }
    match current.unwrap_or_default().into_string() {
        Ok(text) if text.is_empty() => Some(TUNABLE.into()),
        Ok(text) if !text.contains("glibc.malloc.mmap_threshold") => Some(format!("{text}:{TUNABLE}").into()),
        Ok(_) | Err(_) => None,
    }
}

/// Returns the path of a program on this process's search path; the name itself if it is not there, or is a path.
///
/// A program with a changed environment that is named by its name alone is started by a fork. A fork copies the table of
/// all pages, and each page that a large process writes afterwards is a fault. With a path the system does not fork.
#[must_use]
pub fn path_of(name: &str) -> PathBuf {
    if name.contains(std::path::is_separator) {
        return name.into();
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let mut paths =
        std::env::split_paths(&folders).filter(|folder| folder.is_absolute()).map(|folder| folder.join(name));
    paths.find(|path| is_executable(path)).unwrap_or_else(|| name.into())
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// The system adds the endings of names.
#[cfg(not(unix))]
fn is_executable(_: &Path) -> bool {
    false
}

/// Removes all variables from a program except a few that are needed and not secret.
pub fn clear(command: &mut Command, reach: Reach) {
    let may = |name: &OsStr| {
        let name = name.to_str().unwrap_or_default();
        PLAIN.contains(&name) || (reach == Reach::Network && TRAVEL.contains(&name))
    };
    let kept: Vec<(OsString, OsString)> = std::env::vars_os().filter(|(name, _)| may(name)).collect();
    command.env_clear().envs(kept);
    bear_mark(command);
}

/// Marks a program as started by this process, so that it can be ended together with this process. Also ensures that
/// the program does not ignore signals that this process ignores.
pub fn bear_mark(command: &mut Command) {
    signals::pass_on_unignored();
    if let Some(mark) = mark() {
        command.env(MARK, mark);
    }
}

/// Returns the mark of programs that this process starts: its process id and its start time. No other process of this
/// machine ever has the same mark. `None` if the system does not report the start time.
#[must_use]
pub fn mark() -> Option<String> {
    let stat = untrusted::read_system("/proc/self/stat").ok()?;
    // The 20th field after the program's name is the start time (proc(5)). The name may contain any character.
    let started = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?;
    Some(format!("{}-{started}", std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::{is_own, path_of, tuned};

    #[test]
    #[cfg(unix)]
    fn a_program_on_the_search_path_has_a_path() {
        let sh = path_of("sh");
        assert!(sh.is_absolute() && sh.ends_with("sh"), "{}", sh.display());
        for name in ["no such program", "./sh", "bin/sh", "/bin/sh"] {
            assert_eq!(path_of(name).as_os_str(), name);
        }
    }

    #[test]
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    fn the_operators_own_memory_setting_stays() {
        let ours = "glibc.malloc.mmap_threshold=131072";
        assert_eq!(tuned(None), Some(ours.into()));
        assert_eq!(tuned(Some("a=1".into())), Some(format!("a=1:{ours}").into()));
        assert_eq!(tuned(Some("glibc.malloc.mmap_threshold=1".into())), None);
    }

    #[test]
    fn every_name_that_bears_a_key_of_the_servers_is_its_own() {
        for name in [
            "OH_SESSION_API_KEYS",
            "OH_SESSION_API_KEYS_0",
            "OH_SESSION_API_KEYS_100",
            "SESSION_API_KEY",
            "OH_SECRET_KEY",
            "OH_PREVIOUS_SECRET_KEYS",
            "OH_PREVIOUS_SECRET_KEYS_0",
            "OH_TELEMETRY_POSTHOG_API_KEY",
            "OH_TELEMETRY_HTTP_TOKEN",
            "OH_WEBHOOKS",
            "OPENHANDS_AGENT_SERVER_CONFIG_PATH",
        ] {
            assert!(is_own(name), "{name}");
        }
        for name in ["PATH", "OPENHANDS_SESSION_ID", "OH_WORKSPACE_PATH", "OPENAI_API_KEY", "HOME"] {
            assert!(!is_own(name), "{name}");
        }
    }
}
