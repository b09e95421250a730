//! Fits a table into the width of the terminal: texts are cut, headings wrap between words, and columns at the right are
//! left out where even that is too wide. Numbers, ids and times are never cut.

use comfy_table::{ColumnConstraint, ContentArrangement, Table, Width};

use crate::visualizer::columns;

/// The gap between two columns.
const GAP: usize = 2;

/// The least width of a column of texts, if its texts are longer.
const TEXT_LEAST: usize = 12;

/// A column that is no longer than this is never cut: words such as outcomes, short ids, times to the second.
const WORD: usize = 19;

/// The widths of one column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Widths {
    /// The width that shows everything.
    whole: usize,
    /// The width below which the column is left out.
    least: usize,
}

/// Fits a table into `room` characters. Returns the headings of the columns that are left out.
pub(super) fn fit(table: &mut Table, room: usize) -> Vec<String> {
    let headings: Vec<String> = table
        .header()
        .map(|header| header.cell_iter().map(comfy_table::Cell::content).collect())
        .unwrap_or_default();
    let widths: Vec<Widths> =
        (0..headings.len()).map(|index| measure(table, index, &headings[index])).collect();
    let fitted = fitted(&widths, room);
    table.set_content_arrangement(ContentArrangement::Disabled);
    for (index, column) in table.column_iter_mut().enumerate() {
        match fitted.get(index) {
            Some(width) => {
                // The library counts the gap as a part of the column.
                let gap = if index + 1 == fitted.len() { 0 } else { GAP };
                column.set_padding((0, gap as u16));
                let all = u16::try_from(width + gap).unwrap_or(u16::MAX);
                column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(all)));
            }
            None => {
                column.set_constraint(ColumnConstraint::Hidden);
            }
        }
    }
    // A heading wraps between the words of its name.
    table.set_header(headings.iter().map(|heading| heading.replace('_', " ")));
    headings.into_iter().skip(fitted.len()).collect()
}

fn measure(table: &Table, index: usize, heading: &str) -> Widths {
    let (mut cells, mut is_number) = (0, true);
    for cell in table.row_iter().filter_map(|row| row.cell_iter().nth(index)) {
        let text = cell.content();
        cells = cells.max(columns(&text));
        is_number &= text
            .chars()
            .all(|character| matches!(character, '0'..='9' | '.' | ',' | '-' | '+' | ' ' | '$' | '≈'));
    }
    let words = heading.split(['_', ' ']).map(columns).max().unwrap_or_default();
    let whole = cells.max(words);
    let least = if is_number || cells <= WORD { whole } else { TEXT_LEAST.max(words) };
    Widths { whole, least }
}

/// Returns the widths of the first columns, as many as fit into `room`. The first one always does.
fn fitted(widths: &[Widths], room: usize) -> Vec<usize> {
    let gaps = |count: usize| GAP * count.saturating_sub(1);
    let mut shown = widths.len();
    while shown > 1 && widths[..shown].iter().map(|one| one.least).sum::<usize>() + gaps(shown) > room {
        shown -= 1;
    }
    let mut fitted: Vec<usize> = widths[..shown].iter().map(|one| one.least).collect();
    let mut left = room.saturating_sub(gaps(shown)).saturating_sub(fitted.iter().sum());
    // What is left goes to the columns that lack it, in equal parts.
    loop {
        let lacking: Vec<usize> = (0..shown).filter(|at| fitted[*at] < widths[*at].whole).collect();
        let Some(part) = left.checked_div(lacking.len()) else { break };
        if part == 0 {
            for at in lacking.into_iter().take(left) {
                fitted[at] += 1;
            }
            break;
        }
        for at in lacking {
            let more = part.min(widths[at].whole - fitted[at]);
            fitted[at] += more;
            left -= more;
        }
    }
    if shown == 1 {
        fitted[0] = fitted[0].min(room);
    }
    fitted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn widths(all: &[(usize, usize)]) -> Vec<Widths> {
        all.iter().map(|(whole, least)| Widths { whole: *whole, least: *least }).collect()
    }

    #[test]
    fn a_column_gets_what_the_others_leave() {
        assert_eq!(fitted(&widths(&[(10, 10), (50, 12), (5, 5)]), 100), [10, 50, 5]);
        assert_eq!(fitted(&widths(&[(10, 10), (50, 12), (5, 5)]), 49), [10, 30, 5]);
        assert_eq!(fitted(&widths(&[(10, 10), (50, 12), (5, 5)]), 31), [10, 12, 5]);
        // The last column has no room any more.
        assert_eq!(fitted(&widths(&[(10, 10), (50, 12), (5, 5)]), 30), [10, 18]);
        assert_eq!(fitted(&widths(&[(10, 10), (50, 12), (5, 5)]), 5), [5]);
        assert_eq!(fitted(&[], 80), [0_usize; 0]);
    }

    proptest! {
        #[test]
        fn a_table_is_never_wider_than_the_terminal(
            all in prop::collection::vec((0..80_usize, 0..20_usize), 1..12),
            room in 20..200_usize,
        ) {
            let widths: Vec<Widths> =
                all.iter().map(|(whole, least)| Widths { whole: (*whole).max(*least), least: *least }).collect();
            let fitted = fitted(&widths, room);
            prop_assert!(fitted.iter().sum::<usize>() + GAP * (fitted.len() - 1) <= room);
            for (width, one) in fitted.iter().zip(&widths) {
                prop_assert!(*width <= one.whole && (*width >= one.least || fitted.len() == 1));
            }
            // No column is cut while there is room for it.
            let used = fitted.iter().sum::<usize>() + GAP * (fitted.len() - 1);
            if fitted.len() == widths.len() && used < room {
                prop_assert!(fitted.iter().zip(&widths).all(|(width, one)| *width == one.whole));
            }
        }
    }
}
