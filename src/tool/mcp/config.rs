//! Reads and checks an agent's `mcp_config`, which says how servers are reached.
//!
//! Values may be secrets, so none of these types prints them.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::expand::{References, expand};
use crate::json::Raw;
use crate::secret::without_credentials;

/// Returns the value of a name. `None` if the name has no value.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The configuration of one server.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerConfig {
    /// Its name in the configuration.
    pub name: String,
    /// How it is reached.
    pub reach: Reach,
    /// The time limit of a call. `None` for the default limit.
    pub timeout: Option<Duration>,
}

/// How a server is reached.
#[derive(Clone, PartialEq, Eq)]
pub enum Reach {
    /// The server is a program, and its pipes are the connection.
    Program {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Environment variables in addition to the few that every server gets.
        env: Vec<(String, String)>,
        /// The folder that it starts in. `None` for the workspace.
        cwd: Option<PathBuf>,
    },
    /// The server has an address and speaks HTTP.
    Address {
        /// The address.
        url: String,
        /// The headers of every request.
        headers: Vec<(String, String)>,
    },
}

/// Why a server cannot be used. Its message contains no credential of an address.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerProblem {
    /// The server's name.
    pub server: String,
    /// The kind of the problem.
    pub kind: ProblemKind,
    /// The reason as it came. It may contain the server's address and what the server wrote, and so a secret.
    pub(super) reason: String,
}

/// The kind of problem that a server has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProblemKind {
    /// Its entry in the configuration is invalid.
    Settings,
    /// It did not answer in time.
    TimedOut,
    /// It could not be started or reached, or it refused the connection.
    Refused,
}

impl ServerProblem {
    /// Returns the reason without the credentials of addresses.
    #[must_use]
    pub fn reason(&self) -> String {
        without_credentials(&self.reason)
    }

    /// Returns the message as it came. It is for a caller that masks known secrets and then hides the credentials of
    /// addresses. In the other order, a secret would not be recognised if a part of it is hidden already.
    pub(crate) fn unmasked(&self) -> String {
        format!("MCP server {:?}: {}", self.server, self.reason)
    }
}

impl fmt::Display for ServerProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&without_credentials(&self.unmasked()))
    }
}

impl fmt::Debug for ServerProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ServerProblem")
            .field("server", &self.server)
            .field("kind", &self.kind)
            .field("reason", &self.reason())
            .finish()
    }
}

impl std::error::Error for ServerProblem {}

impl fmt::Debug for ServerConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ServerConfig").field("name", &self.name).field("reach", &self.reach).finish()
    }
}

impl fmt::Debug for Reach {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Program { .. } => "Program(****)",
            Self::Address { .. } => "Address(****)",
        })
    }
}

impl ServerConfig {
    /// Reads one entry. `None` if the server is disabled. Without `value`, references in its texts are not replaced.
    #[must_use]
    pub fn read_one(
        name: &str,
        server: Raw<'_>,
        value: Option<Lookup<'_>>,
    ) -> Option<Result<Self, ServerProblem>> {
        if server.get("enabled").is_some_and(|enabled| enabled.text() == "false") {
            return None;
        }
        let problem = |reason| ServerProblem { server: name.to_owned(), kind: ProblemKind::Settings, reason };
        Some(Self::read(name, server, value).map_err(problem))
    }

    fn read(name: &str, server: Raw<'_>, value: Option<Lookup<'_>>) -> Result<Self, String> {
        if !server.is_object() {
            return Err("it is not an object".to_owned());
        }
        let entry = Entry { server, value };
        let transport = entry.text("transport")?.or(entry.text("type")?);
        let (command, url) = (entry.text("command")?, entry.text("url")?);
        let reach = match (transport.as_deref(), command, url) {
            (None | Some("stdio"), Some(command), _) => Reach::Program {
                command,
                args: entry.texts("args")?,
                env: entry.pairs(server.get("env"), "env")?,
                cwd: entry.text("cwd")?.map(PathBuf::from),
            },
            (Some("stdio"), None, _) => return Err("stdio MCP servers require 'command'".to_owned()),
            (Some("sse"), ..) => {
                return Err(
                    "the transport sse was removed from the protocol; use http if the server supports it"
                        .to_owned(),
                );
            }
            (None | Some("http" | "shttp" | "streamable-http"), _, Some(url)) => {
                Reach::Address { url, headers: entry.headers()? }
            }
            (Some("http" | "shttp" | "streamable-http"), _, None) => {
                return Err("remote MCP servers require 'url'".to_owned());
            }
            (None, None, None) => return Err("it has neither 'command' nor 'url'".to_owned()),
            (Some(_), ..) => return Err("its transport is unknown".to_owned()),
        };
        let timeout = server.get("timeout").filter(|timeout| !timeout.is_null());
        let timeout = timeout
            .map(|timeout| {
                let seconds = timeout.as_f64().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
                seconds.filter(|time| !time.is_zero()).ok_or("its timeout is not a number of seconds")
            })
            .transpose()?;
        Ok(Self { name: name.to_owned(), reach, timeout })
    }
}

