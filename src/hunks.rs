//! The lines that differ between two texts.
//!
//! The result is the shortest script of removed and added lines (Myers, "An O(ND) Difference Algorithm and Its
//! Variations", 1986), in hunks with some lines around them. If texts differ in more than [`CHANGES_MAX`] lines,
//! all old lines are removed and all new ones are added, so that the time is bounded.
//!
//! Why not the crate `similar`: nothing but a clock bounds its time, so that an event would look different on a busy
//! machine. Without a clock it takes nine seconds for two texts of 200,000 lines with nothing in common, one megabyte
//! each. Of several shortest scripts it also chooses another one than is shown today.

/// The most changes of a script that is searched for.
const CHANGES_MAX: usize = 1000;

/// What happens to a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// It stays.
    Keep,
    /// It is removed.
    Remove,
    /// It is added.
    Add,
}

/// Changes that are near each other, with the lines around them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hunk<'a> {
    /// Its first line in the old text, 1-based. If it has no lines there, the line before it.
    pub old_start: usize,
    /// The number of its lines in the old text.
    pub old_lines: usize,
    /// Its first line in the new text, 1-based. If it has no lines there, the line before it.
    pub new_start: usize,
    /// The number of its lines in the new text.
    pub new_lines: usize,
    /// The lines, in order.
    pub lines: Vec<(Change, &'a str)>,
}

/// Returns the hunks that lead from `old` to `new`, each with up to `context` unchanged lines before and after. The ends of
/// lines are left out.
pub(crate) fn hunks<'a>(old: &'a str, new: &'a str, context: usize) -> Vec<Hunk<'a>> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    hunks_of(&old, &new, context)
}

/// Does the same as [`hunks`] for lines that the caller has parted.
pub(crate) fn hunks_of<'a>(old: &[&'a str], new: &[&'a str], context: usize) -> Vec<Hunk<'a>> {
    let script = script(old, new);
    let changed: Vec<usize> = script
        .iter()
        .enumerate()
        .filter(|(_, (change, _))| *change != Change::Keep)
        .map(|(at, _)| at)
        .collect();
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for at in changed {
        let (from, to) = (at.saturating_sub(context), (at + context + 1).min(script.len()));
        match ranges.last_mut() {
            Some(range) if range.1 >= from => range.1 = to,
            _ => ranges.push((from, to)),
        }
    }
    let (mut at, mut old_line, mut new_line) = (0, 1, 1);
    let mut hunks = Vec::with_capacity(ranges.len());
    for (from, to) in ranges {
        // There are only unchanged lines between hunks.
        (old_line, new_line, at) = (old_line + from - at, new_line + from - at, to);
        let lines = script[from..to].to_vec();
        let count = |gone: Change| lines.iter().filter(|(change, _)| *change != gone).count();
        let (old_lines, new_lines) = (count(Change::Add), count(Change::Remove));
        let start = |line: usize, lines: usize| if lines == 0 { line - 1 } else { line };
        hunks.push(Hunk {
            old_start: start(old_line, old_lines),
            old_lines,
            new_start: start(new_line, new_lines),
            new_lines,
            lines,
        });
        (old_line, new_line) = (old_line + old_lines, new_line + new_lines);
    }
    hunks
}

/// Returns every line of both texts and what happens to it.
fn script<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<(Change, &'a str)> {
    let same = |(a, b): &(&&str, &&str)| a == b;
    let before = old.iter().zip(new).take_while(same).count();
    let (old_rest, new_rest) = (&old[before..], &new[before..]);
    let after = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(same).count();
    let (a, b) = (&old_rest[..old_rest.len() - after], &new_rest[..new_rest.len() - after]);
    let mut script: Vec<_> = old[..before].iter().map(|line| (Change::Keep, *line)).collect();
    match shortest(a, b) {
        Some(middle) => script.extend(middle),
        None => {
            script.extend(a.iter().map(|line| (Change::Remove, *line)));
            script.extend(b.iter().map(|line| (Change::Add, *line)));
        }
    }
    script.extend(old[old.len() - after..].iter().map(|line| (Change::Keep, *line)));
    script
}

/// Returns the shortest script. `None` if it has more than [`CHANGES_MAX`] changes.
fn shortest<'a>(a: &[&'a str], b: &[&'a str]) -> Option<Vec<(Change, &'a str)>> {
    // `reach[offset + k]` is how far into `a` the best path on diagonal `k` (place in a - place in b) gets.
    let most = (a.len() + b.len()).min(CHANGES_MAX);
    let offset = most + 1;
    let mut reach = vec![0_usize; 2 * offset + 1];
    let mut trace = Vec::new();
    for changes in 0..=most {
        // The diagonals that `changes` changes can reach, and one more on each side, from which a change can come.
        trace.push(reach[offset - changes - 1..=offset + changes + 1].to_vec());
        for step in 0..=changes {
            let place = offset - changes + 2 * step;
            let down = step == 0 || (step != changes && reach[place - 1] < reach[place + 1]);
            let mut x = if down { reach[place + 1] } else { reach[place - 1] + 1 };
            // y = x - k; it is never negative on a path, but a diagonal may lie outside of the texts.
            let Some(mut y) = (x + offset).checked_sub(place) else { continue };
            while x < a.len() && y < b.len() && a[x] == b[y] {
                (x, y) = (x + 1, y + 1);
            }
            reach[place] = x;
            if x >= a.len() && y >= b.len() {
                return Some(walk_back(a, b, &trace));
            }
        }
    }
    None
}

