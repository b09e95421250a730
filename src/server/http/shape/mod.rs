//! Checks requests and settings against the reference's own schemas, as the reference does.
//!
//! `contract.json` is made from the reference (`tests/golden/make_contract.py`). A check reports all problems, in the
//! reference's words. It also converts values to the wanted type: `"0.5"` becomes a number if a number is wanted.

mod scalar;
#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::failure::{Failure, Problem};
use crate::secret::is_secret_name;

/// Replaces a secret in error messages.
const HIDDEN: &str = "<redacted>";

/// The maximum nesting depth of values.
const DEPTH_MAX: usize = 64;

static CONTRACT: LazyLock<Map<String, Value>> = LazyLock::new(|| {
    serde_json::from_str(include_str!("contract.json")).expect("the contract is JSON: a test reads it")
});

/// Checks a value against a form (a named schema of the contract), and converts it to the wanted types. `place` is the
/// location of the value in the request.
///
/// # Errors
/// 422 with all problems.
pub(in crate::server) fn check(form: &str, value: &mut Value, place: &[&str]) -> Result<(), Failure> {
    let mut checker = Checker {
        place: place.iter().map(|step| Value::from(*step)).collect(),
        from: place.len(),
        problems: Vec::new(),
    };
    checker.form(form, value);
    if checker.problems.is_empty() { Ok(()) } else { Err(Failure::Schema(checker.problems)) }
}

/// Adds the form's default for each missing member, at every depth.
pub(in crate::server) fn complete(form: &str, value: &mut Value) {
    if let Some(schema) = CONTRACT.get(form) {
        fill(schema, value, 0);
    }
}

/// Returns the default value of a form.
pub(in crate::server) fn default(form: &str) -> Value {
    let mut value = json!({});
    complete(form, &mut value);
    value
}

/// Returns a value for an error message, with its secrets replaced.
pub(in crate::server) fn masked(value: &Value) -> Value {
    match value {
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| {
                let is_secret =
                    is_secret_name(name) && !value.is_null() && !value.is_boolean() && !value.is_number();
                (name.clone(), if is_secret { HIDDEN.into() } else { masked(value) })
            })
            .collect::<Map<_, _>>()
            .into(),
        Value::Array(values) => values.iter().map(masked).collect(),
        other => other.clone(),
    }
}

/// Returns the schema that a `$ref` names. Returns any other schema as it is.
fn resolved(schema: &Value) -> &Value {
    schema.get("$ref").and_then(Value::as_str).and_then(|name| CONTRACT.get(name)).unwrap_or(schema)
}

fn fill(schema: &Value, value: &mut Value, depth: usize) {
    let schema = resolved(schema);
    if depth > DEPTH_MAX || value.is_null() {
        return;
    }
    for branch in schema.get("anyOf").and_then(Value::as_array).into_iter().flatten() {
        fill(branch, value, depth + 1);
    }
    if let Some((_, branch)) =
        schema.get("oneOf").and_then(Value::as_array).and_then(|all| choose(all, value).ok())
    {
        fill(branch, value, depth + 1);
    }
    match value {
        Value::Object(members) => {
            for (name, part) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
                match (members.get_mut(name), part.get("default")) {
                    (Some(member), _) => fill(part, member, depth + 1),
                    (None, Some(default)) => {
                        members.insert(name.clone(), default.clone());
                    }
                    (None, None) => {}
                }
            }
            if let Some(part) = schema.get("additionalProperties").filter(|part| part.is_object()) {
                members.values_mut().for_each(|member| fill(part, member, depth + 1));
            }
        }
        Value::Array(values) => {
            if let Some(part) = schema.get("items") {
                values.iter_mut().for_each(|value| fill(part, value, depth + 1));
            }
        }
        _ => {}
    }
}

/// Returns the discriminator of a union: the name of the member, and its value in each branch.
fn tags(branches: &[Value]) -> Option<(&str, Vec<&str>)> {
    let constants = |branch: &'static Value| -> Vec<(&'static str, &'static str)> {
        let properties = branch.get("properties").and_then(Value::as_object).into_iter().flatten();
        properties.filter_map(|(name, part)| Some((name.as_str(), part.get("const")?.as_str()?))).collect()
    };
    let found: Vec<_> = branches
        .iter()
        .map(|branch| branch.get("$ref").and_then(Value::as_str).and_then(|name| CONTRACT.get(name)))
        .map(|branch| branch.map(constants).unwrap_or_default())
        .collect();
    let (name, _) = *found.first()?.first()?;
    let words = found
        .iter()
        .filter_map(|found| found.iter().find(|(known, _)| *known == name).map(|(_, word)| *word));
    Some((name, words.collect()))
}

/// Chooses the branch of a union by the value's discriminator. A value without a discriminator gets the first branch.
///
/// # Errors
/// The discriminator's name and its valid values, if the value's discriminator is invalid.
fn choose<'b>(branches: &'b [Value], value: &Value) -> Result<(&'b str, &'b Value), (&'b str, Vec<&'b str>)> {
    let Some((name, words)) = tags(branches) else {
        return branches.first().map(|branch| ("", branch)).ok_or(("", Vec::new()));
    };
    let wanted = match value.get(name) {
        None => words.first().copied(),
        Some(tag) => tag.as_str().and_then(|tag| words.iter().find(|word| **word == tag).copied()),
    };
    let found = wanted.and_then(|wanted| words.iter().position(|word| *word == wanted));
    found.map(|at| (words[at], &branches[at])).ok_or((name, words))
}

struct Checker {
    place: Vec<Value>,
    /// The number of steps in the place of the whole value.
    from: usize,
    problems: Vec<Problem>,
}

