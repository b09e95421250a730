//! The keys of a server that are not typed: they come from the reference's variables and its settings file.
//!
//! They are read as the reference reads them (`config.py` and `env_parser.py` of agent-server 1.58). The file is read
//! first. The variable `OH` overrides it, and the separate variables override both; a list is JSON or one variable per
//! entry. Two things differ, so that a given key is never ignored. A setting that looks like a key and is not
//! understood prevents the start. And if a list is empty, `SESSION_API_KEY` still counts.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value};

use crate::error::{Error, Result, SetupError};
use crate::secret::{Cipher, is_secret_name};
use crate::untrusted;

const SESSION_KEYS: &str = "OH_SESSION_API_KEYS";
const SECRET_KEY: &str = "OH_SECRET_KEY";
const PREVIOUS_KEYS: &str = "OH_PREVIOUS_SECRET_KEYS";
const SINGLE_KEY: &str = "SESSION_API_KEY";
/// The variable with all settings, as a JSON object.
const WHOLE: &str = "OH";
const FILE: &str = "OPENHANDS_AGENT_SERVER_CONFIG_PATH";
const FILE_DEFAULT: &str = "workspace/openhands_agent_server_config.json";

/// The maximum length of the file, in bytes.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// The maximum number of keys in a list.
const KEYS_MAX: u64 = 1000;

/// Members of the file that contain keys and are understood. The keys of `telemetry` protect nothing here.
const MEMBERS: [&str; 4] = ["session_api_keys", "secret_key", "previous_secret_keys", "telemetry"];

/// The settings from the environment and from the reference's file.
#[derive(Debug)]
pub(super) struct Given {
    environment: BTreeMap<String, String>,
    /// The members of the file, overridden by those of `OH`.
    members: Map<String, Value>,
}

impl Given {
    /// Reads the environment and the file.
    ///
    /// # Errors
    /// [`SetupError::Setting`] if a setting cannot be read, or if it contains a key and is not understood.
    pub fn read() -> Result<Self> {
        let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        Self::of(std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect())
    }

    fn of(environment: BTreeMap<String, String>) -> Result<Self> {
        let path = environment.get(FILE).map_or(FILE_DEFAULT, String::as_str);
        let mut members = file(Path::new(path))?;
        if let Some(text) = environment.get(WHOLE).filter(|text| !text.is_empty()) {
            let reason = "it has to be a JSON object of settings".to_owned();
            match serde_json::from_str(text) {
                Ok(Value::Object(whole)) => members.extend(whole),
                Ok(_) | Err(_) => {
                    return Err(Error::Setup(SetupError::Setting { place: WHOLE.to_owned(), reason }));
                }
            }
        }
        let given = Self { environment, members };
        given.check()?;
        Ok(given)
    }

    /// Returns a member of the file. `None` also if a separate variable overrides it.
    pub fn member(&self, name: &str) -> Option<&Value> {
        let variable = format!("OH_{}", name.to_uppercase());
        let is_overridden = self.environment.get(&variable).is_some_and(|value| !value.is_empty());
        self.members.get(name).filter(|value| !is_overridden && !value.is_null())
    }

    /// Returns the keys that clients may use. Empty keys are ignored.
    ///
    /// # Errors
    /// [`SetupError::Setting`] if a list of keys cannot be read.
    pub fn session_keys(&self) -> Result<Vec<String>> {
        let keys = self.list(SESSION_KEYS, "session_api_keys")?;
        Ok(if keys.is_empty() { self.variable(SINGLE_KEY).into_iter().collect() } else { keys })
    }

    /// Returns the cipher for secrets, which also opens with previous keys. `None` if there is no key at all.
    ///
    /// `session_keys` are the keys of the server.
    ///
    /// # Errors
    /// [`SetupError::Setting`].
    pub fn cipher(&self, session_keys: &[String]) -> Result<Option<Cipher>> {
        let mut previous = self.previous()?;
        let own = self.secret_key()?;
        let key = match (own, self.variable(SINGLE_KEY)) {
            (Some(key), _) => key,
            // The reference seals with this key. Annals has also sealed with the first key of the list.
            (None, Some(single)) => {
                previous.extend(session_keys.first().cloned());
                single
            }
            (None, None) => match session_keys.first() {
                Some(first) => first.clone(),
                None => return Ok(None),
            },
        };
        let previous: Vec<&str> = previous.iter().map(String::as_str).collect();
        Ok(Some(Cipher::new(&key, &previous)))
    }

