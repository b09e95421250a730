//! Decides when to forget, and what: the arithmetic of the reference's summarising condenser, without its model.
//!
//! A condenser checks a view and returns a [`Plan`]. The caller has a model write the summary and appends the
//! `Condensation`. Source: `docs/reference/view.md#condensers`.

use std::ops::Range;

use super::View;
use crate::event::Event;

/// A condenser's settings.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Condenser {
    /// The most entries of a view. If there are more, half of this number stay. At least 1.
    pub max_size: usize,
    /// The most tokens of a view, even if the model accepts more. If there are more, half of this number stay.
    pub max_tokens: Option<u64>,
    /// The number of entries at the beginning that are never forgotten.
    pub keep_first: usize,
    /// The smallest share of the view that is worth a summary. More than 0 and less than 1.
    pub minimum_progress: f64,
    /// The number of tries of a reset. At least 1.
    pub reset_attempts: u32,
    /// The length to which each further try of a reset cuts an event's text, as a share of the length in the try
    /// before. More than 0 and less than 1.
    pub reset_scaling: f64,
}

setters!(Condenser {
    max_size: usize,
    max_tokens?: u64,
    keep_first: usize,
    minimum_progress: f64,
    reset_attempts: u32,
    reset_scaling: f64,
});

/// Why the settings of a condenser were rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CondenserError {
    /// Half of `max_size` must leave room for the beginning, a summary and at least one more entry.
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
        /// The name of the setting.
        setting: &'static str,
    },
    /// A reset has to be tried at least once.
    #[error("reset_attempts must be at least 1")]
    NoAttempts,
}

/// Counts the tokens of a view, for a condenser that limits them.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Tokens<'c> {
    /// The most tokens that the agent's model accepts, if that is known.
    pub model_limit: Option<u64>,
    /// Counts the tokens of the messages of the view's first `n` entries, and of the tools that are sent with them.
    pub count: &'c dyn Fn(usize) -> u64,
}

impl<'c> Tokens<'c> {
    /// Counts with this function, for a model whose limit is not known.
    #[must_use]
    pub fn new(count: &'c dyn Fn(usize) -> u64) -> Self {
        Self { model_limit: None, count }
    }
}

setters!(Tokens<'c> { model_limit?: u64, count });

/// The reasons for a condensation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Reasons {
    /// An event requests it.
    pub request: bool,
    /// There are too many tokens.
    pub tokens: bool,
    /// There are too many entries.
    pub events: bool,
}

/// How urgently a condensation is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requirement {
    /// The run can continue without it.
    Soft,
    /// The run cannot continue without it.
    Hard,
}

/// What to do with a view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plan {
    /// Send the view as it is.
    Keep,
    /// Forget these entries, and put their summary where the first of them was.
    Forget {
        /// The entries, by index.
        range: Range<usize>,
        /// How urgently this is needed. [`Condenser::without_summary`] returns the next step if it fails.
        requirement: Requirement,
    },
    /// Something must be forgotten, but not in the usual way. Forget everything after the system prompt, and put a
    /// summary in its place.
    Reset {
        /// The entries, by index.
        range: Range<usize>,
    },
    /// Something must be forgotten, but nothing can be.
    Impossible,
}

/// Why no entries can be forgotten in the usual way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoRange {
    /// The view cannot be cut at `from` or at any place after it.
    #[error("the view cannot be cut at or after entry {from}")]
    NoCut {
        /// The first entry that was tried as the cut.
        from: i64,
    },
    /// The range would be empty: what must stay at the beginning reaches what must stay at the end.
    #[error("there are no entries between the beginning and the end that must stay")]
    Nothing,
    /// Fewer entries would be forgotten than the settings demand.
    #[error("forgetting {forgotten} of {entries} entries is less than the minimum progress")]
    TooLittle {
        /// The number of entries that would be forgotten.
        forgotten: usize,
        /// The number of entries in the view.
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
    /// Returns how urgently a condensation is needed. `None` if it is not needed. Tokens and requests cannot wait,
    /// too many entries can.
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

    /// Returns the same settings if they are valid.
    ///
    /// # Errors
    /// [`CondenserError`] for the first invalid setting.
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

    /// Returns what to do with `view`. Without `tokens`, tokens are not limited.
    #[must_use]
    pub fn plan(&self, view: &View, tokens: Option<Tokens<'_>>) -> Plan {
        let Some(requirement) = self.reasons(view, tokens).requirement() else { return Plan::Keep };
        match self.range(view, tokens) {
            Ok(range) => Plan::Forget { range, requirement },
            Err(_) => self.without_summary(view, requirement),
        }
    }

    /// Returns what to do with `view` if no entries could be forgotten, or if their summary could not be made.
    #[must_use]
    pub fn without_summary(&self, view: &View, requirement: Requirement) -> Plan {
        let range = system_prompt(view).map_or(0, |index| index + 1)..view.len();
        match requirement {
            Requirement::Soft => Plan::Keep,
            Requirement::Hard if range.is_empty() => Plan::Impossible,
            Requirement::Hard => Plan::Reset { range },
        }
    }

    /// Returns the reasons for a condensation of `view`.
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

    /// Returns which entries of `view` to forget. The range begins at the first place after the protected beginning
    /// where the view may be cut. It ends at the first such place that leaves few enough entries. The summary goes
    /// where the range begins.
    ///
    /// # Errors
    /// [`NoRange`] if there are no such entries, or too few.
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

    /// Returns for each try of a reset the length to which each event's text is cut, in characters. The first try
    /// cuts nothing (`None`). Each further try cuts to a smaller share of `longest`, the longest text in the view.
    pub fn reset_cuts(&self, longest: usize) -> impl Iterator<Item = Option<usize>> {
        let mut length = longest;
        let scaling = self.reset_scaling;
        let further = std::iter::repeat_with(move || {
            length = (length as f64 * scaling) as usize;
            Some(length)
        });
        std::iter::once(None).chain(further).take(self.reset_attempts as usize)
    }

    /// Returns how many entries may stay at the end of a view that is too long, beside its beginning and a summary.
    fn room(&self) -> i64 {
        signed(self.max_size / 2) - signed(self.keep_first) - 1
    }

    fn token_limit(&self, tokens: Tokens<'_>) -> Option<u64> {
        [self.max_tokens, tokens.model_limit].into_iter().flatten().min()
    }

    /// Returns how many entries at the end of a view can stay if its tokens are reduced to half of the limit. It finds
    /// the shortest stretch after the beginning that has enough tokens, and counts the entries after that stretch.
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

/// Returns the index of the first system prompt, which is never forgotten.
fn system_prompt(view: &View) -> Option<usize> {
    view.events().position(|event| matches!(event, Event::SystemPrompt(_)))
}
