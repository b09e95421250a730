//! How risky an action is: what is asked before a person is.
//!
//! An analyzer judges one action at a time and changes nothing. Source: `runtime.md` section 5.

mod command;
mod pattern;
mod rail;
mod segments;
mod shell;

use crate::event::json::{Fault, Raw};
use crate::event::{ActionEvent, Json, Map, Risk, Text};

use super::confirm::rank;

/// Who judges how risky actions are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Analyzer {
    /// The model itself, with each call.
    Llm,
    /// Known patterns of dangerous commands, and of attempts to take the model over.
    Pattern,
    /// Dangerous combinations within one command.
    Rail,
    /// Several: the worst judgement counts.
    Ensemble {
        /// Those that are asked, in order.
        analyzers: Vec<Analyzer>,
        /// Whether one that does not know makes the whole unknown; else only all of them do.
        propagate_unknown: bool,
    },
    /// One of a kind that is not built in, or with patterns of its own: every action is of high risk. As it was written.
    Unfamiliar(Json),
}

/// What an analyzer found.
#[derive(Debug, Clone, PartialEq)]
pub struct Analysis {
    /// How risky the action is.
    pub risk: Risk,
    /// More about it.
    pub details: Option<Map<Json>>,
}

/// Why a text is no analyzer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnalyzerError {
    /// The text is not JSON.
    #[error("the analyzer is not JSON: {0}")]
    Json(#[from] Fault),
    /// It does not say which analyzer it is.
    #[error("the analyzer has no kind")]
    NoKind,
    /// An ensemble of none.
    #[error("an ensemble needs at least one analyzer")]
    EmptyEnsemble,
    /// Ensembles within ensembles go too deep.
    #[error("ensembles nest more than {DEPTH_MAX} deep")]
    TooDeep,
}

/// How deep ensembles may nest.
const DEPTH_MAX: usize = 8;

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

    /// The analyzer as the reference writes it.
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

    /// The reference's class of it.
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

    /// How risky `action` is.
    #[must_use]
    pub fn analyze(&self, action: &ActionEvent) -> Analysis {
        let risk = match self {
            Self::Llm => action.security_risk.clone(),
            Self::Pattern => pattern::risk(action),
            Self::Rail => rail::risk(action),
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

/// The worst of several risks; those that are not known count only where all are, or where they are to.
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
