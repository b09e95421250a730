//! Settings of models, compared with what the real SDK reads and writes.

use std::fs;

use annals::event::json::Raw;
use annals::llm::Settings;
use annals::secret::{Cipher, Form, StoredSecret};
use serde_json::Value;

use crate::support::golden;

fn written(settings: &Settings, form: Form<'_>) -> String {
    settings.to_json(form)
}

#[test]
fn settings_are_read_rejected_and_written_as_the_sdk_does() {
    let cases = fs::read_to_string(golden::folder("llm").join("settings.json")).unwrap();
    let cases: Vec<Value> = serde_json::from_str(&cases).unwrap();
    let no_cipher = Cipher::new("unused", &[]);
    for case in &cases {
        let given = case["given"].as_str().unwrap();
        let read = Settings::parse(given);
        if case.get("error").is_some() {
            assert!(read.is_err(), "{given}");
            continue;
        }
        let settings = read.unwrap();
        assert_eq!(written(&settings, Form::Stored(None)), case["dumped"].as_str().unwrap(), "{given}");
        assert_eq!(written(&settings, Form::Open(&no_cipher)), case["open"].as_str().unwrap(), "{given}");
    }
    assert!(cases.len() > 10);
}

#[test]
fn the_models_of_recorded_conversations_are_written_byte_for_byte() {
    let mut seen = 0;
    for folder in fs::read_dir(golden::folder("conversations")).unwrap() {
        let path = folder.unwrap().path().join("base_state.json");
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let state = Raw::parse(&text).unwrap();
        let llm = state.get("agent").and_then(|agent| agent.get("llm")).unwrap();
        let settings = Settings::from_raw(llm).unwrap();
        assert_eq!(written(&settings, Form::Stored(None)), llm.text(), "{}", path.display());
        seen += 1;
    }
    assert!(seen >= 8, "{seen}");
}

#[test]
fn unknown_settings_are_kept_and_a_sealed_key_stays_sealed() {
    let cipher = Cipher::new("right", &[]);
    let text = r#"{"model":"openai/m","api_key":"sk-1","future":{"b":1,"a":[1.50]},"api_mode":"telepathy"}"#;
    let settings = Settings::parse(text).unwrap();
    let sealed = written(&settings, Form::Stored(Some(&cipher)));
    assert!(
        sealed.contains(r#""api_key":"gAAAAA"#) && sealed.contains(r#""api_mode":"telepathy""#),
        "{sealed}"
    );
    assert!(sealed.contains(r#""future":{"b":1,"a":[1.5]}"#), "{sealed}");
    let mut read = Settings::parse(&sealed).unwrap();
    assert_eq!(written(&read, Form::Stored(None)), sealed);
    read.open(&Cipher::new("wrong", &[]));
    assert!(matches!(read.api_key, Some(StoredSecret::Sealed(_))));
    assert_eq!(written(&read, Form::Stored(None)), sealed);
    read.open(&cipher);
    assert_eq!(read.api_key.as_ref().and_then(StoredSecret::secret).map(|key| key.expose()), Some("sk-1"));
    let printed = format!("{read:?}");
    assert!(!printed.contains("sk-1") && printed.contains("**********"), "{printed}");
}

/// The expected settings are those that `LLM.load_from_env` of SDK 1.58 reads from the same variables.
#[test]
fn settings_come_from_variables() {
    let variables = [
        ("LLM_MODEL", "openai/gpt-4o"),
        ("LLM_API_KEY", "sk-1"),
        ("LLM_TIMEOUT", "9"),
        ("LLM_TEMPERATURE", "0.5"),
        ("LLM_NUM_RETRIES", "many"),
        ("LLM_STREAM", "Yes"),
        ("LLM_DISABLE_VISION", "off"),
        ("LLM_EXTRA_HEADERS", r#"{"X-A":"1"}"#),
        ("LLM_LITELLM_EXTRA_BODY", r#"{"a":1}"#),
        ("LLM_USAGE_ID", "7"),
        ("LLM_NO_SUCH", "x"),
        ("OTHER_MODEL", "y"),
    ];
    let own = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    let settings = Settings::from_variables(variables.into_iter().map(own), "LLM_").unwrap();
    let expected = r#"{"model":"openai/gpt-4o","api_key":"sk-1","timeout":9,"temperature":0.5,"stream":true,"disable_vision":false,"extra_headers":{"X-A":"1"},"litellm_extra_body":{"a":1},"usage_id":"7"}"#;
    assert_eq!(settings, Settings::parse(expected).unwrap());
    assert!(Settings::from_variables([], "LLM_").is_err());
}
