//! Times as a person writes them who means the present: `7d`, `2 hours ago`, `yesterday`.

use chrono::{DateTime, Days, Months, TimeDelta, Utc};

use super::Timestamp;

impl Timestamp {
    /// Reads a time as a person types it: in a form that [`Timestamp::parse_typed`] reads, or in relation to `now`.
    ///
    /// `now`, `today` and `yesterday` (both at their beginning, in UTC), and ages: `30min`, `36h`, `7d`, `12w`, `3months`, `1y`,
    /// also as `3 days ago`. `None` for any other text, and for a time outside the calendar.
    ///
    /// ```
    /// use annals::Timestamp;
    ///
    /// let now = Timestamp::parse("2026-01-31T12:00:00Z").expect("it is a time");
    /// assert_eq!(Timestamp::parse_relative("7d", now), Timestamp::parse_typed("2026-01-24 12:00"));
    /// assert_eq!(Timestamp::parse_relative("yesterday", now), Timestamp::parse_typed("2026-01-30"));
    /// ```
    #[must_use]
    pub fn parse_relative(text: &str, now: Self) -> Option<Self> {
        let text = text.trim();
        Self::parse_typed(text).or_else(|| {
            let now = DateTime::from_timestamp_micros(now.0)?;
            before(&text.to_ascii_lowercase(), now).map(|time| Self(time.timestamp_micros()))
        })
    }
}

fn before(text: &str, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let midnight =
        |days| Some(now.date_naive().checked_sub_days(Days::new(days))?.and_hms_opt(0, 0, 0)?.and_utc());
    match text {
        "now" => return Some(now),
        "today" => return midnight(0),
        "yesterday" => return midnight(1),
        _ => {}
    }
    let text = text.strip_suffix("ago").map_or(text, str::trim_end);
    let unit_at = text.find(|character: char| !character.is_ascii_digit())?;
    let (number, unit) = text.split_at(unit_at);
    let number: u32 = number.parse().ok()?;
    let seconds =
        |length: i64| now.checked_sub_signed(TimeDelta::try_seconds(i64::from(number).checked_mul(length)?)?);
    match unit.trim_start() {
        "min" | "mins" | "minute" | "minutes" => seconds(60),
        "h" | "hour" | "hours" => seconds(3600),
        "d" | "day" | "days" => seconds(86_400),
        "w" | "week" | "weeks" => seconds(7 * 86_400),
        "month" | "months" => now.checked_sub_months(Months::new(number)),
        "y" | "year" | "years" => now.checked_sub_months(Months::new(number.checked_mul(12)?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_and_days_are_read_as_people_write_them() {
        let now = Timestamp::parse("2024-03-31T12:30:00Z").unwrap();
        for (text, expected) in [
            ("now", "2024-03-31 12:30"),
            ("today", "2024-03-31"),
            ("Yesterday", "2024-03-30"),
            ("30min", "2024-03-31 12:00"),
            ("36h", "2024-03-30 00:30"),
            ("7d", "2024-03-24 12:30"),
            (" 7 days ago ", "2024-03-24 12:30"),
            ("2w", "2024-03-17 12:30"),
            ("1 month", "2024-02-29 12:30"),
            ("1y", "2023-03-31 12:30"),
            ("0d", "2024-03-31 12:30"),
            ("2026-01-31", "2026-01-31"),
            ("2026-01-31 12:30", "2026-01-31 12:30"),
        ] {
            let expected = Timestamp::parse_typed(expected);
            assert!(expected.is_some());
            assert_eq!(Timestamp::parse_relative(text, now), expected, "{text}");
        }
        let wrong = [
            "",
            "d",
            "90",
            "-1d",
            "9m",
            "soon",
            "ago",
            "7d7",
            "99999999999y",
            "4000000000y",
            "4000000000w",
            "ä",
            "1ä",
        ];
        for wrong in wrong {
            assert_eq!(Timestamp::parse_relative(wrong, now), None, "{wrong}");
        }
        assert_eq!(Timestamp::parse_relative("1d", Timestamp(i64::MAX)), None);
    }
}
