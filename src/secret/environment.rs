//! What programs that are started here find in their environment: never what the server was given for itself alone, and
//! a mark that says who started them. Signals do to them what they do to any program.

use std::ffi::{OsStr, OsString};
use std::process::Command;

use super::{is_secret_name, signals};

/// Variables that hold what only this program is to know, besides those that their names give away.
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

/// What a program gets that needs nothing of a person but where things are.
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

/// What one gets besides that fetches something for a person: how the network is reached, who vouches for them.
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

/// The variable that every program bears that is started here, and hands on to those that it starts.
pub const MARK: &str = "ANNALS_STARTED_BY";

/// The variable by which the C library of most systems is told, at a program's start, how to keep memory.
pub const TUNABLES: &str = "GLIBC_TUNABLES";

/// What a server tells it: a block of 128 KiB or more goes back to the system when it is let go of. Left alone, the library
/// keeps blocks of up to 32 MiB once one was let go of, in as many heaps as there are threads.
const TUNABLE: &str = "glibc.malloc.mmap_threshold=131072";

/// Whether a program may go to the network for a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// It works on files of this machine.
    Here,
    /// It fetches.
    Network,
}

/// Whether a variable is the server's own: its keys, and what holds some.
#[must_use]
pub fn is_own(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    OWN.contains(&&*upper)
        || upper.contains("SESSION_API_KEY")
        || (upper.starts_with("OH_") && is_secret_name(&upper))
}

/// Takes the server's own variables from a program that otherwise inherits all of them: the commands of agents.
pub fn withhold(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_none_or(is_own) {
            command.env_remove(name);
        }
    }
    let theirs = std::env::var_os(TUNABLES).and_then(|text| {
        let text = text.into_string().ok()?;
        text.strip_suffix(TUNABLE).map(|before| before.trim_end_matches(':').to_owned())
    });
    match theirs.as_deref() {
        Some("") => command.env_remove(TUNABLES),
        Some(theirs) => command.env(TUNABLES, theirs),
        None => command,
    };
    bear_mark(command);
}

/// What [`TUNABLES`] is to say for a server, where it says something else. What a person says of the same stays.
#[must_use]
pub fn tuned(said: Option<OsString>) -> Option<OsString> {
    if !cfg!(all(target_os = "linux", target_env = "gnu")) {
        return None;
    }
    match said.unwrap_or_default().into_string() {
        Ok(said) if said.is_empty() => Some(TUNABLE.into()),
        Ok(said) if !said.contains("glibc.malloc.mmap_threshold") => Some(format!("{said}:{TUNABLE}").into()),
        Ok(_) | Err(_) => None,
    }
}

/// Leaves a program a few plain variables and nothing else.
pub fn clear(command: &mut Command, reach: Reach) {
    let may = |name: &OsStr| {
        let name = name.to_str().unwrap_or_default();
        PLAIN.contains(&name) || (reach == Reach::Network && TRAVEL.contains(&name))
    };
    let kept: Vec<(OsString, OsString)> = std::env::vars_os().filter(|(name, _)| may(name)).collect();
    command.env_clear().envs(kept);
    bear_mark(command);
}

/// Marks a program as one that this process started, so that it can be ended with it. It ignores no signal that this process
/// ignores.
pub fn bear_mark(command: &mut Command) {
    signals::pass_on_unignored();
    if let Some(mark) = mark() {
        command.env(MARK, mark);
    }
}

/// What the programs bear that this process starts: its number, and when it began, so that no other process of this
/// machine ever marks the same. `None` where the system does not tell.
#[must_use]
pub fn mark() -> Option<String> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // Behind the name, which may have any letters in it: the 20th field is when it began (proc(5)).
    let began = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?;
    Some(format!("{}-{began}", std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::{is_own, tuned};

    #[test]
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    fn what_a_person_says_of_memory_stays() {
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
