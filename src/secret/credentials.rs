//! Hides the credentials in texts that are shown or stored: sources, addresses, messages of git and of servers.
//!
//! This is the one place that hides those of addresses. It finds the user name and the password before a host, the
//! values of parameters that are named like a secret, and a user name with a password that begins an address without a
//! scheme. A plain reference to a secret, `${NAME}`, is not a credential. Where an address is ambiguous, more is hidden
//! rather than less.

use std::ops::Range;
use std::sync::LazyLock;

use regex::{Captures, Regex};

/// The text that replaces a credential.
const STARS: &str = "****";

/// The password that goes with a token as the user name.
/// Source: <https://github.blog/2012-09-21-easier-builds-and-deployments-using-git-over-https-and-oauth/>
const NO_PASSWORD: &str = "x-oauth-basic";

/// Matches a reference to a secret: `${NAME}` or `${NAME:-default}`. Group 1 is the name.
pub(crate) static REFERENCE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-[^}]*)?\}").expect("the pattern is checked by a test")
});

/// Matches a plain reference to a secret. A default value in a reference could be a secret itself.
static PLAIN: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}").expect("the pattern is checked by a test"));

/// Matches a user name and a password at the beginning of an address without a scheme.
static LOOSE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"(?:^|[\s'"`(=,])([^\s'"`(=,/\\:@]+:[^\s/\\@]+)@"#)
        .expect("the pattern is checked by a test")
});

/// A part of an address that holds credentials.
enum Part {
    /// The user name and the password. `@` follows.
    User,
    /// The value of a parameter.
    Value,
}

/// Replaces the credentials in a text by stars. Plain references to secrets stay.
#[must_use]
pub fn without_credentials(text: &str) -> String {
    let of_addresses = parts(text).into_iter().flat_map(|(part, range)| match part {
        Part::User => user(text, range),
        Part::Value => literals(text, range),
    });
    let loose = LOOSE.captures_iter(text).filter_map(|found| found.get(1));
    let loose = loose.flat_map(|found| user(text, found.range()));
    replaced(text, of_addresses.chain(loose).collect(), STARS)
}

/// Replaces the values of secrets in a text by stars, and then all other credentials.
pub(crate) fn shown(text: &str, secrets: &[String]) -> String {
    without_credentials(&hide(text, secrets))
}

/// Replaces the values of secrets in a text by stars. A value that contains another one is replaced whole.
pub(crate) fn hide(text: &str, secrets: &[String]) -> String {
    let mut values: Vec<&String> = secrets.iter().filter(|value| !value.is_empty()).collect();
    values.sort_by_key(|value| std::cmp::Reverse(value.len()));
    values.into_iter().fold(text.to_owned(), |text, value| text.replace(value.as_str(), STARS))
}

/// Returns an address without its credentials, so that they do not change a name that is made from it.
pub(crate) fn bare(address: &str) -> String {
    let removed = parts(address).into_iter().map(|(part, range)| match part {
        Part::User => range.start..range.end + 1,
        Part::Value => range,
    });
    replaced(address, removed.collect(), "")
}

