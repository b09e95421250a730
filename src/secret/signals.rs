//! Ensures that programs started by this process do not inherit ignored signals.
//!
//! If a process ignores a signal, the programs that it starts ignore it too. If it has a handler for the signal, they
//! do not. A server that was started with `nohup` or from a script ignores some signals. Without this module, its
//! terminals would ignore a hangup, and their jobs would stay.

/// Makes programs that are started from now on handle signals by default, also those that this process ignores. This
/// process still ignores them, because their new handlers do nothing. Has an effect only within a tokio runtime and on
/// Linux, which reports the ignored signals.
#[cfg(target_os = "linux")]
pub fn pass_on_unignored() {
    use tokio::signal::unix::SignalKind;

    static ONCE: std::sync::Once = std::sync::Once::new();
    let all = [
        SignalKind::hangup(),
        SignalKind::interrupt(),
        SignalKind::quit(),
        SignalKind::user_defined1(),
        SignalKind::user_defined2(),
        SignalKind::alarm(),
        SignalKind::terminate(),
    ];
    if tokio::runtime::Handle::try_current().is_ok() {
        ONCE.call_once(|| {
            for kind in all.into_iter().filter(|kind| crate::ignored::is_ignored(kind.as_raw_value())) {
                // If the handler cannot be set, started programs still ignore the signal.
                drop(tokio::signal::unix::signal(kind));
            }
        });
    }
}

/// Does nothing: this system does not report ignored signals.
#[cfg(not(target_os = "linux"))]
pub fn pass_on_unignored() {}
