//! The project's rules that the compiler does not check: which modules may use each other, where crates, tables and SQL
//! belong, and how long a file may be.
//!
//! A failing test names the rule, and every file and line that breaks it.

use std::fs;
use std::path::{Path, PathBuf};

use annals::store::{ObjectKind, derived_objects};

/// Rooms, each with those that it may name.
type Rooms = &'static [(&'static str, &'static [&'static str])];

/// The rooms in the order of the tree, each with the rooms it may name. `cli` may name all.
const ROOMS: Rooms = &[
    // A macro, which every room may use.
    ("setters", &[]),
    ("json", &[]),
    ("price", &["json"]),
    ("chain", &[]),
    ("hunks", &[]),
    ("untrusted", &[]),
    ("ids", &[]),
    ("event", &["json", "chain", "ids"]),
    ("tree", &["ids", "event"]),
    ("state", &["json", "price", "ids", "event", "tree"]),
    ("view", &["ids", "event", "tree"]),
    ("message", &["ids", "event", "tree"]),
    ("stuck", &["json", "ids", "event", "tree"]),
    ("visualizer", &["json", "hunks", "ids", "event", "tree", "state"]),
    ("redact", &["json", "event"]),
    ("error", &["chain", "ids", "event", "tree", "state", "message", "redact"]),
    ("partial", &["untrusted", "error"]),
    (
        "store",
        &[
            "json",
            "price",
            "chain",
            "untrusted",
            "ids",
            "event",
            "tree",
            "state",
            "redact",
            "error",
            "partial",
        ],
    ),
    ("aio", &["ids", "event", "error", "store"]),
    (
        "transfer",
        &[
            "json",
            "chain",
            "untrusted",
            "ids",
            "event",
            "tree",
            "state",
            "view",
            "message",
            "error",
            "partial",
            "store",
        ],
    ),
    (
        "replay",
        &[
            "json", "chain", "hunks", "ids", "event", "tree", "state", "view", "message", "stuck", "error",
            "store",
        ],
    ),
    ("shared", &["chain", "untrusted", "error", "store"]),
    (
        "audit",
        &["json", "chain", "untrusted", "ids", "event", "redact", "error", "partial", "store", "replay"],
    ),
    ("doctor", &["untrusted", "ids", "event", "tree", "state", "error", "store", "transfer"]),
    ("program", &[]),
    ("ignored", &["untrusted"]),
    ("secret", &["json", "ignored", "untrusted"]),
    ("git", &["program", "secret"]),
    ("llm", &["json", "price", "untrusted", "secret", "ids", "event", "state", "message"]),
    ("hook", &["program", "ids", "event", "llm", "secret"]),
    ("shell", &[]),
    ("tool", &["json", "untrusted", "program", "shell", "secret", "ids", "event", "message", "llm"]),
    ("skill", &["json", "untrusted", "program", "secret", "ids", "event", "message", "llm", "tool"]),
    ("remote", &["json", "ids", "event", "state", "error", "store", "secret", "llm"]),
    (
        "agent",
        &[
            "json",
            "untrusted",
            "ids",
            "event",
            "state",
            "view",
            "message",
            "stuck",
            "llm",
            "program",
            "shell",
            "tool",
            "skill",
            "secret",
        ],
    ),
    ("plugin", &["json", "untrusted", "program", "secret", "git", "ids", "event", "hook", "skill", "agent"]),
    (
        "conversation",
        &[
            "json",
            "untrusted",
            "ids",
            "event",
            "tree",
            "state",
            "view",
            "message",
            "stuck",
            "error",
            "store",
            "secret",
            "llm",
            "hook",
            "tool",
            "skill",
            "agent",
            "plugin",
            "remote",
        ],
    ),
    ("page", &["chain"]),
    ("mcp", &["json", "chain", "ids", "event", "visualizer", "redact", "error", "store", "audit", "llm"]),
    (
        "server",
        &[
            "json",
            "aio",
            "chain",
            "untrusted",
            "program",
            "git",
            "ids",
            "event",
            "tree",
            "state",
            "view",
            "message",
            "error",
            "store",
            "transfer",
            "replay",
            "audit",
            "secret",
            "hook",
            "llm",
            "tool",
            "skill",
            "agent",
            "plugin",
            "conversation",
            "stuck",
            "page",
            "mcp",
        ],
    ),
    ("conversation_state", &["ids", "event", "tree", "state", "error", "store", "transfer"]),
];

