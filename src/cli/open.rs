//! `annals open`: serves a file's page and opens it in the user's browser, until Ctrl-C.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use clap::Args;
use serde_json::json;
use uuid::Uuid;

use super::journal::{Detail, Journal, LogArguments};
use super::keys::Given;
use super::listening::At;
use super::print::{Output, tell};
use super::{Place, REFUSED, quoted, serve};
use crate::error::Result;
use crate::store::Options;

/// Open the database in the browser: watch, search, understand and steer its conversations
///
/// Starts a separate server on a free port of this machine, with a new key for this run. The browser gets the key in
/// the address, after the `#`, so keep the address private. Ctrl-C ends the server. The variable BROWSER names the
/// browser; the other variables are the same as for `annals serve`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    annals open                        annals.db in this folder\n  \
    annals open team.db\n  \
    BROWSER=firefox annals open\n  \
    annals open --no-browser           prints the address only\n  \
    annals open --no-browser --port 8000   then at home: ssh -L 8000:127.0.0.1:8000 THERE")]
pub(super) struct Arguments {
    /// The database file; by default that of --db
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Print the address, and open no browser
    #[arg(long)]
    pub no_browser: bool,
    /// The port to listen on; 0 takes a free one
    #[arg(long, short, value_name = "PORT", default_value_t = 0)]
    pub port: u16,
}

pub(super) fn run(place: &Place<'_>, command: &Arguments, output: &Output) -> Result<u8> {
    let place = place.of(command.file.as_deref().unwrap_or(place.path));
    if place.path.is_dir() {
        output.fault(
            &format!("{} is a folder; a database is a file", place.path.display()),
            Some(format!(
                "`annals import {}` takes the conversations in it into annals.db, then `annals open`",
                quoted(place.path)
            )),
        );
        return Ok(REFUSED);
    }
    // The environment's keys stay valid, and they seal secrets. The new key must not seal: it is lost at the end.
    let given = Given::read()?;
    let mut config = serve::configured(place.path, &given, given.session_keys()?)?;
    let key = new_key();
    config.session_keys.push(key.clone());
    let store = place.open(&Options { create: false, ..Options::default() })?;
    let asked = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), command.port);
    // A person looks at the page, and only what is wrong is worth a line.
    let log = LogArguments { log_level: Some(Detail::Warn), ..LogArguments::default() };
    let _journal = Journal::start(log)?;
    let at = At::Tcp(asked);
    serve::listen(store, config, (&at, serve::bind(&at)?, None), |store, url| {
        let address = format!("{url}/#key={key}");
        if output.json {
            output.value(&json!({"url": address, "database": store.path()}))?;
        } else {
            output.line(format!("{} is open on {address}", store.path().display()))?;
            output.remark("Ctrl-C ends it.");
        }
        if !command.no_browser {
            show(address);
        }
        Ok(())
    })
}

/// Makes a key that cannot be guessed: 244 random bits, in characters that need no escape in an address.
fn new_key() -> String {
    format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple())
}

/// Opens `address` in a browser, on a separate thread. Prints a message if no browser can be started.
fn show(address: String) {
    std::thread::spawn(move || {
        let named = std::env::var("BROWSER").unwrap_or_default();
        if !browsers(&named, &address).iter().any(|words| run_browser(words)) {
            tell(format_args!("annals: no browser could be started; open the address above in one"));
        }
    });
}

/// Returns the commands that may show `address`, the best first: those of `BROWSER`, or else the system's.
///
/// `BROWSER` is a list separated by `:` (`;` on Windows). `%s` stands for the address; without it, the address is added
/// at the end. Source: the convention that xdg-open, Python's webbrowser and man share.
fn browsers(named: &str, address: &str) -> Vec<Vec<String>> {
    let separator = if cfg!(windows) { ';' } else { ':' };
    let named: Vec<Vec<String>> = named
        .split(separator)
        .filter(|command| !command.trim().is_empty())
        .map(|command| {
            let mut words: Vec<String> =
                command.split_whitespace().map(|word| word.replace("%s", address)).collect();
            if !command.contains("%s") {
                words.push(address.to_owned());
            }
            words
        })
        .collect();
    if !named.is_empty() {
        return named;
    }
    let system: &[&str] = if cfg!(target_os = "macos") {
        &["open"]
    } else if cfg!(windows) {
        &["rundll32", "url.dll,FileProtocolHandler"]
    } else {
        &["xdg-open"]
    };
    vec![system.iter().map(|&word| word.to_owned()).chain([address.to_owned()]).collect()]
}

/// Runs a browser's command without output, and returns whether it succeeded. Ctrl-C for the server does not end it.
///
/// If the browser stays in the foreground, this waits for it, but on a thread of its own.
fn run_browser(words: &[String]) -> bool {
    let [program, arguments @ ..] = words else { return false };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    command.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_browser_of_the_environment_comes_first() {
        let words = |list: &str| browsers(list, "http://h/#key=k");
        assert_eq!(words("firefox")[0], ["firefox", "http://h/#key=k"]);
        #[cfg(unix)]
        assert_eq!(
            words("lynx -x: w3m --to=%s now"),
            [vec!["lynx", "-x", "http://h/#key=k"], vec!["w3m", "--to=http://h/#key=k", "now"]]
        );
        assert_eq!(words(" ").len(), 1);
        assert_eq!(words("")[0].last().map(String::as_str), Some("http://h/#key=k"));
    }

    #[test]
    fn keys_are_long_and_unique() {
        let key = new_key();
        assert_eq!(key.len(), 64);
        assert!(key.bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert_ne!(key, new_key());
    }
}