/// One entry of the configuration, and the values of its references.
struct Entry<'a> {
    server: Raw<'a>,
    value: Option<Lookup<'a>>,
}

impl Entry<'_> {
    fn expand(&self, text: &str) -> String {
        match self.value {
            Some(value) => expand(text, References::Braced, value),
            None => text.to_owned(),
        }
    }

    /// Returns the text at `key`. `None` if there is none. Fails if it is empty or not a text.
    fn text(&self, key: &str) -> Result<Option<String>, String> {
        match self.server.get(key) {
            None => Ok(None),
            Some(value) if value.is_null() => Ok(None),
            Some(value) => match value.as_str() {
                Some(text) if !text.is_empty() => Ok(Some(self.expand(&text))),
                _ => Err(format!("its {key} is not a text")),
            },
        }
    }

    fn texts(&self, key: &str) -> Result<Vec<String>, String> {
        let Some(list) = self.server.get(key).filter(|list| !list.is_null()) else { return Ok(Vec::new()) };
        let texts = list.elements().map(|element| element.as_str().map(|text| self.expand(&text)));
        let texts: Option<Vec<String>> = texts.collect();
        texts.filter(|_| list.is_array()).ok_or_else(|| format!("its {key} are not a list of texts"))
    }

    fn pairs(&self, object: Option<Raw<'_>>, key: &str) -> Result<Vec<(String, String)>, String> {
        let Some(object) = object.filter(|object| !object.is_null()) else { return Ok(Vec::new()) };
        if !object.is_object() {
            return Err(format!("its {key} is not an object"));
        }
        let mut pairs = Vec::new();
        for (name, value) in object.members().filter(|(_, value)| !value.is_null()) {
            let value = value.as_str().ok_or_else(|| format!("in its {key}, {name} is not a text"))?;
            pairs.push((self.expand(&name), self.expand(&value)));
        }
        Ok(pairs)
    }

    /// Returns the headers, including the header for authentication.
    fn headers(&self) -> Result<Vec<(String, String)>, String> {
        let mut headers = self.pairs(self.server.get("headers"), "headers")?;
        let Some(auth) = self.server.get("auth").filter(|auth| !auth.is_null()) else { return Ok(headers) };
        if headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization")) {
            return Err("'auth' cannot be combined with an explicit top-level 'Authorization' header; use \
                        auth.strategy='header' instead."
                .to_owned());
        }
        let auth = Entry { server: auth, value: self.value };
        let bearer = |token: String| ("Authorization".to_owned(), format!("Bearer {token}"));
        match auth.text("strategy")?.as_deref() {
            Some("none") => {}
            Some("bearer") => headers.extend(auth.text("value")?.map(bearer)),
            Some("api_key") => headers.extend(match (auth.text("value")?, auth.text("header_name")?) {
                (Some(key), Some(name)) => Some((name, key)),
                (Some(key), None) => Some(bearer(key)),
                (None, _) => None,
            }),
            Some("basic") => {
                let name = auth.text("username")?.ok_or("basic authentication requires 'username'")?;
                headers.extend(auth.text("password")?.map(|password| {
                    let token = STANDARD.encode(format!("{name}:{password}"));
                    ("Authorization".to_owned(), format!("Basic {token}"))
                }));
            }
            Some("header") => {
                headers.extend(auth.pairs(auth.server.get("headers"), "auth.headers")?);
            }
            Some("oauth2") => {
                // This program cannot show a login page. It uses a token that was obtained elsewhere.
                let tokens = auth.server.get("state").and_then(|state| state.get("tokens"));
                let token = tokens.and_then(|tokens| tokens.get("access_token")).and_then(Raw::as_text);
                let token =
                    token.ok_or("oauth2 needs a token in auth.state; logging in is not possible here")?;
                headers.push(bearer(self.expand(&token)));
            }
            _ => return Err("its auth.strategy is unknown".to_owned()),
        }
        Ok(headers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(config: &str) -> (Vec<ServerConfig>, Vec<String>) {
        let value = |name: &str| (name == "KEY").then(|| "k3y".to_owned());
        let (servers, problems) = read_all(Raw::parse(config).unwrap(), &value);
        (servers, problems.iter().map(ToString::to_string).collect())
    }

    fn headers(auth: &str) -> Vec<(String, String)> {
        let (servers, problems) = read(&format!(r#"{{"s":{{"url":"http://h/","auth":{auth}}}}}"#));
        assert_eq!(problems, [""; 0]);
        match &servers[0].reach {
            Reach::Address { headers, .. } => headers.clone(),
            Reach::Program { .. } => panic!("{servers:?}"),
        }
    }

    /// Reads `{name: {..}}` or `{"mcpServers": {name: {..}}}`. Disabled servers are left out.
    fn read_all(
        config: Raw<'_>,
        value: &dyn Fn(&str) -> Option<String>,
    ) -> (Vec<ServerConfig>, Vec<ServerProblem>) {
        let inner = config.get("mcpServers").filter(|inner| inner.is_object() || inner.is_null());
        let (mut servers, mut problems) = (Vec::new(), Vec::new());
        for (name, server) in inner.unwrap_or(config).members() {
            match ServerConfig::read_one(&name, server, Some(value)) {
                Some(Ok(server)) => servers.push(server),
                Some(Err(problem)) => problems.push(problem),
                None => {}
            }
        }
        (servers, problems)
    }

    #[test]
    fn a_program_and_an_address_are_read_in_either_form() {
        let (servers, problems) = read(
            r#"{"mcpServers":{"a":{"command":"npx","args":["-y","${KEY}","${X:-d}"],"env":{"T":"${KEY}"},"cwd":"/c","timeout":2.5},
                "off":{"command":"x","enabled":false},"b":{"url":"https://h/${KEY}","type":"shttp","headers":{"X-K":"${KEY}"},"description":"d"}}}"#,
        );
        assert_eq!(problems, [""; 0]);
        assert_eq!(servers.len(), 2);
        assert_eq!(servers[0].timeout, Some(Duration::from_millis(2500)));
        assert_eq!(
            servers[0].reach,
            Reach::Program {
                command: "npx".to_owned(),
                args: vec!["-y".to_owned(), "k3y".to_owned(), "d".to_owned()],
                env: vec![("T".to_owned(), "k3y".to_owned())],
                cwd: Some("/c".into()),
            }
        );
        assert_eq!(
            servers[1].reach,
            Reach::Address {
                url: "https://h/k3y".to_owned(),
                headers: vec![("X-K".to_owned(), "k3y".to_owned())]
            }
        );
        assert!(!format!("{servers:?}").contains("k3y"));
        assert_eq!(read("{}"), (vec![], vec![]));
        assert_eq!(read(r#"{"mcpServers":null}"#), (vec![], vec![]));
    }

    #[test]
    fn a_problem_shows_no_credential_of_an_address() {
        for address in [
            "http://user:s3cret@h/mcp",
            "http://s3cret@h/mcp",
            "http://h/mcp?key=s3cret",
            "http://h/mcp?a=1&api_key=s3cret",
            "http://h/mcp?access_token=s3cret#a",
            "user:s3cret@h/mcp",
        ] {
            for reason in [
                address.to_owned(),
                format!("error sending request for url ({address})"),
                format!("no answer: npm warn '{address}'\nError: \"{address}\" refused"),
            ] {
                let problem = ServerProblem {
                    server: "s".to_owned(),
                    kind: ProblemKind::Refused,
                    reason: reason.clone(),
                };
                for shown in [problem.to_string(), problem.reason(), format!("{problem:?}")] {
                    assert!(shown.contains("****") && !shown.contains("s3cret"), "{shown}");
                }
                assert_eq!(problem.unmasked(), format!("MCP server \"s\": {reason}"));
            }
        }
    }

    #[test]
    fn authentication_becomes_a_header() {
        let pair = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
        assert_eq!(headers(r#"{"strategy":"none"}"#), []);
        assert_eq!(headers(r#"{"strategy":"bearer","value":"${KEY}"}"#), pair("Authorization", "Bearer k3y"));
        assert_eq!(headers(r#"{"strategy":"api_key","value":"x"}"#), pair("Authorization", "Bearer x"));
        assert_eq!(
            headers(r#"{"strategy":"api_key","value":"x","header_name":"X-Api"}"#),
            pair("X-Api", "x")
        );
        assert_eq!(
            headers(r#"{"strategy":"basic","username":"u","password":"p"}"#),
            pair("Authorization", "Basic dTpw")
        );
        assert_eq!(headers(r#"{"strategy":"header","headers":{"A":"b"}}"#), pair("A", "b"));
        assert_eq!(
            headers(r#"{"strategy":"oauth2","state":{"tokens":{"access_token":"t"}}}"#),
            pair("Authorization", "Bearer t")
        );
    }

    #[test]
    fn an_invalid_entry_does_not_affect_the_others() {
        let (servers, problems) = read(
            r#"{"good":{"command":"x"},"a":{},"b":{"transport":"stdio","url":"u"},"c":{"transport":"http","command":"x"},
                "d":{"url":"u","transport":"sse"},"e":3,"f":{"command":"x","args":"y"},"g":{"command":"x","timeout":-1},
                "h":{"url":"u","headers":{"authorization":"x"},"auth":{"strategy":"none"}},"i":{"url":"u","auth":{"strategy":"oauth2"}},
                "j":{"command":"x","env":{"A":1}},"k":{"transport":"smoke","command":"x"}}"#,
        );
        assert_eq!(servers.len(), 1);
        assert_eq!(problems.len(), 11);
        assert_eq!(problems[1], "MCP server \"b\": stdio MCP servers require 'command'");
        assert_eq!(problems[2], "MCP server \"c\": remote MCP servers require 'url'");
        assert!(problems[9].ends_with("in its env, A is not a text"), "{problems:?}");
    }
}
