//! Which signals this process was started to ignore, as `nohup` and scripts do it. Only Linux says it.

use std::sync::OnceLock;

use crate::untrusted;

/// Returns whether the process ignored the signal when it first asked. Signals have the system's numbers, from 1.
pub(crate) fn is_ignored(signal: i32) -> bool {
    static MASK: OnceLock<u64> = OnceLock::new();
    let mask = MASK.get_or_init(|| mask(&untrusted::read_system("/proc/self/status").unwrap_or_default()));
    has(*mask, signal)
}

/// Reads the mask of ignored signals from the text of `/proc/self/status`. The first signal is the lowest bit.
///
/// Source: proc(5).
fn mask(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
}

fn has(mask: u64, signal: i32) -> bool {
    (1..=64).contains(&signal) && mask >> (signal - 1) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::{has, mask};

    #[test]
    fn ignored_signals_are_read_from_the_systems_mask() {
        let ignored = |status| (1..=15).filter(|signal| has(mask(status), *signal)).collect::<Vec<_>>();
        assert_eq!(ignored("SigCgt:\t0000000000000003\nSigIgn:\t0000000080000001\n"), [1]);
        assert_eq!(ignored("SigIgn:\t0000000000001006\n"), [2, 3, 13]);
        assert_eq!(ignored("SigIgn:\t0000000000000000\n"), [0; 0]);
        assert_eq!(ignored("nothing"), [0; 0]);
        assert!(!has(u64::MAX, 0) && !has(u64::MAX, 65));
    }
}
