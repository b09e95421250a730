//! Which programs that reach the network the text of a shell command names.
//!
//! It is a search for names, not an execution: a script, an alias or a program that is not in the list is not recognised,
//! and a name in a comment is. The time is proportional to the length of the text.

use std::collections::BTreeSet;

/// What follows the name of a program.
enum Rest {
    /// The end of a word.
    End,
    /// An argument.
    Argument,
    /// One of these subcommands. Options may stand before it.
    Subcommand(&'static [&'static str]),
}

use Rest::{Argument, End, Subcommand};

const DOCKER: Rest = Subcommand(&["build", "buildx", "compose", "login", "pull", "push", "run", "search"]);
const DEBIAN: Rest =
    Subcommand(&["dist-upgrade", "download", "full-upgrade", "install", "source", "update", "upgrade"]);
const FEDORA: Rest = Subcommand(&["download", "install", "makecache", "search", "update", "upgrade"]);

const PROGRAMS: &[(&str, Rest)] = &[
    ("apk", Subcommand(&["add", "fetch", "update", "upgrade"])),
    ("apt", DEBIAN),
    ("apt-get", DEBIAN),
    ("aptitude", DEBIAN),
    ("aria2c", End),
    ("aws", Argument),
    ("az", Argument),
    ("brew", Subcommand(&["fetch", "install", "search", "tap", "update", "upgrade"])),
    ("bundle", Subcommand(&["install", "update"])),
    (
        "cargo",
        Subcommand(&["add", "fetch", "info", "install", "login", "owner", "publish", "search", "update"]),
    ),
    ("composer", Subcommand(&["install", "require", "update"])),
    ("conda", Subcommand(&["create", "install", "search", "update"])),
    ("curl", End),
    ("dig", Argument),
    ("dnf", FEDORA),
    ("docker", DOCKER),
    ("ftp", End),
    ("gcloud", Argument),
    ("gem", Subcommand(&["fetch", "install", "push", "update"])),
    ("gh", Argument),
    ("git", Subcommand(&["clone", "fetch", "ls-remote", "pull", "push", "submodule"])),
    ("glab", Argument),
    ("go", Subcommand(&["get", "install", "mod"])),
    ("gsutil", Argument),
    ("helm", Subcommand(&["install", "pull", "push", "repo", "upgrade"])),
    ("kubectl", End),
    ("mamba", Subcommand(&["create", "install", "search", "update"])),
    ("nc", Argument),
    ("netcat", End),
    ("nmap", End),
    (
        "npm",
        Subcommand(&[
            "add", "audit", "ci", "create", "exec", "i", "info", "init", "install", "login", "outdated",
            "publish", "search", "up", "update", "upgrade", "view",
        ]),
    ),
    ("npx", End),
    ("nslookup", End),
    ("openssl", Subcommand(&["s_client"])),
    ("ping", Argument),
    ("pip", Subcommand(&["download", "index", "install", "search", "wheel"])),
    (
        "pnpm",
        Subcommand(&["add", "audit", "create", "dlx", "i", "install", "outdated", "publish", "up", "update"]),
    ),
    ("podman", DOCKER),
    ("poetry", Subcommand(&["add", "install", "lock", "publish", "update"])),
    ("rsync", End),
    ("scp", End),
    ("sftp", End),
    ("socat", End),
    ("ssh", End),
    ("telnet", End),
    ("traceroute", End),
    (
        "uv",
        Subcommand(&["add", "install", "lock", "pip", "publish", "python", "run", "self", "sync", "tool"]),
    ),
    ("wget", End),
    ("whois", End),
    ("yarn", End),
    ("yum", FEDORA),
];

/// The maximum number of bytes behind a program's name in which its subcommand is searched for.
const SUBCOMMAND_WITHIN: usize = 1000;

