//! The base state: the one JSON document of a conversation that changes, field by field.
//!
//! The reference keeps it as `base_state.json` (`docs/reference/files.md#base-state`). Unchanged text stays byte for
//! byte. A change replaces only the text of its own field.

use std::borrow::Cow;

use super::upcast::{CurrentField, current_field, usages};
use crate::ids::EVENT_ID_BYTES_MAX;
use crate::json::{self, Fault, Raw};

/// The maximum size of a base-state document, in bytes: 64 MiB.
pub const DOCUMENT_BYTES_MAX: usize = 64 << 20;

/// The fields in the order in which the reference writes them (`docs/reference/files.md#base-state`).
pub const FIELDS: &[&str] = &[
    "id",
    "agent",
    "workspace",
    "persistence_dir",
    "max_iterations",
    "stuck_detection",
    "execution_status",
    "confirmation_policy",
    "security_analyzer",
    "activated_knowledge_skills",
    "activated_path_rules",
    "invoked_skills",
    "blocked_actions",
    "blocked_messages",
    "last_user_message_id",
    "leaf_event_id",
    "head_is_empty",
    "stats",
    "secret_registry",
    "tags",
    "agent_state",
    "hook_config",
];

/// A JSON object whose members are the fields of a conversation's base state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseDocument(String);

/// Why a base state or a change of it was rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BaseStateError {
    /// The document is not a JSON object.
    #[error("the base state is not a JSON object: {0}")]
    Document(#[source] Fault),
    /// The new value of `field` is not JSON.
    #[error("the new value of {field:?} is not JSON")]
    Value {
        /// The field.
        field: String,
        /// What is wrong with the value.
        source: Fault,
    },
    /// HEAD cannot be set as a field. It moves with events, or by a [`Leaf`](crate::store::Leaf).
    #[error("leaf_event_id and head_is_empty cannot be set as fields; move HEAD instead")]
    Head,
    /// The document is too large.
    #[error("a base state of {bytes} bytes is larger than the {max} allowed")]
    TooLarge {
        /// Its size, in bytes.
        bytes: usize,
        /// The maximum size, in bytes.
        max: usize,
    },
}

/// Appended to the name of a field if a change extends the field instead of setting it; see [`FieldChange::extend`].
pub const EXTENDED: char = '+';

/// Appended to the name of a field that is set, if the name itself ends like the name of an extended field.
const PLAIN: char = '=';

/// One field's new value.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FieldChange {
    /// The member's name, followed by `+` if the change extends the member.
    pub field: String,
    /// The new value or the addition, as JSON text. `None` removes the member.
    pub value: Option<String>,
}

impl FieldChange {
    /// Sets `field` to `value`, which is JSON text.
    ///
    /// # Errors
    /// [`BaseStateError::Value`] if `value` is not JSON.
    pub fn set(field: impl Into<String>, value: impl Into<String>) -> Result<Self, BaseStateError> {
        let (field, value) = (field.into(), value.into());
        match Raw::parse(&value) {
            Ok(_) => Ok(Self { field: plain(field), value: Some(value) }),
            Err(source) => Err(BaseStateError::Value { field, source }),
        }
    }

    /// Extends `field` by `value`, which is JSON text. Members of objects are extended in the same way, elements of
    /// arrays are appended, and any other value replaces the old one. It is for fields that grow with every step of an
    /// agent, because the change contains only the addition.
    ///
    /// # Errors
    /// [`BaseStateError::Value`] if `value` is not JSON.
    pub fn extend(field: &str, value: impl Into<String>) -> Result<Self, BaseStateError> {
        let change = Self::set(field, value)?;
        Ok(Self { field: format!("{field}{EXTENDED}"), ..change })
    }

    /// Returns the field that changes, and whether it is extended.
    #[must_use]
    pub fn target(&self) -> (&str, bool) {
        match (self.field.strip_suffix(EXTENDED), self.field.strip_suffix(PLAIN)) {
            (Some(field), _) => (field, true),
            (None, Some(field)) if looks_extended(field) => (field, false),
            (None, _) => (&self.field, false),
        }
    }

    /// Removes `field`.
    #[must_use]
    pub fn remove(field: impl Into<String>) -> Self {
        Self { field: plain(field.into()), value: None }
    }
}

/// Returns the name of a field in a change that sets or removes it. Marks a name that looks like an extended field's.
fn plain(mut field: String) -> String {
    if looks_extended(&field) {
        field.push(PLAIN);
    }
    field
}

fn looks_extended(field: &str) -> bool {
    field.trim_end_matches(PLAIN).ends_with(EXTENDED)
}

