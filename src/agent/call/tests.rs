use super::*;
use crate::event::tool::{TerminalAction, ThinkAction};
use crate::event::{Observation, ToolDefinition};
use crate::llm::{Boxed, ToolSchema};
use crate::tool::{Context, Resources};

/// A tool that accepts the arguments of its action.
struct Plain {
    definition: ToolDefinition,
    parameters: Json,
}

fn tool(definition: &str, parameters: &str) -> Arc<dyn Tool> {
    let payload = format!(
        r#"{{"id":"s","timestamp":"","source":"agent","system_prompt":{{"text":""}},"tools":[{definition}],"kind":"SystemPromptEvent"}}"#
    );
    let event = crate::event::decode(&payload, crate::event::Unfamiliar::Refuse).unwrap();
    let crate::event::Event::SystemPrompt(prompt) = event else { panic!("{event:?}") };
    Arc::new(Plain { definition: prompt.tools[0].clone(), parameters: Json::parse(parameters).unwrap() })
}

impl Tool for Plain {
    fn name(&self) -> &str {
        match &*self.definition.kind {
            "TerminalTool" => "terminal",
            _ => "think",
        }
    }

    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn schema(&self) -> ToolSchema {
        ToolSchema { name: self.name().into(), description: "".into(), parameters: self.parameters.clone() }
    }

    fn action(&self, arguments: Raw<'_>) -> Result<Action, ToolError> {
        let text = |name: &str| {
            let value = arguments.get(name).and_then(Raw::as_str);
            value
                .map(|text| Text::from(&*text))
                .ok_or_else(|| ToolError::Arguments(format!("{name} is missing")))
        };
        match self.name() {
            "terminal" => {
                let json = format!(
                    r#"{{"command":{},"kind":"TerminalAction"}}"#,
                    serde_json::json!(&*text("command")?)
                );
                let raw = Json::parse(&json).unwrap();
                let reading = crate::event::model::Reading { unfamiliar: crate::event::Unfamiliar::Refuse };
                Ok(<Action as crate::event::model::Field>::read(raw.raw(), reading).unwrap())
            }
            _ => Ok(Action::Think(ThinkAction::new(text("thought")?))),
        }
    }

    fn resources(&self, _: &Action) -> Resources {
        Resources::Undeclared
    }

    fn execute<'a>(&'a self, _: &'a Action, _: &'a Context) -> Boxed<'a, Result<Observation, ToolError>> {
        Box::pin(std::future::ready(Err(ToolError::Cancelled)))
    }
}

fn tools() -> Vec<Arc<dyn Tool>> {
    vec![
        tool(
            r#"{"description":"","action_type":"TerminalAction","observation_type":"TerminalObservation","kind":"TerminalTool","title":"t"}"#,
            r#"{"type":"object","properties":{"command":{"type":"string"}}}"#,
        ),
        tool(
            r#"{"description":"","action_type":"ThinkAction","observation_type":"ThinkObservation","annotations":{"readOnlyHint":true},"kind":"ThinkTool","title":"t"}"#,
            r#"{"type":"object","properties":{"thought":{"type":"string"},"summary":{"type":"string"}}}"#,
        ),
    ]
}

fn call(name: &str, arguments: &str) -> MessageToolCall {
    MessageToolCall::new("c1", name, arguments)
}

#[test]
fn a_call_becomes_an_action_with_its_risk_and_summary() {
    let arguments = r#"{"command":["echo ","é"],"security_risk":"LOW","summary":"say é"}"#;
    let valid = super::read(&call("bash", arguments), &tools(), AskedRisk::Heeded).unwrap();
    let Action::Terminal(TerminalAction { command, .. }) = &valid.action else { panic!("{valid:?}") };
    assert_eq!((&**command, &*valid.call.name, &*valid.summary), ("echo é", "terminal", "say é"));
    assert_eq!(
        &*valid.call.arguments,
        r#"{"command": "echo \u00e9", "security_risk": "LOW", "summary": "say \u00e9"}"#
    );
    assert_eq!(valid.risk, Risk::Low);
    let valid = super::read(
        &call("terminal", r#"{"command":"é","security_risk":"BOGUS"}"#),
        &tools(),
        AskedRisk::Ignored,
    )
    .unwrap();
    assert_eq!((valid.risk, &*valid.summary), (Risk::Unknown, r#"terminal: {"command": "\u00e9"}"#));
    // The risk of a read-only tool is unknown, and a tool with an argument `summary` of its own keeps it.
    let valid = super::read(
        &call("think", r#"{"thought":"x","summary":" s ","security_risk":"HIGH"}"#),
        &tools(),
        AskedRisk::Heeded,
    )
    .unwrap();
    assert_eq!((valid.risk, &*valid.summary), (Risk::Unknown, "s"));
}

#[test]
fn the_error_of_an_invalid_call_is_explained_to_the_model() {
    let refused = |name: &str, arguments: &str| {
        super::read(&call(name, arguments), &tools(), AskedRisk::Heeded).unwrap_err()
    };
    let unknown = refused("fly", r#"{"a":1}"#);
    assert_eq!(unknown.error, "Tool 'fly' not found. Available: ['terminal', 'think']");
    assert_eq!((&*unknown.tool_name, &*unknown.call.arguments), ("fly", r#"{"a":1}"#));
    assert_eq!(
        refused("bash", r#"{"x":1,"security_risk":"LOW"}"#).error,
        "Error validating tool 'bash': command is missing. Parameters provided: ['x']"
    );
    assert_eq!(
        refused("terminal", r#"{"command":"ls","security_risk":"BOGUS"}"#).error,
        "Error validating tool 'terminal': 'BOGUS' is not a valid SecurityRisk. Parameters provided: ['command']"
    );
    let truncated = refused("terminal", r#"{"command": "ls"#);
    let error = "Error validating tool 'terminal': Unterminated string starting at: line 1 column 13 (char 12). \
                 Arguments: unparseable JSON";
    assert_eq!(truncated.error, error);
    assert_eq!(
        &*truncated.call.arguments,
        format!(r#"{{"_openhands_malformed_tool_call": true, "error": "{error}"}}"#)
    );
}
