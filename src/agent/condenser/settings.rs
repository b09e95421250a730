//! The settings of a condenser, read from the agent's object.

use crate::json::Raw;
use crate::llm::{self, Settings};
use crate::view::{Condenser, condense::CondenserError};

/// The kind of a condenser.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// Keeps everything and ignores requests for a condensation.
    Nothing,
    /// Uses a model to summarise the forgotten events.
    Summarising {
        /// When to forget, and how much.
        settings: Condenser,
        /// The settings of the model.
        llm: Box<Settings>,
    },
    /// A kind that Annals does not know. Holds its name.
    Unknown(String),
}

/// Why the settings were rejected.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// A member is missing or invalid.
    #[error("the condenser's {0} is missing or invalid")]
    Member(&'static str),
    /// The model's settings are invalid.
    #[error("the condenser's model: {0}")]
    Llm(#[from] llm::SettingsError),
    /// The numbers contradict each other or are out of range.
    #[error(transparent)]
    Condenser(#[from] CondenserError),
}

/// Reads the condensers of an agent's `condenser` object, in the order in which they are tried. A pipeline is replaced
/// by its condensers.
///
/// # Errors
/// [`SettingsError`] for the first invalid setting.
pub fn read(raw: Raw<'_>) -> Result<Vec<Kind>, SettingsError> {
    if raw.is_null() {
        return Ok(Vec::new());
    }
    let kind = raw.get("kind").and_then(Raw::as_str).ok_or(SettingsError::Member("kind"))?;
    match &*kind {
        "NoOpCondenser" => Ok(vec![Kind::Nothing]),
        "LLMSummarizingCondenser" => summarising(raw).map(|kind| vec![kind]),
        "PipelineCondenser" => {
            let list = raw.get("condensers").filter(|list| list.is_array());
            let list = list.ok_or(SettingsError::Member("condensers"))?;
            let kinds: Result<Vec<Vec<Kind>>, SettingsError> = list.elements().map(read).collect();
            Ok(kinds?.concat())
        }
        other => Ok(vec![Kind::Unknown(other.to_owned())]),
    }
}

fn summarising(raw: Raw<'_>) -> Result<Kind, SettingsError> {
    let default = Condenser::default();
    let llm = raw.get("llm").ok_or(SettingsError::Member("llm"))?;
    let settings = Condenser {
        max_size: whole(raw, "max_size")?.unwrap_or(default.max_size),
        max_tokens: whole(raw, "max_tokens")?.map(|tokens| tokens as u64),
        keep_first: whole(raw, "keep_first")?.unwrap_or(default.keep_first),
        minimum_progress: number(raw, "minimum_progress")?.unwrap_or(default.minimum_progress),
        reset_attempts: whole(raw, "hard_context_reset_max_retries")?
            .map_or(default.reset_attempts, |attempts| u32::try_from(attempts).unwrap_or(u32::MAX)),
        reset_scaling: number(raw, "hard_context_reset_context_scaling")?.unwrap_or(default.reset_scaling),
    };
    Ok(Kind::Summarising { settings: settings.checked()?, llm: Box::new(Settings::from_raw(llm)?) })
}

fn whole(raw: Raw<'_>, name: &'static str) -> Result<Option<usize>, SettingsError> {
    let Some(number) = number(raw, name)? else { return Ok(None) };
    let is_whole = number >= 0.0 && number.fract() == 0.0 && number <= f64::from(u32::MAX);
    if is_whole { Ok(Some(number as usize)) } else { Err(SettingsError::Member(name)) }
}

fn number(raw: Raw<'_>, name: &'static str) -> Result<Option<f64>, SettingsError> {
    match raw.get(name).filter(|number| !number.is_null()) {
        Some(number) => number.as_f64().map(Some).ok_or(SettingsError::Member(name)),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Result<Vec<Kind>, SettingsError> {
        read(Raw::parse(text).unwrap())
    }

    #[test]
    fn condensers_are_read_as_the_sdk_writes_them() {
        let summarising = r#"{"llm":{"model":"openai/m","usage_id":"condenser"},"max_size":10,"keep_first":2,"minimum_progress":0.1,"hard_context_reset_max_retries":5,"hard_context_reset_context_scaling":0.8,"kind":"LLMSummarizingCondenser"}"#;
        let [Kind::Summarising { settings, llm }] = &*kinds(summarising).unwrap() else {
            panic!("{summarising}")
        };
        assert_eq!(*settings, Condenser { max_size: 10, ..Condenser::default() });
        assert_eq!(&*llm.usage_id, "condenser");
        let pipeline = format!(
            r#"{{"condensers":[{{"kind":"NoOpCondenser"}},{summarising},{{"kind":"Later"}}],"kind":"PipelineCondenser"}}"#
        );
        let read = kinds(&pipeline).unwrap();
        assert!(
            matches!(&*read, [Kind::Nothing, Kind::Summarising { .. }, Kind::Unknown(name)] if name == "Later")
        );
        assert_eq!(kinds("null").unwrap(), []);
    }

    #[test]
    fn invalid_settings_are_refused() {
        for (text, error) in [
            ("{}", "kind"),
            (r#"{"kind":"LLMSummarizingCondenser"}"#, "llm"),
            (r#"{"kind":"LLMSummarizingCondenser","llm":{"model":"m"},"max_size":1.5}"#, "max_size"),
            (r#"{"kind":"LLMSummarizingCondenser","llm":{"model":"m"},"max_size":4}"#, "no room"),
            (r#"{"kind":"LLMSummarizingCondenser","llm":{}}"#, "model"),
        ] {
            let found = kinds(text).unwrap_err().to_string();
            assert!(found.contains(error), "{text}: {found}");
        }
    }
}