impl BaseDocument {
    /// Checks a document, and keeps its text as it is.
    ///
    /// # Errors
    /// [`BaseStateError`] if it is not a JSON object or is too large.
    pub fn parse(text: impl Into<String>) -> Result<Self, BaseStateError> {
        let text = text.into();
        if text.len() > DOCUMENT_BYTES_MAX {
            return Err(BaseStateError::TooLarge { bytes: text.len(), max: DOCUMENT_BYTES_MAX });
        }
        json::scan(&text, |_, _| ()).map_err(BaseStateError::Document)?;
        Ok(Self(text))
    }

    /// Returns the document's text, byte for byte.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the document's text.
    #[must_use]
    pub fn into_string(self) -> String {
        self.0
    }

    /// Returns the value of `field`. `None` if there is no such field.
    #[must_use]
    pub fn field(&self, field: &str) -> Option<Raw<'_>> {
        Raw::parse(&self.0).ok()?.get(field)
    }

    /// Returns the value of `field` in the current format, whatever the document's age; see
    /// `current_field` of `upcast.rs`. `None` if there is no such field.
    #[must_use]
    pub fn current_field(&self, field: &str) -> Option<CurrentField<'_>> {
        current_field(Raw::parse(&self.0).ok()?, field)
    }

    /// Returns the status, whatever the document's age. `None` without a status, or if the status is not a text.
    #[must_use]
    pub fn status(&self) -> Option<String> {
        self.current_field("execution_status")?.raw().as_text().map(Cow::into_owned)
    }

    /// Returns the metrics by usage id in the stats, whatever the document's age. `None` without metrics.
    #[must_use]
    pub fn usages(&self) -> Option<Raw<'_>> {
        self.field("stats").and_then(usages)
    }

    /// Returns the text of `field`. `None` if it is not a string, or is empty.
    #[must_use]
    pub fn text(&self, field: &str) -> Option<Cow<'_, str>> {
        self.field(field).and_then(Raw::as_text)
    }

    /// Returns the event that HEAD of the document points to: `leaf_event_id` and `head_is_empty`.
    ///
    /// A leaf of more than [`EVENT_ID_BYTES_MAX`] does not count, because no event has such an id.
    #[must_use]
    pub fn leaf(&self) -> (Option<String>, bool) {
        let leaf = self.text("leaf_event_id").filter(|leaf| leaf.len() <= EVENT_ID_BYTES_MAX);
        let leaf = leaf.map(Cow::into_owned);
        let empty = self.field("head_is_empty").is_some_and(|raw| raw.text() == "true");
        (leaf, empty)
    }

    /// Returns the document after `changes`, which are applied in order. Unchanged members keep their text and their
    /// place. A new member is inserted before the first member that follows it in the reference's order, otherwise at
    /// the end. Members are separated by a comma only.
    #[must_use]
    pub fn with(&self, changes: &[FieldChange]) -> Self {
        let mut members: Vec<(String, Cow<'_, str>)> = Raw::parse(&self.0)
            .map(|raw| raw.members().map(|(key, value)| (key.into_owned(), value.text().into())).collect())
            .unwrap_or_default();
        // The additions to a field are combined first, because the field itself may be long.
        let mut additions: Vec<(&str, String)> = Vec::new();
        for change in changes {
            let (field, extends) = change.target();
            let place = additions.iter().position(|(known, _)| *known == field);
            match (extends, &change.value, place) {
                (true, Some(value), Some(place)) => match combined(&additions[place].1, value) {
                    Some(both) => additions[place].1 = both,
                    None => {
                        let first = std::mem::replace(&mut additions[place].1, value.clone());
                        add(&mut members, field, &first);
                    }
                },
                (true, Some(value), None) => additions.push((field, value.clone())),
                (_, value, place) => {
                    place.map(|place| additions.remove(place));
                    set(&mut members, field, value.as_deref().map(Cow::Borrowed));
                }
            }
        }
        for (field, addition) in additions {
            add(&mut members, field, &addition);
        }
        let mut text = String::with_capacity(self.0.len());
        for (key, value) in &members {
            text.push(if text.is_empty() { '{' } else { ',' });
            text.push_str(&quoted(key));
            text.push(':');
            text.push_str(value);
        }
        text.push_str(if text.is_empty() { "{}" } else { "}" });
        Self(text)
    }

    /// Returns the document with HEAD set to `leaf` and `head_is_empty`. It is unchanged if HEAD is the same.
    #[must_use]
    pub fn with_leaf(&self, leaf: Option<&str>, head_is_empty: bool) -> Cow<'_, Self> {
        let (old_leaf, was_empty) = self.leaf();
        if old_leaf.as_deref() == leaf && was_empty == head_is_empty {
            return Cow::Borrowed(self);
        }
        Cow::Owned(self.with(&[
            FieldChange { field: "leaf_event_id".into(), value: leaf.map(quoted) },
            FieldChange { field: "head_is_empty".into(), value: Some(head_is_empty.to_string()) },
        ]))
    }
}

