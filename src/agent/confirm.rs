//! Confirmation policies: which actions wait for the user's confirmation.
//!
//! Source: `docs/reference/confirmation.md#policies`.

use crate::event::{Json, Risk, Text};
use crate::json::{Fault, Raw};

/// When the user is asked before actions are carried out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Policy {
    /// Never.
    #[default]
    Never,
    /// Always.
    Always,
    /// If an action is risky.
    Risky {
        /// The lowest risk at which the user is asked. Not [`Risk::Unknown`].
        threshold: Risk,
        /// Whether the user is asked if the risk is unknown.
        confirm_unknown: bool,
    },
    /// A kind that is not built in; its JSON is kept. The user is always asked.
    Unfamiliar(Json),
}

/// Why a policy was rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// The text is not JSON.
    #[error("the policy is not JSON: {0}")]
    Json(#[from] Fault),
    /// The kind of the policy is missing.
    #[error("the policy has no kind")]
    NoKind,
    /// The threshold is not a risk that can be compared.
    #[error("Threshold cannot be {threshold}")]
    Threshold {
        /// The given threshold.
        threshold: Text,
    },
}

impl Policy {
    /// Returns the reference's default `ConfirmRisky`: asks if the risk is high or unknown.
    #[must_use]
    pub fn risky() -> Self {
        Self::Risky { threshold: Risk::High, confirm_unknown: true }
    }

    /// Reads a policy from the reference's JSON: `{"kind": "ConfirmRisky", ..}`.
    ///
    /// # Errors
    /// [`PolicyError`].
    pub fn parse(json: &str) -> Result<Self, PolicyError> {
        Self::read(Raw::parse(json)?)
    }

    /// Reads a policy from the reference's JSON.
    ///
    /// # Errors
    /// [`PolicyError`].
    pub fn read(raw: Raw<'_>) -> Result<Self, PolicyError> {
        let kind = raw.get("kind").and_then(Raw::as_text).ok_or(PolicyError::NoKind)?;
        Ok(match &*kind {
            "NeverConfirm" => Self::Never,
            "AlwaysConfirm" => Self::Always,
            "ConfirmRisky" => {
                let threshold = raw.get("threshold").and_then(Raw::as_str);
                let threshold = match threshold.as_deref() {
                    None => Risk::High,
                    Some(word) => match Risk::from_word(word) {
                        Some(risk) if risk != Risk::Unknown => risk,
                        Some(_) | None => return Err(PolicyError::Threshold { threshold: word.into() }),
                    },
                };
                let confirm_unknown = raw.get("confirm_unknown").is_none_or(|flag| flag.text() == "true");
                Self::Risky { threshold, confirm_unknown }
            }
            _ => Self::Unfamiliar(raw.into()),
        })
    }

    /// Returns the policy's JSON, as the reference writes it.
    #[must_use]
    pub fn to_json(&self) -> String {
        match self {
            Self::Never => r#"{"kind":"NeverConfirm"}"#.to_owned(),
            Self::Always => r#"{"kind":"AlwaysConfirm"}"#.to_owned(),
            Self::Risky { threshold, confirm_unknown } => format!(
                r#"{{"threshold":"{}","confirm_unknown":{confirm_unknown},"kind":"ConfirmRisky"}}"#,
                threshold.as_str()
            ),
            Self::Unfamiliar(json) => json.text().to_owned(),
        }
    }

    /// Returns the reference's class name of the policy.
    #[must_use]
    pub fn kind(&self) -> Text {
        match self {
            Self::Never => "NeverConfirm".into(),
            Self::Always => "AlwaysConfirm".into(),
            Self::Risky { .. } => "ConfirmRisky".into(),
            Self::Unfamiliar(json) => {
                json.raw().get("kind").and_then(Raw::as_str).map_or_else(|| "".into(), |kind| (&*kind).into())
            }
        }
    }

    /// Returns whether the user is asked about an action of this risk.
    #[must_use]
    pub fn asks(&self, risk: &Risk) -> bool {
        match (self, rank(risk)) {
            (Self::Never, _) => false,
            (Self::Always | Self::Unfamiliar(_), _) => true,
            (Self::Risky { confirm_unknown, .. }, None) => *confirm_unknown,
            (Self::Risky { threshold, .. }, found) => found >= rank(threshold),
        }
    }
}

/// Returns the rank of a risk, for comparisons. `None` if the risk is unknown.
pub(super) fn rank(risk: &Risk) -> Option<u8> {
    match risk {
        Risk::Unknown | Risk::Other(_) => None,
        Risk::Low => Some(0),
        Risk::Medium => Some(1),
        Risk::High => Some(2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_read_and_written_as_the_reference_does() {
        for json in [
            r#"{"kind":"NeverConfirm"}"#,
            r#"{"kind":"AlwaysConfirm"}"#,
            r#"{"threshold":"MEDIUM","confirm_unknown":false,"kind":"ConfirmRisky"}"#,
            r#"{"kind":"Ours","x":1}"#,
        ] {
            assert_eq!(Policy::parse(json).unwrap().to_json(), json);
        }
        assert_eq!(Policy::parse(r#"{"kind":"ConfirmRisky"}"#), Ok(Policy::risky()));
        let error = Policy::parse(r#"{"kind":"ConfirmRisky","threshold":"UNKNOWN"}"#).unwrap_err();
        assert_eq!(error.to_string(), "Threshold cannot be UNKNOWN");
        assert_eq!(Policy::parse("{}"), Err(PolicyError::NoKind));
    }

    #[test]
    fn risks_are_compared_and_the_unknown_risk_has_its_own_setting() {
        let risks = [Risk::Unknown, Risk::Low, Risk::Medium, Risk::High];
        let asked = |policy: &Policy| risks.clone().map(|risk| policy.asks(&risk));
        assert_eq!(asked(&Policy::Never), [false; 4]);
        assert_eq!(asked(&Policy::Always), [true; 4]);
        assert_eq!(asked(&Policy::risky()), [true, false, false, true]);
        let medium = Policy::Risky { threshold: Risk::Medium, confirm_unknown: false };
        assert_eq!(asked(&medium), [false, false, true, true]);
        assert_eq!(asked(&Policy::parse(r#"{"kind":"Ours"}"#).unwrap()), [true; 4]);
    }
}
