//! Folders of named JSON objects, one file for each, in the format of the reference's profiles. The files and the locks
//! are shared with the reference.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::server::http::failure::{Failure, Problem};
use crate::server::live::keep;
use crate::untrusted::{self, LeftOut};

/// The pattern of a valid name, in the reference's words.
const PATTERN: &str = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$";
const NAME_CHARACTERS_MAX: usize = 64;

/// The maximum number of objects of a folder that is listed. The server itself writes far fewer.
const OBJECTS_MAX: usize = 1000;

/// Checks a name from a path or a body. `place` is its location.
///
/// # Errors
/// 422 if the name is invalid.
pub(super) fn check_name(name: &str, place: &[&str]) -> Result<(), Failure> {
    let problem = |kind, message: String, figures: Value| {
        let mut problem = Problem::new(kind, place, message).with_input(name);
        problem.context = Some(figures);
        Err(Failure::from(problem))
    };
    if name.is_empty() {
        return problem(
            "string_too_short",
            "String should have at least 1 character".to_owned(),
            serde_json::json!({"min_length": 1}),
        );
    }
    if name.chars().count() > NAME_CHARACTERS_MAX {
        let message = format!("String should have at most {NAME_CHARACTERS_MAX} characters");
        return problem("string_too_long", message, serde_json::json!({"max_length": NAME_CHARACTERS_MAX}));
    }
    let begins = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'));
    if begins && is_name {
        return Ok(());
    }
    let message = format!("String should match pattern '{PATTERN}'");
    problem("string_pattern_mismatch", message, serde_json::json!({"pattern": PATTERN}))
}

/// A folder of named objects. All its methods block on the disk.
#[derive(Debug, Clone)]
pub(super) struct Named {
    folder: PathBuf,
    lock: &'static str,
    /// The kind of the objects, for people.
    what: &'static str,
}

/// Whether a list has all the names of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    All,
    Part,
}

/// A name and its object.
pub(super) type Entry = (String, Map<String, Value>);

