//! Retries of a call. The wait doubles each time, and the settings limit the number of tries.

use std::time::Duration;

use super::failure::Failure;
use super::settings::Settings;

/// The waits before retries.
#[derive(Debug)]
pub(super) struct Waits {
    /// The number of tries altogether.
    tries_max: u64,
    tried: u64,
    multiplier: f64,
    min: Duration,
    max: Duration,
}

impl Waits {
    pub fn of(settings: &Settings) -> Self {
        Self {
            tries_max: settings.num_retries.max(1),
            tried: 0,
            multiplier: settings.retry_multiplier,
            min: Duration::from_secs(settings.retry_min_wait),
            max: Duration::from_secs(settings.retry_max_wait),
        }
    }

    /// Returns the number of the next try, and the number of tries altogether.
    pub fn next_try(&self) -> (u64, u64) {
        (self.tried + 1, self.tries_max)
    }

    /// Returns how long to wait after this failure before the next try. `None` if there is no further try.
    ///
    /// The longer of the provider's wait and the settings' wait is used, but never more than the longest allowed wait.
    pub fn next(&mut self, failure: &Failure) -> Option<Duration> {
        self.tried += 1;
        if !failure.again || self.tried >= self.tries_max {
            return None;
        }
        let doubled = self.multiplier * 2_f64.powi(i32::try_from(self.tried - 1).unwrap_or(i32::MAX));
        let doubled = Duration::try_from_secs_f64(doubled).unwrap_or(self.max);
        Some(doubled.max(failure.wait.unwrap_or_default()).min(self.max).max(self.min))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::LlmError;

    fn waits(settings: &Settings, failure: &Failure) -> Vec<u64> {
        let mut waits = Waits::of(settings);
        std::iter::from_fn(|| waits.next(failure)).map(|wait| wait.as_secs()).collect()
    }

    #[test]
    fn waits_double_between_their_bounds() {
        let mut settings = Settings::new("openai/m");
        let mut failure = Failure::passing(LlmError::RateLimit(String::new()));
        assert_eq!(waits(&settings, &failure), [8, 16, 32, 64]);
        settings.num_retries = 7;
        settings.retry_multiplier = 1.0;
        settings.retry_min_wait = 2;
        assert_eq!(waits(&settings, &failure), [2, 2, 4, 8, 16, 32]);
        failure.wait = Some(Duration::from_secs(20));
        assert_eq!(waits(&settings, &failure), [20, 20, 20, 20, 20, 32]);
        failure.wait = Some(Duration::from_secs(3600));
        assert_eq!(waits(&settings, &failure)[0], 64);
        settings.num_retries = 0;
        assert!(waits(&settings, &failure).is_empty());
        assert!(waits(&Settings::new("m"), &Failure::last(LlmError::Cancelled)).is_empty());
    }
}
