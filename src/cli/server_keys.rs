//! `annals keys server`: the named keys of a server.

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use super::print::{Output, row, table, time};
use super::{DONE, Place};
use crate::chain::Digest;
use crate::error::{Error, Result};
use crate::store::{KeyRole, ServerKey};

/// The beginning of every key. It tells what the text is, also to programs that look for secrets.
const PREFIX: &str = "annals-key-";

/// Named keys of a server: add, list and revoke them
///
/// A named key belongs to one person or program, and has a role. A server on this database accepts it at its next
/// request, without a restart, and refuses every request without a key from then on. The database has only the SHA-256
/// of a key. What the holder does is recorded under the key's name.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals keys server add ann --role read       prints the key, once
  annals keys server add ci --role write
  annals keys server list
  annals keys server revoke ann                also ends the sockets that are open with it")]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a key and print it, once
    Add {
        /// Whose key it is: 1 to 64 letters, digits, `.`, `_`, `-` or `@`
        name: String,
        /// What it allows
        #[arg(long, value_enum)]
        role: Role,
    },
    /// List the keys, also those that were revoked
    List,
    /// Revoke a key: the next request with it is refused, and open sockets end
    Revoke {
        /// Whose key it is
        name: String,
    },
}

/// The role of a key, as it is typed.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Role {
    /// Read conversations, reports and the log; search and query
    Read,
    /// Also answer what waits for a person, and stop runs
    Approve,
    /// Also create, change and run conversations: their agents run commands on the server's machine
    Write,
    /// Everything: delete, settings, secrets, files and commands of the machine
    Admin,
}

impl From<Role> for KeyRole {
    fn from(role: Role) -> Self {
        match role {
            Role::Read => Self::Read,
            Role::Approve => Self::Approve,
            Role::Write => Self::Write,
            Role::Admin => Self::Admin,
        }
    }
}

pub(super) fn run(place: &Place<'_>, command: &Arguments, output: &Output) -> Result<u8> {
    match &command.command {
        Command::Add { name, role } => add(place, name, (*role).into(), output),
        Command::List => list(place, output),
        Command::Revoke { name } => revoke(place, name, output),
    }
}

fn add(place: &Place<'_>, name: &str, role: KeyRole, output: &Output) -> Result<u8> {
    let store = place.create()?;
    let key = new_key()?;
    let added = store.maintenance().add_server_key(name, role, Digest::of(key.as_bytes()))?;
    if output.json {
        let mut shown = value(&added);
        shown["key"] = json!(key);
        output.value(&shown)?;
    } else {
        output.line(&key)?;
        output.remark(format!(
            "This is the key of {name}, with the role {}. It is shown only now. Clients send it in the header \
             X-Session-API-Key.",
            role.as_str()
        ));
    }
    Ok(DONE)
}

fn list(place: &Place<'_>, output: &Output) -> Result<u8> {
    let keys = place.read()?.maintenance().server_keys()?;
    if output.json {
        for key in &keys {
            output.value(&value(key))?;
        }
        return Ok(DONE);
    }
    if keys.is_empty() {
        output.line("no named keys; `annals keys server add NAME --role ROLE` makes one")?;
        return Ok(DONE);
    }
    let mut rows = table(&["name", "role", "made", "revoked"], &[]);
    for key in &keys {
        let revoked = key.revoked_at.map_or_else(|| "-".to_owned(), time);
        rows.add_row(row([key.name.clone(), role(key).to_owned(), time(key.made_at), revoked]));
    }
    output.table(rows)?;
    Ok(DONE)
}

fn revoke(place: &Place<'_>, name: &str, output: &Output) -> Result<u8> {
    let key = place.write()?.maintenance().revoke_server_key(name)?;
    if output.json {
        output.value(&value(&key))?;
    } else {
        output.line(format!("revoked the key of {name}"))?;
    }
    Ok(DONE)
}

fn role(key: &ServerKey) -> &'static str {
    key.role.map_or("?", KeyRole::as_str)
}

fn value(key: &ServerKey) -> Value {
    json!({
        "name": key.name,
        "role": role(key),
        "made_at": key.made_at.to_rfc3339(),
        "revoked_at": key.revoked_at.map(|at| at.to_rfc3339()),
    })
}

/// Makes a key of 256 random bits, in characters that need no escape in a header or an address.
fn new_key() -> Result<String> {
    let mut bits = [0; 32];
    getrandom::fill(&mut bits).map_err(|error| Error::Io {
        doing: "making a key with",
        path: "the system's random numbers".into(),
        source: std::io::Error::other(error),
    })?;
    Ok(format!("{PREFIX}{}", Digest(bits)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_long_and_unique() {
        let key = new_key().unwrap();
        let bits = key.strip_prefix(PREFIX).unwrap();
        assert!(bits.len() == 64 && bits.bytes().all(|byte| byte.is_ascii_hexdigit()), "{key}");
        assert_ne!(key, new_key().unwrap());
    }
}
