use super::*;
use crate::event::{Action, Common, MessageToolCall, Source};
use crate::ids::EventId;

fn action(risk: Risk) -> ActionEvent {
    let common = Common::new(EventId::new("a").unwrap(), "", Source::Agent);
    let call = MessageToolCall::new("c", "think", r#"{"thought":"x"}"#);
    let thought = Action::Think(crate::event::tool::ThinkAction::new("x"));
    ActionEvent { security_risk: risk, ..ActionEvent::new(common, call, "r", Some(thought)) }
}

#[test]
fn an_analyzer_is_read_and_written_as_the_reference_does() {
    for json in [
        r#"{"kind":"LLMSecurityAnalyzer"}"#,
        r#"{"analyzers":[{"kind":"LLMSecurityAnalyzer"}],"propagate_unknown":true,"kind":"EnsembleSecurityAnalyzer"}"#,
        r#"{"kind":"GraySwanAnalyzer","api_key":"**********"}"#,
    ] {
        assert_eq!(Analyzer::parse(json).unwrap().to_json(), json);
    }
    let empty = r#"{"analyzers":[],"kind":"EnsembleSecurityAnalyzer"}"#;
    assert_eq!(Analyzer::parse(empty), Err(AnalyzerError::EmptyEnsemble));
    assert_eq!(Analyzer::parse("{}"), Err(AnalyzerError::NoKind));
    let mut deep = r#"{"kind":"LLMSecurityAnalyzer"}"#.to_owned();
    for _ in 0..=DEPTH_MAX {
        deep = format!(r#"{{"analyzers":[{deep}],"kind":"EnsembleSecurityAnalyzer"}}"#);
    }
    assert_eq!(Analyzer::parse(&deep), Err(AnalyzerError::TooDeep));
}

#[test]
fn what_cannot_be_judged_here_is_of_high_risk() {
    let unfamiliar = Analyzer::parse(r#"{"kind":"GraySwanAnalyzer"}"#).unwrap();
    let found = unfamiliar.analyze(&action(Risk::Low));
    assert_eq!(found.risk, Risk::High);
    let error = found.details.unwrap().get("error").unwrap().to_value();
    assert_eq!(error, "GraySwanAnalyzer is not an analyzer that runs here");
}

#[test]
fn the_worst_that_is_known_counts() {
    assert_eq!(worst(&[Risk::Low, Risk::Unknown, Risk::Medium], false), Risk::Medium);
    assert_eq!(worst(&[Risk::Unknown], false), Risk::Unknown);
    assert_eq!(worst(&[Risk::High, Risk::Unknown], true), Risk::Unknown);
    let both = Analyzer::Ensemble { analyzers: vec![Analyzer::Llm, Analyzer::Llm], propagate_unknown: false };
    assert_eq!(both.analyze(&action(Risk::Medium)).risk, Risk::Medium);
}