/// Returns the script that led to the end of both texts, from the reach before each change.
fn walk_back<'a>(a: &[&'a str], b: &[&'a str], trace: &[Vec<usize>]) -> Vec<(Change, &'a str)> {
    let (mut x, mut y) = (a.len(), b.len());
    let mut script = Vec::with_capacity(x.max(y));
    for (changes, reach) in trace.iter().enumerate().rev() {
        // `reach` begins at the diagonal -changes - 1.
        let place = x + changes + 1 - y;
        let down = place == 1 || (place != 2 * changes + 1 && reach[place - 1] < reach[place + 1]);
        let from = if changes == 0 {
            0
        } else if down {
            reach[place + 1]
        } else {
            reach[place - 1]
        };
        let (before_x, before_y) = match (changes, down) {
            (0, _) => (0, 0),
            // One diagonal up or down from here.
            (_, true) => (from, (from + changes) - place),
            (_, false) => (from, (from + changes + 2) - place),
        };
        while x > before_x && y > before_y {
            (x, y) = (x - 1, y - 1);
            script.push((Change::Keep, a[x]));
        }
        if changes > 0 {
            if down {
                y -= 1;
                script.push((Change::Add, b[y]));
            } else {
                x -= 1;
                script.push((Change::Remove, a[x]));
            }
        }
    }
    script.reverse();
    script
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(old: &str, new: &str, context: usize) -> Vec<String> {
        let mut out = Vec::new();
        for hunk in hunks(old, new, context) {
            out.push(format!("@{},{}+{},{}", hunk.old_start, hunk.old_lines, hunk.new_start, hunk.new_lines));
            out.extend(hunk.lines.iter().map(|(change, line)| {
                let mark = match change {
                    Change::Keep => ' ',
                    Change::Remove => '-',
                    Change::Add => '+',
                };
                format!("{mark}{line}")
            }));
        }
        out
    }

    #[test]
    fn hunks_have_the_lines_around_them() {
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
        let new = "1\n2\nthree\n4\n5\n6\n7\n8\n9\nten\n";
        assert_eq!(shown(old, new, 1), ["@2,3+2,3", " 2", "-3", "+three", " 4", "@9,1+9,2", " 9", "+ten"]);
        assert_eq!(shown("", "a\nb\n", 2), ["@0,0+1,2", "+a", "+b"]);
        assert_eq!(shown("a\nb\n", "", 2), ["@1,2+0,0", "-a", "-b"]);
        assert!(shown(old, old, 3).is_empty());
    }

    #[test]
    fn the_script_is_the_shortest() {
        // The example of Myers' paper: five changes.
        let lines = |text: &'static str| -> Vec<&str> { text.split("").filter(|s| !s.is_empty()).collect() };
        let found = script(&lines("abcabba"), &lines("cbabac"));
        assert_eq!(found.iter().filter(|(change, _)| *change != Change::Keep).count(), 5);
    }

    #[test]
    fn texts_without_common_lines_are_replaced_whole() {
        let text = |word: &str| (0..5000).map(|n| format!("{word}{n}\n")).collect::<String>();
        let (old, new) = (text("a"), text("b"));
        let [hunk] = &*hunks(&old, &new, 3) else { panic!() };
        assert_eq!((hunk.old_lines, hunk.new_lines, hunk.lines.len()), (5000, 5000, 10_000));
    }

    proptest! {
        #[test]
        fn a_script_leads_from_the_old_text_to_the_new(
            old in proptest::collection::vec(0..5_u8, 0..40),
            new in proptest::collection::vec(0..5_u8, 0..40),
        ) {
            let words = ["a", "b", "c", "d", "e"];
            let text = |lines: &[u8]| lines.iter().map(|n| words[*n as usize]).collect::<Vec<_>>();
            let (old, new) = (text(&old), text(&new));
            let script = script(&old, &new);
            let without = |gone: Change| -> Vec<&str> {
                script.iter().filter(|(change, _)| *change != gone).map(|(_, line)| *line).collect()
            };
            prop_assert_eq!(without(Change::Add), old.clone());
            prop_assert_eq!(without(Change::Remove), new.clone());
            // As short as the longest common subsequence allows.
            let mut common = vec![vec![0; new.len() + 1]; old.len() + 1];
            for x in 0..old.len() {
                for y in 0..new.len() {
                    common[x + 1][y + 1] = if old[x] == new[y] {
                        common[x][y] + 1
                    } else {
                        common[x][y + 1].max(common[x + 1][y])
                    };
                }
            }
            let kept = script.iter().filter(|(change, _)| *change == Change::Keep).count();
            prop_assert_eq!(kept, common[old.len()][new.len()]);
        }
    }
}