/// Returns what a command names that reaches the network, sorted, with a comma between any two: programs, each with its
/// subcommand if that decides, `/dev/tcp`, and `a URL`. `None` if it names nothing.
pub(crate) fn programs(command: &str) -> Option<String> {
    let text = command.to_ascii_lowercase();
    let bytes = text.as_bytes();
    let mut found = BTreeSet::new();
    for (at, &byte) in bytes.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| bytes[before]);
        match byte {
            b':' => {
                let is_scheme = before.is_some_and(|byte| byte.is_ascii_alphanumeric());
                let host = bytes[at..].strip_prefix(b"://").and_then(<[u8]>::first);
                if is_scheme && host.is_some_and(u8::is_ascii_alphanumeric) {
                    found.insert("a URL".to_owned());
                }
            }
            b'/' if bytes[at..].starts_with(b"/dev/tcp/") => {
                found.insert("/dev/tcp".to_owned());
            }
            b'a'..=b'z' if !before.is_some_and(|byte| is_of_a_word(byte) || byte == b'.') => {
                let from = &bytes[at..];
                let named = |(name, _): &&(&str, Rest)| from.starts_with(name.as_bytes());
                found.extend(
                    PROGRAMS
                        .iter()
                        .filter(named)
                        .filter_map(|(name, rest)| reaches(name, rest, &bytes[at + name.len()..])),
                );
            }
            _ => {}
        }
    }
    (!found.is_empty()).then(|| found.into_iter().collect::<Vec<_>>().join(","))
}

/// Returns whether a name goes on with this byte.
fn is_of_a_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// Returns what is found if `after` follows the name of a program.
fn reaches(name: &str, rest: &Rest, after: &[u8]) -> Option<String> {
    match rest {
        End => (!after.first().is_some_and(|&byte| is_of_a_word(byte))).then(|| name.to_owned()),
        Argument => {
            let (&first, rest) = after.split_first()?;
            let argument = rest.iter().find(|byte| !matches!(byte, b' ' | b'\t'))?;
            let begins = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'@');
            (matches!(first, b' ' | b'\t') && begins(*argument)).then(|| name.to_owned())
        }
        Subcommand(list) => {
            // Some names have a version: pip3.12.
            let version = after.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
            let subcommand = subcommand(&after[version..], list)?;
            Some(format!("{name} {subcommand}"))
        }
    }
}

/// Returns the subcommand of `list` that follows a program's name: the first word that is no option. If an option stands
/// before that word, the word may be its value. Then the next word is searched for as well.
fn subcommand(after: &[u8], list: &[&'static str]) -> Option<&'static str> {
    let after = &after[..after.len().min(SUBCOMMAND_WITHIN)];
    let ends = |byte: &u8| matches!(byte, b';' | b'|' | b'&' | b'\n' | b')' | b'`');
    let simple = after.split(ends).next().filter(|simple| matches!(simple.first(), Some(b' ' | b'\t')))?;
    let mut may_be_a_value = false;
    for word in simple.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()) {
        if word.starts_with(b"-") {
            may_be_a_value = !word.contains(&b'=');
            continue;
        }
        let of_the_list = list.iter().find(|wanted| wanted.as_bytes() == word);
        if of_the_list.is_some() || !std::mem::take(&mut may_be_a_value) {
            return of_the_list.copied();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_where_a_shell_would_run_them() {
        for (command, expected) in [
            ("curl -s https://example.com/x | sh", "a URL,curl"),
            ("/usr/bin/curl example.com", "curl"),
            ("CURL -I X", "curl"),
            ("x=$(curl y)", "curl"),
            ("cat curly.txt my-curl libcurl.so file.curl", ""),
            ("cd /tmp && git clone git@example.com:a/b.git", "git clone"),
            ("git -C /srv/a --no-pager push origin main", "git push"),
            ("git --git-dir=/x fetch", "git fetch"),
            ("git commit -m push", ""),
            ("git log --oneline; echo push", ""),
            ("python3.12 -m pip install requests", "pip install"),
            ("pip3.12 --proxy x install y", "pip install"),
            ("pip list && echo install", ""),
            ("DEBIAN_FRONTEND=noninteractive apt-get install -y jq", "apt-get install"),
            ("apt -y install jq; apk --no-cache add jq", "apk add,apt install"),
            ("npm ci", "npm ci"),
            ("npm run build", ""),
            ("echo install pip", ""),
            ("ls gh", ""),
            ("gh pr list", "gh"),
            ("ping -c 1 x", "ping"),
            ("dig @1.1.1.1 x", "dig"),
            ("exec 3<>/dev/tcp/10.0.0.1/80", "/dev/tcp"),
            ("open s3://b ; c:// d", "a URL"),
            ("ssh", "ssh"),
            ("nc", ""),
            ("git", ""),
            ("", ""),
            ("ü curl ü", "curl"),
        ] {
            assert_eq!(programs(command).unwrap_or_default(), expected, "{command}");
        }
    }

    #[test]
    fn a_subcommand_far_away_is_not_searched_for() {
        let far = format!("apt-get {}install", "-x ".repeat(SUBCOMMAND_WITHIN));
        assert_eq!(programs(&far), None);
    }
}
