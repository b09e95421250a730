//! Analyzers rate the risk of an action, before a user is asked to confirm it.
//!
//! An analyzer rates one action at a time and changes nothing. Source: `docs/reference/confirmation.md#analyzers`. One
//! rule is stricter than there: the risk of a command that may hide another one is unknown, not low. The page
//! `docs/conformance.md#analyzers` lists the cases.

mod command;
mod evaluated;
mod options;
mod pattern;
mod pipe;
mod rail;
mod segments;
mod wrapper;

use crate::event::{ActionEvent, Json, Map, Risk, Text};
use crate::json::{Fault, Raw};
use crate::shell;

use super::confirm::rank;

/// Rates the risk of actions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Analyzer {
    /// Uses the risk that the model gives with each call.
    Llm,
    /// Searches for known patterns of dangerous commands and of prompt injection.
    Pattern,
    /// Searches for dangerous combinations within one command.
    Rail,
    /// Asks several analyzers. The highest risk counts.
    Ensemble {
        /// The analyzers, in order.
        analyzers: Vec<Analyzer>,
        /// If true, one unknown risk makes the result unknown. Otherwise it is unknown only if all risks are.
        propagate_unknown: bool,
    },
    /// An unknown kind, or custom patterns; its JSON is kept. Every action is rated as high risk.
    Unfamiliar(Json),
}

/// The result of an analyzer.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Analysis {
    /// The risk of the action.
    pub risk: Risk,
    /// Further details.
    pub details: Option<Map<Json>>,
}

/// Why an analyzer's settings were rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnalyzerError {
    /// The text is not JSON.
    #[error("the analyzer is not JSON: {0}")]
    Json(#[from] Fault),
    /// The kind of the analyzer is missing.
    #[error("the analyzer has no kind")]
    NoKind,
    /// An ensemble has no analyzers.
    #[error("an ensemble needs at least one analyzer")]
    EmptyEnsemble,
    /// Ensembles are nested too deeply.
    #[error("ensembles nest more than {DEPTH_MAX} deep")]
    TooDeep,
}

/// The maximum nesting depth of ensembles.
const DEPTH_MAX: usize = 8;

/// How many characters an analyzer may read for one action, before it stops and the risk is unknown. A command of the
/// greatest length can be read eight times: sources within sources are read again for each level.
const WORK_MAX: usize = 8 * segments::CHARACTERS_MAX;

/// The work for one action, in characters that were read.
#[derive(Default)]
struct Work {
    spent: usize,
}

impl Work {
    /// Reads the source of a shell. `None` if too much was read already.
    fn read(&mut self, source: &str) -> Option<shell::Script> {
        if self.spent >= WORK_MAX {
            return None;
        }
        let script = shell::read(source);
        self.spent += script.work;
        Some(script)
    }

    /// Reads a text that a shell may expand. Returns the sources of its substitutions. `None` if too much was read
    /// already.
    fn expand(&mut self, text: &str) -> Option<Vec<String>> {
        if self.spent >= WORK_MAX {
            return None;
        }
        let (sources, characters) = shell::substitutions(text);
        self.spent += characters;
        Some(sources)
    }
}

impl Analyzer {
    /// Reads an analyzer from the reference's JSON: `{"kind": "LLMSecurityAnalyzer"}`.
    ///
    /// # Errors
    /// [`AnalyzerError`].
    pub fn parse(json: &str) -> Result<Self, AnalyzerError> {
        Self::read(Raw::parse(json)?)
    }

    /// Reads an analyzer from the reference's JSON.
    ///
    /// # Errors
    /// [`AnalyzerError`].
    pub fn read(raw: Raw<'_>) -> Result<Self, AnalyzerError> {
        Self::read_within(raw, DEPTH_MAX)
    }

