//! The record of the installations in a folder: the reference's file `.installed.json`.
//!
//! It says which installations are disabled. So a record that cannot be read is an error and never an empty record. No
//! record is written that is too long to be read again. Here only the holder of the folder's lock writes it. The
//! reference's programs write it without a lock.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use serde_json::{Map, Value, json};

use super::place::Locked;
use super::{NAME_BYTES_MAX, PluginError, file};
use crate::untrusted;

/// The file with the record.
pub(super) const METADATA: &str = ".installed.json";

/// The maximum size of the record, in bytes. A thousand installations with texts of [`TEXT_CHARACTERS_MAX`] fit.
const BYTES_MAX: u64 = 16 << 20;

/// The maximum length of a description or a version in the record, in characters. The rest is cut.
const TEXT_CHARACTERS_MAX: usize = crate::skill::DESCRIPTION_CHARACTERS_MAX;

/// One installed plugin or skill.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct InstalledExtension {
    /// The name, which is also the name of the folder.
    pub name: String,
    /// The version. A long one is cut and ends in `…`.
    pub version: String,
    /// The description. A long one is cut and ends in `…`.
    pub description: String,
    /// Whether it is enabled.
    pub enabled: bool,
    /// The source, without credentials. `local` for a folder that was found without a record.
    pub source: String,
    /// The branch, tag or commit that was requested.
    pub requested_ref: Option<String>,
    /// The commit that was installed. `None` if it is not known, or the source is a folder.
    pub resolved_ref: Option<String>,
    /// The folder within the repository.
    pub repo_path: Option<String>,
    /// The time of the installation, RFC 3339. Empty while a new version replaces the old one.
    pub installed_at: String,
    /// The folder.
    pub install_path: PathBuf,
}

/// Reads the record of a folder. Empty if there is none.
///
/// # Errors
/// [`PluginError::Record`] if it cannot be read, is too long, or has an invalid entry.
pub(super) fn read(folder: &Path) -> Result<Vec<InstalledExtension>, PluginError> {
    let path = folder.join(METADATA);
    let wrong = |reason: String| PluginError::Record { path: path.clone(), reason };
    let text = match untrusted::read_text(&path, BYTES_MAX) {
        Ok(text) => text,
        // A link to a record that is missing is no missing record: its disk may only be unmounted.
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
                && !file::is_there(&path) =>
        {
            return Ok(Vec::new());
        }
        Err(error) => return Err(wrong(error.to_string())),
    };
    entries(&text).map_err(wrong)
}

fn entries(text: &str) -> Result<Vec<InstalledExtension>, String> {
    let mut document = file::parse(text)?;
    let mut entries = Map::new();
    // Earlier versions of the reference used other member names for the same.
    for part in ["plugins", "skills", "extensions"] {
        match document.remove(part) {
            None | Some(Value::Null) => {}
            Some(Value::Object(members)) => entries.extend(members),
            Some(_) => return Err(format!("{part} is no object")),
        }
    }
    entries.iter().map(|(name, entry)| InstalledExtension::of_json(name, entry)).collect()
}

/// Writes the record of a folder. It is replaced in one step.
///
/// # Errors
/// [`PluginError::Record`] if it would be too long to be read again; [`PluginError::File`]. The old record is then
/// still there.
pub(super) fn write(folder: &Path, _held: &Locked, list: &[InstalledExtension]) -> Result<(), PluginError> {
    let entries: Map<String, Value> =
        list.iter().map(|known| (known.name.clone(), known.to_json())).collect();
    let text = format!("{:#}", json!({ "extensions": entries }));
    let path = folder.join(METADATA);
    if text.len() as u64 > BYTES_MAX {
        return Err(PluginError::Record {
            path,
            reason: format!("it would have more than {BYTES_MAX} bytes"),
        });
    }
    let new = folder.join(format!("{METADATA}.{}", uuid::Uuid::new_v4().simple()));
    // After a power cut, a record that was not synced may be empty, which would be an error.
    let written = fs::File::create_new(&new).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, &path)
    });
    if written.is_err() {
        let _left_over = fs::remove_file(&new);
    }
    written.map_err(file::failed(&path))
}

/// Returns a text as it is recorded: a long one is cut and ends in `…`.
pub(super) fn bounded(text: String) -> String {
    cut(text, TEXT_CHARACTERS_MAX)
}

fn cut(mut text: String, characters_max: usize) -> String {
    // The mark takes the place of the last character.
    let mut ends = text.char_indices().map(|(at, _)| at).skip(characters_max.saturating_sub(1));
    if let (Some(end), Some(_)) = (ends.next(), ends.next()) {
        text.truncate(end);
        text.push('…');
    }
    text
}

