//! The user who runs the program, for the administrative log.

use crate::store::Actor;

/// Returns the user and the machine. The system gives the user id, the environment the user's name.
#[cfg(unix)]
pub(super) fn who() -> Actor {
    let uid = rustix::process::getuid().as_raw();
    let name = ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok());
    let user = match name.filter(|name| !name.is_empty()) {
        Some(name) => format!("{name} (uid {uid})"),
        None => format!("uid {uid}"),
    };
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    Actor { user: Some(user), host: Some(host), ..Actor::default() }
}

/// Returns the user and the machine, as the environment names them.
#[cfg(not(unix))]
pub(super) fn who() -> Actor {
    let named = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    Actor { user: named("USERNAME"), host: named("COMPUTERNAME"), ..Actor::default() }
}
