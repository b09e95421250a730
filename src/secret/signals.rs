//! Ensures that programs started by this process do not inherit ignored signals.
//!
//! If a process ignores a signal, the programs that it starts ignore it too. If it has a handler for the signal, they
//! do not. A server that was started with `nohup` or from a script ignores some signals. Without this module, its
//! terminals would ignore a hangup, and their jobs would stay.

use crate::untrusted;

/// Makes programs that are started from now on handle signals by default, also those that this process ignores. This
/// process still ignores them, because their new handlers do nothing. Has an effect only within a tokio runtime and on
/// Linux, which reports the ignored signals.
#[cfg(target_os = "linux")]
pub fn pass_on_unignored() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    if tokio::runtime::Handle::try_current().is_ok() {
        ONCE.call_once(|| {
            let status = untrusted::read_system("/proc/self/status").unwrap_or_default();
            for kind in ignored(&status) {
                // If the handler cannot be set, started programs still ignore the signal.
                drop(tokio::signal::unix::signal(kind));
            }
        });
    }
}

/// Does nothing: this system does not report ignored signals.
#[cfg(not(target_os = "linux"))]
pub fn pass_on_unignored() {}

/// Returns the signals that normally end programs and are ignored, according to the text of `/proc/self/status`.
#[cfg(target_os = "linux")]
fn ignored(status: &str) -> Vec<tokio::signal::unix::SignalKind> {
    use tokio::signal::unix::SignalKind;

    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    let all = [
        SignalKind::hangup(),
        SignalKind::interrupt(),
        SignalKind::quit(),
        SignalKind::user_defined1(),
        SignalKind::user_defined2(),
        SignalKind::alarm(),
        SignalKind::terminate(),
    ];
    // The first signal is the lowest bit (proc(5)).
    all.into_iter().filter(|kind| mask >> (kind.as_raw_value() - 1) & 1 == 1).collect()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use tokio::signal::unix::SignalKind;

    use super::ignored;

    #[test]
    fn ignored_signals_are_read_from_the_systems_mask() {
        assert_eq!(ignored("SigCgt:\t0000000000000003\nSigIgn:\t0000000080000001\n"), [SignalKind::hangup()]);
        let both = [SignalKind::interrupt(), SignalKind::quit()];
        assert_eq!(ignored("SigIgn:\t0000000000001006\n"), both);
        assert_eq!(ignored("SigIgn:\t0000000000000000\n"), []);
        assert_eq!(ignored("nothing"), []);
    }
}
