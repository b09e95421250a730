//! The secrets in a stored document: finds the members that hold secrets, and seals, opens or redacts them.
//!
//! The list of these members is the reference's (`docs/reference/secrets.md#on-disk`, and trying it out): keys of a
//! model; environment, headers and credentials of an MCP server; the secrets of an agent's context and of the registry;
//! and the id of the session that an external agent resumes.

use std::borrow::Cow;

use super::{Cipher, REDACTED, StoredSecret, is_secret_name};
use crate::json::{Out, Raw};

/// The form in which the secrets of a document are written.
#[derive(Debug, Clone, Copy)]
pub enum Form<'c> {
    /// As stored on disk: sealed, or stars without a cipher. A token that no key opens is kept.
    Stored(Option<&'c Cipher>),
    /// As the program needs it: opened. A token that no key opens stays a token, and is never used as a value.
    Open(&'c Cipher),
    /// For display to anyone: stars.
    Redacted,
    /// As the server shows it: null.
    Null,
}

impl Form<'_> {
    /// Returns the text of a secret in this form, `None` for null. `shown` is the member's present text.
    fn of<'t>(&self, shown: &'t str) -> Option<Cow<'t, str>> {
        match self {
            Self::Stored(cipher) => {
                if let Some(cipher) = cipher
                    && Cipher::is_token(shown)
                {
                    return Some(cipher.renew(shown).map_or(Cow::Borrowed(shown), Cow::Owned));
                }
                StoredSecret::read(shown, *cipher)
                    .stored(*cipher)
                    .map_or(Some(Cow::Borrowed(shown)), |text| Some(text.into()))
            }
            Self::Open(cipher) => match StoredSecret::read(shown, Some(cipher)) {
                StoredSecret::Open(secret) => Some(secret.expose().to_owned().into()),
                StoredSecret::Sealed(_) | StoredSecret::Lost => Some(shown.into()),
            },
            Self::Redacted => Some(REDACTED.into()),
            Self::Null => None,
        }
    }
}

/// The kind of JSON object, which decides which of its members are secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// An agent, or any value with models, servers and contexts somewhere in it.
    Agent,
    /// Servers by name.
    Servers,
    /// One server, or its credentials.
    Server,
    /// Every value is a secret.
    AllSecret,
    /// A value is a secret if its name is that of one ([`is_secret_name`]).
    Headers,
    /// Sources by name.
    Sources,
    /// One source.
    Source,
}

/// Returns an agent's JSON object in that form. All values that are not secrets stay the same, byte for byte.
#[must_use]
pub fn agent(raw: Raw<'_>, form: Form<'_>) -> String {
    let mut out = Out::default();
    write(raw, Place::Agent, form, &mut out);
    out.finish()
}

