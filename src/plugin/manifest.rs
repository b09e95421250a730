//! The manifest of a plugin: `.plugin/plugin.json`, or `.claude-plugin/plugin.json`.

use std::path::Path;

use serde_json::{Map, Value};

use super::file::{self, member, nullable};
use super::{NAME_BYTES_MAX, Plugin, PluginError};

/// The folders that may have the manifest of the usual layout, in order of precedence.
pub(super) const FOLDERS: [&str; 2] = [".plugin", ".claude-plugin"];

/// The name of the manifest's file.
pub(super) const FILE: &str = "plugin.json";

/// What a plugin declares about itself.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Manifest {
    /// The name: not empty, without control characters, at most [`NAME_BYTES_MAX`] bytes.
    pub name: String,
    /// The version. `1.0.0` if the manifest has none.
    pub version: String,
    /// The description.
    pub description: String,
    /// The author.
    pub author: Option<Author>,
    /// The name of the command that starts the plugin.
    pub entry_command: Option<String>,
    /// All other members.
    pub more: Map<String, Value>,
}

/// The author of a plugin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Author {
    /// The name.
    pub name: String,
    /// The e-mail address.
    pub email: Option<String>,
    /// The web page.
    pub url: Option<String>,
}

impl Manifest {
    /// Reads the manifest of the usual layout. A plugin without one gets the name of its folder.
    pub(super) fn read(folder: &Path) -> Result<Self, PluginError> {
        let Some(path) =
            FOLDERS.iter().map(|name| folder.join(name).join(FILE)).find(|path| file::is_there(path))
        else {
            let name = folder.file_name().map_or_else(String::new, |name| name.to_string_lossy().into());
            let manifest = Self {
                description: format!("Plugin loaded from {name}"),
                version: "1.0.0".to_owned(),
                name,
                author: None,
                entry_command: None,
                more: Map::new(),
            };
            return manifest.checked(folder);
        };
        let wrong = |reason: String| PluginError::Manifest { path: path.clone(), reason };
        if !file::lies_within(&path, folder) {
            return Err(wrong("it resolves outside the plugin root".to_owned()));
        }
        let members = file::object(&path).map_err(wrong)?;
        Self::of(members).map_err(wrong)?.checked(&path)
    }

    /// Makes a manifest from the members of its JSON object.
    pub(super) fn of(mut members: Map<String, Value>) -> Result<Self, String> {
        let author = match members.get("author") {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(Author::of_text(text)),
            Some(Value::Object(author)) => Some(Author {
                name: member(author, "name")?.unwrap_or_default(),
                email: nullable(author, "email")?,
                url: nullable(author, "url")?,
            }),
            Some(_) => return Err("author is neither a text nor an object".to_owned()),
        };
        let manifest = Self {
            name: member(&members, "name")?.ok_or("name is missing")?,
            version: member(&members, "version")?.unwrap_or_else(|| "1.0.0".to_owned()),
            description: member(&members, "description")?.unwrap_or_default(),
            author,
            entry_command: nullable(&members, "entry_command")?,
            more: Map::new(),
        };
        for known in ["name", "version", "description", "author", "entry_command"] {
            members.remove(known);
        }
        Ok(Self { more: members, ..manifest })
    }

    /// Rejects a name that is empty, too long or has control characters.
    pub(super) fn checked(self, path: &Path) -> Result<Self, PluginError> {
        let reason = if self.name.is_empty() {
            "name is empty"
        } else if self.name.len() > NAME_BYTES_MAX {
            "name is too long"
        } else if self.name.chars().any(char::is_control) {
            "name has control characters"
        } else {
            return Ok(self);
        };
        Err(PluginError::Manifest { path: path.to_owned(), reason: reason.to_owned() })
    }
}

impl Plugin {
    /// Returns the manifest of a folder, of either layout, as the file has it.
    ///
    /// # Errors
    /// [`PluginError::Manifest`] if there is none, or it is not a JSON object.
    pub fn raw_manifest(folder: &Path) -> Result<Map<String, Value>, PluginError> {
        let wrong = |path: &Path, reason: &str| PluginError::Manifest {
            path: path.to_owned(),
            reason: reason.to_owned(),
        };
        let places =
            std::iter::once(folder.join(FILE)).chain(FOLDERS.map(|inner| folder.join(inner).join(FILE)));
        let mut places = places.filter(|path| path.is_file() && file::lies_within(path, folder));
        let path = places.next().ok_or_else(|| wrong(folder, "plugin.json not found."))?;
        file::object(&path).map_err(|reason| wrong(&path, &reason))
    }
}

impl Author {
    /// Splits `Name <address>` into name and address.
    #[must_use]
    pub fn of_text(text: &str) -> Self {
        match text.split_once('<') {
            Some((name, rest)) if rest.contains('>') => {
                let email = rest.split('>').next().unwrap_or_default().trim();
                Self { name: name.trim().to_owned(), email: Some(email.to_owned()), url: None }
            }
            Some(_) | None => Self { name: text.trim().to_owned(), ..Self::default() },
        }
    }
}
