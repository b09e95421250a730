//! Bar charts of HTML and styles, without scripts, fonts or other files. Texts keep their size on narrow screens.

use std::fmt::Write as _;

use super::days::Spans;
use super::text::{escape, shorten};

/// The number of labels below a chart of columns.
const LABELS: usize = 6;

/// A bar: its label and a value for each series. A value may be unknown.
#[derive(Clone)]
pub(super) struct Bar {
    pub label: String,
    pub values: Vec<Option<f64>>,
}

impl Bar {
    /// The length of the bar. What is unknown has no length.
    pub(super) fn total(&self) -> f64 {
        self.values.iter().flatten().sum()
    }
}

/// The texts of a chart.
pub(super) struct Legend<'a> {
    pub title: &'a str,
    /// What is drawn. Empty if the title says it.
    pub unit: &'a str,
    /// Which rows the chart shows. Empty if it shows all of them.
    pub note: &'a str,
    /// A name for each series. The index of a series determines its colour.
    pub series: &'a [&'a str],
    /// Writes a place on the axis.
    pub mark: fn(f64) -> String,
    /// Writes the figures of a bar.
    pub figures: fn(&[Option<f64>]) -> String,
}

/// Returns a chart with vertical bars, side by side, for values over time.
pub(super) fn standing(legend: &Legend<'_>, spans: &Spans) -> String {
    let bars = &spans.bars;
    let marks = marks(bars.iter().map(Bar::total).fold(0.0, f64::max));
    let top = marks.last().copied().unwrap_or(1.0);
    let mut html = open(legend);
    if bars.is_empty() {
        return html + "<p class=\"soft\">No row has a date.</p>";
    }
    let highest = bars.iter().max_by(|left, right| left.total().total_cmp(&right.total()));
    let label = highest.map_or_else(String::new, |bar| format!("; most: {}", tip(legend, bar)));
    put(
        &mut html,
        format_args!(
            "<div class=\"plot\" role=\"img\" aria-label=\"{}{}\">",
            escape(legend.title),
            escape(&label)
        ),
    );
    for mark in &marks {
        let place = mark / top * 100.0;
        put(
            &mut html,
            format_args!(
                "<div class=\"grid\" style=\"bottom:{place:.2}%\"><span>{}</span></div>",
                (legend.mark)(*mark)
            ),
        );
    }
    html.push_str("<div class=\"columns\">");
    for bar in bars {
        put(&mut html, format_args!("<span title=\"{}\">", escape(&tip(legend, bar))));
        for (series, value) in bar.values.iter().enumerate() {
            let share = value.unwrap_or(0.0) / top * 100.0;
            if share > 0.0 {
                put(&mut html, format_args!("<i class=\"s{series}\" style=\"height:{share:.2}%\"></i>"));
            }
        }
        html.push_str("</span>");
    }
    html.push_str("</div></div><div class=\"labels\">");
    for (index, (place, is_minor)) in labels(bars.len()) {
        let class = match (place, is_minor) {
            (100.0, _) => "last",
            (_, true) => "minor",
            (_, false) => "",
        };
        let text = bars[index].label.trim_start_matches("week of ");
        put(
            &mut html,
            format_args!("<span class=\"{class}\" style=\"left:{place:.2}%\">{}</span>", escape(text)),
        );
    }
    html.push_str("</div>");
    html + &keys(legend)
}

/// Returns a chart with horizontal bars, one below the other, for comparisons. It is a table for a screen reader.
pub(super) fn lying(legend: &Legend<'_>, bars: &[Bar]) -> String {
    let longest = bars.iter().map(Bar::total).fold(0.0, f64::max).max(f64::MIN_POSITIVE);
    let mut html = open(legend);
    if bars.is_empty() {
        return html + "<p>None.</p>";
    }
    html.push_str("<table class=\"lines\">");
    for bar in bars {
        let label = if bar.label.is_empty() { "unknown" } else { &bar.label };
        put(
            &mut html,
            format_args!(
                "<tr title=\"{}\"><th scope=\"row\"><span>{}</span></th><td class=\"track\">",
                escape(&tip(legend, bar)),
                shorten(label)
            ),
        );
        for (series, value) in bar.values.iter().enumerate() {
            let share = value.unwrap_or(0.0) / longest * 100.0;
            if share > 0.0 {
                put(&mut html, format_args!("<i class=\"s{series}\" style=\"width:{share:.2}%\"></i>"));
            }
        }
        put(
            &mut html,
            format_args!("</td><td class=\"number\">{}</td></tr>", escape(&(legend.figures)(&bar.values))),
        );
    }
    html.push_str("</table>");
    html + &keys(legend)
}

/// Returns round numbers from 0 to at least `most`, for an axis. They end at 1 if `most` is 0.
fn marks(most: f64) -> Vec<f64> {
    if most <= 0.0 {
        return vec![0.0, 1.0];
    }
    let rough = most / 4.0;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0].into_iter().map(|step| step * power).find(|step| *step >= rough);
    let step = step.unwrap_or(10.0 * power);
    let count = (most / step).ceil() as u32; // at most 10
    (0..=count).map(|index| f64::from(index) * step).collect()
}