/// Returns a JSON value that has agents in it, in that form.
#[must_use]
pub fn value(value: &serde_json::Value, form: Form<'_>) -> serde_json::Value {
    let text = value.to_string();
    let written = Raw::parse(&text).ok().map(|raw| agent(raw, form));
    // The written text always parses. If it did not, null is returned, which holds no secret.
    written.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

/// Returns a registry's JSON object (`{"secret_sources": ..}`) in that form.
#[must_use]
pub fn registry(raw: Raw<'_>, form: Form<'_>) -> String {
    agent(raw, form)
}

/// Returns whether `new` has the same content as a stored document. The texts may differ although the content is the
/// same, because each sealing of a secret gives a different token. Also returns false if the stored document has to be
/// written again because a secret in it is not sealed, or is sealed under an earlier key.
#[must_use]
pub fn is_same(stored: Raw<'_>, new: &str, cipher: Option<&Cipher>) -> bool {
    if stored.text() == new {
        return true;
    }
    let (Some(cipher), Ok(new)) = (cipher, Raw::parse(new)) else { return false };
    agent(stored, Form::Stored(Some(cipher))) == stored.text()
        && agent(stored, Form::Open(cipher)) == agent(new, Form::Open(cipher))
}

fn write(raw: Raw<'_>, place: Place, form: Form<'_>, out: &mut Out) {
    if raw.is_array() && place == Place::Agent {
        out.open("[");
        for element in raw.elements() {
            out.next();
            write(element, place, form, out);
        }
        return out.close("]");
    }
    if !raw.is_object() {
        return out.raw(raw.text());
    }
    out.open("{");
    for (name, value) in raw.members() {
        out.key(&name);
        match value.as_str() {
            Some(text) if is_secret(place, &name) => match form.of(&text) {
                Some(text) => out.text(&text),
                None => out.raw("null"),
            },
            Some(_) | None => write(value, inside(place, &name), form, out),
        }
    }
    out.close("}");
}

fn is_secret(place: Place, name: &str) -> bool {
    match place {
        Place::Agent => matches!(
            name,
            "api_key"
                | "aws_access_key_id"
                | "aws_secret_access_key"
                | "aws_session_token"
                | "acp_resume_session_id"
        ),
        Place::Server => {
            matches!(
                name,
                "value" | "password" | "access_token" | "refresh_token" | "client_secret" | "api_key"
            )
        }
        Place::AllSecret | Place::Sources => true,
        Place::Headers => is_secret_name(name),
        Place::Source => name == "value",
        Place::Servers => false,
    }
}

fn inside(place: Place, name: &str) -> Place {
    match (place, name) {
        (Place::Agent, "mcp_config" | "mcp_servers" | "mcpServers") => Place::Servers,
        (Place::Agent, "secrets" | "secret_sources") => Place::Sources,
        (Place::Servers, "mcpServers") => Place::Servers,
        (Place::Servers, _) => Place::Server,
        (Place::Server, "env" | "headers") => Place::AllSecret,
        (Place::Sources, _) => Place::Source,
        (Place::Source, "headers") => Place::Headers,
        (place, _) => place,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGENT: &str = r#"{"llm":{"model":"m","api_key":"k1","temperature":0.50},"tools":[{"name":"terminal"}],"mcp_config":{"s":{"command":"c","env":{"A":"k2"},"auth":{"strategy":"bearer","value":"k3"}}},"agent_context":{"secrets":{"T":"k4","U":{"url":"u","headers":{"X-Api-Key":"k5","Accept":"a"},"kind":"LookupSecret"}}},"kind":"Agent"}"#;

    fn form(text: &str, form: Form<'_>) -> String {
        agent(Raw::parse(text).unwrap(), form)
    }

    #[test]
    fn only_secrets_change_and_they_come_back() {
        let stars = (1..6).fold(AGENT.to_owned(), |text, n| text.replace(&format!("k{n}"), REDACTED));
        assert_eq!(form(AGENT, Form::Redacted), stars);
        assert_eq!(form(AGENT, Form::Stored(None)), stars);
        let (cipher, wrong) = (Cipher::new("k", &[]), Cipher::new("w", &[]));
        let sealed = form(AGENT, Form::Stored(Some(&cipher)));
        let again = form(AGENT, Form::Stored(Some(&cipher)));
        assert_ne!(sealed, again);
        let same = |old: &str, new: &str| is_same(Raw::parse(old).unwrap(), new, Some(&cipher));
        assert!(same(&sealed, &again) && same(&sealed, &sealed));
        assert!(!same(AGENT, &again), "open secrets have to be sealed");
        assert!(!same(&form(AGENT, Form::Stored(Some(&wrong))), &again), "and so have those of another key");
        assert!(!is_same(Raw::parse(&sealed).unwrap(), &again, None));
        assert_eq!(sealed.matches("gAAAAA").count(), 5);
        assert_eq!(form(&sealed, Form::Open(&cipher)), AGENT);
        assert_eq!(form(&sealed, Form::Open(&wrong)), sealed);
        assert_eq!(form(&sealed, Form::Stored(Some(&wrong))), sealed);
        assert_eq!(form(&sealed, Form::Stored(Some(&cipher))), sealed);
        assert_eq!(form(&sealed, Form::Stored(None)), sealed);
        assert_eq!(form(&stars, Form::Stored(Some(&cipher))), stars);
        assert!(form(AGENT, Form::Null).contains(r#""api_key":null"#));
    }
}
