//! Builds the document from the list of operations and the schemas.

use serde_json::{Map, Value, json};

use super::list;
use super::operation::{Answer, Body, Group, Kind, Operation, Parameter};
use crate::server::http::auth;
use crate::server::http::roles::{self, Need};
use crate::store::KeyRole;

const SCHEMAS: &str = include_str!("schemas.json");

const DESCRIPTION: &str = "Conversations of agents, kept as append-only logs: the OpenHands agent-server interface, and \
     what Annals adds to it. Live streams are WebSockets: /sockets/events/{conversation_id} and \
     /sockets/session/{conversation_id}?after_seq=n.";

/// Returns the document (OpenAPI 3.1.0).
pub(super) fn document() -> Value {
    let mut paths = Map::new();
    let mut tags: Vec<Value> = Vec::new();
    for (group, operation) in list::all().filter(|(_, operation)| operation.is_served()) {
        let name = json!({"name": group.name});
        if tags.last() != Some(&name) {
            tags.push(name);
        }
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[operation.method.to_lowercase()] = described(group, operation);
    }
    json!({
        "openapi": "3.1.0",
        "info": {"title": "Annals", "version": env!("CARGO_PKG_VERSION"), "description": DESCRIPTION},
        "tags": tags,
        "paths": paths,
        "components": {
            "schemas": schemas(),
            "securitySchemes": {"SessionKey": {"type": "apiKey", "in": "header", "name": auth::HEADER}},
        },
    })
}

/// Returns the schemas by name.
pub(super) fn schemas() -> Value {
    serde_json::from_str(SCHEMAS).expect("a test checks that the file is valid")
}

fn described(group: &Group, operation: &Operation) -> Value {
    let path = names(operation.path).map(|name| {
        let is_uuid = name == "conversation_id" && group.name != list::ANNALS;
        let schema =
            if is_uuid { json!({"type": "string", "format": "uuid"}) } else { json!({"type": "string"}) };
        json!({"name": name, "in": "path", "required": true, "schema": schema})
    });
    let parameters: Vec<Value> = path.chain(operation.query.iter().map(parameter)).collect();
    let mut value = json!({
        "tags": [group.name],
        "summary": operation.summary,
        "operationId": id(operation),
        "responses": responses(operation),
    });
    if !parameters.is_empty() {
        value["parameters"] = parameters.into();
    }
    let json_body = |schema: &str, required: bool| json!({"required": required, "content": {"application/json": {"schema": reference(schema)}}});
    match operation.body {
        Body::None => {}
        Body::Json(schema) => value["requestBody"] = json_body(schema, true),
        Body::Optional(schema) => value["requestBody"] = json_body(schema, false),
        Body::File => {
            let file = json!({"type": "object", "required": ["file"],
                              "properties": {"file": {"type": "string", "format": "binary"}}});
            value["requestBody"] =
                json!({"required": true, "content": {"multipart/form-data": {"schema": file}}});
        }
    }
    if let Some(role) = role(operation) {
        value["security"] = json!([{"SessionKey": []}]);
        value["x-annals-role"] = json!(role.as_str());
    }
    value
}

/// Returns the role that a named key must have. `None` if the operation needs no key.
pub(super) fn role(operation: &Operation) -> Option<KeyRole> {
    let method = operation.method.parse().ok()?;
    match roles::need(&method, operation.path) {
        Need::Nothing => None,
        Need::Role(role) => Some(role),
    }
}

/// Returns the names in the braces of a path.
fn names(path: &str) -> impl Iterator<Item = &str> {
    path.split('{').skip(1).filter_map(|part| part.split('}').next())
}

/// Returns the identifier of an operation, for programs that are generated from the document.
fn id(operation: &Operation) -> String {
    let mut id = operation.method.to_lowercase();
    for part in operation.path.split(|c: char| !c.is_alphanumeric()).filter(|part| !part.is_empty()) {
        id.push('_');
        id.push_str(part);
    }
    id
}

fn parameter(parameter: &Parameter) -> Value {
    let schema = match parameter.kind {
        Kind::Text => json!({"type": "string"}),
        Kind::Texts => json!({"type": "array", "items": {"type": "string"}}),
        Kind::Flag => json!({"type": "boolean", "default": false}),
        Kind::Number(min, max, default) => {
            json!({"type": "integer", "minimum": min, "maximum": max, "default": default})
        }
        Kind::Place => json!({"type": "integer", "minimum": 0, "maximum": i64::MAX}),
        Kind::Time => json!({"type": "string", "format": "date-time"}),
        Kind::Word(words) => json!({"type": "string", "enum": words}),
    };
    json!({
        "name": parameter.name,
        "in": "query",
        "required": parameter.is_required,
        "description": parameter.what,
        "schema": schema,
    })
}

fn reference(schema: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{schema}")})
}

fn responses(operation: &Operation) -> Value {
    let mut responses = Map::new();
    let mut add = |status: u16, what: &str, content: &[(&str, Value)]| {
        let mut response = json!({"description": what});
        for (kind, schema) in content {
            response["content"][*kind]["schema"] = schema.clone();
        }
        responses.insert(status.to_string(), response);
    };
    let bytes = || json!({"type": "string"});
    match operation.answer {
        Answer::Json(schema) => add(200, "Done", &[("application/json", reference(schema))]),
        Answer::Made(schema) => {
            add(200, "It already existed", &[("application/json", reference(schema))]);
            add(201, "Created", &[("application/json", reference(schema))]);
        }
        Answer::Or(schema, other) => {
            let content = [("application/json", reference(schema)), ("text/csv", bytes()), (other, bytes())];
            add(200, "Done", &content);
        }
        Answer::Text(kind) => add(200, "Done", &[(kind, bytes())]),
    }
    let mut refuse = |status: u16| {
        let (what, schema) = match status {
            400 => ("The request cannot be fulfilled in this form", "Refusal"),
            401 => ("The session key is missing or wrong", "Refusal"),
            403 => {
                ("The key has a role that does not allow this, or a page of another origin asks", "Refusal")
            }
            404 => ("Not found", "Refusal"),
            409 => ("The request conflicts with the current state", "Refusal"),
            413 => ("The request is too large", "Refusal"),
            429 => ("Too many requests or runs are active", "Refusal"),
            501 => ("This server does not have the operation", "Refusal"),
            _ => ("The request does not match its schema", "Invalid"),
        };
        add(status, what, &[("application/json", reference(schema))]);
    };
    let mut refusals = operation.refusals.to_vec();
    if role(operation).is_some() {
        refusals.extend([401, 403]);
    }
    if operation.path.contains('{') || !operation.query.is_empty() || !matches!(operation.body, Body::None) {
        refusals.push(422);
    }
    refusals.into_iter().for_each(&mut refuse);
    Value::Object(responses)
}
