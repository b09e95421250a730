//! Restarts the program, without typed keys on its command line, and with memory settings that free unused memory.
//!
//! Every user of the machine can read the command line of a process, and so can every command of an agent. So the keys
//! go through a pipe, which the new program empties before it does anything else. The process id stays the same, so a
//! supervisor notices nothing.
//!
//! The GNU C library reads its memory settings once, at the start. With its defaults, the program never gives back the
//! memory that a few large answers took ([`environment::tuned`]).

use std::ffi::{OsStr, OsString};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::error::{Error, Result, SetupError};
use crate::secret::environment;
use crate::untrusted;

/// The option with which a user types a key.
const TYPED: &str = "--api-key";

/// The hidden option that the new program gets instead: the descriptor of the pipe with the keys.
const HANDED: &str = "--handed-keys";

/// The maximum length of all keys, in bytes. A pipe holds this much before anything reads from it.
const KEYS_BYTES_MAX: usize = 32 << 10;

/// Returns the typed keys. Restarts the program first if keys were typed or the memory settings are missing.
///
/// `handed` is the pipe's descriptor. It is given if the program was restarted already.
///
/// # Errors
/// [`SetupError::Setting`] if keys were typed and the program cannot be restarted, or if `handed` has no keys to read.
pub(super) fn keys(typed: &[String], handed: Option<u32>) -> Result<Vec<String>> {
    if let Some(descriptor) = handed {
        return received_keys(descriptor);
    }
    let tunables = environment::tuned(std::env::var_os(environment::TUNABLES));
    if typed.is_empty() && tunables.is_none() {
        return Ok(Vec::new());
    }
    let error = start(typed, tunables);
    // If no keys were typed, a failed restart only costs memory.
    if typed.is_empty() { Ok(Vec::new()) } else { Err(error) }
}

/// Restarts this program and hands `keys` over. Returns only if that fails. The error says why, and how else a key can
/// be given.
fn start(keys: &[String], tunables: Option<OsString>) -> Error {
    let failed = |error: io::Error| {
        Error::Setup(SetupError::Setting {
            place: TYPED.to_owned(),
            reason: format!(
                "the key cannot be taken off the command line, where everybody may read it: {error}; give it as \
             SESSION_API_KEY, or in a file"
            ),
        })
    };
    let pipe = rustix::pipe::pipe().map_err(io::Error::from);
    let from = match pipe.and_then(|(from, to)| hand_over(keys, to).map(|()| from)) {
        Ok(from) => from,
        Err(error) => return failed(error),
    };
    let mut arguments = std::env::args_os();
    let mut command = Command::new(program());
    command.arg0(arguments.next().unwrap_or_else(|| "annals".into()));
    command.args(without_keys(arguments)).arg(HANDED).arg(from.as_raw_fd().to_string());
    command.envs(tunables.map(|tunables| (environment::TUNABLES, tunables)));
    failed(command.exec())
}

/// Returns the path of the running program, even if its file was removed or replaced since it started.
pub(super) fn program() -> OsString {
    let own = std::env::current_exe().ok().filter(|path| path.exists());
    own.map_or_else(|| "/proc/self/exe".into(), std::path::PathBuf::into_os_string)
}

fn hand_over(keys: &[String], to: OwnedFd) -> io::Result<()> {
    let text = serde_json::to_string(keys)?;
    if text.len() > KEYS_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the keys are too long"));
    }
    std::fs::File::from(to).write_all(text.as_bytes())
}

/// Reads the keys that were handed over. Empties the pipe, because child processes inherit it.
///
/// # Errors
/// [`SetupError::Setting`] if the keys cannot be read from the descriptor.
fn received_keys(descriptor: u32) -> Result<Vec<String>> {
    let read = || -> io::Result<Vec<String>> {
        let mut text = String::new();
        untrusted::open_named(std::path::Path::new(&format!("/dev/fd/{descriptor}")))?
            .take(KEYS_BYTES_MAX as u64)
            .read_to_string(&mut text)?;
        Ok(serde_json::from_str(&text)?)
    };
    read().map_err(|error| {
        Error::Setup(SetupError::Setting {
            place: HANDED.to_owned(),
            reason: format!("it is for this program's own use: {error}"),
        })
    })
}

/// Returns the arguments without the typed keys.
fn without_keys(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let (mut kept, mut is_key) = (Vec::new(), false);
    for argument in arguments {
        if std::mem::take(&mut is_key) {
            continue;
        }
        is_key = argument == OsStr::new(TYPED);
        let contains_key = argument.to_string_lossy().starts_with("--api-key=");
        if !is_key && !contains_key {
            kept.push(argument);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_keys_removes_every_key_and_nothing_else() {
        let typed =
            ["--db", "a", "serve", "--api-key", "k", "--port", "0", "--api-key=l", "--api-key", "--port"];
        let kept = without_keys(typed.iter().map(OsString::from));
        assert_eq!(kept, ["--db", "a", "serve", "--port", "0"]);
    }
}
