//! Collects the problems of one conversation. Only the first ones are listed.

use crate::store::Problem;

/// The number of problems of one conversation that are listed one by one.
const PROBLEMS_MAX: usize = 100;

/// The problems of one conversation.
#[derive(Debug, Default)]
pub(super) struct Problems {
    listed: Vec<Problem>,
    /// The number of problems that are not listed.
    unlisted: u64,
}

impl Problems {
    /// Adds a problem.
    pub(super) fn add(&mut self, problem: Problem) {
        if self.listed.len() < PROBLEMS_MAX {
            self.listed.push(problem);
        } else {
            self.unlisted += 1;
        }
    }

    /// Adds problems.
    pub(super) fn extend(&mut self, problems: impl IntoIterator<Item = Problem>) {
        for problem in problems {
            self.add(problem);
        }
    }

    /// Keeps only the listed problems for which `keeps` returns true.
    pub(super) fn retain(&mut self, keeps: impl FnMut(&Problem) -> bool) {
        self.listed.retain(keeps);
    }

    /// Returns the listed problems. If there are more, the last one says how many.
    pub(super) fn finish(mut self) -> Vec<Problem> {
        if self.unlisted > 0 {
            self.listed.push(Problem {
                path: String::new(),
                problem: format!("{} more problems were found", self.unlisted),
                action: "not listed".into(),
            });
        }
        self.listed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_problems_are_listed_and_the_others_are_counted() {
        for (found, last) in
            [(0, None), (1, Some("0")), (100, Some("99")), (101, Some("1 more problems were found"))]
        {
            let mut problems = Problems::default();
            problems.extend((0..found).map(|number: usize| Problem {
                path: String::new(),
                problem: number.to_string(),
                action: String::new(),
            }));
            let listed = problems.finish();
            assert_eq!(listed.len(), found.min(PROBLEMS_MAX + 1));
            assert_eq!(listed.last().map(|problem| &*problem.problem), last);
        }
    }
}
