//! When to forget, and what: the arithmetic of the reference's summarising condenser, without its model.
//!
//! A condenser looks at a view and answers a [`Plan`]; whoever holds a model has the summary written and
//! appends the `Condensation`. Source: `events.md` section 5, `runtime.md` section 9.

use std::ops::Range;

use super::View;
use crate::event::Event;

/// A condenser's settings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Condenser {
    /// More entries than this are too many; half of them stay. At least 1.
    pub max_size: usize,
    /// More tokens than this are too many, whatever the model could take; half of them stay.
    pub max_tokens: Option<u64>,
    /// So many entries at the beginning are never forgotten.
    pub keep_first: usize,
    /// Forgetting less than this share of the view is not worth a summary. Between 0 and 1, both left out.
    pub minimum_progress: f64,
    /// How often a reset is tried. At least 1.
    pub reset_attempts: u32,
    /// What an event's text is cut to, at each further try of a reset, as a share of the try before. Between
    /// 0 and 1, both left out.
    pub reset_scaling: f64,
}

/// Why settings are not those of a condenser.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CondenserError {
    /// Half the size must leave room for the beginning, a summary and at least one more.
    #[error("keep_first {keep_first} leaves no room in half of max_size {max_size}")]
    NoRoom {
        /// The entries that are never forgotten.
        keep_first: usize,
        /// The most entries.
        max_size: usize,
    },
    /// A share is not between 0 and 1.
    #[error("{setting} must be more than 0 and less than 1")]
    Share {
        /// Which one.
        setting: &'static str,
    },
    /// A reset has to be tried at least once.
    #[error("reset_attempts must be at least 1")]
    NoAttempts,
}

/// How many tokens a view has, for a condenser that minds them.
#[derive(Clone, Copy)]
pub struct Tokens<'c> {
    /// The most the agent's model takes, where that is known.
    pub model_limit: Option<u64>,
    /// Counts the messages of the view's first entries, as many as it is told, with the tools that go along.
    pub count: &'c dyn Fn(usize) -> u64,
}

/// What asks for a condensation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reasons {
    /// An event did.
    pub request: bool,
    /// There are too many tokens.
    pub tokens: bool,
    /// There are too many entries.
    pub events: bool,
}

/// How much a condensation is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requirement {
    /// The run can go on without.
    Soft,
    /// It cannot.
    Hard,
}

/// What is to become of a view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plan {
    /// It can be sent as it is.
    Keep,
    /// These entries are to be forgotten, and their summary put where the first of them was.
    Forget {
        /// The entries, by index.
        range: Range<usize>,
        /// How much that is needed; see [`Condenser::without_summary`] for what follows when it fails.
        requirement: Requirement,
    },
    /// Nothing can be forgotten the usual way but something must: everything behind the system prompt is to
    /// be, and a summary put in its place.
    Reset {
        /// The entries, by index.
        range: Range<usize>,
    },
    /// Something must be forgotten and nothing can be.
    Impossible,
}

/// Why no entries can be forgotten the usual way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoRange {
    /// The view may not be cut where enough would be left.
    #[error("there is no place to cut at or behind entry {from}")]
    NoCut {
        /// The first entry that could be the cut.
        from: i64,
    },
    /// The first place where a cut could begin is not before the one where it would end.
    #[error("nothing lies between what must stay at the beginning and at the end")]
    Nothing,
    /// There would be less progress than the settings want.
    #[error("{forgotten} of {entries} entries are less than the least progress wanted")]
    TooLittle {
        /// How many would be forgotten.
        forgotten: usize,
        /// How many there are.
        entries: usize,
    },
}

impl Default for Condenser {
    /// The reference's class defaults.
    fn default() -> Self {
        Self {
            max_size: 240,
            max_tokens: None,
            keep_first: 2,
            minimum_progress: 0.1,
            reset_attempts: 5,
            reset_scaling: 0.8,
        }
    }
}

impl Reasons {
    /// How much a condensation is needed, if at all: tokens and requests cannot wait, size can.
    #[must_use]
    pub fn requirement(self) -> Option<Requirement> {
        match self {
            Self { tokens: true, .. } | Self { request: true, .. } => Some(Requirement::Hard),
            Self { events: true, .. } => Some(Requirement::Soft),
            Self { .. } => None,
        }
    }
}

impl Condenser {
    /// The settings that the reference's default agent and its sub-agents use.
    pub const PRESET: Self = Self {
        max_size: 80,
        max_tokens: None,
        keep_first: 4,
        minimum_progress: 0.1,
        reset_attempts: 5,
        reset_scaling: 0.8,
    };

    /// The same settings, if they are those of a condenser.
    ///
    /// # Errors
    /// [`CondenserError`] for the first that is not.
    pub fn checked(self) -> Result<Self, CondenserError> {
        if self.room() <= 0 {
            return Err(CondenserError::NoRoom { keep_first: self.keep_first, max_size: self.max_size });
        }
        for (setting, share) in
            [("minimum_progress", self.minimum_progress), ("reset_scaling", self.reset_scaling)]
        {
            if !(share > 0.0 && share < 1.0) {
                return Err(CondenserError::Share { setting });
            }
        }
        if self.reset_attempts == 0 { Err(CondenserError::NoAttempts) } else { Ok(self) }
    }

