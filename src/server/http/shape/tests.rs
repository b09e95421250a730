use serde_json::{Value, json};

use super::{CONTRACT, check, complete, default};
use crate::server::http::failure::Failure;

/// Returns the rule and the place of every problem.
fn errors(form: &str, mut value: Value) -> Vec<(&'static str, String)> {
    match check(form, &mut value, &["body"]) {
        Err(Failure::Schema(problems)) => problems
            .iter()
            .map(|problem| {
                let steps =
                    problem.place.iter().map(|step| step.as_str().map_or(step.to_string(), str::to_owned));
                (problem.kind, steps.collect::<Vec<_>>().join("."))
            })
            .collect(),
        Ok(()) => Vec::new(),
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn every_reference_of_the_contract_names_a_form() {
    let text = include_str!("contract.json");
    for part in text.split("\"$ref\": \"").skip(1) {
        let name = part.split('"').next().unwrap();
        assert!(CONTRACT.contains_key(name), "{name}");
    }
}

#[test]
fn all_problems_are_reported() {
    let llm = json!({"model": "m", "temperature": "hot", "top_p": 5, "num_retries": -1, "stream": "maybe", "timeout": 1.5,
        "auth_type": "x", "api_key": ["k"], "extra_headers": {"a": 1}, "bogus": 1});
    let rules = errors("Agent", json!({ "llm": llm, "tools": ["terminal", {"name": "a"}] }));
    let rules: Vec<(&str, &str)> = rules.iter().map(|(kind, place)| (*kind, place.as_str())).collect();
    assert_eq!(
        rules,
        [
            ("string_type", "body.llm.api_key"),
            ("literal_error", "body.llm.auth_type"),
            ("string_type", "body.llm.extra_headers.a"),
            ("greater_than_equal", "body.llm.num_retries"),
            ("bool_parsing", "body.llm.stream"),
            ("float_parsing", "body.llm.temperature"),
            ("int_from_float", "body.llm.timeout"),
            ("less_than_equal", "body.llm.top_p"),
            ("model_type", "body.tools.0"),
        ]
    );
}

#[test]
fn the_discriminator_selects_the_branch_of_a_union() {
    assert_eq!(
        errors("AgentSettings", json!({"llm": {"model": "m"}, "condenser": {"condenser_kind": "no_op"}})),
        []
    );
    assert_eq!(
        errors("AgentSettings", json!({"agent_kind": "x"})),
        [("union_tag_invalid", "body".to_owned())]
    );
    let settings = json!({"condenser": {"condenser_kind": "llm_summarizing", "max_size": 1}});
    assert_eq!(
        errors("AgentSettings", settings),
        [("greater_than_equal", "body.condenser.max_size".to_owned())]
    );
    let profile = json!({"name": "a", "agent_kind": "acp", "llm_profile_ref": "x"});
    assert_eq!(errors("AgentProfile", profile), [("extra_forbidden", "body.llm_profile_ref".to_owned())]);
    assert_eq!(
        errors("AgentProfile", json!({"name": "a"})),
        [("missing", "body.llm_profile_ref".to_owned())]
    );
}

#[test]
fn values_are_converted_to_the_wanted_type() {
    let mut llm =
        json!({"model": "m", "temperature": "0.5", "stream": "yes", "num_retries": 3.0, "seed": null});
    check("LLM", &mut llm, &["body"]).unwrap();
    assert_eq!(
        llm,
        json!({"model": "m", "temperature": 0.5, "stream": true, "num_retries": 3, "seed": null})
    );
}

#[test]
fn no_error_contains_a_secret() {
    let mut llm = json!({"api_key": "sk-1", "aws_session_token": "t-1", "max_input_tokens": "many"});
    let error = check("LLM", &mut llm, &["body"]).unwrap_err();
    assert!(!format!("{error:?}").contains("sk-1") && !format!("{error:?}").contains("t-1"), "{error:?}");
    llm["model"] = "m".into();
    llm["api_key"] = json!(["sk-1"]);
    let error = format!("{:?}", check("LLM", &mut llm, &["body"]).unwrap_err());
    assert!(!error.contains("sk-1") && error.contains("many"), "{error}");
}

#[test]
fn what_is_missing_is_filled_in_at_every_depth() {
    let settings = default("OpenHandsAgentSettings");
    assert_eq!(settings["condenser"]["max_size"], json!(240));
    let mut settings =
        json!({"condenser": {"condenser_kind": "no_op"}, "mcp_config": {"a": {"url": "http://a"}}});
    complete("OpenHandsAgentSettings", &mut settings);
    assert_eq!(settings["condenser"], json!({"condenser_kind": "no_op", "enabled": true}));
    assert_eq!(settings["verification"]["critic_enabled"], json!(false));
    assert_eq!(check("AgentSettings", &mut default("OpenHandsAgentSettings"), &["body"]), Ok(()));
}