/// The lock that is needed to change the folder.
pub(super) struct Locked(#[expect(dead_code, reason = "dropping the file releases the lock")] File);

impl Named {
    pub fn new(folder: PathBuf, lock: &'static str, what: &'static str) -> Self {
        Self { folder, lock, what }
    }

    /// Locks the folder. Waits while another process has the lock.
    pub fn hold(&self) -> Result<Locked, Failure> {
        fs::create_dir_all(&self.folder).map_err(keep::failed)?;
        let lock = untrusted::open_to_lock(&self.folder.join(self.lock)).map_err(keep::failed)?;
        lock.lock().map_err(keep::failed)?;
        Ok(Locked(lock))
    }

    /// Returns the names, sorted. Files with invalid names are ignored.
    ///
    /// # Errors
    /// 500 if the folder has more than [`OBJECTS_MAX`] objects or too many other files. A part of the list would look
    /// like all of it.
    pub fn names(&self) -> Result<Vec<String>, Failure> {
        match self.first(OBJECTS_MAX)? {
            (names, Extent::All) => Ok(names),
            (_, Extent::Part) => Err(Failure::internal(format!(
                "{} has too many files to be listed: at most {OBJECTS_MAX} objects are",
                self.folder.display()
            ))),
        }
    }

    /// Returns at most `names_max` names, sorted.
    fn first(&self, names_max: usize) -> Result<(Vec<String>, Extent), Failure> {
        let found = untrusted::first_paths(&self.folder, names_max, |path| object_name(path).is_some());
        let extent = match found.left_out {
            None => Extent::All,
            Some(LeftOut::Unread | LeftOut::Beyond(_)) => Extent::Part,
            Some(LeftOut::Failed(kind)) => return Err(keep::failed(kind.into())),
        };
        let mut names: Vec<String> =
            found.paths.iter().filter_map(|path| object_name(path).map(str::to_owned)).collect();
        names.sort();
        Ok((names, extent))
    }

    /// Returns all objects that can be read, sorted by name.
    pub fn all(&self) -> Result<Vec<Entry>, Failure> {
        let names = self.names()?;
        Ok(names
            .into_iter()
            .filter_map(|name| Some((name.clone(), keep::load(&self.path(&name)).ok()?)))
            .collect())
    }

    /// Returns the object with the given name; `None` if there is none.
    ///
    /// # Errors
    /// 400 if its file cannot be read as an object.
    pub fn read(&self, name: &str) -> Result<Option<Map<String, Value>>, Failure> {
        let path = self.path(name);
        if !path.exists() {
            return Ok(None);
        }
        let what = self.what;
        keep::load(&path).map(Some).map_err(|_| Failure::bad(format!("{what} '{name}' cannot be read")))
    }

    /// Writes an object under the given name. The caller has the lock.
    ///
    /// # Errors
    /// 409 if the object is new and the folder already has `max` objects.
    pub fn write(
        &self,
        _held: &Locked,
        name: &str,
        object: &Map<String, Value>,
        max: usize,
    ) -> Result<(), Failure> {
        let path = self.path(name);
        if !path.exists() && self.is_full(max)? {
            let (what, lower) = (self.what, self.what.to_lowercase());
            return Err(Failure::conflict(format!(
                "{what} limit reached ({max}). Delete a {} before saving a new one.",
                lower.strip_prefix("agent ").unwrap_or(&lower)
            )));
        }
        put(&path, object)
    }

    /// Returns whether the folder has `max` objects or more.
    fn is_full(&self, max: usize) -> Result<bool, Failure> {
        let (names, extent) = self.first(max)?;
        Ok(names.len() >= max || extent == Extent::Part)
    }

    /// Removes an object if it exists. The caller has the lock.
    pub fn remove(&self, _held: &Locked, name: &str) -> Result<(), Failure> {
        match fs::remove_file(self.path(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(keep::failed(error)),
            _ => Ok(()),
        }
    }

    /// Renames an object, including its member `name`. The caller has the lock.
    ///
    /// # Errors
    /// 404 if there is no object with the old name, 409 if there is one with the new name.
    pub fn rename(&self, _held: &Locked, old: &str, new: &str) -> Result<(), Failure> {
        let what = self.what;
        let mut object =
            self.read(old)?.ok_or_else(|| Failure::not_found(format!("{what} '{old}' not found")))?;
        if old == new {
            return Ok(());
        }
        let (from, to) = (self.path(old), self.path(new));
        if to.exists() {
            return Err(Failure::conflict(format!("{what} '{new}' already exists")));
        }
        object.insert("name".to_owned(), own(new).into());
        put(&to, &object)?;
        fs::remove_file(from).map_err(keep::failed)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{}.json", own(name)))
    }
}

/// Returns the name of the object that a file holds. `None` if the file holds none.
fn object_name(path: &Path) -> Option<&str> {
    let name = path.file_name()?.to_str()?.strip_suffix(".json")?;
    check_name(name, &[]).is_ok().then_some(name)
}

/// Returns the name without `.json`, because the reference also accepts a profile's file name.
pub(super) fn own(name: &str) -> &str {
    name.strip_suffix(".json").unwrap_or(name)
}

fn put(path: &Path, object: &Map<String, Value>) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(object).map_err(|error| Failure::internal(error.to_string()))?;
    keep::write(path, &text).map_err(keep::failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_listed_to_its_bound_and_beyond_it_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let named = Named::new(scratch.path().join("folder"), ".lock", "Agent profile");
        assert_eq!(named.names().unwrap(), [""; 0]);
        let held = named.hold().unwrap();
        for name in ["a", "a-b", "B"] {
            fs::write(named.path(name), "{}").unwrap();
        }
        fs::write(scratch.path().join("folder/no name.json"), "{}").unwrap();
        assert_eq!(named.names().unwrap(), ["B", "a", "a-b"]);
        for (max, is_full) in [(2, true), (3, true), (4, false)] {
            assert_eq!(named.is_full(max).unwrap(), is_full, "{max}");
            let written = named.write(&held, "new", &Map::new(), max);
            assert_eq!(written.is_err(), is_full, "{max}");
        }
        for number in 4..OBJECTS_MAX {
            fs::write(named.path(&format!("n{number}")), "{}").unwrap();
        }
        assert_eq!(named.names().unwrap().len(), OBJECTS_MAX);
        fs::write(named.path("last"), "{}").unwrap();
        let message = named.names().unwrap_err().message();
        assert!(message.ends_with("has too many files to be listed: at most 1000 objects are"), "{message}");
        assert!(named.all().is_err() && named.is_full(50).unwrap());
        // One that is named is still found and can be removed.
        assert!(named.read("last").unwrap().is_some());
        named.remove(&held, "last").unwrap();
        assert_eq!(named.names().unwrap().len(), OBJECTS_MAX);
    }
}