/// Rooms, each with the rooms it may name.
type Rows = [(&'static str, &'static [&'static str])];

/// The rooms that have rooms of their own. These are in the order of their `mod.rs`, each with those that it may name. A
/// file beside `mod.rs` is a room of its own; `mod.rs` may name all.
const SUBROOMS: &[(&str, &Rows)] = &[
    (
        "store",
        &[
            // Only tests of the store use it. It records statements of every connection.
            ("plans", &[]),
            ("engine", &[]),
            ("own", &["engine"]),
            ("options", &["own"]),
            ("table", &["options", "engine"]),
            ("derived", &["plans", "options", "engine", "own", "table"]),
            ("file", &["plans", "options", "engine", "own", "table", "derived"]),
            ("replica", &["engine", "table", "derived"]),
            ("write", &["options", "engine", "own", "table", "derived", "file", "replica"]),
            ("read", &["options", "engine", "own", "table", "derived", "file", "write"]),
            ("transfer", &["options", "engine", "table", "write"]),
            ("maintenance", &["options", "engine", "table", "derived", "file", "read", "transfer"]),
            ("handle", &["options", "engine", "table", "derived", "file", "write", "read"]),
            ("replicated", &["options", "table", "file", "replica", "write", "maintenance", "handle"]),
        ],
    ),
    (
        "conversation",
        &[
            ("error", &[]),
            ("claim", &["error"]),
            ("host", &["error", "claim"]),
            ("memory", &["error", "host"]),
            ("local", &["error", "claim", "host", "memory"]),
            ("setup", &["error", "memory", "local"]),
            ("run", &["error", "claim", "memory", "local", "setup"]),
            ("control", &["error", "memory", "local", "setup", "run"]),
            ("open", &["error", "claim", "host", "memory", "local"]),
            ("task", &["error", "memory", "local"]),
            ("remote", &["error", "memory", "local", "run", "control", "open"]),
            ("any", &["error", "memory", "local", "run", "control", "open", "remote"]),
        ],
    ),
    (
        "server",
        &[
            ("webhook", &[]),
            ("schedule", &[]),
            ("config", &["webhook", "schedule"]),
            ("http", &["config"]),
            ("live", &["webhook", "schedule", "config", "http"]),
            ("settings", &["config", "http", "live"]),
            ("workspace", &["config", "http", "live"]),
            ("conversation", &["config", "http", "live", "settings", "workspace"]),
            ("socket", &["http", "live", "workspace"]),
            ("annals", &["http", "live"]),
            ("site", &["http", "live", "settings"]),
        ],
    ),
];

/// Crates that live in one place, and where.
const CRATES: &[(&[&str], &[&str])] = &[
    (&["pty_process"], &["src/tool/terminal/"]),
    (&["rmcp"], &["src/tool/mcp/", "src/mcp/", "src/server/annals/mcp.rs"]),
    (&["ignore"], &["src/tool/", "src/skill/folder.rs"]),
    (&["yaml_rust2"], &["src/skill/front.rs"]),
    (&["chardetng", "encoding_rs"], &["src/tool/file_editor/"]),
    (
        &["rusqlite", "r2d2", "r2d2_sqlite", "refinery"],
        &["src/store/", "src/error.rs", "src/shared/schema.rs"],
    ),
    (&["postgres", "tokio_postgres", "tokio_postgres_rustls"], &["src/shared/"]),
    (&["axum"], &["src/server/"]),
    (
        &[
            "clap",
            "clap_complete",
            "comfy_table",
            "crossterm",
            "figment",
            "indicatif",
            "listenfd",
            "signal_hook",
            "terminal_size",
        ],
        &["src/cli/"],
    ),
    (&["reqwest"], &["src/llm/", "src/remote/", "src/tool/mcp/address.rs"]),
    (&["futures_util", "tokio_tungstenite"], &["src/remote/", "src/server/"]),
    (&["rustls"], &["src/llm/", "src/server/http/certificates.rs", "src/shared/address.rs"]),
    (&["rustls_platform_verifier"], &["src/llm/", "src/shared/address.rs"]),
    (&["tokio_rustls"], &["src/server/http/certificates.rs"]),
    (&["aho_corasick", "fernet", "zeroize"], &["src/secret/"]),
    (&["ed25519_dalek"], &["src/audit/proof/key.rs"]),
    (&["getrandom"], &["src/audit/proof/key.rs", "src/cli/server_keys.rs"]),
    (&["parquet"], &["src/transfer/columns.rs"]),
    (&["tracing"], &["src/store/engine/trace.rs", "src/server/live/notice.rs", "src/cli/journal.rs"]),
    (&["tracing_subscriber"], &["src/cli/journal.rs"]),
    (&["base64"], &["src/audit/seen/", "src/event/foreign.rs", "src/llm/", "src/mcp/cursor.rs", "src/tool/"]),
    (&["rmp"], &["src/transfer/foreign/msgpack.rs"]),
    (&["rawzip"], &["src/server/workspace/zip.rs"]),
    (
        &["percent_encoding"],
        &[
            "src/redact/finder.rs",
            "src/remote/log.rs",
            "src/server/http/percent.rs",
            "src/store/engine/uri.rs",
        ],
    ),
];

/// The files that may write each table. Every file of the store may read it. Derived tables without a row here belong
/// to [`PROJECTIONS`].
const OWNERS: &[(&str, &[&str])] = &[
    ("arrival", &["src/store/table/arrival.rs"]),
    ("admin_act", &["src/store/table/admin.rs"]),
    ("admin_receipt", &["src/store/table/admin.rs"]),
    ("archive_dictionary", &["src/store/table/archive/"]),
    ("archive_source", &["src/store/table/archive/"]),
    ("archived_conversation", &["src/store/table/archive/"]),
    ("archived_payload", &["src/store/table/archive/"]),
    ("attachment", &["src/store/table/attachment.rs"]),
    ("base_state", &["src/store/table/base_state"]),
    ("base_state_change", &["src/store/table/base_state"]),
    ("blob", &["src/store/table/attachment.rs"]),
    ("change", &["src/store/table/change/"]),
    ("conversation", &["src/store/table/catalogue.rs"]),
    ("event", &["src/store/table/log.rs"]),
    ("event_file", &["src/store/table/origin.rs"]),
    ("head_change", &["src/store/table/base_state"]),
    // What stands beside the events says that the facts have changed.
    ("fact_stale", &["src/store/derived/projection/", "src/store/table/stale.rs"]),
    ("host_stale", &["src/store/derived/projection/hosted/"]),
    ("host_table", &["src/store/derived/projection/hosted/"]),
    // Its one row is made with the file, and made anew where the file is cut at a point.
    ("log", &["src/store/table/log.rs", "src/store/derived/migration.rs"]),
    ("maintenance", &["src/store/table/guards.rs"]),
    ("origin", &["src/store/table/origin.rs"]),
    ("problem", &["src/store/table/origin.rs"]),
    ("repair", &["src/store/table/repair.rs"]),
    ("replica", &["src/store/table/replica.rs"]),
    ("projection", &["src/store/derived/projection/mod.rs"]),
    ("server_key", &["src/store/table/server_key.rs"]),
    ("subscription", &["src/store/read/subscription.rs"]),
    ("write_log", &["src/store/engine/generation.rs"]),
    // The base state says that its figures have changed.
    ("usage_stale", &["src/store/derived/projection/", "src/store/table/base_state.rs"]),
];

/// The files that may write the tables of projections.
const PROJECTIONS: &[&str] = &["src/store/derived/projection/"];

/// Returns the names of the tables that can be recreated from the log: those that projections describe, and a few more.
fn derived_tables() -> Vec<String> {
    let objects = derived_objects().unwrap().into_iter();
    objects.filter(|object| object.kind == ObjectKind::Table).map(|object| object.name).collect()
}

/// Returns the files that may write a table. `None` for a table that has no row in [`OWNERS`] and is not in `derived`.
fn owners(table: &str, derived: &[String]) -> Option<&'static [&'static str]> {
    let row = OWNERS.iter().find(|(name, _)| *name == table).map(|(_, owners)| *owners);
    row.or_else(|| derived.iter().any(|name| name == table).then_some(PROJECTIONS))
}

/// The maximum number of lines of a file, without its tests.
const LINES_MAX: usize = 500;

struct Source {
    /// Its path from the root of the repository.
    path: String,
    /// Its lines. Lines of tests and of comments are empty.
    code: Vec<String>,
}

impl Source {
    fn room(&self) -> Option<&str> {
        let path = self.path.strip_prefix("src/")?;
        let room = path.split('/').next()?;
        Some(room.strip_suffix(".rs").unwrap_or(room)).filter(|room| !["lib", "main"].contains(room))
    }

    /// The room within its room: the folder or the file beside `mod.rs`. `None` for `mod.rs`.
    fn subroom(&self) -> Option<&str> {
        let path = self.path.strip_prefix("src/")?.strip_prefix(self.room()?)?.strip_prefix('/')?;
        let name = path.split('/').next()?;
        Some(name.strip_suffix(".rs").unwrap_or(name)).filter(|name| !["mod", "tests"].contains(name))
    }

    /// How deep its module is: 1 for a room's own.
    fn depth(&self) -> usize {
        let path = self.path.strip_prefix("src/").unwrap_or(&self.path);
        let path = path.strip_suffix("/mod.rs").or_else(|| path.strip_suffix(".rs")).unwrap_or(path);
        path.split('/').count()
    }
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn files(folder: &str, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    assert!(!found.is_empty(), "there is no .{ending} file in {folder}");
    found
}

fn name(path: &Path) -> String {
    path.strip_prefix(root()).unwrap().to_str().unwrap().replace('\\', "/")
}

fn read(path: &Path) -> Source {
    let mut code = Vec::new();
    let text = fs::read_to_string(path).unwrap();
    let mut in_tests = name(path).ends_with("tests.rs") || name(path).ends_with("store/plans.rs");
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let next = lines.peek().copied().unwrap_or_default();
        in_tests |= line == "#[cfg(test)]" && next.starts_with("mod ") && next.ends_with('{');
        let comment = line.trim_start().starts_with("//");
        code.push(if in_tests || comment { String::new() } else { line.to_owned() });
    }
    Source { path: name(path), code }
}

fn sources(folder: &str) -> Vec<Source> {
    files(folder, "rs").iter().map(|path| read(path)).collect()
}

/// Fails with every line of `folder` for which `wrong` returns a reason.
#[track_caller]
fn assert_lines(folder: &str, rule: &str, wrong: impl Fn(&Source, &str) -> Option<String>) {
    let mut found = Vec::new();
    for source in sources(folder) {
        for (number, line) in source.code.iter().enumerate() {
            if let Some(what) = wrong(&source, line) {
                found.push(format!("{}:{}: {what}", source.path, number + 1));
            }
        }
    }
    assert!(found.is_empty(), "{rule}\n{}", found.join("\n"));
}

/// The names that follow `mark` in a line: `crate::store`, and those within `crate::{…}`.
fn named<'a>(line: &'a str, mark: &str) -> Vec<&'a str> {
    let mut names = Vec::new();
    for (at, _) in line.match_indices(mark) {
        let rest = &line[at + mark.len()..];
        match rest.strip_prefix('{') {
            Some(list) => {
                let list = list.split('}').next().unwrap_or(list);
                names.extend(list.split(',').map(|part| word(part.trim())));
            }
            None => names.push(word(rest)),
        }
    }
    names
}

