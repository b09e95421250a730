//! Tools of clients: the agent calls them, and the client reads the call in the log and does the work.
//!
//! Source: `docs/reference/calls.md#tools-of-clients`.

use super::arguments::{self, Parameter};
use super::{Context, RegistryError, Resources, Spec, Tool, ToolError};
use crate::event::message::Content;
use crate::event::model::{CLIENT_ACTION, Field, Map, Reading};
use crate::event::tool::ClientToolObservation;
use crate::event::{
    Action, Extra, Json, Observation, Text, ToolAnnotations, ToolDefinition, ToolFields, Unfamiliar,
};
use crate::json::{Out, Raw};
use crate::llm::{Boxed, ToolSchema};

/// The immediate result for the model. The client reports the outcome of the call later, in a message.
const DISPATCHED: &str = "Tool call dispatched to client.";

/// A tool that a client provides.
pub struct ClientTool {
    definition: ToolDefinition,
    schema: ToolSchema,
    parameters: Vec<Parameter>,
}

impl ClientTool {
    /// Reads a client's tool: `{"name", "description", "parameters"?, "annotations"?}`. Without `parameters` the tool
    /// has no parameters.
    ///
    /// # Errors
    /// [`RegistryError::Params`] if it has another shape, or if the parameters are not the schema of an object.
    pub fn read(spec: Raw<'_>) -> Result<Self, RegistryError> {
        let name = spec.get("name").and_then(Raw::as_text).unwrap_or_default();
        let refused = |reason: String| RegistryError::Params { name: name.to_string(), reason };
        let description = spec.get("description").and_then(Raw::as_str);
        let Some(description) = description.filter(|_| !name.trim().is_empty()) else {
            return Err(refused("a client's tool needs a name and a description".to_owned()));
        };
        let none = || Json::parse(r#"{"type":"object","properties":{}}"#).expect("the text above is JSON");
        let parameters = spec.get("parameters").map_or_else(none, Json::from);
        let of = parameters.raw().get("type").and_then(Raw::as_str);
        if of.as_deref() != Some("object") {
            return Err(refused(format!(
                "the parameters of a client's tool must be the JSON schema of an object, not of {}",
                of.as_deref().unwrap_or("something unnamed")
            )));
        }
        let reading = Reading { unfamiliar: Unfamiliar::Keep };
        let annotations = spec
            .get("annotations")
            .map(|annotations| Option::<ToolAnnotations>::read(annotations, reading))
            .transpose()
            .map_err(|error| refused(error.within("annotations").to_string()))?;
        let input_schema =
            Map::<Json>::read(parameters.raw(), reading).map_err(|error| refused(error.to_string()))?;
        let (name, description): (Text, Text) = ((&*name).into(), (&*description).into());
        Ok(Self {
            parameters: arguments::of_schema(parameters.raw()),
            definition: ToolDefinition {
                kind: "ClientTool".into(),
                fields: Box::new(ToolFields {
                    description: description.clone(),
                    action_type: format!("{CLIENT_ACTION}{name}").into(),
                    observation_type: Some("ClientToolObservation".into()),
                    annotations: annotations.flatten(),
                    meta: None,
                    mcp_tool: None,
                    client_tool_name: Some(name.clone()),
                    input_schema: Some(input_schema),
                    extra: Extra::NONE,
                }),
            },
            schema: ToolSchema { name, description, parameters },
        })
    }

    /// Returns the client's tool in an entry of `tools`: `{"name": N, "params": {"spec": {"name": N, ..}}}`, as a
    /// conversation keeps it. `None` if the entry has another shape.
    pub(super) fn of_spec(spec: &Spec) -> Option<Result<Self, RegistryError>> {
        let inner = spec.params.raw().get("spec").filter(|inner| inner.is_object())?;
        let names_it = inner.get("name").and_then(Raw::as_str).as_deref() == Some(&*spec.name);
        names_it.then(|| Self::read(inner))
    }
}

impl Tool for ClientTool {
    fn name(&self) -> &str {
        &self.schema.name
    }

    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn schema(&self) -> ToolSchema {
        self.schema.clone()
    }