    /// Returns the key that is given only for sealing. `None` if there is none, or if it is blank.
    fn secret_key(&self) -> Result<Option<String>> {
        let own = self.environment.get(SECRET_KEY).map(|key| Value::String(key.clone()));
        match own.as_ref().or_else(|| self.members.get("secret_key")) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(key)) => Ok(Some(key.clone()).filter(|key| !key.trim().is_empty())),
            Some(_) => Err(wrong("secret_key", "it has to be a text")),
        }
    }

    /// Returns the keys that sealed secrets before.
    ///
    /// # Errors
    /// [`SetupError::Setting`].
    pub fn previous(&self) -> Result<Vec<String>> {
        // The format that Annals read before it adopted the reference's format.
        if let Some(text) = self.environment.get(PREVIOUS_KEYS)
            && serde_json::from_str::<Value>(text).is_err()
            && !text.trim_start().starts_with(['[', '{', '"'])
        {
            let keys = text.split(',').map(|key| key.trim().to_owned());
            return Ok(keys.filter(|key| !key.is_empty()).collect());
        }
        self.list(PREVIOUS_KEYS, "previous_secret_keys")
    }

    /// Returns a list of keys. The entries of the variable override the file's, and numbered variables override both.
    fn list(&self, name: &str, member: &str) -> Result<Vec<String>> {
        let shape = "it has to be a JSON list of texts, like [\"key\"]";
        let texts = |place: &str, list: &[Value]| -> Result<Vec<Option<String>>> {
            let one = |value: &Value| value.as_str().map(|text| Some(text.to_owned()));
            list.iter().map(one).collect::<Option<_>>().ok_or_else(|| wrong(place, shape))
        };
        let mut keys = match self.members.get(member) {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(list)) => texts(member, list)?,
            Some(_) => return Err(wrong(member, shape)),
        };
        let mut own: Vec<Option<String>> =
            match self.environment.get(name).map(|text| serde_json::from_str(text)) {
                None => (0..KEYS_MAX).map_while(|number| self.numbered(name, number)).map(Some).collect(),
                Some(Ok(Value::Array(list))) => texts(name, &list)?,
                // This many numbered variables follow.
                Some(Ok(Value::Number(count))) => {
                    let count = count
                        .as_u64()
                        .filter(|count| *count <= KEYS_MAX)
                        .ok_or_else(|| wrong(name, shape))?;
                    (0..count).map(|_| None).collect()
                }
                Some(Ok(_) | Err(_)) => return Err(wrong(name, shape)),
            };
        for (number, key) in (0..).zip(&mut own) {
            *key = self.numbered(name, number).or_else(|| key.take());
        }
        if keys.len() < own.len() {
            keys.resize(own.len(), None);
        }
        for (place, key) in keys.iter_mut().zip(own) {
            *place = key.or_else(|| place.take());
        }
        let all: Option<Vec<String>> = keys.into_iter().collect();
        let all = all.ok_or_else(|| wrong(name, "it counts more keys than are given"))?;
        self.check_numbers(name, all.len() as u64)?;
        Ok(all.into_iter().filter(|key| !key.is_empty()).collect())
    }

    fn numbered(&self, name: &str, number: u64) -> Option<String> {
        self.environment.get(&format!("{name}_{number}")).cloned()
    }

    fn variable(&self, name: &str) -> Option<String> {
        self.environment.get(name).filter(|value| !value.is_empty()).cloned()
    }

    /// Rejects a numbered key after a gap, because the operator believes that it is used.
    fn check_numbers(&self, name: &str, count: u64) -> Result<()> {
        let number = |variable: &str| variable.strip_prefix(name)?.strip_prefix('_')?.parse::<u64>().ok();
        match self.environment.keys().find(|variable| number(variable).is_some_and(|number| number >= count))
        {
            Some(variable) => Err(wrong(variable, "it is not read: keys are numbered from 0 without a gap")),
            None => Ok(()),
        }
    }

    /// Rejects a setting that contains a key and is not understood.
    fn check(&self) -> Result<()> {
        let lists = [SESSION_KEYS, PREVIOUS_KEYS];
        let is_numbered = |name: &str| {
            let number = |list: &&str| name.strip_prefix(*list)?.strip_prefix('_')?.parse::<u64>().ok();
            lists.iter().find_map(number).is_some()
        };
        for (name, value) in &self.environment {
            let contains_key = name.starts_with("OH_") && name.contains("KEY") && !value.is_empty();
            let is_known = lists.contains(&name.as_str()) || name == SECRET_KEY || is_numbered(name);
            if contains_key && !is_known && !name.starts_with("OH_TELEMETRY_") {
                return Err(wrong(
                    name,
                    "it contains a key and is not understood; unset it, or correct its name",
                ));
            }
        }
        for (name, value) in &self.members {
            if is_secret_name(name) && !value.is_null() && !MEMBERS.contains(&name.as_str()) {
                return Err(wrong(name, "it contains a key and is not understood"));
            }
        }
        Ok(())
    }
}

/// Reads the members of the reference's file. Empty if there is no file.
fn file(path: &Path) -> Result<Map<String, Value>> {
    let place = || path.display().to_string();
    let text = match untrusted::read_text(path, FILE_BYTES_MAX) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Map::new()),
        Err(error) => return Err(wrong(&place(), &error.to_string())),
    };
    match serde_json::from_str(&text) {
        Ok(Value::Object(members)) => Ok(members),
        // The message of serde may quote a key.
        Ok(_) | Err(_) => Err(wrong(&place(), "it has to hold a JSON object of settings")),
    }
}