/// The name that a text begins with.
fn word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}

/// The structs of the public interface must be able to grow, and its errors too. `docs/interface.txt` lists it.
#[test]
fn public_structs_and_errors_can_grow() {
    let text = fs::read_to_string(root().join("docs/interface.txt")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let is_closed = |(place, line): (usize, &&str)| {
        let is_error = line.strip_prefix("pub enum ").is_some_and(|name| name.ends_with("Error"));
        let has_fields = line.strip_prefix("pub struct ").is_some_and(|name| {
            let name = name.split(['<', '(']).next().unwrap_or_default();
            let field = lines.get(place + 1).and_then(|next| next.strip_prefix(&format!("pub {name}::")));
            field.is_some_and(|field| field.contains(": "))
        });
        is_error || has_fields
    };
    let closed: Vec<&str> =
        lines.iter().enumerate().filter(|one| is_closed(*one)).map(|(_, line)| *line).collect();
    assert_eq!(closed, Vec::<&str>::new(), "each of these needs #[non_exhaustive]");
    assert!(lines.iter().filter(|line| line.starts_with("#[non_exhaustive] pub struct ")).count() > 100);
}

#[test]
fn rooms_name_only_rooms_above_them() {
    let is_room = |name: &str| name == "cli" || ROOMS.iter().any(|(room, _)| *room == name);
    assert_lines(
        "src",
        "a room names a room that it may not name (ROOMS in tests/tidy.rs)",
        |source, line| {
            let room = source.room()?;
            if room == "cli" {
                return None;
            }
            let Some((_, known)) = ROOMS.iter().find(|(name, _)| *name == room) else {
                return (!line.is_empty()).then(|| format!("the room {room} has no place in the table"));
            };
            let mut names = named(line, "crate::");
            let out = "super::".repeat(source.depth());
            names.extend(named(line, &out).into_iter().filter(|name| is_room(name)));
            let unknown =
                names.into_iter().find(|name| is_room(name) && *name != room && !known.contains(name));
            unknown.map(|name| format!("{room} names {name}"))
        },
    );
}

#[test]
fn every_room_is_in_the_table() {
    let rooms: Vec<String> =
        sources("src").iter().filter_map(|source| source.room().map(str::to_owned)).collect();
    for room in rooms.iter().filter(|room| *room != "cli") {
        assert!(ROOMS.iter().any(|(name, _)| name == room), "the room {room} has no place in the table");
    }
    for (room, known) in ROOMS {
        assert!(rooms.iter().any(|there| there == room), "there is no room {room}");
        let place = |name: &str| ROOMS.iter().position(|(room, _)| *room == name);
        for name in *known {
            assert!(place(name) < place(room), "{room} may name {name}, which is not above it");
        }
    }
}

/// The paths of a tree of imports: `a::{b, c::{d, e}}` has three.
fn paths(tree: &str) -> Vec<String> {
    let Some((before, rest)) = tree.split_once('{') else { return vec![tree.trim().to_owned()] };
    let (mut paths, mut depth, mut part) = (Vec::new(), 0, String::new());
    for character in rest.chars() {
        match character {
            ',' | '}' if depth == 0 => {
                paths.push(std::mem::take(&mut part));
                if character == '}' {
                    break;
                }
                continue;
            }
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        part.push(character);
    }
    let paths = paths.iter().map(|part| part.trim()).filter(|part| !part.is_empty());
    paths.flat_map(|part| self::paths(&format!("{}{part}", before.trim()))).collect()
}

/// The tree of imports that a text begins with.
fn tree(text: &str) -> &str {
    let mut depth = 0;
    let end = text.find(|character: char| {
        depth += i32::from(character == '{') - i32::from(character == '}');
        let is_over = depth <= 0 && character == '}';
        is_over || (depth == 0 && !word_character(character))
    });
    &text[..end.map_or(text.len(), |end| end + usize::from(text[end..].starts_with('}')))]
}

/// The paths that follow `mark` in a text, each with the number of its line.
fn paths_after(text: &str, mark: &str) -> Vec<(usize, String)> {
    let begins = text.match_indices(mark).filter(|(at, _)| !text[..*at].ends_with(word_character));
    begins
        .flat_map(|(at, _)| {
            let line = text[..at].matches('\n').count() + 1;
            paths(tree(&text[at + mark.len()..])).into_iter().map(move |path| (line, path))
        })
        .collect()
}

/// The names that a room's `mod.rs` imports from its own rooms, each with the room that it comes from.
fn imported(room: &str, rows: &Rows) -> Vec<(String, String)> {
    let text = read(&root().join(format!("src/{room}/mod.rs"))).code.join("\n");
    let mut imported = Vec::new();
    for (at, mark) in text.match_indices("use ") {
        for path in paths(tree(&text[at + mark.len()..])) {
            let path = path.strip_prefix("self::").unwrap_or(&path);
            let path = path.strip_prefix(&format!("crate::{room}::")).unwrap_or(path);
            if let (Some((from, _)), Some(name)) = (path.split_once("::"), path.rsplit("::").next())
                && rows.iter().any(|(row, _)| *row == from)
            {
                imported.push((name.to_owned(), from.to_owned()));
            }
        }
    }
    imported
}

#[test]
fn rooms_within_a_room_name_only_those_above_them() {
    let mut found = Vec::new();
    for (room, rows) in SUBROOMS {
        let imported = imported(room, rows);
        for source in sources(&format!("src/{room}")) {
            let Some(own) = source.subroom() else { continue };
            let known = rows.iter().find(|(row, _)| *row == own).map_or(&[][..], |(_, known)| *known);
            let text = source.code.join("\n");
            let up = "super::".repeat(source.depth() - 1);
            for mark in [format!("crate::{room}::"), up] {
                for (line, path) in paths_after(&text, &mark) {
                    let name = word(&path);
                    let from = imported.iter().find(|(imported, _)| imported == name);
                    let name = from.map_or(name, |(_, room)| room);
                    let is_room = rows.iter().any(|(row, _)| *row == name);
                    if is_room && name != own && !known.contains(&name) {
                        found.push(format!("{}:{line}: {room}::{own} names {name}", source.path));
                    }
                }
            }
        }
    }
    let rule = "a room names one within its room that it may not know (SUBROOMS in tests/tidy.rs)";
    assert!(found.is_empty(), "{rule}\n{}", found.join("\n"));
}

#[test]
fn every_room_within_a_room_has_its_place_in_the_table() {
    for (room, rows) in SUBROOMS {
        let sources = sources(&format!("src/{room}"));
        for source in &sources {
            let Some(own) = source.subroom() else { continue };
            let is_there = rows.iter().any(|(row, _)| *row == own);
            assert!(is_there, "{}: {room}::{own} has no place in the table", source.path);
        }
        for (place, (row, known)) in rows.iter().enumerate() {
            assert!(sources.iter().any(|source| source.subroom() == Some(row)), "there is no {room}::{row}");
            for name in *known {
                let is_above = rows[..place].iter().any(|(above, _)| above == name);
                assert!(is_above, "{room}::{row} may name {name}, which is not above it");
            }
        }
    }
}

#[test]
fn crates_are_used_only_in_their_places() {
    assert_lines("src", "a crate is used outside its place (CRATES in tests/tidy.rs)", |source, line| {
        let (names, places) = CRATES.iter().find(|(names, _)| {
            names.iter().any(|name| {
                let used = |mark: &str| {
                    line.match_indices(mark).any(|(at, _)| !line[..at].ends_with(word_character))
                };
                used(&format!("{name}::")) || used(&format!("use {name};"))
            })
        })?;
        let lives_here = places.iter().any(|place| source.path.starts_with(place));
        (!lives_here).then(|| format!("{} may be used in {}", names.join(", "), places.join(", ")))
    });
}

fn word_character(character: char) -> bool {
    character.is_alphanumeric() || character == '_' || character == ':'
}

#[test]
fn no_file_is_too_long() {
    let long: Vec<String> = sources("src")
        .iter()
        .map(|source| {
            // Comments count, because they are read too. Tests do not count.
            let end = source.code.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
            (&source.path, end)
        })
        .filter(|(_, lines)| *lines > LINES_MAX)
        .map(|(path, lines)| format!("{path} has {lines} lines without its tests, {LINES_MAX} are allowed"))
        .collect();
    assert!(long.is_empty(), "{}", long.join("\n"));
}

#[test]
fn no_test_is_ignored() {
    // The mark is written in two parts, so that this file does not contain it.
    let mark = concat!("#[ig", "nore");
    for folder in ["src", "tests", "benches", "examples"] {
        for path in files(folder, "rs") {
            let text = fs::read_to_string(&path).unwrap();
            assert!(!text.contains(mark), "{} ignores a test", name(&path));
        }
    }
}

#[test]
fn code_and_comments_use_plain_words() {
    // `docs/architecture.md` and the contributing guide ask for the standard term: reported, received, each caller.
    let words = ["told", "hear", "hears", "heard", "knock", "whoever", "nobody"];
    // Names of other programs and of columns: the last are part of the interface.
    let names = ["told_by"];
    let is_of_a_word = |character: char| character.is_alphanumeric() || character == '_';
    let mut found = Vec::new();
    for path in files("src", "rs").into_iter().chain(files("tests/rig", "rs")) {
        for (number, line) in fs::read_to_string(&path).unwrap().lines().enumerate() {
            let parts = line.split(|character: char| !is_of_a_word(character));
            let mut parts = parts.filter(|part| !names.contains(part)).flat_map(|part| part.split('_'));
            if let Some(word) = parts.find(|part| words.contains(&part.to_lowercase().as_str())) {
                found.push(format!("{}:{}: {word}", name(&path), number + 1));
            }
        }
    }
    assert!(found.is_empty(), "the standard term is clearer than these words\n{}", found.join("\n"));
}

#[test]
fn only_the_command_line_reads_the_environment() {
    assert_lines("src", "environment variables are read in src/cli", |source, line| {
        let reads = line.contains("env::var") || line.contains("env::set_var");
        // These files read variables to withhold them: a program gets only a few.
        let keepers = ["src/tool/mcp/program.rs", "src/secret/environment.rs"];
        let may = source.path.starts_with("src/cli/") || keepers.contains(&source.path.as_str());
        (reads && !may).then(|| line.trim().to_owned())
    });
}

#[test]
fn tests_never_sleep() {
    let mark = concat!("thread::", "sleep");
    for path in files("tests", "rs") {
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains(mark), "{} sleeps", name(&path));
    }
}

#[test]
fn tests_make_programs_only_where_no_fork_can_keep_them_busy() {
    let marks = [concat!("from_mode(", "0o755)"), concat!("copy(env!(", "\"CARGO_BIN_EXE")];
    for path in files("tests", "rs") {
        let text = fs::read_to_string(&path).unwrap();
        let found = marks.iter().find(|mark| text.contains(**mark));
        assert!(found.is_none(), "{}: {found:?}; tests/it/support/executable.rs does that", name(&path));
    }
}

/// The tables that a piece of SQL writes.
fn written_tables(line: &str) -> Vec<&str> {
    let mut tables = Vec::new();
    for (at, _) in line.match_indices(" INTO ").chain(line.match_indices("DELETE FROM ")) {
        let rest = &line[at..];
        let table = rest.trim_start_matches(" INTO ").trim_start_matches("DELETE FROM ");
        let verb = &line[..at];
        let inserts = ["INSERT", "REPLACE", "OR FAIL", "OR IGNORE"].iter().any(|word| verb.ends_with(word));
        if rest.starts_with("DELETE") || inserts {
            tables.push(word(table));
        }
    }
    for (at, _) in line.match_indices("UPDATE ") {
        tables.push(word(&line[at + "UPDATE ".len()..]));
    }
    tables
}

#[test]
fn a_table_is_written_only_by_its_owner() {
    let derived = derived_tables();
    assert_lines(
        "src",
        "a table is written by a file that does not own it (OWNERS in tests/tidy.rs)",
        |source, line| {
            // Its tables are those of a server.
            let is_server = source.path.starts_with("src/shared/");
            written_tables(line).into_iter().filter(|_| !is_server).find_map(|table| {
                let owners = owners(table, &derived)?;
                let owns = owners.iter().any(|owner| source.path.starts_with(owner));
                (!owns).then(|| format!("{table} belongs to {}", owners.join(", ")))
            })
        },
    );
}

#[test]
fn the_map_describes_every_room() {
    let document = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let row = |name: &str| document.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
    for room in ROOMS.iter().map(|(room, _)| *room).chain(["cli"]) {
        assert!(row(room).is_some(), "docs/architecture.md does not describe the room {room}");
    }
    let (_, large) = document.split_once("| room | its rooms |").unwrap();
    for (room, subrooms) in SUBROOMS {
        let row = large.lines().find(|line| line.starts_with(&format!("| `{room}` |"))).unwrap_or_default();
        for (subroom, _) in *subrooms {
            assert!(
                row.contains(&format!("`{subroom}`")),
                "docs/architecture.md does not name {room}::{subroom}"
            );
        }
    }
}

#[test]
fn every_table_has_an_owner() {
    let derived = derived_tables();
    for path in files("migrations", "sql") {
        let text = fs::read_to_string(&path).unwrap();
        for (at, mark) in
            ["CREATE TABLE ", "CREATE VIRTUAL TABLE "].iter().flat_map(|mark| text.match_indices(mark))
        {
            let table = word(&text[at + mark.len()..]);
            assert!(
                owners(table, &derived).is_some(),
                "{}: {table} is neither in OWNERS of tests/tidy.rs nor among the tables of a projection",
                name(&path)
            );
        }
    }
}

#[test]
fn every_table_is_documented() {
    let document = fs::read_to_string(root().join("docs/format.md")).unwrap();
    let (_, beneath) = document.split_once("## The tables beneath").unwrap();
    let derived = derived_tables();
    // The document has one row for the tables in which the engine stores the search index.
    let derived = derived.iter().map(String::as_str).filter(|name| !name.starts_with("transcript_search_"));
    for table in OWNERS.iter().map(|(table, _)| *table).chain(derived) {
        let rows = beneath.lines().filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
        let mut names = rows.flat_map(|names| names.split(", "));
        assert!(names.any(|name| name == table), "docs/format.md has no row for the table {table}");
    }
}

#[test]
fn sql_lives_in_the_store() {
    assert_lines("src", "SQL outside src/store", |source, line| {
        let sql =
            ["SELECT ", "INSERT INTO ", "DELETE FROM ", "PRAGMA "].iter().any(|mark| line.contains(mark));
        // Reports query the documented views, as every program may. The command line shows examples.
        // The room `shared` speaks to a server.
        let may = ["src/store/", "src/audit/", "src/cli/", "src/shared/"]
            .iter()
            .any(|place| source.path.starts_with(place));
        (sql && !may).then(|| line.trim().to_owned())
    });
}

#[test]
fn a_test_needs_no_client_that_another_test_has_prepared() {
    // A client needs a TLS provider, which is one for the whole process. `http_client` installs it.
    assert_lines("tests/it", "use `http_client` of tests/it/support/served.rs", |source, line| {
        let makes = ["Client::builder()", "reqwest::Client::new()"].iter().any(|mark| line.contains(mark));
        (makes && source.path != "tests/it/support/served.rs").then(|| line.trim().to_owned())
    });
}

#[test]
fn every_view_is_documented() {
    let document = fs::read_to_string(root().join("docs/format.md")).unwrap();
    let headings: Vec<&str> = document.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    let mut views = 0;
    for object in derived_objects().unwrap().iter().filter(|object| object.kind == ObjectKind::View) {
        let view = &object.name;
        views += 1;
        let is_documented = headings.iter().any(|heading| heading.split(", ").any(|name| name == view));
        assert!(is_documented, "docs/format.md has no heading for the view {view}");
    }
    assert!(views >= 10, "{views}");
}

#[test]
fn every_test_that_the_conformance_page_names_exists() {
    let page = fs::read_to_string(root().join("docs/conformance.md")).unwrap();
    let names = page.split('`').skip(1).step_by(2).filter_map(|name| name.split_once("::"));
    let mut missing = Vec::new();
    let mut count = 0;
    for (module, test) in names {
        count += 1;
        let text = fs::read_to_string(root().join(format!("tests/it/{module}.rs"))).unwrap_or_default();
        if !text.contains(&format!("fn {test}(")) {
            missing.push(format!("{module}::{test}"));
        }
    }
    assert!(missing.is_empty(), "docs/conformance.md names tests that do not exist: {missing:#?}");
    assert!(count > 40, "{count} tests are named");
}

/// The pages on security and reliability name the tests, files and variables that prove their promises.
#[test]
fn names_on_the_security_and_reliability_pages_exist() {
    let mut all = String::new();
    let mut folders = vec![root().join("tests"), root().join("src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path
                .extension()
                .is_some_and(|ending| ["rs", "py", "sh"].iter().any(|one| ending == *one))
            {
                all.push_str(&fs::read_to_string(&path).unwrap());
            }
        }
    }
    let (mut missing, mut count) = (Vec::new(), 0);
    for page in ["docs/security.md", "docs/reliability.md"] {
        let text = fs::read_to_string(root().join(page)).unwrap();
        for name in text.split('`').skip(1).step_by(2) {
            let is_word = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            let is_there = if name.starts_with("tests/") && !name.contains([' ', '*', '{']) {
                root().join(name).exists()
            } else if name.starts_with("ANNALS_") && is_word(name) {
                all.contains(name)
            } else if is_word(name) && name.matches('_').count() >= 3 && name.to_lowercase() == name {
                all.contains(&format!("fn {name}(")) || all.contains(&format!("def {name}("))
            } else {
                continue;
            };
            count += 1;
            if !is_there {
                missing.push(format!("{page}: {name}"));
            }
        }
    }
    assert!(missing.is_empty(), "these are named and do not exist: {missing:#?}");
    assert!(count > 60, "{count} are named");
}