    /// What is to become of `view`. Without `tokens` nobody minds how many there are.
    #[must_use]
    pub fn plan(&self, view: &View, tokens: Option<Tokens<'_>>) -> Plan {
        let Some(requirement) = self.reasons(view, tokens).requirement() else { return Plan::Keep };
        match self.range(view, tokens) {
            Ok(range) => Plan::Forget { range, requirement },
            Err(_) => self.without_summary(view, requirement),
        }
    }

    /// What is to become of `view` when entries could not be forgotten, or no summary of them be had.
    #[must_use]
    pub fn without_summary(&self, view: &View, requirement: Requirement) -> Plan {
        let range = system_prompt(view).map_or(0, |index| index + 1)..view.len();
        match requirement {
            Requirement::Soft => Plan::Keep,
            Requirement::Hard if range.is_empty() => Plan::Impossible,
            Requirement::Hard => Plan::Reset { range },
        }
    }

    /// What asks for a condensation of `view`.
    #[must_use]
    pub fn reasons(&self, view: &View, tokens: Option<Tokens<'_>>) -> Reasons {
        let over = |tokens: Tokens<'_>| {
            self.token_limit(tokens).is_some_and(|limit| (tokens.count)(view.len()) > limit)
        };
        Reasons {
            request: view.has_unhandled_request(),
            tokens: tokens.is_some_and(over),
            events: view.len() > self.max_size,
        }
    }

    /// Which entries of `view` to forget: from the first place behind its beginning where it may be cut, to
    /// the first one that leaves few enough. The summary goes where they begin.
    ///
    /// # Errors
    /// [`NoRange`] where there are none, or too few.
    pub fn range(&self, view: &View, tokens: Option<Tokens<'_>>) -> Result<Range<usize>, NoRange> {
        let reasons = self.reasons(view, tokens);
        let kept = [
            reasons.request.then(|| signed(view.len() / 2) - signed(self.keep_first) - 1),
            reasons.events.then(|| self.room()),
            tokens.filter(|_| reasons.tokens).map(|tokens| signed(self.tail_within(view, tokens))),
        ];
        let kept = kept.into_iter().flatten().min().ok_or(NoRange::Nothing)?;
        let indices = view.indices();
        let cut = |from: i64| {
            indices.at_or_after(usize::try_from(from).unwrap_or(0)).ok_or(NoRange::NoCut { from })
        };
        let protected = system_prompt(view).map_or(0, |index| index + 1).max(self.keep_first);
        let range = cut(signed(protected))?..cut(signed(view.len()) - kept)?;
        if range.is_empty() {
            return Err(NoRange::Nothing);
        }
        if (range.len() as f64) < view.len() as f64 * self.minimum_progress {
            return Err(NoRange::TooLittle { forgotten: range.len(), entries: view.len() });
        }
        Ok(range)
    }

    /// What each event's text is cut to at each try of a reset, in characters: at first to nothing less than
    /// it is, then to a share of the `longest` in the view, and so on.
    pub fn reset_cuts(&self, longest: usize) -> impl Iterator<Item = Option<usize>> {
        let mut length = longest;
        let scaling = self.reset_scaling;
        let further = std::iter::repeat_with(move || {
            length = (length as f64 * scaling) as usize;
            Some(length)
        });
        std::iter::once(None).chain(further).take(self.reset_attempts as usize)
    }

    /// How many entries may stay at the end of a view that is too long, beside its beginning and a summary.
    fn room(&self) -> i64 {
        signed(self.max_size / 2) - signed(self.keep_first) - 1
    }

    fn token_limit(&self, tokens: Tokens<'_>) -> Option<u64> {
        [self.max_tokens, tokens.model_limit].into_iter().flatten().min()
    }

    /// How many entries at the end of a view can stay for its tokens to be halved: as many as are left by the
    /// shortest stretch behind its beginning that has enough of them.
    fn tail_within(&self, view: &View, tokens: Tokens<'_>) -> usize {
        let first = self.keep_first.min(view.len());
        let rest = view.len() - first;
        let before = if first == 0 { 0 } else { (tokens.count)(first) };
        let total = (tokens.count)(view.len());
        let target = self.token_limit(tokens).map_or(0, |limit| limit / 2);
        let surplus = total.saturating_sub(target);
        let stretch = |length: usize| (tokens.count)(first + length).saturating_sub(before);
        if surplus == 0 {
            return rest;
        }
        if rest == 0 || total.saturating_sub(before) <= surplus {
            return 0;
        }
        let (mut least, mut most) = (1, rest);
        while least < most {
            let middle = usize::midpoint(least, most);
            if stretch(middle) > surplus {
                most = middle;
            } else {
                least = middle + 1;
            }
        }
        rest - least
    }
}

fn signed(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The index of the first system prompt, which is never forgotten.
fn system_prompt(view: &View) -> Option<usize> {
    view.events().position(|event| matches!(event, Event::SystemPrompt(_)))
}