    fn action(&self, arguments: Raw<'_>) -> Result<Action, ToolError> {
        let kind = &self.definition.fields.action_type;
        arguments::check(kind, &self.parameters, arguments).map_err(ToolError::Arguments)?;
        let mut out = Out::default();
        out.open("{");
        for (key, value) in arguments::coerced(&self.parameters, arguments) {
            // The reference keeps an argument `kind` under another name, because the action has its own `kind`.
            out.key(if key == "kind" { "mcp_arg_kind" } else { &key });
            out.raw(&value);
        }
        out.constant("kind", kind);
        out.close("}");
        let text = out.finish();
        Action::read(Raw::checked(&text), Reading { unfamiliar: Unfamiliar::Keep })
            .map_err(|error| ToolError::Arguments(error.to_string()))
    }

    fn resources(&self, _: &Action) -> Resources {
        Resources::Undeclared
    }

    fn execute<'a>(&'a self, _: &'a Action, _: &'a Context) -> Boxed<'a, Result<Observation, ToolError>> {
        Box::pin(std::future::ready(Ok(Observation::Client(ClientToolObservation {
            content: vec![Content::text(DISPATCHED)],
            is_error: false,
            extra: Extra::NONE,
        }))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: &str = r#"{"name":"pick","description":"Picks.","parameters":{"type":"object","properties":
        {"colour":{"type":"string","enum":["red","blue"]},"count":{"type":"integer"}},"required":["colour"]}}"#;

    fn tool(spec: &str) -> Result<ClientTool, RegistryError> {
        ClientTool::read(Raw::parse(spec).unwrap())
    }

    #[test]
    fn a_call_becomes_an_action_of_the_clients_own_kind() {
        let tool = tool(SPEC).unwrap();
        let action = tool.action(Raw::parse(r#"{"count":"2","colour":"green"}"#).unwrap()).unwrap();
        assert_eq!(action.to_json().text(), r#"{"colour":"green","count":2,"kind":"ClientAction_pick"}"#);
        let error = tool.action(Raw::parse(r#"{"size":1}"#).unwrap()).unwrap_err().to_string();
        assert!(
            error.starts_with("2 validation errors for ClientAction_pick\ncolour\n  Field required"),
            "{error}"
        );
        assert_eq!(
            tool.definition().to_json().text().replace(' ', ""),
            r#"{"description":"Picks.","action_type":"ClientAction_pick","observation_type":"ClientToolObservation","client_tool_name":"pick","input_schema":{"type":"object","properties":{"colour":{"type":"string","enum":["red","blue"]},"count":{"type":"integer"}},"required":["colour"]},"kind":"ClientTool","title":"pick"}"#
        );
        assert!(!(&tool as &dyn Tool).is_read_only());
    }

    #[test]
    fn an_invalid_spec_is_rejected() {
        for spec in [
            "{}",
            r#"{"name":"a"}"#,
            r#"{"name":" ","description":""}"#,
            r#"{"name":"a","description":"","parameters":{"type":"array"}}"#,
            r#"{"name":"a","description":"","annotations":3}"#,
        ] {
            assert!(matches!(tool(spec), Err(RegistryError::Params { .. })), "{spec}");
        }
        let plain = tool(r#"{"name":"a","description":"d","annotations":{"readOnlyHint":true}}"#).unwrap();
        assert!((&plain as &dyn Tool).is_read_only());
    }

    #[test]
    fn a_client_tool_in_an_entry_of_tools_is_recognised() {
        let spec = |name: &str| Spec {
            name: name.into(),
            params: Json::parse(&format!(r#"{{"spec":{SPEC}}}"#)).unwrap(),
        };
        assert!(ClientTool::of_spec(&spec("pick")).is_some_and(|tool| tool.is_ok()));
        assert!(ClientTool::of_spec(&spec("other")).is_none());
        assert!(ClientTool::of_spec(&Spec::new("pick")).is_none());
    }
}
