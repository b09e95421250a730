//! `annals open`: the page over a file, in the person's browser, until it is told to end.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};

use serde_json::json;
use uuid::Uuid;

use super::arguments::Open;
use super::keys::Given;
use super::print::{Output, tell};
use super::{Place, REFUSED, quoted, serve};
use crate::error::Result;
use crate::store::Options;

pub(super) fn run(place: &Place<'_>, command: &Open, output: &Output) -> Result<u8> {
    let place = Place { path: command.file.as_deref().unwrap_or(place.path) };
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
    // The keys of the environment go on to be good, and to seal; one that is forgotten at the end must not.
    let given = Given::read()?;
    let mut config = serve::configured(place.path, &given, given.session_keys()?)?;
    let key = new_key();
    config.session_keys.push(key.clone());
    let store = place.open(&Options { create: false, ..Options::default() })?;
    let asked = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), command.port);
    serve::listen(store, config, asked, |store, url| {
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

/// A key that nobody can guess: 244 random bits, in letters that need no escape in an address.
fn new_key() -> String {
    format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple())
}

/// Has a browser show `address`, beside the server; says so where there is none.
fn show(address: String) {
    std::thread::spawn(move || {
        let named = std::env::var("BROWSER").unwrap_or_default();
        if !browsers(&named, &address).iter().any(|words| is_shown(words)) {
            tell(format_args!("annals: no browser could be started; open the address above in one"));
        }
    });
}

/// The commands that may show `address`, the best first: those that `BROWSER` names, else the system's.
///
/// `BROWSER` is a list with `:` between (`;` on Windows), `%s` standing for the address, which is added where it is not
/// named. Source: the convention that xdg-open, Python's webbrowser and man share.
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

/// Runs a command that writes nothing here and that a Ctrl-C for the server does not end; whether it did its work.
///
/// A browser that stays in the foreground is waited for: nobody minds.
fn is_shown(words: &[String]) -> bool {
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
    fn keys_are_long_and_never_twice() {
        let key = new_key();
        assert_eq!(key.len(), 64);
        assert!(key.bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert_ne!(key, new_key());
    }
}