impl InstalledExtension {
    /// Returns the reference's JSON object.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "name": self.name, "version": self.version, "description": self.description, "enabled": self.enabled,
            "source": self.source, "requested_ref": self.requested_ref, "resolved_ref": self.resolved_ref,
            "repo_path": self.repo_path, "installed_at": self.installed_at,
            "install_path": file::slashed(&self.install_path),
        })
    }

    fn of_json(name: &str, value: &Value) -> Result<Self, String> {
        let wrong = |what: &str| format!("the entry {:?}: {what}", cut(name.to_owned(), NAME_BYTES_MAX));
        let members = value.as_object().ok_or_else(|| wrong("it is no object"))?;
        let text = |member: &str| file::nullable(members, member).map_err(|reason| wrong(&reason));
        let required = |member: &str| text(member)?.ok_or_else(|| wrong(&format!("{member} is missing")));
        Ok(Self {
            version: text("version")?.unwrap_or_default(),
            description: text("description")?.unwrap_or_default(),
            enabled: match members.get("enabled") {
                None => true,
                Some(Value::Bool(enabled)) => *enabled,
                Some(_) => return Err(wrong("enabled is neither true nor false")),
            },
            source: required("source")?,
            requested_ref: text("requested_ref")?,
            resolved_ref: text("resolved_ref")?,
            repo_path: text("repo_path")?,
            installed_at: text("installed_at")?.unwrap_or_default(),
            install_path: required("install_path")?.into(),
            name: name.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_whole_or_not_at_all() {
        let good = r#"{"source":"s","install_path":"p","enabled":false,"version":null}"#;
        let read = |text: &str| entries(text).map(|list| list.len());
        assert_eq!(read("{}"), Ok(0));
        assert_eq!(read(&format!("\u{feff}{{\"extensions\":{{\"a\":{good}}},\"skills\":null}}")), Ok(1));
        for wrong in [
            "",
            "[]",
            r#"{"extensions":[]}"#,
            r#"{"extensions":{"b":1}}"#,
            r#"{"extensions":{"b":{"enabled":false}}}"#,
            r#"{"extensions":{"b":{"source":"s","install_path":"p","enabled":"no"}}}"#,
            r#"{"extensions":{"b":{"source":"s","install_path":"p","version":2}}}"#,
        ] {
            let beside = wrong.replacen("{\"b\"", &format!("{{\"a\":{good},\"b\""), 1);
            assert!(read(&beside).is_err(), "{beside}");
        }
        let reason = entries(r#"{"extensions":{"b":{"install_path":"p"}}}"#).unwrap_err();
        assert_eq!(reason, "the entry \"b\": source is missing");
    }

    #[test]
    fn a_disabled_entry_is_checked_like_an_enabled_one() {
        for (entry, problem) in [
            (r#"{}"#, "source is missing"),
            (r#"{"source":"s"}"#, "install_path is missing"),
            (r#"{"install_path":"p"}"#, "source is missing"),
            (r#"{"source":null,"install_path":"p"}"#, "source is missing"),
            (r#"{"source":"s","install_path":null}"#, "install_path is missing"),
            (r#"{"source":1,"install_path":"p"}"#, "source is not a text"),
            (r#"{"source":"s","install_path":[]}"#, "install_path is not a text"),
            (r#"{"source":"s","install_path":"p","repo_path":1}"#, "repo_path is not a text"),
            (r#"{"source":"s","install_path":"p","resolved_ref":{}}"#, "resolved_ref is not a text"),
        ] {
            for enabled in [None, Some(true), Some(false)] {
                let mut entry: Value = serde_json::from_str(entry).unwrap();
                if let Some(enabled) = enabled {
                    entry["enabled"] = enabled.into();
                }
                let record = json!({"extensions": {"a": entry}}).to_string();
                assert_eq!(entries(&record), Err(format!("the entry \"a\": {problem}")), "{record}");
            }
        }
    }

    #[test]
    fn long_texts_are_cut_with_a_mark() {
        assert_eq!(cut("äöü".to_owned(), 3), "äöü");
        assert_eq!(cut("äöüß".to_owned(), 3), "äö…");
        assert_eq!(bounded("x".repeat(1 << 20)).chars().count(), TEXT_CHARACTERS_MAX);
    }

    #[test]
    fn a_record_that_could_not_be_read_again_is_not_written() {
        let scratch = tempfile::tempdir().unwrap();
        let held = super::super::place::hold(scratch.path(), std::time::Duration::ZERO).unwrap();
        let known = InstalledExtension::of_json("a", &json!({"source": "s", "install_path": "p"})).unwrap();
        write(scratch.path(), &held, std::slice::from_ref(&known)).unwrap();
        let long =
            InstalledExtension { source: "s".repeat(usize::try_from(BYTES_MAX).unwrap()), ..known.clone() };
        assert!(matches!(write(scratch.path(), &held, &[long]), Err(PluginError::Record { .. })));
        assert_eq!(read(scratch.path()), Ok(vec![known]));
        fs::File::create(scratch.path().join(METADATA)).unwrap().set_len(BYTES_MAX + 1).unwrap();
        assert!(matches!(read(scratch.path()), Err(PluginError::Record { .. })));
    }
}