fn wrong(place: &str, reason: &str) -> Error {
    Error::Setup(SetupError::Setting { place: place.to_owned(), reason: reason.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(variables: &[(&str, &str)]) -> Result<Given> {
        Given::of(variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    fn keys(variables: &[(&str, &str)]) -> Result<Vec<String>> {
        given(variables)?.session_keys()
    }

    #[test]
    fn keys_are_read_as_the_reference_reads_them() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, r#"{"session_api_keys": ["f0", "f1"], "secret_key": "s"}"#).unwrap();
        let path = file.path().to_str().unwrap();
        for (variables, expected) in [
            (&[("OH_SESSION_API_KEYS", r#"["a", "", "b"]"#)][..], &["a", "b"][..]),
            (
                &[("OH_SESSION_API_KEYS_0", "a"), ("OH_SESSION_API_KEYS_1", "b"), ("SESSION_API_KEY", "c")],
                &["a", "b"],
            ),
            (&[("OH_SESSION_API_KEYS", r#"["a", "b"]"#), ("OH_SESSION_API_KEYS_1", "c")], &["a", "c"]),
            (
                &[
                    ("OH_SESSION_API_KEYS", "2"),
                    ("OH_SESSION_API_KEYS_0", "a"),
                    ("OH_SESSION_API_KEYS_1", "b"),
                ],
                &["a", "b"],
            ),
            (&[("SESSION_API_KEY", "c")], &["c"]),
            (&[("OH_SESSION_API_KEYS", "[]"), ("SESSION_API_KEY", "c")], &["c"]),
            (&[("OH", r#"{"session_api_keys": ["w"]}"#)], &["w"]),
            (&[(FILE, path)], &["f0", "f1"]),
            (&[(FILE, path), ("OH_SESSION_API_KEYS_0", "a")], &["a", "f1"]),
            (&[(FILE, path), ("OH_SESSION_API_KEYS", r#"["a","b","c"]"#)], &["a", "b", "c"]),
            (&[("OH_TELEMETRY_POSTHOG_API_KEY", "p")], &[]),
        ] {
            assert_eq!(keys(variables).unwrap(), expected, "{variables:?}");
        }
    }

    #[test]
    fn what_bears_a_key_and_is_not_understood_refuses_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).unwrap();
            folder.path().join(name).to_str().unwrap().to_owned()
        };
        let (none, list, other) =
            (at("none", "not json"), at("list", "[1]"), at("other", r#"{"api_key_file": "/k"}"#));
        let shape = at("shape", r#"{"session_api_keys": "k"}"#);
        for variables in [
            &[("OH_SESSION_API_KEYS", "k")][..],
            &[("OH_SESSION_API_KEYS", "k,l")],
            &[("OH_SESSION_API_KEYS", "")],
            &[("OH_SESSION_API_KEYS", "[1]")],
            &[("OH_SESSION_API_KEYS", "2"), ("OH_SESSION_API_KEYS_0", "a")],
            &[("OH_SESSION_API_KEYS_1", "k")],
            &[("OH_SESSION_API_KEYS_0", "k"), ("OH_SESSION_API_KEYS_2", "l")],
            &[("OH_SESSION_API_KEY", "k")],
            &[("OH_API_KEY", "k")],
            &[("OH", "k")],
            &[(FILE, &none)],
            &[(FILE, &list)],
            &[(FILE, &other)],
            &[(FILE, &shape)],
        ] {
            let error = keys(variables).unwrap_err();
            assert!(matches!(error, Error::Setup(SetupError::Setting { .. })), "{variables:?}: {error}");
        }
    }

    #[test]
    fn what_was_sealed_under_an_earlier_key_is_opened() {
        let secret = crate::secret::Secret::new("v").unwrap();
        let opens = |variables: &[(&str, &str)], under: &str| {
            let given = given(variables).unwrap();
            let cipher = given.cipher(&given.session_keys().unwrap()).unwrap().expect("a key");
            cipher.open(&Cipher::new(under, &[]).seal(&secret)) == Some(secret.clone())
        };
        for (variables, under) in [
            (&[("OH_SECRET_KEY", "new"), ("OH_PREVIOUS_SECRET_KEYS", r#"["x", "old"]"#)][..], "old"),
            (
                &[
                    ("OH_SECRET_KEY", "new"),
                    ("OH_PREVIOUS_SECRET_KEYS_0", "x"),
                    ("OH_PREVIOUS_SECRET_KEYS_1", "old"),
                ],
                "old",
            ),
            (&[("OH_SECRET_KEY", "new"), ("OH_PREVIOUS_SECRET_KEYS", "x, old")], "old"),
            (&[("OH_SECRET_KEY", " "), ("SESSION_API_KEY", "old")], "old"),
            (&[("OH_SESSION_API_KEYS_0", "old"), ("SESSION_API_KEY", "single")], "old"),
            (&[("OH_SESSION_API_KEYS_0", "old"), ("SESSION_API_KEY", "single")], "single"),
        ] {
            assert!(opens(variables, under), "{variables:?}");
        }
        assert!(!opens(&[("OH_SECRET_KEY", "new"), ("SESSION_API_KEY", "other")], "other"));
    }
}
