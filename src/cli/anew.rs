//! Starting the program anew, without the keys that were typed, and with memory that is given back.
//!
//! The command line of a process can be read by every user of the machine, so by every command of an agent. The keys go
//! through a pipe, which the new program empties before it does anything else. It is the same process: what watches over
//! it notices nothing.
//!
//! The C library that programs share on most systems decides once, at the start, how it keeps memory. As it is, it keeps
//! what a few large answers took for as long as the program lives ([`environment::tuned`]).

use std::ffi::{OsStr, OsString};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::error::{Error, Result};
use crate::secret::environment;

/// What a key is typed with.
const TYPED: &str = "--api-key";

/// What the new program is given instead: where the keys are.
const HANDED: &str = "--handed-keys";

/// The most bytes of keys: what a pipe holds without anybody who reads it.
const KEYS_BYTES_MAX: usize = 32 << 10;

/// The keys that were typed, wherever they come from: the program starts itself anew unless `handed` says that it was.
///
/// # Errors
/// [`Error::Setting`] where keys were typed and it cannot be started anew.
pub(super) fn keys(typed: &[String], handed: Option<u32>) -> Result<Vec<String>> {
    if let Some(descriptor) = handed {
        return self::handed(descriptor);
    }
    let tunables = environment::tuned(std::env::var_os(environment::TUNABLES));
    if typed.is_empty() && tunables.is_none() {
        return Ok(Vec::new());
    }
    let error = start(typed, tunables);
    // Without keys nothing is lost but memory.
    if typed.is_empty() { Ok(Vec::new()) } else { Err(error) }
}

/// Starts this program anew with `keys` handed over. It comes back where that cannot be done: why, and how else a key may
/// be given.
fn start(keys: &[String], tunables: Option<OsString>) -> Error {
    let failed = |error: io::Error| Error::Setting {
        place: TYPED.to_owned(),
        reason: format!(
            "the key cannot be taken off the command line, where everybody may read it: {error}; give it as \
             SESSION_API_KEY, or in a file"
        ),
    };
    let handed = rustix::pipe::pipe().map_err(io::Error::from);
    let from = match handed.and_then(|(from, to)| hand_over(keys, to).map(|()| from)) {
        Ok(from) => from,
        Err(error) => return failed(error),
    };
    let mut arguments = std::env::args_os();
    let mut anew = Command::new(program());
    anew.arg0(arguments.next().unwrap_or_else(|| "annals".into()));
    anew.args(without_keys(arguments)).arg(HANDED).arg(from.as_raw_fd().to_string());
    anew.envs(tunables.map(|tunables| (environment::TUNABLES, tunables)));
    failed(anew.exec())
}

/// The program that runs here, also where its file has been replaced since.
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

/// The keys that were handed over; nothing is left in the pipe, which programs that are started here inherit.
///
/// # Errors
/// [`Error::Setting`] where the descriptor is no pipe.
fn handed(descriptor: u32) -> Result<Vec<String>> {
    let read = || -> io::Result<Vec<String>> {
        let mut text = String::new();
        std::fs::File::open(format!("/dev/fd/{descriptor}"))?
            .take(KEYS_BYTES_MAX as u64)
            .read_to_string(&mut text)?;
        Ok(serde_json::from_str(&text)?)
    };
    read().map_err(|error| Error::Setting {
        place: HANDED.to_owned(),
        reason: format!("it is for this program's own use: {error}"),
    })
}

/// Arguments without the keys among them.
fn without_keys(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let (mut kept, mut is_key) = (Vec::new(), false);
    for argument in arguments {
        if std::mem::take(&mut is_key) {
            continue;
        }
        is_key = argument == OsStr::new(TYPED);
        let holds_one = argument.to_string_lossy().starts_with("--api-key=");
        if !is_key && !holds_one {
            kept.push(argument);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_left_out_and_nothing_else() {
        let typed =
            ["--db", "a", "serve", "--api-key", "k", "--port", "0", "--api-key=l", "--api-key", "--port"];
        let kept = without_keys(typed.iter().map(OsString::from));
        assert_eq!(kept, ["--db", "a", "serve", "--port", "0"]);
    }
}
