//! Bar charts as inline SVG, without scripts, fonts or other files.

use std::fmt::Write as _;

use super::text::{escape, number, shorten};

/// The width of a chart, in units of its view box.
const WIDTH: f64 = 720.0;

/// A bar: its label and a value for each series.
pub(super) struct Bar {
    pub label: String,
    pub values: Vec<f64>,
}

/// The texts of a chart.
pub(super) struct Legend<'a> {
    pub title: &'a str,
    pub unit: &'a str,
    /// Which rows the chart shows. Empty if it shows all of them.
    pub note: &'a str,
    /// A name for each series. The index of a series determines its colour.
    pub series: &'a [&'a str],
}

/// Returns a chart with vertical bars, side by side, for values over time.
pub(super) fn standing(legend: &Legend<'_>, bars: &[Bar]) -> String {
    const HEIGHT: f64 = 220.0;
    const LEFT: f64 = 64.0;
    const TOP: f64 = 12.0;
    const BOTTOM: f64 = 28.0;
    let top = ceiling(bars.iter().map(total).fold(0.0, f64::max));
    let (wide, high) = (WIDTH - LEFT - 8.0, HEIGHT - TOP - BOTTOM);
    let mut svg = open(legend, HEIGHT);
    for quarter in 0..=4 {
        let share = f64::from(quarter) / 4.0;
        let y = TOP + high * (1.0 - share);
        let label = number(top * share);
        put(
            &mut svg,
            format_args!(
                "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{}\" y2=\"{y:.1}\"/>",
                WIDTH - 8.0
            ),
        );
        put(
            &mut svg,
            format_args!(
                "<text class=\"axis\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
                LEFT - 6.0,
                y + 4.0
            ),
        );
    }
    let step = wide / bars.len().max(1) as f64;
    let every = bars.len().div_ceil(6).max(1);
    let thick = (step * 0.8).clamp(0.5, 56.0);
    for (index, bar) in bars.iter().enumerate() {
        let x = LEFT + step * index as f64;
        let mut y = TOP + high;
        for (series, value) in bar.values.iter().enumerate() {
            let height = high * value / top;
            y -= height;
            put(
                &mut svg,
                format_args!(
                    "<rect class=\"s{series}\" x=\"{:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{height:.1}\">{}</rect>",
                    x + (step - thick) / 2.0,
                    thick,
                    tip(legend, bar, series, *value)
                ),
            );
        }
        if index.is_multiple_of(every) {
            put(
                &mut svg,
                format_args!(
                    "<text class=\"axis\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                    x + step / 2.0,
                    HEIGHT - 8.0,
                    shorten(&bar.label)
                ),
            );
        }
    }
    close(svg, legend)
}

/// Returns a chart with horizontal bars, one below the other, for comparisons.
pub(super) fn lying(legend: &Legend<'_>, bars: &[Bar]) -> String {
    const LEFT: f64 = 190.0;
    const RIGHT: f64 = 90.0;
    const LINE: f64 = 24.0;
    let longest = bars.iter().map(total).fold(0.0, f64::max).max(f64::MIN_POSITIVE);
    let mut svg = open(legend, LINE * bars.len() as f64 + 8.0);
    for (index, bar) in bars.iter().enumerate() {
        let y = LINE * index as f64 + 4.0;
        let label: String = bar.label.chars().take(26).collect();
        put(
            &mut svg,
            format_args!(
                "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}<title>{}</title></text>",
                LEFT - 8.0,
                y + 15.0,
                escape(&label),
                shorten(&bar.label)
            ),
        );
        let mut x = LEFT;
        for (series, value) in bar.values.iter().enumerate() {
            let width = (WIDTH - LEFT - RIGHT) * value / longest;
            put(
                &mut svg,
                format_args!(
                    "<rect class=\"s{series}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{:.1}\">{}</rect>",
                    LINE - 6.0,
                    tip(legend, bar, series, *value)
                ),
            );
            x += width;
        }
        put(
            &mut svg,
            format_args!(
                "<text class=\"axis\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                x + 6.0,
                y + 15.0,
                number(total(bar))
            ),
        );
    }
    close(svg, legend)
}

fn total(bar: &Bar) -> f64 {
    bar.values.iter().sum()
}

/// Returns a round number that is at least `value`, for the end of an axis.
fn ceiling(value: f64) -> f64 {
    if value <= 0.0 {
        return 1.0;
    }
    let power = 10_f64.powf(value.log10().floor());
    let leading = [1.0, 2.0, 4.0, 5.0, 8.0, 10.0].into_iter().find(|step| value <= step * power);
    leading.unwrap_or(10.0) * power
}

fn tip(legend: &Legend<'_>, bar: &Bar, series: usize, value: f64) -> String {
    let name = legend.series.get(series).copied().unwrap_or_default();
    let name = if name.is_empty() { String::new() } else { format!(", {name}") };
    format!(
        "<title>{}{}: {} {}</title>",
        shorten(&bar.label),
        escape(&name),
        number(value),
        escape(legend.unit)
    )
}

fn open(legend: &Legend<'_>, height: f64) -> String {
    format!(
        "<figure><figcaption>{} <small>{}{}</small></figcaption><svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">",
        escape(legend.title),
        escape(legend.unit),
        escape(legend.note),
        escape(legend.title)
    )
}

fn close(mut svg: String, legend: &Legend<'_>) -> String {
    svg.push_str("</svg>");
    if legend.series.len() > 1 {
        svg.push_str("<p class=\"legend\">");
        for (series, name) in legend.series.iter().enumerate() {
            put(&mut svg, format_args!("<span class=\"key k{series}\"></span>{} ", escape(name)));
        }
        svg.push_str("</p>");
    }
    svg + "</figure>\n"
}

fn put(svg: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = svg.write_fmt(text); // writing to a String cannot fail
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_ends_at_a_round_number_above_its_values() {
        for (value, expected) in
            [(0.0, 1.0), (1.0, 1.0), (3.0, 4.0), (47.0, 50.0), (0.315, 0.4), (1200.0, 2000.0)]
        {
            let end = ceiling(value);
            assert!((end - expected).abs() < 1e-9, "{value}: {end}");
        }
    }

    #[test]
    fn hostile_labels_stay_text() {
        let legend = Legend { title: "<b>", unit: "\"", note: "<b>", series: &["<i>", "x"] };
        let bars = [Bar { label: "</text><script>".into(), values: vec![1.0, 0.0] }];
        for svg in [standing(&legend, &bars), lying(&legend, &bars)] {
            assert!(!svg.contains("<script") && !svg.contains("<b>") && !svg.contains("<i>"), "{svg}");
        }
    }

    #[test]
    fn a_chart_without_bars_is_valid() {
        let legend = Legend { title: "t", unit: "u", note: "", series: &[""] };
        for svg in [standing(&legend, &[]), lying(&legend, &[])] {
            assert!(
                svg.ends_with("</svg></figure>\n") && !svg.contains("NaN") && !svg.contains("inf"),
                "{svg}"
            );
        }
    }
}
