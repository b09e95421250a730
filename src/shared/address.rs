//! Where a shared log is: a database of PostgreSQL, and a schema in it.

use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls_platform_verifier::ConfigVerifierExt as _;
use tokio_postgres::Config;
use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error::{Result, SharedError};

/// The schema, if an address names none.
const SCHEMA: &str = "annals";

/// The longest name of a schema: PostgreSQL cuts longer names.
const SCHEMA_BYTES_MAX: usize = 63;

/// How long a server that does not answer is waited for.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a connection may be silent before it is lost.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Where a shared log is. It may hold a password, so it is never shown.
#[derive(Clone)]
pub(super) struct Address {
    pub(super) config: Config,
    pub(super) schema: String,
}

impl Address {
    /// Reads `postgres://user:password@host/database?schema=NAME`, or the words of libpq (`host=… dbname=… schema=…`).
    ///
    /// # Errors
    /// [`SharedError::Address`].
    pub(super) fn parse(text: &str) -> Result<Self> {
        let (rest, schema) = split_schema(text)?;
        let wrong = |what: String| SharedError::Address { what };
        let mut config: Config = rest.parse().map_err(|error: tokio_postgres::Error| {
            // The error names a parameter, and never its value.
            let source = std::error::Error::source(&error).map(ToString::to_string);
            wrong(source.unwrap_or_else(|| error.to_string()))
        })?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(wrong("it names no host".into()).into());
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        if config.get_tcp_user_timeout().is_none() {
            // Otherwise a lost connection is noticed after a quarter of an hour.
            config.tcp_user_timeout(SILENCE_MAX);
            config.keepalives_idle(SILENCE_MAX / 2);
            config.keepalives_interval(SILENCE_MAX / 6);
            config.keepalives_retries(3);
        }
        if config.get_application_name().is_none() {
            config.application_name("annals");
        }
        Ok(Self { config, schema })
    }

    /// Returns the schema in quotes, as a statement names it.
    pub(super) fn quoted(&self) -> String {
        format!("\"{}\"", self.schema)
    }

    /// Returns how the connection is encrypted. `None` if the address says that it is not.
    ///
    /// # Errors
    /// [`SharedError::Address`] if the system has no certificates to trust.
    pub(super) fn tls(&self) -> Result<Option<MakeRustlsConnect>> {
        if self.config.get_ssl_mode() == SslMode::Disable {
            return Ok(None);
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let _is_set_already = provider.as_ref().clone().install_default();
        let config = ClientConfig::with_platform_verifier()
            .map_err(|error| SharedError::Address { what: format!("no certificates to trust: {error}") })?;
        Ok(Some(MakeRustlsConnect::new(config)))
    }
}

/// Takes `schema` out of an address.
fn split_schema(text: &str) -> Result<(String, String)> {
    let is_url = text.starts_with("postgres://") || text.starts_with("postgresql://");
    let (before, words, separator) = match (is_url, text.split_once('?')) {
        (true, Some((before, query))) => (before, query.split('&').collect::<Vec<_>>(), "&"),
        (true, None) => (text, Vec::new(), "&"),
        (false, _) => ("", text.split_whitespace().collect(), " "),
    };
    let named = |word: &&str| word.starts_with("schema=");
    let schema = words.iter().rev().find(|word| named(word)).map_or(SCHEMA, |word| &word["schema=".len()..]);
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let is_name = schema.bytes().all(allowed)
        && schema.starts_with(|first: char| first.is_ascii_lowercase())
        && schema.len() <= SCHEMA_BYTES_MAX
        && !schema.starts_with("pg_");
    if !is_name {
        let what =
            "a schema has up to 63 letters (a to z), digits and _, begins with a letter and not with pg_";
        return Err(SharedError::Address { what: what.into() }.into());
    }
    let rest: Vec<&str> = words.iter().copied().filter(|word| !named(word)).collect();
    let mark = if is_url && !rest.is_empty() { "?" } else { "" };
    Ok((format!("{before}{mark}{}", rest.join(separator)), schema.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_a_schema() {
        for (text, rest, schema) in [
            ("postgres://u@h/d", "postgres://u@h/d", "annals"),
            ("postgresql://h/d?schema=team_1", "postgresql://h/d", "team_1"),
            (
                "postgres://h/d?sslmode=require&schema=a&connect_timeout=3",
                "postgres://h/d?sslmode=require&connect_timeout=3",
                "a",
            ),
            ("host=/tmp dbname=d schema=b user=u", "host=/tmp dbname=d user=u", "b"),
        ] {
            assert_eq!(split_schema(text).unwrap(), (rest.into(), schema.into()), "{text}");
            assert!(Address::parse(text).is_ok(), "{text}");
        }
        for wrong in [
            "postgres://h/d?schema=",
            "postgres://h/d?schema=a\"b",
            "postgres://h/d?schema=pg_x",
            "postgres://h/d?schema=A",
            "postgres://h/d?what=1",
            "mysql://h/d",
            "",
        ] {
            assert!(Address::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_error_about_an_address_has_no_password() {
        let Err(error) = Address::parse("postgres://u:geheim@h/d?sslmode=geheim") else { panic!("refused") };
        assert!(!format!("{error} {error:?}").contains("geheim"), "{error:?}");
    }
}