/// Returns the parts of all addresses in a text that hold credentials. Takes a time that is proportional to the length.
fn parts(text: &str) -> Vec<(Part, Range<usize>)> {
    const SCHEME_END: &str = "://";
    // A default value may have any sign of an address. Zeros may stand in each part of one, also in a port.
    let text = REFERENCE.replace_all(text, |found: &Captures<'_>| "0".repeat(found[0].len()));
    let (mut parts, mut end) = (Vec::new(), 0);
    for piece in text.split_inclusive(char::is_whitespace) {
        let (start, word) = (end, piece.trim_end());
        end += piece.len();
        let Some(first) = word.find(SCHEME_END) else { continue };
        for (at, _) in word.match_indices(SCHEME_END) {
            let from = at + SCHEME_END.len();
            let length = word[from..].find(SCHEME_END).unwrap_or(word.len() - from);
            if let Some(length) = user_length(&word[from..from + length]) {
                parts.push((Part::User, start + from..start + from + length));
            }
        }
        let of_text = |value: Range<usize>| start + first + value.start..start + first + value.end;
        parts.extend(values(&word[first..]).into_iter().map(|value| (Part::Value, of_text(value))));
    }
    parts
}

/// Returns the length of the user name and the password that an address without its scheme begins with. `None` if it
/// has neither.
fn user_length(address: &str) -> Option<usize> {
    let authority = address.split('/').next().unwrap_or(address);
    if let Some(end) = authority.rfind('@') {
        return Some(end).filter(|end| *end > 0);
    }
    // A port that is no number is the beginning of a password with a slash in it.
    let (_, port) = authority.split_once(':')?;
    let is_port = authority.starts_with('[') || port.bytes().all(|byte| byte.is_ascii_digit());
    if is_port { None } else { address.rfind('@') }
}

/// Returns the values of an address' parameters that are named like a secret.
fn values(address: &str) -> Vec<Range<usize>> {
    const SEPARATORS: [char; 4] = ['?', '&', ';', '#'];
    // A quote or a bracket ends an address within a text. A semicolon may be a part of a value.
    const ENDS: [char; 7] = ['&', '#', '\'', '"', '`', '<', '>'];
    let mut found: Vec<Range<usize>> = Vec::new();
    for (at, separator) in address.match_indices(SEPARATORS) {
        if found.last().is_some_and(|last| at < last.end) {
            continue;
        }
        let name_start = at + separator.len();
        let rest = &address[name_start..];
        let end = rest.find(|letter: char| letter == '=' || SEPARATORS.contains(&letter));
        let Some(equals) = end.filter(|end| rest[*end..].starts_with('=')) else { continue };
        if names_a_secret(&rest[..equals]) {
            let start = name_start + equals + 1;
            let length = address[start..].find(ENDS).unwrap_or(address.len() - start);
            found.push(start..start + length);
        }
    }
    found
}

/// Returns whether a parameter of this name may hold a secret.
fn names_a_secret(name: &str) -> bool {
    const PARTS: [&str; 13] = [
        "authorization",
        "bearer",
        "cookie",
        "credential",
        "key",
        "passphrase",
        "passwd",
        "password",
        "pwd",
        "secret",
        "session",
        "signature",
        "token",
    ];
    const NAMES: [&str; 6] = ["auth", "code", "jwt", "pass", "pat", "sig"];
    let lower = name.to_ascii_lowercase();
    NAMES.contains(&lower.as_str()) || PARTS.iter().any(|part| lower.contains(part))
}

/// Returns what is to be hidden of a user name and a password: both, or what is no reference to a secret in the
/// password. Without a password, the user name counts as one.
fn user(text: &str, range: Range<usize>) -> Vec<Range<usize>> {
    let whole = &text[range.clone()];
    if !PLAIN.is_match(whole) {
        return vec![range];
    }
    let start = whole.find(':').map_or(range.start, |at| range.start + at + 1);
    let password = start..range.end;
    if &text[password.clone()] == NO_PASSWORD { Vec::new() } else { literals(text, password) }
}

/// Returns the parts of a range that are no plain references to secrets.
fn literals(text: &str, range: Range<usize>) -> Vec<Range<usize>> {
    let (mut found, mut done) = (Vec::new(), range.start);
    for reference in PLAIN.find_iter(&text[range.clone()]) {
        let start = range.start + reference.start();
        if start > done {
            found.push(done..start);
        }
        done = range.start + reference.end();
    }
    if range.end > done {
        found.push(done..range.end);
    }
    found
}

/// Replaces ranges of a text. Ranges that overlap are replaced together.
fn replaced(text: &str, mut ranges: Vec<Range<usize>>, by: &str) -> String {
    ranges.sort_unstable_by_key(|range| range.start);
    let (mut out, mut done) = (String::with_capacity(text.len()), 0);
    for range in ranges {
        if range.start >= done {
            out.push_str(&text[done..range.start]);
            out.push_str(by);
        }
        done = done.max(range.end);
    }
    out.push_str(&text[done..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_of_addresses_are_hidden_and_nothing_else_is() {
        for (text, expected) in [
            // Before the host, with any scheme.
            ("https://user:s3cret@h/r.git", "https://****@h/r.git"),
            ("HTTPS://s3cret@h", "HTTPS://****@h"),
            ("git://user:s3cret@h/r", "git://****@h/r"),
            ("ssh://git:s3cret@h:22/r", "ssh://****@h:22/r"),
            ("https://user:s3c@ret@h/r", "https://****@h/r"),
            ("https://user:s3c/ret@h/r", "https://****@h/r"),
            ("https://user:s3c?ret@h/r", "https://****@h/r"),
            ("https://user:s3c'ret@h/r", "https://****@h/r"),
            // In parameters.
            ("https://h/r?private_token=s3cret", "https://h/r?private_token=****"),
            ("https://h/r?access_token=s3cret&a=1", "https://h/r?access_token=****&a=1"),
            ("https://h/r?a=1&token=s3c/r+e=t", "https://h/r?a=1&token=****"),
            ("https://h/r?key=s3cret#top", "https://h/r?key=****#top"),
            ("https://h/r?API_KEY=s3c;ret", "https://h/r?API_KEY=****"),
            ("https://h/r?a=1;password=s3cret", "https://h/r?a=1;password=****"),
            ("https://h/r#access_token=s3cret", "https://h/r#access_token=****"),
            ("https://h/r?X-Amz-Signature=s3cret", "https://h/r?X-Amz-Signature=****"),
            ("https://h/r?sig=s3cret&se=2030", "https://h/r?sig=****&se=2030"),
            ("file:///r?token=s3cret", "file:///r?token=****"),
            // In both, and where one looks like the other.
            ("https://u:s3cret@h/r?token=s3cret", "https://****@h/r?token=****"),
            ("https://h?token=s3c@ret", "https://****"),
            ("https://user:s3c?key=r@et", "https://****"),
            // Without a scheme.
            ("user:s3cret@h/r", "****@h/r"),
            ("cannot read 'user:s3cret@h:r'", "cannot read '****@h:r'"),
            // In the middle of a text.
            (
                "fatal: unable to access 'https://u:s3cret@h/r?token=s3cret': no such host, see https://h:s3cret@i.",
                "fatal: unable to access 'https://****@h/r?token=****': no such host, see https://****@i.",
            ),
            ("[https://a,https://u:s3cret@b]", "[https://a,https://****@b]"),
            (r#"{"url":"https://h/?key=s3cret","a":1}"#, r#"{"url":"https://h/?key=****","a":1}"#),
            // References stay. What stands beside them and in them does not.
            ("https://x:${TOKEN}@h/r", "https://x:${TOKEN}@h/r"),
            ("https://${TOKEN}@h/r", "https://${TOKEN}@h/r"),
            ("https://${TOKEN}:x-oauth-basic@h/r", "https://${TOKEN}:x-oauth-basic@h/r"),
            ("https://${USER}:s3cret@h/r", "https://${USER}:****@h/r"),
            ("https://x:s3cret${EMPTY}@h/r", "https://x:****${EMPTY}@h/r"),
            ("https://x:${TOKEN:-s3cret}@h/r", "https://****@h/r"),
            ("https://x:${TOKEN:-s3c@r/e t}@h/r", "https://****@h/r"),
            ("https://h/r?token=${TOKEN}", "https://h/r?token=${TOKEN}"),
            ("https://h/r?token=${TOKEN:-s3cret}", "https://h/r?token=****"),
            ("https://h/r?token=${TOKEN}s3cret", "https://h/r?token=${TOKEN}****"),
            ("x:${TOKEN}@h/r", "x:${TOKEN}@h/r"),
            // There is nothing to hide.
            ("https://github.com/owner/repo.git", "https://github.com/owner/repo.git"),
            ("https://h:8080/a@b?page=2&q=x#part", "https://h:8080/a@b?page=2&q=x#part"),
            ("https://[::1]:8080/a@b", "https://[::1]:8080/a@b"),
            ("https://${HOST}:${PORT}/a@b", "https://${HOST}:${PORT}/a@b"),
            ("https://@h/r?token=&a", "https://@h/r?token=&a"),
            ("git@github.com:owner/repo.git", "git@github.com:owner/repo.git"),
            ("github:owner/repo/path@1", "github:owner/repo/path@1"),
            ("/home/me/a:b@c/plugin", "/home/me/a:b@c/plugin"),
            (r"C:\me@home", r"C:\me@home"),
            (
                "Use 'name@<marketplace-name>': it is ambiguous",
                "Use 'name@<marketplace-name>': it is ambiguous",
            ),
            ("://", "://"),
            ("", ""),
        ] {
            let shown = without_credentials(text);
            assert_eq!(shown, expected, "{text}");
            assert_eq!(without_credentials(&shown), shown, "{text}");
        }
    }

    #[test]
    fn a_secret_is_hidden_before_its_address_is_read() {
        let secrets = ["p@ss".to_owned(), "p@ss/word".to_owned(), String::new()];
        assert_eq!(shown("https://x:p@ss/word@h/p@ss", &secrets), "https://****@h/****");
        assert_eq!(shown("main p@ss/word", &secrets), "main ****");
    }

    #[test]
    fn an_address_is_named_the_same_with_and_without_its_credentials() {
        for (address, expected) in [
            ("https://u:p@h/r.git", "https://h/r.git"),
            ("https://${TOKEN}@h/r.git", "https://h/r.git"),
            ("https://h/r?token=t&a=1", "https://h/r?token=&a=1"),
            ("git@github.com:owner/repo.git", "git@github.com:owner/repo.git"),
            ("/home/a b:c@d/plugin", "/home/a b:c@d/plugin"),
        ] {
            assert_eq!(bare(address), expected, "{address}");
        }
    }

    #[test]
    fn a_hostile_text_is_read_in_one_pass() {
        // With a pass for every separator this would take hours.
        let begun = std::time::Instant::now();
        for part in ["://", "https://a:b?token=", ";token=", "?token=a&", "?a&", "=a:b@", "${", "${A:-"] {
            let text = format!("https://{}", part.repeat((1 << 19) / part.len()));
            let shown = without_credentials(&text);
            assert_eq!(without_credentials(&shown), shown, "{part}");
        }
        assert!(begun.elapsed() < std::time::Duration::from_secs(300), "{:?}", begun.elapsed());
    }
}
