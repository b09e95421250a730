//! `annals import --discover`: the places where OpenHands, Claude Code and Codex keep their conversations.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::{Value, json};

use crate::cli::print::{Output, bytes, count, plural, row, table, time};
use crate::error::{Error, Result};
use crate::ids::Timestamp;
use crate::transfer::{SourceFormat, discover};

/// The number of files whose sizes and times are read in one place.
const FILES_MAX: usize = 1_000_000;

/// A place where a program keeps conversations.
#[derive(Debug, PartialEq, Eq)]
struct Usual {
    /// The program.
    source: &'static str,
    path: PathBuf,
}

/// What is in such a place.
#[derive(Debug)]
pub(super) struct Place {
    source: &'static str,
    /// The folder.
    pub(super) path: PathBuf,
    conversations: u64,
    bytes: u64,
    /// When a file in it was last changed.
    newest: Option<SystemTime>,
}

/// Returns the places that are there and hold conversations. `format` is as in a search.
pub(super) fn look(format: Option<SourceFormat>) -> Result<Vec<Place>> {
    let mut seen: Vec<PathBuf> = Vec::new();
    let mut places = Vec::new();
    for Usual { source, path } in usual(&|name| std::env::var_os(name)) {
        let Ok(canonical) = fs::canonicalize(&path) else { continue };
        if !canonical.is_dir() || seen.contains(&canonical) {
            continue;
        }
        seen.push(canonical);
        let discovery = discover(&path, format)?;
        if !discovery.found.is_empty() {
            let mut place =
                Place { source, conversations: discovery.found.len() as u64, bytes: 0, newest: None, path };
            let mut left = FILES_MAX;
            let root = place.path.clone();
            place.measure(&root, &mut left);
            places.push(place);
        }
    }
    Ok(places)
}

/// Returns the usual places. Variables of these programs, which `variable` returns, move them.
fn usual(variable: &dyn Fn(&str) -> Option<OsString>) -> Vec<Usual> {
    let named = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = named(if cfg!(windows) { "USERPROFILE" } else { "HOME" });
    let below_home = |within: &str| home.as_ref().map(|home| home.join(within));
    let mut places = Vec::new();
    let mut add = |source: &'static str, path: Option<PathBuf>| {
        places.extend(path.map(|path| Usual { source, path }));
    };
    let openhands = named("OPENHANDS_PERSISTENCE_DIR")
        .or_else(|| named("OH_PERSISTENCE_DIR"))
        .or_else(|| below_home(".openhands"));
    let conversations = named("OPENHANDS_CONVERSATIONS_DIR")
        .or_else(|| openhands.as_ref().map(|folder| folder.join("conversations")));
    add("openhands", conversations);
    add("openhands", openhands.as_ref().map(|folder| folder.join("sessions")));
    // Agent Canvas.
    add("openhands", openhands.map(|folder| folder.join("agent-canvas/conversations")));
    add("openhands", below_home(".openhands-state/sessions"));
    add("openhands", named("OH_CONVERSATIONS_PATH").or_else(|| Some("workspace/conversations".into())));
    match named("CLAUDE_CONFIG_DIR") {
        Some(folder) => add("claude-code", Some(folder.join("projects"))),
        None => {
            add("claude-code", below_home(".claude/projects"));
            add("claude-code", below_home(".config/claude/projects"));
        }
    }
    let codex = named("CODEX_HOME").or_else(|| below_home(".codex"));
    add("codex", codex.as_ref().map(|folder| folder.join("sessions")));
    add("codex", codex.map(|folder| folder.join("archived_sessions")));
    places
}