/// Returns which of `count` bars have a label: the place of its middle in percent, and whether a narrow screen has no
/// room for it. The last bar has one, whose end is the chart's.
fn labels(count: usize) -> impl Iterator<Item = (usize, (f64, bool))> {
    let every = count.div_ceil(LABELS).max(1);
    let last = count.saturating_sub(1);
    let named = move |index: &usize| *index == last || (index.is_multiple_of(every) && last - index >= every);
    (0..count).filter(named).map(move |index| {
        let is_end = index == last && index > 0;
        let place = if is_end { 100.0 } else { (index as f64 + 0.5) / count as f64 * 100.0 };
        (index, (place, index > 0 && !is_end))
    })
}

/// Returns a bar's label and what it shows, unescaped.
fn tip(legend: &Legend<'_>, bar: &Bar) -> String {
    if legend.series.len() == 1 {
        return format!("{}: {} {}", bar.label, (legend.figures)(&bar.values), legend.unit)
            .trim_end()
            .to_owned();
    }
    let one = |(name, value): (&&str, &Option<f64>)| match value {
        Some(value) => format!("{name} {}", (legend.mark)(*value)),
        None => format!("{name} unknown"),
    };
    let parts: Vec<String> = legend.series.iter().zip(&bar.values).map(one).collect();
    format!("{}: {}", bar.label, parts.join(", "))
}

fn open(legend: &Legend<'_>) -> String {
    format!(
        "<figure><figcaption>{} <small>{}{}</small></figcaption>",
        escape(legend.title),
        escape(legend.unit),
        escape(legend.note)
    )
}

/// Returns the names of the series beside their colours. Empty if there is only one.
fn keys(legend: &Legend<'_>) -> String {
    if legend.series.len() < 2 {
        return String::new();
    }
    let key = |(series, name): (usize, &&str)| {
        format!("<span><i class=\"key s{series}\"></i>{}</span>", escape(name))
    };
    format!("<p class=\"legend\">{}</p>", legend.series.iter().enumerate().map(key).collect::<String>())
}

fn put(html: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = html.write_fmt(text); // writing to a String cannot fail
}

#[cfg(test)]
mod tests {
    use super::super::days::Unit;
    use super::super::text::number;
    use super::*;

    const PLAIN: Legend<'_> = Legend {
        title: "<b>",
        unit: "\"",
        note: "<b>",
        series: &["<i>", "x"],
        mark: number,
        figures: |values| format!("<u>{}", number(values.iter().flatten().sum())),
    };

    fn days(bars: Vec<Bar>) -> Spans {
        Spans { unit: Unit::Day, bars, undated: 0 }
    }

    #[test]
    fn an_axis_has_round_numbers_and_ends_above_its_values() {
        for (most, expected) in [
            (0.0, &[0.0, 1.0][..]),
            (1.0, &[0.0, 0.25, 0.5, 0.75, 1.0]),
            (3.0, &[0.0, 1.0, 2.0, 3.0]),
            (47.0, &[0.0, 20.0, 40.0, 60.0]),
            (1200.0, &[0.0, 500.0, 1000.0, 1500.0]),
        ] {
            assert_eq!(marks(most), expected, "{most}");
        }
        assert!(marks(1e-9).last().is_some_and(|top| (1e-9..2e-9).contains(top)));
        assert!(marks(f64::MAX / 100.0).len() < 12);
    }

    #[test]
    fn labels_leave_room_for_each_other() {
        let named = |count| labels(count).map(|(index, _)| index).collect::<Vec<_>>();
        assert_eq!(named(0), [0; 0]);
        assert_eq!(named(1), [0]);
        assert_eq!(named(4), [0, 1, 2, 3]);
        assert_eq!(named(92), [0, 16, 32, 48, 64, 91]);
        assert_eq!(labels(1).next(), Some((0, (50.0, false))));
    }

    #[test]
    fn hostile_labels_stay_text() {
        let bars = vec![Bar { label: "\"></table><script>".into(), values: vec![Some(1.0), None] }];
        for html in [standing(&PLAIN, &days(bars.clone())), lying(&PLAIN, &bars)] {
            assert!(
                !html.contains("<script")
                    && !html.contains("<b>")
                    && !html.contains("<i>")
                    && !html.contains("<u>"),
                "{html}"
            );
        }
    }

    #[test]
    fn a_chart_without_values_is_valid() {
        let nothing = vec![Bar { label: "2026-01-01".into(), values: vec![None, Some(0.0)] }];
        for bars in [vec![], nothing] {
            for html in [standing(&PLAIN, &days(bars.clone())), lying(&PLAIN, &bars)] {
                assert!(!html.contains("NaN") && !html.contains("inf") && !html.contains("%;"), "{html}");
            }
        }
    }

    #[test]
    fn what_is_unknown_is_not_nothing() {
        let bar = Bar { label: "m".into(), values: vec![None, Some(2.0)] };
        assert_eq!(tip(&PLAIN, &bar), "m: <i> unknown, x 2");
    }
}