/// Sets a member, at its place or at its place in the reference's order. `None` removes it.
fn set<'v>(members: &mut Vec<(String, Cow<'v, str>)>, field: &str, value: Option<Cow<'v, str>>) {
    let place = members.iter().rposition(|(key, _)| key == field);
    match (place, value) {
        (Some(place), Some(value)) => members[place].1 = value,
        (None, Some(value)) => {
            let own = rank(field);
            let later = |(key, _): &(String, _)| own.is_some() && rank(key) > own;
            let place = members.iter().position(later).unwrap_or(members.len());
            members.insert(place, (field.to_owned(), value));
        }
        (_, None) => members.retain(|(key, _)| key != field),
    }
}

/// Extends a member. Sets it if it does not exist.
fn add(members: &mut Vec<(String, Cow<'_, str>)>, field: &str, addition: &str) {
    let old = members.iter().rfind(|(key, _)| key == field);
    let new = old.map_or_else(|| addition.to_owned(), |(_, old)| extended(old, addition));
    set(members, field, Some(new.into()));
}

/// Combines two additions into one that has the same effect on every value as `first` and then `second`. `None` if
/// there is no such addition. Both are JSON texts.
///
/// There is none if `second` replaces the value of `first`, but would extend a value that was there before both. The
/// result then depends on that value.
pub(crate) fn combined(first: &str, second: &str) -> Option<String> {
    let (Ok(one), Ok(other)) = (Raw::parse(first), Raw::parse(second)) else { return None };
    are_combined(one, other).then(|| extended(first, second))
}

fn are_combined(first: Raw<'_>, second: Raw<'_>) -> bool {
    if second.is_array() {
        return first.is_array();
    }
    if second.is_object() {
        let members = || second.members().filter_map(|(key, value)| Some((first.get(&key)?, value)));
        return first.is_object() && members().all(|(first, second)| are_combined(first, second));
    }
    true
}

/// Returns `old` extended by `addition`. Both are JSON texts.
pub(crate) fn extended(old: &str, addition: &str) -> String {
    let mut out = String::with_capacity(old.len() + addition.len());
    match (Raw::parse(old), Raw::parse(addition)) {
        (Ok(old), Ok(addition)) => extend(&mut out, old, addition),
        _ => out.push_str(addition),
    }
    out
}

fn extend(out: &mut String, old: Raw<'_>, addition: Raw<'_>) {
    if old.is_array() && addition.is_array() {
        let inner = |raw: Raw<'_>| raw.text()[1..raw.text().len() - 1].trim().to_owned();
        let (first, second) = (inner(old), inner(addition));
        let comma = if first.is_empty() || second.is_empty() { "" } else { "," };
        out.extend(["[", &first, comma, &second, "]"]);
    } else if old.is_object() && addition.is_object() {
        let mut is_first = true;
        let mut member = |out: &mut String, key: &str| {
            out.push_str(if std::mem::take(&mut is_first) { "{" } else { "," });
            out.push_str(&quoted(key));
            out.push(':');
        };
        for (key, value) in old.members() {
            member(out, &key);
            match addition.get(&key) {
                Some(addition) => extend(out, value, addition),
                None => out.push_str(value.text()),
            }
        }
        for (key, value) in addition.members().filter(|(key, _)| old.get(key).is_none()) {
            member(out, &key);
            out.push_str(value.text());
        }
        out.push_str(if is_first { "{}" } else { "}" });
    } else {
        out.push_str(addition.text());
    }
}

/// Returns the place of a field in the reference's order. `None` if the reference does not know the field.
fn rank(field: &str) -> Option<usize> {
    FIELDS.iter().position(|known| *known == field)
}

/// Returns `text` as a JSON string.
#[must_use]
pub fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(field: &str, value: &str) -> FieldChange {
        FieldChange::set(field, value).unwrap()
    }

    #[test]
    fn a_change_replaces_only_its_own_field() {
        let document = BaseDocument::parse(r#"{"id":"a","stats":{"cost": 1.50},"tags":{}}"#).unwrap();
        let changed =
            document.with(&[set("tags", r#"{"k":"v"}"#), FieldChange::remove("id"), set("new", "null")]);
        assert_eq!(changed.as_str(), r#"{"stats":{"cost": 1.50},"tags":{"k":"v"},"new":null}"#);
        assert_eq!(BaseDocument::parse("{}").unwrap().with(&[FieldChange::remove("x")]).as_str(), "{}");
    }

    #[test]
    fn combined_additions_have_the_effect_of_successive_ones() {
        let values =
            ["1", "[1]", "[]", "{}", r#"{"a":1}"#, r#"{"a":[2]}"#, r#"{"a":{"b":[3]}}"#, r#"{"c":4}"#];
        let add = |value: &str| FieldChange::extend("x", value).unwrap();
        for old in values {
            let document = BaseDocument::parse(format!(r#"{{"x":{old}}}"#)).unwrap();
            for (one, two, three) in values
                .iter()
                .flat_map(|one| values.iter().map(move |two| (one, two)))
                .flat_map(|(one, two)| values.iter().map(move |three| (*one, *two, *three)))
            {
                let changes = [add(one), add(two), add(three)];
                let singly = changes
                    .iter()
                    .fold(document.clone(), |document, change| document.with(std::slice::from_ref(change)));
                assert_eq!(document.with(&changes), singly, "{old} + {one} + {two} + {three}");
            }
        }
    }

    #[test]
    fn a_new_field_is_inserted_in_the_order_of_the_reference() {
        let document =
            BaseDocument::parse(r#"{"id":"a","ours":1,"blocked_messages":{},"stats":{}}"#).unwrap();
        let changes = [set("last_user_message_id", "\"m\""), set("ours_too", "2"), set("hook_config", "{}")];
        assert_eq!(
            document.with(&changes).with_leaf(Some("e"), false).as_str(),
            concat!(
                r#"{"id":"a","ours":1,"blocked_messages":{},"last_user_message_id":"m","#,
                r#""leaf_event_id":"e","head_is_empty":false,"stats":{},"ours_too":2,"hook_config":{}}"#
            )
        );
    }

    #[test]
    fn a_field_is_extended() {
        let add = |field: &str, value: &str| FieldChange::extend(field, value).unwrap();
        let document = BaseDocument::parse(r#"{"stats":{"a":{"n":1,"l":[1 ]},"b":[]},"x":1}"#).unwrap();
        let one = add("stats", r#"{"a":{"n":2,"l":[2,3]},"c":{"l":[9]}}"#);
        let two = add("stats", r#"{"a":{"l":[4]},"b":[5],"c":{"l":[8]}}"#);
        let both = r#"{"stats":{"a":{"n":2,"l":[1,2,3,4]},"b":[5],"c":{"l":[9,8]}},"x":1}"#;
        assert_eq!(document.with(&[one.clone(), two.clone()]).as_str(), both);
        assert_eq!(document.with(std::slice::from_ref(&one)).with(&[two]).as_str(), both);
        let changes = [one, set("stats", "{}"), add("stats", r#"{"d":[]}"#), add("new", "[1]")];
        assert_eq!(document.with(&changes).as_str(), r#"{"stats":{"d":[]},"x":1,"new":[1]}"#);
        for name in ["x+", "x+=", "x=", "+"] {
            assert_eq!(set(name, "[]").target(), (name, false));
            assert_eq!(add(name, "[]").target(), (name, true));
            assert_eq!(FieldChange::remove(name).target(), (name, false));
        }
    }

    #[test]
    fn head_is_written_only_if_it_moved() {
        let text = r#"{ "leaf_event_id":"e1", "head_is_empty":false }"#;
        let document = BaseDocument::parse(text).unwrap();
        assert_eq!(document.leaf(), (Some("e1".into()), false));
        assert_eq!(document.with_leaf(Some("e1"), false).as_str(), text);
        assert_eq!(
            document.with_leaf(Some("e2"), false).as_str(),
            r#"{"leaf_event_id":"e2","head_is_empty":false}"#
        );
        assert_eq!(document.with_leaf(None, true).as_str(), r#"{"head_is_empty":true}"#);
    }

    #[test]
    fn a_leaf_that_is_too_long_to_be_an_event_is_no_head_and_stays_in_the_document() {
        for (bytes, is_head) in [(EVENT_ID_BYTES_MAX, true), (EVENT_ID_BYTES_MAX + 1, false)] {
            let leaf = "e".repeat(bytes);
            let document = BaseDocument::parse(format!(r#"{{"leaf_event_id": "{leaf}"}}"#)).unwrap();
            let (leaf, is_empty) = document.leaf();
            assert_eq!((leaf.is_some(), is_empty), (is_head, false), "{bytes}");
            assert_eq!(*document.with_leaf(leaf.as_deref(), is_empty), document, "{bytes}");
        }
    }

    #[test]
    fn invalid_json_is_rejected() {
        assert!(matches!(BaseDocument::parse("{\"id\":"), Err(BaseStateError::Document(_))));
        assert!(matches!(FieldChange::set("a", "{"), Err(BaseStateError::Value { .. })));
    }
}
