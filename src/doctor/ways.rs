//! The paths of a tree: which events have a path to a root, which are in a circle, and where HEAD should be.

use std::collections::BTreeMap;

use crate::tree::{Tree, TreeError};

/// Where the path from an event over its parents ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// At a root event: the path is complete.
    Root,
    /// At this event, whose parent is not in the log.
    Missing(usize),
    /// In a circle, of which this event is the first one in the log.
    Cycle(usize),
}

/// The end of every event's path.
#[derive(Debug)]
pub(super) struct Ways {
    ends: Vec<End>,
}

impl Ways {
    /// Follows each path once.
    pub(super) fn of(tree: &Tree) -> Self {
        let mut ends: Vec<Option<End>> = vec![None; tree.len()];
        // The last walk that visited each event, to detect a circle. 0 means no walk.
        let mut walked_by = vec![0_usize; tree.len()];
        for start in 0..tree.len() {
            let (mut walk, mut at) = (Vec::new(), start);
            let end = loop {
                if let Some(end) = ends[at] {
                    break end;
                }
                if walked_by[at] == start + 1 {
                    let circle = walk.iter().skip_while(|place| **place != at);
                    break End::Cycle(circle.min().copied().unwrap_or(at));
                }
                walked_by[at] = start + 1;
                walk.push(at);
                match tree.parent(at) {
                    Ok(Some(parent)) => at = parent,
                    Ok(None) => break End::Root,
                    Err(_) => break End::Missing(at),
                }
            };
            for place in walk {
                ends[place] = Some(end);
            }
        }
        Self { ends: ends.into_iter().map(|end| end.unwrap_or(End::Root)).collect() }
    }

    /// Returns where the path from the event at `place` ends.
    pub(super) fn end(&self, place: usize) -> End {
        self.ends[place]
    }

    /// Returns whether the event has a path to a root event.
    pub(super) fn is_whole(&self, place: usize) -> bool {
        self.ends[place] == End::Root
    }

    /// Returns, for each circle, the number of events that have no path to a root event because of it.
    pub(super) fn cycles(&self) -> BTreeMap<usize, u64> {
        let mut cycles = BTreeMap::new();
        for end in &self.ends {
            if let End::Cycle(first) = end {
                *cycles.entry(*first).or_default() += 1;
            }
        }
        cycles
    }

    /// Returns, for each event with a missing parent, the number of events that depend on it, including itself.
    pub(super) fn missing(&self) -> BTreeMap<usize, u64> {
        let mut missing = BTreeMap::new();
        for end in &self.ends {
            if let End::Missing(orphan) = end {
                *missing.entry(*orphan).or_default() += 1;
            }
        }
        missing
    }

    /// Returns the newest tip with a complete path. HEAD can be moved there if it is invalid.
    pub(super) fn newest_tip(&self, tree: &Tree) -> Option<usize> {
        tree.branches().last().map(|branch| branch.tip)
    }

    /// Returns the newest event before `place` that has a complete path. It can replace a missing parent.
    pub(super) fn before(&self, tree: &Tree, place: usize) -> Option<usize> {
        (0..place).rev().find(|before| tree.moves_head(*before) && self.is_whole(*before))
    }
}

/// Returns the last event behind HEAD, if all later events follow HEAD in one straight line.
pub(super) fn straight_on(tree: &Tree, head: usize) -> Option<usize> {
    let mut tip = None;
    let mut last = head;
    for place in head + 1..tree.len() {
        if !tree.moves_head(place) {
            continue;
        }
        match tree.parent(place) {
            Ok(Some(parent)) if parent == last => (last, tip) = (place, Some(place)),
            Ok(_)
            | Err(TreeError::MissingParent { .. } | TreeError::Cycle { .. } | TreeError::Unknown { .. }) => {
                return None;
            }
        }
    }
    tip
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::ROOT;

    const E: &str = "MessageEvent";

    fn tree(events: &[(&str, Option<&str>)]) -> Tree {
        let mut tree = Tree::new();
        for (id, parent) in events {
            tree.push(id, *parent, E);
        }
        tree
    }

    #[test]
    fn every_path_ends_at_a_root_a_gap_or_a_circle() {
        let log = tree(&[
            ("a", None),
            ("b", Some("d")),
            ("c", Some("b")),
            ("d", Some("c")),
            ("e", Some("d")),
            ("f", Some("gone")),
            ("g", Some("f")),
            ("h", Some("a")),
        ]);
        let ways = Ways::of(&log);
        let ends: Vec<End> = (0..log.len()).map(|place| ways.end(place)).collect();
        let (circle, missing) = (End::Cycle(1), End::Missing(5));
        assert_eq!(ends, [End::Root, circle, circle, circle, circle, missing, missing, End::Root]);
        assert_eq!(ways.cycles(), BTreeMap::from([(1, 4)]));
        assert_eq!(ways.missing(), BTreeMap::from([(5, 2)]));
        assert_eq!(ways.newest_tip(&log), Some(7));
        assert_eq!(ways.before(&log, 5), Some(0));
    }

    #[test]
    fn a_head_is_behind_only_if_one_straight_line_follows_it() {
        let line = tree(&[("a", None), ("b", Some("a")), ("c", Some("b"))]);
        assert_eq!(straight_on(&line, 0), Some(2));
        assert_eq!(straight_on(&line, 2), None);
        let branches = tree(&[("a", None), ("b", Some("a")), ("c", Some("a"))]);
        assert_eq!(straight_on(&branches, 1), None);
        assert_eq!(straight_on(&branches, 0), None);
        let apart = tree(&[("a", None), ("b", Some(ROOT))]);
        assert_eq!(straight_on(&apart, 0), None);
    }
}