impl Place {
    /// Adds the sizes and times of the files below a folder. Links are not followed, and what cannot be read is left out.
    fn measure(&mut self, folder: &Path, left: &mut usize) {
        let Ok(entries) = fs::read_dir(folder) else { return };
        for entry in entries.flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            if *left == 0 {
                return;
            }
            *left -= 1;
            if metadata.is_dir() {
                self.measure(&entry.path(), left);
            } else if metadata.is_file() {
                self.bytes += metadata.len();
                self.newest = self.newest.max(metadata.modified().ok());
            }
        }
    }

    /// Returns when a file in it was last changed.
    fn newest(&self) -> Option<Timestamp> {
        let since = self.newest?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        Some(Timestamp(i64::try_from(since.as_micros()).ok()?))
    }

    fn value(&self) -> Value {
        json!({
            "source": self.source,
            "path": self.path.to_string_lossy(),
            "conversations": self.conversations,
            "bytes": self.bytes,
            "newest": self.newest().map(Timestamp::to_rfc3339),
        })
    }
}

/// Returns the places as JSON.
pub(super) fn values(places: &[Place]) -> Value {
    places.iter().map(Place::value).collect()
}

/// Prints the places for people.
pub(super) fn print(places: &[Place], output: &Output) -> Result<()> {
    let mut rows = table(&["source", "conversations", "size", "newest (UTC)", "place"], &[1, 2]);
    for place in places {
        rows.add_row(row([
            place.source.into(),
            count(place.conversations),
            bytes(place.bytes),
            place.newest().map_or_else(|| "-".into(), time),
            place.path.to_string_lossy().into_owned(),
        ]));
    }
    if places.is_empty() {
        output.line("there are no conversations of OpenHands, Claude Code or Codex in the usual places")?;
        output.remark("`annals import PATH` takes them from another place");
        return Ok(());
    }
    output.table(rows)
}

/// Asks on the terminal whether the conversations are to be imported. False if there is no terminal.
pub(super) fn is_wanted(places: &[Place], database: &Path) -> Result<bool> {
    if !std::io::stdin().is_terminal() {
        return Ok(false);
    }
    let total = places.iter().map(|place| place.conversations).sum();
    let question = format!("import {} into {}? [y/N] ", plural(total, "conversation"), database.display());
    let mut answer = String::new();
    std::io::stderr()
        .write_all(question.as_bytes())
        .and_then(|()| std::io::stderr().flush())
        .map_err(Error::io("writing to", "standard error"))?;
    std::io::stdin().lock().read_line(&mut answer).map_err(Error::io("reading", "standard input"))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn variables_of_the_programs_move_their_places() {
        let paths = |set: &[(&str, &str)]| -> Vec<String> {
            let variable = |name: &str| {
                let value =
                    set.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value));
                value.or_else(|| (name == "HOME").then(|| "/home/ada".into()))
            };
            usual(&variable).into_iter().map(|place| place.path.to_string_lossy().into_owned()).collect()
        };
        let all = paths(&[]);
        for path in [".openhands/conversations", ".claude/projects", ".codex/sessions"] {
            assert!(all.contains(&format!("/home/ada/{path}")), "{path}: {all:?}");
        }
        let moved = paths(&[
            ("OPENHANDS_PERSISTENCE_DIR", "/oh"),
            ("CLAUDE_CONFIG_DIR", "/cc"),
            ("CODEX_HOME", "/cx"),
            ("OH_CONVERSATIONS_PATH", "/srv"),
        ]);
        assert_eq!(
            moved,
            [
                "/oh/conversations",
                "/oh/sessions",
                "/oh/agent-canvas/conversations",
                "/home/ada/.openhands-state/sessions",
                "/srv",
                "/cc/projects",
                "/cx/sessions",
                "/cx/archived_sessions",
            ]
        );
        assert_eq!(paths(&[("OPENHANDS_CONVERSATIONS_DIR", "/talks")])[0], "/talks");
        // An empty variable counts as not set. Without a home, only the named places are left.
        assert_eq!(paths(&[("CODEX_HOME", "")]), all);
        assert_eq!(
            paths(&[("HOME", ""), ("CODEX_HOME", "/cx")])[1..],
            ["/cx/sessions", "/cx/archived_sessions"]
        );
    }
}
