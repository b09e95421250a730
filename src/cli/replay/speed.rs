//! The speed of a replay, and the time that it leaves between two events.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The maximum wait for an event.
const WAIT_MAX: Duration = Duration::from_secs(3);
/// The speeds that the keys step through.
const LADDER: [f64; 10] = [0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0];

/// The speed of a replay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Speed {
    /// This many times the original speed. Above 0.
    Times(f64),
    /// Without waiting.
    Max,
}

impl Default for Speed {
    fn default() -> Self {
        Self::Times(1.0)
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Times(times) => write!(f, "{times}x"),
            Self::Max => f.write_str("max"),
        }
    }
}

impl FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "max" {
            return Ok(Self::Max);
        }
        let number = text.strip_suffix(['x', 'X']).unwrap_or(text).parse::<f64>();
        match number {
            Ok(times) if times > 0.0 && times.is_finite() => Ok(Self::Times(times)),
            _ => Err("a speed is 1x, 10x, 0.5x, ... or max".into()),
        }
    }
}

impl Speed {
    /// Returns the next faster speed.
    pub(super) fn faster(self) -> Self {
        match self {
            Self::Times(times) => {
                LADDER.into_iter().find(|step| *step > times).map_or(Self::Max, Self::Times)
            }
            Self::Max => Self::Max,
        }
    }

    /// Returns the next slower speed.
    pub(super) fn slower(self) -> Self {
        let below = |times: f64| LADDER.into_iter().rev().find(|step| *step < times);
        match self {
            Self::Times(times) => Self::Times(below(times).unwrap_or(times)),
            Self::Max => Self::Times(LADDER[LADDER.len() - 1]),
        }
    }

    /// Returns how long to wait for an event that came `microseconds` after the one before.
    pub(super) fn wait(self, microseconds: u64) -> Duration {
        match self {
            Self::Times(times) => {
                let seconds = microseconds as f64 / 1e6 / times;
                Duration::from_secs_f64(seconds.min(WAIT_MAX.as_secs_f64()))
            }
            Self::Max => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_read_as_they_are_written() {
        for (text, speed) in [("1x", Speed::Times(1.0)), ("0.5", Speed::Times(0.5)), ("max", Speed::Max)] {
            assert_eq!(text.parse(), Ok(speed));
            assert_eq!(speed.to_string().parse(), Ok(speed));
        }
        for text in ["0x", "-1x", "fast", "inf", "NaN", ""] {
            assert!(text.parse::<Speed>().is_err(), "{text}");
        }
    }

    #[test]
    fn waits_are_scaled_and_never_long() {
        assert_eq!(Speed::Times(1.0).wait(500_000), Duration::from_millis(500));
        assert_eq!(Speed::Times(10.0).wait(500_000), Duration::from_millis(50));
        assert_eq!(Speed::Times(0.1).wait(3_600_000_000), WAIT_MAX);
        assert_eq!(Speed::Times(1e-300).wait(u64::MAX), WAIT_MAX);
        assert_eq!(Speed::Max.wait(u64::MAX), Duration::ZERO);
    }

    #[test]
    fn keys_go_up_and_down_the_ladder() {
        assert_eq!(Speed::default().faster(), Speed::Times(2.0));
        assert_eq!(Speed::Times(7.0).slower(), Speed::Times(5.0));
        assert_eq!(Speed::Times(100.0).faster(), Speed::Max);
        assert_eq!(Speed::Max.slower(), Speed::Times(100.0));
        assert_eq!(Speed::Times(0.1).slower(), Speed::Times(0.1));
    }
}
