//! What signals do to programs that are started here: what they do to any program.
//!
//! A signal that a process ignores is ignored by all that it starts, and what it has a handler for is not. A server that was
//! started with `nohup` or from a script ignores some; its terminals could not be hung up then, and their jobs would stay.

/// Has what is started from now on take signals as usual, whatever this process ignores. It goes on ignoring them itself: it
/// gets handlers that do nothing. Within a runtime of tokio, and where the system says what is ignored (Linux).
#[cfg(target_os = "linux")]
pub fn pass_on_unignored() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    if tokio::runtime::Handle::try_current().is_ok() {
        ONCE.call_once(|| {
            let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
            for kind in ignored(&status) {
                // Where it cannot have one, what is started ignores the signal, too.
                drop(tokio::signal::unix::signal(kind));
            }
        });
    }
}

/// Nothing is known of it here.
#[cfg(not(target_os = "linux"))]
pub fn pass_on_unignored() {}

/// Which signals that end programs are ignored, by the text of `/proc/self/status`.
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
    fn what_is_ignored_is_read_from_the_systems_mask() {
        assert_eq!(ignored("SigCgt:\t0000000000000003\nSigIgn:\t0000000080000001\n"), [SignalKind::hangup()]);
        let both = [SignalKind::interrupt(), SignalKind::quit()];
        assert_eq!(ignored("SigIgn:\t0000000000001006\n"), both);
        assert_eq!(ignored("SigIgn:\t0000000000000000\n"), []);
        assert_eq!(ignored("nothing"), []);
    }
}
