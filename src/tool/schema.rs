//! Adds the two arguments that every tool has to the schema for the model: `security_risk` and `summary`.

use crate::event::Json;
use crate::json::{Out, Raw};
use crate::llm::ToolSchema;

/// Whether the model must estimate the risk of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RiskField {
    /// The schema has `security_risk`, as its first member.
    Asked,
    /// The schema has no `security_risk`: for tools that only read, and for questions beside the run.
    Omitted,
}

const RISK: &str = r#"{"type":"string","description":"How risky the call is: LOW where it only reads or stays inside the project, MEDIUM where it changes things within the sandbox, HIGH where data could leave it or the system itself be changed, UNKNOWN where that cannot be said.","enum":["UNKNOWN","LOW","MEDIUM","HIGH"]}"#;

const SUMMARY: &str = r#"{"type":"string","description":"What this call does and to what, in about ten words, for the person who follows along. For example: 'Run the unit tests of the parser'."}"#;

/// Adds `security_risk`, if `risk` asks for it, and `summary` before the tool's own arguments.
///
/// These short members come first, so that a reply that is cut off has them. If a tool has its own argument `summary`,
/// it keeps that one. The new members are not required. Source: `docs/reference/calls.md#schema`.
#[must_use]
pub fn schema_for_model(schema: ToolSchema, risk: RiskField) -> ToolSchema {
    let mut out = Out::default();
    out.open("{");
    let mut written = false;
    for (key, value) in schema.parameters.raw().members() {
        out.key(&key);
        if key == "properties" && value.is_object() {
            written = true;
            write_properties(&mut out, value, risk);
        } else {
            out.raw(value.text());
        }
    }
    if !written {
        out.key("properties");
        write_properties(&mut out, Json::empty_object().raw(), risk);
    }
    out.close("}");
    ToolSchema { parameters: Json::written(out), ..schema }
}

fn write_properties(out: &mut Out, own: Raw<'_>, risk: RiskField) {
    out.open("{");
    if risk == RiskField::Asked {
        out.key("security_risk");
        out.raw(RISK);
    }
    out.key("summary");
    out.raw(own.get("summary").map_or(SUMMARY, Raw::text));
    for (key, value) in own.members() {
        if key != "summary" && !(key == "security_risk" && risk == RiskField::Asked) {
            out.key(&key);
            out.raw(value.text());
        }
    }
    out.close("}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(parameters: &str, risk: RiskField) -> Vec<String> {
        let schema = ToolSchema {
            name: "t".into(),
            description: "d".into(),
            parameters: Json::parse(parameters).unwrap(),
        };
        let parameters = schema_for_model(schema, risk).parameters;
        assert!(Raw::parse(parameters.text()).is_ok());
        parameters.raw().get("properties").unwrap().members().map(|(key, _)| key.into_owned()).collect()
    }

    #[test]
    fn risk_and_summary_come_before_the_arguments() {
        let schema = r#"{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}"#;
        assert_eq!(keys(schema, RiskField::Asked), ["security_risk", "summary", "command"]);
        assert_eq!(keys(schema, RiskField::Omitted), ["summary", "command"]);
        assert_eq!(keys(r#"{"type":"object"}"#, RiskField::Asked), ["security_risk", "summary"]);
    }

    #[test]
    fn a_summary_of_the_tools_own_is_kept() {
        let schema = ToolSchema {
            name: "create_issue".into(),
            description: "".into(),
            parameters: Json::parse(r#"{"properties":{"key":{},"summary":{"maxLength":9}}}"#).unwrap(),
        };
        assert_eq!(
            schema_for_model(schema, RiskField::Omitted).parameters.text(),
            r#"{"properties":{"summary":{"maxLength":9},"key":{}}}"#
        );
    }
}
