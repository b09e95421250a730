//! Tokens and cost below a drawing, in the reference's words.

use super::layout::columns;
use super::style::{Colour, Line, Style};
use crate::state::{Bill, Spent, Usage};

/// Abbreviates a number as the reference does: `1234` becomes `1.23K`. It has at most two decimals, in thousands,
/// millions or billions.
#[must_use]
pub fn abbreviated(number: u64) -> String {
    let (value, unit) = match number {
        1_000_000_000.. => (number as f64 / 1e9, "B"),
        1_000_000.. => (number as f64 / 1e6, "M"),
        1_000.. => (number as f64 / 1e3, "K"),
        _ => return number.to_string(),
    };
    let text = format!("{value:.2}");
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

/// Returns the lines below a drawing, broken between the figures. There are none if no usage is known.
pub(super) fn lines(spent: &Spent, width: Option<usize>) -> Vec<Line> {
    let Some(total) = spent.total else { return Vec::new() };
    let rate = |usage: &Usage| {
        usage.cache_hit_rate().map_or_else(|| "N/A".to_owned(), |rate| format!("{:.2}%", rate * 100.0))
    };
    let count = |name: &str, of: fn(&Usage) -> u64| match &spent.request {
        Some(request) => format!("{name} {} (total {})", abbreviated(of(request)), abbreviated(of(&total))),
        None => format!("{name} (total {})", abbreviated(of(&total))),
    };
    let cache = match &spent.request {
        Some(request) => format!("cache hit {} (total {})", rate(request), rate(&total)),
        None => format!("cache hit (total {})", rate(&total)),
    };
    let cost = match total.bill {
        // The reference's words.
        Bill { cost: Some(cost), estimated_cost: None, tokens_without_cost: 0 } if cost > 0.0 => {
            format!("$ (total {cost:.4})")
        }
        Bill { cost: Some(_), estimated_cost: None, tokens_without_cost: 0 } => "$ (total 0.00)".to_owned(),
        bill => format!("cost (total {})", bill.in_words()),
    };
    let reasons = |usage: &Usage| usage.reasoning_tokens > 0;
    let mut parts =
        vec![(count("↑ input", |usage| usage.prompt_tokens), Colour::Cyan), (cache, Colour::Magenta)];
    if reasons(&total) || spent.request.as_ref().is_some_and(reasons) {
        parts.push((count("reasoning", |usage| usage.reasoning_tokens), Colour::Yellow));
    }
    parts.push((count("↓ output", |usage| usage.completion_tokens), Colour::Blue));
    parts.push((cost, Colour::Green));
    let mut lines = Vec::new();
    let mut line = Line::new("Tokens: ", Style::DIM);
    for (place, (text, colour)) in parts.into_iter().enumerate() {
        let mark = if place == 0 { "" } else { " • " };
        if place > 0 && width.is_some_and(|width| line.width() + columns(mark) + columns(&text) > width) {
            lines.push(std::mem::replace(&mut line, Line::new("  • ", Style::DIM)));
        } else {
            line = line.with(mark, Style::DIM);
        }
        line = line.with(text, Style::DIM.in_colour(colour));
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(total: Usage, request: Option<Usage>) -> String {
        let spent = Spent { total: Some(total), request };
        lines(&spent, None).iter().map(Line::plain).collect()
    }

    /// The figures that SDK 1.58 prints, without the second space before its `reasoning`.
    #[test]
    fn the_line_equals_that_of_the_reference() {
        let tokens = |prompt, completion, read, reasoning| Usage {
            prompt_tokens: prompt,
            completion_tokens: completion,
            cache_read_tokens: read,
            reasoning_tokens: reasoning,
            bill: Bill::known(0.0),
        };
        let costing = |cost, usage| Usage { bill: Bill::known(cost), ..usage };
        for (total, request, line) in [
            (
                tokens(0, 0, 0, 0),
                None,
                "↑ input (total 0) • cache hit (total N/A) • ↓ output (total 0) • $ (total 0.00)",
            ),
            (
                costing(0.00004, tokens(1234, 12345, 617, 0)),
                None,
                "↑ input (total 1.23K) • cache hit (total 50.00%) • ↓ output (total 12.35K) • $ (total 0.0000)",
            ),
            (
                costing(1.23456, tokens(999_999, 1_000_000, 1_000_000, 7)),
                None,
                "↑ input (total 1000K) • cache hit (total 50.00%) • reasoning (total 7) • ↓ output (total 1M) \
                 • $ (total 1.2346)",
            ),
            (
                costing(12.0, tokens(1_005_000, 2_000_000_000, 5, 0)),
                None,
                "↑ input (total 1M) • cache hit (total 0.00%) • ↓ output (total 2B) • $ (total 12.0000)",
            ),
            (
                costing(0.011755, tokens(4270, 400, 1000, 9)),
                Some(tokens(1200, 80, 0, 0)),
                "↑ input 1.2K (total 4.27K) • cache hit 0.00% (total 23.42%) • reasoning 0 (total 9) \
                 • ↓ output 80 (total 400) • $ (total 0.0118)",
            ),
            (
                costing(0.5, tokens(100, 1, 300, 0)),
                Some(tokens(50, 1, 100, 3)),
                "↑ input 50 (total 100) • cache hit 66.67% (total 75.00%) • reasoning 3 (total 0) \
                 • ↓ output 1 (total 1) • $ (total 0.5000)",
            ),
        ] {
            assert_eq!(shown(total, request), format!("Tokens: {line}"));
        }
        assert_eq!((abbreviated(1115), abbreviated(1125)), ("1.11K".into(), "1.12K".into()));
    }

    #[test]
    fn an_unknown_cost_is_not_zero() {
        let unknown = Usage { prompt_tokens: 1, ..Usage::default() };
        assert!(shown(unknown, None).ends_with("cost (total unknown)"), "{}", shown(unknown, None));
        let bill = Bill { estimated_cost: Some(0.5), ..Bill::default() };
        let estimated = shown(Usage { bill, ..unknown }, None);
        assert!(estimated.ends_with("cost (total ≈ $0.5000 (estimate))"), "{estimated}");
    }

    #[test]
    fn a_line_is_broken_between_figures() {
        let spent = Spent {
            total: Some(Usage {
                prompt_tokens: 1,
                completion_tokens: 2,
                bill: Bill::known(0.0),
                ..Usage::default()
            }),
            request: None,
        };
        let rows: Vec<String> = lines(&spent, Some(52)).iter().map(Line::plain).collect();
        assert_eq!(
            rows,
            [
                "Tokens: ↑ input (total 1) • cache hit (total 0.00%)",
                "  • ↓ output (total 2) • $ (total 0.00)"
            ]
        );
    }
}
