//! Finds the unsealed secrets in a conversation's base state.
//!
//! The reference usually masks or seals them (`docs/reference/secrets.md#on-disk`). If it was configured not to, or
//! another program wrote the document, the values are there in the open. Then they can be searched for everywhere else.

use super::finder::VALUE_BYTES_MIN;
use super::pattern;
use crate::json::{self, Raw, Sort};

/// Returns the secret values that a base state holds in the open, each with its label.
#[must_use]
pub fn open_secrets(base_state: &str) -> Vec<(String, String)> {
    let mut secrets: Vec<(String, String)> = Vec::new();
    // A document that is torn has no members to look up. What looks like a secret is found in it as in any text.
    let Ok(document) = Raw::parse(base_state) else { return secrets };
    json::walk(document, &mut |leaf, path| {
        if leaf.sort != Sort::Text {
            return;
        }
        let text = json::decoded(leaf.raw);
        let registered = path.member(0) == Some("secret_registry")
            && path.member(1) == Some("secret_sources")
            && path.member(3) == Some("value");
        let open = if registered {
            text.len() >= VALUE_BYTES_MIN && !pattern::is_stand_in(&text) && !pattern::is_sealed(&text)
        } else {
            path.name().is_some_and(pattern::names_a_secret) && pattern::looks_random(&text)
        };
        if open && !secrets.iter().any(|(_, known)| *known == text) {
            let label = match path.member(2).filter(|_| registered) {
                Some(name) => format!("secret {name}"),
                None => format!("base state {path}"),
            };
            secrets.push((label, text));
        }
    });
    secrets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masked_and_sealed_values_are_skipped() {
        let document = r#"{"agent":{"llm":{"model":"m1234567","api_key":"aB3dE5gH7jK9"}},"secret_registry":{"secret_sources":{
            "A":{"kind":"StaticSecret","value":"plain words"},"B":{"value":"**********"},"C":{"value":"gAAAAABlabc"},
            "D":{"kind":"LookupSecret","url":"http://a","headers":{"x-api-key":"kL5mN7pQ9"}}}}}"#;
        let pair = |label: &str, value: &str| (label.to_owned(), value.to_owned());
        assert_eq!(
            open_secrets(document),
            [
                pair("base state agent.llm.api_key", "aB3dE5gH7jK9"),
                pair("secret A", "plain words"),
                pair("base state secret_registry.secret_sources.D.headers.x-api-key", "kL5mN7pQ9"),
            ]
        );
    }
}