    fn read_within(raw: Raw<'_>, depth: usize) -> Result<Self, AnalyzerError> {
        let kind = raw.get("kind").and_then(Raw::as_text).ok_or(AnalyzerError::NoKind)?;
        Ok(match &*kind {
            "LLMSecurityAnalyzer" => Self::Llm,
            "PatternSecurityAnalyzer" if pattern::is_default(raw) => Self::Pattern,
            "PolicyRailSecurityAnalyzer" => Self::Rail,
            "EnsembleSecurityAnalyzer" => {
                let depth = depth.checked_sub(1).ok_or(AnalyzerError::TooDeep)?;
                let children = raw.get("analyzers").into_iter().flat_map(Raw::elements);
                let analyzers =
                    children.map(|child| Self::read_within(child, depth)).collect::<Result<Vec<_>, _>>()?;
                if analyzers.is_empty() {
                    return Err(AnalyzerError::EmptyEnsemble);
                }
                let propagate_unknown =
                    raw.get("propagate_unknown").is_some_and(|flag| flag.text() == "true");
                Self::Ensemble { analyzers, propagate_unknown }
            }
            _ => Self::Unfamiliar(raw.into()),
        })
    }

    /// Returns the analyzer's JSON, as the reference writes it.
    #[must_use]
    pub fn to_json(&self) -> String {
        match self {
            Self::Llm => r#"{"kind":"LLMSecurityAnalyzer"}"#.to_owned(),
            Self::Pattern => pattern::to_json(),
            Self::Rail => r#"{"kind":"PolicyRailSecurityAnalyzer"}"#.to_owned(),
            Self::Ensemble { analyzers, propagate_unknown } => {
                let analyzers: Vec<String> = analyzers.iter().map(Self::to_json).collect();
                format!(
                    r#"{{"analyzers":[{}],"propagate_unknown":{propagate_unknown},"kind":"EnsembleSecurityAnalyzer"}}"#,
                    analyzers.join(",")
                )
            }
            Self::Unfamiliar(json) => json.text().to_owned(),
        }
    }

    /// Returns the reference's class name of the analyzer.
    #[must_use]
    pub fn kind(&self) -> Text {
        match self {
            Self::Llm => "LLMSecurityAnalyzer".into(),
            Self::Pattern => "PatternSecurityAnalyzer".into(),
            Self::Rail => "PolicyRailSecurityAnalyzer".into(),
            Self::Ensemble { .. } => "EnsembleSecurityAnalyzer".into(),
            Self::Unfamiliar(json) => {
                json.raw().get("kind").and_then(Raw::as_str).map_or_else(|| "".into(), |kind| (&*kind).into())
            }
        }
    }

    /// Rates the risk of `action`.
    #[must_use]
    pub fn analyze(&self, action: &ActionEvent) -> Analysis {
        let risk = match self {
            Self::Llm => action.security_risk.clone(),
            Self::Pattern => pattern::risk(action, &mut Work::default()),
            Self::Rail => rail::risk(action, &mut Work::default()),
            Self::Ensemble { analyzers, propagate_unknown } => {
                let risks: Vec<Risk> =
                    analyzers.iter().map(|analyzer| analyzer.analyze(action).risk).collect();
                worst(&risks, *propagate_unknown)
            }
            Self::Unfamiliar(_) => {
                let error = format!("{} is not an analyzer that runs here", self.kind());
                let details = Map(vec![("error".into(), Json::from(&serde_json::Value::from(error)))]);
                return Analysis { risk: Risk::High, details: Some(details) };
            }
        };
        Analysis { risk, details: None }
    }
}

/// Returns the highest risk. Unknown risks are ignored, unless all are unknown or `propagate_unknown` is set.
fn worst(risks: &[Risk], propagate_unknown: bool) -> Risk {
    if propagate_unknown && risks.iter().any(|risk| rank(risk).is_none()) {
        return Risk::Unknown;
    }
    risks
        .iter()
        .filter(|risk| rank(risk).is_some())
        .max_by_key(|risk| rank(risk))
        .cloned()
        .unwrap_or(Risk::Unknown)
}

#[cfg(test)]
mod tests;
