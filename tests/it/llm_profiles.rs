//! Model profiles: named settings in a folder that the real SDK may share.

use std::fs;

use annals::llm::Settings;
use annals::llm::profiles::{Keys, ProfileError, Profiles};
use annals::secret::{Cipher, Form, StoredSecret};

fn settings(text: &str) -> Settings {
    Settings::parse(text).unwrap()
}

fn key(settings: &Settings) -> Option<&str> {
    settings.api_key.as_ref().and_then(StoredSecret::secret).map(|key| key.expose())
}

#[test]
fn profiles_are_kept_as_the_sdk_keeps_them() {
    let folder = tempfile::tempdir().unwrap();
    let profiles = Profiles::open(folder.path().join("profiles")).unwrap();
    let given = settings(
        r#"{"model":"openai/gpt-4o","api_key":"sk-1","extra_headers":{"é":"ü"},"litellm_extra_body":{"a":[1,{"b":null}],"c":[]}}"#,
    );
    profiles.save("plain", &given, Keys::Plain, None).unwrap();
    let path = folder.path().join("profiles/plain.json");
    // As `LLMProfileStore.save` of SDK 1.58 writes it, except that the SDK escapes characters outside ASCII.
    let expected = include_str!("../golden/llm/profile.json");
    assert_eq!(fs::read_to_string(&path).unwrap(), expected.trim_end());
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let read = profiles.load("plain", None).unwrap();
    assert_eq!(read, given);
    assert_eq!(key(&read), Some("sk-1"));
    profiles.save("without", &given, Keys::None, None).unwrap();
    assert_eq!(key(&profiles.load("without.json", None).unwrap()), None);
    let cipher = Cipher::new("k", &[]);
    profiles.save("sealed", &given, Keys::Sealed(&cipher), None).unwrap();
    assert_eq!(key(&profiles.load("sealed", Some(&cipher)).unwrap()), Some("sk-1"));
    let closed = profiles.load("sealed", Some(&Cipher::new("other", &[]))).unwrap();
    assert!(closed.to_json(Form::Stored(None)).contains(r#""api_key":"gAAAAA"#));
    assert_eq!(profiles.list().unwrap(), ["plain", "sealed", "without"]);
    let keys: Vec<bool> = profiles.summaries().unwrap().iter().map(|profile| profile.api_key_set).collect();
    assert_eq!(keys, [true, true, false]);
}

#[test]
fn invalid_names_limits_versions_and_missing_profiles_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let profiles = Profiles::open(folder.path()).unwrap();
    let given = settings(r#"{"model":"openai/gpt-4o"}"#);
    for name in ["", ".hidden", "../up", "a b", "a/b", &"x".repeat(65)] {
        assert!(matches!(profiles.load(name, None), Err(ProfileError::Name(_))), "{name}");
    }
    profiles.save("one", &given, Keys::None, Some(1)).unwrap();
    profiles.save("one", &given, Keys::None, Some(1)).unwrap();
    assert!(matches!(profiles.save("two", &given, Keys::None, Some(1)), Err(ProfileError::TooMany(1))));
    let missing = profiles.load("two", None).unwrap_err().to_string();
    assert_eq!(missing, r#"profile "two" not found; there are: one"#);
    profiles.rename("one", "uno").unwrap();
    profiles.rename("uno", "uno.json").unwrap();
    assert!(matches!(profiles.rename("one", "two"), Err(ProfileError::NotFound { .. })));
    profiles.save("one", &given, Keys::None, None).unwrap();
    assert!(matches!(profiles.rename("one", "uno"), Err(ProfileError::Exists(_))));
    profiles.delete("one").unwrap();
    profiles.delete("one").unwrap();
    fs::write(folder.path().join("later.json"), r#"{"model":"m","schema_version":2}"#).unwrap();
    assert!(matches!(profiles.load("later", None), Err(ProfileError::Version { .. })));
    fs::write(folder.path().join("torn.json"), r#"{"model":"#).unwrap();
    assert!(matches!(profiles.load("torn", None), Err(ProfileError::Settings { .. })));
    fs::write(folder.path().join("not a name.json"), "{}").unwrap();
    assert_eq!(profiles.list().unwrap(), ["later", "torn", "uno"]);
    assert_eq!(profiles.summaries().unwrap().len(), 2);
}

#[test]
fn a_folder_with_too_many_profiles_is_not_listed_and_its_profiles_can_still_be_used() {
    let folder = tempfile::tempdir().unwrap();
    let profiles = Profiles::open(folder.path()).unwrap();
    let given = settings(r#"{"model":"openai/gpt-4o"}"#);
    for number in 0..1000 {
        fs::write(folder.path().join(format!("p{number}.json")), r#"{"model":"m"}"#).unwrap();
    }
    assert_eq!(profiles.list().unwrap().len(), 1000);
    assert!(matches!(profiles.save("q", &given, Keys::None, Some(1000)), Err(ProfileError::TooMany(1000))));
    profiles.save("q", &given, Keys::None, None).unwrap();
    let crowded = profiles.list().unwrap_err().to_string();
    assert!(crowded.ends_with("has too many files to be listed: at most 1000 profiles are"), "{crowded}");
    assert!(matches!(profiles.summaries(), Err(ProfileError::Crowded(_))));
    assert!(matches!(profiles.save("r", &given, Keys::None, Some(50)), Err(ProfileError::TooMany(50))));
    assert_eq!(profiles.load("q", None).unwrap(), given);
    let Err(ProfileError::NotFound { known, .. }) = profiles.load("none", None) else { panic!() };
    assert_eq!(known.len(), 1000);
    profiles.delete("q").unwrap();
    assert_eq!(profiles.list().unwrap().len(), 1000);
}

#[test]
fn a_profile_takes_its_key_from_a_connection() {
    let folder = tempfile::tempdir().unwrap();
    let profiles = Profiles::open(folder.path().join("profiles")).unwrap();
    let given = settings(
        r#"{"model":"openai/gpt-4o","api_key":"old","base_url":"http://old","provider_connection_id":"shared"}"#,
    );
    profiles.save("linked", &given, Keys::Plain, None).unwrap();
    let error = profiles.load("linked", None).unwrap_err();
    assert!(matches!(error, ProfileError::NoConnection { .. }), "{error}");
    assert!(profiles.summaries().unwrap()[0].provider_connection_broken);
    let connections = folder.path().join("provider-connections");
    fs::create_dir(&connections).unwrap();
    let text = r#"{"schema_version":1,"connections":[{"id":"shared","display_name":"S","provider":"openai","api_key":"sk-shared","base_url":"http://new","created_at":1,"updated_at":1}]}"#;
    fs::write(connections.join("provider_connections.json"), text).unwrap();
    let read = profiles.load("linked", None).unwrap();
    assert_eq!((key(&read), read.base_url.as_deref()), (Some("sk-shared"), Some("http://new")));
    let summary = &profiles.summaries().unwrap()[0];
    assert!(summary.api_key_set && !summary.provider_connection_broken && summary.base_url.is_none());
}