impl Checker {
    /// Adds a problem with the value at the current place.
    fn add(&mut self, kind: &'static str, message: impl Into<String>, input: &Value, context: Option<Value>) {
        let is_secret = self.place[self.from.saturating_sub(1)..]
            .iter()
            .any(|step| step.as_str().is_some_and(|step| is_secret_name(step) && !step.contains("tokens")));
        let input = if is_secret && !input.is_null() { HIDDEN.into() } else { masked(input) };
        let place = self.place.clone();
        self.problems.push(Problem { kind, place, message: message.into(), input, context });
    }

    fn within(&mut self, step: impl Into<Value>, work: impl FnOnce(&mut Self)) {
        self.place.push(step.into());
        if self.place.len() <= DEPTH_MAX {
            work(self);
        } else {
            self.add("recursion_loop", "Input is nested too deeply", &Value::Null, None);
        }
        self.place.pop();
    }

    fn form(&mut self, form: &str, value: &mut Value) {
        let Some(schema) = CONTRACT.get(form) else { return };
        if !value.is_object() && schema.get("properties").is_some() {
            if self.place.len() == self.from {
                let message = "Input should be a valid dictionary or object to extract fields from";
                self.add("model_attributes_type", message, value, None);
            } else {
                let message = format!("Input should be a valid dictionary or instance of {form}");
                self.add("model_type", message, value, Some(json!({ "class_name": form })));
            }
            return;
        }
        if form == "LLM" && value.get("model").is_none_or(|model| model.is_null() || model == "") {
            let error = "model must be specified in LLM";
            self.add("value_error", format!("Value error, {error}"), value, Some(json!({ "error": error })));
            return;
        }
        self.value(schema, value);
    }

    fn value(&mut self, schema: &Value, value: &mut Value) {
        if let Some(form) = schema.get("$ref").and_then(Value::as_str) {
            self.form(form, value);
        } else if let Some(branches) = schema.get("anyOf").and_then(Value::as_array) {
            self.any(branches, value);
        } else if let Some(branches) = schema.get("oneOf").and_then(Value::as_array) {
            match choose(branches, value) {
                Ok((_, branch)) => self.value(branch, value),
                Err((name, words)) => self.tag(name, &words, value),
            }
        } else {
            match schema.get("type").and_then(Value::as_str) {
                Some("object") => self.object(schema, value),
                Some("array") => self.array(schema, value),
                Some(kind) => {
                    if let Err((kind, message, context)) = scalar::check(kind, schema, value) {
                        self.add(kind, message, value, context);
                    }
                }
                None => {}
            }
        }
    }

    /// Checks a value against alternatives: null, or the first branch that it fits. If it fits none, reports the
    /// problems of the branch with the deepest problem: the value was most likely meant for that branch.
    fn any(&mut self, branches: &[Value], value: &mut Value) {
        let is_null = |branch: &&Value| branch.get("type") == Some(&json!("null"));
        if value.is_null() && branches.iter().any(|branch| is_null(&branch)) {
            return;
        }
        let mut likeliest = None;
        for branch in branches.iter().filter(|branch| !is_null(branch)) {
            let mut trial = Checker { place: self.place.clone(), from: self.from, problems: Vec::new() };
            let mut read = value.clone();
            trial.value(branch, &mut read);
            if trial.problems.is_empty() {
                *value = read;
                return;
            }
            let depth = trial.problems.iter().map(|problem| problem.place.len()).max().unwrap_or_default();
            if likeliest.as_ref().is_none_or(|(known, _)| depth > *known) {
                likeliest = Some((depth, trial.problems));
            }
        }
        self.problems.extend(likeliest.into_iter().flat_map(|(_, problems)| problems));
    }

    fn tag(&mut self, name: &str, words: &[&str], value: &Value) {
        let known: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        let known = known.join(", ");
        let tag = value.get(name).map(|tag| tag.as_str().map_or_else(|| tag.to_string(), str::to_owned));
        let tag = tag.unwrap_or_default();
        let message = format!(
            "Input tag '{tag}' found using '{name}' does not match any of the expected tags: {known}"
        );
        let context = json!({"discriminator": format!("'{name}'"), "tag": tag, "expected_tags": known});
        self.add("union_tag_invalid", message, value, Some(context));
    }

    fn object(&mut self, schema: &Value, value: &mut Value) {
        let Some(members) = value.as_object_mut() else {
            return self.add("dict_type", "Input should be a valid dictionary", value, None);
        };
        let none = Map::new();
        let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
        let required: Vec<&str> = schema
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let whole = Value::Object(members.clone());
        for (name, part) in properties {
            match members.get_mut(name) {
                Some(member) => self.within(name.as_str(), |inner| inner.value(part, member)),
                None if required.contains(&name.as_str()) => {
                    self.within(name.as_str(), |inner| inner.add("missing", "Field required", &whole, None));
                }
                None => {}
            }
        }
        let rest = schema.get("additionalProperties");
        for (name, member) in members.iter_mut().filter(|(name, _)| !properties.contains_key(*name)) {
            match rest {
                Some(Value::Bool(false)) => self.within(name.as_str(), |inner| {
                    inner.add("extra_forbidden", "Extra inputs are not permitted", member, None);
                }),
                Some(part @ Value::Object(_)) => {
                    self.within(name.as_str(), |inner| inner.value(part, member))
                }
                _ => {}
            }
        }
    }

    fn array(&mut self, schema: &Value, value: &mut Value) {
        let Some(values) = value.as_array_mut() else {
            return self.add("list_type", "Input should be a valid list", value, None);
        };
        if let Some(part) = schema.get("items") {
            for (at, value) in values.iter_mut().enumerate() {
                self.within(at, |inner| inner.value(part, value));
            }
        }
    }
}
