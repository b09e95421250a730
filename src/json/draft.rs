//! A JSON value that can be changed. Only the parts that are opened become a tree; the rest stays text.
//!
//! It is made for upcasters, which change a few members of a payload and must not change the others.

use std::borrow::Cow;

use super::dump::Out;
use super::raw::Raw;

/// A value, opened as far as the caller has accessed it.
#[derive(Debug, Clone)]
pub(crate) enum Draft<'a> {
    /// Not opened.
    Raw(Raw<'a>),
    /// A new string.
    Text(String),
    /// An array.
    Array(Vec<Draft<'a>>),
    /// An object.
    Object(Members<'a>),
}

/// The members of an object. If two have the same name, the last one counts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Members<'a>(Vec<(Cow<'a, str>, Draft<'a>)>);

impl<'a> Draft<'a> {
    /// Makes a string.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// Makes a value from a JSON literal.
    pub fn json(text: &'static str) -> Self {
        Self::Raw(Raw::checked(text))
    }

    /// Makes an object with these members.
    pub fn object_of<const N: usize>(members: [(&'static str, Self); N]) -> Self {
        Self::Object(Members(members.into_iter().map(|(key, value)| (Cow::Borrowed(key), value)).collect()))
    }

    /// Opens the value and returns its members. `None` if it is not an object.
    pub fn object(&mut self) -> Option<&mut Members<'a>> {
        if let Self::Raw(raw) = self
            && raw.is_object()
        {
            *self = Self::Object(Members::of(*raw));
        }
        match self {
            Self::Object(members) => Some(members),
            Self::Raw(_) | Self::Text(_) | Self::Array(_) => None,
        }
    }

    /// Opens the value and returns its elements. `None` if it is not an array.
    pub fn array(&mut self) -> Option<&mut Vec<Self>> {
        if let Self::Raw(raw) = self
            && raw.is_array()
        {
            *self = Self::Array(raw.elements().map(Self::Raw).collect());
        }
        match self {
            Self::Array(elements) => Some(elements),
            Self::Raw(_) | Self::Text(_) | Self::Object(_) => None,
        }
    }

    /// Returns the text. `None` if it is not a string.
    pub fn as_str(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Raw(raw) => raw.as_str(),
            Self::Text(text) => Some(Cow::Borrowed(text)),
            Self::Array(_) | Self::Object(_) => None,
        }
    }

    /// Returns whether the value is `null`.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Raw(raw) if raw.is_null())
    }

    /// Returns whether the value is `true`.
    pub fn is_true(&self) -> bool {
        matches!(self, Self::Raw(raw) if raw.text() == "true")
    }

    /// Writes the value. Parts that were not opened are written unchanged.
    pub fn write(&self, out: &mut Out) {
        match self {
            Self::Raw(raw) => out.raw(raw.text()),
            Self::Text(text) => out.text(text),
            Self::Array(elements) => {
                out.open("[");
                for element in elements {
                    out.next();
                    element.write(out);
                }
                out.close("]");
            }
            Self::Object(members) => members.write(out),
        }
    }
}

impl<'a> Members<'a> {
    /// Reads the members of an object.
    pub fn of(raw: Raw<'a>) -> Self {
        Self(raw.members().map(|(key, value)| (key, Draft::Raw(value))).collect())
    }

    /// Returns the members, in order.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&str, &mut Draft<'a>)> {
        self.0.iter_mut().map(|(key, value)| (&**key, value))
    }

    /// Returns the member with this name.
    pub fn get(&self, name: &str) -> Option<&Draft<'a>> {
        self.0.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// Returns the member with this name for changing it.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Draft<'a>> {
        self.0.iter_mut().rev().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// Opens the member with this name and returns its members. `None` if it is not an object.
    pub fn object(&mut self, name: &str) -> Option<&mut Members<'a>> {
        self.get_mut(name).and_then(Draft::object)
    }

    /// Returns the text of the member with this name. `None` if it is not a string.
    pub fn str(&self, name: &str) -> Option<Cow<'_, str>> {
        self.get(name).and_then(Draft::as_str)
    }

    /// Returns whether there is a member with this name that is not null.
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| !value.is_null())
    }

    /// Removes the member and returns its value.
    pub fn remove(&mut self, name: &str) -> Option<Draft<'a>> {
        let mut removed = None;
        while let Some(at) = self.0.iter().rposition(|(key, _)| key == name) {
            let (_, value) = self.0.remove(at);
            removed.get_or_insert(value);
        }
        removed
    }

    /// Keeps the members for whose names `keep` returns true.
    pub fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.0.retain(|(key, _)| keep(key));
    }

    /// Sets the member to this value. A new member is added at the end.
    pub fn set(&mut self, name: &str, value: Draft<'a>) {
        match self.get_mut(name) {
            Some(place) => *place = value,
            None => self.0.push((Cow::Owned(name.to_owned()), value)),
        }
    }

    /// Sets the member to this text.
    pub fn set_text(&mut self, name: &str, text: impl Into<String>) {
        self.set(name, Draft::text(text));
    }

    /// Renames the member, unless the new name is in use. Returns whether it was renamed.
    pub fn rename(&mut self, old: &str, new: &'static str) -> bool {
        if self.has(new) || !self.has(old) {
            return false;
        }
        self.remove(new);
        for (key, _) in &mut self.0 {
            if key == old {
                *key = Cow::Borrowed(new);
            }
        }
        true
    }

    /// Renames every member for whose name `rename` returns a new one. Returns whether any was renamed.
    pub fn rename_all<E>(&mut self, rename: &dyn Fn(&str) -> Result<Option<String>, E>) -> Result<bool, E> {
        let mut is_changed = false;
        for (key, _) in &mut self.0 {
            if let Some(new) = rename(key)? {
                *key = Cow::Owned(new);
                is_changed = true;
            }
        }
        Ok(is_changed)
    }

    /// Returns the members with this one set.
    pub fn with(mut self, name: &str, members: Members<'a>) -> Self {
        self.set(name, Draft::Object(members));
        self
    }

    /// Returns the members with this one set to this text.
    pub fn with_text(mut self, name: &str, text: &str) -> Self {
        self.set_text(name, text);
        self
    }

    /// Writes the object.
    pub fn write(&self, out: &mut Out) {
        out.open("{");
        for (key, value) in &self.0 {
            out.key(key);
            value.write(out);
        }
        out.close("}");
    }

    /// Returns the object as text.
    pub fn to_json(&self) -> String {
        let mut out = Out::default();
        self.write(&mut out);
        out.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_touched_stays_as_it_was() {
        let text = r#"{"a": {"x":1.50, "y":[1, 2]}, "b":"\u00e9","old":{ },"z":null}"#;
        let mut members = Members::of(Raw::parse(text).unwrap());
        assert_eq!(members.to_json(), r#"{"a":{"x":1.50, "y":[1, 2]},"b":"\u00e9","old":{ },"z":null}"#);
        assert!(members.rename("old", "new") && !members.rename("z", "new"));
        members.object("a").unwrap().set_text("x", "é\n");
        members.object("a").unwrap().get_mut("y").unwrap().array().unwrap().push(Draft::json("3"));
        members.remove("z");
        assert_eq!(members.to_json(), r#"{"a":{"x":"é\n","y":[1,2,3]},"b":"\u00e9","new":{ }}"#);
    }
}
