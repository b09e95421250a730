//! The secrets in a stored document: which members they are, and the document sealed, opened or with stars.
//!
//! Which members hold secrets is the reference's list (`runtime.md` section 6, and asking it): keys of a model,
//! the environment, headers and credentials of an MCP server, the secrets of an agent's context and of the
//! registry, and the session that an external agent goes on with.

use std::borrow::Cow;

use super::{Cipher, Held, REDACTED, is_secret_name};
use crate::event::dump::Out;
use crate::event::json::Raw;

/// In which form a document is wanted.
#[derive(Debug, Clone, Copy)]
pub enum Form<'c> {
    /// As the disk keeps it: sealed, or stars where there is no cipher. A token that no key opens is kept.
    Stored(Option<&'c Cipher>),
    /// As the program needs it: opened. What no key opens stays a token, which is never taken for a value.
    Open(&'c Cipher),
    /// As anybody may see it: stars.
    Redacted,
    /// As the server shows it: null.
    Null,
}

impl Form<'_> {
    /// The text of a secret in this form; `None` for null. `shown` is what stands there.
    fn of<'t>(&self, shown: &'t str) -> Option<Cow<'t, str>> {
        match self {
            Self::Stored(cipher) => {
                if let Some(cipher) = cipher
                    && Cipher::is_token(shown)
                {
                    return Some(cipher.renew(shown).map_or(Cow::Borrowed(shown), Cow::Owned));
                }
                Held::read(shown, *cipher)
                    .stored(*cipher)
                    .map_or(Some(Cow::Borrowed(shown)), |text| Some(text.into()))
            }
            Self::Open(cipher) => match Held::read(shown, Some(cipher)) {
                Held::Open(secret) => Some(secret.expose().to_owned().into()),
                Held::Sealed(_) | Held::Lost => Some(shown.into()),
            },
            Self::Redacted => Some(REDACTED.into()),
            Self::Null => None,
        }
    }
}

/// What the members of an object are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Anything with models, servers and contexts somewhere in it.
    Agent,
    /// Servers by name.
    Servers,
    /// One server, or its credentials.
    Server,
    /// Every value is a secret.
    AllSecret,
    /// Those are whose names say so.
    Headers,
    /// Sources by name.
    Sources,
    /// One source.
    Source,
}

/// An agent's JSON object in that form. Everything that is no secret stays as it was, byte for byte.
#[must_use]
pub fn agent(raw: Raw<'_>, form: Form<'_>) -> String {
    let mut out = Out::default();
    write(raw, Place::Agent, form, &mut out);
    out.finish()
}

/// Any JSON value that has agents in it, in that form.
#[must_use]
pub fn value(value: &serde_json::Value, form: Form<'_>) -> serde_json::Value {
    let text = value.to_string();
    let written = Raw::parse(&text).ok().map(|raw| agent(raw, form));
    // What was written from a value is one; in the place of what is none stands nothing that could hold a secret.
    written.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

/// A registry's JSON object (`{"secret_sources": ..}`) in that form.
#[must_use]
pub fn registry(raw: Raw<'_>, form: Form<'_>) -> String {
    agent(raw, form)
}

/// Whether `new` says what a stored document says, sealed once more: no two tokens of a secret are the same. False where
/// the stored one has to be written anew nevertheless, because a secret in it is open or under an earlier key.
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
        assert!(!same(AGENT, &again), "what is open has to be sealed");
        assert!(!same(&form(AGENT, Form::Stored(Some(&wrong))), &again), "and what another key sealed");
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
