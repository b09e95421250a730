//! Groups the rows of a report by time, without gaps: by day, or by week or month if there are many days.

use chrono::{Datelike as _, Days, NaiveDate};

use super::chart::Bar;

/// The maximum number of bars by day and by week.
const BARS_MAX: i64 = 92;
/// The maximum number of bars by month. A clock that was wrong once would make thousands of months.
const MONTHS_MAX: i64 = 600;

/// The time that a bar stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unit {
    Day,
    Week,
    Month,
}

impl Unit {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
        }
    }

    /// Returns the first day of the unit that `day` belongs to. Weeks begin on Mondays.
    fn start(self, day: NaiveDate) -> NaiveDate {
        match self {
            Self::Day => day,
            Self::Week => {
                let since_monday = u64::from(day.weekday().num_days_from_monday());
                day.checked_sub_days(Days::new(since_monday)).unwrap_or(day)
            }
            Self::Month => day.with_day(1).unwrap_or(day),
        }
    }

    /// Returns the first day of the next unit. `start` is the first day of its unit.
    fn next(self, start: NaiveDate) -> Option<NaiveDate> {
        match self {
            Self::Day => start.succ_opt(),
            Self::Week => start.checked_add_days(Days::new(7)),
            Self::Month => start.checked_add_months(chrono::Months::new(1)),
        }
    }

    fn label(self, start: NaiveDate) -> String {
        match self {
            Self::Day => start.format("%Y-%m-%d").to_string(),
            Self::Week => start.format("week of %Y-%m-%d").to_string(),
            Self::Month => start.format("%Y-%m").to_string(),
        }
    }
}

/// Bars in order of time.
pub(super) struct Spans {
    pub unit: Unit,
    pub bars: Vec<Bar>,
    /// The number of rows that are left out because their label is not a date.
    pub undated: usize,
}

/// Returns the first and the last day of all rows. `None` if no row has a date.
pub(super) fn extent<'a>(rows: impl Iterator<Item = &'a Bar>) -> Option<(NaiveDate, NaiveDate)> {
    rows.filter_map(|row| date(&row.label)).fold(None, |range, day| match range {
        Some((first, last)) => Some((day.min(first), day.max(last))),
        None => Some((day, day)),
    })
}

/// Adds up `rows`, whose labels are days, to bars from the first to the last day of `range`. A bar has one value for each
/// of `series`; its value is unknown if no row has one and 0 if there is no row.
pub(super) fn spans(rows: &[Bar], series: usize, range: Option<(NaiveDate, NaiveDate)>) -> Spans {
    let dated: Vec<(NaiveDate, &Bar)> =
        rows.iter().filter_map(|row| Some((date(&row.label)?, row))).collect();
    let undated = rows.len() - dated.len();
    let Some((first, last)) = range else { return Spans { unit: Unit::Day, bars: Vec::new(), undated } };
    let days = (last - first).num_days() + 1;
    let unit = match days {
        ..=BARS_MAX => Unit::Day,
        _ if days <= BARS_MAX * 7 => Unit::Week,
        _ => Unit::Month,
    };
    let mut starts: Vec<NaiveDate> = dated.iter().map(|(day, _)| unit.start(*day)).collect();
    if days / 28 < MONTHS_MAX {
        starts = std::iter::successors(Some(unit.start(first)), |start| unit.next(*start))
            .take_while(|start| *start <= last)
            .collect();
    }
    starts.sort_unstable();
    starts.dedup();
    let mut bars: Vec<Bar> = starts
        .iter()
        .map(|start| Bar { label: unit.label(*start), values: vec![Some(0.0); series] })
        .collect();
    let mut seen = vec![false; bars.len()];
    for (day, row) in dated {
        let Ok(at) = starts.binary_search(&unit.start(day)) else { continue };
        if !std::mem::replace(&mut seen[at], true) {
            bars[at].values.clone_from(&row.values);
            continue;
        }
        for (sum, value) in bars[at].values.iter_mut().zip(&row.values) {
            *sum = sum_of(*sum, *value);
        }
    }
    Spans { unit, bars, undated }
}

/// Returns the sum of what is known of two values.
pub(super) fn sum_of(left: Option<f64>, right: Option<f64>) -> Option<f64> {
    match (left, right) {
        (Some(left), Some(right)) => Some(left + right),
        (one, other) => one.or(other),
    }
}

fn date(text: &str) -> Option<NaiveDate> {
    NaiveDate::parse_from_str(text, "%Y-%m-%d").ok().filter(|_| text.len() == 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(days: &[(&str, Option<f64>)]) -> Vec<Bar> {
        days.iter().map(|(day, value)| Bar { label: (*day).to_owned(), values: vec![*value] }).collect()
    }

    fn drawn(days: &[(&str, Option<f64>)]) -> (Unit, Vec<(String, Option<f64>)>, usize) {
        let rows = rows(days);
        let spans = spans(&rows, 1, extent(rows.iter()));
        (spans.unit, spans.bars.into_iter().map(|bar| (bar.label, bar.values[0])).collect(), spans.undated)
    }

    #[test]
    fn days_without_rows_are_drawn_too() {
        let (unit, bars, undated) =
            drawn(&[("2026-02-27", Some(1.0)), ("", Some(9.0)), ("2026-03-02", None), ("soon", None)]);
        assert_eq!((unit, undated), (Unit::Day, 2));
        let expected = [
            ("2026-02-27", Some(1.0)),
            ("2026-02-28", Some(0.0)),
            ("2026-03-01", Some(0.0)),
            ("2026-03-02", None),
        ];
        assert_eq!(bars, expected.map(|(day, value)| (day.to_owned(), value)));
    }

    #[test]
    fn many_days_are_added_up() {
        let (unit, bars, _) =
            drawn(&[("2026-01-01", Some(1.0)), ("2026-01-04", Some(2.0)), ("2026-05-30", None)]);
        assert_eq!((unit, bars.len()), (Unit::Week, 22));
        assert_eq!(bars[0], ("week of 2025-12-29".to_owned(), Some(3.0)));
        assert_eq!(bars[21], ("week of 2026-05-25".to_owned(), None));
        let (unit, bars, _) =
            drawn(&[("2024-01-31", Some(1.0)), ("2026-01-01", None), ("2026-01-02", Some(2.0))]);
        assert_eq!((unit, bars.len()), (Unit::Month, 25));
        assert_eq!(
            (&bars[0], &bars[24]),
            (&("2024-01".to_owned(), Some(1.0)), &("2026-01".to_owned(), Some(2.0)))
        );
    }

    #[test]
    fn a_wrong_clock_does_not_fill_the_page() {
        let (unit, bars, _) =
            drawn(&[("0001-01-01", Some(1.0)), ("2026-01-02", Some(2.0)), ("9999-12-31", None)]);
        assert_eq!(unit, Unit::Month);
        assert_eq!(
            bars.iter().map(|bar| bar.0.as_str()).collect::<Vec<_>>(),
            ["0001-01", "2026-01", "9999-12"]
        );
        assert_eq!(drawn(&[]), (Unit::Day, vec![], 0));
    }
}
